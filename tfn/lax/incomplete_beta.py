"""The incomplete beta function: a continued fraction, and an expansion of large parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import finfo
from tfn.lax.elementary import erfc, exp, log, log1p, sqrt
from tfn.lax.logbeta import (
    MIN_ASYMPTOTIC,
    NEAR,
    choose,
    log1p_rest,
    log_beta,
    log_gamma_1p,
    log_rise,
    stirling_remainder,
)
from tfn.lax.loops import while_loop
from tfn.lax.special import MAX_TERMS, each
from tfn.numpy.forward_mode import by_forward_mode, defined, slope_by
from tfn.transforms.custom_jvp import custom_jvp


def _beta_fraction(a: Array, b: Array, x: Array, y: Array) -> Array:
    """The continued fraction of the incomplete beta function, for x up to the mean; y is 1 - x.

    Source: DiDonato, Morris 1992, "Algorithm 708: significant digit computation of the incomplete
    beta function ratios": equations 9.
    """
    eps = float(finfo(x.dtype).eps)
    a = tnp.maximum(a, float(finfo(x.dtype).tiny) * 1e9)  # whose products keep their digits
    start = 1 + _beta_gap(a, b, x, y)

    def more(state: Any) -> Any:
        n, *_, value, last = state
        return (abs(value - last) > eps * value) & (n < 3 * MAX_TERMS)

    def step(state: Any) -> Any:
        n, above, below, value, _ = state
        odd = a + (2 * n - 1)
        weight = n * ((b - n) / odd) * x
        alpha = ((a + (n - 1)) / odd) * (a + b + (n - 1)) * weight * x
        beta = n + weight + (a + n) / (odd + 2) * (start + n * (1 + y))
        top, bottom = alpha * above + beta * value, alpha * below + beta
        return n + 1, value / bottom, 1 / bottom, top / bottom, value

    one, first = tnp.ones_like(x), (a + 1) / start
    # Of the last convergent but one, and over the last denominator: numerator and denominator.
    state = one, 0 * one, first / a, first, 0 * one
    value: Array = while_loop(more, step, state)[3]
    return value


NORMAL_FROM = 1e6
"""Both parameters from here on the share is a normal one, but for ``1 / (a + b)`` of its slope."""


def _beta_gap(a: Array, b: Array, x: Array, y: Array) -> Array:
    """``a - (a + b) * x``."""
    return a * y - b * x


def _beta_distance(a: Array, b: Array, x: Array, y: Array) -> Array:
    """``-log(x**a * y**b)``, less its least value."""
    gap = _beta_gap(a, b, x, y)

    def part(power: Array, far: Array, ratio: Array) -> Array:
        near = abs(far) < NEAR
        outside = choose(near, 1.0, far) - log(choose(near, 1.0, ratio))
        return power * choose(near, log1p_rest(choose(near, far, 0.0)), outside)

    return part(a, -gap / a, x * (1 + b / a)) + part(b, gap / b, y * (1 + a / b))


def _beta_term(a: Array, b: Array, x: Array, y: Array) -> Array:
    """``log(x**a * y**b / (a * beta(a, b)))``."""
    large = (a >= MIN_ASYMPTOTIC) & (b >= MIN_ASYMPTOTIC)
    p, q, t, u = (choose(large, v, w) for v, w in ((a, 8.0), (b, 8.0), (x, 0.5), (y, 0.5)))
    remainders = stirling_remainder(p) + (stirling_remainder(q) - stirling_remainder(p + q))
    far = log(q / (p + q) / (2 * np.pi * p)) / 2 - _beta_distance(p, q, t, u) - remainders
    p, q, t, u = (choose(large, w, v) for v, w in ((a, 1.0), (b, 1.0), (x, 0.5), (y, 0.5)))
    tiny = p < 0.5
    small = choose(tiny, p, 0.0)
    scale = choose(tiny, log_gamma_1p(small) - log_rise(q, small), log_beta(p, q) + log(p))
    upper = t > 0.5  # the larger of both is the rounded one
    low = choose(upper, u, t)
    line, other = log(low), log1p(-low)
    power = p * choose(upper, other, line) + q * choose(upper, line, other)
    return choose(large, far, power - scale)


def _beta_normal(a: Array, b: Array, x: Array, y: Array) -> Array:
    """The first terms of the uniform expansion for large a and b: DLMF 8.18.9."""
    distance, mean, both = _beta_distance(a, b, x, y), a / (a + b), a + b
    gap = -_beta_gap(a, b, x, y) / both
    spread = sqrt(mean * (b / both))
    near = distance < 1e-4
    line = gap / spread * sqrt(both / 2)
    skew = (b - a) / both / (3 * spread) * sqrt(2 / both)
    far = sqrt(choose(near, 1.0, distance)) * choose(gap < 0, -1.0, 1.0)
    root = choose(near, line / (1 + skew * line), far)
    first = choose(near, skew, 1 / far - 1 / choose(near, 1.0, line))
    share: Array = 0.5 * erfc(-root) + exp(-distance) / (2 * np.sqrt(np.pi)) * first
    return share


def _beta(a: Array, b: Array, x: Array) -> Array:
    """The incomplete beta function, from the side on which the fraction converges fast."""
    inside = (a > 0) & (b > 0) & (a < np.inf) & (b < np.inf) & (x > 0) & (x < 1)
    p, q, t = choose(inside, a, 1.0), choose(inside, b, 1.0), choose(inside, x, 0.5)
    u = 1 - t
    large = (p >= NORMAL_FROM) & (q >= NORMAL_FROM)
    pairs = (p, NORMAL_FROM), (q, NORMAL_FROM), (t, 0.5), (u, 0.5)
    normal = _beta_normal(*(choose(large, v, w) for v, w in pairs))
    small = (q < 0.1) & (t < 0.99)  # the part from 0 to x, which 1 less the other would not tell
    swapped = (_beta_gap(p, q, t, u) < t - u) & ~small
    p, q, t, u = (choose(swapped, v, w) for v, w in ((q, p), (p, q), (u, t), (t, u)))
    p, q, t, u = (choose(large, v, w) for v, w in ((1.0, p), (1.0, q), (0.5, t), (0.5, u)))
    part = exp(_beta_term(p, q, t, u)) * _beta_fraction(p, q, t, u)
    part = tnp.minimum(part, 1.0)
    part = choose(large, normal, choose(swapped, 1 - part, part))
    # All weight lies at 0 if a is 0 or b infinite, at 1 if b is 0 or a infinite.
    at_zero, at_one = (a == 0) | (b == np.inf), (b == 0) | (a == np.inf)
    step = choose(at_zero, x > 0, choose(at_one, x == 1, x)).astype(x.dtype)
    known = (a >= 0) & (b >= 0) & (x >= 0) & (x <= 1)
    known = known & ~((a == b) & ((a == 0) | (a == np.inf)))
    limit = choose(known & (at_zero | at_one | (x == 0) | (x == 1)), step, np.nan)
    return choose(inside, part, limit)


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


def _beta_density(a: Array, b: Array, x: Array) -> Array:
    edge = (x == 0) | (x == 1)
    t = choose(edge, 0.5, x)
    value = exp(_beta_term(a, b, t, 1 - t)) * (a / t) / (1 - t)
    order = choose(x == 0, a, b)  # at 0 and 1 the density is that power less 1 of nothing
    limit = choose(order < 1, np.inf, choose(order > 1, 0.0, choose(x == 0, b, a)))
    return choose(edge & (a > 0) & (b > 0), limit, value)


_by_x = by_forward_mode(_beta_density, 3)
betainc.defjvps(
    slope_by(_BETA, 0),
    slope_by(_BETA, 1),
    lambda dx, out, a, b, x: dx * (_by_x(a, b, x) * defined(out)),
)
