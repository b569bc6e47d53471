"""Meanings of instructions of floats, as UOps: limits, roundings, classes, and steps of divisions.

Source: RDNA3 instruction set architecture, chapter 16.
"""

from __future__ import annotations

import numpy as np

from tfn.dtypes import FLOAT16, FLOAT32, FLOAT64, DType
from tfn.extend import Op, UOp
from tfn.hw.amd.emulator.meaning import (
    I32,
    I64,
    U16,
    U32,
    U64,
    Meaning,
    Pair,
    bitcast,
    cast,
    eq,
    fused,
    maximum,
    minimum,
    ne,
    number,
    packed,
    where,
)

_BITS = {FLOAT16: U16, FLOAT32: U32, FLOAT64: U64}
_FRACTION = {FLOAT16: 10, FLOAT32: 23, FLOAT64: 52}


def is_nan(x: UOp) -> UOp:
    """Whether a float is NaN."""
    return ne(x, x)


def largest(a: UOp, b: UOp) -> UOp:
    """The larger operand; of a number and a NaN the number; 0.0 is larger than -0.0."""
    if a.dtype.kind != "f":
        return maximum(a, b)
    return where(is_nan(a), b, where(is_nan(b), a, maximum(a, b)))


def smallest(a: UOp, b: UOp) -> UOp:
    """The smaller operand; of a number and a NaN the number; -0.0 is smaller than 0.0."""
    if a.dtype.kind != "f":
        return minimum(a, b)
    return where(is_nan(a), b, where(is_nan(b), a, minimum(a, b)))


def median(a: UOp, b: UOp, c: UOp) -> UOp:
    """The middle one of three numbers; the smallest number if one is NaN."""
    middle = largest(smallest(a, b), smallest(largest(a, b), c))
    if a.dtype.kind != "f":
        return middle
    least = smallest(smallest(a, b), c)
    return where(is_nan(a) | is_nan(b) | is_nan(c), least, middle)


def truncated(x: UOp) -> UOp:
    """The integer towards zero."""
    return where(x < 0, UOp(Op.CEIL, (x,)), UOp(Op.FLOOR, (x,)))


def fraction(x: UOp) -> UOp:
    """The part above the next integer below, which is less than 1."""
    one = number(x, np.nextafter(x.dtype.type(1), x.dtype.type(0)))
    rest = x - UOp(Op.FLOOR, (x,))
    return where(one < rest, one, rest)


def to_nearest(x: UOp) -> UOp:
    """The integer at half above or below, rounded up at ties."""
    return cast(UOp(Op.FLOOR, (x + 0.5,)), I32)


def to_floor(x: UOp) -> UOp:
    """The integer below, as one."""
    return cast(UOp(Op.FLOOR, (x,)), I32)


def reciprocal(x: UOp) -> UOp:
    """One divided by a number."""
    return number(x, 1.0) / x


def reciprocal_root(x: UOp) -> UOp:
    """One divided by a square root."""
    return number(x, 1.0) / UOp(Op.SQRT, (x,))


def turns(op: Op) -> Meaning:
    """A function of an angle in turns."""
    return lambda x: UOp(op, (x * (2 * np.pi),))


def rounded_to_zero(x: UOp) -> UOp:
    """A float16 with no larger magnitude than a float32."""
    near = cast(x, FLOAT16)
    beyond = UOp(Op.ABS, (x,)) < UOp(Op.ABS, (cast(near, FLOAT32),))
    finite = UOp(Op.ABS, (x,)) < float("inf")
    bits = bitcast(near, U16)
    return bitcast(where(beyond & finite, bits - 1, bits), FLOAT16)


def packed_to_zero(low: UOp, high: UOp) -> UOp:
    """Two floats as halves, rounded to zero."""
    return packed(rounded_to_zero(low), rounded_to_zero(high))


def packed_conversion(dtype: DType) -> Meaning:
    """Two numbers as halves, saturated."""
    info = np.iinfo(dtype)

    def meaning(low: UOp, high: UOp) -> UOp:
        if low.dtype.kind == "f":
            low, high = cast(low, I32), cast(high, I32)
        if low.dtype.kind == "u":
            parts = [minimum(x, number(x, int(info.max))) for x in (low, high)]
        else:
            ends = int(info.min), int(info.max)
            parts = [
                minimum(maximum(x, number(x, ends[0])), number(x, ends[1])) for x in (low, high)
            ]
        return packed(*(cast(x, dtype) for x in parts))

    return meaning


