"""Signals: convolutions of vectors, gradients, phases, windows and correlations."""

from __future__ import annotations

import math
from typing import Any

from tfn._support.validate import integer, one_of, rank, shown, size_limit, unfit
from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import DTypeLike, canonical
from tfn.eager.arrays import weaken
from tfn.eager.operands import (
    array_of,
    inexact,
    need_real,
    one_axis,
    operands_of,
    some_axes,
    together,
)
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy.arithmetic import abs as magnitude
from tfn.numpy.arithmetic import clip
from tfn.numpy.complex import conj, real
from tfn.numpy.concatenation import concatenate
from tfn.numpy.contraction import is_tf32
from tfn.numpy.creation import asarray, ones
from tfn.numpy.cumulative import cumsum, diff
from tfn.numpy.elementary import cos, exp, sqrt
from tfn.numpy.forward_mode import by_forward_mode
from tfn.numpy.indexing import getitem
from tfn.numpy.interpolation import cov
from tfn.numpy.logic import where
from tfn.numpy.manipulation import diagonal, flip
from tfn.numpy.polynomials import full_convolution
from tfn.numpy.ranges import arange
from tfn.numpy.reductions import sum as add_up


def _floats(name: str, x: ArrayLike) -> Array:
    x = array_of(name, x)
    return x.astype(inexact((x.dtype, False))[0])


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The convolution of two vectors: sums of products of elements whose indices have one sum.

    Args:
        a: vector of one element at least.
        v: vector of one element at least.
        mode: "full" for all sums, "same" for as many in the middle as the larger vector has,
            "valid" for those with all elements of the smaller one.
        precision: accepted by its names in JAX, and changes nothing.
        preferred_element_type: dtype of the result; None takes the one that the operands promote
            to.

    Returns:
        A floating vector.

    Raises:
        ShapeError: unless both are vectors that are not empty.
        ArgumentError: for another mode.

    Example:
        >>> import tfn.numpy as tnp
        >>> convolve(tnp.array([1, 2, 3]), tnp.array([1, 1]))
        Array([1., 3., 5., 3.], dtype=float32)
    """
    (x, y), dtype, weak = together("convolve", a, v, floating=True)
    one_of("convolve", "mode", mode, ("full", "same", "valid"))
    is_tf32(precision)
    if preferred_element_type is not None:
        dtype, weak = canonical(preferred_element_type), False
    if x.ndim != 1 or y.ndim != 1 or not x.size or not y.size:
        hint = "tfn.scipy.signal.convolve takes arrays of more axes"
        raise unfit("convolve needs vectors with elements", (x, y), hint)
    large, small = (x, y) if x.size >= y.size else (y, x)
    full = weaken(full_convolution(small.astype(dtype), large.astype(dtype)), weak)
    if mode == "full":
        return full
    if mode == "same":
        first = (small.size - 1) // 2
        return full[first : first + large.size]
    return full[small.size - 1 : large.size]


def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The correlation of two vectors: sums of products of `a` and the conjugate of `v`, shifted.

    Args:
        a: vector of one element at least.
        v: vector of one element at least.
        mode: "full" for all sums, "same" for as many in the middle as the larger vector has,
            "valid", the default, for those with all elements of the smaller one.
        precision: accepted by its names in JAX, and changes nothing.
        preferred_element_type: dtype of the result; None takes the one that the operands promote
            to.

    Returns:
        A floating vector.

    Raises:
        ShapeError: unless both are vectors that are not empty.
        ArgumentError: for another mode.

    Example:
        >>> import tfn.numpy as tnp
        >>> correlate(tnp.array([1.0, 2.0, 3.0]), tnp.array([0.0, 1.0]), "same")
        Array([1., 2., 3.], dtype=float32)
    """
    x, y = array_of("correlate", a), array_of("correlate", v)
    options: Any = {"precision": precision, "preferred_element_type": preferred_element_type}
    if x.size < y.size and mode == "same":
        return flip(convolve(flip(x), conj(y), mode, **options))
    return convolve(x, flip(conj(y)), mode, **options)


