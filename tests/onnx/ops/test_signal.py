"""Losses, Fourier transforms, windows, random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.building import one
from tests.onnx.ops.cases import F, holds, outputs, ramp
from tfn import onnx, random

X, RIGHT = ramp(3, 4), np.array([0, 3, 1], np.int64)


def test_losses_of_classes() -> None:
    logs = X - np.log(np.exp(X).sum(1, keepdims=True))
    each = -logs[np.arange(3), RIGHT]
    holds(each.mean(), "SoftmaxCrossEntropyLoss", X, RIGHT)
    holds(each.sum(), "NegativeLogLikelihoodLoss", logs, RIGHT, reduction="sum")
    holds(each[[0, 2]].mean(), "SoftmaxCrossEntropyLoss", X, RIGHT, ignore_index=3)
    weight = F([1, 2, 3, 4])
    own = weight[RIGHT]
    holds(F((each * own).sum() / own.sum()), "SoftmaxCrossEntropyLoss", X, RIGHT, weight)


def test_fourier_transforms_go_and_come() -> None:
    x = ramp(2, 8, 1)
    y = np.asarray(outputs("DFT", x)[0])
    want = np.fft.fft(x[..., 0])
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], want, atol=1e-4)
    np.testing.assert_allclose(outputs("DFT", y, inverse=1)[0][..., 0], x[..., 0], atol=1e-5)
    half = np.asarray(outputs("DFT", x, onesided=1)[0])
    assert half.shape == (2, 5, 2)
    np.testing.assert_allclose(outputs("DFT", half, inverse=1, onesided=1)[0], x, atol=1e-5)


def test_frames_of_a_signal() -> None:
    x, window = ramp(1, 10), np.hanning(4).astype(F)
    y = np.asarray(outputs("STFT", x, np.array(2), window)[0])
    frames = np.stack([x[0, i : i + 4] * window for i in range(0, 7, 2)])
    np.testing.assert_allclose(y[0, ..., 0] + 1j * y[0, ..., 1], np.fft.rfft(frames), atol=1e-4)


@pytest.mark.parametrize(
    ("op", "want"), [("HannWindow", np.hanning), ("BlackmanWindow", np.blackman)]
)
def test_windows_are_those_of_numpy(op: str, want: object) -> None:
    holds(want(8).astype(F), op, np.array(8), periodic=0)  # type: ignore[operator]


def test_bins_of_the_mel_scale_are_triangles() -> None:
    sizes = [np.array(v) for v in (6, 64, 8000)]
    matrix = np.asarray(outputs("MelWeightMatrix", *sizes, F(0), F(4000))[0])
    assert matrix.shape == (33, 6) and matrix.max() == 1 and (matrix.sum(0) > 0).all()


def test_drawn_numbers_have_their_chances() -> None:
    x = np.full(4000, 0.25, F)
    drawn = np.asarray(onnx.load(one("Bernoulli", x))(x, key=random.key(0))["y0"])
    assert set(drawn) == {0, 1} and abs(drawn.mean() - 0.25) < 0.03
    loaded = onnx.load(one("RandomUniformLike", x, low=2.0, high=3.0))
    uniform = np.asarray(loaded(x, key=random.key(0))["y0"])
    assert uniform.min() >= 2 and uniform.max() < 3 and abs(uniform.mean() - 2.5) < 0.03
    chances = np.log(np.array([[0.9, 0.1]], F))
    classes = onnx.load(one("Multinomial", chances, sample_size=2000))(chances, key=random.key(1))
    assert abs(np.asarray(classes["y0"]).mean() - 0.1) < 0.03
