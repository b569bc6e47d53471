"""Partial sorts: the k largest or smallest elements along an axis, by selection or by a sort."""

from __future__ import annotations

import math

import numpy as np

from tfn._support.validate import integer
from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOATS, INT32, INT64, INTEGERS, DType, wide_type
from tfn.eager.operands import apply, one_axis
from tfn.errors import ArgumentError
from tfn.lax.dynamic_indexing import sort
from tfn.lax.movement import broadcasted_iota, rev, slice_in_dim
from tfn.lax.operand import array, show
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

BLOCK_ALIGNMENT_ELEMENTS = 16
"""Block sizes are multiples of this: whole vectors of 512 bits of 32-bit keys."""

MAX_ELEMENTS_IN_32_BITS = 1 << 30
"""Axes below this size are indexed in 32 bits, the padding of the last block included."""

MIN_ELEMENTS_TO_SELECT = 64
"""Shorter axes are sorted: there is nothing to gain."""

SELECT_STEP_NS = 20
SELECT_NS_PER_BLOCK_ELEMENT = 0.5
SORT_NS_PER_ELEMENT = 7
"""Measured: each of the k largest takes a step, in which a block of sqrt(size) elements is read;
a sort takes its time for each element of the axis.  The cheaper of the two is used."""


def top_k(x: ArrayLike, k: int, axis: int = -1) -> tuple[Array, Array]:
    """Returns the k largest elements along an axis, the largest first, and their indices.

    Of equal elements the first comes first; NaN is larger than all.

    Args:
        x: array with at least one axis; NaN is larger than all.
        k: number of elements, from 0 to the size of the axis.
        axis: integer in [-ndim, ndim); negative axes count from the end.

    Returns:
        A pair of arrays, whose size along the axis is k: the values, and their indices (int32, or
        int64 along an axis that needs it).

    Raises:
        ArgumentError: unless 0 <= k <= size of the axis.
        AxisError: if there is no such axis.

    Example:
        >>> values, places = top_k(array(np.array([1.0, 3.0, 2.0])), 2)
        >>> values.tolist(), places.tolist()
        ([3.0, 2.0], [1, 2])
    """
    x, axis = _checked("top_k", x, k, axis)
    size = x.shape[axis]
    step_ns = SELECT_STEP_NS + SELECT_NS_PER_BLOCK_ELEMENT * math.isqrt(size)
    cheaper = 0 < k * step_ns < SORT_NS_PER_ELEMENT * size
    in_range = MIN_ELEMENTS_TO_SELECT <= size < MAX_ELEMENTS_IN_32_BITS
    if cheaper and in_range and _key_dtype(x.dtype) is not None:
        places = apply(_selected, (x,), k, axis)
        return apply(_at, (x, places), axis, weak=x.weak_type), places
    # A stable ascending sort of the reversed row, reversed, is a stable descending one.
    both = (rev(x, axis), rev(broadcasted_iota(build.index_dtype(size), x.shape, axis), axis))
    values, places = sort(both, axis)
    best = [rev(slice_in_dim(v, size - k, size, axis=axis), axis) for v in (values, places)]
    return best[0], best[1]


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
    return top_k(operand, k, reduction_dimension)


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
        >>> [x.tolist() for x in approx_min_k(np.array([3.0, 1.0, 2.0]), 2)]
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


def _key_dtype(dtype: DType) -> DType | None:
    """Integers that hold all values of a dtype and one below; None if there are none."""
    if dtype in FLOATS:
        return INT64 if dtype.itemsize == 8 else INT32
    wide = dtype in INTEGERS and dtype.itemsize == 4
    return None if dtype not in INTEGERS or dtype.itemsize == 8 else INT64 if wide else INT32


def _keys(x: UOp) -> UOp:
    """Integers in the order of the values, all above the least of their dtype; NaN is the most."""
    dtype = _key_dtype(x.dtype)
    assert dtype is not None, x
    if x.dtype not in FLOATS:
        return build.cast(x, dtype)
    most = np.iinfo(dtype).max
    x = build.cast(x, np.dtype(f"float{8 * dtype.itemsize}"))
    bits = build.bitcast(x + 0.0, dtype)  # of both zeros the same
    negative = bits >> (8 * dtype.itemsize - 1)
    return build.where(build.ne(x, x), build.full_like(bits, most), bits ^ (negative & most))


def _selected(x: UOp, k: int, axis: int) -> UOp:
    """Returns the indices of the k largest, by repeated selection of the largest that remains.

    The largest remaining key of each block is carried along, so a step reads the block with the
    best of them only: once to select the key, and once for the largest that remains after it.
    """
    x = build.cast(x, wide_type(x.dtype))
    keys = _keys(build.moveaxis(UOp(Op.DETACH, (x,)), axis, x.ndim - 1))
    last, size, kind = keys.ndim - 1, keys.shape[-1], keys.dtype
    width = BLOCK_ALIGNMENT_ELEMENTS * max(1, math.isqrt(size) // BLOCK_ALIGNMENT_ELEMENTS)
    count, least = -(-size // width), np.iinfo(kind).min
    rows = keys.shape[:-1]
    beyond = (*(0,) * last, count * width - size)
    keys = build.pad(keys, (0,) * keys.ndim, beyond, None, const(least, kind))
    blocks = UOp(Op.GBARRIER, (build.reshape(keys, (*rows, count, width)),))
    params = (
        Param(0, (*rows, count * width), kind),
        Param(1, (*rows, count), kind),
        Param(2, rows, kind),
        Param(3, rows, INT32),
    )
    all_, best, key, place = map(param, params)

    def left(of: UOp, line: UOp, key: UOp, place: UOp) -> UOp:
        """Masks the keys that were selected already, up to (key, place), with the least key."""
        before, there = (build.broadcast_in_dim(u, of.shape, range(last)) for u in (key, place))
        after = (of < before) | (build.eq(of, before) & (there < line))
        return build.where(after, of, build.full_like(of, least))

    block = build.reduce(best, Op.MAX, (last,), index=INT32)
    first = build.broadcast_in_dim(block * width, (*rows, width), range(last))
    line = first + build.iota((*rows, width), last)
    some = build.gather(all_, build.reshape(block * width, (*rows, 1)), (width,), last)
    some = left(some, line, key, place)
    key = build.reduce(some, Op.MAX, (last,))
    place = block * width + build.reduce(some, Op.MAX, (last,), index=INT32)
    rest = build.reduce(left(some, line, key, place), Op.MAX, (last,))
    rest, here = (build.broadcast_in_dim(u, (*rows, count), range(last)) for u in (rest, block))
    best = build.where(build.eq(build.iota((*rows, count), last), here), rest, best)

    start = [
        build.reduce(blocks, Op.MAX, (last + 1,)),
        const(np.iinfo(kind).max, kind, rows),
        const(-1, INT32, rows),
    ]
    consts = [build.reshape(blocks, (*rows, count * width))]
    places = build.scan(function([best, key, place, place], params), consts, start, [], k)[3]
    return build.moveaxis(places, 0, axis)


def _at(x: UOp, places: UOp, axis: int) -> UOp:
    """Returns the elements at indices along an axis."""
    last = x.ndim - 1
    lines, at = build.moveaxis(x, axis, last), build.moveaxis(places, axis, last)
    elements = build.gather(lines, build.reshape(at, (*at.shape, 1)), (1,), last)
    return build.moveaxis(build.reshape(elements, at.shape), last, axis)
