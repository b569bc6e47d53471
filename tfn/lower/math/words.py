"""Functions of float32 on machines without numbers of 64 bits: exact products of 32-bit words.

    sin, cos, tan   the words of 2 / pi that matter for x, times its 24 bits: a fixed-point angle
    pow             log2 x in fixed point to 30 digits, times the 24 bits of y
    erfc            x**2 as the sum of an exact square and a small rest
    mod             remainders of integers, 8 bits of the quotient at a time

An error is at most 2 units in the last place, of tan, pow and erfc 4.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import pi

from tfn.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, INT32, UINT32
from tfn.lower.math import angle_reduction, erf, exponential, power, remainder, trigonometric
from tfn.lower.math.decompose import decompose
from tfn.lower.math.floats import (
    INFINITY,
    NAN,
    bits,
    equal,
    from_bits,
    horner,
    magnitude,
    power_of_two,
    two_sum,
    where,
)
from tfn.lower.math.logarithm import normalized
from tfn.trace.build import bitcast, cast
from tfn.trace.op import NEAR_ONE, Op
from tfn.trace.uop import UOp, const, rebuild, walk

ALL, HALF = (1 << 32) - 1, (1 << 16) - 1
HALF_PI = round(pi / 2 * 2.0**31)
FIRST_EXPONENT = 126
"""The biased exponent of 1/2: below pi / 4 no angle is reduced."""
WINDOW_WORDS = 8
WINDOW = angle_reduction.INVERSE_PI >> (angle_reduction.INVERSE_PI_BITS - 32 * WINDOW_WORDS + 25)
"""2 / pi behind the zeros that the smallest exponent sees before it."""


def high_product(a: UOp, b: UOp | int) -> UOp:
    """The upper word of a product of two words."""
    b = b if isinstance(b, UOp) else const(b, UINT32, a.shape)
    a_high, a_low, b_high, b_low = a >> 16, a & HALF, b >> 16, b & HALF
    low, first, second = a_low * b_low, a_low * b_high, a_high * b_low
    middle = (low >> 16) + (first & HALF) + (second & HALF)
    return a_high * b_high + (first >> 16) + (second >> 16) + (middle >> 16)


def _shifted(high: UOp, low: UOp, top: int, steps: tuple[int, ...]) -> tuple[UOp, UOp, UOp]:
    """Two words without zeros above the bit `top` of the first, and by how much they moved."""
    count = const(0, INT32, high.shape)
    for step in steps:
        small = high < const(1 << (top + 1 - step), UINT32, high.shape)
        high = where(small, (high << step) | (low >> (32 - step)), high)
        low = where(small, low << step, low)
        count = count + where(small, const(step, INT32, high.shape), const(0, INT32, high.shape))
    return high, low, count


def _negated(high: UOp, low: UOp) -> tuple[UOp, UOp]:
    """The two words of a negative number."""
    carry = cast(equal_word(low, 0), UINT32)
    return (high ^ ALL) + carry, (low ^ ALL) + 1


def equal_word(word: UOp, value: int) -> UOp:
    """Whether a word has a value."""
    return UOp(Op.EQ, (word, const(value, word.dtype, word.shape)))


def reduce_angle(x: UOp) -> tuple[UOp, UOp]:
    """|x| = n pi / 2 + r with |r| <= pi / 4: r in float32, and n modulo 4."""
    word = bitcast(magnitude(x), UINT32)
    exponent = UOp(Op.MAX, (word >> 23, const(FIRST_EXPONENT, UINT32, x.shape))) - FIRST_EXPONENT
    m = (word & 0x7FFFFF) | 0x800000
    words = [
        const(WINDOW >> 32 * (WINDOW_WORDS - 1 - i) & ALL, UINT32, x.shape)
        for i in range(WINDOW_WORDS)
    ]
    for step in (4, 2, 1):
        far = cast(exponent & (32 * step), BOOL)
        after = [*words[step:], *words[-step:]]  # of which the last are never selected
        words = [where(far, *pair) for pair in zip(after, words, strict=True)]
    left = exponent & 31
    first, second, third = (
        (word << left) | ((after >> 1) >> (left ^ 31)) for word, after in pairwise(words[:4])
    )
    low = m * second
    middle = low + high_product(third, m)
    high = m * first + high_product(second, m) + cast(middle < low, UINT32)
    n = (high + (1 << 29)) >> 30
    high = high - (n << 30)
    negative = cast(high >> 31, BOOL)
    there, below = _negated(high, middle)
    high, middle = where(negative, there, high), where(negative, below, middle)
    high, _, count = _shifted(high, middle, 29, (16, 16, 8, 4))
    angle = (
        cast(high_product(high << 2, HALF_PI), FLOAT32) * 2.0**-31 * power_of_two(-count, FLOAT32)
    )
    angle = from_bits(bits(angle) | bitcast(cast(negative, UINT32) << 31, INT32))
    small = magnitude(x) < angle_reduction.UNREDUCED_BELOW
    angle = where(small, magnitude(x), where(magnitude(x) < INFINITY, angle, NAN))
    return angle, where(small, const(0, INT32, x.shape), bitcast(n, INT32))


def _of_angle(x: UOp, from_angle: Callable[[UOp, UOp], UOp]) -> UOp:
    return from_angle(*reduce_angle(x))


def _log2(x: UOp) -> tuple[UOp, UOp, UOp]:
    """log2 of a positive number: its sign, a word from 2**31 on, and the digits before the word.

    The value is ``word / 2**(24 + digits)``.
    """
    k, f = normalized(x)
    rest = cast(magnitude(f) * 2.0**24, UINT32)
    below = f < 0.0
    divisor = where(below, (rest ^ ALL) + 1, rest) + (1 << 25)
    top, _, count = _shifted(rest, rest ^ rest, 23, (16, 8, 4, 2, 1))
    quotient, left = const(0, UINT32, x.shape), top
    for step in (8, 6, 6, 6, 6):
        left = left << step
        digit = UOp(Op.FLOORDIV, (left, divisor))
        quotient, left = (quotient << step) | digit, left - digit * divisor
    moved = bitcast(count, UINT32)
    s = quotient >> moved
    square = high_product(s, s)
    series = const(0, UINT32, x.shape)
    for coefficient in power.LOG2_SHORT:
        series = high_product(series, square) + round(coefficient * 2.0**30)
    fraction = high_product(quotient, series)
    high, low = fraction >> (moved + 6), fraction << (26 - moved)
    whole = cast(magnitude(k), UINT32)
    is_whole = equal_word(whole, 0) ^ True
    against = is_whole & UOp(Op.NE, (k < 0.0, below))
    there, under = _negated(high, low)
    high = where(against, there, high) + (whole << 24)
    low = where(against, under, low)
    word, _, digits = _shifted(high, low, 31, (16, 16, 8, 4, 2, 1))
    return where(is_whole, k < 0.0, below), word, digits


def _raise(positive: UOp, y: UOp) -> UOp:
    """x**y of a number that is not negative."""
    negative, word, digits = _log2(positive)
    size = bitcast(magnitude(y), UINT32)
    product = high_product(word, ((size & 0x7FFFFF) | 0x800000) << 8)
    digits = digits - bitcast(size >> 23, INT32) + (23 + 127)  # behind the point of the product
    overflows = (digits < 23) & (equal_word(word, 0) ^ True)
    digits = UOp(
        Op.MIN, (UOp(Op.MAX, (digits, const(23, INT32, y.shape))), const(60, INT32, y.shape))
    )
    has_whole = digits < 33
    shift = bitcast(digits, UINT32) & 31
    before = bitcast(UOp(Op.MIN, (digits, const(32, INT32, y.shape))) - 1, UINT32)
    n = where(has_whole, ((product >> before) + 1) >> 1, product ^ product)
    back = where(digits < 32, n << shift, n ^ n)
    rest = product - back
    r = where(has_whole, cast(bitcast(rest, INT32), FLOAT32), cast(rest, FLOAT32))
    r = r * power_of_two(-digits, FLOAT32)
    most = const(160, INT32, y.shape)
    whole = where(overflows, most, UOp(Op.MIN, (bitcast(n, INT32), most)))
    down = UOp(Op.NE, (negative, y < 0.0))
    whole, r = where(down, -whole, whole), where(down, -r, r)
    fraction = horner(r, (*exponential.EXP2[FLOAT32], 1.0))
    raised = UOp(Op.LDEXP, (fraction, whole), NEAR_ONE)
    grows = UOp(Op.EQ, (equal(positive, INFINITY), const(0.0, FLOAT32, y.shape) < y))
    is_end = equal(positive, 0.0) | equal(positive, INFINITY)
    raised = where(is_end, where(grows, const(INFINITY, FLOAT32, y.shape), 0.0), raised)
    return where(equal(positive, positive) & equal(y, y), raised, NAN)


def _pow(x: UOp, y: UOp) -> UOp:
    by_root = y.op is Op.CONST and float(y.arg.value) in power.HALVES
    return power.pow(x, y) if by_root else power.pow_of_any(x, y, _raise)


def _tail(x: UOp) -> UOp:
    """erfc of a number that is not negative."""
    middle = erf.ERFC_MIDDLE[FLOAT32]
    head = from_bits(bits(x) & -(1 << 12))
    q = (x - middle) / (x + middle)
    square = exponential.exp(-(head * head)) * exponential.exp((head - x) * (head + x))
    return horner(q, erf.ERFC[FLOAT32]) / (x + 1.0) * square


def _rest(x: UOp, y: UOp) -> UOp:
    """The remainder of x after whole multiples of y, with the sign of x."""
    words = [bitcast(magnitude(u), UINT32) for u in (x, y)]
    one = const(1, UINT32, x.shape)
    exponents = [bitcast(UOp(Op.MAX, (word >> 23, one)), INT32) for word in words]
    left, divisor = ((word & 0x7FFFFF) | (UOp(Op.MIN, (word >> 23, one)) << 23) for word in words)
    zero, most = const(0, INT32, x.shape), const(8, INT32, x.shape)
    for at in range(-8, remainder.QUOTIENT_BITS[FLOAT32], 8):
        count = UOp(Op.MIN, (UOp(Op.MAX, (exponents[0] - exponents[1] - at, zero)), most))
        left = left << (bitcast(count, UINT32) if at >= 0 else const(0, UINT32, x.shape))
        left = left - UOp(Op.FLOORDIV, (left, divisor)) * divisor
    size = cast(left, FLOAT32) * 2.0**-23 * power_of_two(exponents[1] - 127, FLOAT32)
    is_number = (magnitude(x) < INFINITY) & (magnitude(y) > 0.0)
    return where(is_number, from_bits(bits(size) | (bits(x) & -(1 << 31))), NAN)


def fma(x: UOp, y: UOp, z: UOp) -> UOp:
    """``x * y + z`` with the errors of the product and of the sum, which are added last."""
    (x_high, x_low), (y_high, y_low) = (
        (head, u - head) for u in (x, y) for head in [from_bits(bits(u) & -(1 << 12))]
    )
    product = x * y
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    total, rest = two_sum(product, z)
    exact = total + (rest + error)
    return where(magnitude(exact) < INFINITY, exact, total)


RULES: dict[Op, Callable[..., UOp]] = {
    Op.SIN: lambda x: trigonometric.signed_sine(x, 0, _of_angle),
    Op.COS: lambda x: trigonometric.signed_sine(x, 1, _of_angle),
    Op.TAN: lambda x: trigonometric.tan(x, _of_angle),
    Op.POW: _pow,
    Op.ERFC: lambda x: erf.from_tail(x, _tail),
    Op.MOD: lambda x, y: remainder.of_rest(x, y, _rest(x, y)),
}
"""The rule of each op whose own one has numbers of 64 bits."""


def narrowed(root: UOp) -> UOp:
    """The same graph, in which no function of float32 or a shorter type has numbers of 64 bits."""

    def rule(u: UOp) -> UOp:
        if u.op not in RULES or u.dtype not in (FLOAT32, FLOAT16, BFLOAT16):
            return u
        return cast(RULES[u.op](*(cast(s, FLOAT32) for s in u.src)), u.dtype)

    return _rewritten(root, rule)


def decomposed(root: UOp, lacks: frozenset[Op]) -> UOp:
    """The same graph in basic ops of 32 bits; a missing `FMA` of float32 is `fma`."""
    missing = lacks & {Op.FMA}
    made = decompose([narrowed(root)], lacks - missing)[0]
    return _rewritten(made, lambda u: fma(*u.src) if u.op in missing else u)


def _rewritten(root: UOp, rule: Callable[[UOp], UOp]) -> UOp:
    new: dict[UOp, UOp] = {}
    for u in walk([root]):
        sources = tuple(new[s] for s in u.src)
        new[u] = rule(u if sources == u.src else rebuild(u, sources))
    return new[root]
