"""Quantiles, percentiles and medians, of all elements or of those that are not NaN.

Source: R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages", 1996; the place of a
quantile q among n sorted elements is ``n q + a + q (1 - a - b) - 1``, with (a, b) of the method.
"""

from __future__ import annotations

from typing import Any

from tfn._support.validate import element_type, no_out, one_of, real_number, shown
from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import BOOL, FLOAT32, INT32, DType
from tfn.eager.operands import REAL, apply, array_of, inexact, number_as, scalar_kind, some_axes
from tfn.errors import ShapeError
from tfn.trace import bind, build
from tfn.trace.build import add_up, cast, eq, full_like, ne, permute, reshape, unary
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
        A floating array without the reduced axes, or with size 1 there; NaN if an element is NaN.

    Raises:
        ShapeError: if there are no elements.
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

    Returns:
        A floating array of the axes of `q`, then those that are not reduced; NaN if an element is
        NaN.

    Raises:
        ArgumentError: for another method, or a number outside of the range.
        ShapeError: if there are no elements.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> percentile(tnp.array([1.0, 2.0, 3.0]), 75).item()
        2.5
    """
    no_out("percentile", out)
    return _apply("percentile", a, _fraction("percentile", q), axis, method, keepdims, False)


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """The value below which a fraction `q` of the elements over axes lies; NaN if one is NaN.

    Args:
        a: real numbers or booleans, of any shape.
        q: fractions from 0 to 1, number or array; its axes come first in the result.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        out: None, for NumPy's calls of it: an array never changes.
        overwrite_input: accepted as in NumPy, and changes nothing: an array never changes.
        method: "linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf",
            "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased" or "normal_unbiased".
        keepdims: whether reduced axes stay, with size 1.

    Returns:
        A floating array of the axes of `q`, then those that are not reduced.

    Raises:
        ArgumentError: for another method, or a number outside of the range.
        ShapeError: if there are no elements.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> quantile(tnp.arange(5.0), 0.25)
        Array(1., dtype=float32)
    """
    no_out("quantile", out)
    return _apply("quantile", a, _within("quantile", q, 1), axis, method, keepdims, False)


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
        ShapeError: if there are no elements.
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

    Returns:
        A floating array of the axes of `q`, then those that are not reduced.

    Raises:
        ArgumentError: for another method, or a number outside of the range.
        ShapeError: if there are no elements.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanpercentile(tnp.array([1.0, float("nan"), 3.0]), 50).item()
        2.0
    """
    no_out("nanpercentile", out)
    return _apply("nanpercentile", a, _fraction("nanpercentile", q), axis, method, keepdims, True)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
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

    Returns:
        A floating array of the axes of `q`, then those that are not reduced.

    Raises:
        ArgumentError: for another method, or a number outside of the range.
        ShapeError: if there are no elements.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanquantile(tnp.array([1.0, float("nan"), 3.0]), 0.25).item()
        1.5
    """
    no_out("nanquantile", out)
    return _apply("nanquantile", a, _within("nanquantile", q, 1), axis, method, keepdims, True)


def _fraction(name: str, q: ArrayLike) -> ArrayLike:
    percent: ArrayLike = _within(name, q, 100) / 100
    return percent


def _within(name: str, q: ArrayLike, most: int) -> Any:
    """A number from 0 to `most`, or an array, whose elements are not checked."""
    return real_number(name, "q", q, 0, most) if scalar_kind(q) is not None else array_of(name, q)


def _apply(
    name: str, x: ArrayLike, q: ArrayLike, axis: Axes, method: str, keepdims: bool, ignore_nan: bool
) -> Array:
    one_of(name, "method", method, tuple(METHODS))
    x = array_of(name, x)
    element_type(name, x, REAL | {BOOL}, "real numbers")
    axes = some_axes(name, axis, x.ndim)
    if 0 in [x.shape[a] for a in axes]:
        raise ShapeError(
            f"{name} of no elements does not exist",
            got=shown(x),
            hint="check x.size, or that of the axes",
        )
    dtype = inexact((x.dtype, False))[0]
    number = scalar_kind(q) is not None
    fraction = number_as(q, dtype, bind.innermost([x])) if number else array_of(name, q)
    return apply(_quantile, (x, fraction), axes, dtype, method, bool(keepdims), ignore_nan)


def _quantile(
    x: UOp, q: UOp, axes: Numbers, dtype: DType, method: str, keepdims: bool, ignore_nan: bool
) -> UOp:
    wide = dtype if dtype.itemsize >= 4 else FLOAT32
    others = [a for a in range(x.ndim) if a not in axes]
    sizes = tuple(x.shape[a] for a in others)
    count = x.size // max(build.count(sizes), 1) if 0 not in sizes else 1
    rows = reshape(permute(cast(x, wide), [*others, *axes]), (*sizes, count))
    (ordered,) = build.sort([rows])
    shape = (*sizes, *q.shape)
    whole = add_up(cast(eq(rows, rows), wide), (rows.ndim - 1,))
    number = build.broadcast_in_dim(whole, shape, range(len(sizes)))
    if not ignore_nan:
        number = full_like(number, count)

    a, b = METHODS[method]
    fraction = build.broadcast_to(cast(q, wide), shape)
    place = number * fraction + (fraction * (1 - a - b) + a) - 1
    if method == "inverted_cdf":
        place = unary(Op.CEIL, number * fraction) - 1
    place = build.minimum(build.maximum(place, full_like(place, 0)), number - 1)
    low, high = unary(Op.FLOOR, place), unary(Op.CEIL, place)
    if method == "nearest":
        low = high = unary(Op.ROUND, place)
    elif method in ("lower", "higher"):
        low = high = low if method == "lower" else high

    def at(where: UOp) -> UOp:
        index = reshape(cast(build.maximum(where, full_like(where, 0)), INT32), (*shape, 1))
        return reshape(build.gather(ordered, index, (1,), len(sizes)), shape)

    below, above = at(low), at(high)
    weight = full_like(place, 0.5) if method == "midpoint" else place - low
    gap, zero = above - below, full_like(below, 0)
    gap = build.where(ne(gap, gap), zero, gap)  # the difference of two equal infinities
    line = below * (1 - weight) + above * weight
    between = build.where(eq(below, above), below + gap * weight, line)
    missing = eq(whole, full_like(whole, 0)) if ignore_nan else ne(whole, full_like(whole, count))
    nan = build.broadcast_in_dim(missing, shape, range(len(sizes)))
    result = cast(build.where(nan, full_like(between, float("nan")), between), dtype)
    result = permute(result, [*range(len(sizes), len(shape)), *range(len(sizes))])
    if keepdims:
        shape_with_ones = tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
        result = reshape(result, (*q.shape, *shape_with_ones))
    return result
