"""Losses, Fourier transforms, windows of signals, and random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import nn, random
from tfn import numpy as jnp
from tfn.errors import ArgumentError
from tfn.onnx.ops.known import Value, integers, like, numbers
from tfn.onnx.schema import DTYPES

Key = Callable[[int | None], Value]


def NegativeLogLikelihoodLoss(
    x: Value,
    target: Value,
    weight: Value = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Value:
    """The negated logarithms of the classes that are right."""
    x, target = jnp.asarray(x), jnp.asarray(target)
    ignored = target == ignore_index if ignore_index is not None else jnp.zeros(target.shape, bool)
    places = jnp.where(ignored, 0, target)
    loss = -jnp.take_along_axis(x, places[:, None], 1)[:, 0]
    factor = jnp.ones(target.shape, x.dtype) if weight is None else jnp.asarray(weight)[places]
    factor = jnp.where(ignored, like(x, 0), factor)
    loss = loss * factor
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / factor.sum()


def SoftmaxCrossEntropyLoss(
    x: Value,
    target: Value,
    weight: Value = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
    outputs: int = 1,
) -> Value:
    """The cross-entropy of the classes that are right."""
    logs = nn.log_softmax(jnp.asarray(x), axis=1)
    loss = NegativeLogLikelihoodLoss(logs, target, weight, ignore_index, reduction)
    return (loss, logs) if outputs > 1 else loss


def _complex(x: Value) -> Value:
    """Numbers of which the last axis has the real and perhaps the imaginary part."""
    return x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]


def _parts(x: Value, dtype: Any) -> Value:
    return jnp.stack([jnp.real(x), jnp.imag(x)], -1).astype(dtype)


def DFT(
    x: Value,
    length: Value = None,
    over: Value = None,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
    opset: int = 20,
) -> Value:
    """The Fourier transform along an axis."""
    x = jnp.asarray(x)
    along = integers(over, "an axis")[0] if over is not None else -2 if opset >= 20 else axis
    along %= x.ndim
    values = _complex(x)
    n = None if length is None else integers(length, "a length")[0]
    if inverse and onesided:
        return jnp.fft.irfft(values, n, along)[..., None].astype(x.dtype)
    if inverse:
        return _parts(jnp.fft.ifft(values, n, along), x.dtype)
    y = jnp.fft.fft(values, n, along)
    if onesided:
        y = jnp.take(y, np.arange(y.shape[along] // 2 + 1), along)
    return _parts(y, x.dtype)


def STFT(
    x: Value, step: Value, window: Value = None, length: Value = None, onesided: int = 1
) -> Value:
    """The Fourier transforms of frames of a signal."""
    x = jnp.asarray(x)
    hop = integers(step, "a step")[0]
    size = integers(length, "a length")[0] if length is not None else window.shape[0]
    signal = _complex(x) if x.ndim == 3 else x
    frames = (signal.shape[1] - size) // hop + 1
    rows = signal[:, np.arange(frames)[:, None] * hop + np.arange(size)]
    y = jnp.fft.fft(rows if window is None else rows * jnp.asarray(window), axis=-1)
    return _parts(y[..., : size // 2 + 1] if onesided else y, x.dtype)


def _window(*weights: float) -> Callable[..., Value]:
    """A window of cosines of multiples of the angle."""

    def op(size: Value, output_datatype: int = 1, periodic: int = 1) -> Value:
        n = integers(size, "a size")[0]
        angle = 2 * np.pi * np.arange(n) / (n if periodic else n - 1)
        values = sum(w * np.cos(k * angle) for k, w in enumerate(weights))
        return np.asarray(values, DTYPES[output_datatype])

    return op


def MelWeightMatrix(
    bins: Value, length: Value, rate: Value, low: Value, high: Value, output_datatype: int = 1
) -> Value:
    """Weights of frequencies in bins of the mel scale."""
    count, size, hertz = (integers(v, "sizes")[0] for v in (bins, length, rate))
    first, last = (
        2595 * np.log10(1 + float(numbers(v, "ends").reshape(-1)[0]) / 700) for v in (low, high)
    )
    mels = first + np.arange(count + 2) * (last - first) / (count + 2)
    edges = ((size + 1) * 700 * (10 ** (mels / 2595) - 1) // hertz).astype(int)
    matrix = np.zeros((size // 2 + 1, count))
    for i in range(count):
        a, b, c = edges[i : i + 3]
        if a == b:
            matrix[b, i] = 1
        else:
            matrix[a : b + 1, i] = np.arange(b - a + 1) / (b - a)
        if c > b:
            matrix[b:c, i] = (c - np.arange(b, c)) / (c - b)
    return matrix.astype(DTYPES[output_datatype])


def _need(key: Key | None, name: str) -> Key:
    if key is None:
        raise ArgumentError(
            f"{name} draws random numbers",
            got="key=None",
            hint="pass key=tfn.random.key(0) to the model",
        )
    return key


def _drawn(name: str, draw: Callable[..., Value]) -> Callable[..., Value]:
    """An operation that draws numbers of a shape that is an attribute."""

    def op(
        shape: Sequence[int],
        dtype: int = 1,
        seed: float | None = None,
        key: Key | None = None,
        **options: float,
    ) -> Value:
        return draw(_need(key, name)(None), tuple(shape), DTYPES[dtype], **options)

    return op


def _drawn_like(name: str, draw: Callable[..., Value]) -> Callable[..., Value]:
    """An operation that draws numbers of the shape of an array."""

    def op(
        x: Value,
        dtype: int | None = None,
        seed: float | None = None,
        key: Key | None = None,
        **options: float,
    ) -> Value:
        kind = DTYPES[dtype] if dtype else np.dtype(x.dtype)
        return draw(_need(key, name)(None), tuple(x.shape), kind, **options)

    return op


def _normal(key: Value, shape: Any, dtype: Any, mean: float = 0.0, scale: float = 1.0) -> Value:
    drawn = random.normal(key, shape, dtype)
    return drawn * like(drawn, scale) + like(drawn, mean)


def _uniform(key: Value, shape: Any, dtype: Any, low: float = 0.0, high: float = 1.0) -> Value:
    return random.uniform(key, shape, dtype, low, high)


def Bernoulli(
    x: Value, dtype: int | None = None, seed: float | None = None, key: Key | None = None
) -> Value:
    """Random ones, by their chances."""
    kind = DTYPES[dtype] if dtype else np.dtype(x.dtype)
    return random.bernoulli(_need(key, "Bernoulli")(None), jnp.asarray(x), x.shape).astype(kind)


def Multinomial(
    x: Value,
    dtype: int = 6,
    sample_size: int = 1,
    seed: float | None = None,
    key: Key | None = None,
) -> Value:
    """Random classes, by logarithms of their chances."""
    drawn = random.categorical(
        _need(key, "Multinomial")(None), jnp.asarray(x)[:, None], shape=(x.shape[0], sample_size)
    )
    return drawn.astype(DTYPES[dtype])


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "NegativeLogLikelihoodLoss": NegativeLogLikelihoodLoss,
    "SoftmaxCrossEntropyLoss": SoftmaxCrossEntropyLoss, "DFT": DFT, "STFT": STFT,
    "HannWindow": _window(0.5, -0.5), "HammingWindow": _window(25 / 46, -21 / 46),
    "BlackmanWindow": _window(0.42, -0.5, 0.08), "MelWeightMatrix": MelWeightMatrix,
    "RandomNormal": _drawn("RandomNormal", _normal), "RandomUniform": _drawn("RandomUniform",
    _uniform),
    "RandomNormalLike": _drawn_like("RandomNormalLike", _normal),
    "RandomUniformLike": _drawn_like("RandomUniformLike", _uniform),
    "Bernoulli": Bernoulli, "Multinomial": Multinomial,
}
# fmt: on
