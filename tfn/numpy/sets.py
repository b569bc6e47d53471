"""Where, which and how many: results whose size depends on values.

Outside of traced functions the size is found; inside, `size` must say it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn.array import Array, ArrayLike
from tfn.dtypes import INT32, INTEGERS
from tfn.errors import ArgumentError, DTypeError
from tfn.numpy.logic import truth
from tfn.numpy.operands import apply, array_of, broadcast_shape, together
from tfn.trace import build
from tfn.trace.build import cast, iota, reshape
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def flatnonzero(x: ArrayLike, *, size: int | None = None, fill_value: int = 0) -> Array:
    """The flat indices of the elements that are not zero.

    With `size` there are so many: the first ones, then `fill_value`.

    Raises:
        TracerArrayConversionError: without `size`, for a traced value.

    Example:
        >>> import tfn.numpy as tnp
        >>> flatnonzero(tnp.array([0, 5, 0, 7]))
        Array([1, 3], dtype=int32)
    """
    x = array_of("flatnonzero", x)
    if size is None:
        return array_of("flatnonzero", np.flatnonzero(np.asarray(x)).astype(np.int32))
    return apply(_places, (x,), size, fill_value)


def _places(x: UOp, size: int, fill: int) -> UOp:
    count = x.size
    test = truth(reshape(x, (count,)))
    places = build.where(test, iota((count,), 0), build.full_like(iota((count,), 0), count))
    (ordered,) = build.sort([places]) if count else (places,)
    ordered = build.shrink(ordered, (0,), (min(size, count),))
    ordered = build.pad(
        ordered, (0,), (max(size - count, 0),), value=build.zeros((), INT32) + count
    )
    return build.where(ordered < count, ordered, build.full_like(ordered, fill))


def nonzero(x: ArrayLike, *, size: int | None = None, fill_value: int = 0) -> tuple[Array, ...]:
    """The indices of what is not zero, one vector for each axis; see `flatnonzero`."""
    x = array_of("nonzero", x)
    if size is None:
        found = np.nonzero(np.atleast_1d(np.asarray(x)))
        return tuple(array_of("nonzero", line.astype(np.int32)) for line in found)
    flat = flatnonzero(x, size=size, fill_value=-1)
    return tuple(apply(_coordinate, (flat,), x.shape, axis, fill_value) for axis in range(x.ndim))


def _coordinate(flat: UOp, shape: tuple[int, ...], axis: int, fill: int) -> UOp:
    step = int(np.prod(shape[axis + 1 :], dtype=np.int64))
    place = (flat // max(step, 1)) % max(shape[axis], 1)
    return build.where(flat < 0, build.full_like(flat, fill), place)


def argwhere(x: ArrayLike, *, size: int | None = None, fill_value: int = 0) -> Array:
    """The indices of the elements that are not zero, as rows; see `flatnonzero`."""
    x = array_of("argwhere", x)
    if size is None:
        return array_of("argwhere", np.argwhere(np.asarray(x)).astype(np.int32))
    lines = nonzero(x, size=size, fill_value=fill_value)
    return apply(_rows, lines)


def _rows(*lines: UOp) -> UOp:
    return build.concat([reshape(line, (*line.shape, 1)) for line in lines], 1)


def unique(
    x: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """The sorted distinct elements, and on request where they are and how many.

    Raises:
        TracerArrayConversionError: for a traced value, whose number of elements is not known.
    """
    data = np.asarray(array_of("unique", x))
    wanted: Any = {
        "return_index": return_index,
        "return_inverse": return_inverse,
        "return_counts": return_counts,
    }
    found: Any = np.unique(data, axis=axis, **wanted)
    if not isinstance(found, tuple):
        return array_of("unique", found)
    values, *places = found
    return (
        array_of("unique", values),
        *[array_of("unique", place.astype(np.int32)) for place in places],
    )


def isin(element: ArrayLike, test_elements: ArrayLike, *, invert: bool = False) -> Array:
    """Whether each element is among those of another array; all pairs are compared."""
    operands, dtype, _ = together("isin", element, test_elements)
    return apply(_isin, operands, dtype, bool(invert))


def _isin(x: UOp, y: UOp, dtype: Any, invert: bool) -> UOp:
    shape = (*x.shape, y.size)
    each = build.broadcast_in_dim(cast(x, dtype), shape, range(x.ndim))
    line = build.broadcast_to(reshape(cast(y, dtype), (y.size,)), shape)
    found = build.reduce(build.eq(each, line), Op.MAX, (x.ndim,))
    return build.unary(Op.NOT, found) if invert else found


def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None
) -> Array:
    """How often each number occurs, or the sum of the weights there.

    `length` says the size of the result, and larger numbers are left out; without it the value
    of `x` must be known.

    Raises:
        DTypeError: unless `x` holds integers.
        TracerArrayConversionError: without `length`, for a traced value.
    """
    x = array_of("bincount", x)
    if x.dtype not in INTEGERS:
        raise DTypeError("bincount needs integers", got=x.dtype.name)
    if x.ndim != 1:
        raise ArgumentError("bincount needs a vector", got=str(x.shape))
    if length is None:
        length = max(minlength, int(np.asarray(x).max(initial=-1)) + 1)
    counted = array_of("bincount", np.int32(1) if weights is None else weights)
    broadcast_shape("bincount", counted.shape, x.shape)
    return apply(_counts, (x, counted), length)


def _counts(x: UOp, weights: UOp, length: int) -> UOp:
    total = build.zeros((length,), weights.dtype)
    if not length or not x.size:
        return total
    weights = build.broadcast_to(weights, x.shape)
    index = reshape(build.maximum(x, build.full_like(x, 0)), (x.size, 1))
    return build.scatter(total, index, reshape(weights, (x.size, 1)), Op.ADD)
