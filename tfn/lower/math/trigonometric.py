"""Trigonometric functions: sin, cos, tan, accurate for arguments of any size.

x = n pi / 2 + r with |r| <= pi / 4; n modulo 4 selects sin r or cos r, and the sign.
The coefficients are minimax: Remez in 40 digits, then rounded to the dtype.
"""

from __future__ import annotations

from collections.abc import Callable

from tfn.dtypes import BOOL, FLOAT32, FLOAT64, DType
from tfn.lower.math.angle_reduction import REDUCED_IN_STEPS_BELOW, reduce_angle, reduce_small_angle
from tfn.lower.math.floats import (
    Coefficients,
    bits,
    from_bits,
    horner,
    magnitude,
    rarely,
    sign_bit,
    where,
)
from tfn.lower.math.hyperbolic import odd_polynomial
from tfn.trace.build import cast
from tfn.trace.uop import UOp

# fmt: off
SIN: Coefficients = {  # (sin r - r) / r**3 in r**2, |r| < pi / 4: 4e-9, 3e-18
    FLOAT32: (-0.00019516647, 0.008332173, -0.16666655),
    FLOAT64: (
        1.5896505367180957e-10, -2.5050753271351645e-08, 2.755731366209562e-06,
        -0.0001984126982972528, 0.008333333333322316, -0.16666666666666632,
    ),
}
COS: Coefficients = {  # (cos r - 1 + r**2/2) / r**4 in r**2, then -1/2, 1: 1e-10, 5e-20
    FLOAT32: (2.4437762e-05, -0.0013887362, 0.041666646, -0.5, 1.0),
    FLOAT64: (
        -1.1359451422799261e-11, 2.0875719622630393e-09, -2.755731432660105e-07,
        2.4801587289397335e-05, -0.0013888888888873995, 0.0416666666666666, -0.5, 1.0,
    ),
}
# fmt: on


Reduced = Callable[[UOp, Callable[[UOp, UOp], UOp]], UOp]
"""The value of a function of an angle and its quarter turns, at an angle that is reduced first."""


def _sine_and_cosine(angle: UOp, dtype: DType) -> tuple[UOp, UOp]:
    """The sine and the cosine of a small angle, to the precision of `dtype`."""
    return odd_polynomial(angle, SIN[dtype]), horner(angle * angle, COS[dtype])


def _sine_of(angle: UOp, n: UOp, dtype: DType) -> tuple[UOp, UOp]:
    """The bits of sin(n pi / 2 + angle) without their sign, and a word whose top bit is that."""
    sine, cosine = _sine_and_cosine(cast(angle, dtype), dtype)
    y = where(cast(n & 1, BOOL), cosine, sine)
    return bits(y), n << (8 * n.dtype.itemsize - 2)


def _of_angle(x: UOp, from_angle: Callable[[UOp, UOp], UOp]) -> UOp:
    """A function of what `reduce_angle` gives, which large arguments have a branch for."""
    in_range = magnitude(x) < REDUCED_IN_STEPS_BELOW[x.dtype]  # false for NaN
    return rarely(~in_range, from_angle(*reduce_angle(x)), from_angle(*reduce_small_angle(x)))


def signed_sine(x: UOp, quarter_turns: int, of_angle: Reduced = _of_angle) -> UOp:
    """sin(|x| + quarter_turns pi / 2), with the sign of x if that is no turn."""

    def from_angle(angle: UOp, n: UOp) -> UOp:
        n = n + quarter_turns if quarter_turns else n
        y, sign = _sine_of(angle, n, x.dtype)
        return from_bits(y ^ sign_bit(sign if quarter_turns else sign ^ bits(x)))

    return of_angle(x, from_angle)


def sin(x: UOp) -> UOp:
    """The sine."""
    return signed_sine(x, 0)


def cos(x: UOp) -> UOp:
    """The cosine."""
    return signed_sine(x, 1)


def tan(x: UOp, of_angle: Reduced = _of_angle) -> UOp:
    """The tangent: n odd turns sin / cos into -cos / sin.

    float32 divides in float64: in float32 three rounding errors would add up.
    """

    def from_angle(angle: UOp, n: UOp) -> UOp:
        sine, cosine = _sine_and_cosine(angle, x.dtype)
        odd = cast(n & 1, BOOL)
        y = cast(where(odd, cosine, sine) / where(odd, sine, cosine), x.dtype)
        return from_bits(bits(y) ^ sign_bit(bits(x) ^ (n << (8 * n.dtype.itemsize - 1))))

    return of_angle(x, from_angle)
