"""Ratios of gamma functions by their logarithms, without the difference of large numbers.

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

LARGE = 8.0
"""From here on the series of `_rest` is right to the last digit of float64."""

_SERIES = (
    0.0833333333333333,
    -0.00277777777760991,
    0.00079365066682539,
    -0.00059520293135187,
    0.000837308034031215,
    -0.00165322962780713,
)


def _rest(x: Array) -> Array:
    """``lgamma(x)`` less ``(x - 0.5) * log(x) - x + log(2 * pi) / 2``, for large x."""
    square, total = 1 / (x * x), tnp.zeros_like(x)
    for coefficient in _SERIES[::-1]:
        total = total * square + coefficient
    return total / x


def _where(condition: Array, x: Any, y: Any) -> Array:
    """A choice in the dtype of the arrays."""
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
    large = (z >= LARGE) & (end >= LARGE) & (end < math.inf)
    a, b, step = (_where(large, u, other) for u, other in ((end, LARGE), (z, LARGE), (m, 0.0)))
    series = (a - 0.5) * log1p(step / b) + step * (log(b) - 1) + (_rest(a) - _rest(b))
    z, end = (_where(large, 1.0, u) for u in (z, end))
    return _where(large, series, lgamma(end) - lgamma(z)).astype(dtype)


def log_term(a: Array, x: Array) -> Array:
    """``a * log(x) - x - lgamma(a)`` for positive a and x.

    Example:
        >>> log_term(tnp.float32(1e6), tnp.float32(1e6)).item()  # log(1e6 / (2 * pi)) / 2
        5.98881...
    """
    large = a >= LARGE
    b = _where(large, a, LARGE)
    far = (x - b) / b
    near = abs(far) < 0.5
    line = _where(near, log1p(_where(near, far, 0.0)), log(x / b)) - far
    series = b * line + (log(b / (2 * math.pi)) / 2 - _rest(b))
    return _where(large, series, a * log(x) - x - lgamma(_where(large, 1.0, a)))


def log_beta(a: Array, b: Array) -> Array:
    """``lgamma(a) + lgamma(b) - lgamma(a + b)``.

    Example:
        >>> log_beta(tnp.float32(1e30), tnp.float32(1)).item()  # log(1e-30)
        -69.0775...
    """
    dtype = a.dtype
    a, b = a.astype(accumulator(dtype)), b.astype(accumulator(dtype))
    first = a <= b  # chosen whole, since MAX and MIN halve derivatives where two tie
    low, high = _where(first, a, b), _where(first, b, a)
    large = (low >= LARGE) & (high < math.inf)
    p, q = _where(large, low, LARGE), _where(large, high, LARGE)
    ratio = p / q
    both = (math.log(2 * math.pi) - log(q)) / 2 + (_rest(p) + (_rest(q) - _rest(p + q)))
    both = both + (p - 0.5) * log(ratio / (1 + ratio)) - q * log1p(ratio)
    low = _where(large, 1.0, low)
    one = lgamma(low) - log_rise(_where(large, 1.0, high), low)
    found = _where(large, both, one)
    return _where((low > 0) & (high == math.inf), -math.inf, found).astype(dtype)
