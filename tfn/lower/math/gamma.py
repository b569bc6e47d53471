"""Gamma functions: lgamma and digamma, by recurrence, reflection and asymptotic series.

Arguments below 1/2 are reflected to 1 - x.  lgamma: up to 8.5 the recurrence leads down
to [1.5, 2.5), where ``lgamma(2 + x) / x`` is a polynomial; above, Stirling's series.  digamma: the
recurrence leads above 8, to the asymptotic series.  Near a zero the error is small relative to 1,
not to the result.  The coefficients are minimax: Remez in 50 digits.

Source: DLMF 5.5.1-5.5.4 (recurrence, reflection), 5.11.1-5.11.2 (series).
"""

from __future__ import annotations

from tfn.dtypes import FLOAT32, FLOAT64
from tfn.lower.math.floats import (
    INFINITY,
    NAN,
    Coefficients,
    divide,
    equal,
    fma,
    horner,
    magnitude,
    nearest,
    where,
)
from tfn.lower.math.hyperbolic import odd_polynomial
from tfn.lower.math.logarithm import log
from tfn.trace.uop import UOp, const

# fmt: off
NEAR_TWO: Coefficients = {  # lgamma(2 + x) / x, |x| < 1/2: 8e-9, 4e-18
    FLOAT32: (
        0.00057762547, -0.0013127658, 0.0028756424, -0.0073663453, 0.02058203, -0.06735327,
        0.322467, 0.42278433,
    ),
    FLOAT64: (
        2.8282372304619484e-07, -5.812507153582768e-07, 9.157165263582323e-07,
        -1.9741872674795678e-06, 4.3866003071259835e-06, -9.456338882693102e-06,
        2.0505151068285347e-05, -4.492371684941111e-05, 9.945773160031449e-05,
        -0.00022315497872814214, 0.0005096695110691774, -0.0011927539009169048,
        0.002890510331206261, -0.00738555102893813, 0.02058080842777733, -0.0673523010531956,
        0.32246703342411326, 0.42278433509846713,
    ),
}
STIRLING: Coefficients = {  # z (lgamma z - (z - 1/2) log z + z - c) in 1 / z**2, z > 8.5
    FLOAT32: (-0.0027642006, 0.08333328),
    FLOAT64: (
        -0.0016621547367012812, 0.0008375146514138461, -0.0005952036746251049,
        0.0007936506566467774, -0.0027777777775433673, 0.08333333333333322,
    ),
}
STIRLING_FROM = 8.5
STIRLING_CONSTANT = 0.4189385332046727418  # (log(2 pi) - 1) / 2
ASYMPTOTIC: Coefficients = {  # z**2 (log z - 1 / (2 z) - digamma z) in 1 / z**2, z > 8
    FLOAT32: (-0.008257187, 0.08333304),
    FLOAT64: (
        0.06250644080794515, -0.020641254211034507, 0.007570578975365752,
        -0.004166634380949645, 0.003968253864194576, -0.00833333333318492,
        0.08333333333333327,
    ),
}
ASYMPTOTIC_FROM = 8.0
SIN_PI: Coefficients = {  # (sin(pi r) / pi - r) / r**3 in r**2, |r| < 1/2: 5e-9, 2e-19
    FLOAT32: (0.024754409, -0.19046168, 0.8117185, -1.6449335),
    FLOAT64: (
        2.450887467999527e-07, -6.972162792721434e-06, 0.00014842786905853254,
        -0.0023460809018747524, 0.026147847806395823, -0.19075182412155908,
        0.8117424252833418, -1.6449340668482264,
    ),
}
COS_PI: Coefficients = {  # cos(pi r) in r**2: 2e-10, 7e-21
    FLOAT32: (-0.024420258, 0.2349537, -1.335216, 4.0587096, -4.934802, 1.0),
    FLOAT64: (
        -1.3437810547898826e-07, 4.300755122769093e-06, -0.00010463743233170903,
        0.0019295741915294113, -0.02580689137728319, 0.23533063035806265,
        -1.3352627688545589, 4.058712126416768, -4.934802200544679, 1.0,
    ),
}
# fmt: on


def lgamma(x: UOp) -> UOp:
    """The logarithm of the absolute value of the gamma function; infinite at its poles."""
    one = const(1.0, x.dtype, x.shape)
    reflected = x < 0.5
    z = where(reflected, 1.0 - x, x)
    # lgamma(z) = lgamma(shifted) + log(product of the numbers between)
    product, shifted = one, z
    for step in range(1, 8):
        lower = z - float(step)
        further = const(1.5, x.dtype, x.shape) <= lower
        product = where(further, lower * product, product)
        shifted = where(further, lower, shifted)
    below, far = z < 1.5, const(STIRLING_FROM, x.dtype, x.shape) <= z
    logarithm = log(where(far, z, where(below, z, product)))
    argument = where(below, z - 1.0, shifted - 2.0)
    near = fma(argument, horner(argument, NEAR_TWO[x.dtype]), where(below, -logarithm, logarithm))
    inverse = divide(1.0, z)
    rest = fma(inverse, horner(inverse * inverse, STIRLING[x.dtype]), STIRLING_CONSTANT)
    value = where(far, fma(z - 0.5, logarithm - 1.0, rest), near)
    whole = nearest(x)
    sine = odd_polynomial(x - whole, SIN_PI[x.dtype])  # of pi x, divided by pi
    reflection = where(equal(x, whole), INFINITY, -log(magnitude(sine)) - value)
    return where(reflected, reflection, value)


def digamma(x: UOp) -> UOp:
    """The derivative of lgamma; NaN at the negative integers, infinite at zero."""
    reflected = x < 0.5
    z = where(reflected, 1.0 - x, x)
    near = z < ASYMPTOTIC_FROM
    large = where(near, z + 9.0, z)
    inverse = divide(1.0, large)
    square = inverse * inverse
    tail = fma(square, horner(square, ASYMPTOTIC[x.dtype]), 0.5 * inverse)
    value = log(large) - tail
    value = where(near, (value - _eight_inverses(z)) - divide(1.0, z), value)
    r = x - nearest(x)
    cotangent = horner(r * r, COS_PI[x.dtype]) / odd_polynomial(r, SIN_PI[x.dtype])
    pole = (x < 0.0) & equal(r, 0.0)
    value = where(reflected, value - cotangent, value)
    return where(equal(x, 0.0), divide(-1.0, x), where(pole, NAN, value))


def _eight_inverses(z: UOp) -> UOp:
    """``1 / (z + 1) + 1 / (z + 2) + ... + 1 / (z + 8)`` as one fraction.

    With u = z (z + 9), the terms k and 9 - k add up to (2 z + 9) / (u + k (9 - k)).
    """
    u = z * (z + 9.0)
    a, b = (u + 8.0) * (u + 20.0), (u + 14.0) * (u + 18.0)
    twice = u + u
    numerator = fma(twice + 28.0, b, (twice + 32.0) * a)
    return (z + z + 9.0) * numerator / (a * b)
