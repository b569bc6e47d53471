"""Sorting: sorted elements, the indices that sort, and binary search."""

from __future__ import annotations

from typing import Any

from tfn._support.validate import element_type, one_of, rank, several, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import COMPLEXES, FLOATS, INTEGERS, DType, DTypeLike, complex_of
from tfn.eager.operands import apply, array_of, inexact, one_axis, together
from tfn.errors import ArgumentError
from tfn.numpy.indexing import getitem
from tfn.numpy.manipulation import flat_or_axis
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.build import cast, eq, flip, iota, moveaxis, ne
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp


def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements sorted along an axis; NaN comes last, or first if descending.

    Args:
        a: array of any dtype; complex numbers are ordered by real, then imaginary part.
        axis: axis that is sorted, counted from the end if negative; the last by default, None takes
            the flat array.
        kind: accepted as in NumPy, by its names of algorithms: sorting is always stable.
        order: None: arrays have no fields to order by.
        stable: accepted as in NumPy: sorting is always stable.
        descending: whether the largest elements come first.

    Returns:
        An array of the shape and dtype of `a`, or a vector of all elements.

    Raises:
        AxisError: if the array has no such axis.
        ArgumentError: for another kind, or an order.

    Example:
        >>> import tfn.numpy as tnp
        >>> sort(tnp.array([3, 1, 2]), descending=True)
        Array([3, 2, 1], dtype=int32)
    """
    _one_way("sort", kind, order)
    a, axis = flat_or_axis("sort", a, axis)
    return apply(_sorted, (a,), axis, bool(descending), weak=a.weak_type)


def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike | None = None,
) -> Array:
    """The indices that sort an array along an axis; equal elements keep their order.

    Args:
        a: array of any dtype; complex numbers are ordered by real, then imaginary part.
        axis: axis that is sorted, counted from the end if negative; the last by default, None takes
            the flat array.
        kind: accepted as in NumPy, by its names of algorithms: sorting is always stable.
        order: None: arrays have no fields to order by.
        stable: accepted as in NumPy: sorting is always stable.
        descending: whether the largest elements come first.
        dtype: dtype of the indices; None takes int32, or int64 for a long axis.

    Returns:
        An integer array of the shape of `a`, or a vector of as many elements.

    Raises:
        AxisError: if the array has no such axis.
        ArgumentError: for another kind, or an order.

    Example:
        >>> import tfn.numpy as tnp
        >>> argsort(tnp.array([3, 1, 2]))
        Array([1, 2, 0], dtype=int32)
    """
    _one_way("argsort", kind, order)
    a, axis = flat_or_axis("argsort", a, axis)
    places = apply(_order, (a,), axis, bool(descending))
    return places if dtype is None else places.astype(dtype)


def _one_way(name: str, kind: str | None, order: None) -> None:
    one_of(name, "kind", kind, (None, "quicksort", "heapsort", "mergesort", "stable"))
    one_of(name, "order", order, (None,))


def _sorted(x: UOp, axis: int, descending: bool) -> UOp:
    last = x.ndim - 1
    (out,) = build.sort([moveaxis(x, axis, last)])
    return moveaxis(flip(out, (last,)) if descending else out, last, axis)


def _order(x: UOp, axis: int, descending: bool) -> UOp:
    last = x.ndim - 1
    x = moveaxis(x, axis, last)
    place = iota(x.shape, last)
    if descending:  # both backwards, so that equal elements keep their order
        x, place = flip(x, (last,)), flip(place, (last,))
    place = build.sort([x, place])[1]
    place = flip(place, (last,)) if descending else place
    return moveaxis(cast(place, build.result_index_dtype(x.shape[last])), last, axis)


def lexsort(keys: object, axis: int = -1) -> Array:
    """The indices that sort by several keys, the last key first.

    Raises:
        ArgumentError: without keys.
        ShapeError: if the keys differ in shape.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> lexsort((tnp.array([1, 0, 2]), tnp.array([5, 5, 4])))
        Array([2, 1, 0], dtype=int32)
    """
    arrays = [array_of("lexsort", key) for key in several("lexsort", "keys", keys, "arrays")]
    if not arrays:
        raise ArgumentError(
            "lexsort needs at least one key", got=f"keys={keys!r}", hint="argsort takes one array"
        )
    if any(key.shape != arrays[0].shape for key in arrays):
        raise unfit("lexsort needs keys of one shape", arrays, "broadcast_arrays makes them equal")
    return apply(_lexical, arrays[::-1], one_axis("lexsort", axis, arrays[0].ndim))


def _lexical(*keys_and_axis: Any) -> UOp:
    *keys, axis = keys_and_axis
    last = keys[0].ndim - 1
    columns = [moveaxis(key, axis, last) for key in keys]
    place = build.sort([*columns, iota(columns[0].shape, last)], len(keys))[-1]
    return moveaxis(cast(place, build.result_index_dtype(place.shape[last])), last, axis)


SEARCHES = ("scan", "scan_unrolled", "sort", "compare_all", "default")
"""The methods that are accepted, as in JAX."""


def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """The indices at which `v` would be inserted into the sorted vector `a` to keep it sorted.

    A binary search for all elements of `v` side by side, or a comparison with all elements of a
    short vector, whatever `method` asks for.

    Args:
        a: ascending vector.
        v: array or number; NaN counts as the largest.
        side: "left" for the index before equal elements, "right" for the one after them.
        sorter: the indices that sort `a`, if it is not sorted; None if it is.
        method: accepted as in JAX: "scan", "scan_unrolled", "sort", "compare_all" or "default".

    Returns:
        An int32 array of the shape of `v` (int64 for 2**31 elements of `a` and more).

    Raises:
        ArgumentError: for another side or method.
        ShapeError: unless `a` is a vector.
        DTypeError: unless `sorter` holds integers.

    Example:
        >>> import tfn.numpy as tnp
        >>> searchsorted(tnp.array([1, 3, 5]), tnp.array([0, 3, 9]))
        Array([0, 1, 3], dtype=int32)
    """
    one_of("searchsorted", "side", side, ("left", "right"))
    one_of("searchsorted", "method", method, SEARCHES)
    operands, dtype, _ = together("searchsorted", a, v)
    rank("searchsorted", operands[0], 1, 1, "to search in")
    if sorter is not None:
        order = array_of("searchsorted", sorter)
        element_type("searchsorted", order, INTEGERS, "integers as sorter")
        operands[0] = getitem(operands[0], (order,))
    return apply(insertion_points, operands, dtype, side == "left")


MAX_COMPARED = 64
"""Elements up to which a vector is compared with every key as a whole, which has no gathers: a
binary search of 100,000 keys takes longer up to about 128."""


def insertion_points(a: UOp, v: UOp, dtype: DType, left: bool) -> UOp:
    """The number of elements of a sorted vector before each key; the arguments of a program."""
    a, v = (UOp(Op.DETACH, (cast(u, dtype),)) for u in (a, v))
    if a.size > MAX_COMPARED:
        return _search(a, v, left)
    shape = (*v.shape, a.size)
    line, key = build.broadcast_to(a, shape), build.broadcast_in_dim(v, shape, range(v.ndim))
    return build.add_up(cast(_before(line, key, left), build.index_dtype(a.size)), (v.ndim,))


def _before(element: UOp, key: UOp, left: bool) -> UOp:
    """Whether elements are sorted before keys; NaN counts as the largest."""
    if key.dtype in COMPLEXES:  # by the real, then the imaginary part
        (x, u), (y, w) = ((build.real(z), build.imag(z)) for z in (element, key))
        return _before(x, y, True) | (~_before(y, x, True) & _before(u, w, left))
    before = element < key if left else element <= key
    if key.dtype not in FLOATS:
        return before
    key_is_nan = ne(key, key)
    return before | (key_is_nan & eq(element, element)) if left else before | key_is_nan


def _search(a: UOp, v: UOp, left: bool) -> UOp:
    """Steps of powers of two down to one, for all keys side by side."""
    size, shape, turns = a.size, v.shape, a.size.bit_length()
    index = build.index_dtype(size)
    start = build.zeros(shape, index)
    types: list[tuple[Shape, DType]] = [
        ((size,), a.dtype),
        (shape, a.dtype),
        (shape, index),
        ((), index),
    ]
    params = tuple(Param(i, *kind) for i, kind in enumerate(types))
    line, key, place, step = map(param, params)
    next_place = place + build.broadcast_to(step, shape)
    limit = build.full_like(next_place, size)
    last = build.reshape(build.minimum(next_place, limit) - 1, (*shape, 1))
    candidate = build.reshape(build.gather(line, last, (1,)), shape)
    reached = _before(candidate, key, left) & (next_place <= limit)
    body = function([build.where(reached, next_place, place)], params)
    powers = iota((turns,), 0, index)
    steps = flip(build.full_like(powers, 1) << powers, (0,))
    return build.scan(body, [a, v], [start], [steps], turns)[0]


def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    """The number of the bin in which each element lies: 0 before the first border.

    Args:
        x: array or number.
        bins: ascending vector of borders.
        right: whether a border belongs to the bin below it.
        method: accepted as in `searchsorted`.

    Returns:
        An integer array of the shape of `x`, of numbers from 0 to the number of borders.

    Raises:
        ShapeError: unless `bins` is a vector.

    Example:
        >>> import tfn.numpy as tnp
        >>> digitize(tnp.array([0.5, 2.5]), tnp.array([0.0, 1.0, 2.0]))
        Array([1, 3], dtype=int32)
    """
    side = "left" if right else "right"
    return searchsorted(bins, x, side=side, method=method or "scan")


def sort_complex(a: ArrayLike) -> Array:
    """The elements sorted by real, then imaginary parts, as complex numbers.

    Example:
        >>> import tfn.numpy as tnp
        >>> sort_complex(tnp.array([2 + 1j, 1j, 2 + 0j]))
        Array([0.+1.j, 2.+0.j, 2.+1.j], dtype=complex64)
    """
    x = array_of("sort_complex", a)
    wide = x.astype(complex_of(inexact((x.dtype, False))[0]))
    return sort(wide)
