"""Integrals without a closed form: `sici`, `spence`, `owens_t`, `expn`.

Sources: M. Abramowitz and I. Stegun, "Handbook of Mathematical Functions", 5.2 (sine and cosine
integrals), 5.1.12 and 5.1.22 (`expn`), 27.7 (dilogarithm); D. B. Owen, "Tables for computing
bivariate normal probabilities", 1956.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tfn import lax
from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOAT32, INTEGERS
from tfn.extend import by_forward_mode, custom_jvp, element_type, operands
from tfn.scipy.log_gamma import bernoulli_numbers
from tfn.scipy.normal import ndtr, real

Pair = tuple[Array, Array]
_EULER = 0.57721566490153286061


def _wide(x: Array) -> Array:
    return x if x.dtype.itemsize >= 4 else x.astype(FLOAT32)


# The sine and the cosine integral.

SICI_SERIES_BELOW = 4.0
"""Below, terms of the series are smaller than 11; above, 60 levels of the fraction suffice."""


def sici(x: ArrayLike) -> Pair:
    """The integral of ``sin(t) / t`` from 0 to x, and the cosine integral, of ``|x|``.

    Example:
        >>> [round(y.item(), 5) for y in sici(1.0)]
        [0.94608, 0.3374]
    """
    si, ci = _sici(real("sici", x))
    return si, ci


@custom_jvp
def _sici(x: Array) -> Pair:
    kind, x = x.dtype, _wide(x)
    size = abs(x)
    near = size < SICI_SERIES_BELOW
    small = tnp.where(near, size, 1)
    si, ci, power = tnp.zeros_like(x), tnp.zeros_like(x), tnp.ones_like(x)
    for k in range(1, 30):
        power = power * small / k
        sign = (-1) ** (k // 2)
        si, ci = (si + sign * power / k, ci) if k % 2 else (si, ci + sign * power / k)
    ci = ci + _EULER + tnp.log(small)
    # Far out both are parts of exp(-i x) times a continued fraction of i x.
    far = tnp.where(near, SICI_SERIES_BELOW, tnp.where(tnp.isinf(size), 1e30, size))
    z = lax.complex(tnp.zeros_like(far), far)
    level = z + 121
    for k in range(60, 0, -1):
        level = z + (2 * k - 1) - (k * k) / level
    rest = lax.complex(tnp.cos(far), -tnp.sin(far)) / level
    si = tnp.where(near, tnp.where(size == 0, 0, si), math.pi / 2 + tnp.imag(rest))
    ci = tnp.where(near, tnp.where(size == 0, -tnp.inf, ci), -tnp.real(rest))
    si, ci = (tnp.where(tnp.isinf(size), end, u) for u, end in ((si, math.pi / 2), (ci, 0.0)))
    si, ci = tnp.where(x < 0, -si, si), tnp.where(x == -tnp.inf, tnp.nan, ci)
    return tuple(tnp.where(x == x, u, tnp.nan).astype(kind) for u in (si, ci))  # type: ignore[return-value]


@_sici.defjvp
def _sici_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Any:
    (x,), (dx,) = primals, tangents
    far = tnp.isinf(x)
    x, dx = tnp.where(far, 1, x), tnp.where(far, 0, dx)  # both slopes end at 0
    return _sici(primals[0]), (dx * tnp.sinc(x / math.pi), dx * tnp.cos(x) / x)


# The dilogarithm.


_DEBYE = [float(b / math.factorial(k + 1)) for k, b in enumerate(bernoulli_numbers(24))]
"""Coefficients of Li2(1 - exp(-u)) in powers of u, which converges for u below 2 pi."""


def spence(x: ArrayLike) -> Array:
    """The dilogarithm as the integral of ``log(t) / (1 - t)`` from 1 to x; NaN for negative x,
    and for inf as in SciPy.

    Example:
        >>> spence(1.0).item(), round(spence(0.0).item(), 5)
        (0.0, 1.64493)
    """
    result: Array = _spence(real("spence", x))
    return result


def _debye(u: Array) -> Array:
    """Li2(1 - exp(-u)), for u from -log(2) to log(2)."""
    square = u * u
    total = tnp.zeros_like(u)
    for k in range(24, 1, -2):
        total = total * square + _DEBYE[k]
    return u * (1 + u * (_DEBYE[1] + u * total))


@custom_jvp
def _spence(x: Array) -> Array:
    kind, x = x.dtype, _wide(x)
    inverted = x > 2
    y = tnp.where(inverted, 1 / tnp.where(inverted, x, 1), x)
    reflected = y < 0.5
    inside = tnp.where(reflected, tnp.where(y > 0, y, 0), y)
    # With w = 1 - y: of a reflected y the series is taken at 1 - y, whose logarithm is log1p(-y).
    log_y = tnp.log(tnp.where(inside > 0, inside, 1))
    log_other = tnp.log1p(-tnp.where(reflected, inside, 0))
    change = tnp.where(reflected, 0, y - 1)
    direct = _debye(0 - tnp.where(reflected, log_other, tnp.log1p(change)))  # 0.0 at 1, not -0.0
    value = tnp.where(reflected, math.pi**2 / 6 - log_y * log_other - direct, direct)
    log_x = tnp.log(tnp.where(inverted, x, 1))
    value = tnp.where(inverted, -value - log_x * log_x / 2, value)
    return tnp.where((x >= 0) & (x < tnp.inf), value, tnp.nan).astype(kind)


@_spence.defjvp
def _spence_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Pair:
    (x,), (dx,) = primals, tangents
    gap = 1 - x
    near = abs(gap) < 1e-4
    slope = tnp.log(x) / tnp.where(near, 1, gap)
    return _spence(x), dx * tnp.where(near, -(1 + gap / 2 + gap * gap / 3), slope)


# Owen's function.

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
"""A quadrature that is exact to float64 for the integrand from 0 to 1, up to h = 8."""


def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's function: the probability of X > h and 0 < Y < a X, for normal variables X and Y.

    Example:
        >>> owens_t(0.0, 1.0).item()
        0.125
    """
    (first, second), dtype, _ = operands.together("owens_t", h, a, floating=True)
    pair = tnp.broadcast_arrays(first.astype(dtype), second.astype(dtype))
    result: Array = _owens_t(*pair)
    return result


