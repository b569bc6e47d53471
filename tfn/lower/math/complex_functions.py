"""Functions of complex numbers, in terms of functions of their two parts.

The formulas keep their digits where parts cancel or would overflow on the way.  Branch cuts are
those of C99, and a zero's sign says on which side of a cut it lies; infinities and NaN are those
of its Annex G.  What needs more digits than it has is computed in float64.

Source: Kahan 1987, "Branch cuts for complex elementary functions, or much ado about nothing's
sign bit"; Hull, Fairgrieve, Tang 1994 and 1997, "Implementing complex elementary functions using
exception handling"; ISO/IEC 9899:1999, Annex G.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tfn.dtypes import FLOAT32, FLOAT64
from tfn.lower.math.floats import INFINITY, NAN, equal, fma, magnitude, root, where, with_sign
from tfn.trace.build import cast, full_like, maximum, minimum, ne, unary
from tfn.trace.op import Op
from tfn.trace.uop import UOp

LN2 = math.log(2)
HUGE = 1e150
"""From here on one is nothing beside a float64, and its square may overflow."""


class Pair(NamedTuple):
    """A complex value as two real ones."""

    re: UOp
    im: UOp


Function = Callable[[Pair], Pair]


def widely(function: Callable[..., Pair]) -> Callable[..., Pair]:
    """A function that computes with float64, whatever it is given."""

    def run(*pairs: Pair) -> Pair:
        dtype = pairs[0].re.dtype
        found = function(*(Pair(*(cast(u, FLOAT64) for u in z)) for z in pairs))
        return Pair(*(cast(u, dtype) for u in found))

    return run


def mirrored(function: Function) -> Function:
    """``i conj(f(i conj(z)))``: of sinh it is sin, and so for all the hyperbolic functions."""

    def run(z: Pair) -> Pair:
        re, im = function(Pair(z.im, z.re))
        return Pair(im, re)

    return run


def infinite(x: UOp) -> UOp:
    """Whether a real value is one of the infinities."""
    return equal(magnitude(x), INFINITY)


def unknown(x: UOp) -> UOp:
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
    wide = magnitude(b.re) >= magnitude(b.im)
    large, small = where(wide, b.re, b.im), where(wide, b.im, b.re)
    zero = equal(large, 0.0)
    ratio = where(zero, 0.0, small / large)
    scale = where(zero, INFINITY, 1 / (large + small * ratio))
    re = where(wide, a.re + a.im * ratio, a.re * ratio + a.im)
    im = where(wide, a.im - a.re * ratio, a.im * ratio - a.re)
    return Pair(re * scale, im * scale)


def length(z: Pair) -> UOp:
    """The distance from zero; infinite if one part is, even beside NaN."""
    wide = Pair(*(cast(u, FLOAT64) for u in z))
    scale = full_like(wide.re, 1.0) if z.re.dtype == FLOAT32 else _scale(wide)
    found = cast(_length(Pair(wide.re * scale, wide.im * scale)) / scale, z.re.dtype)
    return where(infinite(z.re) | infinite(z.im), INFINITY, found)


def _scale(z: Pair) -> UOp:
    """A power of 4 that brings a pair of float64 where squares neither overflow nor vanish."""
    high = maximum(magnitude(z.re), magnitude(z.im))
    return where(high > 2.0**500, 2.0**-600, where(high < 2.0**-400, 2.0**600, full_like(high, 1)))


def _length(z: Pair) -> UOp:
    return root(fma(z.re, z.re, z.im * z.im))


def sign(z: Pair) -> Pair:
    """The number of length 1 in the same direction; zero stays.  Infinities lie on an axis."""
    size = length(z)
    tall, far, zero = infinite(z.im), equal(size, INFINITY), equal(size, 0.0)
    re, im = (where(zero, u, u / size) for u in z)
    return Pair(
        where(far, where(tall, 0.0, unary(Op.SIGN, z.re)), re),
        where(far, where(tall, unary(Op.SIGN, z.im), 0.0), im),
    )


def sqrt(z: Pair) -> Pair:
    """The square root on the right of the imaginary axis, cut along the negative numbers."""
    return widely(_sqrt)(z)


def _sqrt(z: Pair) -> Pair:
    scale = _scale(z)
    x, y = z.re * scale, z.im * scale
    high = root((magnitude(x) + _length(Pair(x, y))) * 0.5)
    high = where(infinite(x), INFINITY, high)
    low = where(equal(high, 0.0), 0.0, magnitude(y) / (high * 2))
    right = z.re >= 0
    back = root(scale)
    tall = infinite(z.im)
    re = where(tall, INFINITY, where(right, high, low) / back)
    im = where(tall, INFINITY, where(right, low, high) / back)
    return Pair(re, with_sign(im, z.im))


@widely
def rsqrt(z: Pair) -> Pair:
    """One divided by the square root."""
    one = full_like(z.re, 1)
    return divide(Pair(one, full_like(z.im, 0)), _sqrt(z))


# Exponentials.

_LIMIT = {FLOAT32: 88.0, FLOAT64: 709.0}
"""Up to here exp is finite.  Above it is split in two factors, of which the sine makes one less."""


def exp(z: Pair) -> Pair:
    """e to the power z."""
    x, y = z
    limit = _LIMIT[x.dtype]
    large = x > limit
    size = unary(Op.EXP, where(large, x - limit, x))
    factor = where(large, math.exp(limit), full_like(x, 1))
    cosine, sine = unary(Op.COS, y), unary(Op.SIN, y)
    lost = unknown(cosine)
    re = where(lost & infinite(x), 1.0, cosine) * factor * size
    im = where(lost & equal(x, -INFINITY), 1.0, sine) * factor * size
    return Pair(re, where(equal(y, 0.0), y, im))


@widely
def exp2(z: Pair) -> Pair:
    """2 to the power z."""
    return exp(Pair(z.re * LN2, z.im * LN2))


def expm1(z: Pair) -> Pair:
    """``exp(z) - 1``, near zero with all its digits."""
    half = unary(Op.SIN, z.im * 0.5)
    near = unary(Op.EXPM1, z.re) * unary(Op.COS, z.im) - half * half * 2
    far = exp(z)
    near = where(equal(z.re, -INFINITY), -1.0, near)
    return Pair(where(z.re > 40, far.re, near), far.im)


def logistic(z: Pair) -> Pair:
    """``1 / (1 + exp(-z))``, with the one of two exponentials that cannot overflow."""
    right = z.re >= 0
    small = exp(Pair(where(right, -z.re, z.re), where(right, -z.im, z.im)))
    over = Pair(where(right, 1.0, small.re), where(right, 0.0, small.im))
    return divide(over, Pair(small.re + 1, small.im))


def _grown(x: UOp) -> tuple[UOp, UOp, UOp]:
    """The hyperbolic sine and cosine, both to be multiplied by the third."""
    limit = _LIMIT[x.dtype]
    large = magnitude(x) > limit
    size = unary(Op.EXP, magnitude(x) - limit) * 0.5
    sine = where(large, with_sign(size, x), unary(Op.SINH, x))
    cosine = where(large, size, unary(Op.COSH, x))
    return sine, cosine, where(large, math.exp(limit), full_like(x, 1))


def sinh(z: Pair) -> Pair:
    """The hyperbolic sine."""
    x, y = z
    sine, cosine, factor = _grown(x)
    turn = unary(Op.COS, y)
    turn = where(unknown(turn) & (infinite(x) | equal(x, 0.0)), 1.0, turn)
    im = cosine * unary(Op.SIN, y) * factor
    return Pair(sine * turn * factor, where(equal(y, 0.0), y, im))


def cosh(z: Pair) -> Pair:
    """The hyperbolic cosine."""
    x, y = z
    sine, cosine, factor = _grown(x)
    turn, wave = unary(Op.COS, y), unary(Op.SIN, y)
    lost = unknown(turn)
    re = cosine * where(lost & infinite(x), 1.0, turn) * factor
    im = sine * where(lost & equal(x, 0.0), 1.0, wave) * factor
    flat = where(with_sign(full_like(x, 1), x) > 0, y, -y)
    return Pair(re, where(equal(y, 0.0), flat, im))


@widely
def tanh(z: Pair) -> Pair:
    """The hyperbolic tangent.

    Source: Kahan 1987, procedure CTANH.
    """
    x, y = z
    far = magnitude(x) > 22
    tangent = unary(Op.TAN, y)
    secant = tangent * tangent + 1
    sine = unary(Op.SINH, where(far, 0.0, x))
    below = secant * sine * sine + 1
    lost = unknown(tangent)
    side = where(lost & ~infinite(x), tangent, with_sign(full_like(x, 1), x))
    re = where(far, side, secant * root(sine * sine + 1) * sine / below)
    little = unary(Op.EXP, magnitude(x) * -2) * 4
    im = where(far, tangent / secant * little, tangent / below)
    re = where(lost & equal(x, 0.0), x, re)
    im = where(lost & infinite(x), with_sign(full_like(y, 0), y), im)
    return Pair(re, where(equal(y, 0.0), y, im))


# Logarithms and powers.


def _sum(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """A sum and what rounding took from it (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _squares(x: UOp, y: UOp, others: tuple[UOp, ...]) -> UOp:
    """``x * x + y * y`` and others added up, rounded nearly once, although they cancel."""
    total, lost = x * x, fma(x, x, -(x * x))
    square = y * y
    for term in (*others, square):
        total, error = _sum(total, term)
        lost = lost + error
    return total + (lost + fma(y, y, -square))


def _log_length(z: Pair) -> UOp:
    """The logarithm of the distance from zero."""
    x, y = magnitude(z.re), magnitude(z.im)
    high, low = maximum(x, y), minimum(x, y)
    near = (high > 0.5) & (high < 2)
    inside = where(near, high, 0.0), where(near, low, 0.0)
    excess = _squares(*inside, (full_like(x, -1),))
    ratio = where(equal(high, 0.0), 0.0, low / high)
    far = unary(Op.LOG, high) + unary(Op.LOG1P, ratio * ratio) * 0.5
    found = where(near, unary(Op.LOG1P, excess) * 0.5, far)
    return where(infinite(x) | infinite(y), INFINITY, found)


def _log(z: Pair) -> Pair:
    return Pair(_log_length(z), UOp(Op.ATAN2, (z.im, z.re)))


def log(z: Pair) -> Pair:
    """The natural logarithm, cut along the negative numbers."""
    return widely(_log)(z)


@widely
def log2(z: Pair) -> Pair:
    """The logarithm to base 2."""
    re, im = _log(z)
    return Pair(re / LN2, im / LN2)


@widely
def log1p(z: Pair) -> Pair:
    """``log(1 + z)``, near zero with all its digits."""
    x, y = z
    excess = _squares(x, y, (x * 2,))
    near = (excess > -0.5) & (excess < 2)
    far = _log(Pair(x + 1, y))
    return Pair(where(near, unary(Op.LOG1P, where(near, excess, 0.0)) * 0.5, far.re), far.im)


@widely
def power(a: Pair, b: Pair) -> Pair:
    """a to the power b, by way of the logarithm; of zero 0, 1, or NaN."""
    size, angle = _log(a)

    def times(u: UOp, v: UOp) -> UOp:
        return where(equal(u, 0.0), 0.0, u * v)

    exponent = Pair(times(b.re, size) - times(b.im, angle), times(b.im, size) + times(b.re, angle))
    re, im = exp(exponent)
    zero = equal(a.re, 0.0) & equal(a.im, 0.0)
    none = equal(b.re, 0.0) & equal(b.im, 0.0)
    gone = where(b.re > 0, 0.0, full_like(b.re, NAN))
    return Pair(
        where(none, 1.0, where(zero, gone, re)),
        where(none, 0.0, where(zero, gone, im)),
    )


# Inverse functions.  The products of roots add up terms of one sign, so that nothing cancels.


def _far(z: Pair) -> UOp:
    return (magnitude(z.re) > HUGE) | (magnitude(z.im) > HUGE)


@widely
def asinh(z: Pair) -> Pair:
    """The inverse hyperbolic sine, cut along the imaginary axis beyond i and -i."""
    x, y = z
    a, b = _sqrt(Pair(y + 1, -x)), _sqrt(Pair(1 - y, x))
    far = _far(z)
    re = unary(Op.ASINH, a.re * b.im - b.re * a.im)
    im = UOp(Op.ATAN2, (y, a.re * b.re - a.im * b.im))
    im = where(far, UOp(Op.ATAN2, (y, magnitude(x))), im)
    return Pair(
        where(far, with_sign(_log_length(z) + LN2, x), re),
        where(equal(y, 0.0), y, im),
    )


@widely
def acos(z: Pair) -> Pair:
    """The inverse cosine, cut along the real axis beyond 1 and -1."""
    x, y = z
    a, b = _sqrt(Pair(1 - x, -y)), _sqrt(Pair(x + 1, y))
    far = _far(z)
    re = UOp(Op.ATAN2, (a.re, b.re)) * 2
    re = where(far, UOp(Op.ATAN2, (magnitude(y), x)), re)
    im = unary(Op.ASINH, b.re * a.im - b.im * a.re)
    return Pair(
        where(equal(x, 0.0), math.pi / 2, re),
        where(far, with_sign(_log_length(z) + LN2, -y), im),
    )


@widely
def acosh(z: Pair) -> Pair:
    """The inverse hyperbolic cosine, cut along the real axis below 1."""
    x, y = z
    a, b = _sqrt(Pair(x - 1, y)), _sqrt(Pair(x + 1, y))
    far = _far(z)
    re = unary(Op.ASINH, a.re * b.re + a.im * b.im)
    im = UOp(Op.ATAN2, (a.im, b.re)) * 2
    im = where(far, UOp(Op.ATAN2, (y, x)), im)
    return Pair(
        where(far, _log_length(z) + LN2, re),
        where(equal(x, 0.0), with_sign(full_like(y, math.pi / 2), y), im),
    )


@widely
def atanh(z: Pair) -> Pair:
    """The inverse hyperbolic tangent, cut along the real axis beyond 1 and -1.

    Source: Kahan 1987, procedure CATANH.
    """
    x, y = magnitude(z.re), magnitude(z.im)
    far, corner = _far(z), equal(x, 1.0) & (y < 1 / HUGE)
    near = unary(Op.LOG1P, x * 4 / ((1 - x) * (1 - x) + y * y)) * 0.25
    high, low = maximum(x, y), minimum(x, y)
    ratio = low / high
    inverse = x / high / high / (ratio * ratio + 1)  # the real part of 1 / z
    inverse = where(infinite(x) | infinite(y), 0.0, inverse)
    re = where(far, inverse, where(corner, (LN2 - unary(Op.LOG, y)) * 0.5, near))
    im = UOp(Op.ATAN2, (y * 2, (1 - x) * (x + 1) - y * y)) * 0.5
    im = where(far & (y >= 0) & (infinite(y) | equal(x, x)), math.pi / 2, im)
    return Pair(with_sign(where(equal(x, 0.0), x, re), z.re), with_sign(im, z.im))


sin, tan = mirrored(sinh), mirrored(tanh)
asin, atan = mirrored(asinh), mirrored(atanh)


def cos(z: Pair) -> Pair:
    """The cosine."""
    return cosh(Pair(z.im, -z.re))
