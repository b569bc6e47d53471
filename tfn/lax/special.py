"""Special functions by series and continued fractions: incomplete gamma and beta, zeta.

Each is written for a scalar, as a loop that ends when its terms no longer count, and mapped over
the elements; 16-bit floats are computed in 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from math import factorial
from operator import or_
from typing import Any

import numpy as np

from tfn import numpy as tnp
from tfn._support.validate import unfit, unlike
from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOATS, finfo
from tfn.lax.elementary import digamma, exp, lgamma, log, log1p
from tfn.lax.logbeta import choose, log_beta, log_term
from tfn.lax.loops import while_loop
from tfn.lax.operand import arrays, expand
from tfn.trace.build import accumulator
from tfn.transforms.custom_jvp import custom_jvp
from tfn.transforms.jit import jit
from tfn.transforms.linearize import jvp
from tfn.transforms.vmap import vmap

Arrays = tuple[Array, ...]

MAX_TERMS = 2000
"""Bound of the terms of a series or fraction: about 3 * sqrt(a) are needed, so a up to 4e5."""


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


def _parts(a: Array, x: Array, by_a: bool = False) -> tuple[Array, Arrays, Arrays]:
    """Returns whether the fraction converges at a point (else the series does), and both values.

    Each is evaluated where it converges, and at a harmless point elsewhere.
    """
    upper = (x > 1) & (x > a)
    below = _series(a, choose(upper, 0.5, x), by_a)
    return upper, below, _fraction(choose(upper, a, 1.0), choose(upper, x, 2.0), by_a)


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
    other = choose((a == 0) & (x > 0), at_no_a, x * np.nan)
    return choose(inside, value, choose((a > 0) & (x >= 0), limit, other))


def _factor(a: Array, x: Array) -> Array:
    return exp(log_term(a, x))


def _times(factor: Array, value: Array) -> Array:
    """Returns the product; 0 where the factor is 0, even if the value is not finite there."""
    return choose(factor == 0, 0.0, factor * value)


def _lower(a: Array, x: Array) -> Array:
    """The part of the gamma function below x."""

    def f(a: Array, x: Array) -> Array:
        upper, (total,), (value,) = _parts(a, x)
        factor = _factor(a, x)
        return choose(upper, 1 - _times(factor, value), factor * total / a)

    return _inside(f, a, x, 0.0, 1.0, 1.0)


def _upper(a: Array, x: Array) -> Array:
    """The part of the gamma function above x, accurate where it is small."""

    def f(a: Array, x: Array) -> Array:
        upper, (total,), (value,) = _parts(a, x)
        factor = _factor(a, x)
        return choose(upper, _times(factor, value), 1 - factor * total / a)

    return _inside(f, a, x, 1.0, 0.0, 0.0)


def _by_a(a: Array, x: Array, sample: bool) -> Array:
    """The derivative of `_lower` by a; with `sample`, minus it, divided by the derivative by x."""

    def f(a: Array, x: Array) -> Array:
        upper, (total, d_total), (value, d_value) = _parts(a, x, by_a=True)
        slope = log(x) - digamma(a)
        below = ((slope - 1 / a) * total + d_total) / a  # digamma(a + 1) = digamma(a) + 1 / a
        above = slope * value + d_value
        return _times(-x if sample else _factor(a, x), choose(upper, -above, below))

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


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Returns the derivative of `igamma` by a.

    Raises:
        DTypeError, ShapeError: as `igamma`.

    Example:
        >>> igamma_grad_a(1.0, 0.0).tolist()
        0.0
    """
    return _BY_A(a, x)


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
    inside = x != 0
    value = exp(log_term(a, choose(inside, x, 1.0)) - log(choose(inside, x, 1.0)))
    return choose(inside, value, choose(a < 1, np.inf, choose(a == 1, 1.0, a * 0)))


igamma.defjvps(
    lambda da, out, a, x: da * igamma_grad_a(a, x), lambda dx, out, a, x: dx * _density(a, x)
)
igammac.defjvps(
    lambda da, out, a, x: -da * igamma_grad_a(a, x), lambda dx, out, a, x: -dx * _density(a, x)
)


# The incomplete beta function.


