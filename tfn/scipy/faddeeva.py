"""The Faddeeva function and its relatives: `wofz`, `erfcx`, `dawsn`, `fresnel`.

Sources: J. A. C. Weideman, "Computation of the complex error function", 1994 (the rational series
of `wofz`); M. Abramowitz and I. Stegun, "Handbook of Mathematical Functions", 7.1.14 (the continued
fraction), 7.3.22 (Fresnel integrals).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tfn import lax
from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import COMPLEXES, FLOAT32, FLOAT64, complex_of
from tfn.extend import custom_jvp, operands
from tfn.scipy.normal import inexact, real

Pair = tuple[Array, Array]

SERIES_TERMS = 44
"""Terms of the rational series, whose error is 4e-16 of the largest value above the real axis."""

FRACTION_LEVELS = 50
"""Levels of the continued fraction: from 2.5 on they reach the precision of float64."""

FRACTION_FROM = 2.5


def _series() -> tuple[float, list[float]]:
    """The scale and the coefficients, by a Fourier transform of ``exp(-t**2) (L**2 + t**2)``."""
    n, m = SERIES_TERMS, 4 * SERIES_TERMS
    scale = math.sqrt(n / math.sqrt(2))
    t = scale * np.tan(np.pi * np.arange(-m + 1, m) / (2 * m))
    samples = np.concatenate([[0.0], np.exp(-t * t) * (scale * scale + t * t)])
    transformed = np.fft.fft(np.fft.fftshift(samples)).real / (2 * m)
    return scale, transformed[n:0:-1].tolist()


_SCALE, _COEFFICIENTS = _series()


def wofz(z: ArrayLike) -> Array:
    """The Faddeeva function ``exp(-z**2) erfc(-i z)``, complex.

    Example:
        >>> round(wofz(1j).real.item(), 5), round(wofz(1.0).imag.item(), 5)
        (0.42758, 0.60716)
    """
    x = operands.array_of("wofz", z)
    kind = complex_of(operands.inexact((x.dtype, False))[0])
    result: Array = _wofz(x.astype(kind))
    return result


def _upper(z: Array) -> Array:
    """For a part of z that is not negative: a series in ``(L + i z) / (L - i z)``."""
    shifted = _SCALE - 1j * z
    ratio = (_SCALE + 1j * z) / shifted
    total = tnp.zeros_like(z) + _COEFFICIENTS[0]
    for coefficient in _COEFFICIENTS[1:]:
        total = total * ratio + coefficient
    return 2 * total / (shifted * shifted) + (1 / math.sqrt(math.pi)) / shifted


@custom_jvp
def _wofz(z: Array) -> Array:
    below = tnp.imag(z) < 0
    above = tnp.where(below, -z, z)
    size = abs(tnp.real(above)) + tnp.imag(above)
    far = size > _FAR
    upper = _upper(tnp.where(far, 1, above))
    upper = tnp.where(far, (1j / math.sqrt(math.pi)) / tnp.where(far, above, 1), upper)
    upper = tnp.where(tnp.isinf(size), 0, upper)
    line = tnp.real(z)
    bell = tnp.exp(-line * line).astype(upper.dtype) + 1j * tnp.imag(upper)
    upper = tnp.where((tnp.imag(z) == 0), bell, upper)
    inside = tnp.where(below, z, 0)
    return tnp.where(below, 2 * tnp.exp(-inside * inside) - upper, upper)


@_wofz.defjvp
def _wofz_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Pair:
    (z,), (dz,) = primals, tangents
    w = _wofz(z)
    return w, dz * (2j / math.sqrt(math.pi) - 2 * z * w)


def erfcx(x: ArrayLike) -> Array:
    """The scaled complementary error function ``exp(x**2) erfc(x)``, which does not underflow.

    Of complex numbers too.

    Example:
        >>> erfcx(0.0).item(), round(erfcx(100.0).item(), 6)
        (1.0, 0.005642)
    """
    x = inexact("erfcx", x)
    result: Array = wofz(1j * x) if x.dtype in COMPLEXES else _erfcx(x)
    return result


def _square(x: Array) -> Pair:
    """The square of x, and what its rounding has lost."""
    digits = 12 if x.dtype == FLOAT32 else 27
    step = x * (2.0**digits + 1)
    high = step - (step - x)
    low = x - high
    square = x * x
    return square, ((high * high - square) + 2 * high * low) + low * low


@custom_jvp
def _erfcx(x: Array) -> Array:
    x = x if x.dtype.itemsize >= 4 else x.astype(FLOAT32)
    far = x > FRACTION_FROM
    near = tnp.where(far, 0, tnp.maximum(x, -30))
    square, lost = _square(near)
    small = tnp.exp(square) * (1 + lost) * lax.erfc(near)
    large = tnp.where(far, x, FRACTION_FROM)
    level = large
    for k in range(FRACTION_LEVELS, 0, -1):
        level = large + (k / 2) / level
    return tnp.where(far, (1 / math.sqrt(math.pi)) / level, tnp.where(x < -30, tnp.inf, small))


@_erfcx.defjvp
def _erfcx_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Pair:
    (x,), (dx,) = primals, tangents
    y = _erfcx(x)
    far, rest = _far_slope(x, -1)
    near = tnp.where(x > far, 0, x)  # whose product with y has derivatives at infinity
    slope = tnp.where(x > far, rest, math.sqrt(math.pi) * near * y - 1) * (2 / math.sqrt(math.pi))
    return y, dx * slope


def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral ``exp(-x**2)`` times that of ``exp(t**2)`` from 0 to x.

    Example:
        >>> round(dawsn(1.0).item(), 5)
        0.53808
    """
    result: Array = _dawsn(real("dawsn", x))
    return result


