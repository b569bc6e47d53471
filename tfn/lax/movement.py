"""Data movement: reshape, transpose, broadcast, slices, padding, concatenation, iota.

No function here computes with elements.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from math import prod
from typing import Any

from tfn import dtypes
from tfn._support.validate import integer, integers, of_each_axis, rank, several, unlike
from tfn.array import Array, ArrayLike
from tfn.dtypes import DTypeLike
from tfn.eager.arrays import weaken
from tfn.eager.operands import Axes, a_shape, broadcast_shape, listed, one_axis, some_axes
from tfn.errors import ArgumentError, OutOfBoundsError, ShapeError
from tfn.lax.operand import array as array_of
from tfn.lax.operand import arrays, expand, literal, scalar, show
from tfn.numpy.concatenation import arrays_of
from tfn.numpy.creation import make, resolved
from tfn.trace.argument import Iota, Pad, Shrink
from tfn.trace.bind import bind
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

# Arrays from scalars.


def full(shape: int | Sequence[int], fill_value: ArrayLike, dtype: Any = None) -> Array:
    """Returns an array filled with one value.

    Args:
        shape: sizes of the axes, or one integer for a vector.
        fill_value: a scalar; floats become integers towards zero if `dtype` is integer.
        dtype: of the result; that of `fill_value`, as for an array, if None.

    Raises:
        ShapeError: if the value has axes, or a size is negative.

    Example:
        >>> full((2,), 7).tolist()
        [7, 7]
    """
    shape = a_shape("full", shape)
    if isinstance(fill_value, (bool, int, float, complex)):
        kind = dtypes.DEFAULTS[type(fill_value)] if dtype is None else dtypes.canonical(dtype)
        return weaken(literal(fill_value, kind, shape), dtype is None and kind != dtypes.BOOL)
    value = array_of(fill_value)
    rank("full", value, 0, 0, "as fill_value")
    return expand(_cast(value, dtype), shape)


def full_like(
    x: ArrayLike, fill_value: ArrayLike, dtype: Any = None, shape: Sequence[int] | None = None
) -> Array:
    """Returns an array filled with one value, in the shape and dtype of another unless others are
    given.

    Args:
        x: the array to imitate; its elements are not read.
        fill_value: a scalar.
        dtype: of the result; that of x if None.
        shape: of the result; that of x if None.

    Raises:
        ShapeError: if the value has axes, or a size is negative.

    Example:
        >>> import tfn.numpy as tnp
        >>> full_like(tnp.array([1, 2]), 7)
        Array([7, 7], dtype=int32)
    """
    x = array_of(x)
    sizes, kind = x.shape if shape is None else shape, x.dtype if dtype is None else dtype
    return weaken(full(sizes, fill_value, kind), dtype is None and x.weak_type)


def _cast(x: Array, dtype: DTypeLike) -> Array:
    target = x.dtype if dtype is None else dtypes.canonical(dtype)
    return x if x.dtype == target else bind(Op.CAST, x, arg=target)


def iota(dtype: Any, size: int) -> Array:
    """Returns 0, 1, ..., size - 1.

    Raises:
        ArgumentError: if they do not fit into the dtype.

    Example:
        >>> iota("int32", 3).tolist()
        [0, 1, 2]
    """
    kind, (size,) = dtypes.canonical(dtype), a_shape("iota", (size,))
    if kind in dtypes.INTEGERS and size - 1 > dtypes.highest(kind):
        raise ArgumentError(
            f"iota counts to numbers that do not fit into {kind.name}",
            got=f"size={size}",
            hint="take a wider dtype",
        )
    return make(_iota, size, kind)


def _iota(size: int, dtype: dtypes.DType) -> UOp:
    return UOp(Op.IOTA, (), Iota(size, dtype))


def broadcasted_iota(
    dtype: DTypeLike,
    shape: Sequence[int],
    dimension: int,
    *,
    out_sharding: Any = None,
) -> Array:
    """Returns the index along one axis, at every element of a shape.

    Args:
        dtype: of the result, integer or floating.
        shape: of the result, with at least one axis.
        dimension: the axis, in [-ndim, ndim); negative ones count from the end.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> broadcasted_iota("int32", (2, 2), 0).tolist()
        [[0, 0], [1, 1]]
    """
    if out_sharding is not None:
        return resolved(out_sharding, lambda: broadcasted_iota(dtype, shape, dimension))
    shape = a_shape("broadcasted_iota", shape)
    axis = one_axis("broadcasted_iota", dimension, len(shape))
    return broadcast_in_dim(iota(dtype, shape[axis]), shape, (axis,))


# Shapes.


def reshape(
    operand: ArrayLike,
    new_sizes: int | Sequence[int],
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Returns the same elements in row-major order under another shape.

    Args:
        operand: array of any shape.
        new_sizes: the new shape, whose sizes are all known: -1 is refused, as in JAX.
        dimensions: order of the axes in which elements are read, a permutation; 0, 1, ... if None.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.

    Raises:
        ShapeError: if the numbers of elements differ.

    Example:
        >>> reshape(iota("int32", 4), (2, 2)).tolist()
        [[0, 1], [2, 3]]
    """
    if out_sharding is not None:
        return resolved(out_sharding, lambda: reshape(operand, new_sizes, dimensions))
    operand = array_of(operand) if dimensions is None else transpose(operand, dimensions)
    shape = a_shape("reshape", new_sizes)
    return (
        operand
        if operand.shape == shape
        else bind(Op.RESHAPE, operand, arg=shape, weak=operand.weak_type)
    )


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Permutes axes: axis i of the result is axis ``permutation[i]`` of operand.

    Raises:
        AxisError: unless every axis is named once.

    Example:
        >>> import tfn.numpy as tnp
        >>> transpose(tnp.ones((2, 3, 5)), (2, 0, 1)).shape
        (5, 2, 3)
    """
    operand, order = array_of(operand), integers("transpose", "permutation", permutation)
    same = order == tuple(range(len(operand.shape)))
    return operand if same else bind(Op.PERMUTE, operand, arg=order, weak=operand.weak_type)


def moveaxis(x: Array, source: int, to: int) -> Array:
    """Returns an array with one axis moved to another position.

    Args:
        x: array of any shape.
        source: the axis, which may be negative.
        to: its position in the result, which may be negative.
    """
    source, to = source % len(x.shape), to % len(x.shape)
    order = [a for a in range(len(x.shape)) if a != source]
    order.insert(to, source)
    return transpose(x, order)


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Inserts axes of size 1 at these positions of the result, which may be negative.

    Raises:
        AxisError: if the result has no such axis, or one is named twice.

    Example:
        >>> expand_dims(iota("int32", 3), (0, -1)).shape
        (1, 3, 1)
    """
    array, dimensions = array_of(array), listed(dimensions)
    n = len(array.shape) + len(dimensions)
    places = set(some_axes("expand_dims", tuple(dimensions), n))
    sizes = iter(array.shape)
    return reshape(array, tuple(1 if i in places else next(sizes) for i in range(n)))


