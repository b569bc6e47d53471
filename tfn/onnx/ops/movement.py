"""Shapes, axes, slices and pads."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import numpy as jnp
from tfn.errors import ShapeError
from tfn.onnx.ops.known import Value, axes_of, integers, library, numbers
from tfn.onnx.schema import DTYPES

INT64_MAX = (1 << 63) - 1


def Shape(x: Value, start: int = 0, end: int | None = None) -> Value:
    """The sizes of some axes."""
    return np.array(x.shape[slice(start, end)], np.int64)


def Size(x: Value) -> Value:
    """The number of elements."""
    return np.array(np.prod(x.shape, dtype=np.int64))


def Reshape(x: Value, shape: Value = None, allowzero: int = 0, **old: Any) -> Value:
    """The elements in order under another shape; 0 keeps a size."""
    sizes = integers(shape, "a shape") if shape is not None else old["shape"]
    return x.reshape(
        tuple(x.shape[i] if n == 0 and not allowzero else n for i, n in enumerate(sizes))
    )


def Flatten(x: Value, axis: int = 1) -> Value:
    """The elements as a matrix, whose columns begin at an axis."""
    first = axis + x.ndim if axis < 0 else axis
    rows = int(np.prod(x.shape[:first], dtype=np.int64))
    return x.reshape(rows, int(np.prod(x.shape[first:], dtype=np.int64)))


def Squeeze(x: Value, given: Value = None, axes: Sequence[int] | None = None) -> Value:
    """The array without axes of size 1."""
    return library(x).squeeze(x, axes_of(given, axes, x.ndim))


def Unsqueeze(x: Value, given: Value = None, axes: Sequence[int] | None = None) -> Value:
    """The array with new axes of size 1."""
    listed = integers(given, "axes") if given is not None else tuple(axes or ())
    return library(x).expand_dims(x, listed)


def Transpose(x: Value, perm: Sequence[int] | None = None) -> Value:
    """Axes in another order, reversed if none is given."""
    return library(x).transpose(x, perm if perm is not None else tuple(range(x.ndim))[::-1])


def Concat(*values: Value, axis: int = 1) -> Value:
    """Arrays one after the other along an axis."""
    return library(*values).concatenate(values, axis)


def Split(
    x: Value,
    given: Value = None,
    axis: int = 0,
    split: Sequence[int] | None = None,
    num_outputs: int | None = None,
    outputs: int = 1,
) -> Value:
    """Parts along an axis, of given sizes or as equal as can be."""
    n, parts = x.shape[axis], num_outputs or outputs
    sizes = integers(given, "sizes") if given is not None else split
    if sizes is None:
        each = -(-n // parts)
        sizes = tuple(max(0, min(each, n - i * each)) for i in range(parts))
    return tuple(library(x).split(x, np.cumsum(sizes)[:-1].tolist(), axis))


def Slice(
    x: Value,
    start: Value = None,
    end: Value = None,
    over: Value = None,
    step: Value = None,
    starts: Sequence[int] | None = None,
    ends: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> Value:
    """Elements from starts to ends by steps."""
    first = integers(start, "positions") if start is not None else starts or ()
    last = integers(end, "positions") if end is not None else ends or ()
    places = axes_of(over, axes, x.ndim) or tuple(range(len(first)))
    steps = integers(step, "steps") if step is not None else (1,) * len(first)
    index = [slice(None)] * x.ndim
    for a, b, axis, stride in zip(first, last, places, steps, strict=True):
        n = x.shape[axis]
        if stride > 0:
            bounds = slice(a, min(b, n) if b >= 0 else b, stride)
        else:  # Python counts an end before the first element from the back
            bounds = slice(min(a, n - 1), None if b < -n else b, stride)
        index[axis] = bounds
    return x[tuple(index)]


def Expand(x: Value, shape: Value) -> Value:
    """An array broadcast together with a shape."""
    sizes = np.broadcast_shapes(x.shape, integers(shape, "a shape"))
    return library(x).broadcast_to(x, sizes)


def Tile(x: Value, repeats: Value, axis: Value = None) -> Value:
    """An array repeated along its axes."""
    if axis is not None:  # the first version: how often, along which axis
        times = [1] * x.ndim
        times[integers(axis, "an axis")[0]] = integers(repeats, "a number")[0]
        return library(x).tile(x, times)
    return library(x).tile(x, integers(repeats, "numbers of repeats"))


def Pad(
    x: Value,
    given: Value = None,
    value: Value = None,
    over: Value = None,
    mode: str = "constant",
    pads: Sequence[int] | None = None,
    **old: Any,
) -> Value:
    """An array with elements around it; negative widths crop."""
    widths = integers(given, "widths") if given is not None else pads or old.get("paddings", ())
    axes = axes_of(over, None, x.ndim) or tuple(range(x.ndim))
    pairs = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        pairs[axis] = (widths[i], widths[i + len(axes)])
    crop = tuple(slice(max(0, -low), n - max(0, -high)) for n, (low, high) in zip(x.shape, pairs))
    x = jnp.asarray(x)[crop]
    around = [(max(0, low), max(0, high)) for low, high in pairs]
    if mode == "constant":
        fill = value if value is not None else old.get("value", 0)
        fill = jnp.asarray(fill).astype(x.dtype).reshape(())
        return jnp.pad(x, around, constant_values=fill)
    return jnp.pad(x, around, mode={"reflect": "reflect", "edge": "edge", "wrap": "wrap"}[mode])


def ConstantOfShape(shape: Value, value: Value = None) -> Value:
    """An array of one value."""
    fill = np.zeros(1, np.float32) if value is None else value
    return np.full(integers(shape, "a shape"), fill.reshape(-1)[0], fill.dtype)


def Range(start: Value, limit: Value, delta: Value) -> Value:
    """Numbers from a start by steps, up to a limit."""
    dtype = start.dtype
    first, last, step = (numbers(v, "its ends").reshape(-1)[0] for v in (start, limit, delta))
    count = max(0, int(np.ceil((last - first) / step)))
    return (first + np.arange(count, dtype=dtype) * step).astype(dtype)


def EyeLike(x: Value, dtype: int | None = None, k: int = 0) -> Value:
    """Ones on a diagonal, in the shape of a matrix."""
    rows, columns = x.shape
    return np.eye(rows, columns, k, dtype=DTYPES[dtype] if dtype else np.dtype(x.dtype))


def Trilu(x: Value, k: Value = None, upper: int = 1) -> Value:
    """The upper or lower triangle of matrices."""
    offset = 0 if k is None else integers(k, "a diagonal")[0]
    rows, columns = x.shape[-2:]
    offset = builtins.max(-rows, builtins.min(offset, columns))
    return (jnp.triu if upper else jnp.tril)(jnp.asarray(x), offset)


def DepthToSpace(x: Value, blocksize: int, mode: str = "DCR") -> Value:
    """Channels spread over blocks of an image."""
    n, c, h, w = x.shape
    b, depth = blocksize, c // blocksize**2
    if mode == "DCR":
        parts = x.reshape(n, b, b, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, depth, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, depth, h * b, w * b)


def SpaceToDepth(x: Value, blocksize: int, mode: str = "DCR") -> Value:
    """Blocks of an image as channels."""
    n, c, h, w = x.shape
    b = blocksize
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = x.reshape(n, c, h // b, b, w // b, b).transpose(order)
    return parts.reshape(n, c * b * b, h // b, w // b)


def CenterCropPad(x: Value, shape: Value, axes: Sequence[int] | None = None) -> Value:
    """An array cropped or padded around its centre."""
    sizes = integers(shape, "a shape")
    places = tuple(a % x.ndim for a in axes) if axes is not None else tuple(range(x.ndim))
    index, around = [slice(None)] * x.ndim, [(0, 0)] * x.ndim
    for axis, size in zip(places, sizes, strict=True):
        extra = x.shape[axis] - size
        if extra > 0:
            index[axis] = slice(extra // 2, extra // 2 + size)
        else:
            around[axis] = (-extra // 2, -extra - -extra // 2)
    return jnp.pad(jnp.asarray(x)[tuple(index)], around)


def ReverseSequence(x: Value, lengths: Value, batch_axis: int = 1, time_axis: int = 0) -> Value:
    """The first elements of each row in reverse order."""
    x = jnp.asarray(x)
    rows = jnp.moveaxis(x, (batch_axis, time_axis), (0, 1))
    times = jnp.arange(rows.shape[1])
    ends = jnp.asarray(lengths).astype("int32")[:, None]
    order = jnp.where(times < ends, ends - 1 - times, times)
    turned = rows[jnp.arange(rows.shape[0])[:, None], order]
    return jnp.moveaxis(turned, (0, 1), (batch_axis, time_axis))


def Col2Im(
    x: Value,
    image_shape: Value,
    block_shape: Value,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """The sum of blocks at their places in an image."""
    sizes, block = integers(image_shape, "a shape"), integers(block_shape, "a shape")
    rank = len(sizes)
    dilations, strides = dilations or (1,) * rank, strides or (1,) * rank
    pads = pads or (0,) * 2 * rank
    wide = [n + pads[i] + pads[i + rank] for i, n in enumerate(sizes)]
    steps = [(wide[i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(rank)]
    n, channels = x.shape[0], x.shape[1] // int(np.prod(block))
    if int(np.prod(steps)) != x.shape[2]:
        raise ShapeError(
            "Col2Im needs a column for each place of a block",
            got=f"{x.shape[2]} columns for {steps} places",
            hint="the sizes of image, block, pads, strides and dilations do not belong together",
        )
    flat = np.zeros((*block, *steps), np.int64)
    for i in range(rank):
        place = np.arange(block[i])[:, None] * dilations[i] + np.arange(steps[i]) * strides[i]
        shape = [1] * 2 * rank
        shape[i], shape[i + rank] = block[i], steps[i]
        flat = flat * wide[i] + place.reshape(shape)
    rows = jnp.asarray(x).reshape(n, channels, -1)
    image = (
        jnp.zeros((n, channels, int(np.prod(wide))), x.dtype).at[:, :, flat.reshape(-1)].add(rows)
    )
    inner = tuple(slice(pads[i], pads[i] + size) for i, size in enumerate(sizes))
    return image.reshape(n, channels, *wide)[(slice(None), slice(None), *inner)]


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "Shape": Shape, "Size": Size, "Reshape": Reshape, "Flatten": Flatten, "Squeeze": Squeeze,
    "Unsqueeze": Unsqueeze, "Transpose": Transpose, "Concat": Concat, "Split": Split,
    "Slice": Slice,
    "Expand": Expand, "Tile": Tile, "Pad": Pad, "ConstantOfShape": ConstantOfShape, "Range": Range,
    "EyeLike": EyeLike, "Trilu": Trilu, "DepthToSpace": DepthToSpace, "SpaceToDepth": SpaceToDepth,
    "CenterCropPad": CenterCropPad, "ReverseSequence": ReverseSequence, "Col2Im": Col2Im,
}
# fmt: on
