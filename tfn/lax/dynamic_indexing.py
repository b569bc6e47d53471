"""Dynamic slices (at computed starts), sorting, platform_dependent, optimization_barrier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from tfn import tree
from tfn._support.validate import integer, unfit, unlike
from tfn.array import Array, ArrayLike
from tfn.dtypes import INTEGERS, DType
from tfn.eager.arrays import weaken
from tfn.eager.operands import a_shape, one_axis
from tfn.errors import ArgumentError, DTypeError, ShapeError
from tfn.lax import elementwise
from tfn.lax.movement import concatenate, index_in_dim, moveaxis, reshape, squeeze
from tfn.lax.movement import slice as static_slice
from tfn.lax.operand import array, literal, show
from tfn.trace.argument import Gather, Scatter, Sort
from tfn.trace.bind import bind
from tfn.trace.build import index_dtype
from tfn.trace.op import Op, Shape

T = TypeVar("T")
Starts = Array | np.ndarray[Any, Any] | Sequence[ArrayLike]


def dynamic_slice(operand: ArrayLike, start_indices: Starts, slice_sizes: Sequence[int]) -> Array:
    """Returns a block of fixed size at starts that may be computed.

    Negative starts count from the end once; then a start is clamped, so that the block fits.

    Args:
        operand: array of any shape.
        start_indices: one integer scalar for each axis, in a sequence or a vector; a negative start
            has the size of its axis added, then it is clamped to [0, size - slice_size].
        slice_sizes: static size of the block along each axis, at most that of operand.

    Returns:
        An array of shape `slice_sizes` and the dtype of operand.

    Raises:
        ShapeError: unless there is a start and a size for each axis, and the size fits.
        DTypeError, ArgumentError: if a start is not an integer scalar.

    Example:
        >>> from tfn.lax.movement import broadcasted_iota
        >>> dynamic_slice(broadcasted_iota("int32", (4,), 0), (3,), (2,)).tolist()
        [2, 3]
    """
    operand, sizes = array(operand), a_shape("dynamic_slice", slice_sizes)
    if len(sizes) != len(operand.shape) or any(
        s > n for s, n in zip(sizes, operand.shape, strict=True)
    ):
        raise ShapeError(
            "dynamic_slice needs a size for each axis, that fits into it",
            got=f"{show(operand)}, slice_sizes={sizes}",
            hint="dynamic_slice_in_dim cuts along one axis",
        )
    starts = _starts(operand, start_indices, sizes)
    if isinstance(starts, tuple):
        return static_slice(operand, starts, [a + s for a, s in zip(starts, sizes, strict=True)])
    out: Array = bind(Op.GATHER, operand, starts, arg=Gather(0, sizes), weak=operand.weak_type)
    return out


def dynamic_update_slice(operand: ArrayLike, update: ArrayLike, start_indices: Starts) -> Array:
    """Returns operand with a block replaced at starts that may be computed.

    Args:
        operand: array of any shape.
        update: the block, of the dtype of operand, with as many axes, none of them longer.
        start_indices: one integer scalar for each axis, as for `dynamic_slice`.

    Raises:
        ShapeError: if the block is larger than operand or has another number of axes.
        DTypeError: if the dtypes differ, or a start is not an integer.

    Example:
        >>> from tfn.lax.movement import broadcasted_iota
        >>> x = broadcasted_iota("int32", (4,), 0)
        >>> dynamic_update_slice(x, x[:2], (3,)).tolist()
        [0, 1, 0, 1]
    """
    operand, update = array(operand), array(update)
    sizes = update.shape
    if len(sizes) != len(operand.shape) or any(
        s > n for s, n in zip(sizes, operand.shape, strict=True)
    ):
        raise unfit(
            "dynamic_update_slice needs an update that fits into operand",
            (operand, update),
            "an update has as many axes, none of them longer",
        )
    if update.dtype != operand.dtype:
        raise unlike("dynamic_update_slice", (operand, update), "one dtype")
    starts = _starts(operand, start_indices, sizes)
    if isinstance(starts, tuple):
        dtype = index_dtype(max((0, *starts)))
        starts = _vector([literal(s, dtype, (), [operand, update]) for s in starts], dtype)
    out: Array = bind(Op.SCATTER, operand, starts, update, arg=Scatter(0, Op.WHERE))
    return out if operand.shape else update


def _starts(x: Array, start_indices: Starts, sizes: Shape) -> Shape | Array:
    """Starts that fit: ints if all are known, else a vector."""
    if isinstance(start_indices, (Array, np.ndarray)):
        vector = array(start_indices)
        if vector.shape != (len(x.shape),):
            raise unfit("a start is needed for each axis", (x, vector), "pass 0 for the others")
        start_indices = [index_in_dim(vector, i, keepdims=False) for i in range(len(x.shape))]
    if len(start_indices) != len(x.shape):
        raise unfit(
            "a start is needed for each axis",
            (x,),
            "pass 0 for the others",
            f", {len(start_indices)} starts",
        )
    limits = [n - size for n, size in zip(x.shape, sizes, strict=True)]
    values = [_start(s, n) for s, n in zip(start_indices, x.shape, strict=True)]
    constants = [min(max(v, 0), limit) for v, limit in zip(values, limits) if isinstance(v, int)]
    if len(constants) == len(values):
        return tuple(constants)
    moving = [v for v in values if isinstance(v, Array)]
    dtype = index_dtype(max(limits), *[v.dtype for v in moving])
    return _vector(
        [
            elementwise.clamp(
                0, v if isinstance(v, Array) else literal(v, dtype, (), moving), limit
            )
            for v, limit in zip(values, limits, strict=True)
        ],
        dtype,
    )


def _start(start: ArrayLike, size: int) -> int | Array:
    if not isinstance(start, Array):
        at = integer("a slice", "start", start)
        return at + size if at < 0 else at
    if start.shape or start.dtype not in INTEGERS:
        raise DTypeError(
            "a start is a scalar integer",
            got=show(start),
            hint="take one element, or convert it: start.astype('int32')",
        )
    place = elementwise.cast(start, index_dtype(size, start.dtype))
    return elementwise.select(elementwise.lt(place, 0), elementwise.add(place, size), place)


def _vector(scalars: Sequence[Array], dtype: DType) -> Array:
    if not scalars:
        return array(np.zeros(0, dtype))
    return concatenate([reshape(elementwise.cast(s, dtype), (1,)) for s in scalars], 0)


def _along(x: Array, axis: int, start: ArrayLike) -> list[ArrayLike]:
    return [start if i == axis else 0 for i in range(len(x.shape))]


def dynamic_slice_in_dim(
    operand: ArrayLike, start_index: ArrayLike, slice_size: int, axis: int = 0
) -> Array:
    """Returns a block of fixed size along one axis, whole along the others; see `dynamic_slice`.

    Args:
        operand: array of at least one axis.
        start_index: integer scalar; negative ones count from the end, then it is clamped to fit.
        slice_size: static size of the block along the axis, at most that of operand.
        axis: integer in [-ndim, ndim); negative axes count from the end.

    Raises:
        ShapeError: if `slice_size` is larger than the axis.
        AxisError: if there is no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> dynamic_slice_in_dim(tnp.arange(5), 1, 3)
        Array([1, 2, 3], dtype=int32)
    """
    operand = array(operand)
    axis = one_axis("dynamic_slice_in_dim", axis, len(operand.shape))
    sizes = (*operand.shape[:axis], slice_size, *operand.shape[axis + 1 :])
    return dynamic_slice(operand, _along(operand, axis, start_index), sizes)


def dynamic_index_in_dim(
    operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True
) -> Array:
    """Returns the elements at one index of an axis, which may be computed.

    Args:
        operand: array of at least one axis.
        index: integer scalar; negative ones count from the end, then it is clamped to the axis.
        axis: integer in [-ndim, ndim); negative axes count from the end.
        keepdims: whether the axis stays, with size 1.

    Raises:
        ShapeError: if the axis is empty.
        AxisError: if there is no such axis.

    Example:
        >>> from tfn.lax.movement import broadcasted_iota
        >>> dynamic_index_in_dim(broadcasted_iota("int32", (4,), 0), 2, keepdims=False).tolist()
        2
    """
    out = dynamic_slice_in_dim(operand, index, 1, axis)
    return out if keepdims else squeeze(out, axis)


def dynamic_update_slice_in_dim(
    operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int
) -> Array:
    """Returns operand with a block replaced along one axis; see `dynamic_update_slice`.

    Args:
        operand: array of at least one axis.
        update: the block, of the dtype of operand, with as many axes.
        start_index: integer scalar; negative ones count from the end, then it is clamped to fit.
        axis: integer in [-ndim, ndim); negative axes count from the end.

    Raises:
        ShapeError, DTypeError: if the block does not fit, or its dtype differs.
        AxisError: if there is no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> dynamic_update_slice_in_dim(tnp.zeros(4), tnp.ones(2), 1, 0)
        Array([0., 1., 1., 0.], dtype=float32)
    """
    operand = array(operand)
    axis = one_axis("dynamic_update_slice_in_dim", axis, len(operand.shape))
    return dynamic_update_slice(operand, update, _along(operand, axis, start_index))


def dynamic_update_index_in_dim(
    operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int
) -> Array:
    """Returns operand with the elements at one index of an axis replaced.

    Args:
        operand: array of at least one axis.
        update: the elements, of the dtype of operand, with the axis of size 1, or without it.
        index: integer scalar; negative ones count from the end, then it is clamped to the axis.
        axis: integer in [-ndim, ndim); negative axes count from the end.

    Raises:
        ShapeError, DTypeError: if the elements do not fit, or their dtype differs.
        AxisError: if there is no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> dynamic_update_index_in_dim(tnp.zeros(3), 5.0, 1, 0)
        Array([0., 5., 0.], dtype=float32)
    """
    operand, update = array(operand), array(update)
    axis = one_axis("dynamic_update_index_in_dim", axis, len(operand.shape))
    if len(update.shape) < len(operand.shape):
        update = reshape(update, (*update.shape[:axis], 1, *update.shape[axis:]))
    return dynamic_update_slice_in_dim(operand, update, index, axis)


# Order.


@overload
def sort(
    operand: ArrayLike, dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array: ...
@overload
def sort(
    operand: Sequence[ArrayLike], dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> tuple[Array, ...]: ...
def sort(
    operand: ArrayLike | Sequence[ArrayLike],
    dimension: int = -1,
    is_stable: bool = True,
    num_keys: int = 1,
) -> Array | tuple[Array, ...]:
    """Sorts in ascending order along an axis, NaN last; equal elements keep their order.

    Several operands are permuted together, in the order of the first `num_keys` of them, compared
    one after the other.

    Args:
        operand: an array with at least one axis, or a sequence of arrays of one shape, of any
            dtypes.
        dimension: the axis, an integer in [-ndim, ndim).
        is_stable: accepted as in JAX and ignored: every sort is stable.
        num_keys: number of leading operands that are compared, at least 1.

    Returns:
        An array like the operand, or a tuple of arrays like the operands.

    Raises:
        ArgumentError: unless 1 <= num_keys <= number of operands.
        ShapeError: if the operands have different shapes.
        AxisError: if there is no such axis.

    Example:
        >>> keys, values = array(np.array([2, 1])), array(np.array([7.0, 8.0]))
        >>> [x.tolist() for x in sort((keys, values))]
        [[1, 2], [8.0, 7.0]]
    """
    many = isinstance(operand, (tuple, list))
    xs = [array(x) for x in (operand if isinstance(operand, (tuple, list)) else (operand,))]
    if not 1 <= integer("sort", "num_keys", num_keys) <= len(xs):
        raise ArgumentError(
            "sort needs at least one key among its operands",
            got=f"{len(xs)} operands, num_keys={num_keys}",
            hint="num_keys counts the operands that are compared",
        )
    axis = one_axis("sort", dimension, len(xs[0].shape))
    lines = [moveaxis(x, axis, -1) for x in xs]
    out = tuple(moveaxis(x, -1, axis) for x in _sorted(lines, num_keys))
    return out if many else out[0]


def _sorted(xs: Sequence[Array], keys: int) -> list[Array]:
    node = bind(Op.SORT, *xs, arg=Sort(keys))
    if isinstance(node, Array):  # recorded: one node, from which each result is taken
        return [bind(Op.GET, node, arg=i, weak=x.weak_type) for i, x in enumerate(xs)]
    return [weaken(out, x.weak_type) for out, x in zip(node, xs, strict=True)]


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Returns keys in ascending order along an axis, and values permuted with them.

    Args:
        keys: array with at least one axis; NaN comes last, equal keys keep their order.
        values: array of the shape of `keys`, of any dtype.
        dimension: the axis, an integer in [-ndim, ndim).
        is_stable: accepted as in JAX and ignored: every sort is stable.

    Raises:
        ShapeError: if the shapes differ.
        AxisError: if there is no such axis.

    Example:
        >>> [x.tolist() for x in sort_key_val(np.array([2, 1]), np.array([7.0, 8.0]))]
        [[1, 2], [8.0, 7.0]]
    """
    first, second = sort((keys, values), dimension, is_stable, 1)
    return first, second


def platform_dependent(
    *args: object, default: Callable[..., T] | None = None, **per_platform: Callable[..., T]
) -> T:
    """Calls the function for this platform, ``per_platform["cpu"]``, or the default.

    Args:
        args: arguments of the function.
        default: the function to call if there is none for cpu.
        per_platform: functions by platform: cpu, cuda, ...; all but cpu are ignored.

    Returns:
        Whatever the function returns.

    Raises:
        ArgumentError: if there is neither a function for cpu nor a default.

    Example:
        >>> platform_dependent(3, default=lambda x: x + 1)
        4
    """
    function = per_platform.get("cpu", default)
    if function is None:
        raise ArgumentError(
            "platform_dependent needs a function for cpu, or a default",
            got=", ".join(per_platform) or "none",
            hint="pass cpu=function or default=function",
        )
    return function(*args)


def optimization_barrier(operand: T, /) -> T:
    """Returns the same values, materialised: nothing is fused across.

    Example:
        >>> optimization_barrier({"x": 1})["x"].tolist()
        1
    """
    out: T = tree.map(lambda x: _materialised(array(x)), operand)
    return out


def _materialised(x: Array) -> Array:
    out: Array = bind(Op.GBARRIER, x, weak=x.weak_type)
    return out
