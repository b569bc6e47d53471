"""Emulated instructions: rounding, ldexp, FMA, 64-bit conversions for targets that have none.

Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms
using rounding to odd", IEEE Transactions on Computers 57(4), 2008.
"""

from __future__ import annotations

import numpy as np

from tfn.dtypes import BOOL, FLOAT32, FLOAT64, FLOATS, INT64, UINT64, DType
from tfn.lower.math.floats import (
    FORMATS,
    bits,
    equal,
    from_bits,
    magnitude,
    power_of_two,
    two_sum,
    where,
    with_sign,
)
from tfn.trace.build import bitcast, cast
from tfn.trace.op import NEAR_ONE, Op
from tfn.trace.uop import UOp, const

SPLITTER = 2.0**27 + 1
"""The factor that splits a float64 into halves of 26 bits, whose products are exact (Veltkamp)."""

SPLITTABLE = 2.0**995
"""The product of a larger float64 and `SPLITTER` may overflow."""


def nearest(x: UOp) -> UOp:
    """The nearest integer, half to even."""
    # The sum with 2**fraction has no bits left for a fraction: the addition rounds it away.
    large = 2.0 ** FORMATS[x.dtype].fraction
    size = magnitude(x)
    return where(size < large, with_sign((size + large) - large, x), x)


def floor(x: UOp) -> UOp:
    """The largest integer that is not above x."""
    near = nearest(x)
    return where(x < near, near - 1.0, near)


def ceil(x: UOp) -> UOp:
    """The smallest integer that is not below x; -0.5 becomes -0.0."""
    near = nearest(x)
    return where(near < x, with_sign(magnitude(near + 1.0), x), near)


def ldexp(x: UOp, n: UOp, arg: object = None) -> UOp:
    """``x * 2**n``, rounded once, by factors that are normal numbers.

    Near one, two factors suffice: the first product is exact.  Else the excess of n over the
    range of exponents is applied first: that product is exact, or the result is zero or infinite.
    """
    if arg == NEAR_ONE:
        # The bias of both exponents, added once: halves of n + 2 bias are exponents as stored.
        layout = FORMATS[x.dtype]
        biased = _plus(n, 2 * (layout.one >> layout.fraction))
        half = biased >> 1
        first, second = (from_bits(e << layout.fraction) for e in (half, biased - half))
        return x * first * second
    last, excess = _split_exponent(n, x.dtype)
    second, third = _split_exponent(excess, x.dtype)
    # A third excess leaves no bit of any number, or infinity: it is dropped.
    first = _split_exponent(third, x.dtype)[0]
    for exponent in (first, second, last):
        x = x * power_of_two(exponent, x.dtype)
    return x


def _plus(n: UOp, addend: int) -> UOp:
    """A sum with a constant, which joins one that n subtracts."""
    if n.op is Op.SUB and n.src[1].op is Op.CONST:
        return n.src[0] - (int(n.src[1].arg.value) - addend)
    return n + addend


def _split_exponent(n: UOp, dtype: DType) -> tuple[UOp, UOp]:
    """The exponent of the normal number nearest to 2**n, and the rest of n."""
    layout = FORMATS[dtype]
    bias = layout.one >> layout.fraction
    limits = [const(limit, n.dtype, n.shape) for limit in (1 - bias, bias)]
    near = UOp(Op.MIN, (UOp(Op.MAX, (n, limits[0])), limits[1]))
    return near, n - near


def convert(x: UOp, dtype: DType) -> UOp:
    """A cast, of floats to 64-bit integers by arithmetic: truncated, saturated, NaN to 0.

    A whole number is ``2**32 * high + low``; both halves are the low bits of their sums with
    `Format.magic`, and all steps but the sum that rounds to `high` are exact.  AVX2 has no vectors
    of such conversions: 42 by 1,500 float32 took 57 us by scalar ones, and take 37 so.
    """
    if dtype not in (INT64, UINT64) or x.dtype not in FLOATS:
        return cast(x, dtype)
    x, info, layout = cast(x, FLOAT64), np.iinfo(dtype), FORMATS[FLOAT64]
    least, magic = const(float(info.min), FLOAT64, x.shape), layout.magic
    inside = where(x > least, x, least)  # NaN becomes the least
    whole = with_sign(UOp(Op.FLOOR, (magnitude(inside),)), inside)
    upper = whole * 2.0**-32 + magic
    lower = (whole - (upper - magic) * 2.0**32) + magic
    magic_bits = int(np.float64(magic).view(np.int64))
    # The bits of the magic number leave the upper half by the shift.
    value = bitcast((bits(upper) << 32) + (bits(lower) - magic_bits), dtype)
    most = where(equal(x, x), const(int(info.max), dtype, x.shape), const(0, dtype, x.shape))
    return where(x < 2.0 ** int(info.max).bit_length(), value, most)


def fma(x: UOp, y: UOp, z: UOp) -> UOp:
    """``x * y + z``, rounded once.

    The product of float32 is exact in float64; that of float64 is a sum of two numbers.  Sums round
    to odd: an inexact one gets an odd last bit, so that the next rounding is not misled by a tie.
    In float64 this holds where the product is neither near the largest number nor below 2**-969.
    """
    if x.dtype == FLOAT32:
        total, error = two_sum(cast(x, FLOAT64) * cast(y, FLOAT64), cast(z, FLOAT64))
        return cast(_round_to_odd(total, error), FLOAT32)
    high, low = _two_product(*_splittable(x, y))
    rest, lowest = two_sum(z, low)
    first, second = two_sum(high, rest)
    exact = first + _round_to_odd(*two_sum(second, lowest))
    # Two roundings where the halves overflow, and for the sign of a zero result.
    twice_rounded = x * y + z
    is_finite = magnitude(exact) < float("inf")
    return where(is_finite, where(equal(exact, 0.0), twice_rounded, exact), twice_rounded)


def _splittable(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """Factors of the same product of which neither is above `SPLITTABLE`, if there are any."""
    down, up = 2.0**-64, const(2.0**64, FLOAT64, a.shape)
    from_b = where(magnitude(b) > SPLITTABLE, up, 1.0)
    scale = where(magnitude(a) > SPLITTABLE, down, from_b)
    from_a = where(magnitude(a) > SPLITTABLE, up, 1.0)
    return a * scale, b * where(magnitude(b) > SPLITTABLE, down, from_a)


def _two_product(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """A product of float64 and its rounding error, which is a float64 (Dekker 1971)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = ((a_high * b_high - product) + a_high * b_low) + a_low * b_high
    return product, error + a_low * b_low


def _halves(x: UOp) -> tuple[UOp, UOp]:
    """A float64 as the sum of two of 26 bits."""
    scaled = x * SPLITTER
    high = scaled - (scaled - x)
    return high, x - high


def _round_to_odd(total: UOp, error: UOp) -> UOp:
    """A rounded sum, moved to its neighbour with an odd last bit on the side of its error."""
    word = bits(total)
    even = equal(word & 1, const(0, INT64, total.shape))
    moves = UOp(Op.AND, (UOp(Op.NE, (error, const(0.0, FLOAT64, total.shape))), even))
    moves = UOp(Op.AND, (moves, magnitude(total) < float("inf")))
    # Bits grow with the absolute value: away from zero is one more, whatever the sign.
    away_from_zero = UOp(Op.EQ, (error < 0.0, total < 0.0))
    step = where(away_from_zero, const(1, INT64, total.shape), const(-1, INT64, total.shape))
    assert moves.dtype == BOOL
    return from_bits(where(moves, word + step, word))
