"""Special functions by series and continued fractions: incomplete gamma functions, zeta.

Each is written for a scalar, as a loop that ends when its terms no longer count, and mapped over
the elements; 16-bit floats are computed in 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache, partial, reduce
from math import factorial
from operator import or_
from typing import Any

import numpy as np

from tfn import numpy as tnp
from tfn._support.validate import unfit, unlike
from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOAT64, FLOATS, finfo
from tfn.lax.branches import cond
from tfn.lax.elementary import digamma, erfc, exp, expm1, lgamma, log, sin, sqrt
from tfn.lax.logbeta import choose, log1p_curvature, log_gamma_1p, log_share, stirling_remainder
from tfn.lax.loops import while_loop
from tfn.lax.operand import arrays, expand
from tfn.numpy.forward_mode import by_forward_mode, defined, slope_by
from tfn.trace.build import accumulator
from tfn.transforms.custom_jvp import custom_jvp
from tfn.transforms.jit import jit
from tfn.transforms.linearize import jvp
from tfn.transforms.vmap import vmap

Arrays = tuple[Array, ...]

MAX_TERMS = 2000
"""Bound of the terms of a series or fraction; of incomplete gamma functions they are under 200."""


def each(f: Callable[..., Array], name: str) -> Callable[..., Array]:
    """Maps a function of scalars over operands of one floating dtype and one shape."""

    @jit
    def run(*xs: Array) -> Array:
        dtype = accumulator(xs[0].dtype)
        out: Array = vmap(f)(*[x.astype(dtype).ravel() for x in xs])
        return out.reshape(xs[0].shape).astype(xs[0].dtype)

    def checked(*operands: ArrayLike) -> Array:
        xs = arrays(*operands)
        shape = max((x.shape for x in xs), key=len)
        if any(x.dtype not in FLOATS or x.dtype != xs[0].dtype for x in xs):
            raise unlike(name, xs, "operands of one floating dtype")
        if any(x.shape not in ((), shape) for x in xs):
            raise unfit(f"{name} needs operands of one shape", xs, "tfn.scipy.special broadcasts")
        out: Array = run(*[expand(x, shape) for x in xs])
        return out

    return checked


# The incomplete gamma functions.


# Each expansion returns its value, followed by the derivative by a if `by_a`.


def _series(a: Array, x: Array, by_a: bool) -> Arrays:
    """The sum of x**n / ((a + 1) ... (a + n))."""
    eps = float(finfo(a.dtype).eps)

    def more(state: Any) -> Any:
        n, terms, totals = state
        return (n < MAX_TERMS) & _any(abs(u) > eps * abs(v) for u, v in zip(terms, totals))

    def step(state: Any) -> Any:
        n, (term, *slopes), totals = state
        ratio = x / (a + n)
        terms = term * ratio, *[(slope - term / (a + n)) * ratio for slope in slopes]
        return n + 1, terms, tuple([u + v for u, v in zip(terms, totals)])

    one = tnp.ones_like(x)
    first = (one, 0 * one) if by_a else (one,)
    totals: Arrays = while_loop(more, step, (one, first, first))[2]
    return totals


def _fraction(a: Array, x: Array, by_a: bool) -> Arrays:
    """A continued fraction in 1 - a, 2 - a, ... for the part above x.

    Numerators p and denominators q follow one recurrence; both are made smaller when they grow.
    """
    eps = float(finfo(a.dtype).eps)
    large = 1 / eps

    def more(state: Any) -> Any:
        n, *_, moving = state
        return moving & (n < MAX_TERMS)

    def step(state: Any) -> Any:
        n, before, now, last, _ = state
        y = n + 1 - a
        z = x + 2 * n + 2 - a
        new = [u * z - v * y * n for u, v in zip(now, before)]
        if by_a:
            new[2:] = [new[i + 2] - now[i] + before[i] * n for i in range(2)]
        values = _quotient(new)
        bounds = eps * abs(values[0]), eps
        moving = _any(abs(u - v) > bound for u, v, bound in zip(values, last, bounds))
        shrink = choose(abs(new[0]) > large, eps, one)
        return n + 1, *(tuple([v * shrink for v in terms]) for terms in (now, new)), values, moving

    one = tnp.ones_like(x)
    before = one, x, 0 * one, 0 * one
    now = x + 1, (x + 2 - a) * x, 0 * one, -x
    terms = 4 if by_a else 2
    first = one, before[:terms], now[:terms], _quotient(now[:terms]), one > 0
    values: Arrays = while_loop(more, step, first)[3]
    return values


def _quotient(terms: Sequence[Array]) -> Arrays:
    """Returns p / q, and its derivative by a if the terms hold derivatives."""
    p, q, *slopes = terms
    value = p / q
    return (value, (slopes[0] - value * slopes[1]) / q) if slopes else (value,)


def _any(conditions: Iterable[Array]) -> Array:
    return reduce(or_, conditions)


NEAR_DIAGONAL = 64.0, 0.3
"""The least a, and the distance of x from it in units of a, for few terms of the expansion."""


@cache
def _uniform_coefficients(orders: int, powers: int) -> tuple[tuple[float, ...], ...]:
    """The coefficients d[k][n] of ``eta**n / a**k`` in the uniform expansion.

    With ``x / a = 1 + mu`` and ``eta**2 / 2 = mu - log1p(mu)``, mu is a power series in eta, and
    the first row is ``1 / mu - 1 / eta``; each row gives the next.
    """
    count = powers + 2 * orders
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, count + 3):
        cross = sum((mu[i] * mu[n + 1 - i] for i in range(2, n)), Fraction(0))
        mu.append(mu[n - 1] / (n + 1) - cross / 2)
    inverse = [Fraction(1)]
    for n in range(1, count + 2):
        inverse.append(-sum((mu[i + 1] * inverse[n - i] for i in range(1, n + 1)), Fraction(0)))
    first = row = inverse[1:]
    rows = [row]
    for _ in range(orders - 1):
        row = [(n + 2) * row[n + 2] - row[1] * first[n] for n in range(len(row) - 2)]
        rows.append(row)
    return tuple(tuple(float(c) for c in row[:powers]) for row in rows)


def _uniform(a: Array, x: Array, by_a: bool) -> Arrays:
    """The uniform expansion for large a: the part above x, the part below, and, if `by_a`, the
    derivative of the latter by a, divided by ``x**a * exp(-x) / gamma(a)``.

    Source: Temme 1979, "The asymptotic expansion of the incomplete gamma functions"; DLMF 8.12.
    """
    orders, powers = (9, 17) if a.dtype == FLOAT64 else (4, 9)

    def series(a: Array) -> Array:
        mu = (x - a) / a
        eta = mu * sqrt(2 * log1p_curvature(mu))
        total = tnp.zeros_like(a)
        for row in _uniform_coefficients(orders, powers)[::-1]:
            inner = tnp.zeros_like(a)
            for coefficient in row[::-1]:
                inner = inner * eta + coefficient
            total = total / a + inner
        return total

    mu = (x - a) / a
    curvature = log1p_curvature(mu)
    slope = sqrt(2 * curvature)  # eta / mu
    total, change = jvp(series, (a,), (tnp.ones_like(a),)) if by_a else (series(a), a)
    density = exp(-a * mu * mu * curvature) / sqrt(2 * np.pi * a)
    distance = mu * slope * sqrt(a / 2)
    values = 0.5 * erfc(distance) + density * total, 0.5 * erfc(-distance) - density * total
    if not by_a:
        return values
    line = 1 - mu * curvature  # log1p(mu) / mu
    by_density = -line / slope - (mu * line - 0.5 / a) * total - change
    return *values, by_density * exp(stirling_remainder(a)) / a


def _small_upper(a: Array, x: Array) -> Array:
    """The part above x, for a and x up to 1: 1 less an alternating series, whose first term may be
    almost 1."""
    terms, power = tnp.zeros_like(x), tnp.ones_like(x)
    for n in range(1, 20):
        power = power * (-x / n)
        terms = terms + power * (a / (a + n))
    first = a * log(x) - log_gamma_1p(a)
    return -expm1(first) - exp(first) * terms


def _places(a: Array, x: Array) -> tuple[Array, Array]:
    """The places of the uniform expansion, and of the fraction; the others have the series."""
    least, width = NEAR_DIAGONAL
    near = (a >= least) & (abs(x - a) < width * a)
    return near, ~near & (x > 1) & (x > a)


def _parts(a: Array, x: Array, by_a: bool = False) -> tuple[Arrays, Arrays, Arrays]:
    """The values of the uniform expansion, the fraction, and the series.

    Each is evaluated where it serves, and at a harmless point elsewhere.
    """
    near, upper = _places(a, x)
    below = _series(a, choose(near | upper, 0.5, x), by_a)
    above = _fraction(choose(upper, a, 1.0), choose(upper, x, 2.0), by_a)
    return _uniform(choose(near, a, 64.0), choose(near, x, 64.0), by_a), above, below


def _inside(
    f: Callable[[Array, Array], Array],
    a: Array,
    x: Array,
    at_zero: float,
    at_infinity: float,
    at_no_a: float = np.nan,
) -> Array:
    """`f` where a and x are positive and finite, its limits at x = 0 and infinity, else NaN.

    For a = 0 and a positive x it is `at_no_a`; for infinite a and a finite x, as at x = 0.
    """
    inside = (x > 0) & (a > 0) & (x < np.inf) & (a < np.inf)
    value = f(choose(inside, a, 1.0), choose(inside, x, 1.0))
    limit = choose(
        (x == 0) | ((a == np.inf) & (x < np.inf)), at_zero, choose(x == np.inf, at_infinity, x)
    )
    other = choose((a == 0) & (x > 0), at_no_a, np.nan)
    known = (a > 0) & (x >= 0) & ~((a == np.inf) & (x == np.inf))
    return choose(inside, value, choose(known, limit, other))


def _share(a: Array, x: Array) -> Array:
    return exp(log_share(a, x))


def _times(factor: Array, value: Array) -> Array:
    """Returns the product; 0 where the factor is 0, even if the value is not finite there."""
    return choose(factor == 0, 0.0, factor * value)


def _lower(a: Array, x: Array) -> Array:
    """The part of the gamma function below x."""

    def f(a: Array, x: Array) -> Array:
        near, upper = _places(a, x)
        (_, uniform), (value,), (total,) = _parts(a, x)
        share = _share(a, x)
        outside = choose(upper, 1 - _times(a * share, value), _times(share, total))
        return choose(near, uniform, outside)

    return _inside(f, a, x, 0.0, 1.0, 1.0)


def _upper(a: Array, x: Array) -> Array:
    """The part of the gamma function above x, accurate where it is small."""

    def f(a: Array, x: Array) -> Array:
        near, upper = _places(a, x)
        (uniform, _), (value,), (total,) = _parts(a, x)
        share, small = _share(a, x), (a <= 1) & (x <= 1)
        part = _small_upper(choose(small, a, 1.0), choose(small, x, 1.0))
        below = choose(small, part, 1 - _times(share, total))
        return choose(near, uniform, choose(upper, _times(a * share, value), below))

    return _inside(f, a, x, 1.0, 0.0, 0.0)


def _by_a(a: Array, x: Array, sample: bool) -> Array:
    """The derivative of `_lower` by a; with `sample`, minus it, divided by the derivative by x."""

    def f(a: Array, x: Array) -> Array:
        near, upper = _places(a, x)
        (_, _, uniform), (value, d_value), (total, d_total) = _parts(a, x, by_a=True)
        below = (log(x) - digamma(a + 1)) * total + d_total
        above = -a * ((log(x) - digamma(a)) * value + d_value)
        part = choose(near, a * uniform, choose(upper, above, below))
        return _times(-x / a if sample else _share(a, x), part)

    if not sample:  # at 0 it is -E1(x), to which it is close here
        a = a + choose((a == 0) & (x > 0), 1e-30, 0.0)
    return _inside(f, a, x, 0.0, 0.0)


_LOWER = each(_lower, "igamma")
_UPPER = each(_upper, "igammac")
_BY_A = each(partial(_by_a, sample=False), "igamma_grad_a")
_SAMPLE = each(partial(_by_a, sample=True), "random_gamma_grad")


@custom_jvp
def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Returns the regularized lower incomplete gamma function: the share of gamma(a) that lies
    below x.

    Raises:
        DTypeError, ShapeError: unless both have one floating dtype and one shape.

    Source: Gautschi 1979, "A computational procedure for incomplete gamma functions".

    Example:
        >>> igamma(1.0, 2.0).item()  # 1 - exp(-2)
        0.8646...
    """
    return _LOWER(a, x)


