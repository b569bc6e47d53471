"""The logarithm of the gamma function of complex numbers, and the Bernoulli numbers.

Source: D. E. G. Hare, "Computing the principal branch of log-Gamma", 1997; J. Stirling, "Methodus
differentialis", 1730 (the series).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tfn import lax
from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import COMPLEXES
from tfn.extend import integer, operands
from tfn.scipy.normal import real

STIRLING_FROM = 8
"""From this real part on, eight terms of Stirling's series have the precision of float64."""


def bernoulli_numbers(n: int) -> list[Fraction]:
    """The Bernoulli numbers from 0 to n, exactly; the first is -1/2.

    Example:
        >>> bernoulli_numbers(2)
        [Fraction(1, 1), Fraction(-1, 2), Fraction(1, 6)]
    """
    numbers = [Fraction(1)]
    for m in range(1, n + 1):
        total = sum((math.comb(m + 1, k) * numbers[k] for k in range(m)), Fraction(0))
        numbers.append(-total / (m + 1))
    return numbers


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers from 0 to n; those that are too large for the dtype are infinite.

    Raises:
        ArgumentError: unless `n` is an integer from 0 on.

    Example:
        >>> bernoulli(2).tolist()
        [1.0, -0.5, 0.1666666716337204]
    """
    n = integer("bernoulli", "n", n, 0)
    values = []
    for number in bernoulli_numbers(n):
        try:
            values.append(float(number))
        except OverflowError:
            values.append(math.copysign(math.inf, number))
    with np.errstate(over="ignore"):
        return tnp.asarray(np.array(values), dtype=float)


_STIRLING = [
    float(number / (2 * k * (2 * k - 1)))
    for k, number in enumerate(bernoulli_numbers(16)[::2])
    if k
]


def loggamma(x: ArrayLike) -> Array:
    """The principal branch of the logarithm of the gamma function, real or complex.

    Of a negative real number it is NaN, since its logarithm is complex.

    Example:
        >>> round(loggamma(3.0).item(), 5)
        0.69315
        >>> round(loggamma(1j).imag.item(), 5)
        -1.87244
    """
    z = operands.array_of("loggamma", x)
    if z.dtype not in COMPLEXES:
        number = real("loggamma", z)
        return tnp.where(number < 0, tnp.nan, lax.lgamma(tnp.where(number < 0, 1, number)))
    return _loggamma(z)


def _loggamma(z: Array) -> Array:
    left = tnp.real(z) < 0.5
    w = tnp.where(left, 1 - z, z)
    # Up to where Stirling's series holds, by the recurrence: principal logarithms add up.
    close = tnp.real(w) < STIRLING_FROM
    lost, moved = tnp.zeros_like(w), w
    for _ in range(STIRLING_FROM):
        lost = lost + tnp.where(close, tnp.log(moved), 0)
        moved = tnp.where(close, moved + 1, moved)
    inverse = 1 / moved
    square = inverse * inverse
    tail = tnp.zeros_like(w)
    for coefficient in reversed(_STIRLING):
        tail = tail * square + coefficient
    value = (moved - 0.5) * tnp.log(moved) - moved + 0.5 * math.log(2 * math.pi)
    value = value + tail * inverse - lost
    # The sine of the reflection, whose logarithm is continuous in each half plane.
    above = tnp.imag(z) >= 0
    upper = tnp.where(left, tnp.where(above, z, tnp.conj(z)), 0.5)
    turns = upper - tnp.floor(tnp.real(upper))
    small = tnp.log1p(-tnp.exp(2j * math.pi * turns))
    log_sine = small - 1j * math.pi * (upper - 0.5) - math.log(2)
    log_sine = tnp.where(above, log_sine, tnp.conj(log_sine))
    return tnp.where(left, math.log(math.pi) - log_sine - value, value)
