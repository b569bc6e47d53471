"""Exponential integrals: `expi`, `exp1`.

A power series near zero, a continued fraction on the negative axis, an asymptotic series far out.

Source: M. Abramowitz and I. Stegun, "Handbook of Mathematical Functions", 5.1.10, 5.1.22, 5.1.51.
"""

from __future__ import annotations

from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.extend import by_forward_mode, custom_jvp
from tfn.lax import fori_loop
from tfn.scipy.normal import real

SERIES_BELOW = 40.0
"""Up to here the series has the precision of float64; above, 20 terms of the asymptotic one do."""

SERIES_TERMS = 150
"""Terms of the power series: at 40 the last is below a unit in the last place of the sum."""

FRACTION_LEVELS = 90
"""Levels of the continued fraction, whose error at -1 is exp(-4 sqrt(90))."""

ASYMPTOTIC_TERMS = 20
"""Terms of the asymptotic series: at 40 they still fall."""


def exp1(x: ArrayLike) -> Array:
    """The integral of exp(-t) / t from x to infinity, for positive x; NaN for negative x.

    Example:
        >>> round(exp1(1.0).item(), 5)
        0.21938
    """
    return _exp1(real("exp1", x))


_exp1 = by_forward_mode(lambda x: tnp.where(x < 0, tnp.nan, -expi(-x)))


def expi(x: ArrayLike) -> Array:
    """The integral of exp(t) / t from minus infinity to x, as a principal value for positive x.

    Example:
        >>> round(expi(1.0).item(), 5)
        1.89512
    """
    result: Array = _expi(real("expi", x))
    return result


@custom_jvp
def _expi(x: Array) -> Array:
    size = abs(x)
    far = tnp.where(x < 0, _fraction(size), _asymptotic(x))
    near = (x > -1) & (x <= SERIES_BELOW)
    inside = tnp.where(near, x, 1)
    far = tnp.where(x == tnp.inf, x, far)
    return tnp.where(x == 0, -tnp.inf, tnp.where(near, _series(inside), far))


@_expi.defjvp
def _expi_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return _expi(x), tnp.exp(x) / x * dx


def _series(x: Array) -> Array:
    """Euler's constant + log|x| + the sum of x**k / (k k!)."""

    def step(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        total, power = carry
        power = power * x / k
        return total + power / k, power

    start = tnp.zeros_like(x), tnp.ones_like(x)
    both: tuple[Array, Array] = fori_loop(1, SERIES_TERMS, step, start)
    total = both[0]
    return tnp.log(abs(x)) + tnp.euler_gamma + total


def _fraction(y: Array) -> Array:
    """-E1(y) by a continued fraction, from its last level to its first."""
    y = tnp.maximum(y, 1)

    def step(i: Array, rest: Array) -> Array:
        k = FRACTION_LEVELS - i
        return y + 2 * k - 1 - k * k / rest

    last = y + 2 * FRACTION_LEVELS + 1
    rest: Array = fori_loop(0, FRACTION_LEVELS, step, last)
    return -tnp.exp(-y) / rest


def _asymptotic(x: Array) -> Array:
    """exp(x) / x, times the sum of k! / x**k."""
    x = tnp.maximum(x, SERIES_BELOW)

    def step(i: Array, total: Array) -> Array:
        return 1 + (ASYMPTOTIC_TERMS - i) / x * total

    total: Array = fori_loop(0, ASYMPTOTIC_TERMS, step, tnp.ones_like(x))
    return tnp.exp(x) / x * total