def _beta_fraction(a: Array, b: Array, x: Array) -> Array:
    """The continued fraction of the incomplete beta function, by the method of Lentz.

    Source: Lentz 1976, "Generating Bessel functions in Mie scattering calculations using continued
        fractions".
    """
    eps = float(finfo(x.dtype).eps)
    tiny = float(finfo(x.dtype).tiny) / eps

    def away(v: Array) -> Array:
        return choose(abs(v) < tiny, tiny, v)

    def more(state: Any) -> Any:
        n, _, _, _, change = state
        return (abs(change - 1) > eps) & (n < MAX_TERMS)

    def step(state: Any) -> Any:
        n, c, d, value, _ = state
        even = n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n))
        odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1))
        for part in (even, odd):
            d, c = 1 / away(1 + part * d), away(1 + part / c)
            change = c * d
            value = value * change
        return n + 1, c, d, value, change

    one = tnp.ones_like(x)
    first = 1 / away(1 - (a + b) * x / (a + 1))
    value: Array = while_loop(more, step, (one, one, first, first, 2 * one))[3]
    return value


def _beta(a: Array, b: Array, x: Array) -> Array:
    """The incomplete beta function, from the side on which the fraction converges fast."""
    inside = (a > 0) & (b > 0) & (x > 0) & (x < 1)
    p, q, t = choose(inside, a, 1.0), choose(inside, b, 1.0), choose(inside, x, 0.5)
    swapped = t > (p + 1) / (p + q + 2)
    p, q = choose(swapped, q, p), choose(swapped, p, q)
    u = choose(swapped, 1 - t, t)
    factor = p * log(u) + q * log1p(-u) - log_beta(p, q)
    part = exp(factor) * _beta_fraction(p, q, u) / p
    limit = choose((a > 0) & (b > 0) & ((x == 0) | (x == 1)), x, x * np.nan)
    return choose(inside, choose(swapped, 1 - part, part), limit)


_BETA = each(_beta, "betainc")


@custom_jvp
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Returns the regularized incomplete beta function: the share of beta(a, b) that lies below x.

    Args:
        a: positive floats, a scalar, or an array of the shape and dtype of the others.
        b: positive floats, a scalar, or an array of the shape and dtype of the others.
        x: floats in [0, 1], a scalar, or an array of the shape and dtype of the others.

    Returns:
        Floats in [0, 1]; NaN where a parameter is outside its domain.

    Raises:
        DTypeError, ShapeError: unless all have one floating dtype and one shape.

    Source: Press et al., Numerical Recipes, section 6.4.

    Example:
        >>> betainc(2.0, 2.0, 0.25).item()
        0.1562...
    """
    return _BETA(a, b, x)


def _moved(f: Callable[..., Array], i: int) -> Callable[..., Array]:
    """The rule of a derivative by argument i, by forward mode through the loop of the function."""

    def rule(dx: Array, out: Array, *xs: Array) -> Array:
        dxs = [tnp.ones_like(x) if j == i else tnp.zeros_like(x) for j, x in enumerate(xs)]
        slope: Array = jvp(f, xs, tuple(dxs))[1]
        return dx * slope

    return rule


def _beta_density(dx: Array, out: Array, a: Array, b: Array, x: Array) -> Array:
    return dx * exp((a - 1) * log(x) + (b - 1) * log1p(-x) - log_beta(a, b))


betainc.defjvps(_moved(_BETA, 0), _moved(_BETA, 1), _beta_density)


# The zeta function, and what it gives.

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_DIRECT = 9


def _zeta(s: Array, q: Array) -> Array:
    """Sums the first terms, and the rest by the formula of Euler and Maclaurin."""
    total = sum(((q + k) ** -s for k in range(_DIRECT)), start=tnp.zeros_like(q))
    end = q + _DIRECT
    power = end**-s
    rest = end * power / (s - 1) + power / 2
    factor = s * power / end
    for j, number in enumerate(_BERNOULLI):
        n = 2 * j + 2
        rest = rest + number / factorial(n) * factor
        factor = factor * (s + n - 1) * (s + n) / (end * end)
    return choose((s > 1) & (q > 0), total + rest, choose(s == 1, np.inf, s * np.nan))


_ZETA = each(_zeta, "zeta")


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Returns the Hurwitz zeta function: the sum of ``1 / (q + k)**x`` over k = 0, 1, ..., for q >
    0.

    Raises:
        DTypeError, ShapeError: unless both have one floating dtype and one shape.

    Example:
        >>> zeta(2.0, 1.0).item()  # pi**2 / 6
        1.6449...
    """
    return _ZETA(x, q)


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
