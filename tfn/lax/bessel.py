"""The modified Bessel functions of order 0 and 1, scaled by exp(-|x|).

Near zero they are a power series without its scale, of which all terms are positive, and beyond a
power of 1 / x times 1 / sqrt(x): two polynomials each, with the smallest relative error that
polynomials of their degree have, below a quarter of a unit in the last place.

Source: P. Holoborodko, "Rational approximations for the modified Bessel function of the first
kind", 2015, for the form; the coefficients are from the exchange algorithm of Remez.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOAT64
from tfn.lax.elementary import exp
from tfn.lax.special import each
from tfn.transforms.custom_jvp import custom_jvp
from tfn.transforms.linearize import jvp

_FAR = 8.0

# Of I(x) / (x / 2)**order in (x / 2)**2, for |x| < 8, and of sqrt(x) exp(-x) I(x) in 8 / x.
# fmt: off
_NEAR_32 = (
    (1.0, 1.0, 0.25, 0.027777743, 0.001736146, 6.9428445e-05, 1.93299e-06, 3.8786756e-08,
     6.6612295e-10, 4.973659e-12, 1.4616694e-13),
    (1.0, 0.5, 0.083333308, 0.00694451132, 0.000347169477, 1.1592856e-05, 2.720195e-07,
     5.3010834e-09, 4.551627e-11, 1.454172e-12),
)
_FAR_32 = (
    (0.3989423, 0.006233698, 0.00043591893, 6.598686e-05, -3.3823725e-06, 1.1840266e-05),
    (0.3989423, -0.018700681, -0.00072774812, -9.0144197e-05, 2.3626565e-06, -1.380356e-05),
)
_NEAR_64 = (
    (1.0, 1.0, 0.24999999999999994, 0.027777777777778203, 0.0017361111111100734,
     6.944444444563165e-05, 1.9290123449078956e-06, 3.9367599206719946e-08, 6.151186463961793e-10,
     7.59407481759355e-12, 7.593837996368598e-14, 6.278193056076526e-16, 4.344098126126617e-18,
     2.6454653322780132e-20, 1.1146257430878995e-22, 9.3209582105101e-25),
    (1.0, 0.5, 0.08333333333333333, 0.006944444444444469, 0.00034722222222216255,
     1.1574074074142355e-05, 2.7557319219550464e-07, 4.920949879565455e-09, 6.834652088843207e-11,
     7.594067861284334e-13, 6.903562561296421e-15, 5.2312842682131373e-17, 3.3443687047586117e-19,
     1.88049080421001e-21, 7.608844865211289e-24, 5.670623558640847e-26),
)
_FAR_64 = (
    (0.39894228040143265, 0.006233473131278697, 0.0004382910789185374, 5.706916934030455e-05,
     1.0923458206745123e-05, 2.749328211694312e-06, 1.2943741289591162e-06,
     -5.973491245126532e-06, 6.237572170149113e-05, -0.0004388805479421512, 0.0023029365765296207,
     -0.009208847675681935, 0.028494055758000517, -0.068802434938098, 0.13006407872650266,
     -0.19218809378678312, 0.22051725749419496, -0.19400905351184927, 0.1281663956928155,
     -0.06144554908438942, 0.020168794734765287, -0.004052758107740056, 0.00037595785229535024),
    (0.3989422804014327, -0.01870041939382339, -0.0007304851320019738, -7.989682439371595e-05,
     -1.4044657519614523e-05, -3.3580850572540095e-06, -1.5435511183892701e-06,
     6.928575743496258e-06, -7.048740860593493e-05, 0.0004876639218185866, -0.002528168332488503,
     0.010016625021375554, -0.030766265198188304, 0.07384014305609059, -0.13887500982985068,
     0.2043054629904919, -0.2335190886937282, 0.20474750023125848, -0.13484735834195224,
     0.06447015546037121, -0.02110845594982541, 0.0042318278455909545, -0.00039173949546846145),
)
# fmt: on


def _polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """Evaluates a polynomial by Horner's scheme, the constant term first."""
    total = tnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def _beyond(order: int, x: Array) -> Array:
    """exp(-x) I(x) for x from 8 on."""
    outer = _FAR_64 if x.dtype == FLOAT64 else _FAR_32
    return _polynomial(_FAR / x, outer[order]) / tnp.sqrt(x)


def _sides(order: int, x: Array) -> tuple[Array, Array, Array, Array]:
    """Whether |x| < 8; x / 2 there and the polynomial of its square; |x| elsewhere, 8 there."""
    inner = _NEAR_64 if x.dtype == FLOAT64 else _NEAR_32
    inside = abs(x) < _FAR
    half = tnp.where(inside, x, 0) / 2
    return inside, half, _polynomial(half * half, inner[order]), tnp.where(inside, _FAR, abs(x))


def _bessel(order: int, x: Array) -> Array:
    """exp(-|x|) I(x)."""
    inside, half, near, far = _sides(order, x)
    first = near * exp(-tnp.where(inside, abs(x), 0))
    value = tnp.where(inside, first * half if order else first, _beyond(order, far))
    return tnp.where(inside, value, tnp.copysign(value, x)) if order else value


def _far_slope(order: int, x: Array) -> Array:
    """The derivative of `_bessel` where x is 8 or more, without the cancellation of two orders."""
    size = tnp.maximum(abs(x), _FAR)
    slope: Array = jvp(partial(_beyond, order), (size,), (tnp.ones_like(size),))[1]
    return slope if order else slope * tnp.sign(x)


_BESSEL = [each(partial(_bessel, n), f"bessel_i{n}e") for n in (0, 1)]
_SLOPES = [each(partial(_far_slope, n), f"bessel_i{n}e") for n in (0, 1)]


def _over(x: Array, scaled: bool) -> Array:
    """I(x) / x of order 1, times exp(-|x|) if scaled; else of x below 8."""
    inside, _, near, far = _sides(1, x)
    near, beyond = near / 2, _beyond(1, far) / far
    return tnp.where(inside, near * exp(-tnp.where(inside, abs(x), 0)), beyond) if scaled else near


i1e_over_x = each(partial(_over, scaled=True), "bessel_i1e")
i1_over_x = each(partial(_over, scaled=False), "bessel_i1")


@custom_jvp
def bessel_i0e(x: ArrayLike) -> Array:
    """Returns ``exp(-abs(x))`` times the modified Bessel function of order 0.

    Raises:
        DTypeError: unless x is floating.

    Example:
        >>> bessel_i0e(1.0).item()
        0.4657...
    """
    return _BESSEL[0](x)


@custom_jvp
def bessel_i1e(x: ArrayLike) -> Array:
    """Returns ``exp(-abs(x))`` times the modified Bessel function of order 1.

    Raises:
        DTypeError: unless x is floating.

    Example:
        >>> bessel_i1e(1.0).item()
        0.2079...
    """
    return _BESSEL[1](x)


def _slope(order: int, dx: Array, out: Array, x: Array) -> Array:
    scaled = out * tnp.sign(x)
    near = bessel_i0e(x) - scaled - i1e_over_x(x) if order else bessel_i1e(x) - scaled
    return dx * tnp.where(abs(x) < _FAR, near, _SLOPES[order](x))


bessel_i0e.defjvps(partial(_slope, 0))
bessel_i1e.defjvps(partial(_slope, 1))
