"""Rounding to integers, powers of two, and fused multiply-add, for those who have no instruction.

Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms
using rounding to odd", IEEE Transactions on Computers 57(4), 2008.
"""

from __future__ import annotations

from tfn.dtypes import BOOL, FLOAT32, FLOAT64, INT64
from tfn.lower.math.floats import (
    FORMATS,
    bits,
    equal,
    magnitude,
    power_of_two,
    unbits,
    where,
    with_sign,
)
from tfn.trace.build import cast
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

SPLITTER = 2.0**27 + 1


def nearest(x: UOp) -> UOp:
    """The nearest integer, half to even: numbers this large have no room for a fraction."""
    large = 2.0 ** FORMATS[x.dtype].fraction
    size = magnitude(x)
    return where(size < large, with_sign((size + large) - large, x), x)


def floor(x: UOp) -> UOp:
    """The largest integer that is not above."""
    near = nearest(x)
    return where(x < near, near - 1.0, near)


def ceil(x: UOp) -> UOp:
    """The smallest integer that is not below; what comes up to zero keeps its sign."""
    near = nearest(x)
    return where(near < x, with_sign(magnitude(near + 1.0), x), near)


def ldexp(x: UOp, n: UOp) -> UOp:
    """``x * 2**n`` for x about 1, in two halves: the first is exact, so it is rounded once.

    2**n need not be a number of the dtype, but that of its halves must.
    """
    half = n >> 1
    return x * power_of_two(half, x.dtype) * power_of_two(n - half, x.dtype)


def fma(x: UOp, y: UOp, z: UOp) -> UOp:
    """``x * y + z``, rounded once.

    The product of float32 is exact in float64; that of float64 is two numbers.  What a sum loses is
    kept as an odd last bit, so that the next rounding knows of it.  In float64 this holds where
    the product is neither near the largest number nor below 2^-969.
    """
    if x.dtype == FLOAT32:
        total, lost = _two_sum(cast(x, FLOAT64) * cast(y, FLOAT64), cast(z, FLOAT64))
        return cast(_odd(total, lost), FLOAT32)
    high, low = _two_product(x, y)
    rest, lowest = _two_sum(z, low)
    first, second = _two_sum(high, rest)
    exact = first + _odd(*_two_sum(second, lowest))
    plain = x * y + z
    tame = magnitude(exact) < float("inf")
    return where(tame, where(equal(exact, 0.0), plain, exact), plain)  # for the sign of 0.0


def _two_sum(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """A sum, and what it lost."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _two_product(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """A product of float64, and what it lost."""
    total = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    lost = ((a_high * b_high - total) + a_high * b_low) + a_low * b_high
    return total, lost + a_low * b_low


def _halves(x: UOp) -> tuple[UOp, UOp]:
    scaled = x * SPLITTER
    high = scaled - (scaled - x)
    return high, x - high


def _odd(total: UOp, lost: UOp) -> UOp:
    """A sum whose last bit is odd if anything was lost: rounded towards zero, or away from it."""
    word = bits(total)
    even = equal(word & 1, const(0, INT64, total.shape))
    some = UOp(Op.AND, (UOp(Op.NE, (lost, const(0.0, FLOAT64, total.shape))), even))
    some = UOp(Op.AND, (some, magnitude(total) < float("inf")))
    outward = UOp(Op.EQ, (lost < 0.0, total < 0.0))
    step = where(outward, const(1, INT64, total.shape), const(-1, INT64, total.shape))
    assert some.dtype == BOOL
    return unbits(where(some, word + step, word))
