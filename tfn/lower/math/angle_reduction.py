"""Argument reduction modulo pi / 2 (Payne-Hanek), exact for arguments of any size.

The fraction of 2 x / pi modulo 4 needs many digits, however large x is.  Of the binary digits of
2 / pi only a window matters: those before it make multiples of 4, those behind it are too small.
float32: x is classified by size; each class has its window, cut into pieces short enough that the
products with x are exact, and WHERE selects the pieces.  float64: a funnel shift extracts 192 bits
of the window, and products of integers are exact anyway.

Source: M. Payne, R. Hanek 1983, "Radian reduction for trigonometric functions", for the window.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import pi

from tfn.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT64
from tfn.lower.math.floats import FORMATS, bits, fma, magnitude, where
from tfn.trace.build import bitcast, cast
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

INVERSE_PI_BITS = 1280
INVERSE_PI = int(  # floor(2**1280 / pi)
    "517CC1B727220A94FE13ABE8FA9A6EE06DB14ACC9E21C820FF28B1D5EF5DE2B0DB92371D2126E970"
    "0324977504E8C90E7F0EF58E5894D39F74411AFA975DA24274CE38135A2FBF209CC8EB1CC1A99CFA"
    "4E422FC5DEFC941D8FFC4BFFEF02CC07F79788C5AD05368FB69B3F6793E584DBA7A31FB34F2FF516"
    "BA93DD63F5F2F8BD9E839CFBC529497535FDAFD88FC6AE842B0198237E3DB5D5F867DE104D7A1B0E",
    16,
)


def window(shift: int, sizes: tuple[int, ...]) -> list[float]:
    """``2**shift / pi`` modulo 4, cut into pieces of `sizes` bits after the binary point.

    The first piece also holds the two bits before the point.
    """
    rest = (INVERSE_PI << shift) & ((4 << INVERSE_PI_BITS) - 1)
    pieces, end = [], 0
    for size in sizes:
        end += size
        head = rest >> (INVERSE_PI_BITS - end) << (INVERSE_PI_BITS - end)
        pieces.append(head / (1 << INVERSE_PI_BITS))
        rest -= head
    return pieces


def reduce_angle(x: UOp) -> tuple[UOp, UOp]:
    """|x| = n pi / 2 + r with |r| <= pi / 4: r in float64, and n modulo 4 in its low bits.

    n is an integer of the width of x.
    """
    return reduce32(x) if x.dtype == FLOAT32 else reduce64(x)


FIRST_CLASS_BITS = 50
"""Class 0 holds |x| < 2**50: a quotient must be below 2**51 to be rounded by the magic number."""

CLASS_BITS = 27
"""Class j holds |x| < 2**(50 + 27 j), above class j - 1 all multiples of 2**(27 j)."""

CLASSES = 4
"""Classes up to 2**131, beyond the largest float32."""


def reduce32(x: UOp) -> tuple[UOp, UOp]:
    """|x| = n pi / 2 + r with |r| <= pi / 4: r in float64, and n modulo 4 in its low bits.

    x is float32; the arithmetic is in float64: 24 bits of x times 28 of the window are exact,
    and the last piece ends 60 bits behind the point.  In each class a quotient is below 2**51,
    so that rounding by magic number works, and its remainder is exact.
    """
    magic = FORMATS[FLOAT64].magic
    positive = magnitude(x)
    wide = cast(positive, FLOAT64)
    pieces = [const(value, FLOAT64, x.shape) for value in _pieces(CLASSES - 1)]
    for j in reversed(range(CLASSES - 1)):
        inside = positive < 2.0 ** (FIRST_CLASS_BITS + CLASS_BITS * j)
        pieces = [where(inside, own, other) for own, other in zip(_pieces(j), pieces, strict=True)]
    quarters = wide * pieces[0]
    shifted = quarters + magic
    first = bitcast(shifted, INT64)
    quarters = fma(wide, pieces[1], quarters - (shifted - magic))
    shifted = quarters + magic
    second = bitcast(shifted, INT64)
    quarters = fma(wide, pieces[2], quarters - (shifted - magic))
    return quarters * (pi / 2), cast(first + second, INT32)


HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
"""pi / 2 in three parts of 53 bits; the rest is 5.6e-50."""

REDUCED_IN_STEPS_BELOW = {FLOAT32: 2.0**30, FLOAT64: 2.0**27}
"""|x| below which pi / 2 is subtracted in parts, of float32 in two and of float64 in three.

