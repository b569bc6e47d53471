"""Quantiles, percentiles and medians, of all elements or of those that are not NaN.

Source: R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages", 1996; the place of a
quantile q among n sorted elements is ``n q + a + q (1 - a - b) - 1``, with (a, b) of the method.
"""

from __future__ import annotations

from typing import Any

from tfn._support.validate import element_type, no_out, one_of, real_number, shown
from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import BOOL, FLOAT32, INT32
from tfn.eager.operands import REAL, apply, array_of, inexact, number_as, scalar_kind, some_axes
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy.cumulative import running
from tfn.trace import bind, build
from tfn.trace.build import add_up, cast, eq, full_like, moveaxis, ne, permute, reshape, unary
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Numbers = tuple[int, ...]

METHODS: dict[str, tuple[float, float]] = {
    "linear": (1, 1),
    "lower": (1, 1),
    "higher": (1, 1),
    "nearest": (1, 1),
    "midpoint": (1, 1),
    "inverted_cdf": (0, 1),
    "averaged_inverted_cdf": (0, 1),
    "closest_observation": (0, 1),
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
"""The parameters (a, b) of each method."""


def median(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle element of the sorted ones over axes, the mean of two if their number is even.

    Args:
        a: real numbers or booleans, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        out: None, for NumPy's calls of it: an array never changes.
        overwrite_input: accepted as in NumPy, and changes nothing: an array never changes.
        keepdims: whether reduced axes stay, with size 1.

    Returns:
        A floating array without the reduced axes, or with size 1 there; NaN if an element is
        NaN, or of no elements.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> median(tnp.array([3, 1, 2, 10])).item()
        2.5
    """
    no_out("median", out)
    return _apply("median", a, 0.5, axis, "linear", keepdims, False)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The value below which `q` percent of the elements over axes lie; see `quantile`.

    Args:
        a: real numbers or booleans, of any shape.
        q: percentages from 0 to 100, number or array; its axes come first in the result.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        out: None, for NumPy's calls of it: an array never changes.
        overwrite_input: accepted as in NumPy, and changes nothing: an array never changes.
        method: interpolation between two elements, by its name in `METHODS`; "linear" by default.
        keepdims: whether reduced axes stay, with size 1.
        weights: how often each element counts, of the shape of `a`, or of its size along one axis;
            None counts each once. The method is \"inverted_cdf\" with them.

    Returns:
        A floating array of the axes of `q`, then those that are not reduced; NaN if an element is
        NaN, or of no elements.

    Raises:
        ArgumentError: for another method, or a number outside of the range.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> percentile(tnp.array([1.0, 2.0, 3.0]), 75).item()
        2.5
    """
    no_out("percentile", out)
    fraction = _fraction("percentile", q)
    return _apply("percentile", a, fraction, axis, method, keepdims, False, weights)


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The value below which a fraction `q` of the elements over axes lies; NaN if one is NaN.

    Args:
        a: real numbers or booleans, of any shape.
        q: fractions from 0 to 1, number or array; its axes come first in the result.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        out: None, for NumPy's calls of it: an array never changes.
        overwrite_input: accepted as in NumPy, and changes nothing: an array never changes.
        method: "linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf",
            "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen",
            "weibull", "median_unbiased" or "normal_unbiased".
        keepdims: whether reduced axes stay, with size 1.
        weights: how often each element counts, of the shape of `a`, or of its size along one axis;
            None counts each once. The method is \"inverted_cdf\" with them.

    Returns:
        A floating array of the axes of `q`, then those that are not reduced.

    Raises:
        ArgumentError: for another method, or a number outside of the range.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> quantile(tnp.arange(5.0), 0.25)
        Array(1., dtype=float32)
    """
    no_out("quantile", out)
    fraction = _within("quantile", q, 1)
    return _apply("quantile", a, fraction, axis, method, keepdims, False, weights)


def nanmedian(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The median of the elements over axes that are not NaN; NaN of none.

    Args:
        a: real numbers or booleans, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        out: None, for NumPy's calls of it: an array never changes.
        overwrite_input: accepted as in NumPy, and changes nothing: an array never changes.
        keepdims: whether reduced axes stay, with size 1.

    Returns:
        A floating array without the reduced axes, or with size 1 there.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanmedian(tnp.array([3.0, float("nan"), 1.0])).item()
        2.0
    """
    no_out("nanmedian", out)
    return _apply("nanmedian", a, 0.5, axis, "linear", keepdims, True)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The percentile of the elements over axes that are not NaN; NaN of none; see `percentile`.

    Args:
        a: real numbers or booleans, of any shape.
        q: percentages from 0 to 100, number or array; its axes come first in the result.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        out: None, for NumPy's calls of it: an array never changes.
        overwrite_input: accepted as in NumPy, and changes nothing: an array never changes.
        method: interpolation between two elements, by its name in `METHODS`; "linear" by default.
        keepdims: whether reduced axes stay, with size 1.
        weights: how often each element counts, of the shape of `a`, or of its size along one axis;
            None counts each once. The method is \"inverted_cdf\" with them.

    Returns:
        A floating array of the axes of `q`, then those that are not reduced.

    Raises:
        ArgumentError: for another method, or a number outside of the range.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanpercentile(tnp.array([1.0, float("nan"), 3.0]), 50).item()
        2.0
    """
    no_out("nanpercentile", out)
    fraction = _fraction("nanpercentile", q)
    return _apply("nanpercentile", a, fraction, axis, method, keepdims, True, weights)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The quantile of the elements over axes that are not NaN; NaN of none; see `quantile`.

    Args:
        a: real numbers or booleans, of any shape.
        q: fractions from 0 to 1, number or array; its axes come first in the result.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        out: None, for NumPy's calls of it: an array never changes.
        overwrite_input: accepted as in NumPy, and changes nothing: an array never changes.
        method: interpolation between two elements, by its name in `METHODS`; "linear" by default.
        keepdims: whether reduced axes stay, with size 1.
        weights: how often each element counts, of the shape of `a`, or of its size along one axis;
            None counts each once. The method is \"inverted_cdf\" with them.

    Returns:
        A floating array of the axes of `q`, then those that are not reduced.

    Raises:
        ArgumentError: for another method, or a number outside of the range.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanquantile(tnp.array([1.0, float("nan"), 3.0]), 0.25).item()
        1.5
    """
    no_out("nanquantile", out)
    fraction = _within("nanquantile", q, 1)
    return _apply("nanquantile", a, fraction, axis, method, keepdims, True, weights)


def _fraction(name: str, q: ArrayLike) -> ArrayLike:
    percent: ArrayLike = _within(name, q, 100) / 100
    return percent


def _within(name: str, q: ArrayLike, most: int) -> Any:
    """A number from 0 to `most`, or an array, whose elements are not checked."""
    return real_number(name, "q", q, 0, most) if scalar_kind(q) is not None else array_of(name, q)


def _apply(
    name: str,
    x: ArrayLike,
    q: ArrayLike,
    axis: Axes,
    method: str,
    keepdims: bool,
    ignore_nan: bool,
    weights: ArrayLike | None = None,
) -> Array:
    one_of(name, "method", method, tuple(METHODS))
    x = array_of(name, x)
    element_type(name, x, REAL | {BOOL}, "real numbers")
    axes = some_axes(name, axis, x.ndim)
    dtype = inexact((x.dtype, False))[0]
    number = scalar_kind(q) is not None
    fraction = number_as(q, dtype, bind.innermost([x])) if number else array_of(name, q)
    operands = [x, fraction]
    if weights is not None:
        if method != "inverted_cdf":
            raise ArgumentError(
                f"{name} weighs elements by the method 'inverted_cdf' only",
                got=f"method={method!r} with weights",
                hint="pass method='inverted_cdf'",
            )
        operands.append(_weights_as(name, array_of(name, weights), x, axes))
    return apply(_quantile, operands, axes, dtype, method, bool(keepdims), ignore_nan)


def _weights_as(name: str, weights: Array, x: Array, axes: Numbers) -> Array:
    """Weights of the shape of the array, or of one that broadcasts to it."""
    if weights.shape == x.shape:
        return weights
    if weights.shape != tuple(x.shape[a] for a in axes):
        raise ShapeError(
            f"{name} needs weights of the array's shape, or of its axes",
            got=f"weights={shown(weights)} for {shown(x)}, axis={axes}",
            hint="name the axes that the weights have with axis=",
        )
    return weights.reshape([n if a in axes else 1 for a, n in enumerate(x.shape)])


def _quantile(x: UOp, q: UOp, *rest: Any) -> UOp:
    *given, axes, dtype, method, keepdims, ignore_nan = rest
    wide = dtype if dtype.itemsize >= 4 else FLOAT32
    others = [a for a in range(x.ndim) if a not in axes]
    sizes = tuple(x.shape[a] for a in others)
    count = build.count(tuple(x.shape[a] for a in axes))
    shape = (*sizes, *q.shape)

    def rows(u: UOp) -> UOp:
        return reshape(permute(cast(u, wide), [*others, *axes]), (*sizes, count))

    if not count:
        between = full_like(build.zeros(shape, wide), float("nan"))
    elif given:
        weights = rows(build.broadcast_to(given[0], x.shape))
        between = _weighted(rows(x), weights, q, shape, ignore_nan)
    else:
        between = _unweighted(rows(x), q, shape, method, ignore_nan)
    result = permute(cast(between, dtype), [*range(len(sizes), len(shape)), *range(len(sizes))])
    if keepdims:
        shape_with_ones = tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
        result = reshape(result, (*q.shape, *shape_with_ones))
    return result


def _number(rows: UOp, shape: Numbers, ignore_nan: bool) -> tuple[UOp, UOp]:
    """The number of elements of each row that count, and whether its quantile is NaN."""
    count = rows.shape[-1]
    whole = add_up(cast(eq(rows, rows), rows.dtype), (rows.ndim - 1,))
    missing = eq(whole, full_like(whole, 0)) if ignore_nan else ne(whole, full_like(whole, count))
    leading = range(rows.ndim - 1)
    number = build.broadcast_in_dim(whole, shape, leading)
    if not ignore_nan:
        number = full_like(number, count)
    return number, build.broadcast_in_dim(missing, shape, leading)


def _at(ordered: UOp, place: UOp) -> UOp:
    """The element of each sorted row at a place."""
    index = reshape(cast(build.maximum(place, full_like(place, 0)), INT32), (*place.shape, 1))
    return reshape(build.gather(ordered, index, (1,), ordered.ndim - 1), place.shape)


def _weighted(rows: UOp, weights: UOp, q: UOp, shape: Numbers, ignore_nan: bool) -> UOp:
    """The first element at which the running sum of the weights reaches its share of the sum."""
    number, nan = _number(rows, shape, ignore_nan)
    weights = build.where(eq(rows, rows), weights, full_like(weights, 0))
    ordered, moved = build.sort([rows, weights])
    last = rows.ndim - 1
    total = moveaxis(running(moveaxis(moved, last, 0), Op.ADD), 0, last)
    whole = add_up(moved, (last,))
    total = build.where(eq(total, full_like(total, 0)), full_like(total, -1), total)
    share = build.broadcast_in_dim(cast(q, rows.dtype), shape, range(last, len(shape)))
    wanted = share * build.broadcast_in_dim(whole, shape, range(last))
    number = cast(number, INT32)
    place = full_like(number, 0)  # the number of running sums below, bit by bit
    for bit in reversed(range(rows.shape[-1].bit_length())):
        further = build.minimum(place + (1 << bit), full_like(place, rows.shape[-1]))
        place = build.where(_at(total, further - 1) < wanted, further, place)
    result = _at(ordered, build.minimum(place, number - 1))
    return build.where(nan, full_like(result, float("nan")), result)


def _unweighted(rows: UOp, q: UOp, shape: Numbers, method: str, ignore_nan: bool) -> UOp:
    number, nan = _number(rows, shape, ignore_nan)
    (ordered,) = build.sort([rows])
    a, b = METHODS[method]
    fraction = build.broadcast_to(cast(q, rows.dtype), shape)
    place = number * fraction + (fraction * (1 - a - b) + a) - 1

    def inside(u: UOp) -> UOp:
        return build.minimum(build.maximum(u, full_like(u, 0)), number - 1)

    if method == "averaged_inverted_cdf":
        floor = unary(Op.FLOOR, number * fraction - 1)
        exact = eq(floor, number * fraction - 1)
        below, above = _at(ordered, inside(floor)), _at(ordered, inside(floor + 1))
        weight = build.where(exact, full_like(place, 0.5), full_like(place, 1))
    else:
        if method == "inverted_cdf":
            place = unary(Op.CEIL, number * fraction) - 1
        if method == "closest_observation":  # of two that are as close, that of the even rank
            place = unary(Op.ROUND, number * fraction) - 1
        place = inside(place)
        low, high = unary(Op.FLOOR, place), unary(Op.CEIL, place)
        if method == "nearest":
            low = high = unary(Op.ROUND, place)
        elif method in ("lower", "higher"):
            low = high = low if method == "lower" else high
        below, above = _at(ordered, low), _at(ordered, high)
        weight = full_like(place, 0.5) if method == "midpoint" else place - low
    gap, zero = above - below, full_like(below, 0)
    gap = build.where(ne(gap, gap), zero, gap)  # the difference of two equal infinities
    line = below * (1 - weight) + above * weight
    between = build.where(eq(below, above), below + gap * weight, line)
    return build.where(nan, full_like(between, float("nan")), between)
