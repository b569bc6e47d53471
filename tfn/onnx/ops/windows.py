"""Convolutions, pools and normalizations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import lax, nn
from tfn import numpy as jnp
from tfn.onnx.ops.known import Value, integers, like

Pairs = list[tuple[int, int]]
LETTERS = "DHW"


def layout(rank: int) -> tuple[str, str, str]:
    """The order of axes: batch, channels, space; a window has features, channels, space."""
    space = LETTERS[3 - rank :] if rank <= 3 else "".join(map(chr, range(97, 97 + rank)))
    return f"NC{space}", f"OI{space}", f"NC{space}"


def around(
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil: bool = False,
) -> Pairs:
    """The padding before and behind each axis of space."""
    rank = len(window)
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilations)]
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        pairs = []
        for n, k, s in zip(sizes, reach, strides):
            total = max((-(-n // s) - 1) * s + k - n, 0)
            low, high = total // 2, total - total // 2
            pairs.append((low, high) if auto_pad == "SAME_UPPER" else (high, low))
        return pairs
    given = (
        [(0, 0)] * rank
        if pads is None or auto_pad == "VALID"
        else [(pads[i], pads[i + rank]) for i in range(rank)]
    )
    if not ceil:
        return given
    pairs = []
    for n, k, s, (low, high) in zip(sizes, reach, strides, given):
        steps = -(-(n + low + high - k) // s)
        steps -= steps * s >= n + low  # the last window begins within the array or its first pads
        pairs.append((low, high + max(0, steps * s + k - n - low - high)))
    return pairs


def Conv(
    x: Value,
    w: Value,
    b: Value = None,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
) -> Value:
    """A convolution, channels first."""
    rank = x.ndim - 2
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    y = lax.conv_general_dilated(
        jnp.asarray(x),
        jnp.asarray(w),
        strides,
        around(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad),
        rhs_dilation=dilations,
        feature_group_count=group,
        dimension_numbers=layout(rank),
    )
    return y if b is None else y + b.reshape(-1, *[1] * rank)


def ConvTranspose(
    x: Value,
    w: Value,
    b: Value = None,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
) -> Value:
    """The transpose of a convolution by its operand."""
    rank = x.ndim - 2
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    extra, pads = output_padding or (0,) * rank, pads or (0,) * 2 * rank
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations)]
    pairs = [(pads[i], pads[i + rank]) for i in range(rank)]
    if output_shape is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        sizes = output_shape or [n * s for n, s in zip(x.shape[2:], strides)]
        pairs = []
        for i in range(rank):
            total = strides[i] * (x.shape[2 + i] - 1) + extra[i] + reach[i] - sizes[-rank:][i]
            half = total // 2
            pairs.append((half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half))
    elif auto_pad == "VALID":
        pairs = [(0, 0)] * rank
    c, each = w.shape[:2]
    window = jnp.flip(jnp.asarray(w), tuple(range(2, 2 + rank)))
    window = window.reshape(group, c // group, each, *w.shape[2:]).swapaxes(1, 2)
    y = lax.conv_general_dilated(
        jnp.asarray(x),
        window.reshape(group * each, c // group, *w.shape[2:]),
        (1,) * rank,
        [(k - 1 - low, k - 1 - high + e) for k, (low, high), e in zip(reach, pairs, extra)],
        lhs_dilation=strides,
        rhs_dilation=dilations,
        feature_group_count=group,
        dimension_numbers=layout(rank),
    )
    return y if b is None else y + b.reshape(-1, *[1] * rank)


def _pooled(
    x: Value,
    init: Any,
    function: Any,
    window: Sequence[int],
    strides: Sequence[int],
    pairs: Pairs,
    dilations: Sequence[int],
) -> Value:
    return lax.reduce_window(
        x,
        init,
        function,
        (1, 1, *window),
        (1, 1, *strides),
        [(0, 0), (0, 0), *pairs],
        window_dilation=(1, 1, *dilations),
    )


def AveragePool(
    x: Value,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> Value:
    """The mean of each window."""
    x, rank = jnp.asarray(x), len(kernel_shape)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    pairs = around(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
    zero = like(x, 0)
    sums = _pooled(x, zero, lax.add, kernel_shape, strides, pairs, dilations)
    ones = jnp.ones((1, 1, *x.shape[2:]), x.dtype)
    if count_include_pad:  # but what a rounded-up size adds is never counted
        plain = around(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad)
        ones = jnp.pad(ones, [(0, 0), (0, 0), *plain], constant_values=1)
        pairs = [(0, high - h) for (_, high), (_, h) in zip(pairs, plain)]
    return sums / _pooled(ones, zero, lax.add, kernel_shape, strides, pairs, dilations)


def MaxPool(
    x: Value,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    storage_order: int = 0,
    outputs: int = 1,
) -> Value:
    """The largest element of each window, and its place."""
    x, rank = jnp.asarray(x), len(kernel_shape)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    pairs = around(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
    info = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
    low = np.asarray(-np.inf if info is None else info.min, x.dtype)
    y = _pooled(x, low, lax.max, kernel_shape, strides, pairs, dilations)
    if outputs < 2:
        return y
    space = x.shape[2:]
    flat = np.arange(int(np.prod(x.shape)), dtype=np.int64).reshape(x.shape)
    if storage_order:  # columns first: the last two axes change places
        axes = tuple(range(2, 2 + rank))
        turned = np.arange(flat.size, dtype=np.int64).reshape(*x.shape[:2], *space[::-1])
        flat = np.moveaxis(turned, axes, axes[::-1])

    around_x = [(0, 0), (0, 0), *((low, max(high, 0)) for low, high in pairs)]
    wide = jnp.pad(x, around_x, constant_values=low)
    places = np.pad(flat, around_x, constant_values=-1)
    steps = y.shape[2:]
    taps = [
        (slice(None), slice(None), *map(_strided, at, dilations, steps, strides))
        for at in np.ndindex(*kernel_shape)
    ]
    first = jnp.stack([wide[tap] for tap in taps]).argmax(0)
    return y, jnp.choose(first, [jnp.asarray(places[tap]) for tap in taps])


def _strided(place: int, dilation: int, count: int, stride: int) -> slice:
    """The elements at one place of the windows along an axis."""
    first = place * dilation
    return slice(first, first + (count - 1) * stride + 1, stride)


def MaxUnpool(
    x: Value,
    places: Value,
    output_shape: Value = None,
    kernel_shape: Sequence[int] = (),
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """Elements at the places that `MaxPool` gave, else zero."""
    rank = len(kernel_shape)
    strides, pads = strides or (1,) * rank, pads or (0,) * 2 * rank
    own = [
        (x.shape[2 + i] - 1) * strides[i] + kernel_shape[i] - pads[i] - pads[i + rank]
        for i in range(rank)
    ]
    inner = (*x.shape[:2], *own)
    flat = jnp.zeros(int(np.prod(inner)), x.dtype).at[places.reshape(-1)].set(x.reshape(-1))
    y = flat.reshape(inner)
    if output_shape is None:
        return y
    sizes = integers(output_shape, "a shape")
    return jnp.zeros(sizes, x.dtype).at[tuple(slice(n) for n in inner)].set(y)


def LpPool(
    x: Value,
    kernel_shape: Sequence[int],
    p: int = 2,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> Value:
    """The norm of each window."""
    x, rank = jnp.asarray(x), len(kernel_shape)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    pairs = around(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
    powers = jnp.abs(x) ** p
    return _pooled(powers, like(x, 0), lax.add, kernel_shape, strides, pairs, dilations) ** (1 / p)


def space(x: Value) -> tuple[int, ...]:
    """The axes behind batch and channels."""
    return tuple(range(2, x.ndim))


def GlobalLpPool(x: Value, p: int = 2) -> Value:
    """The norm of each channel."""
    return (jnp.abs(jnp.asarray(x)) ** p).sum(space(x), keepdims=True) ** (1 / p)


def BatchNormalization(
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
    outputs: int = 1,
    training: bool = False,
) -> Value:
    """Channels by their mean and variance: those that are given, or of the batch."""
    x = jnp.asarray(x)
    shape = (-1, *[1] * (x.ndim - 2))
    batched = bool(training_mode) or (training and outputs > 1)
    m, v = mean, var
    if batched:
        axes = (0, *space(x))
        wide = x.astype(mean.dtype)
        m, v = wide.mean(axes), wide.var(axes)
    factor = scale * lax.rsqrt(jnp.asarray(v + like(v, epsilon)).astype(scale.dtype))
    y = x * factor.reshape(shape) + (bias - m.astype(bias.dtype) * factor).reshape(shape)
    if outputs == 1:
        return y.astype(x.dtype)
    keep = like(mean, momentum)
    kept = (mean * keep + m * (1 - keep), var * keep + v * (1 - keep)) if batched else (mean, var)
    return y.astype(x.dtype), *kept


def InstanceNormalization(x: Value, scale: Value, bias: Value, epsilon: float = 1e-5) -> Value:
    """Each channel of each image by its mean and variance."""
    shape = (-1, *[1] * (x.ndim - 2))
    y = nn.standardize(jnp.asarray(x), axis=space(x), epsilon=epsilon)
    return y * scale.reshape(shape) + bias.reshape(shape)


def GroupNormalization(
    x: Value,
    scale: Value,
    bias: Value,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    opset: int = 21,
) -> Value:
    """Groups of channels by their mean and variance."""
    x = jnp.asarray(x)
    n, c = x.shape[:2]
    wide = x.reshape(n, num_groups, -1).astype("float32" if stash_type == 1 else x.dtype)
    y = nn.standardize(wide, axis=-1, epsilon=epsilon).astype(x.dtype)
    if opset < 21:  # one factor a group
        y = y * scale[:, None] + bias[:, None]
        return y.reshape(x.shape)
    shape = (c, *[1] * (x.ndim - 2))
    return y.reshape(x.shape) * scale.reshape(shape) + bias.reshape(shape)


def LayerNormalization(
    x: Value,
    scale: Value,
    bias: Value = None,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int = 1,
) -> Value:
    """The last axes by their mean and variance."""
    x = jnp.asarray(x)
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = x.astype("float32") if stash_type == 1 and x.dtype.itemsize < 4 else x
    mean = wide.mean(axes, keepdims=True)
    scaled = lax.rsqrt(wide.var(axes, keepdims=True) + like(wide, epsilon))
    y = ((wide - mean) * scaled).astype(x.dtype) * scale
    y = y if bias is None else y + bias
    return (y, mean, scaled)[:outputs] if outputs > 1 else y


def RMSNormalization(
    x: Value, scale: Value, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    """The last axes by the root of their mean square."""
    x = jnp.asarray(x)
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = x.astype("float32") if stash_type == 1 and x.dtype.itemsize < 4 else x
    scaled = wide * lax.rsqrt((wide * wide).mean(axes, keepdims=True) + like(wide, epsilon))
    return scaled.astype(x.dtype) * scale


def LRN(x: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Value:
    """Elements by the squares of neighbouring channels."""
    x = jnp.asarray(x)
    low, high = (size - 1) // 2, size - 1 - (size - 1) // 2
    around = [(0, 0), (low, high), *[(0, 0)] * (x.ndim - 2)]
    window = (1, size, *[1] * (x.ndim - 2))
    sums = lax.reduce_window(x * x, like(x, 0), lax.add, window, (1,) * x.ndim, around)
    return x / (like(x, bias) + like(x, alpha / size) * sums) ** like(x, beta)


def MeanVarianceNormalization(x: Value, axes: Sequence[int] = (0, 2, 3)) -> Value:
    """Elements less their mean, by their deviation."""
    x = jnp.asarray(x)
    centred = x - x.mean(tuple(axes), keepdims=True)
    return centred / (jnp.sqrt((centred**2).mean(tuple(axes), keepdims=True)) + like(x, 1e-9))


def LpNormalization(x: Value, axis: int = -1, p: int = 2) -> Value:
    """Vectors by their norm."""
    x = jnp.asarray(x)
    norm = jnp.linalg.norm(x, p, axis, keepdims=True)
    return jnp.where(norm == 0, like(x, 0), x / jnp.where(norm == 0, like(x, 1), norm))


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "Conv": Conv, "ConvTranspose": ConvTranspose, "AveragePool": AveragePool, "MaxPool": MaxPool,
    "MaxUnpool": MaxUnpool, "LpPool": LpPool, "GlobalLpPool": GlobalLpPool,
    "GlobalAveragePool": lambda x: jnp.asarray(x).mean(space(x), keepdims=True),
    "GlobalMaxPool": lambda x: jnp.asarray(x).max(space(x), keepdims=True),
    "BatchNormalization": BatchNormalization, "InstanceNormalization": InstanceNormalization,
    "GroupNormalization": GroupNormalization, "LayerNormalization": LayerNormalization,
    "RMSNormalization": RMSNormalization, "LRN": LRN,
    "MeanVarianceNormalization": MeanVarianceNormalization, "LpNormalization": LpNormalization,
}
# fmt: on
