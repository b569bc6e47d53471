"""Histograms: counts of elements in bins, of one and more dimensions, and of integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfn._support.validate import (
    element_type,
    integer,
    one_of,
    rank,
    several,
    shown,
    size_limit,
    unfit,
)
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, DEFAULTS, INTEGERS, finfo
from tfn.eager.operands import apply, array_of, broadcast_shape, inexact, known_values
from tfn.errors import ArgumentError
from tfn.numpy.arithmetic import clip, divide
from tfn.numpy.concatenation import concatenate, stack
from tfn.numpy.creation import asarray, full_like, zeros
from tfn.numpy.cumulative import diff, running
from tfn.numpy.logic import where
from tfn.numpy.ranges import linspace
from tfn.numpy.reductions import max as largest
from tfn.numpy.reductions import min as smallest
from tfn.numpy.sorting import searchsorted
from tfn.trace import build
from tfn.trace.build import reshape
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Range = tuple[ArrayLike, ArrayLike] | None
ESTIMATORS = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")
"""NumPy's names of estimators of a number of bins."""


def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None
) -> Array:
    """The number of occurrences of each integer from 0 on, or the sum of their weights.

    Args:
        x: vector of integers; negative ones count as 0.
        weights: number, or vector of the size of `x`, of the weights; None counts each as 1.
        minlength: least size of the result without `length`, 0 by default.
        length: size of the result, which fixes the shape: larger integers are left out; None takes
            the largest integer plus 1, and needs values that are known.

    Returns:
        A vector of the dtype of the weights, int32 without them.

    Raises:
        DTypeError: unless `x` holds integers.
        TracerArrayConversionError: without `length`, for a traced value.
        ShapeError: unless `x` is a vector.
        ArgumentError: if a length is negative.

    Example:
        >>> import tfn.numpy as tnp
        >>> bincount(tnp.array([0, 2, 2]), minlength=4)
        Array([1, 0, 2, 0], dtype=int32)
    """
    x = array_of("bincount", x)
    element_type("bincount", x, INTEGERS | {BOOL}, "integers or booleans")
    rank("bincount", x, 1, 1)
    if length is None:
        least = integer("bincount", "minlength", minlength, 0)
        counts = known_values("bincount", x, "pass length=, which fixes the shape")
        length = max(least, int(counts.max()) + 1 if x.size else 0)
    length = integer("bincount", "length", length, 0)
    increments = array_of("bincount", np.array(1, DEFAULTS[int]) if weights is None else weights)
    broadcast_shape("bincount", increments.shape, x.shape)
    return apply(_counts, (x, increments), length)


def _counts(x: UOp, weights: UOp, length: int) -> UOp:
    total = build.zeros((length,), weights.dtype)
    if not length or not x.size:
        return total
    weights = build.broadcast_to(weights, x.shape)
    index = reshape(build.maximum(x, build.full_like(x, 0)), (x.size, 1))
    return build.scatter(total, index, reshape(weights, (x.size, 1)), Op.ADD)


def histogram_bin_edges(
    a: ArrayLike, bins: ArrayLike = 10, range: Range = None, weights: ArrayLike | None = None
) -> Array:
    """The borders of bins of equal width from the smallest to the largest element.

    Args:
        a: array of any shape, which is flattened.
        bins: number of bins, 10 by default; or a vector of borders, which are the result; or the
            name of NumPy's estimator of a number, such as "auto", for values that are known.
        range: lowest and highest border; None takes the smallest and largest element.
        weights: accepted as in NumPy, and changes nothing.

    Returns:
        A floating vector of the number of bins plus 1.

    Raises:
        ArgumentError: for another name, fewer bins than one, or a range that does not rise.
        ShapeError: for borders of two and more axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> histogram_bin_edges(tnp.array([1.0, 5.0]), 4)
        Array([1., 2., 3., 4., 5.], dtype=float32)
    """
    x = array_of("histogram_bin_edges", a)
    dtype = inexact((x.dtype, False))[0]
    if isinstance(bins, str):
        one_of("a histogram", "bins", bins, ESTIMATORS)
        ends: Any = range
        known = known_values("histogram_bin_edges", x, "pass the number of bins")
        return asarray(np.histogram_bin_edges(known.astype(float), bins, ends), dtype)
    if isinstance(bins, int):
        size_limit("a histogram", (integer("a histogram", "bins", bins, 1),))
    borders = asarray(bins)
    rank("a histogram", borders, 0, 1, "as bins")
    if borders.ndim:
        return borders.astype(inexact((borders.dtype, False))[0])
    count = integer("a histogram", "bins", borders, 1)
    if range is None:
        range = (smallest(x), largest(x)) if x.size else (0, 1)
    low, high = (asarray(end, dtype) for end in _ends(range))
    one = low == high  # all elements are equal: the middle of bins of total width 1
    low, high = where(one, low - 0.5, low), where(one, high + 0.5, high)
    edges: Array = linspace(low, high, count + 1, dtype=dtype)
    # Rounded to about each other, borders may descend, and no search finds a bin then.
    return apply(running, (edges,), Op.MAX)