@custom_jvp
def _owens_t(h: Array, a: Array) -> Array:
    kind = h.dtype
    h, size = abs(_wide(h)), abs(_wide(a))
    steep = size > 1
    inner = tnp.where(steep, 1 / tnp.where(steep, size, 1), size)
    place = tnp.where(steep, h * tnp.where(tnp.isinf(size), 1, size), h)
    total = tnp.zeros_like(h)
    for node, weight in zip((_NODES + 1) / 2, _WEIGHTS / 2, strict=True):
        x = inner * float(node)
        total = total + float(weight) * tnp.exp(-place * place * (1 + x * x) / 2) / (1 + x * x)
    below = inner * total / (2 * math.pi)
    one, other = ndtr(-h), ndtr(-place)
    value = tnp.where(steep, (one + other) / 2 - one * other - below, below)
    value = tnp.where(tnp.isinf(size), one / 2, value)
    return tnp.where(a < 0, -value, value).astype(kind)


def _owens_by_h(h: Array, a: Array) -> Array:
    return -tnp.exp(-h * h / 2) * lax.erf(a * h / math.sqrt(2)) / (2 * math.sqrt(2 * math.pi))


def _owens_by_a(h: Array, a: Array) -> Array:
    return tnp.exp(-h * h * (1 + a * a) / 2) / (2 * math.pi * (1 + a * a))


_owens_t.defjvps(
    lambda dh, out, h, a: dh * by_forward_mode(_owens_by_h, 2)(h, a),
    lambda da, out, h, a: da * by_forward_mode(_owens_by_a, 2)(h, a),
)


# Exponential integrals of an order.


def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The exponential integral of an order: that of ``exp(-x t) / t**n`` from 1 to infinity.

    Args:
        n: orders, integers from 0 on.
        x: real numbers from 0 on, broadcast with `n`; negative ones give NaN.

    Raises:
        DTypeError: unless the orders are integers.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> round(expn(2, 1.0).item(), 5)
        0.1485
    """
    order = operands.array_of("expn", n)
    element_type("expn", order, INTEGERS, "integer orders")
    pair = tnp.broadcast_arrays(order, real("expn", x))
    result: Array = _expn(*pair)
    return result


@custom_jvp
def _expn(n: Array, x: Array) -> Array:
    kind, x = x.dtype, _wide(x)
    order = n.astype(x.dtype)
    near = x <= 1
    # Below 1 a power series, in which one term is a logarithm.
    small = tnp.where(near & (x > 0), x, 1)
    total, power = tnp.zeros_like(x), tnp.ones_like(x)
    at_order = tnp.zeros_like(x)
    for m in range(26):
        gap = m - order + 1
        total = total - tnp.where(gap == 0, 0, power / tnp.where(gap == 0, 1, gap))
        at_order = tnp.where(gap == 0, power, at_order)
        power = power * -small / (m + 1)
    safe = tnp.maximum(order, 1)
    series = total + at_order * (lax.digamma(safe) - tnp.log(small))
    # From 1 on a continued fraction.
    large = tnp.where(near, 1, x)
    level = large + order + 2 * 80
    for k in range(80, 0, -1):
        level = large + order + 2 * (k - 1) - k * (order + k - 1) / level
    fraction = tnp.exp(-large) / level
    value = tnp.where(near, series, fraction)
    value = tnp.where(order == 0, tnp.exp(-x) / x, value)
    at_zero = tnp.where(order > 1, 1 / tnp.where(order > 1, order - 1, 1), tnp.inf)
    value = tnp.where(x == 0, at_zero, tnp.where((x < 0) | (order < 0), tnp.nan, value))
    return tnp.where(x == tnp.inf, 0, value).astype(kind)


@_expn.defjvp
def _expn_jvp(primals: Pair, tangents: Any) -> Pair:
    (n, x), (_, dx) = primals, tangents
    # Below order 0 the recurrence (n - 1) E(n) = exp(-x) - x E(n - 1) goes on.
    of_zero = by_forward_mode(lambda x: tnp.exp(-x) * (1 / x + 1 / (x * x)))(tnp.where(n > 0, 1, x))
    slope = tnp.where(n > 0, _expn(tnp.maximum(n - 1, 0), x), of_zero)
    return _expn(n, x), -dx * (slope * tnp.where((x < 0) | (n < 0), tnp.nan, 1))
