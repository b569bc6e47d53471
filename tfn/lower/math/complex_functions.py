"""Complex elementary functions, in terms of real functions of the real and imaginary parts.

The formulas avoid cancellation and intermediate overflow.  Branch cuts are those of C99: the sign
of a zero part selects the side of a cut; infinities and NaN are those of its Annex G.  Functions
that would lose digits in float32 are computed in float64.

Source: Kahan 1987, "Branch cuts for complex elementary functions, or much ado about nothing's
sign bit"; Hull, Fairgrieve, Tang 1994 and 1997, "Implementing complex elementary functions using
exception handling"; ISO/IEC 9899:1999, Annex G.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tfn.dtypes import FLOAT32, FLOAT64
from tfn.lower.math.floats import (
    INFINITY,
    NAN,
    equal,
    fma,
    magnitude,
    sqrt_of,
    two_sum,
    where,
    with_sign,
)
from tfn.lower.math.hyperbolic import TANH_IS_ONE_ABOVE
from tfn.trace.build import cast, full_like, maximum, minimum, ne, unary
from tfn.trace.op import Op
from tfn.trace.uop import UOp

LN2 = math.log(2)
HUGE = 1e150
"""From here on adding 1 changes nothing, and a square may overflow."""


class Pair(NamedTuple):
    """A complex value as its real and imaginary parts."""

    re: UOp
    im: UOp


Function = Callable[[Pair], Pair]


def in_float64(function: Callable[..., Pair]) -> Callable[..., Pair]:
    """The same function, computed in float64; the result has the dtype of the arguments."""

    def run(*pairs: Pair) -> Pair:
        dtype = pairs[0].re.dtype
        result = function(*(Pair(*(cast(u, FLOAT64) for u in z)) for z in pairs))
        return Pair(*(cast(u, dtype) for u in result))

    return run


def rotated(function: Function) -> Function:
    """``i conj(f(i conj(z)))``: sin from sinh, tan from tanh, and likewise their inverses."""

    def run(z: Pair) -> Pair:
        re, im = function(Pair(z.im, z.re))
        return Pair(im, re)

    return run


def is_infinite(x: UOp) -> UOp:
    """Whether a real value is one of the infinities."""
    return equal(magnitude(x), INFINITY)


def is_nan(x: UOp) -> UOp:
    """Whether a real value is NaN."""
    return ne(x, x)


# Arithmetic.


def multiply(a: Pair, b: Pair) -> Pair:
    """The product."""
    return Pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def divide(a: Pair, b: Pair) -> Pair:
    """The quotient.

    Source: Smith 1962, "Algorithm 116: Complex division".
    """
    # Divided by the larger part of b, so that no square of it overflows.
    wide = magnitude(b.re) >= magnitude(b.im)
    large, small = where(wide, b.re, b.im), where(wide, b.im, b.re)
    zero = equal(large, 0.0)
    ratio = where(zero, 0.0, small / large)
    scale = where(zero, INFINITY, 1 / (large + small * ratio))
    re = where(wide, a.re + a.im * ratio, a.re * ratio + a.im)
    im = where(wide, a.im - a.re * ratio, a.im * ratio - a.re)
    return Pair(re * scale, im * scale)


def modulus(z: Pair) -> UOp:
    """The absolute value; infinite if one part is, even if the other is NaN."""
    wide = Pair(*(cast(u, FLOAT64) for u in z))
    scale = full_like(wide.re, 1.0) if z.re.dtype == FLOAT32 else _scale(wide)
    size = cast(_modulus(Pair(wide.re * scale, wide.im * scale)) / scale, z.re.dtype)
    return where(is_infinite(z.re) | is_infinite(z.im), INFINITY, size)


def _scale(z: Pair) -> UOp:
    """A power of 4 that scales a pair of float64 so that squares neither overflow nor underflow."""
    high = maximum(magnitude(z.re), magnitude(z.im))
    return where(high > 2.0**500, 2.0**-600, where(high < 2.0**-400, 2.0**600, full_like(high, 1)))


def _modulus(z: Pair) -> UOp:
    return sqrt_of(fma(z.re, z.re, z.im * z.im))


def sign(z: Pair) -> Pair:
    """``z / |z|``, and zero for zero; an infinite z is taken for a number on an axis."""
    size = modulus(z)
    vertical, far, zero = is_infinite(z.im), equal(size, INFINITY), equal(size, 0.0)
    re, im = (where(zero, u, u / size) for u in z)
    return Pair(
        where(far, where(vertical, 0.0, unary(Op.SIGN, z.re)), re),
        where(far, where(vertical, unary(Op.SIGN, z.im), 0.0), im),
    )


def sqrt(z: Pair) -> Pair:
    """The square root with a real part of at least 0; its branch cut is the negative axis."""
    return in_float64(_sqrt)(z)


def _sqrt(z: Pair) -> Pair:
    scale = _scale(z)
    x, y = z.re * scale, z.im * scale
    # One part by a sum of equal signs, the other by division: neither cancels.
    high = sqrt_of((magnitude(x) + _modulus(Pair(x, y))) * 0.5)
    high = where(is_infinite(x), INFINITY, high)
    low = where(equal(high, 0.0), 0.0, magnitude(y) / (high * 2))
    right = z.re >= 0
    root_scale = sqrt_of(scale)
    vertical = is_infinite(z.im)
    re = where(vertical, INFINITY, where(right, high, low) / root_scale)
    im = where(vertical, INFINITY, where(right, low, high) / root_scale)
    return Pair(re, with_sign(im, z.im))


@in_float64
def rsqrt(z: Pair) -> Pair:
    """``1 / sqrt(z)``."""
    one = full_like(z.re, 1)
    return divide(Pair(one, full_like(z.im, 0)), _sqrt(z))


# Exponentials.

EXP_FINITE_UP_TO = {FLOAT32: 88.0, FLOAT64: 709.0}
"""Arguments up to which exp is finite.

