"""pow and cbrt.

    x**y = 2**(y log2 x)

needs log2 x to more digits than the result has, because y log2 x may be large: float32 computes
it in float64, float64 in pairs of numbers.
"""

from __future__ import annotations

from tfn.dtypes import FLOAT32, FLOAT64
from tfn.lower.mathlib.exponential import Scaled, assemble_small
from tfn.lower.mathlib.floats import (
    INFINITY,
    NAN,
    at_least,
    at_most,
    bits,
    equal,
    fma,
    form,
    horner,
    magnitude,
    top_bit,
    unbits,
    where,
)  # fmt: skip
from tfn.lower.mathlib.logarithm import split
from tfn.trace.build import cast, ne
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

# fmt: off
# log2((1 + s) / (1 - s)) / s in s**2, and (2**r - 1) / r on [-1/2, 1/2]: 1e-11, 6e-12
LOG2_SHORT = (
    0.34074020095774843, 0.41167212498102984, 0.5770835959031791, 0.9617966732770745,
    2.8853900817901468,
)
EXP2_SHORT = (
    1.531499149585176e-05, 0.0001546713502376346, 0.0013333430604929543, 0.009618036839434782,
    0.055504109627704565, 0.24022651076294305, 0.6931471805416093,
)
# fmt: on


def pow(x: UOp, y: UOp) -> UOp:
    """x**y with C's special cases: 1 if y is 0 or x is 1, NaN for a root of a negative number."""
    positive = magnitude(x)
    raised = _raise32(positive, y)
    raised = where(equal(x, 1.0) | equal(y, 0.0), 1.0, raised)
    half = 0.5 * y
    whole = equal(UOp(Op.FLOOR, (y,)), y)
    odd = whole & ne(UOp(Op.FLOOR, (half,)), half)
    signed = where(odd, unbits(bits(raised) | top_bit(bits(x))), raised)
    root_of_negative = (x < 0.0) & (positive < INFINITY) & ~whole
    return where(root_of_negative, NAN, signed)


def _raise32(positive: UOp, y: UOp) -> UOp:
    wide = cast(positive, FLOAT64)
    k, _, m = split(wide)
    s = (m - 1.0) / (m + 1.0)
    log2 = fma(s, horner(s * s, LOG2_SHORT), cast(k, FLOAT64))
    log2 = where(wide < INFINITY, log2, wide)
    log2 = where(equal(wide, 0.0), -INFINITY, log2)
    power = at_most(at_least(cast(y, FLOAT64), -1e30), 1e30) * log2  # finite y: 0 * log2(1) is 0
    power = at_most(at_least(power, -160.0), 160.0)
    shifted = power + form(power).magic
    r = power - (shifted - form(power).magic)
    scaled = Scaled(bits(shifted), horner(r, (*EXP2_SHORT, 1.0)))
    return cast(assemble_small(scaled), positive.dtype)


THIRD = {FLOAT32: 709958130, FLOAT64: 3071306043645493248}


def cbrt(x: UOp) -> UOp:
    """The cube root: the exponent divided by three, then Halley's steps, the last one in FMA.

    Source: W. Kahan 1991, "Computing a real cube root", for the start: bits / 3 + a constant.
    """
    layout = form(x)
    positive = magnitude(x)
    denormal = positive < layout.tiny
    up = layout.fraction + 3 - layout.fraction % 3
    a = where(denormal, positive * 2.0**up, positive)
    third = cast(cast(bits(a), x.dtype) * (1 / 3), layout.word)
    root = unbits(third + THIRD[x.dtype])
    for _ in range(1 if x.dtype == FLOAT32 else 2):
        cube = root * root * root
        root = root * ((cube + 2.0 * a) / (2.0 * cube + a))
    root = _last_step(root, a)
    root = where(denormal, root * 2.0 ** (-up // 3), root)
    good = (positive < INFINITY) & (const(0.0, x.dtype, x.shape) < positive)
    return where(good, unbits(bits(root) | top_bit(bits(x))), x)


def _last_step(root: UOp, a: UOp) -> UOp:
    """One more step of Halley's, as a small correction: ``root - root e / (2 root**3 + a)``."""
    square = root * root
    cube = square * root
    lost = fma(square, root, -cube) + fma(root, root, -square) * root
    return fma(-root, ((cube - a) + lost) / fma(cube, 2.0, a), root)
