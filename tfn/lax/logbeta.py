"""Logarithms of beta functions and of ratios of gamma functions, without cancellation.

Of an argument of a million the logarithm is twelve million, of which float32 knows the units; the
logarithm of the ratio of two such may be 1.  Stirling's formula has the large terms cancelled on
paper.

Source: DiDonato, Morris 1992, "Algorithm 708: significant digit computation of the incomplete beta
function ratios": its functions algdiv and bcorr, and its coefficients.
"""

from __future__ import annotations

import math
from typing import Any

from tfn import numpy as tnp
from tfn.array import Array
from tfn.lax.elementary import lgamma, log, log1p, sin
from tfn.lax.number_parts import round
from tfn.lower.math.gamma import NEAR_TWO
from tfn.trace.build import accumulator
from tfn.transforms.grad import stop_gradient

MIN_ASYMPTOTIC = 8.0
"""The series of `stirling_remainder` is exact to the last digit of float64 for x from here on."""

_SERIES = (
    0.0833333333333333,
    -0.00277777777760991,
    0.00079365066682539,
    -0.00059520293135187,
    0.000837308034031215,
    -0.00165322962780713,
)


def stirling_remainder(x: Array) -> Array:
    """``lgamma(x)`` less ``(x - 0.5) * log(x) - x + log(2 * pi) / 2``, for x from 8 on.

    Example:
        >>> stirling_remainder(tnp.float32(100)).item()  # about 1 / 1200
        0.000833...
    """
    square, total = 1 / (x * x), tnp.zeros_like(x)
    for coefficient in _SERIES[::-1]:
        total = total * square + coefficient
    return total / x


def choose(condition: Array, x: Any, y: Any) -> Array:
    """``where`` with the type of an Array, for branches of arrays and Python numbers."""
    out: Array = tnp.where(condition, x, y)
    return out


def _log_sine(x: Array) -> Array:
    """``log(abs(sin(pi * x)))``, exact to the digits of x's distance from a whole number."""
    return log(sin(math.pi * abs(x - round(x))))


def _reflection(used: Array, *terms: tuple[int, Array]) -> Array:
    """The sum of logarithms of sines, each with its sign, where it is used; else 0."""
    total = sum(
        (sign * _log_sine(choose(used, x, 0.25)) for sign, x in terms),
        start=tnp.zeros_like(terms[0][1]),
    )
    return choose(used, total, 0.0)


def whole(x: Array) -> Array:
    """Whether a finite number has no fraction."""
    return (x == tnp.floor(x)) & (abs(x) < math.inf)


def log_rise(z: Array, m: Array) -> Array:
    """``lgamma(z + m) - lgamma(z)``, and its limit where both are poles and m is a whole number.

    Example:
        >>> log_rise(tnp.float32(1e6), tnp.float32(1)).item()  # log(1e6)
        13.8155...
        >>> log_rise(tnp.float32(-3), tnp.float32(2)).item()  # log(-3 * -2)
        1.7917...
    """
    dtype = z.dtype
    z, m = z.astype(accumulator(dtype)), m.astype(accumulator(dtype))
    end = z + m
    steps, pole = whole(m), whole(z) & (z <= 0)
    below = steps & (end < 1) & ((z < 1) | ~whole(z)) | (z <= 0) & (end <= 0)
    below = below & (z > -math.inf) & (end > -math.inf)
    sines = _reflection(below & ~pole & ~(steps & whole(end)), (1, z), (-1, end))
    sines = sines - choose(steps, stop_gradient(sines), 0.0)  # 0 where m is whole
    first, last = choose(below, (1 - m) - z, z), choose(below, 1 - z, end)
    value = _log_rise(first, m, last) + sines
    value = choose(pole & ~(below & steps), -math.inf, value)
    far = (z == math.inf) | (z == -math.inf) & steps
    value = choose(far & (end == end), choose(m > 0, math.inf, -math.inf), value)
    return choose((m == 0) & (pole | (abs(z) == math.inf)), 0.0, value).astype(dtype)


def _log_rise(z: Array, m: Array, end: Array) -> Array:
    """``lgamma(end) - lgamma(z)``, where end is z + m."""
    large = (z >= MIN_ASYMPTOTIC) & (end >= MIN_ASYMPTOTIC) & (end < math.inf)
    a, b, step = (
        choose(large, u, other)
        for u, other in ((end, MIN_ASYMPTOTIC), (z, MIN_ASYMPTOTIC), (m, 0.0))
    )
    series = (
        (a - 0.5) * log1p(step / b)
        + step * (log(b) - 1)
        + (stirling_remainder(a) - stirling_remainder(b))
    )
    tiny = (z > 0) & (z < 0.5) & (end > 0) & (end < 0.5)
    low, high = choose(tiny, z, 0.25), choose(tiny, end, 0.25)
    near = log_gamma_1p(high) - log_gamma_1p(low) + log(low / high)
    z, end = (choose(large | tiny, 1.0, u) for u in (z, end))
    return choose(large, series, choose(tiny, near, lgamma(end) - lgamma(z)))


NEAR = 0.3
_LOG1P_TERMS = 12
"""Terms of `log1p_curvature` below 0.3, where they fall by a factor of 32."""