Above, exp is two factors: the product with a small sine or cosine may still be finite.
"""


def exp(z: Pair) -> Pair:
    """e to the power z."""
    x, y = z
    limit = EXP_FINITE_UP_TO[x.dtype]
    large = x > limit
    size = unary(Op.EXP, where(large, x - limit, x))
    factor = where(large, math.exp(limit), full_like(x, 1))
    cosine, sine = unary(Op.COS, y), unary(Op.SIN, y)
    # At infinite x the result is infinite or zero, even if the angle is NaN (Annex G).
    no_angle = is_nan(cosine)
    re = where(no_angle & is_infinite(x), 1.0, cosine) * factor * size
    im = where(no_angle & equal(x, -INFINITY), 1.0, sine) * factor * size
    return Pair(re, where(equal(y, 0.0), y, im))


@in_float64
def exp2(z: Pair) -> Pair:
    """2 to the power z."""
    return exp(Pair(z.re * LN2, z.im * LN2))


def expm1(z: Pair) -> Pair:
    """``exp(z) - 1``, without cancellation near zero."""
    # exp(x) cos(y) - 1 = expm1(x) cos(y) - 2 sin(y / 2)**2
    half = unary(Op.SIN, z.im * 0.5)
    near = unary(Op.EXPM1, z.re) * unary(Op.COS, z.im) - half * half * 2
    far = exp(z)
    near = where(equal(z.re, -INFINITY), -1.0, near)
    return Pair(where(z.re > 40, far.re, near), far.im)


def logistic(z: Pair) -> Pair:
    """``1 / (1 + exp(-z))``, by exp(-z) or exp(z), whichever cannot overflow."""
    right = z.re >= 0
    small = exp(Pair(where(right, -z.re, z.re), where(right, -z.im, z.im)))
    over = Pair(where(right, 1.0, small.re), where(right, 0.0, small.im))
    return divide(over, Pair(small.re + 1, small.im))


def _scaled_sinh_and_cosh(x: UOp) -> tuple[UOp, UOp, UOp]:
    """sinh and cosh, each to be multiplied by the third value, which keeps them from overflow."""
    limit = EXP_FINITE_UP_TO[x.dtype]
    large = magnitude(x) > limit
    size = unary(Op.EXP, magnitude(x) - limit) * 0.5
    sine = where(large, with_sign(size, x), unary(Op.SINH, x))
    cosine = where(large, size, unary(Op.COSH, x))
    return sine, cosine, where(large, math.exp(limit), full_like(x, 1))


def sinh(z: Pair) -> Pair:
    """The hyperbolic sine."""
    x, y = z
    sine, cosine, factor = _scaled_sinh_and_cosh(x)
    cos_y = unary(Op.COS, y)
    cos_y = where(is_nan(cos_y) & (is_infinite(x) | equal(x, 0.0)), 1.0, cos_y)
    im = cosine * unary(Op.SIN, y) * factor
    return Pair(sine * cos_y * factor, where(equal(y, 0.0), y, im))


def cosh(z: Pair) -> Pair:
    """The hyperbolic cosine."""
    x, y = z
    sine, cosine, factor = _scaled_sinh_and_cosh(x)
    cos_y, sin_y = unary(Op.COS, y), unary(Op.SIN, y)
    no_angle = is_nan(cos_y)
    re = cosine * where(no_angle & is_infinite(x), 1.0, cos_y) * factor
    im = sine * where(no_angle & equal(x, 0.0), 1.0, sin_y) * factor
    flat = where(with_sign(full_like(x, 1), x) > 0, y, -y)
    return Pair(re, where(equal(y, 0.0), flat, im))


@in_float64
def tanh(z: Pair) -> Pair:
    """The hyperbolic tangent.

    Source: Kahan 1987, procedure CTANH.
    """
    x, y = z
    # Far out the real part rounds to 1 or -1, and the imaginary part decays like exp(-2 |x|).
    far = magnitude(x) > TANH_IS_ONE_ABOVE[FLOAT64]
    tangent = unary(Op.TAN, y)
    secant_squared = tangent * tangent + 1
    sine = unary(Op.SINH, where(far, 0.0, x))
    denominator = secant_squared * sine * sine + 1
    no_angle = is_nan(tangent)
    limit = where(no_angle & ~is_infinite(x), tangent, with_sign(full_like(x, 1), x))
    re = where(far, limit, secant_squared * sqrt_of(sine * sine + 1) * sine / denominator)
    decay = unary(Op.EXP, magnitude(x) * -2) * 4
    im = where(far, tangent / secant_squared * decay, tangent / denominator)
    re = where(no_angle & equal(x, 0.0), x, re)
    im = where(no_angle & is_infinite(x), with_sign(full_like(y, 0), y), im)
    return Pair(re, where(equal(y, 0.0), y, im))


# Logarithms and powers.


def _sum_of_squares(x: UOp, y: UOp, others: tuple[UOp, ...]) -> UOp:
    """``x * x + y * y + sum(others)``, with compensated summation, since the terms cancel."""
    total, error = x * x, fma(x, x, -(x * x))
    square = y * y
    for term in (*others, square):
        total, rounding = two_sum(total, term)
        error = error + rounding
    return total + (error + fma(y, y, -square))


def _log_modulus(z: Pair) -> UOp:
    """``log(|z|)``: near 1 by log1p of ``|z|**2 - 1``, elsewhere by the larger part."""
    x, y = magnitude(z.re), magnitude(z.im)
    high, low = maximum(x, y), minimum(x, y)
    near = (high > 0.5) & (high < 2)
    inside = where(near, high, 0.0), where(near, low, 0.0)
    excess = _sum_of_squares(*inside, (full_like(x, -1),))
    ratio = where(equal(high, 0.0), 0.0, low / high)
    far = unary(Op.LOG, high) + unary(Op.LOG1P, ratio * ratio) * 0.5
    result = where(near, unary(Op.LOG1P, excess) * 0.5, far)
    return where(is_infinite(x) | is_infinite(y), INFINITY, result)


def _log(z: Pair) -> Pair:
    return Pair(_log_modulus(z), UOp(Op.ATAN2, (z.im, z.re)))


def log(z: Pair) -> Pair:
    """The natural logarithm; its branch cut is the negative axis."""
    return in_float64(_log)(z)


@in_float64
def log2(z: Pair) -> Pair:
    """The logarithm to base 2."""
    re, im = _log(z)
    return Pair(re / LN2, im / LN2)


@in_float64
def log1p(z: Pair) -> Pair:
    """``log(1 + z)``, without cancellation near zero."""
    x, y = z
    excess = _sum_of_squares(x, y, (x * 2,))
    near = (excess > -0.5) & (excess < 2)
    far = _log(Pair(x + 1, y))
    return Pair(where(near, unary(Op.LOG1P, where(near, excess, 0.0)) * 0.5, far.re), far.im)


@in_float64
def power(a: Pair, b: Pair) -> Pair:
    """``exp(b log(a))``; for a = 0 it is 0, 1 or NaN."""
    size, angle = _log(a)

    def times(u: UOp, v: UOp) -> UOp:  # 0 times an infinite logarithm is 0
        return where(equal(u, 0.0), 0.0, u * v)

    exponent = Pair(times(b.re, size) - times(b.im, angle), times(b.im, size) + times(b.re, angle))
    re, im = exp(exponent)
    zero = equal(a.re, 0.0) & equal(a.im, 0.0)
    zero_exponent = equal(b.re, 0.0) & equal(b.im, 0.0)
    power_of_zero = where(b.re > 0, 0.0, full_like(b.re, NAN))
    return Pair(
        where(zero_exponent, 1.0, where(zero, power_of_zero, re)),
        where(zero_exponent, 0.0, where(zero, power_of_zero, im)),
    )


# Inverse functions.  The products of roots are sums of terms of one sign, which do not cancel.


def _is_huge(z: Pair) -> UOp:
    return (magnitude(z.re) > HUGE) | (magnitude(z.im) > HUGE)


@in_float64
def asinh(z: Pair) -> Pair:
    """The inverse hyperbolic sine; its branch cuts are the imaginary axis beyond i and -i."""
    x, y = z
    a, b = _sqrt(Pair(y + 1, -x)), _sqrt(Pair(1 - y, x))
    far = _is_huge(z)
    re = unary(Op.ASINH, a.re * b.im - b.re * a.im)
    im = UOp(Op.ATAN2, (y, a.re * b.re - a.im * b.im))
    im = where(far, UOp(Op.ATAN2, (y, magnitude(x))), im)
    return Pair(
        where(far, with_sign(_log_modulus(z) + LN2, x), re),
        where(equal(y, 0.0), y, im),
    )


@in_float64
def acos(z: Pair) -> Pair:
    """The inverse cosine; its branch cuts are the real axis beyond 1 and -1."""
    x, y = z
    a, b = _sqrt(Pair(1 - x, -y)), _sqrt(Pair(x + 1, y))
    far = _is_huge(z)
    re = UOp(Op.ATAN2, (a.re, b.re)) * 2
    re = where(far, UOp(Op.ATAN2, (magnitude(y), x)), re)
    im = unary(Op.ASINH, b.re * a.im - b.im * a.re)
    return Pair(
        where(equal(x, 0.0), math.pi / 2, re),
        where(far, with_sign(_log_modulus(z) + LN2, -y), im),
    )


@in_float64
def acosh(z: Pair) -> Pair:
    """The inverse hyperbolic cosine; its branch cut is the real axis below 1."""
    x, y = z
    a, b = _sqrt(Pair(x - 1, y)), _sqrt(Pair(x + 1, y))
    far = _is_huge(z)
    re = unary(Op.ASINH, a.re * b.re + a.im * b.im)
    im = UOp(Op.ATAN2, (a.im, b.re)) * 2
    im = where(far, UOp(Op.ATAN2, (y, x)), im)
    return Pair(
        where(far, _log_modulus(z) + LN2, re),
        where(equal(x, 0.0), with_sign(full_like(y, math.pi / 2), y), im),
    )


@in_float64
def atanh(z: Pair) -> Pair:
    """The inverse hyperbolic tangent; its branch cuts are the real axis beyond 1 and -1.

    Source: Kahan 1987, procedure CATANH.
    """
    x, y = magnitude(z.re), magnitude(z.im)
    far, corner = _is_huge(z), equal(x, 1.0) & (y < 1 / HUGE)
    near = unary(Op.LOG1P, x * 4 / ((1 - x) * (1 - x) + y * y)) * 0.25
    high, low = maximum(x, y), minimum(x, y)
    ratio = low / high
    inverse = x / high / high / (ratio * ratio + 1)  # the real part of 1 / z
    inverse = where(is_infinite(x) | is_infinite(y), 0.0, inverse)
    re = where(far, inverse, where(corner, (LN2 - unary(Op.LOG, y)) * 0.5, near))
    im = UOp(Op.ATAN2, (y * 2, (1 - x) * (x + 1) - y * y)) * 0.5
    im = where(far & (y >= 0) & (is_infinite(y) | equal(x, x)), math.pi / 2, im)
    return Pair(with_sign(where(equal(x, 0.0), x, re), z.re), with_sign(im, z.im))


sin, tan = rotated(sinh), rotated(tanh)
asin, atan = rotated(asinh), rotated(atanh)


def cos(z: Pair) -> Pair:
    """The cosine."""
    return cosh(Pair(z.im, -z.re))
