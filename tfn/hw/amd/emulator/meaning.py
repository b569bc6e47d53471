"""Meanings of instructions as UOps: functions of the values of operands.

A value has the shape () in scalar instructions, and one element for each lane in vector ones; the
functions do not ask which.  What an instruction writes beside its destination, a carry or the
condition code, is a second value.

Source: RDNA3 instruction set architecture, chapter 16.  Bits that it leaves open (of reciprocals
and square roots, which have one unit in the last place) are those of the rounded exact value.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tfn.dtypes import FLOAT16, FLOAT32, FLOAT64, DType
from tfn.extend import Op, UOp, build, const

U16, U32, U64 = (np.dtype(f"uint{n}") for n in (16, 32, 64))
I8, I16, I32, I64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
bitcast, cast, eq, ne, where = build.bitcast, build.cast, build.eq, build.ne, build.where
maximum, minimum = build.maximum, build.minimum
Meaning = Callable[..., UOp | tuple[UOp, UOp]]
Pair = tuple[UOp, UOp]
LANES = 8
"""Lanes that are computed together: vectors of 32 bytes."""


def number(x: UOp, value: float, dtype: DType | None = None) -> UOp:
    """A constant with the shape of a value, and its dtype unless another is given."""
    return const(value, dtype or x.dtype, x.shape)


def converted(dtype: DType) -> Meaning:
    """A conversion; of a float to an integer truncated and saturated, NaN to 0."""
    return lambda x: cast(x, dtype)


def unary(op: Op) -> Meaning:
    """An op of one operand."""
    return lambda x: UOp(op, (x,))


def reverse(f: Meaning) -> Meaning:
    """A function of two operands in the other order."""
    return lambda a, b: f(b, a)


def then(f: Meaning, g: Meaning) -> Meaning:
    """A function of two operands, and another of its value and a third operand."""
    return lambda a, b, c: g(f(a, b), c)


def without(a: UOp, b: UOp) -> UOp:
    """The bits of a word that another one has not."""
    return a & ~b


def or_not(a: UOp, b: UOp) -> UOp:
    """The bits of a word, and those that another one has not."""
    return a | ~b


def inverted(f: Meaning) -> Meaning:
    """The complement of a function of two operands."""
    return lambda a, b: ~one(f(a, b))


def one(value: UOp | Pair) -> UOp:
    """The value of a function that has no second one."""
    assert isinstance(value, UOp)
    return value


def same(x: UOp) -> UOp:
    """The operand."""
    return x


def fused(a: UOp, b: UOp, c: UOp) -> UOp:
    """``a * b + c``, rounded once."""
    if a.dtype == FLOAT16:  # in float64 the product is exact
        wide = UOp(Op.FMA, tuple(cast(x, FLOAT64) for x in (a, b, c)))
        return cast(wide, FLOAT16)
    return UOp(Op.FMA, (a, b, c))


def fused_middle(a: UOp, k: UOp, b: UOp) -> UOp:
    """``a * k + b``: the constant is the second operand."""
    return fused(a, k, b)


def mixed(dtype: DType) -> Meaning:
    """A fused multiply-add of halves and floats, as floats, and its value rounded."""

    def meaning(*operands: UOp) -> UOp:
        return cast(UOp(Op.FMA, tuple(cast(x, FLOAT32) for x in operands)), dtype)

    return meaning


# Shifts: counts are taken modulo the width.


def _count(count: UOp, x: UOp) -> UOp:
    return cast(count, x.dtype) & (8 * x.dtype.itemsize - 1)


def left(x: UOp, count: UOp) -> UOp:
    """A shift to the left."""
    return x << _count(count, x)


def right(x: UOp, count: UOp) -> UOp:
    """A shift to the right: of the sign, if there is one."""
    return x >> _count(count, x)


def left_add(x: UOp, count: UOp, y: UOp) -> UOp:
    """A shifted word and another one."""
    return left(x, count) + y


def left_or(x: UOp, count: UOp, y: UOp) -> UOp:
    """The bits of a shifted word and of another one."""
    return left(x, count) | y


def add_left(x: UOp, y: UOp, count: UOp) -> UOp:
    """A sum, shifted."""
    return left(x + y, count)


def align_bits(high: UOp, low: UOp, count: UOp) -> UOp:
    """Two words shifted right."""
    return cast(join(low, high) >> cast(count & 31, U64), U32)


def align_bytes(high: UOp, low: UOp, count: UOp) -> UOp:
    """Two words shifted right by bytes."""
    return cast(join(low, high) >> cast((count & 3) * 8, U64), U32)


def field(x: UOp, offset: UOp, width: UOp) -> UOp:
    """A field of bits, whose sign is extended if the value has one."""
    bits = 8 * x.dtype.itemsize
    offset, width = (cast(n, x.dtype) & (bits - 1) for n in (offset, width))
    moved = x >> offset
    lost = (bits - width) & (bits - 1)
    return where(eq(width, number(width, 0)), number(x, 0), (moved << lost) >> lost)


def scalar_field(x: UOp, place: UOp) -> UOp:
    """The field that a word describes: its offset, and its width from bit 16."""
    bits = 8 * x.dtype.itemsize
    width = (place >> 16) & 127
    whole = width >= bits
    taken = field(x, place & (bits - 1), width & (bits - 1))
    return where(whole, x >> cast(place & (bits - 1), x.dtype), taken)


def insert(mask: UOp, a: UOp, b: UOp) -> UOp:
    """Bits of one word where the mask has ones, of the other elsewhere."""
    return (mask & a) | (~mask & b)


def field_mask(width: UOp, offset: UOp) -> UOp:
    """Ones of a width from an offset."""
    return ((number(width, 1) << (width & 31)) - 1) << (offset & 31)


def field_mask_64(width: UOp, offset: UOp) -> UOp:
    """The same in 64 bits."""
    ones = (number(width, 1, U64) << cast(width & 63, U64)) - 1
    return ones << cast(offset & 63, U64)


# Words and halves.


def join(low: UOp, high: UOp) -> UOp:
    """Two words as one of 64 bits."""
    return cast(low, U64) | (cast(high, U64) << 32)


def wide_product(a: UOp, b: UOp) -> UOp:
    """The product in twice the bits."""
    wide = I64 if a.dtype.kind == "i" else U64
    return cast(a, wide) * cast(b, wide)


def high_product(a: UOp, b: UOp) -> UOp:
    """The upper half of a product."""
    return cast(wide_product(a, b) >> 32, a.dtype)


def short(x: UOp) -> UOp:
    """The lowest 24 bits of a word, with their sign if it has one."""
    return (x << 8) >> 8


def short_product(a: UOp, b: UOp) -> UOp:
    """A product of 24 bits each."""
    return short(a) * short(b)


def short_high_product(a: UOp, b: UOp) -> UOp:
    """Its upper half."""
    return high_product(short(a), short(b))


def multiply_add(a: UOp, b: UOp, c: UOp) -> UOp:
    """``a * b + c``."""
    return a * b + c


def short_multiply_add(a: UOp, b: UOp, c: UOp) -> UOp:
    """The same of factors of 24 bits."""
    return short_product(a, b) + c


def half_multiply_add(a: UOp, b: UOp, c: UOp) -> UOp:
    """The same of factors of 16 bits."""
    return cast(a, c.dtype) * cast(b, c.dtype) + c


def wide_multiply_add(a: UOp, b: UOp, c: UOp) -> Pair:
    """``a * b + c`` in 64 bits, and whether it passes them."""
    product = wide_product(a, b)
    total = product + c
    if c.dtype.kind == "i":
        return total, ((product ^ total) & (c ^ total)) < 0
    return total, total < product


def packed(low: UOp, high: UOp) -> UOp:
    """Two halves as a word."""
    low, high = (bitcast(x, U16) for x in (low, high))
    return cast(low, U32) | (cast(high, U32) << 16)


def scalar_packed(first: int, second: int) -> Meaning:
    """A word of halves of two others, from these bits."""
    return lambda a, b: ((a >> first) & 0xFFFF) | ((b >> second) << 16)


def permuted(high: UOp, low: UOp, selector: UOp) -> UOp:
    """Bytes of two words, each by a byte of a third: a byte, a sign, zeros or ones."""
    data, result = join(low, high), number(low, 0)
    for i in range(4):
        s = (selector >> 8 * i) & 0xFF
        picked = cast(data >> cast((s & 7) * 8, U64), U32) & 0xFF
        # 8 to 11: the sign of byte 1, 3, 5 or 7.
        at = cast(((s & 3) * 2 + 1) * 8 + 7, U64)
        sign = cast((data >> at) & 1, U32) * 0xFF
        constant = where(s >= 13, number(s, 0xFF), number(s, 0))
        byte = where(s < 8, picked, where(s < 12, sign, constant))
        result = result | (byte << 8 * i)
    return result


def unsigned_byte(i: int) -> Meaning:
    """Byte i of a word as a float."""
    return lambda x: cast((x >> 8 * i) & 0xFF, FLOAT32)


def sign_extended(dtype: DType) -> Meaning:
    """The lowest bits of a word with their sign."""
    return lambda x: cast(cast(x, dtype), I32)


def distance(a: UOp, b: UOp) -> UOp:
    """The magnitude of a difference."""
    return where(a < b, b - a, a - b)


def distance_add(a: UOp, b: UOp, c: UOp) -> UOp:
    """A distance and another number."""
    return distance(a, b) + c


# Bits.


def ones(x: UOp) -> UOp:
    """The number of ones in a word or two."""
    wide = x.dtype.itemsize == 8
    a, b, c = 0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F
    top, step = (56, 0x0101010101010101) if wide else (24, 0x01010101)
    a, b, c = (m if wide else m & 0xFFFFFFFF for m in (a, b, c))
    x = x - ((x >> 1) & a)
    x = (x & b) + ((x >> 2) & b)
    x = (x + (x >> 4)) & c
    return cast((x * step) >> top, I32)


def ones_plus(x: UOp, y: UOp) -> UOp:
    """The number of ones, and another number."""
    return cast(ones(x), U32) + y


def zeros(x: UOp) -> UOp:
    """The number of zeros."""
    return ones(~x)


def reversed_bits(x: UOp) -> UOp:
    """The bits in the other order."""
    bits = 8 * x.dtype.itemsize
    step, mask = 1, (1 << bits) - 1
    while step < bits:
        low = mask // ((1 << 2 * step) - 1) * ((1 << step) - 1)
        x = ((x >> step) & low) | ((x & low) << step)
        step *= 2
    return x


def leading_zeros(x: UOp) -> UOp:
    """The zeros above the highest one; -1 if there is none."""
    bits, y = 8 * x.dtype.itemsize, x
    for step in (1, 2, 4, 8, 16, 32):
        if step < bits:
            y = y | (y >> step)
    count = number(x, bits, I32) - ones(y)
    return where(eq(x, number(x, 0)), number(count, -1), count)


def trailing_zeros(x: UOp) -> UOp:
    """The zeros below the lowest one; -1 if there is none."""
    count = ones(~x & (x - 1))
    return where(eq(x, number(x, 0)), number(count, -1), count)


def leading_signs(x: UOp) -> UOp:
    """The bits at the top that are equal; -1 if all are."""
    flipped = x ^ (x >> (8 * x.dtype.itemsize - 1))
    return leading_zeros(bitcast(flipped, U64 if x.dtype.itemsize == 8 else U32))


def masked_ones(mask: UOp, start: UOp) -> UOp:
    """The ones of a mask below the bit of the lane, and a word."""
    lane = cast(UOp(Op.LANES, (), LANES), U32)
    below = (number(lane, 1) << lane) - 1
    return cast(ones(mask & below), U32) + start


def bit_set(one: bool) -> Meaning:
    """The destination with a bit that is set, or cleared."""

    def meaning(index: UOp, before: UOp) -> UOp:
        bit = number(before, 1) << _count(index, before)
        return before | bit if one else before & ~bit

    return meaning


def bit_test(one: bool) -> Meaning:
    """Whether a bit is set, or clear."""
    return lambda x, index: eq((x >> _count(index, x)) & 1, number(x, int(one)))


# Carries, overflows, and the condition code.


def add_carry(a: UOp, b: UOp) -> Pair:
    """A sum, and its carry."""
    total = a + b
    return total, total < a


def subtract_borrow(a: UOp, b: UOp) -> Pair:
    """A difference, and its borrow."""
    return a - b, a < b


def add_with_carry(a: UOp, b: UOp, carry: UOp) -> Pair:
    """A sum with a carry, and its own."""
    total = cast(a, U64) + cast(b, U64) + cast(carry, U64)
    return cast(total, U32), total > 0xFFFFFFFF


def subtract_with_borrow(a: UOp, b: UOp, borrow: UOp) -> Pair:
    """A difference with a borrow, and its own."""
    other = cast(b, U64) + cast(borrow, U64)
    return a - b - cast(borrow, U32), cast(a, U64) < other


def subtract_from_with_borrow(a: UOp, b: UOp, borrow: UOp) -> Pair:
    """The same of the other operand."""
    return subtract_with_borrow(b, a, borrow)


def add_overflow(a: UOp, b: UOp) -> Pair:
    """A sum, and whether its sign is wrong."""
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


def subtract_overflow(a: UOp, b: UOp) -> Pair:
    """A difference, and whether its sign is wrong."""
    result = a - b
    return result, ((a ^ b) & (a ^ result)) < 0


def shift_add(count: int) -> Meaning:
    """A shifted word and another, and whether they pass 32 bits."""

    def meaning(a: UOp, b: UOp) -> Pair:
        total = (cast(a, U64) << count) + cast(b, U64)
        return cast(total, U32), total > 0xFFFFFFFF

    return meaning


def nonzero(f: Meaning) -> Meaning:
    """A function, and whether its value has a bit."""

    def meaning(*operands: UOp) -> Pair:
        value = one(f(*operands))
        return value, ne(value, number(value, 0))

    return meaning


def magnitude(x: UOp) -> UOp:
    """The magnitude of an integer."""
    return where(x < 0, -x, x)


def scalar_distance(a: UOp, b: UOp) -> UOp:
    """The magnitude of a difference that may have overflowed."""
    return magnitude(a - b)


def chosen(op: Op) -> Meaning:
    """The smaller or larger operand, and whether it is the first."""

    def meaning(a: UOp, b: UOp) -> Pair:
        first = a < b if op is Op.MIN else b <= a
        return where(first, a, b), first

    return meaning


def selected(a: UOp, b: UOp, condition: UOp) -> UOp:
    """The second operand where a condition holds."""
    return where(condition, b, a)


def first_if(a: UOp, b: UOp, condition: UOp) -> UOp:
    """The first operand where a condition holds."""
    return where(condition, a, b)