@custom_jvp
def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """Returns ``1 - igamma(a, x)``, accurate where it is small.

    Raises:
        DTypeError, ShapeError: as `igamma`.

    Example:
        >>> igammac(1.0, 50.0).item()
        1.9287...e-22
    """
    return _UPPER(a, x)


@custom_jvp
def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Returns the derivative of `igamma` by a.

    Raises:
        DTypeError, ShapeError: as `igamma`.

    Example:
        >>> igamma_grad_a(1.0, 0.0).tolist()
        0.0
    """
    return _BY_A(a, x)


@custom_jvp
def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Array:
    """Returns the derivative by a of a sample x of gamma(a) whose quantile is fixed.

    Raises:
        DTypeError, ShapeError: as `igamma`.

    Source: Figurnov, Mohamed, Mnih 2018, arXiv:1805.08498.

    Example:
        >>> import tfn.numpy as tnp
        >>> random_gamma_grad(tnp.float32(2.0), tnp.float32(2.0)).shape
        ()
    """
    return _SAMPLE(a, x)


def _density(a: Array, x: Array) -> Array:
    inside = (x != 0) & (x < np.inf) & (a < np.inf)
    value = exp(log_share(a, choose(inside, x, 1.0)) - log(choose(inside, x / a, 1.0)))
    edge = choose(a < 1, np.inf, choose(a == 1, 1.0, choose(a == np.inf, 0.0, a * 0)))
    return choose(inside, value, choose((x == np.inf) & (a >= 0), 0.0, edge))


_by_x = by_forward_mode(_density, 2)

igamma.defjvps(
    lambda da, out, a, x: da * igamma_grad_a(a, x),
    lambda dx, out, a, x: dx * (_by_x(a, x) * defined(out)),
)
igammac.defjvps(
    lambda da, out, a, x: -da * igamma_grad_a(a, x),
    lambda dx, out, a, x: -dx * (_by_x(a, x) * defined(out)),
)
igamma_grad_a.defjvps(slope_by(_BY_A, 0), slope_by(_BY_A, 1))
random_gamma_grad.defjvps(slope_by(_SAMPLE, 0), slope_by(_SAMPLE, 1))


# The zeta function, and what it gives.

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_DIRECT = 9


def _zeta_sum(s: Array, q: Array) -> Array:
    """Sums the first terms, and the rest by the formula of Euler and Maclaurin; q > 0."""
    q = choose(q < np.inf, q, 1.0)
    total = sum(((q + k) ** -s for k in range(_DIRECT)), start=tnp.zeros_like(q))
    end = q + _DIRECT
    power = end**-s
    rest = end ** (1 - s) / (s - 1) + power / 2
    factor = s * power / end
    for j, number in enumerate(_BERNOULLI):
        n = 2 * j + 2
        rest = rest + number / factorial(n) * factor
        factor = factor * ((s + n - 1) / end) * ((s + n) / end)
    return total + rest


def _zeta(s: Array, q: Array) -> Array:
    inside = (s > 1) & (s < np.inf) & (q > 0) & (q < np.inf)
    value = _zeta_sum(choose(inside, s, 2.0), choose(inside, q, 1.0))
    # An infinite s leaves the terms whose base is 1 or less.
    limit = choose(s == np.inf, choose(q == 1, 1.0, choose(q < 1, np.inf, 0.0)), 0.0)
    limit = choose((s > 1) & (q == q), limit, np.nan)
    return choose(inside, value, choose((s == 1) & (q == q), np.inf, limit))


_ZETA = each(_zeta, "zeta")


def _zeta_below(s: Array, q: Array) -> Array:
    """For negative q and whole s: the terms of all whole k, less those that q leaves out."""
    part = choose(q == -np.inf, 0.0, q - tnp.round(q))
    near = choose(part == 0, 0.5, part)
    next_ = near - tnp.sign(near)
    sign = 1 - 2 * (s % 2)
    rest = _ZETA(s, 1 + tnp.maximum(near, next_)) + sign * _ZETA(s, 1 - tnp.minimum(near, next_))
    value = (near**-s + next_**-s) + rest - sign * _ZETA(s, 1 - q)
    value = choose((part == 0) | (s == np.inf), np.inf, value)
    return choose((s == tnp.floor(s)) | (part == 0), value, np.nan)


@custom_jvp
def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Returns the Hurwitz zeta function: the sum of ``1 / (q + k)**x`` over k = 0, 1, ...

    Args:
        x: floats, a scalar or an array of the shape and dtype of `q`.
        q: floats, a scalar or an array; a negative one needs a whole x.

    Returns:
        Floats: inf where x is 1 or a term has no inverse, NaN where x is below 1.

    Raises:
        DTypeError, ShapeError: unless both have one floating dtype and one shape.

    Example:
        >>> zeta(2.0, 1.0).item()  # pi**2 / 6
        1.6449...
    """
    s, q = arrays(x, q)
    below = (q <= 0) & (s > 1)
    above = _ZETA(s, choose(below, 1, q))
    found: Array = cond(
        tnp.any(below),
        lambda s, q: choose(below, _zeta_below(s, choose(below, q, 0.0)), above),
        lambda s, q: above,
        *tnp.broadcast_arrays(s, q),
    )
    return found


