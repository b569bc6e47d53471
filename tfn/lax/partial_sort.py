"""Partial sorts: the k largest or smallest elements along an axis."""

from __future__ import annotations

from tfn._support.validate import integer
from tfn.array import Array, ArrayLike
from tfn.eager.operands import apply, one_axis
from tfn.errors import ArgumentError
from tfn.lax.dynamic_indexing import sort
from tfn.lax.movement import broadcasted_iota, slice_in_dim
from tfn.lax.operand import array, show
from tfn.trace import build
from tfn.trace.argument import Sort
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def top_k(
    operand: ArrayLike,
    k: int,
    *,
    axis: int = -1,
) -> tuple[Array, Array]:
    """Returns the k largest elements along an axis, the largest first, and their indices.

    Of equal elements the first comes first; NaN is larger than all.

    Args:
        operand: array with at least one axis; NaN is larger than all.
        k: number of elements, from 0 to the size of the axis.
        axis: integer in [-ndim, ndim); negative axes count from the end.

    Returns:
        A pair of arrays, whose size along the axis is k: the values, and their indices (int32, or
        int64 along an axis that needs it).

    Raises:
        ArgumentError: unless 0 <= k <= size of the axis.
        AxisError: if there is no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> values, places = top_k(tnp.array([1.0, 3.0, 2.0]), 2)
        >>> values.tolist(), places.tolist()
        ([3.0, 2.0], [1, 2])
    """
    operand, axis = _checked("top_k", operand, k, axis)
    places = apply(_largest, (operand,), k, axis)
    return apply(_at, (operand, places), axis, weak=operand.weak_type), places


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    **hints: object,
) -> tuple[Array, Array]:
    """Returns the k largest elements along an axis and their indices, exactly: it is `top_k`.

    Args:
        operand: array with at least one axis; NaN is larger than all.
        k: number of elements, from 0 to the size of the axis.
        reduction_dimension: the axis; negative ones count from the end.
        recall_target: accepted as in JAX and ignored: none is missed.
        hints: further arguments of JAX, ignored.

    Raises:
        ArgumentError: unless 0 <= k <= size of the axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> approx_max_k(tnp.array([3.0, 1.0, 2.0]), 2)[0]
        Array([3., 2.], dtype=float32)
    """
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    **hints: object,
) -> tuple[Array, Array]:
    """Returns the k smallest elements along an axis, the smallest first, and their indices,
    exactly.

    Args:
        operand: array with at least one axis; NaN is larger than all.
        k: number of elements, from 0 to the size of the axis.
        reduction_dimension: the axis; negative ones count from the end.
        recall_target: accepted as in JAX and ignored: none is missed.
        hints: further arguments of JAX, ignored.

    Raises:
        ArgumentError: unless 0 <= k <= size of the axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> [x.tolist() for x in approx_min_k(tnp.array([3.0, 1.0, 2.0]), 2)]
        [[1.0, 2.0], [1, 2]]
    """
    x, axis = _checked("approx_min_k", operand, k, reduction_dimension)
    dtype = build.index_dtype(x.shape[axis])
    values, places = sort((x, broadcasted_iota(dtype, x.shape, axis)), axis)
    return slice_in_dim(values, 0, k, axis=axis), slice_in_dim(places, 0, k, axis=axis)


def _checked(name: str, x: ArrayLike, k: int, axis: int) -> tuple[Array, int]:
    x = array(x)
    axis = one_axis(name, axis, len(x.shape))
    if not 0 <= integer(name, "k", k) <= x.shape[axis]:
        raise ArgumentError(
            f"{name} needs 0 <= k <= {x.shape[axis]}",
            got=f"{show(x)}, k={k}",
            hint="the axis has no more elements",
        )
    return x, axis


def _largest(x: UOp, k: int, axis: int) -> UOp:
    """The indices of the k largest along an axis."""
    last = x.ndim - 1
    rows = build.moveaxis(UOp(Op.DETACH, (x,)), axis, last)
    numbers = build.iota(rows.shape, last, build.index_dtype(rows.shape[last]))
    places = build.several(UOp(Op.SORT, (rows, numbers), Sort(1, largest=k)))[1]
    return build.moveaxis(places, last, axis)


def _at(x: UOp, places: UOp, axis: int) -> UOp:
    """Returns the elements at indices along an axis."""
    if x.shape[axis] == 0:  # a gather has windows inside its operand, and here there is none
        return x
    last = x.ndim - 1
    lines, at = build.moveaxis(x, axis, last), build.moveaxis(places, axis, last)
    elements = build.gather(lines, build.reshape(at, (*at.shape, 1)), (1,), last)
    return build.moveaxis(build.reshape(elements, at.shape), last, axis)