def squeeze(array: ArrayLike, dimensions: Axes = None) -> Array:
    """Removes these axes of size 1, or all such axes for None.

    Raises:
        ShapeError: if one of them has another size.
        AxisError: if there is no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> squeeze(tnp.ones((1, 3)), (0,)).shape
        (3,)
    """
    array = array_of(array)
    ones = tuple(i for i, n in enumerate(array.shape) if n == 1)
    axes = ones if dimensions is None else some_axes("squeeze", dimensions, len(array.shape))
    if not set(axes) <= set(ones):
        raise ShapeError(
            "squeeze needs axes of size 1",
            got=f"{show(array)}, dimensions={dimensions}",
            hint="leave dimensions out to drop every axis of size 1",
        )
    return reshape(array, tuple(n for i, n in enumerate(array.shape) if i not in axes))


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Returns an array whose axes from start to stop (not included) are one.

    Args:
        operand: array of any shape.
        start_dimension: first axis to merge; negative ones count from the end.
        stop_dimension: axis after the last to merge; as a slice has it, so None means all that
            follow.

    Raises:
        ArgumentError: if there is no axis between them.

    Example:
        >>> collapse(full((2, 3, 4), 0), 0, 2).shape
        (6, 4)
    """
    operand = array_of(operand)
    start = integer("collapse", "start_dimension", start_dimension)
    stop = None if stop_dimension is None else integer("collapse", "stop_dimension", stop_dimension)
    low, high, _ = builtins.slice(start, stop).indices(len(operand.shape))
    if low >= high:
        raise ArgumentError(
            "collapse needs at least one axis",
            hint="start comes before stop",
            got=f"start_dimension={start}, stop_dimension={stop}",
        )
    return reshape(
        operand, (*operand.shape[:low], prod(operand.shape[low:high]), *operand.shape[high:])
    )


def broadcast(operand: ArrayLike, sizes: Sequence[int]) -> Array:
    """Adds leading axes of these sizes, along which operand is repeated.

    Example:
        >>> broadcast(1.0, (2,)).tolist()
        [1.0, 1.0]
    """
    operand, sizes = array_of(operand), a_shape("broadcast", sizes)
    dims = range(len(sizes), len(sizes) + len(operand.shape))
    return broadcast_in_dim(operand, sizes + operand.shape, tuple(dims))


def broadcast_in_dim(
    operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Array:
    """Places the axes of an array in a larger shape and repeats it along the other axes.

    Axis i of operand becomes axis ``broadcast_dimensions[i]`` of the result.

    Args:
        operand: array of any shape.
        shape: of the result.
        broadcast_dimensions: for each axis of `operand` its position in the shape, from 0, in
            rising order.

    Raises:
        ShapeError: if an axis of operand is neither 1 nor of the new size.

    Example:
        >>> broadcast_in_dim(iota("int32", 2), (2, 2), (0,)).tolist()
        [[0, 0], [1, 1]]
    """
    operand, shape = array_of(operand), a_shape("broadcast_in_dim", shape)
    dims = integers("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions)
    if (
        len(dims) != len(operand.shape)
        or list(dims) != sorted(set(dims))
        or not set(dims) <= set(range(len(shape)))
    ):
        raise ShapeError(
            "broadcast_in_dim needs one rising place for each axis",
            got=f"{show(operand)} to {shape} at {dims}",
            hint="name, for each axis of operand, its place in the shape",
        )
    inner = [1] * len(shape)
    for axis, dim in enumerate(dims):
        inner[dim] = operand.shape[axis]
    aligned = reshape(operand, inner)
    same = aligned.shape == shape
    return aligned if same else bind(Op.EXPAND, aligned, arg=shape, weak=operand.weak_type)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Adds leading axes of size 1 up to a number of axes.

    Raises:
        ArgumentError: if x has more axes than that.

    Example:
        >>> import tfn.numpy as tnp
        >>> broadcast_to_rank(tnp.ones(3), 3).shape
        (1, 1, 3)
    """
    x = array_of(x)
    more = integer("broadcast_to_rank", "rank", rank, len(x.shape)) - len(x.shape)
    return reshape(x, (1,) * more + x.shape)


