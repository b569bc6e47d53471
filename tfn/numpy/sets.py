"""Sets: distinct elements, unions, intersections and differences.

The size of results depends on values: outside of traced functions these are read; inside, the
argument `size` fixes it, and the results that are missing are filled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tfn._support.validate import integer, one_of, shown
from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOATS, INEXACT
from tfn.eager.operands import apply, array_of, indices_of, known_values, one_axis, together
from tfn.errors import ArgumentError
from tfn.numpy.concatenation import concatenate
from tfn.numpy.cumulative import cumsum
from tfn.numpy.indexing import getitem
from tfn.numpy.logic import logical_and, logical_not, logical_xor
from tfn.numpy.searching import SIZE, flatnonzero, slices_at
from tfn.numpy.sorting import MAX_COMPARED, insertion_points, searchsorted
from tfn.numpy.updates import update
from tfn.trace import build
from tfn.trace.build import cast, iota, ne, reshape
from tfn.trace.op import Op
from tfn.trace.uop import UOp

_unique: Any = np.unique  # typed for each combination of its flags, which are variables here


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """The sorted distinct elements, or slices of an axis, and on request their indices and counts.

    Args:
        ar: array or number, of any shape.
        return_index: whether to return the index of the first occurrence of each.
        return_inverse: whether to return the indices that rebuild `ar` from the result.
        return_counts: whether to return the number of occurrences of each.
        axis: axis whose slices are compared, counted from the end if negative; None takes the flat
            array.
        equal_nan: whether all NaN count as one element.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing; None takes the first element of the result.
        sorted: accepted as in NumPy: results are always sorted.

    Returns:
        The distinct elements, or a tuple of them and the integer arrays asked for, in the order
        above.

    Raises:
        TracerArrayConversionError: without `size`, for a traced value.
        ArgumentError: if `size` is negative, or has nothing to be filled with.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> values, counts = unique(tnp.array([3, 1, 3]), return_counts=True, size=3)
        >>> values.tolist(), counts.tolist()
        ([1, 3, 1], [1, 2, 0])
    """
    ar = array_of("unique", ar)
    requests = (return_index, return_inverse, return_counts)
    axis = None if axis is None else one_axis("unique", axis, ar.ndim)
    if size is None:
        result: Any = _unique(
            known_values("unique", ar, SIZE), *requests, axis=axis, equal_nan=equal_nan
        )
        values, *places = result if isinstance(result, tuple) else (result,)
        results = [indices_of("unique", p, ar.size) for p in places]
        return (array_of("unique", values), *results) if results else array_of("unique", values)
    size = integer("unique", "size", size, 0)
    lines = ar.reshape(ar.size) if axis is None else ar
    at = one_axis("unique", 0 if axis is None else axis, lines.ndim)
    count = lines.shape[at]
    if not count and size and fill_value is None:
        raise ArgumentError(
            "unique of nothing has no element to fill a size with",
            got=f"size={size}, ar={shown(lines)}",
            hint="pass fill_value=",
        )
    order, new = _ordered(lines, at, equal_nan)
    next_too = flatnonzero(new, size=size + 1, fill_value=-1)  # the last count ends there
    starts = next_too[:size]
    index = getitem(order, (apply(_not_negative, (starts,)),)) if count else starts
    default = 0 if not count else getitem(lines, (slice(None),) * at + (index[:1] if size else 0,))
    fill = default if fill_value is None else fill_value
    values = slices_at(lines, _mark_missing(index, starts), at, fill)
    results = [index] if return_index else []
    if return_inverse:
        group = cumsum(new, dtype=build.result_index_dtype(count)) - 1
        inverse = update(group, (order,), group, "set")
        results.append(inverse.reshape(ar.shape) if axis is None else inverse)
    if return_counts:
        results.append(apply(_lengths, (next_too,), count))
    return (values, *results) if results else values


def _mark_missing(index: Array, starts: Array) -> Array:
    return apply(_mark, (index, starts))


def _mark(index: UOp, starts: UOp) -> UOp:
    return build.where(starts < 0, build.full_like(index, -1), index)


def _lengths(starts: UOp, count: int) -> UOp:
    """The distance of each start but the last to the next one; 0 where there is no start."""
    begin = build.where(starts < 0, build.full_like(starts, count), starts)
    last = starts.size - 1
    return build.shrink(begin, (1,), (starts.size,)) - build.shrink(begin, (0,), (last,))


def _not_negative(starts: UOp) -> UOp:
    return build.maximum(starts, build.full_like(starts, 0))


def _ordered(x: Array, axis: int, equal_nan: bool = True) -> tuple[Array, Array]:
    """The order that sorts the slices of an axis, and whether each differs from the one before."""
    return apply(_order, (x,), axis), apply(_new, (x,), axis, equal_nan)


def _rows(x: UOp, axis: int) -> tuple[list[UOp], UOp]:
    """The sorted slices of an axis, as the columns of a matrix, and the order that sorts them."""
    count = x.shape[axis]
    width = x.size // count if count else 0
    matrix = reshape(build.moveaxis(x, axis, x.ndim - 1), (width, count))
    rows = [build.shrink(matrix, (i, 0), (i + 1, count)) for i in range(width)]
    columns = [reshape(row, (count,)) for row in rows]
    place = iota((count,), 0, build.result_index_dtype(count))
    *columns, order = build.sort([*columns, place], max(width, 1))
    return columns, order


def _order(x: UOp, axis: int) -> UOp:
    return _rows(x, axis)[1]


def _new(x: UOp, axis: int, equal_nan: bool) -> UOp:
    columns, order = _rows(x, axis)
    count = order.size
    differs = build.zeros((max(count - 1, 0),), np.dtype(bool))
    for line in columns if count else []:
        before = build.shrink(line, (0,), (count - 1,))
        after = build.shrink(line, (1,), (count,))
        differ = ne(before, after)
        if equal_nan and line.dtype in FLOATS:
            differ = differ & ~(ne(before, before) & ne(after, after))
        differs = differs | differ
    first = build.full_like(build.zeros((), differs.dtype), True)
    return build.pad(differs, (1,), (0,), value=first) if count else differs


class UniqueAll(NamedTuple):
    """The results of `unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The results of `unique_counts`."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The results of `unique_inverse`."""

    values: Array
    inverse_indices: Array


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueAll:
    """The distinct elements, their indices, the inverse indices and counts; each NaN is distinct.

    Args:
        x: array or number, of any shape.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing; None takes the first element of the result.

    Returns:
        A named tuple of `values`, `indices`, `inverse_indices` and `counts`.

    Raises:
        TracerArrayConversionError: without `size`, for a traced value.

    Example:
        >>> import tfn.numpy as tnp
        >>> unique_all(tnp.array([2, 1, 2])).counts
        Array([1, 2], dtype=int32)
    """
    options: Any = {"size": size, "fill_value": fill_value, "equal_nan": False}
    return UniqueAll(*unique(x, True, True, True, **options))


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueCounts:
    """The distinct elements and the number of occurrences of each; each NaN is distinct.

    Args:
        x: array or number, of any shape.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing; None takes the first element of the result.

    Returns:
        A named tuple of `values` and `counts`.

    Raises:
        TracerArrayConversionError: without `size`, for a traced value.

    Example:
        >>> import tfn.numpy as tnp
        >>> unique_counts(tnp.array([2, 1, 2])).counts
        Array([1, 2], dtype=int32)
    """
    options: Any = {"size": size, "fill_value": fill_value, "equal_nan": False}
    return UniqueCounts(*unique(x, return_counts=True, **options))


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueInverse:
    """The distinct elements and the indices that rebuild `x` from them; each NaN is distinct.

    Args:
        x: array or number, of any shape.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing; None takes the first element of the result.

    Returns:
        A named tuple of `values` and `inverse_indices`, which have the shape of `x`.

    Raises:
        TracerArrayConversionError: without `size`, for a traced value.

    Example:
        >>> import tfn.numpy as tnp
        >>> unique_inverse(tnp.array([2, 1, 2])).inverse_indices
        Array([1, 0, 1], dtype=int32)
    """
    options: Any = {"size": size, "fill_value": fill_value, "equal_nan": False}
    return UniqueInverse(*unique(x, return_inverse=True, **options))


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The sorted vector of the distinct elements; each NaN is distinct.

    Args:
        x: array or number, of any shape.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing; None takes the first element of the result.

    Raises:
        TracerArrayConversionError: without `size`, for a traced value.

    Example:
        >>> import tfn.numpy as tnp
        >>> unique_values(tnp.array([2, 1, 2]))
        Array([1, 2], dtype=int32)
    """
    values: Array = unique(x, equal_nan=False, size=size, fill_value=fill_value)
    return values


def _flattened(name: str, a: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    """Two arrays flattened and promoted to one dtype."""
    (x, y), dtype, _ = together(name, a, b)
    return x.reshape(x.size).astype(dtype), y.reshape(y.size).astype(dtype)


def _selected(
    x: Array, keep: Array, size: int | None, fill_value: ArrayLike | None, order: Array
) -> tuple[Array, Array]:
    """The elements that a mask selects, and the index of each in `x`, -1 where there is none."""
    places = flatnonzero(keep, size=size, fill_value=-1)
    where = _mark_missing(getitem(order, (places,), mode="clip"), places) if x.size else places
    default: ArrayLike = 0
    if x.size and places.size:
        first = apply(_past_end, (where[:1], where[:1]), x.size)
        default = getitem(x, (first,), mode="fill", fill_value=0)
    return slices_at(x, where, 0, default if fill_value is None else fill_value), where


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The sorted vector of the distinct elements of two arrays.

    Args:
        ar1: first array, which is flattened.
        ar2: second array, which is flattened.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing; None takes the first element of the result.

    Raises:
        TracerArrayConversionError: without `size`, for a traced value.

    Example:
        >>> import tfn.numpy as tnp
        >>> union1d(tnp.array([3, 1]), tnp.array([2, 3]))
        Array([1, 2, 3], dtype=int32)
    """
    values: Array = unique(
        concatenate(_flattened("union1d", ar1, ar2)), size=size, fill_value=fill_value
    )
    return values


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = 0,
) -> Array:
    """The sorted vector of the distinct elements of one array that are not in another.

    Args:
        ar1: first array, which is flattened.
        ar2: second array, which is flattened.
        assume_unique: whether elements of `ar1` are neither sorted nor made distinct.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing, 0 by default; None takes the first element of
            the result.

    Raises:
        TracerArrayConversionError: without `size`, for a traced value.

    Example:
        >>> import tfn.numpy as tnp
        >>> setdiff1d(tnp.array([3, 1, 2]), tnp.array([2]))
        Array([1, 3], dtype=int32)
    """
    x, y = _flattened("setdiff1d", ar1, ar2)
    if assume_unique:
        places = flatnonzero(isin(x, y, invert=True), size=size, fill_value=-1)
        return slices_at(x, places, 0, 0 if fill_value is None else fill_value)
    order, new = _ordered(x, 0)
    keep = logical_and(new, logical_not(isin(getitem(x, (order,)), y)))
    return _selected(x, keep, size, fill_value, order)[0]


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The sorted vector of the distinct elements that are in one of two arrays only.

    Args:
        ar1: first array, which is flattened.
        ar2: second array, which is flattened.
        assume_unique: accepted as in NumPy, and changes nothing.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing; None takes the first element of the result.

    Raises:
        TracerArrayConversionError: without `size`, for a traced value.

    Example:
        >>> import tfn.numpy as tnp
        >>> setxor1d(tnp.array([1, 2]), tnp.array([2, 3]))
        Array([1, 3], dtype=int32)
    """
    x, y = _flattened("setxor1d", ar1, ar2)
    both = concatenate([x, y])
    order, new = _ordered(both, 0)
    line = getitem(both, (order,))
    keep = logical_and(new, logical_xor(isin(line, x), isin(line, y)))
    return _selected(both, keep, size, fill_value, order)[0]


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """The sorted vector of the distinct elements that two arrays share, and on request indices.

    Args:
        ar1: first array, which is flattened.
        ar2: second array, which is flattened.
        assume_unique: accepted as in NumPy, and changes nothing.
        return_indices: whether to return the index of each in `ar1` and in `ar2`; missing ones are
            the number of elements of the array.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing; None takes the first element of the result.

    Returns:
        The vector, or a tuple of it and two integer vectors.

    Raises:
        TracerArrayConversionError: without `size`, for a traced value.

    Example:
        >>> import tfn.numpy as tnp
        >>> intersect1d(tnp.array([3, 1, 2]), tnp.array([2, 3, 4]))
        Array([2, 3], dtype=int32)
    """
    x, y = _flattened("intersect1d", ar1, ar2)
    order, new = _ordered(x, 0)
    keep = logical_and(new, isin(getitem(x, (order,)), y))
    values, place = _selected(x, keep, size, fill_value, order)
    if not return_indices:
        return values
    y_order, _ = _ordered(y, 0)
    positions = searchsorted(getitem(y, (y_order,)), values)
    positions_in_y = getitem(y_order, (positions,), mode="clip") if y.size else positions
    return (
        values,
        apply(_past_end, (place, place), x.size),
        apply(_past_end, (positions_in_y, place), y.size),
    )


def _past_end(place: UOp, valid: UOp, size: int) -> UOp:
    return build.where(valid < 0, build.full_like(place, size), place)


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Whether each element is among those of another array.

    Args:
        element: array or number that is looked up.
        test_elements: array of any shape.
        assume_unique: accepted as in NumPy, and changes nothing.
        invert: whether the answer is negated.
        method: accepted as in JAX: "auto", "compare_all", "binary_search" or "sort".

    Returns:
        A boolean array of the shape of `element`.

    Example:
        >>> import tfn.numpy as tnp
        >>> isin(tnp.array([1, 2, 3]), tnp.array([3, 1]))
        Array([ True, False,  True], dtype=bool)
    """
    one_of("isin", "method", method, ("auto", "compare_all", "binary_search", "sort"))
    operands, dtype, _ = together("isin", element, test_elements)
    return apply(_isin, operands, dtype, bool(invert))


def _isin(x: UOp, y: UOp, dtype: Any, invert: bool) -> UOp:
    x, y = (UOp(Op.DETACH, (cast(u, dtype),)) for u in (x, y))
    if y.size <= MAX_COMPARED:
        shape = (*x.shape, y.size)
        each = build.broadcast_in_dim(x, shape, range(x.ndim))
        line = build.broadcast_to(reshape(y, (y.size,)), shape)
        contained = build.reduce(build.eq(each, line), Op.MAX, (x.ndim,))
    else:
        y = build.where(ne(y, y), build.full_like(y, np.nan), y) if dtype in INEXACT else y
        (line,) = build.sort([reshape(y, (y.size,))])
        place = insertion_points(line, x, dtype, left=True)
        place = build.minimum(place, build.full_like(place, y.size - 1))
        found = build.gather(line, reshape(place, (*x.shape, 1)), (1,))
        contained = build.eq(x, reshape(found, x.shape))
    return build.unary(Op.NOT, contained) if invert else contained
