"""Powers and cube roots: pow by log2 in extended precision, cbrt by Halley's iteration.

    x**y = 2**(y log2 x)

needs log2 x to more digits than the result has, because y log2 x may be large: float32 computes
it in float64, float64 in pairs of numbers.  The coefficients are minimax: Remez in 40 digits.
"""

from __future__ import annotations

from collections.abc import Callable

from tfn.dtypes import FLOAT32, FLOAT64, INT32
from tfn.lower.math.exponential import EXP2, Scaled, to_float, to_normal_float
from tfn.lower.math.floats import (
    INFINITY,
    NAN,
    at_least,
    at_most,
    bits,
    divide,
    equal,
    fma,
    format_of,
    from_bits,
    horner,
    magnitude,
    rarely,
    sign_bit,
    where,
)
from tfn.lower.math.logarithm import normalized, split_exponent
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
LOG2_SERIES = (  # (log2((1 + s) / (1 - s)) / s - TWO - TWO_THIRDS s**2) / s**4 in s**2: 2e-22
    0.17296479155600353, 0.16843204116209154, 0.19240238933853696, 0.22195223905987094,
    0.26230819918514786, 0.3205988979077265, 0.41219858311137103, 0.5770780163555851,
)
# fmt: on
TWO = (2.8853900817779268, 4.0710547481862066e-17)  # 2 / log 2, in two parts
TWO_THIRDS = (0.9617966939259756, 5.0577616648125907e-17)  # 2 / (3 log 2)


HALVES = (-1.5, -0.5, 0.5, 1.5)
"""Constant exponents that a square root serves, with an error of at most 2.5 ulp.

Forces of 234 by 128 points, by ``distance ** 1.5``, took 132 us; by a root 43.
"""


def pow(x: UOp, y: UOp) -> UOp:
    """x**y with C's special cases: 1 if y is 0 or x is 1, NaN for a root of a negative number."""
    if y.op is Op.CONST and float(y.arg.value) in HALVES:
        positive = magnitude(x)
        raised = _raise_by_root(positive, float(y.arg.value))
        return where((x < 0.0) & (positive < INFINITY), NAN, raised)
    if x.dtype == FLOAT64:
        return pow_of_any(x, y, _raise64)
    is_normal, raised = _raise_normal32(x, y)
    return rarely(~is_normal, pow_of_any(x, y, _raise32), raised)


def pow_of_any(x: UOp, y: UOp, power: Callable[[UOp, UOp], UOp]) -> UOp:
    """x**y with its special cases, by the powers of numbers that are not negative."""
    raised = power(magnitude(x), y)
    raised = where(equal(x, 1.0) | equal(y, 0.0), 1.0, raised)
    half = 0.5 * y
    whole = equal(UOp(Op.FLOOR, (y,)), y)
    odd = whole & ne(UOp(Op.FLOOR, (half,)), half)
    signed = where(odd, from_bits(bits(raised) | sign_bit(bits(x))), raised)
    is_root_of_negative = (x < 0.0) & (magnitude(x) < INFINITY) & ~whole
    return where(is_root_of_negative, NAN, signed)


def _raise_by_root(positive: UOp, y: float) -> UOp:
    """The same for a constant exponent of `HALVES`: at most two rounded steps after the root."""
    root = UOp(Op.SQRT, (positive,))
    if y < 0.0:
        root = divide(1.0, root)
    return root if abs(y) == 0.5 else positive * root if y > 0.0 else root / positive


LARGEST_NORMAL_POWER = 125.0
"""|y log2 x| up to which x**y and all on the way to it are normal numbers."""


def _raise_normal32(x: UOp, y: UOp) -> tuple[UOp, UOp]:
    """Whether x is positive and normal, and so is x**y; and x**y if that is so.

    Only what decides the last bit is in float64.  Its division, the slowest instruction, is one of
    float32 and a step of Newton's; the last polynomial is in float32.
    """
    k, _, m = split_exponent(x)
    wide = cast(m, FLOAT64)
    below = wide + 1.0
    inverse = cast(divide(1.0, cast(below, FLOAT32)), FLOAT64)
    s = (wide - 1.0) * inverse
    s = fma(fma(-below, inverse, 1.0), s, s)
    power = cast(y, FLOAT64) * fma(s, horner(s * s, LOG2_SHORT), cast(k, FLOAT64))
    shifted = power + format_of(power).magic
    r = cast(power - (shifted - format_of(power).magic), FLOAT32)
    n = cast(bits(shifted), INT32) << format_of(x).fraction
    raised = from_bits(bits(horner(r, (*EXP2[FLOAT32], 1.0))) + n)
    is_normal = const(format_of(x).tiny, FLOAT32, x.shape) <= x
    return is_normal & (x < INFINITY) & (magnitude(power) < LARGEST_NORMAL_POWER), raised