def rev(operand: ArrayLike, dimensions: Axes) -> Array:
    """Reverses the order of elements along axes, all of them for None.

    Raises:
        AxisError: if there is no such axis, or one is named twice.

    Example:
        >>> rev(iota("int32", 3), (0,)).tolist()
        [2, 1, 0]
    """
    operand = array_of(operand)
    axes = tuple(sorted(some_axes("rev", dimensions, len(operand.shape))))
    return bind(Op.FLIP, operand, arg=axes, weak=operand.weak_type) if axes else operand


# Joining and padding.


def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """Concatenates arrays along an axis.

    Raises:
        ArgumentError: if there are none.
        ShapeError, DTypeError: if they differ elsewhere.

    Example:
        >>> concatenate([iota("int32", 2), iota("int32", 1)], 0).tolist()
        [0, 1, 0]
    """
    parts = [array_of(x) for x in arrays_of("concatenate", operands)]
    axis = one_axis("concatenate", dimension, len(parts[0].shape))
    weak = all(part.weak_type for part in parts)
    return parts[0] if len(parts) == 1 else bind(Op.CONCAT, *parts, arg=axis, weak=weak)


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """Stacks arrays of one shape and dtype along a new axis.

    Raises:
        ShapeError, DTypeError: if they differ.

    Example:
        >>> stack([iota("int32", 2), iota("int32", 2)], 1).tolist()
        [[0, 0], [1, 1]]
    """
    xs = arrays(*arrays_of("stack", operands))
    at = one_axis("stack", axis, len(xs[0].shape) + 1)
    return concatenate([expand_dims(x, (at,)) for x in xs], at)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """Splits an array along an axis into its slices, without the axis.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> [int(x) for x in unstack(iota("int32", 2))]
        [0, 1]
    """
    x = array_of(x)
    at = one_axis("unstack", axis, len(x.shape))
    return tuple(index_in_dim(x, i, at, keepdims=False) for i in range(x.shape[at]))


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """Returns the common shape of arrays of these shapes; sizes of 1 are repeated.

    Raises:
        ShapeError: if there is none.

    Example:
        >>> broadcast_shapes((3, 1), (4,))
        (3, 4)
    """
    return broadcast_shape("broadcast_shapes", *[a_shape("broadcast_shapes", s) for s in shapes])


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Returns consecutive pieces of an array along an axis.

    Args:
        operand: array with at least one axis.
        sizes: static size of each piece along the axis; a size may be 0.
        axis: integer in [-ndim, ndim); negative axes count from the end.

    Raises:
        ShapeError: unless the sizes add up to that of the axis.

    Example:
        >>> [part.tolist() for part in split(iota("int32", 3), (1, 2))]
        [[0], [1, 2]]
    """
    operand, stop, pieces = array_of(operand), 0, []
    count, parts = (
        operand.shape[one_axis("split", axis, len(operand.shape))],
        integers("split", "sizes", sizes, 0),
    )
    if sum(parts) != count:
        raise ShapeError(
            f"split needs sizes that add up to {count}",
            got=f"{show(operand)}, sizes={parts}",
            hint="write a size for each piece",
        )
    for size in parts:
        pieces.append(slice_in_dim(operand, stop, stop + size, axis=axis))
        stop += size
    return pieces


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeats operand as a block, along each axis.

    Raises:
        ShapeError, ArgumentError: unless there is a number, not negative, for each axis.

    Example:
        >>> tile(iota("int32", 2), (2,)).tolist()
        [0, 1, 0, 1]
    """
    operand = array_of(operand)
    reps = of_each_axis("tile", "reps", reps, len(operand.shape), 0)
    paired = tuple(n for pair in zip(reps, operand.shape, strict=True) for n in pair)
    blocks = broadcast_in_dim(operand, paired, tuple(range(1, len(paired), 2)))
    return reshape(blocks, tuple(r * n for r, n in zip(reps, operand.shape, strict=True)))


