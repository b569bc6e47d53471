"""Piecewise polynomials of one number: cubic splines and those that keep the shape of data.

Each function computes the slopes at the places, and returns a `PPoly`: coefficients depend on the
data by array operations alone, so that curves compile, batch, and have derivatives by places too.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import one_of, operands, shown

if TYPE_CHECKING:
    from jaxtyping import Inexact, Real


class PPoly(NamedTuple):
    """A piecewise polynomial: a function of a number, or of an array of them.

    Attributes:
        c: coefficients of powers of the distance from the start of a piece, the highest first; the
            second axis is that of pieces, further ones are those of values.
        x: the ends of pieces, ascending.
        extrapolate: whether the first and last pieces go on beyond the ends, where there is NaN
            otherwise.
        period: of a function that repeats; 0 for others.

    Example:
        >>> import tfn.numpy as tnp
        >>> line = PPoly(tnp.array([[1.0, 2.0], [0.0, 1.0]]), tnp.array([0.0, 1.0, 2.0]))
        >>> line(tnp.array([0.5, 1.5])).tolist(), line.integrate(0.0, 2.0).item()
        ([0.5, 2.0], 2.5)
    """

    c: Inexact[Array, "powers pieces ..."]
    x: Real[Array, " pieces+1"]
    extrapolate: Any = True
    period: Any = 0.0

    def __call__(self, x: Real[ArrayLike, "*places"], nu: int = 0) -> Array:
        """The values at places, or derivatives there.

        Args:
            x: the places.
            nu: the order of the derivative, 0 for values.

        Returns:
            An array of the axes of places, then of those of values.
        """
        if nu:
            return self.derivative(nu)(x)
        places = jnp.asarray(x, self.x.dtype)
        width = jnp.where(self.period == 0, 1, self.period).astype(self.x.dtype)
        wrapped = self.x[0] + (places - self.x[0]) % width
        inside = jnp.where(self.period == 0, places, wrapped)
        piece = jnp.clip(jnp.searchsorted(self.x, inside, side="right") - 1, 0, self.x.size - 2)
        gap = (inside - self.x[piece]).reshape(*inside.shape, *[1] * (self.c.ndim - 2))
        total = self.c[0][piece]
        for row in self.c[1:]:
            total = total * gap + row[piece]
        beyond = (inside < self.x[0]) | (inside > self.x[-1])
        absent = (beyond & ~jnp.asarray(self.extrapolate)) | jnp.isnan(places)
        return jnp.where(absent.reshape(gap.shape), jnp.nan, total)

    def derivative(self, nu: int = 1) -> PPoly:
        """The derivative of an order, or the antiderivative of a negative one.

        Args:
            nu: the order.
        """
        if nu < 0:
            return self.antiderivative(-nu)
        c = self.c
        for _ in range(nu):
            count = c.shape[0]
            powers = jnp.arange(count - 1, 0, -1).astype(c.dtype)
            lower = c[:-1] * powers.reshape(-1, *[1] * (c.ndim - 1))
            c = lower if count > 1 else jnp.zeros_like(c)
        return self._replace(c=c)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """The antiderivative of an order, which is 0 at the first place.

        Args:
            nu: the order.
        """
        c = self.c
        gaps = jnp.diff(self.x).reshape(-1, *[1] * (c.ndim - 2))
        for _ in range(nu):
            powers = jnp.arange(c.shape[0], 0, -1).astype(c.dtype)
            higher = c / powers.reshape(-1, *[1] * (c.ndim - 1))
            total = higher[0]
            for row in higher[1:]:
                total = total * gaps + row
            sums = jnp.cumsum(total * gaps, axis=0)
            start = jnp.concatenate([jnp.zeros_like(sums[:1]), sums[:-1]])
            c = jnp.concatenate([higher, start[None]])
        return self._replace(c=c, period=0.0) if nu else self

    def integrate(self, a: ArrayLike, b: ArrayLike) -> Array:
        """The integral between two places; beyond the ends by the first and the last piece.

        Args:
            a: the lower place.
            b: the upper place.
        """
        whole = self.antiderivative()
        return whole(b) - whole(a)


def _data(name: str, x: Any, y: Any, axis: int, least: int) -> tuple[Array, Array, Array]:
    """The places, the values with their axis in front, and the distances of places."""
    places, values = operands.array_of(name, x), jnp.asarray(y)
    kind = jnp.promote_types(jnp.result_type(places, values), "float32")
    if places.ndim != 1 or places.size < least or not values.ndim:
        raise ShapeError(
            f"{name} needs a vector of {least} places at least, and values", got=shown(places)
        )
    values = jnp.moveaxis(values, axis, 0).astype(kind)
    if values.shape[0] != places.size:
        raise ShapeError(f"{name} needs a value for each place", got=shown(values))
    real = values.real.dtype
    places = places.astype(real)
    return places, values, jnp.diff(places)


def _along(x: Array, like: Array) -> Array:
    """A vector along the first axis of an array."""
    return x.reshape(-1, *[1] * (like.ndim - 1))


def _hermite(
    x: Array, y: Array, slopes: Array, extrapolate: Any = True, period: Any = 0.0
) -> PPoly:
    """The cubic pieces with these values and slopes at their ends."""
    h = _along(jnp.diff(x), y)
    secant = jnp.diff(y, axis=0) / h
    excess = (slopes[:-1] + slopes[1:] - 2 * secant) / h
    second = (secant - slopes[:-1]) / h - excess
    return PPoly(jnp.stack([excess / h, second, slopes[:-1], y[:-1]]), x, extrapolate, period)


def CubicHermiteSpline(
    x: Real[ArrayLike, " n"],
    y: Inexact[ArrayLike, "*shape"],
    dydx: Inexact[ArrayLike, "*shape"],
    axis: int = 0,
    extrapolate: bool = True,
) -> PPoly:
    """The cubic pieces with given values and slopes.

    Args:
        x: places, ascending.
        y: values.
        dydx: slopes, an array like `y`.
        axis: the axis of `y` along which places run.
        extrapolate: whether the end pieces go on.

    Returns:
        The curve, with the axis of values in front.

    Raises:
        ShapeError: for fewer than two places, or values of another size.

    Source: F. Fritsch, R. Carlson, Monotone piecewise cubic interpolation (1980), equation 1.

    Example:
        >>> import tfn.numpy as tnp
        >>> x = tnp.array([0.0, 1.0])
        >>> CubicHermiteSpline(x, x**2, 2 * x)(0.5).item()
        0.25
    """
    places, values, _ = _data("CubicHermiteSpline", x, y, axis, 2)
    _, slopes, _ = _data("CubicHermiteSpline", x, dydx, axis, 2)
    return _hermite(places, values, slopes.astype(values.dtype), extrapolate)


ENDS = ("not-a-knot", "natural", "clamped", "periodic")


def CubicSpline(
    x: Real[ArrayLike, " n"],
    y: Inexact[ArrayLike, "*shape"],
    axis: int = 0,
    bc_type: str | tuple[Any, Any] = "not-a-knot",
    extrapolate: bool | None = None,
) -> PPoly:
    """The cubic spline through values: two continuous derivatives.

    Args:
        x: places, ascending.
        y: values; of a periodic spline the last is the first.
        axis: the axis of `y` along which places run.
        bc_type: what holds at the ends: "not-a-knot", where the two pieces at an end are one;
            "natural", no curvature; "clamped", no slope; "periodic"; or a pair with one of these
            for each end, or with pairs of the order and the value of a derivative, 1 or 2.
        extrapolate: whether the end pieces go on; None for yes, and for repetition of a periodic
            spline.

    Returns:
        The curve, with the axis of values in front.

    Raises:
        ArgumentError: for another condition.
        ShapeError: for fewer than two places, three for a periodic spline, or values of another
            size.

    Source: C. de Boor, A practical guide to splines (2001), chapter IV.

    Example:
        >>> import tfn.numpy as tnp
        >>> x = tnp.arange(5.0)
        >>> CubicSpline(x, x**3)(tnp.array([0.5, 2.5])).round(3).tolist()
        [0.125, 15.625]
    """
    periodic = isinstance(bc_type, str) and bc_type == "periodic"
    places, values, h = _data("CubicSpline", x, y, axis, 3 if periodic else 2)
    pair = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
    if len(pair) != 2:
        raise ArgumentError("CubicSpline needs a condition for each end", got=f"{len(pair)}")
    for end in pair:
        if isinstance(end, str):
            one_of("CubicSpline", "bc_type", end, ENDS)
        elif len(end) != 2 or end[0] not in (1, 2):
            raise ArgumentError("a condition is a pair of an order, 1 or 2, and a value", got=end)
    n = places.size
    secant = jnp.diff(values, axis=0) / _along(h, values)
    matrix = jnp.zeros((n, n), h.dtype)
    right = jnp.zeros_like(values)
    inner = jnp.arange(1, n - 1)
    if n > 2:
        before, after = h[:-1], h[1:]
        matrix = matrix.at[inner, inner - 1].set(after).at[inner, inner + 1].set(before)
        matrix = matrix.at[inner, inner].set(2 * (before + after))
        weighed = _along(after, values) * secant[:-1] + _along(before, values) * secant[1:]
        right = right.at[inner].set(3 * weighed)
    if periodic:
        # The first row is that of the place between the last piece and the first; slopes agree.
        matrix = matrix.at[0, 0].set(2 * (h[0] + h[-1])).at[0, 1].set(h[-1]).at[0, n - 2].add(h[0])
        right = right.at[0].set(3 * (h[-1] * secant[0] + h[0] * secant[-1]))
        matrix = matrix.at[-1, 0].set(1).at[-1, -1].set(-1)
    else:
        steps = (h, h[::-1])
        for row, end, gaps, order in ((0, pair[0], steps[0], 1), (-1, pair[1], steps[1], -1)):
            first, second = (0, 1) if order == 1 else (n - 1, n - 2)
            slopes = secant[::order]
            one_sided = n == 3 and pair[0] != pair[1]
            if end == "not-a-knot" and (n > 3 or one_sided):
                total = gaps[0] + gaps[1]
                matrix = matrix.at[row, first].set(gaps[1]).at[row, second].set(total)
                mixed = (gaps[0] + 2 * total) * gaps[1] * slopes[0] + gaps[0] ** 2 * slopes[1]
                right = right.at[row].set(mixed / total)
            elif end == "not-a-knot" and n == 3:  # one parabola
                matrix = matrix.at[row, first].set(1).at[row, second].set(1)
                right = right.at[row].set(2 * slopes[0])
            elif end == "not-a-knot":  # a line
                matrix, right = matrix.at[row, first].set(1), right.at[row].set(slopes[0])
            else:
                named = {"natural": (2, 0.0), "clamped": (1, 0.0)}
                which, value = named[end] if isinstance(end, str) else end
                value = jnp.asarray(value, values.dtype)
                if which == 1:
                    matrix, right = matrix.at[row, first].set(1), right.at[row].set(value)
                else:
                    matrix = matrix.at[row, first].set(2).at[row, second].set(1)
                    bend = 3 * slopes[0] - order * value * gaps[0] / 2
                    right = right.at[row].set(bend)
    flat = right.reshape(n, -1)
    solved = _tridiagonal_solution(matrix, flat, periodic or n < 4)
    slopes = solved.reshape(right.shape)
    extends = True if extrapolate is None else extrapolate
    period = places[-1] - places[0] if periodic and extrapolate is None else 0.0
    return _hermite(places, values, slopes, extends, period)


def _tridiagonal_solution(matrix: Array, right: Array, whole: bool) -> Array:
    """The solution by three diagonals, or by the whole matrix."""
    if whole:
        dense: Array = jnp.linalg.solve(matrix.astype(right.dtype), right)
        return dense
    n = matrix.shape[0]
    zero = jnp.zeros(1, matrix.dtype)
    at = jnp.arange(n - 1)
    lower = jnp.concatenate([zero, matrix[at + 1, at]])
    upper = jnp.concatenate([matrix[at, at + 1], zero])
    below, middle, above = (x.astype(right.dtype) for x in (lower, jnp.diagonal(matrix), upper))
    found: Array = lax.linalg.tridiagonal_solve(below, middle, above, right)
    return found


def PchipInterpolator(
    x: Real[ArrayLike, " n"],
    y: Real[ArrayLike, "*shape"],
    axis: int = 0,
    extrapolate: bool = True,
) -> PPoly:
    """The cubic pieces that rise and fall where data do, and have their extremes.

    Args:
        x: places, ascending.
        y: values.
        axis: the axis of `y` along which places run.
        extrapolate: whether the end pieces go on.

    Returns:
        The curve, with the axis of values in front.

    Raises:
        ShapeError: for fewer than two places, or values of another size.

    Source: F. Fritsch, J. Butland, A method for constructing local monotone piecewise cubic
        interpolants (1984); C. Moler, Numerical computing with MATLAB (2004), for the ends.

    Example:
        >>> import tfn.numpy as tnp
        >>> step = PchipInterpolator(tnp.arange(4.0), tnp.array([0.0, 0.0, 1.0, 1.0]))
        >>> step(tnp.array([0.5, 1.5, 2.5])).tolist()
        [0.0, 0.5, 1.0]
    """
    places, values, gaps = _data("PchipInterpolator", x, y, axis, 2)
    h = _along(gaps, values)
    secant = jnp.diff(values, axis=0) / h
    if places.size == 2:
        return _hermite(places, values, jnp.concatenate([secant, secant]), extrapolate)
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    same = secant[:-1] * secant[1:] > 0
    before, after = (jnp.where(same, s, 1) for s in (secant[:-1], secant[1:]))
    inner = jnp.where(same, (w1 + w2) / (w1 / before + w2 / after), 0)

    def end(h0: Array, h1: Array, m0: Array, m1: Array) -> Array:
        slope = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
        wrong = jnp.sign(slope) != jnp.sign(m0)
        steep = (jnp.sign(m0) != jnp.sign(m1)) & (abs(slope) > 3 * abs(m0))
        return jnp.where(wrong, 0, jnp.where(steep, 3 * m0, slope))[None]

    first = end(h[0], h[1], secant[0], secant[1])
    last = end(h[-1], h[-2], secant[-1], secant[-2])
    return _hermite(places, values, jnp.concatenate([first, inner, last]), extrapolate)


def Akima1DInterpolator(
    x: Real[ArrayLike, " n"],
    y: Real[ArrayLike, "*shape"],
    axis: int = 0,
    *,
    method: str = "akima",
    extrapolate: bool = False,
) -> PPoly:
    """The cubic pieces whose slopes are means of those around, weighed against outliers.

    Args:
        x: places, ascending.
        y: values.
        axis: the axis of `y` along which places run.
        method: "akima", or "makima", which overshoots less beside flat pieces.
        extrapolate: whether the end pieces go on.

    Returns:
        The curve, with the axis of values in front.

    Raises:
        ArgumentError: for another method.
        ShapeError: for fewer than two places, or values of another size.

    Source: H. Akima, A new method of interpolation and smooth curve fitting based on local
        procedures (1970).

    Example:
        >>> import tfn.numpy as tnp
        >>> x = tnp.arange(6.0)
        >>> Akima1DInterpolator(x, abs(x - 2))(tnp.array([1.0, 3.5])).tolist()
        [1.0, 1.5]
    """
    one_of("Akima1DInterpolator", "method", method, ("akima", "makima"))
    places, values, gaps = _data("Akima1DInterpolator", x, y, axis, 2)
    m = jnp.diff(values, axis=0) / _along(gaps, values)
    if places.size == 2:
        return _hermite(places, values, jnp.concatenate([m, m]), extrapolate)
    low, high = 2 * m[0] - m[1], 2 * m[-1] - m[-2]
    m = jnp.stack([2 * low - m[0], low, *m, high, 2 * high - m[-1]])
    change = abs(jnp.diff(m, axis=0))
    if method == "makima":
        change = change + abs(m[1:] + m[:-1]) / 2
    left, right = change[2:], change[:-2]
    total = left + right
    flat = total <= 1e-9 * total.max(initial=0)
    mean = (m[1:-2] + m[2:-1]) / 2
    weighed = (left * m[1:-2] + right * m[2:-1]) / jnp.where(flat, 1, total)
    rest = jnp.zeros_like(mean) if method == "makima" else mean
    return _hermite(places, values, jnp.where(flat, rest, weighed), extrapolate)