The rest, times 2**30, is 1e-24, and no float32 below 2**30 is nearer than 1e-10 to a multiple; what
is left of three parts, times 2**27, is 7e-42, and no float64 below 2**27 nearer than 1e-19.  The
words of `reduce64` take twice the time: cos of 492,480 float64 took 3.6 ms, in steps 1.0.
"""


def reduce_small_angle(x: UOp) -> tuple[UOp, UOp]:
    """The same as `reduce_angle`, for |x| below `REDUCED_IN_STEPS_BELOW`.

    The first difference is exact: a multiple of 2**-53 below 1.  For float64, the second part has
    its rounding errors: that of its product, and that of the difference, by Fast2Sum.

    Source: W. J. Cody, W. Waite 1980, "Software manual for the elementary functions", chapter 8;
    S. Boldo, M. Daumas, R.-C. Li 2009, "Formally verified argument reduction with a fused
    multiply-add", for the errors.
    """
    magic = FORMATS[FLOAT64].magic
    wide = cast(magnitude(x), FLOAT64)
    shifted = fma(wide, 2 / pi, magic)
    n = shifted - magic
    high, middle, low = HALF_PI
    first = fma(n, -high, wide)
    if x.dtype == FLOAT32:
        return fma(n, -middle, first), cast(bitcast(shifted, INT64), INT32)
    product = n * middle
    error = fma(n, -middle, product)
    angle = first - product
    rest = fma(n, -low, ((first - angle) - product) + error)
    return angle + rest, bitcast(shifted, INT64)


@lru_cache
def _pieces(j: int) -> list[float]:
    """The window of class j, for 2 / pi, and as if x were divided by 2**(27 j)."""
    shift = CLASS_BITS * j
    head, *rest = window(shift + 1, (27, 28, 60))
    return [piece * 2.0**-shift for piece in (head - 4.0 if head >= 2.0 else head, *rest)]


INVERSE_PI_WORDS = 20
"""Words of 64 bits of 2 / pi, behind 54 zeros for the smallest exponents."""

UNREDUCED_BELOW = 0.78
"""Below pi / 4 there is nothing to reduce."""

LOW_HALF = (1 << 32) - 1
"""The mask of the lower 32 bits of a word."""


def reduce64(x: UOp) -> tuple[UOp, UOp]:
    """|x| = n pi / 2 + r with |r| <= pi / 4: r, and n modulo 4 in its low bits.

    x is float64, m * 2**(e - 53) with an integer m below 2**53.  m times the 192 bits of
    ``2**(e - 53) * 2 / pi`` that start at the weight 2, modulo 2**192, is a fixed-point number:
    two bits of n, then the remainder with an error of 2**-126, of which 2**-62 may be zeros.
    """
    word = bits(magnitude(x))
    exponent = UOp(Op.MAX, (word >> 52, const(1022, INT64, x.shape))) - 1022
    fraction = (1 << 52) - 1
    m = bitcast((word & fraction) | (fraction + 1), UINT64)
    window_high, window_middle, window_low = _funnel_shift(exponent)
    m_high, m_low = m >> 32, m & LOW_HALF
    # The sum of three products, 64 bits apart; its lowest word is below the precision.
    low = _product_high(m_high, m_low, window_low)
    middle = m * window_middle + low
    carry = cast(middle < low, UINT64)
    high = m * window_high + _product_high(m_high, m_low, window_middle) + carry
    n = bitcast((high + (1 << 61)) >> 62, INT64)
    head = bitcast((high << 2) | (middle >> 62), INT64)
    rest = bitcast((middle << 2) >> 1, INT64)
    turns = fma(cast(rest, FLOAT64), 2.0**-63, cast(head, FLOAT64))
    turns = fma(x, 0.0, turns)  # NaN from infinity
    small = magnitude(x) < UNREDUCED_BELOW
    angle = where(small, magnitude(x), turns * (pi / 2 * 2.0**-64))
    return angle, where(small, const(0, INT64, x.shape), n)


def _product_high(m_high: UOp, m_low: UOp, y: UOp) -> UOp:
    """The upper word of a product; m is below 2**53, so that the inner sums do not overflow."""
    y_high, y_low = y >> 32, y & LOW_HALF
    inner = m_low * y_high + ((m_low * y_low) >> 32)
    outer = m_high * y_low + (inner & LOW_HALF)
    return m_high * y_high + (inner >> 32) + (outer >> 32)


def _funnel_shift(start: UOp) -> tuple[UOp, UOp, UOp]:
    """192 bits of the words of 2 / pi from bit `start` on.

    Whole words first, by 16, 8, 4, 2, 1: each step keeps the words that later ones can select.
    """
    head = INVERSE_PI >> (INVERSE_PI_BITS - 64 * INVERSE_PI_WORDS + 54)
    words = [
        const(head >> (64 * (INVERSE_PI_WORDS - 1 - i)), UINT64, start.shape)
        for i in range(INVERSE_PI_WORDS)
    ]
    for step in (16, 8, 4, 2, 1):
        far = cast(start & (64 * step), BOOL)
        words = [
            where(far, words[i + step], word) if i + step < len(words) else word
            for i, word in enumerate(words[: step + 3])
        ]
    left = bitcast(start, UINT64) & 63
    right = left ^ 63  # with one more shift by 1: a shift by 64 would be undefined
    first, second, third = (
        (word << left) | ((after >> 1) >> right) for word, after in pairwise(words)
    )
    return first, second, third