def _ends(range: object) -> tuple[Any, Any]:
    """The ends of a range; those that are numbers must be finite and ascend."""
    ends = several("a histogram", "range", range, "numbers")
    are_numbers = all(isinstance(end, (int, float)) for end in ends)
    if len(ends) != 2 or (are_numbers and not -math.inf < ends[0] <= ends[1] < math.inf):
        raise ArgumentError(
            "a histogram needs a range of two finite numbers that rise",
            got=f"range={shown(range)}",
            hint="write range=(lowest, highest)",
        )
    return ends[0], ends[1]


def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Range = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """The number of elements in each bin, or the sum of their weights, and the borders of the bins.

    A bin holds its left border, the last one also its right.

    Args:
        a: array of any shape, which is flattened.
        bins: number of bins, 10 by default; or an ascending vector of borders.
        range: lowest and highest border; None takes the smallest and largest element. What lies
            outside does not count.
        weights: weight of each element, as many as there are; None counts each as 1.
        density: whether the result is divided so that its integral is 1.

    Returns:
        A floating vector of the bins, and one of their borders, longer by one.

    Raises:
        ArgumentError: for another name, fewer bins than one, or a range that does not rise.
        ShapeError: unless there is a weight for each element.

    Example:
        >>> import tfn.numpy as tnp
        >>> histogram(tnp.array([0.0, 1.0, 1.5, 4.0]), 2)[0]
        Array([3., 1.], dtype=float32)
    """
    x = array_of("histogram", a)
    x = x.reshape(x.size)
    edges = histogram_bin_edges(x, bins, range)
    if weights is None and edges.size - 1 <= MAX_COMPARED_BINS:
        total = _compared_counts(x, edges)
    else:
        width = _width(edges, bins, range)
        total, _ = _cell_sums([x], [edges], weights, [width])
    return _density(total, [edges]) if density else total, edges


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: object = 10,
    range: Sequence[Range] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """The number of points in each cell of a grid, and the borders along both axes.

    Args:
        x: vector of first coordinates.
        y: vector of second coordinates, of the same size.
        bins: number of bins, or vector of borders, for both axes; or a pair of these.
        range: a pair (lowest, highest), or None, for each axis; None takes the extremes.
        weights: weight of each element, as many as there are; None counts each as 1.
        density: whether the result is divided so that its integral is 1.

    Returns:
        A floating matrix of the cells, and the two vectors of borders.

    Raises:
        ArgumentError: for another name, fewer bins than one, or a range that does not rise.

    Example:
        >>> import tfn.numpy as tnp
        >>> histogram2d(tnp.array([0.0, 1.0]), tnp.array([0.0, 1.0]), 2)[0].tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    points = stack([array_of("histogram2d", x), array_of("histogram2d", y)], 1)
    single = isinstance(bins, (Array, np.ndarray)) and bins.ndim == 1
    total, (first, second) = histogramdd(
        points, [bins, bins] if single else bins, range, weights, density
    )
    return total, first, second


def histogramdd(
    sample: ArrayLike,
    bins: Any = 10,
    range: Sequence[Range] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """The number of points in each cell of a grid, and the borders along each axis.

    Args:
        sample: matrix with one point in each row.
        bins: number of bins, or vector of borders, for all axes; or a list of these.
        range: a pair (lowest, highest), or None, for each axis; None takes the extremes.
        weights: weight of each element, as many as there are; None counts each as 1.
        density: whether the result is divided so that its integral is 1.

    Returns:
        A floating array of the cells, one axis for each column, and the list of their borders.

    Raises:
        ShapeError: unless `sample` is a matrix, one point in each row.
        ArgumentError: unless there are as many bins and ranges as columns.

    Example:
        >>> import tfn.numpy as tnp
        >>> counts, edges = histogramdd(tnp.array([[0.0, 0.0], [1.0, 1.0]]), 2)
        >>> counts.tolist(), edges[0].tolist()
        ([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.5, 1.0])
    """
    points = array_of("histogramdd", sample)
    rank("histogramdd", points, 2, 2, "of points")
    axes = points.shape[1]
    columns = [points[:, i] for i in np.arange(axes).tolist()]
    each = list(bins) if isinstance(bins, (tuple, list)) else [bins] * axes
    ranges = [None] * axes if range is None else list(range)
    if len(each) != axes or len(ranges) != axes:
        raise ArgumentError(
            "histogramdd needs bins and a range for each column",
            got=f"{len(each)} bins, {len(ranges)} ranges, {axes} columns",
            hint="a single number of bins is that of all columns",
        )
    edges = [histogram_bin_edges(x, b, r) for x, b, r in zip(columns, each, ranges, strict=True)]
    widths = [_width(*axis) for axis in zip(edges, each, ranges, strict=True)]
    total, edges = _cell_sums(columns, edges, weights, widths)
    return _density(total, edges) if density else total, edges


def _weights(x: Array, weights: ArrayLike | None) -> Array:
    """The weight of each element; by default 1, an integer, since a float32 counts to 2**24."""
    if weights is None:
        return full_like(x, 1, "int32")
    w = array_of("weights", weights)
    if w.size != x.size:
        raise unfit(
            "histograms need a weight for each element", (w, x), "broadcast_to(weights, x.shape)"
        )
    return w.reshape(w.size)


MAX_BORDER_ERROR_BINS = 1 / 16
"""The spacing of numbers at the ends of a range, in bins, up to which arithmetic finds the border
next to an element.  Borders and quotients are wrong by at most five of these, and half a bin is
allowed."""


def _width(edges: Array, bins: object, range: Any) -> float | None:
    """The width of equal bins in a range of numbers; None if that does not find an element's bin.

    It does not where borders are rounded to about each other.
    """
    if not isinstance(bins, int) or range is None:
        return None
    if not all(isinstance(end, (int, float)) for end in range) or range[0] == range[1]:
        return None
    low, high = range
    width = (high - low) / bins
    error = max(abs(low), abs(high)) * float(finfo(edges.dtype).eps) / width
    return width if error <= MAX_BORDER_ERROR_BINS else None


MAX_COMPARED_BINS = 16
"""Bins up to which all elements are compared with each border, in vectors.