def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: Axes = None, edge_order: int | None = None
) -> Any:
    """The slopes of samples along axes: central differences, and one-sided ones at the ends.

    Args:
        f: array of samples.
        *varargs: distance of two samples, or vector of positions, one for all axes or one for each;
            1 by default.
        axis: axis or axes of the slopes, negative ones counted from the end; None takes all.
        edge_order: 1 or None: the ends are differences of two samples; 2: the slopes there of the
            parabola through three.

    Returns:
        A floating array of the shape of `f`, or a list of one for each axis.

    Raises:
        ArgumentError: for another number of distances, or another edge order.
        ShapeError: for an axis with fewer elements than the edge order and one more.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> gradient(tnp.array([0.0, 1.0, 4.0]))
        Array([1., 2., 3.], dtype=float32)
    """
    one_of("gradient", "edge_order", edge_order, (1, 2, None))
    x = _floats("gradient", f)
    rank("gradient", x, 1)
    axes = some_axes("gradient", axis, x.ndim)
    steps = list(varargs) if len(varargs) > 1 else [*(varargs or (1.0,))] * len(axes)
    if len(steps) != len(axes):
        raise ArgumentError(
            "gradient needs a distance for each axis",
            got=f"{len(steps)} distances for {len(axes)} axes",
            hint="a single distance is that of all axes",
        )
    slopes = [
        _slope(x, at, operands_of("gradient", step, x)[0], edge_order or 1)
        for at, step in zip(axes, steps, strict=True)
    ]
    return slopes[0] if len(slopes) == 1 else slopes


def _slope(x: Array, axis: int, step: Array, edge_order: int) -> Array:
    if x.shape[axis] <= edge_order:
        raise ShapeError(
            f"gradient needs {edge_order + 1} elements along each axis",
            got=shown(x),
            hint="name other axes with axis=",
        )

    def part(first: int, last: int | None) -> Array:
        return getitem(x, (slice(None),) * axis + (slice(first, last),))

    gap_index = (slice(None),) + (None,) * (x.ndim - axis - 1)
    gaps = diff(step)[gap_index] if step.ndim else step
    gaps = gaps.astype(x.dtype) if step.dtype.kind in "biu" else gaps
    between = (part(1, None) - part(0, -1)) / gaps
    if step.ndim:
        low, high = (
            getitem(between, (slice(None),) * axis + (s,))
            for s in (slice(None, -1), slice(1, None))
        )
        before, after = gaps[:-1], gaps[1:]
        inner = (low * after + high * before) / (before + after)
    else:  # one difference: an infinity in the middle has no influence
        inner = (part(2, None) - part(0, -2)) / (2 * gaps)

    def end(u: Array, place: int, axis: int = axis) -> Array:
        return getitem(u, (slice(None),) * axis + (slice(place, place + 1 or None),))

    ends = [end(between, 0), end(between, -1)]
    if edge_order == 2:
        for i, (first, second) in enumerate(((0, 1), (-1, -2))):
            near, next_ = (end(gaps, k, 0) if step.ndim else gaps for k in (first, second))
            bend = (ends[i] - end(between, second)) * near / (near + next_)
            ends[i] = ends[i] + bend
    return concatenate([ends[0], inner, ends[1]], axis)


