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
from tfn.lax.elementary import lgamma, log, log1p
from tfn.trace.build import accumulator

MIN_ASYMPTOTIC = 8.0
"""The series of `_stirling_remainder` is exact to the last digit of float64 for x from here on."""

_SERIES = (
    0.0833333333333333,
    -0.00277777777760991,
    0.00079365066682539,
    -0.00059520293135187,
    0.000837308034031215,
    -0.00165322962780713,
)


def _stirling_remainder(x: Array) -> Array:
    """``lgamma(x)`` less ``(x - 0.5) * log(x) - x + log(2 * pi) / 2``, for large x."""
    square, total = 1 / (x * x), tnp.zeros_like(x)
    for coefficient in _SERIES[::-1]:
        total = total * square + coefficient
    return total / x


def choose(condition: Array, x: Any, y: Any) -> Array:
    """``where`` with the type of an Array, for branches of arrays and Python numbers."""
    out: Array = tnp.where(condition, x, y)
    return out


def log_rise(z: Array, m: Array) -> Array:
    """``lgamma(z + m) - lgamma(z)``, where both arguments are not negative whole numbers.

    Example:
        >>> log_rise(tnp.float32(1e6), tnp.float32(1)).item()  # log(1e6)
        13.8155...
    """
    dtype = z.dtype
    z, m = z.astype(accumulator(dtype)), m.astype(accumulator(dtype))
    end = z + m
    large = (z >= MIN_ASYMPTOTIC) & (end >= MIN_ASYMPTOTIC) & (end < math.inf)
    a, b, step = (
        choose(large, u, other)
        for u, other in ((end, MIN_ASYMPTOTIC), (z, MIN_ASYMPTOTIC), (m, 0.0))
    )
    series = (
        (a - 0.5) * log1p(step / b)
        + step * (log(b) - 1)
        + (_stirling_remainder(a) - _stirling_remainder(b))
    )
    z, end = (choose(large, 1.0, u) for u in (z, end))
    return choose(large, series, lgamma(end) - lgamma(z)).astype(dtype)


def log_term(a: Array, x: Array) -> Array:
    """``a * log(x) - x - lgamma(a)`` for positive a and x.

    Example:
        >>> log_term(tnp.float32(1e6), tnp.float32(1e6)).item()  # log(1e6 / (2 * pi)) / 2
        5.98881...
    """
    large = a >= MIN_ASYMPTOTIC
    b = choose(large, a, MIN_ASYMPTOTIC)
    far = (x - b) / b
    near = abs(far) < 0.5
    line = choose(near, log1p(choose(near, far, 0.0)), log(x / b)) - far
    series = b * line + (log(b / (2 * math.pi)) / 2 - _stirling_remainder(b))
    return choose(large, series, a * log(x) - x - lgamma(choose(large, 1.0, a)))


def log_beta(a: Array, b: Array) -> Array:
    """``lgamma(a) + lgamma(b) - lgamma(a + b)``.

    Example:
        >>> log_beta(tnp.float32(1e30), tnp.float32(1)).item()  # log(1e-30)
        -69.0775...
    """
    dtype = a.dtype
    a, b = a.astype(accumulator(dtype)), b.astype(accumulator(dtype))
    first = a <= b  # chosen whole, since MAX and MIN halve derivatives where two tie
    low, high = choose(first, a, b), choose(first, b, a)
    large = (low >= MIN_ASYMPTOTIC) & (high < math.inf)
    p, q = choose(large, low, MIN_ASYMPTOTIC), choose(large, high, MIN_ASYMPTOTIC)
    ratio = p / q
    both = (math.log(2 * math.pi) - log(q)) / 2 + (
        _stirling_remainder(p) + (_stirling_remainder(q) - _stirling_remainder(p + q))
    )
    both = both + (p - 0.5) * log(ratio / (1 + ratio)) - q * log1p(ratio)
    low = choose(large, 1.0, low)
    one = lgamma(low) - log_rise(choose(large, 1.0, high), low)
    value = choose(large, both, one)
    return choose((low > 0) & (high == math.inf), -math.inf, value).astype(dtype)
