"""Building blocks of elementary functions: Horner's scheme by FMA, sums in two parts, float bits.

All of them take nodes of any shape, of float32 or float64; tables of coefficients are keyed by
dtype.  WHERE chooses between values that are both computed; only `rarely` may become a branch.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn._support.frozen import frozen
from tfn.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    SIGNED,
    UINT32,
    UINT64,
    DType,
)
from tfn.trace.argument import Likelihood
from tfn.trace.build import bitcast, cast
from tfn.trace.casts import BITS_LOST_FROM_FLOAT64
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

INFINITY, NAN = float("inf"), float("nan")
Coefficients = dict[DType, tuple[float, ...]]
"""The coefficients of a polynomial for each dtype, from the highest power to the constant."""


@frozen
class Format:
    """The layout of a floating dtype.

    Attributes:
        word: the signed integer of the same width.
        fraction: the number of stored bits of the mantissa.
        one: the bits of 1.0.
        magic: 1.5 * 2**fraction.  The sum with it is rounded to an integer, whose bits are then
            the low bits of the sum: cheaper than a conversion, and NaN stays NaN.
        tiny: the smallest normal number.
        negligible: for smaller x, ``1 + x`` is 1 and ``x * (1 + x)`` is x.
    """

    word: DType
    fraction: int
    one: int
    magic: float
    tiny: float
    negligible: float


FORMATS = {
    FLOAT32: Format(INT32, 23, 127 << 23, 1.5 * 2.0**23, 2.0**-126, 2.0**-25),
    FLOAT64: Format(INT64, 52, 1023 << 52, 1.5 * 2.0**52, 2.0**-1022, 2.0**-54),
}


def format_of(x: UOp) -> Format:
    """The format of a node's dtype."""
    return FORMATS[x.dtype]


def fma(x: UOp, y: UOp | float, z: UOp | float) -> UOp:
    """``x * y + z``, rounded once."""
    y = y if isinstance(y, UOp) else const(y, x.dtype, x.shape)
    z = z if isinstance(z, UOp) else const(z, x.dtype, x.shape)
    return UOp(Op.FMA, (x, y, z))


def horner(x: UOp, coefficients: Sequence[UOp | float]) -> UOp:
    """A polynomial by Horner's scheme, its coefficients from the highest power to the constant."""
    first, *rest = coefficients
    value = first if isinstance(first, UOp) else const(first, x.dtype, x.shape)
    for coefficient in rest:
        value = fma(value, x, coefficient)
    return value


def where(condition: UOp, x: UOp | float, y: UOp | float) -> UOp:
    """`x` where the condition holds, else `y`; one of them must be a node."""
    like = x if isinstance(x, UOp) else y
    assert isinstance(like, UOp)
    return UOp(
        Op.WHERE,
        (
            condition,
            x if isinstance(x, UOp) else const(x, like.dtype, like.shape),
            y if isinstance(y, UOp) else const(y, like.dtype, like.shape),
        ),
    )


def rarely(condition: UOp, x: UOp, y: UOp) -> UOp:
    """`where` for a condition that hardly ever holds: `x` is computed only if it does in a lane."""
    return UOp(Op.WHERE, (condition, x, y), Likelihood.RARE)


def equal(x: UOp, y: UOp | float) -> UOp:
    """Whether the values are equal."""
    return UOp(Op.EQ, (x, y if isinstance(y, UOp) else const(y, x.dtype, x.shape)))


def at_least(x: UOp, low: float) -> UOp:
    """The larger of x and a constant; NaN stays."""
    return UOp(Op.MAX, (x, const(low, x.dtype, x.shape)))


def at_most(x: UOp, high: float) -> UOp:
    """The smaller of x and a constant; NaN stays."""
    return UOp(Op.MIN, (x, const(high, x.dtype, x.shape)))


def magnitude(x: UOp) -> UOp:
    """The absolute value."""
    return UOp(Op.ABS, (x,))


def sqrt_of(x: UOp) -> UOp:
    """The square root."""
    return UOp(Op.SQRT, (x,))


def nearest(x: UOp) -> UOp:
    """The nearest integer, half to even."""
    return UOp(Op.ROUND, (x,))


def bits(x: UOp) -> UOp:
    """The bits of a float as a signed integer."""
    return bitcast(x, format_of(x).word)


def from_bits(i: UOp) -> UOp:
    """The float that has the bits `i`."""
    return bitcast(i, FLOAT32 if i.dtype == INT32 else FLOAT64)


def power_of_two(i: UOp, dtype: DType) -> UOp:
    """2**i of an integer node, of which only the low bits count: 8 for float32, 11 for float64."""
    layout = FORMATS[dtype]
    return from_bits((i << layout.fraction) + layout.one)


def sign_bit(i: UOp) -> UOp:
    """The sign bit of an integer or of the bits of a float, at its position; all others cleared."""
    return i & -(1 << (8 * i.dtype.itemsize - 1))


def with_sign(positive: UOp, x: UOp) -> UOp:
    """A value that is not negative, with the sign of x."""
    return from_bits(bits(positive) | sign_bit(bits(x)))


def keep_negligible(x: UOp, y: UOp) -> UOp:
    """`y`, but x itself where x is negligible: this keeps -0.0 and denormal numbers."""
    return where(magnitude(x) < format_of(x).negligible, x, y)


def two_sum(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """A sum and its rounding error, which is a float.

    Source: D. E. Knuth, The Art of Computer Programming, volume 2, 4.2.2, theorem B.
    """
    total = a + b
    addend = total - a
    return total, (a - (total - addend)) + (b - addend)


HELD_BY = {INT32: (FLOAT32, 24), UINT32: (FLOAT32, 24), INT64: (FLOAT64, 53), UINT64: (FLOAT64, 53)}
"""The floats of as many bits as an integer, and the bits that they hold of it."""


def nearby(x: UOp, dtype: DType) -> UOp:
    """A number as a float32 that rounds to a shorter dtype as the number does; see `trace.casts`.

    What float32 does not hold gets an odd last bit, by which no tie is seen where there is none.
    """
    if x.dtype in HELD_BY and dtype != FLOAT16:  # in which large ones are infinite, others exact
        held, digits = HELD_BY[x.dtype]
        width = 8 * x.dtype.itemsize
        high = UOp(Op.SHR, (x, const(digits, x.dtype, x.shape)))
        if x.dtype in SIGNED:  # of numbers below 2**digits the bits above are equal
            high = UOp(Op.XOR, (high, UOp(Op.SHR, (x, const(width - 1, x.dtype, x.shape)))))
        large = UOp(Op.NE, (high, const(0, x.dtype, x.shape)))
        x = cast(where(large, _odd(x, width - digits), x), held)
    if x.dtype != FLOAT64:
        return cast(x, FLOAT32)
    near = from_bits(_odd(bits(x), BITS_LOST_FROM_FLOAT64))
    if dtype == BFLOAT16:  # whose subnormal numbers are those of float32
        small = UOp(Op.ROUND, (x * 2.0**133,)) * 2.0**-133
        near = where(magnitude(x) < 2.0**-126, small, near)
    return cast(near, FLOAT32)


def _odd(word: UOp, count: int) -> UOp:
    """An integer without its last bits; the one before is set if any of these was."""
    low = word & ((1 << count) - 1)
    some = UOp(Op.NE, (low, const(0, word.dtype, word.shape)))
    last = where(some, const(1 << count, word.dtype, word.shape), const(0, word.dtype, word.shape))
    return (word - low) | last


def divide(x: float, y: UOp) -> UOp:
    """A constant divided by a node."""
    return const(x, y.dtype, y.shape) / y