def _raise32(positive: UOp, y: UOp) -> UOp:
    wide = cast(positive, FLOAT64)
    k, _, m = split_exponent(wide)
    s = (m - 1.0) / (m + 1.0)
    log2 = _at_ends(fma(s, horner(s * s, LOG2_SHORT), cast(k, FLOAT64)), wide)
    power = at_most(at_least(_finite(cast(y, FLOAT64)) * log2, -160.0), 160.0)
    shifted = power + format_of(power).magic
    r = power - (shifted - format_of(power).magic)
    scaled = Scaled(bits(shifted), horner(r, (*EXP2_SHORT, 1.0)))
    return cast(to_normal_float(scaled), positive.dtype)


def _raise64(positive: UOp, y: UOp) -> UOp:
    high, low = _log2_pair(positive)
    high = _at_ends(high, positive)
    y = _finite(y)
    power = y * high
    error = fma(y, low, fma(y, high, -power))
    error = where(magnitude(power) < 1100.0, error, 0.0)  # it is NaN where high is infinite
    power = at_most(at_least(power, -1100.0), 1100.0)
    shifted = power + format_of(power).magic
    r = (power - (shifted - format_of(power).magic)) + error
    return to_float(Scaled(bits(shifted), horner(r, (*EXP2[FLOAT64], 1.0))))


def _at_ends(log2: UOp, positive: UOp) -> UOp:
    log2 = where(positive < INFINITY, log2, positive)
    return where(equal(positive, 0.0), -INFINITY, log2)


def _finite(y: UOp) -> UOp:
    """y with infinity made finite, so that its product with log2(1) is zero; NaN stays."""
    return at_most(at_least(y, -1e300), 1e300)


def _log2_pair(x: UOp) -> tuple[UOp, UOp]:
    """log2 as a sum of two float64, with an error of 2**-64: 2 / log 2 times atanh(s).

    Source: T. J. Dekker 1971, "A floating-point technique for extending the available
    precision", for sums and products in pairs.
    """
    k, f = normalized(x)
    # s = f / (2 + f)
    below = f + 2.0
    below_low = f - (below - 2.0)
    inverse = divide(1.0, below)
    s = f * inverse
    s_low = inverse * fma(-s, below_low, fma(-s, below, f))
    # z = s**2
    z = s * s
    z_low = fma(s + s, s_low, fma(s, s, -z))
    # w = TWO_THIRDS + z * series, of which only the first term needs two parts
    small = z * horner(z, LOG2_SERIES)
    w = small + TWO_THIRDS[0]
    w_low = (small - (w - TWO_THIRDS[0])) + TWO_THIRDS[1]
    # g = TWO + z * w
    v = z * w
    v_low = fma(z, w_low, fma(z_low, w, fma(z, w, -v)))
    g = v + TWO[0]
    g_low = (v - (g - TWO[0])) + (v_low + TWO[1])
    # k + s * g
    p = s * g
    p_low = fma(s, g_low, fma(s_low, g, fma(s, g, -p)))
    total = k + p
    return total, (p - (total - k)) + p_low


CBRT_START = {FLOAT32: 709958130, FLOAT64: 3071306043645493248}
"""The bits to add to a third of the argument's bits, for the smallest error of the first guess."""

CBRT_SCALE = {FLOAT32: 2.0**24, FLOAT64: 2.0**200}
"""Cube roots of the factors by which small arguments are scaled: no power may be denormal."""


def cbrt(x: UOp) -> UOp:
    """The cube root: a guess by a third of the exponent, then Halley's steps, the last one by FMA.

    Source: W. Kahan 1991, "Computing a real cube root", for the start: bits / 3 + a constant.
    """
    positive = magnitude(x)
    # With these factors no power below is denormal, and no cube overflows.
    small = positive < 2.0**-30
    up = CBRT_SCALE[x.dtype]
    a = positive * where(small, const(up**3, x.dtype, x.shape), 1 / 64)
    third = cast(cast(bits(a), x.dtype) * (1 / 3), format_of(x).word)
    root = from_bits(third + CBRT_START[x.dtype])
    for _ in range(1 if x.dtype == FLOAT32 else 2):
        cube = root * root * root
        root = root * ((cube + 2.0 * a) / (2.0 * cube + a))
    root = _last_step(root, a)
    root = root * where(small, const(1 / up, x.dtype, x.shape), 4.0)
    is_finite_nonzero = (positive < INFINITY) & (const(0.0, x.dtype, x.shape) < positive)
    return where(is_finite_nonzero, from_bits(bits(root) | sign_bit(bits(x))), x)


def _last_step(root: UOp, a: UOp) -> UOp:
    """One more step of Halley's, as a small correction: ``root - root e / (2 root**3 + a)``."""
    square = root * root
    cube = square * root
    error = fma(square, root, -cube) + fma(root, root, -square) * root
    return fma(-root, ((cube - a) + error) / fma(cube, 2.0, a), root)