def log1p_curvature(x: Array) -> Array:
    """``(x - log1p(x)) / x**2`` for ``abs(x) < NEAR``.

    Example:
        >>> log1p_curvature(tnp.float32(0)).item()
        0.5
    """
    t = x / (2 + x)
    square, total = t * t, tnp.zeros_like(x)
    for k in range(_LOG1P_TERMS, 0, -1):
        total = total * square + 2 / (2 * k + 1)
    return (1 - t * total / (2 + x)) / (2 + x)


def log1p_rest(x: Array) -> Array:
    """``x - log1p(x)``, whose leading terms would cancel near 0.

    Example:
        >>> log1p_rest(tnp.float32(1e-4)).item()  # 1e-4 ** 2 / 2
        4.99...e-09
    """
    near = abs(x) < NEAR
    inside, outside = choose(near, x, 0.0), choose(near, 1.0, x)
    return choose(near, inside * inside * log1p_curvature(inside), outside - log1p(outside))


def log_share(a: Array, x: Array) -> Array:
    """``a * log(x) - x - lgamma(a + 1)`` for positive a and x.

    Example:
        >>> log_share(tnp.float32(1e6), tnp.float32(1e6)).item()  # -log(2 * pi * 1e6) / 2
        -7.82669...
    """
    large = a >= MIN_ASYMPTOTIC
    b = choose(large, a, MIN_ASYMPTOTIC)
    far = (x - b) / b
    near = abs(far) < 0.5
    line = choose(near, -log1p_rest(choose(near, far, 0.0)), log(x / b) - far)
    series = b * line - (log(b * (2 * math.pi)) / 2 + stirling_remainder(b))
    small = choose(large, 1.0, a)
    return choose(large, series, small * log(x) - x - log_gamma_1p(small))


def log_gamma_1p(a: Array) -> Array:
    """``lgamma(1 + a)``, exact to the digits of a where it is small.

    Example:
        >>> log_gamma_1p(tnp.float32(1e-20)).item()  # less Euler's constant * 1e-20
        -5.77215...e-21
    """
    near = abs(a) < 0.5
    inside = choose(near, a, 0.0)
    total = tnp.zeros_like(a)
    for coefficient in NEAR_TWO[a.dtype]:
        total = total * inside + coefficient
    return choose(near, inside * total - log1p(inside), lgamma(1 + choose(near, 1.0, a)))


def log_beta(a: Array, b: Array) -> Array:
    """``lgamma(a) + lgamma(b) - lgamma(a + b)``, and its limit where two of them are poles.

    Example:
        >>> log_beta(tnp.float32(1e30), tnp.float32(1)).item()  # log(1e-30)
        -69.0775...
        >>> log_beta(tnp.float32(-3), tnp.float32(2)).item()  # log(1 / 6)
        -1.7917...
    """
    dtype = a.dtype
    a, b = a.astype(accumulator(dtype)), b.astype(accumulator(dtype))
    # Chosen whole, since MAX and MIN halve derivatives where two tie.
    first = (abs(a) < abs(b)) | ((abs(a) == abs(b)) & (a >= b))
    less, more = choose(first, a, b), choose(first, b, a)
    finite = abs(more) < math.inf
    small, large = choose(finite, less, 1.0), choose(finite, more, 1.0)
    total = small + large
    # By the reflection of each that is negative all are functions of positive numbers.
    one = (small > 0) & (large <= 0)
    both, other = (small <= 0) & (large <= 0), (small <= 0) & (large > 0)
    inverse = both | other
    p = choose(inverse, 1 - small, small)
    q = choose(one, 1 - total, choose(both, 1 - large, choose(other, total, large)))
    value = _log_beta(p, q)
    rest = log(choose(both, 1 - total, choose(other, large, 1.0)))
    value = choose(inverse, math.log(math.pi) - rest - value, value)
    sines = _reflection(one & ~(whole(small) & whole(total)), (1, total), (-1, large))
    value = value + sines - choose(whole(small), stop_gradient(sines), 0.0)
    value = value + _reflection(both, (1, total), (-1, large), (-1, small))
    value = value + _reflection(other, (-1, small))
    poles = both & whole(small) | (both | one & ~whole(small)) & whole(large)
    value = choose(poles, math.inf, value)
    at_infinity = choose((more > 0) & (less > 0), -math.inf, math.inf)
    value = choose(finite, value, choose((a == math.inf) & (b == a), math.nan, at_infinity))
    return choose((a == a) & (b == b), value, math.nan).astype(dtype)


def _log_beta(p: Array, q: Array) -> Array:
    """``lgamma(p) + lgamma(q) - lgamma(p + q)`` of positive numbers."""
    first = p <= q
    low, high = choose(first, p, q), choose(first, q, p)
    large = low >= MIN_ASYMPTOTIC
    p, q = choose(large, low, MIN_ASYMPTOTIC), choose(large, high, MIN_ASYMPTOTIC)
    ratio = p / q
    both = (math.log(2 * math.pi) - log(q)) / 2 + (
        stirling_remainder(p) + (stirling_remainder(q) - stirling_remainder(p + q))
    )
    both = both + (p - 0.5) * log(ratio / (1 + ratio)) - q * log1p(ratio)
    low, high = choose(large, 1.0, low), choose(large, 1.0, high)
    return choose(large, both, lgamma(low) - _log_rise(high, low, low + high))