def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]
) -> Array:
    """Adds elements before, after and between those of each axis.

    Negative low and high remove elements, after those between have been added.

    Args:
        operand: array of any shape.
        padding_value: the new elements, a scalar of the dtype of operand.
        padding_config: (low, high, interior) for each axis; interior, which is not negative, is the
            number of elements between neighbours.

    Raises:
        ArgumentError: for a negative interior, or another number of axes.
        ShapeError: if more is removed than there is, or the value has axes.
        DTypeError: if the value has another dtype.

    Example:
        >>> pad(iota("int32", 3), 9, [(1, -1, 1)]).tolist()
        [9, 0, 9, 1, 9]
    """
    operand = array_of(operand)
    number = isinstance(padding_value, (bool, int, float, complex))
    value = scalar(padding_value, operand) if number else array_of(padding_value)
    config = [
        integers("pad", "padding_config", c)
        for c in several("pad", "padding_config", padding_config)
    ]
    if len(config) != len(operand.shape) or any(len(c) != 3 or c[2] < 0 for c in config):
        raise ArgumentError(
            "pad needs (low, high, interior >= 0) for each axis",
            got=f"{show(operand)}, padding_config={config}",
            hint="write (0, 0, 0) for an axis that stays",
        )
    rank("pad", value, 0, 0, "as padding_value")
    if value.dtype != operand.dtype:
        raise unlike("pad", (operand, value), "a value of the operand's dtype")
    for n, (low, high, between) in zip(operand.shape, config):
        if n + between * max(n - 1, 0) + low + high < 0:
            raise ShapeError(
                "pad cannot remove more elements than there are",
                got=f"{show(operand)}, padding_config={config}",
                hint="negative numbers remove elements: take smaller ones",
            )
    added = Pad(
        tuple(max(low, 0) for low, _, _ in config),
        tuple(max(high, 0) for _, high, _ in config),
        tuple(between for _, _, between in config),
    )
    some = any((*added.low, *added.high, *added.interior))
    weak = operand.weak_type and value.weak_type
    grown: Array = bind(Op.PAD, operand, value, arg=added, weak=weak) if some else operand
    start = tuple(max(-low, 0) for low, _, _ in config)
    return slice(grown, start, [n + min(high, 0) for n, (_, high, _) in zip(grown.shape, config)])


