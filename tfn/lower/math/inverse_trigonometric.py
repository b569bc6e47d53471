"""Inverse trigonometric functions: asin, acos, atan, atan2, by odd minimax polynomials.

The coefficients are minimax: Remez in 40 digits, then rounded to the dtype.
"""

from __future__ import annotations

from tfn.dtypes import FLOAT32, FLOAT64
from tfn.lower.math.floats import (
    Coefficients,
    bits,
    equal,
    fma,
    from_bits,
    horner,
    magnitude,
    sign_bit,
    sqrt_of,
    where,
    with_sign,
)
from tfn.lower.math.hyperbolic import odd_polynomial
from tfn.trace.build import maximum, minimum
from tfn.trace.uop import UOp, const

# fmt: off
PI = {  # pi as a sum of two numbers of the dtype
    FLOAT32: (3.1415927410125732421875, -8.74227765734758577e-08),
    FLOAT64: (3.141592653589793, 1.2246467991473532e-16),
}
ASIN: Coefficients = {  # (asin x - x) / x**3 in x**2, |x| < 1/2: 5e-9, 2e-17
    FLOAT32: (0.042229835, 0.024141612, 0.045478165, 0.07495235, 0.16666754),
    FLOAT64: (
        0.0319818128484211, -0.016326877400910364, 0.01959446034183343, 0.006503476807070684,
        0.012174952194647013, 0.013884348978198367, 0.01735979578923501, 0.022371751928407013,
        0.03038195939581675, 0.0446428568219711, 0.07500000000344798, 0.16666666666665375,
    ),
}
ATAN: Coefficients = {  # (atan t - t) / t**3 in t**2, |t| < 1: 1e-8, 3e-17
    FLOAT32: (
        0.0029745966, -0.016581204, 0.043553565, -0.0758058, 0.10678941, -0.14214209,
        0.19994137, -0.33333167,
    ),
    FLOAT64: (
        -2.066274838059457e-05, 0.0002268534008289582, -0.0011807898844188403,
        0.0039005109260227045, -0.009265518437016203, 0.017084381320174917,
        -0.025931066276616985, 0.034145539949272434, -0.04097084288063634,
        0.04675905067213533, -0.05239891615382367, 0.05877475907127693, -0.06665892338697639,
        0.07692217343239321, -0.09090901660474103, 0.1111111070571418, -0.14285714272361752,
        0.19999999999774953, -0.33333333333331994,
    ),
}
# fmt: on


def _pi_minus(factor: float, y: UOp) -> UOp:
    """``factor * pi - y``, with pi in two parts."""
    high, low = PI[y.dtype]
    return factor * high - (y - factor * low)


def asin(x: UOp) -> UOp:
    """The inverse sine; beyond 1/2 by ``pi/2 - 2 asin(sqrt((1 - |x|) / 2))``."""
    positive = magnitude(x)
    small = positive < 0.5
    argument = where(small, positive, sqrt_of(fma(positive, -0.5, 0.5)))
    square = argument * argument
    rest = argument * (square * horner(square, ASIN[x.dtype]))
    high, low = PI[x.dtype]
    near = argument + rest
    far = (0.5 * high - (argument + argument)) - (rest + rest - 0.5 * low)
    return with_sign(where(small, near, far), x)


def acos(x: UOp) -> UOp:
    """The inverse cosine, with the same two ranges as `asin`."""
    positive = magnitude(x)
    small = positive < 0.5
    argument = where(small, positive, sqrt_of(fma(positive, -0.5, 0.5)))
    y = odd_polynomial(argument, ASIN[x.dtype])
    signed = from_bits(bits(y) | sign_bit(bits(x)))
    far = y + y
    return where(small, _pi_minus(0.5, signed), where(x < 0.0, _pi_minus(1.0, far), far))


def atan(x: UOp) -> UOp:
    """The inverse tangent; beyond 1 by ``pi/2 - atan(1 / |x|)``."""
    positive = magnitude(x)
    steep = const(1.0, x.dtype, x.shape) < positive
    slope = where(steep, 1.0, positive) / where(steep, positive, 1.0)
    y = odd_polynomial(slope, ATAN[x.dtype])
    return with_sign(where(steep, _pi_minus(0.5, y), y), x)


def atan2(y: UOp, x: UOp) -> UOp:
    """The angle of the point (x, y), with C's rules for zeros and infinities."""
    width, height = magnitude(x), magnitude(y)
    high, low = maximum(width, height), minimum(width, height)
    same = equal(high, low)  # also both infinite, and both zero, where the quotient is NaN
    flat = where(equal(high, 0.0), high, 1.0)
    angle = odd_polynomial(where(same, flat, low / high), ATAN[x.dtype])
    angle = where(width < height, _pi_minus(0.5, angle), angle)
    left = bits(x) < 0  # so is -0.0
    return with_sign(where(left, _pi_minus(1.0, angle), angle), y)
