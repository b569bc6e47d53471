"""Sorting, and what follows from an order: median, quantiles, searching."""

from __future__ import annotations

from typing import Any

from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOAT32, FLOATS, INT32, DType
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy.operands import (
    apply,
    array_of,
    inexact,
    number_as,
    one_axis,
    scalar_kind,
    together,
)
from tfn.trace import bind, build
from tfn.trace.build import cast, eq, expand, flip, full_like, iota, moveaxis, ne, reshape, unary
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def sort(
    x: ArrayLike, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Array:
    """Sorted along an axis, or flattened if it is None; NaN comes last, or first if descending.

    Example:
        >>> import tfn.numpy as tnp
        >>> sort(tnp.array([3, 1, 2]), descending=True)
        Array([3, 2, 1], dtype=int32)
    """
    x, axis = _line("sort", x, axis)
    return apply(_sorted, (x,), axis, bool(descending), weak=x.weak_type)


def argsort(
    x: ArrayLike, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Array:
    """The indices that sort; equal elements keep their order."""
    x, axis = _line("argsort", x, axis)
    return apply(_order, (x,), axis, bool(descending))


def _line(name: str, x: ArrayLike, axis: int | None) -> tuple[Array, int]:
    x = array_of(name, x)
    if axis is None:
        return x.reshape(x.size), 0
    return x, one_axis(name, axis, x.ndim)


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
    return moveaxis(flip(place, (last,)) if descending else place, last, axis)


def lexsort(keys: Any, axis: int = -1) -> Array:
    """The indices that sort by several keys, the last key first.

    Raises:
        ArgumentError: without keys.
    """
    given = [array_of("lexsort", key) for key in keys]
    if not given:
        raise ArgumentError("lexsort needs at least one key")
    if any(key.shape != given[0].shape for key in given):
        raise ShapeError(
            "lexsort needs keys of one shape", got=", ".join(str(key.shape) for key in given)
        )
    return apply(_lexical, given[::-1], one_axis("lexsort", axis, given[0].ndim))


def _lexical(*keys_and_axis: Any) -> UOp:
    *keys, axis = keys_and_axis
    last = keys[0].ndim - 1
    moved = [moveaxis(key, axis, last) for key in keys]
    place = build.sort([*moved, iota(moved[0].shape, last)], len(keys))[-1]
    return moveaxis(place, last, axis)


def median(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Array:
    """The middle element of the sorted ones, the mean of two if their number is even."""
    return quantile(x, 0.5, axis, keepdims=keepdims)


def percentile(
    x: ArrayLike,
    q: ArrayLike,
    axis: int | None = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """The value below which `q` percent of the elements lie; see `quantile`."""
    percents = array_of("percentile", q)
    return quantile(x, percents / 100, axis, method=method, keepdims=keepdims)


def quantile(
    x: ArrayLike,
    q: ArrayLike,
    axis: int | None = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """The value below which a fraction `q` of the elements lies, NaN if one is NaN.

    Axes of `q` come first in the result.  Methods between two elements: linear, lower, higher,
    nearest, midpoint.

    Raises:
        ArgumentError: for another method.
        ShapeError: if there are no elements.

    Example:
        >>> import tfn.numpy as tnp
        >>> quantile(tnp.arange(5.0), 0.25)
        Array(1., dtype=float32)
    """
    if method not in ("linear", "lower", "higher", "nearest", "midpoint"):
        raise ArgumentError(
            f"quantile knows no method {method!r}",
            hint="methods are linear, lower, higher, nearest, midpoint",
        )
    whole = array_of("quantile", x)
    line, at = _line("quantile", whole, axis)
    if not line.shape[at]:
        raise ShapeError("quantile of no elements does not exist", got=str(whole.shape))
    dtype = inexact((line.dtype, False))[0]
    fraction = (
        number_as(q, dtype, bind.innermost([line]))
        if scalar_kind(q) is not None
        else (array_of("quantile", q))
    )
    result = apply(_quantile, (line, fraction), at, dtype, method)
    if not keepdims:
        return result
    sizes = (
        (1,) * whole.ndim
        if axis is None
        else tuple(1 if a == at else n for a, n in enumerate(whole.shape))
    )
    return result.reshape(fraction.shape + sizes)


def _quantile(x: UOp, q: UOp, axis: int, dtype: DType, method: str) -> UOp:
    wide = dtype if dtype.itemsize >= 4 else FLOAT32
    (ordered,) = build.sort([moveaxis(cast(x, wide), axis, x.ndim - 1)])
    size, others = ordered.shape[-1], ordered.shape[:-1]
    front = moveaxis(ordered, ordered.ndim - 1, 0)
    place = cast(q, wide) * (size - 1)
    low, high = unary(Op.FLOOR, place), unary(Op.CEIL, place)
    if method == "nearest":
        low = high = unary(Op.ROUND, place)
    low, high = (
        (high, high) if method == "higher" else (low, low) if method == "lower" else (low, high)
    )

    def at(where: UOp) -> UOp:
        index = reshape(cast(where, INT32), (*q.shape, 1))
        return reshape(build.gather(front, index, (1, *others)), (*q.shape, *others))

    shape = (*q.shape, *others)
    weight = build.broadcast_in_dim(place - low, shape, range(q.ndim))
    weight = full_like(weight, 0.5) if method == "midpoint" else weight
    below, above = at(low), at(high)
    between = build.where(eq(below, above), below, below * (1 - weight) + above * weight)
    nan = build.reduce(ne(front, front), Op.MAX, (0,))
    nan = expand(reshape(nan, (1,) * q.ndim + others), shape)
    return cast(build.where(nan, full_like(between, float("nan")), between), dtype)


def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left") -> Array:
    """Where to insert `v` into the sorted vector `a` to keep it sorted.

    With side "left" before equal elements, with "right" after them.  All of `a` is compared, in
    one vectorised pass.

    Raises:
        ArgumentError: for another side.
        ShapeError: unless `a` is a vector.
    """
    if side not in ("left", "right"):
        raise ArgumentError("searchsorted needs side 'left' or 'right'", got=repr(side))
    operands, dtype, _ = together("searchsorted", a, v)
    if operands[0].ndim != 1:
        raise ShapeError("searchsorted needs a vector to search in", got=str(operands[0].shape))
    return apply(_search, operands, dtype, side == "left")


def _search(a: UOp, v: UOp, dtype: DType, left: bool) -> UOp:
    shape = (*v.shape, a.size)
    line = build.broadcast_to(cast(a, dtype), shape)
    wanted = build.broadcast_in_dim(cast(v, dtype), shape, range(v.ndim))
    before = line < wanted if left else line <= wanted
    if dtype in FLOATS:  # NaN counts as the largest
        lost = ne(wanted, wanted)
        before = before | (lost & eq(line, line)) if left else before | lost
    return build.add_up(cast(before, INT32), (v.ndim,))


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Array:
    """The number of the bin that each element lies in; `bins` ascend."""
    return searchsorted(bins, x, side="left" if right else "right")