# Slices that are known when tracing.


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """Returns the elements start, start + stride, ... below the limit of each axis.

    Args:
        operand: array of any shape.
        start_indices: first index, for each axis; negative ones are refused, unlike in NumPy.
        limit_indices: index after the last, for each axis, at most its size.
        strides: steps, for each axis, at least 1; 1 if None.

    Raises:
        ShapeError: unless 0 <= start <= limit <= size and stride >= 1 on every axis.

    Example:
        >>> slice(iota("int32", 6), (1,), (6,), (2,)).tolist()
        [1, 3, 5]
    """
    operand, start = array_of(operand), integers("slice", "start_indices", start_indices)
    stop = integers("slice", "limit_indices", limit_indices)
    step = (1,) * len(operand.shape) if strides is None else integers("slice", "strides", strides)
    if not len(start) == len(stop) == len(step) == len(operand.shape):
        raise ShapeError(
            "slice needs start, limit and stride for each axis",
            got=f"{show(operand)}, {start}, {stop}, {step}",
            hint="slice_in_dim cuts along one axis",
        )
    if stop == operand.shape and not any(start) and all(s == 1 for s in step):
        return operand
    out: Array = bind(Op.SHRINK, operand, arg=Shrink(start, stop, step), weak=operand.weak_type)
    return out


def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """Returns a slice along one axis, whole along the others.

    Args:
        operand: array with at least one axis.
        start_index: first index, which counts from the end if negative; 0 if None.
        limit_index: index after the last, which counts from the end if negative; the size if None.
        stride: step, at least 1.
        axis: integer in [-ndim, ndim); negative axes count from the end.

    Raises:
        ShapeError: if start or limit are outside the axis, or stride < 1; they are not clamped.
        AxisError: if there is no such axis.

    Example:
        >>> slice_in_dim(iota("int32", 6), -3, None).tolist()
        [3, 4, 5]
    """
    operand = array_of(operand)
    axis = one_axis("slice_in_dim", axis, len(operand.shape))
    start, stop, step = [0] * len(operand.shape), list(operand.shape), [1] * len(operand.shape)
    size = operand.shape[axis]
    low = 0 if start_index is None else integer("slice_in_dim", "start_index", start_index)
    high = size if limit_index is None else integer("slice_in_dim", "limit_index", limit_index)
    start[axis], stop[axis] = low + size * (low < 0), high + size * (high < 0)
    step[axis] = stride
    return slice(operand, start, stop, step)


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """Returns the elements at one index of an axis.

    Args:
        operand: array with at least one axis.
        index: in [-size, size); negative ones count from the end.
        axis: integer in [-ndim, ndim); negative axes count from the end.
        keepdims: whether the axis stays, with size 1.

    Raises:
        OutOfBoundsError: if the index is outside the axis.
        AxisError: if there is no such axis.

    Example:
        >>> index_in_dim(iota("int32", 3), -1, keepdims=False).tolist()
        2
    """
    operand, at = array_of(operand), integer("index_in_dim", "index", index)
    size = operand.shape[one_axis("index_in_dim", axis, len(operand.shape))]
    if not -size <= at < size:
        raise OutOfBoundsError(
            f"index {at} is outside an axis of size {size}",
            got=show(operand),
            hint="dynamic_index_in_dim clips to the axis",
        )
    out = slice_in_dim(operand, at % size, at % size + 1, axis=axis)
    return out if keepdims else squeeze(out, axis)
