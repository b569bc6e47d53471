"""Searching: indices of elements that are not zero, and elements selected by a mask.

The size of results depends on values: outside of traced functions these are read; inside, the
argument `size` fixes it, and the results that are missing are filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from tfn._support.validate import integer, no_out, rank, shown
from tfn.array import Array, ArrayLike
from tfn.eager.operands import apply, array_of, indices_of, known_values
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy.indexing import getitem
from tfn.numpy.logic import truth
from tfn.numpy.logic import where as choose
from tfn.numpy.manipulation import flat_or_axis
from tfn.trace import build
from tfn.trace.build import iota, reshape
from tfn.trace.uop import UOp, const

SIZE = "pass size=, which fixes the shape, or call this outside of the traced function"


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: int = 0) -> Array:
    """The indices of the elements of the flat array that are not zero.

    Args:
        a: array or number; what is not zero is true.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing, 0 by default.

    Returns:
        An integer vector of `size` elements.

    Raises:
        TracerArrayConversionError: without `size`, for a traced value.
        ArgumentError: if `size` is negative.

    Example:
        >>> import tfn.numpy as tnp
        >>> flatnonzero(tnp.array([0, 5, 0, 7]))
        Array([1, 3], dtype=int32)
    """
    a = array_of("flatnonzero", a)
    if size is None:
        places = np.flatnonzero(known_values("flatnonzero", a, SIZE))
        return indices_of("flatnonzero", places, a.size)
    return apply(_places, (a,), integer("flatnonzero", "size", size, 0), fill_value)


def _places(x: UOp, size: int, fill: int) -> UOp:
    count = x.size
    test = truth(reshape(x, (count,)))
    place = iota((count,), 0)
    places = build.where(test, place, build.full_like(place, count))
    (ordered,) = build.sort([places]) if count else (places,)
    ordered = build.shrink(ordered, (0,), (min(size, count),))
    ordered = build.pad(ordered, (0,), (max(size - count, 0),), value=const(count, place.dtype))
    ordered = build.where(ordered < count, ordered, build.full_like(ordered, fill))
    return build.cast(ordered, build.result_index_dtype(count))


def nonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: int | Sequence[int] = 0
) -> tuple[Array, ...]:
    """The indices of the elements that are not zero, one vector for each axis; see `flatnonzero`.

    Args:
        a: array of one axis at least.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing, or one for each axis; 0 by default.

    Returns:
        A tuple of integer vectors of `size` elements.

    Raises:
        ShapeError: if there is no axis.
        TracerArrayConversionError: without `size`, for a traced value.
        ArgumentError: if `size` is negative, or there are too few fill values.

    Example:
        >>> import tfn.numpy as tnp
        >>> nonzero(tnp.array([0, 3, 0, 4]))
        (Array([1, 3], dtype=int32),)
        >>> nonzero(tnp.array([0, 3, 0, 4]), size=3, fill_value=-1)
        (Array([ 1,  3, -1], dtype=int32),)
    """
    a = array_of("nonzero", a)
    rank("nonzero", a, 1)
    if size is None:
        coordinates = np.nonzero(known_values("nonzero", a, SIZE))
        return tuple(indices_of("nonzero", line, n) for line, n in zip(coordinates, a.shape))
    flat = flatnonzero(a, size=integer("nonzero", "size", size, 0), fill_value=-1)
    fills = fill_value if isinstance(fill_value, Sequence) else (fill_value,) * a.ndim
    if len(fills) != a.ndim:
        raise ArgumentError(
            "nonzero needs one fill_value, or one for each axis",
            got=f"{len(fills)} for {a.ndim} axes",
        )
    return tuple(apply(_coordinate, (flat,), a.shape, axis, n) for axis, n in enumerate(fills))


def _coordinate(flat: UOp, shape: tuple[int, ...], axis: int, fill: int) -> UOp:
    step = int(np.prod(shape[axis + 1 :], dtype=np.int64))
    place = (flat // max(step, 1)) % max(shape[axis], 1)
    return build.where(flat < 0, build.full_like(flat, fill), place)


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: int = 0) -> Array:
    """The indices of the elements that are not zero, one row for each; see `flatnonzero`.

    Args:
        a: array or number; what is not zero is true.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing, 0 by default.

    Returns:
        An integer matrix of `size` rows and a column for each axis.

    Raises:
        TracerArrayConversionError: without `size`, for a traced value.
        ArgumentError: if `size` is negative.

    Example:
        >>> import tfn.numpy as tnp
        >>> argwhere(tnp.array([[0, 1], [1, 0]])).tolist()
        [[0, 1], [1, 0]]
    """
    a = array_of("argwhere", a)
    if size is None:
        places = np.argwhere(known_values("argwhere", a, SIZE))
        return indices_of("argwhere", places, max((0, *a.shape)))
    lines = nonzero(a, size=integer("argwhere", "size", size, 0), fill_value=fill_value)
    return apply(_rows, lines)


def _rows(*lines: UOp) -> UOp:
    return build.concat([reshape(line, (*line.shape, 1)) for line in lines], 1)


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """The slices along an axis, or elements of the flat array, where a condition holds.

    Args:
        condition: vector no longer than the axis; what is not zero is true.
        a: array that is indexed.
        axis: axis of the slices, counted from the end if negative; None takes the flat array.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing, 0 by default.
        out: None, for NumPy's calls of it: an array never changes.

    Returns:
        An array of the dtype of `a`, with `size` elements along the axis.

    Raises:
        ShapeError: if the condition is no vector, or longer than the axis.
        TracerArrayConversionError: without `size`, for a traced value.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> compress(tnp.array([True, False, True]), tnp.array([1, 2, 3]))
        Array([1, 3], dtype=int32)
    """
    no_out("compress", out)
    a, axis = flat_or_axis("compress", a, axis)
    mask = array_of("compress", condition)
    if mask.ndim != 1 or mask.size > a.shape[axis]:
        raise ShapeError(
            "compress needs a vector of conditions no longer than the axis",
            got=f"condition={shown(mask)} for axis {axis} of {shown(a)}",
            hint="pass a truth for each element; where(condition, x, y) takes any shape",
        )
    return slices_at(a, flatnonzero(mask, size=size, fill_value=-1), axis, fill_value)


def slices_at(a: Array, places: Array, axis: int, fill_value: ArrayLike) -> Array:
    """The slices of an axis at indices, and `fill_value` where an index is negative.

    Args:
        a: array that is indexed.
        places: vector of indices along the axis.
        axis: axis of the slices, from 0.
        fill_value: number, or array that broadcasts to a slice.
    """
    if not a.shape[axis]:  # no elements: the result is filled
        shape = (*a.shape[:axis], places.size, *a.shape[axis + 1 :])
        fill = array_of("fill_value", fill_value).astype(a.dtype)
        return apply(build.broadcast_to, (fill,), shape)
    slices = getitem(a, (slice(None),) * axis + (places,), mode="clip")
    mask_shape = (places.size,) + (1,) * (a.ndim - axis - 1)
    return choose(places.reshape(mask_shape) < 0, fill_value, slices).astype(a.dtype)


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Array:
    """The elements of the flat array where a condition holds; see `compress`.

    Args:
        condition: array of as many elements at most, in the same order.
        arr: array that is indexed.
        size: number of results, which fixes the shape: the first ones, then `fill_value`; None
            takes all, and needs values that are known.
        fill_value: value of results that are missing, 0 by default.

    Returns:
        A vector of the dtype of `arr` with `size` elements.

    Raises:
        ShapeError: if the condition has more elements.
        TracerArrayConversionError: without `size`, for a traced value.

    Example:
        >>> import tfn.numpy as tnp
        >>> extract(tnp.array([True, False, True]), tnp.array([1, 2, 3]))
        Array([1, 3], dtype=int32)
    """
    mask = array_of("extract", condition)
    return compress(mask.reshape(mask.size), arr, size=size, fill_value=fill_value)


@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ...


@overload
def where(
    condition: ArrayLike, /, *, size: int | None = None, fill_value: int = 0
) -> tuple[Array, ...]: ...


def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: int = 0,
) -> Array | tuple[Array, ...]:
    """The elements of `x` where a condition holds, else those of `y`; without both, `nonzero`.

    Args:
        condition: array or number; what is not zero is true.
        x: value where it holds, array or number.
        y: value where it does not, array or number; all three are broadcast.
        size: number of places, without `x` and `y`; None counts them, which needs known values.
        fill_value: index in place of those that are missing, 0 by default.

    Returns:
        An array of the broadcast shape and the dtype that `x` and `y` promote to; without both, the
        tuple of the places where the condition holds, one vector for each axis.

    Raises:
        ArgumentError: if one of `x` and `y` is missing, or `size` is given with them.
        ShapeError: if the shapes do not broadcast.
        TracerArrayConversionError: without `x`, `y` and `size`, for a traced value.

    Example:
        >>> import tfn.numpy as tnp
        >>> where(True, 1.0, 2)
        Array(1., dtype=float32, weak_type=True)
        >>> where(tnp.array([0, 3, 4]), size=3)
        (Array([1, 2, 0], dtype=int32),)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value or 0)
    if x is None or y is None or size is not None:
        raise ArgumentError(
            "where needs the values for both cases, or none of them",
            got=f"x={shown(x)}, y={shown(y)}, size={shown(size)}",
            hint="pass both, or where(condition, size=n), whose shape is known",
        )
    return choose(condition, x, y)