By indices, 3,668 numbers in 5 bins took 17 us, and 4,096 in 13 bins 14; by comparisons 3 and 6.
"""


def _compared_counts(x: Array, line: Array) -> Array:
    """The number of elements in each of a few bins, the last of which has both its borders."""
    reached = (x >= line[:-1, None]).sum(axis=1)
    beyond = concatenate([reached[1:], (x > line[-1:]).sum(keepdims=True)])
    counts: Array = (reached - beyond).astype(inexact((x.dtype, False))[0])
    return counts


def _cell_sums(
    columns: Sequence[Array],
    edges: list[Array],
    weights: ArrayLike | None,
    widths: Sequence[float | None],
) -> tuple[Array, list[Array]]:
    """The weights added up in the cells of a grid."""
    added = _weights(columns[0], weights)
    shape = tuple(line.size - 1 for line in edges)
    flat, inside = zeros(added.shape, "int32"), full_like(added, True, "bool")
    for x, line, size, width in zip(columns, edges, shape, widths, strict=True):
        inside = inside & (x >= line[0]) & (x <= line[-1])
        flat = flat * size + clip(_bin_of(x, line, width), 0, size - 1)
    cells = math.prod(shape)
    total = apply(_counts, (where(inside, flat, cells), added), cells)
    if weights is None:
        total = total.astype(inexact((columns[0].dtype, False))[0])
    return total.reshape(shape), edges


def _bin_of(x: Array, line: Array, width: float | None) -> Array:
    """The number of borders on the left of each element, and on it, minus 1.

    With equal bins arithmetic gives the border next to an element, which decides, as in NumPy.
    """
    if width is None:
        return searchsorted(line, x, side="right") - 1
    places = (x - line[0]) * (1 / width) + 0.5
    nearest = clip(places, 0, line.size - 1).astype("int32")
    return nearest - (x < line[nearest])


def _density(total: Array, edges: Sequence[Array]) -> Array:
    result = divide(total, total.sum())
    for axis, line in enumerate(edges):
        line_shape = tuple(-1 if a == axis else 1 for a in np.arange(total.ndim).tolist())
        result = result / diff(line).reshape(line_shape)
    return result