def unwrap(
    p: ArrayLike, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi
) -> Array:
    """The phases without jumps: whole periods are added so that no step is larger than half of one.

    Args:
        p: array of phases, in radians by default.
        discont: least size of a step that is changed; None changes those larger than half a period.
        axis: axis of the steps, counted from the end if negative; the last by default.
        period: the period; 2 pi by default, and an integer keeps integers.

    Returns:
        An array of the shape of `p`.

    Raises:
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> unwrap(tnp.array([0.0, 3.0, 6.0, 9.0]) % 4, period=4)
        Array([ 0., -1., -2., -3.], dtype=float32)
    """
    x = array_of("unwrap", p)
    period = period if isinstance(period, (int, float)) else array_of("unwrap", period)
    whole = isinstance(period, int) and x.dtype.kind in "iu"
    x = x if whole else _floats("unwrap", x)
    at = one_axis("unwrap", axis, x.ndim)
    step = diff(x, axis=at)
    half = period // 2 if whole else period / 2
    wrapped_step = (step + half) % period - half
    if half * 2 == period:
        wrapped_step = where((wrapped_step == -half) & (step > 0), half, wrapped_step)
    change = wrapped_step - step
    if discont is not None:
        change = where(magnitude(step) < discont, 0, change)
    first = getitem(x, (slice(None),) * at + (slice(1),))
    rest = getitem(x, (slice(None),) * at + (slice(1, None),)) + cumsum(change, at)
    return concatenate([first, rest], at)


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0: the mean of exp(x cos t) around the circle.

    Raises:
        DTypeError: for complex numbers.

    Source: L. N. Trefethen and J. A. C. Weideman, "The exponentially convergent trapezoidal rule",
    2014: 256 points are enough for all x whose result is a float.

    Example:
        >>> i0(0.0).item()
        1.0
    """
    need_real("i0", x)
    return _i0(_floats("i0", x))


def _i0_of(x: Array) -> Array:
    x = magnitude(x)
    angle = arange(129, dtype=x.dtype) * (math.pi / 128)
    weight = where((angle == 0) | (angle == angle[-1]), 1 / 256, 1 / 128)
    half = exp(x * 0.5)  # two factors, since exp(x) alone overflows before i0(x)
    return half * add_up(exp(x[..., None] * (cos(angle) - 0.5)) * weight, -1)


_i0 = by_forward_mode(_i0_of)


def _window(name: str, M: int, *terms: float) -> Array:
    """The sum of cosines of once, twice, ... the angle across a window of size M."""
    M = _points(name, M)
    if M <= 1:
        return ones(M)
    angle = arange(M) * (2 * math.pi / (M - 1))
    total = asarray(terms[0]) + 0 * angle
    for i, term in enumerate(terms[1:], 1):
        total = total + term * cos(angle * i)
    return total.astype(float)


def _points(name: str, M: int) -> int:
    """The number of points of a window, 0 if it is negative, as in NumPy."""
    count = max(integer(name, "M", M), 0)
    size_limit(name, (count,))
    return count


def hanning(M: int) -> Array:
    """The Hann window of M points: a raised cosine.

    Example:
        >>> hanning(5).round(3).tolist()
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return _window("hanning", M, 0.5, -0.5)


def hamming(M: int) -> Array:
    """The Hamming window of M points: a raised cosine that does not reach 0.

    Example:
        >>> hamming(3).round(3).tolist()
        [0.07999999821186066, 1.0, 0.07999999821186066]
    """
    return _window("hamming", M, 0.54, -0.46)


def blackman(M: int) -> Array:
    """The Blackman window of M points: a sum of three cosines.

    Example:
        >>> blackman(3).round(3).tolist()
        [-0.0, 1.0, -0.0]
    """
    return _window("blackman", M, 0.42, -0.5, 0.08)


def bartlett(M: int) -> Array:
    """The Bartlett window of M points: a triangle.

    Example:
        >>> bartlett(5)
        Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    M = _points("bartlett", M)
    if M <= 1:
        return ones(M)
    return (1 - magnitude(2 * arange(M) / (M - 1.0) - 1)).astype(float)


def kaiser(M: int, beta: ArrayLike) -> Array:
    """The Kaiser window of M points; the larger `beta`, the narrower.

    Example:
        >>> kaiser(3, 0.0)
        Array([1., 1., 1.], dtype=float32)
    """
    M = _points("kaiser", M)
    if M <= 1:
        return ones(M)
    place = 2 * arange(M) / (M - 1.0) - 1
    width = asarray(beta)
    return i0(width * sqrt(clip(1 - place * place, 0, 1))) / i0(width)


def corrcoef(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    dtype: DTypeLike | None = None,
) -> Array:
    """The matrix of the correlation coefficients of variables, which are rows.

    Args:
        x: matrix with one variable in each row and one sample in each column, or one variable.
        y: more variables, of the same form; None for none.
        rowvar: whether rows are variables; else columns are.
        dtype: dtype in which it is computed, and of the result; None takes that of the variables.

    Returns:
        A floating matrix of the number of variables, from -1 to 1; a number for one variable.

    Raises:
        ShapeError: if there are more than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> corrcoef(tnp.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).round(3).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    size = sqrt(real(diagonal(c)))
    result = c / size[:, None] / size
    return result if result.dtype.kind == "c" else clip(result, -1, 1)