zeta.defjvps(slope_by(_ZETA, 0), lambda dq, out, s, q: dq * (-s * zeta(s + 1, q) * defined(out)))


def _riemann(s: Array) -> Array:
    below = s < -0.1  # the sum is the function's from there on, and without a pole at 0
    inside = choose(below, 1 - s, s)
    value = _zeta_sum(choose((inside == 1) | (inside == np.inf), 2.0, inside), tnp.ones_like(s))
    value = choose(inside == 1, np.inf, choose(inside == np.inf, 1.0, value))
    # The functional equation; the sine is 0 exactly at even numbers.
    t = choose(below, s, -1.0)
    half = t / 2
    whole = tnp.round(half)
    sine = sin(np.pi * (half - whole)) * (1 - 2 * (abs(whole) % 2))
    scale = 2 * exp((t - 1) * np.log(2 * np.pi) + lgamma(1 - t))
    return choose(below, choose(sine == 0, 0.0, sine * scale * value), value)


riemann_zeta = by_forward_mode(each(_riemann, "zeta"))


@custom_jvp
def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """Returns the derivative of order m of `digamma`, for x > 0; m is an integer stored as a float.

    Raises:
        DTypeError, ShapeError: unless both have one floating dtype and one shape.

    Example:
        >>> polygamma(1.0, 1.0).item()
        1.6449...
    """
    m, x = arrays(m, x)
    m = expand(m, x.shape)
    sign = 1 - 2 * ((m + 1) % 2)
    high = sign * exp(lgamma(m + 1)) * zeta(choose(m > 0, m + 1, 2.0), x)
    return choose(m == 0, digamma(x), high)


polygamma.defjvps(None, lambda dx, out, m, x: dx * polygamma(m + 1, x))