@custom_jvp
def _dawsn(x: Array) -> Array:
    wide = x if x.dtype.itemsize >= 4 else x.astype(FLOAT32)
    near = abs(wide) < 1
    small = tnp.where(near, wide, 0)
    square, total = -2 * small * small, tnp.ones_like(wide)
    for k in range(22, 0, -1):  # x times the sum of (-2 x**2)**k / (2 k + 1)!!
        total = 1 + square / (2 * k + 1) * total
    line = lax.complex(wide, tnp.zeros_like(wide))
    far = tnp.imag(_upper(line)) * (math.sqrt(math.pi) / 2)
    far = tnp.where(abs(wide) > _FAR, 0.5 / tnp.where(wide == 0, 1, wide), far)
    return tnp.where(near, small * total, far).astype(x.dtype)


_FAR = 1e9
"""From here on ``1 / (2 x)`` has the precision of float64."""


@_dawsn.defjvp
def _dawsn_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Pair:
    (x,), (dx,) = primals, tangents
    y = _dawsn(x)
    far, rest = _far_slope(x, 1)
    near = tnp.where(abs(x) > far, 0, x)  # whose product with y has derivatives at infinity
    return y, dx * tnp.where(abs(x) > far, -rest, 1 - 2 * near * y)


def _far_slope(x: Array, sign: int) -> tuple[float, Array]:
    """The sum of ``(2 k - 1)!! (sign / (2 x**2))**k``, and a bound above which it holds."""
    far = 20.0 if x.dtype == FLOAT64 else 6.0
    step = sign * 0.5 / tnp.maximum(abs(x), far) / tnp.maximum(abs(x), far)
    total = tnp.zeros_like(x)
    for k in range(9, 0, -1):
        total = (2 * k - 1) * step * (1 + total)
    return far, total


def fresnel(x: ArrayLike) -> Pair:
    """The Fresnel integrals of ``sin(pi t**2 / 2)`` and of the cosine, from 0 to x.

    Example:
        >>> [round(y.item(), 5) for y in fresnel(1.0)]
        [0.43826, 0.77989]
    """
    s, c = _fresnel(real("fresnel", x))
    return s, c


def _phase(x: Array) -> Pair:
    """The sine and the cosine of ``pi x**2 / 2``: the square is reduced by whole turns, exactly."""
    square, lost = _square(x)
    turns = (square - 4 * tnp.floor(square / 4)) + lost
    return tnp.sin(math.pi / 2 * turns), tnp.cos(math.pi / 2 * turns)


@custom_jvp
def _fresnel(x: Array) -> Pair:
    kind = x.dtype
    x = x if kind.itemsize >= 4 else x.astype(FLOAT32)
    size = abs(x)
    near = size < 1.6
    small = tnp.where(near, size, 0)
    angle = math.pi / 2 * small * small
    power, s, c = small, tnp.zeros_like(x), tnp.zeros_like(x)
    for k in range(36):  # the terms of the sine and the cosine, integrated
        term = power / (2 * k + 1)
        c, s = (c + (-1) ** (k // 2) * term, s) if k % 2 == 0 else (c, s + (-1) ** (k // 2) * term)
        power = power * angle / (k + 1)
    far = tnp.where(near, 2, tnp.minimum(size, _LARGEST))
    half = math.sqrt(math.pi) / 2
    w = _upper(lax.complex(half * far, half * far))
    sine, cosine = _phase(far)
    rest = w * lax.complex(cosine, sine) * (1 + 1j) / 2
    s = tnp.where(near, s, 0.5 - tnp.imag(rest))
    c = tnp.where(near, c, 0.5 - tnp.real(rest))
    beyond = size > _LARGEST
    s, c = (tnp.where(beyond, 0.5, tnp.where(size == size, u, tnp.nan)) for u in (s, c))
    s, c = (tnp.where(x < 0, -u, u) for u in (s, c))
    return s.astype(kind), c.astype(kind)


_LARGEST = 1e7
"""From here on float32 and the phases of float64 tell nothing from 1/2."""


@_fresnel.defjvp
def _fresnel_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Any:
    (x,), (dx,) = primals, tangents
    sine, cosine = _phase(x)
    return _fresnel(x), (dx * sine, dx * cosine)