def exponent(x: UOp) -> UOp:
    """The exponent as it is stored."""
    width = {FLOAT16: 31, FLOAT32: 255, FLOAT64: 2047}[x.dtype]
    return cast((bitcast(x, _BITS[x.dtype]) >> _FRACTION[x.dtype]) & width, I32)


def _normal(x: UOp) -> tuple[UOp, UOp]:
    """A number times a power of two where it is subnormal, and the exponent as that is stored."""
    shift = _FRACTION[x.dtype] + 2
    small = eq(exponent(x), number(x, 0, I32))
    scaled = where(small, x * float(1 << shift), x)
    return scaled, exponent(scaled) - where(small, number(x, shift, I32), number(x, 0, I32))


def _special(x: UOp) -> UOp:
    """Whether a float is zero, infinite or NaN."""
    return ~(UOp(Op.ABS, (x,)) < float("inf")) | eq(x, number(x, 0))


def mantissa(x: UOp) -> UOp:
    """The mantissa from a half to 1, with the sign; zeros, infinities and NaN as they are."""
    scaled, at = _normal(x)[0], _FRACTION[x.dtype]
    kind = _BITS[x.dtype]
    width = {FLOAT16: 31, FLOAT32: 255, FLOAT64: 2047}[x.dtype]
    bits = bitcast(scaled, kind) & ~number(x, width << at, kind)
    return where(_special(x), x, bitcast(bits | (width // 2 - 1) << at, x.dtype))


def exponent_of(x: UOp) -> UOp:
    """The exponent of the mantissa; 0 for zeros, infinities and NaN."""
    bias = {FLOAT16: 14, FLOAT32: 126, FLOAT64: 1022}[x.dtype]
    return where(_special(x), number(x, 0, I32), _normal(x)[1] - bias)


def scaled(x: UOp, n: UOp) -> UOp:
    """``x * 2**n``, rounded once: by normal factors, of which none but the last rounds."""
    y, n = cast(x, FLOAT64), cast(n, I64)
    up, down = 1023, -969  # a factor of 2**-969 leaves 53 bits above the smallest normal number
    for _ in range(2):
        high, low = n > up, n < -1022
        factor = where(high, number(y, 2.0**up), where(low, number(y, 2.0**down), number(y, 1.0)))
        y = y * factor
        n = n - where(high, number(n, up), where(low, number(n, down), number(n, 0)))
    n = minimum(maximum(n, number(n, -1022)), number(n, up))
    return cast(y * bitcast((n + 1023) << 52, FLOAT64), x.dtype)


def of_class(x: UOp, mask: UOp) -> UOp:
    """Whether a float is of one of ten classes, of which each has a bit."""
    kind, at = _BITS[x.dtype], _FRACTION[x.dtype]
    bits, stored = bitcast(x, kind), exponent(x)
    negative = ne(bits >> (8 * x.dtype.itemsize - 1), number(x, 0, kind))

    def bit(yes: int, no: int) -> UOp:
        return where(negative, number(x, yes, U32), number(x, no, U32))

    quiet = ne((bits >> (at - 1)) & 1, number(x, 0, kind))
    subnormal = where(eq(x, number(x, 0)), bit(5, 6), bit(4, 7))
    finite = where(stored > 0, bit(3, 8), subnormal)
    not_a_number = where(quiet, number(x, 1, U32), number(x, 0, U32))
    infinite = where(is_nan(x), not_a_number, bit(2, 9))
    last = {FLOAT16: 31, FLOAT32: 255, FLOAT64: 2047}[x.dtype]
    index = where(eq(stored, number(stored, last)), infinite, finite)
    return ne((cast(mask, U32) >> index) & 1, number(x, 0, U32))


def _is_denormal(x: UOp) -> UOp:
    return eq(exponent(x), number(x, 0, I32)) & ne(x, number(x, 0))


def division_scaled(x: UOp, denominator: UOp, numerator: UOp) -> Pair:
    """An operand of a division by a power of two, and whether the quotient is scaled.

    Steps of a division keep full precision where neither operand nor quotient is subnormal.  The
    manual raises a denominator whose inverse is subnormal, too, which would be infinite then.
    """
    step, limit, tiny = (64, 96, 23) if x.dtype == FLOAT32 else (128, 768, 53)
    up, down = x * 2.0**step, x * 2.0**-step
    no, yes = number(x, False, np.dtype(bool)), number(x, True, np.dtype(bool))
    far = exponent(numerator) - exponent(denominator) >= limit
    wide = cast(denominator, FLOAT64)
    inverse_small = _is_denormal(number(wide, 1.0) / wide)
    quotient_small = _is_denormal(numerator / denominator)
    is_denominator, is_numerator = eq(x, denominator), eq(x, numerator)
    zero = eq(numerator, number(x, 0)) | eq(denominator, number(x, 0))
    # The cases in the order in which they are tested: condition, value, scaled.
    cases = (
        (zero, number(x, float("nan")), no),
        (far, where(is_denominator, up, x), yes),
        (_is_denormal(denominator), up, no),
        (inverse_small & quotient_small, where(is_denominator, down, x), yes),
        (inverse_small, down, no),
        (quotient_small, where(is_numerator, up, x), yes),
        (exponent(numerator) <= tiny, up, no),
    )
    value, is_scaled = x, no
    for condition, result, flag in reversed(cases):
        value, is_scaled = where(condition, result, value), where(condition, flag, is_scaled)
    return value, is_scaled


def division_step(a: UOp, b: UOp, c: UOp, is_scaled: UOp) -> UOp:
    """A fused multiply-add, scaled back where the quotient is scaled.

    The manual has half of the power by which operands are scaled, and one direction: a division is
    right with all of it, upwards for a large quotient and downwards for a small one.  A quotient
    that is subnormal is rounded twice here.
    """
    value, (step, bias) = fused(a, b, c), ((64, 127) if a.dtype == FLOAT32 else (128, 1023))
    large = exponent(c) > bias
    return where(is_scaled, where(large, value * 2.0**step, value * 2.0**-step), value)


def division_fixed(quotient: UOp, denominator: UOp, numerator: UOp) -> UOp:
    """The quotient with the special cases of a division."""
    x, n, d = quotient, numerator, denominator
    kind = _BITS[x.dtype]
    top = number(x, 1 << (8 * x.dtype.itemsize - 1), kind)
    sign = (bitcast(n, kind) ^ bitcast(d, kind)) & top

    def signed(value: UOp) -> UOp:
        magnitude = bitcast(UOp(Op.ABS, (value,)), kind)
        return bitcast(magnitude | sign, x.dtype)

    zero, infinity, nan = (number(x, v) for v in (0.0, float("inf"), float("nan")))
    zero_n, zero_d = eq(n, zero), eq(d, zero)
    infinite_n, infinite_d = (eq(UOp(Op.ABS, (v,)), infinity) for v in (n, d))
    under = {FLOAT16: -25, FLOAT32: -150, FLOAT64: -1075}[x.dtype]
    cases = (
        (is_nan(n), n),
        (is_nan(d), d),
        ((zero_n & zero_d) | (infinite_n & infinite_d), nan),
        (zero_d | infinite_n, signed(infinity)),
        (infinite_d | zero_n, signed(zero)),
        (exponent(n) - exponent(d) < under, signed(zero)),  # less than half of the smallest number
        (is_nan(x), signed(infinity)),  # steps that overflow
    )
    value = signed(x)
    for condition, result in reversed(cases):
        value = where(condition, result, value)
    return value


def compared(op: Op, swapped: bool = False, negated: bool = False) -> Meaning:
    """A comparison; one that is negated holds for NaN."""

    def meaning(a: UOp, b: UOp) -> UOp:
        value = UOp(op, (b, a) if swapped else (a, b))
        return ~value if negated else value

    return meaning


def ordered(a: UOp, b: UOp) -> UOp:
    """Whether neither operand is NaN."""
    return ~(is_nan(a) | is_nan(b))


def unordered(a: UOp, b: UOp) -> UOp:
    """Whether an operand is NaN."""
    return is_nan(a) | is_nan(b)


def less_or_greater(a: UOp, b: UOp) -> UOp:
    """Whether the operands differ, and none is NaN."""
    return (a < b) | (b < a)


def never(a: UOp, b: UOp) -> UOp:
    """False."""
    return number(a, False, np.dtype(bool))


def always(a: UOp, b: UOp) -> UOp:
    """True."""
    return number(a, True, np.dtype(bool))
