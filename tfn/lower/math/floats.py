"""What the functions are built of: constants, chains of FMA, and the bits of a float.

Everything works on nodes of any shape and on float32 and float64 alike; tables of coefficients
are keyed by dtype.  Nothing branches: WHERE chooses between values that are both computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn._support.frozen import frozen
from tfn.dtypes import FLOAT32, FLOAT64, INT32, INT64, DType
from tfn.trace.build import bitcast
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

INFINITY, NAN = float("inf"), float("nan")
Coefficients = dict[DType, tuple[float, ...]]


@frozen
class Format:
    """The layout of a floating dtype.

    Attributes:
        word: the signed integer of the same width.
        fraction: how many bits of fraction are stored.
        one: the bits of 1.0.
        magic: 1.5 * 2**fraction.  Adding it rounds to an integer, which then stands in the low
            bits: cheaper than a conversion, and NaN stays NaN.
        tiny: the smallest normal number.
        negligible: below it, ``1 + x`` is 1 and ``x * (1 + x)`` is x.
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


def form(x: UOp) -> Format:
    """The layout of a node's dtype."""
    return FORMATS[x.dtype]


def fma(x: UOp, y: UOp | float, z: UOp | float) -> UOp:
    """``x * y + z``, rounded once."""
    y = y if isinstance(y, UOp) else const(y, x.dtype, x.shape)
    z = z if isinstance(z, UOp) else const(z, x.dtype, x.shape)
    return UOp(Op.FMA, (x, y, z))


def horner(x: UOp, coefficients: Sequence[UOp | float]) -> UOp:
    """A polynomial, its coefficients given from the highest power to the constant."""
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


def root(x: UOp) -> UOp:
    """The square root."""
    return UOp(Op.SQRT, (x,))


def nearest(x: UOp) -> UOp:
    """The nearest integer, half to even."""
    return UOp(Op.ROUND, (x,))


def bits(x: UOp) -> UOp:
    """The bits of a float as a signed integer."""
    return bitcast(x, form(x).word)


def unbits(i: UOp) -> UOp:
    """The float that has the bits `i`."""
    return bitcast(i, FLOAT32 if i.dtype == INT32 else FLOAT64)


def power_of_two(i: UOp, dtype: DType) -> UOp:
    """2**i of an integer node, of which only the low bits count (8 for float32, 11)."""
    layout = FORMATS[dtype]
    return unbits((i << layout.fraction) + layout.one)


def top_bit(i: UOp) -> UOp:
    """An integer with all bits cleared but the one where a float has its sign."""
    return i & -(1 << (8 * i.dtype.itemsize - 1))


def with_sign(positive: UOp, x: UOp) -> UOp:
    """The value, which must not be negative, with the sign of x."""
    return unbits(bits(positive) | top_bit(bits(x)))


def keep_tiny(x: UOp, y: UOp) -> UOp:
    """`y`, but x itself where x is negligible: keeps -0.0 and denormal numbers."""
    return where(magnitude(x) < form(x).negligible, x, y)


def divide(x: float, y: UOp) -> UOp:
    """A constant divided by a node."""
    return const(x, y.dtype, y.shape) / y
