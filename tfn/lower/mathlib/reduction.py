"""Reduction of an angle to a multiple of pi / 2 and a rest below pi / 4, for any argument.

2 x / pi modulo 4 is wanted with many digits behind the point, however large x is.  Of the binary
digits of 2 / pi only a window matters: those before it make multiples of 4, those behind it are
too small.  float32: x is split by size into classes; each class has its window, cut into pieces
short enough that the products with x are exact, and WHERE selects the pieces.

Source: M. Payne, R. Hanek 1983, "Radian reduction for trigonometric functions", for the window.
"""

from __future__ import annotations

from tfn.dtypes import FLOAT64, INT32, INT64
from tfn.lower.mathlib.floats import FORMATS, fma, magnitude, where
from tfn.trace.build import bitcast, cast
from tfn.trace.uop import UOp, const

PI = 3.141592653589793
INVERSE_PI_BITS = 1280
INVERSE_PI = int(  # floor(2**1280 / pi)
    "517CC1B727220A94FE13ABE8FA9A6EE06DB14ACC9E21C820FF28B1D5EF5DE2B0DB92371D2126E970"
    "0324977504E8C90E7F0EF58E5894D39F74411AFA975DA24274CE38135A2FBF209CC8EB1CC1A99CFA"
    "4E422FC5DEFC941D8FFC4BFFEF02CC07F79788C5AD05368FB69B3F6793E584DBA7A31FB34F2FF516"
    "BA93DD63F5F2F8BD9E839CFBC529497535FDAFD88FC6AE842B0198237E3DB5D5F867DE104D7A1B0E",
    16,
)


def window(shift: int, sizes: tuple[int, ...]) -> list[float]:
    """``2**shift / pi`` modulo 4 in pieces: so many bits after the binary point in each.

    The first also holds the two bits before the point.
    """
    rest = (INVERSE_PI << shift) & ((4 << INVERSE_PI_BITS) - 1)
    pieces, done = [], 0
    for size in sizes:
        done += size
        head = rest >> (INVERSE_PI_BITS - done) << (INVERSE_PI_BITS - done)
        pieces.append(head / (1 << INVERSE_PI_BITS))
        rest -= head
    return pieces


FIRST, SPACING = 50, 27  # class j holds |x| < 2**(50 + 27 j), all multiples of 2**(27 j)
CLASSES = 4


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
        inside = positive < 2.0 ** (FIRST + SPACING * j)
        pieces = [where(inside, own, other) for own, other in zip(_pieces(j), pieces, strict=True)]
    quarters = wide * pieces[0]
    shifted = quarters + magic
    first = bitcast(shifted, INT64)
    quarters = fma(wide, pieces[1], quarters - (shifted - magic))
    shifted = quarters + magic
    second = bitcast(shifted, INT64)
    quarters = fma(wide, pieces[2], quarters - (shifted - magic))
    return quarters * (PI / 2), cast(first + second, INT32)


def _pieces(j: int) -> list[float]:
    """The window of class j, for 2 / pi, and as if x were divided by 2**(27 j)."""
    shift = SPACING * j
    head, *rest = window(shift + 1, (27, 28, 60))
    return [piece * 2.0**-shift for piece in (head - 4.0 if head >= 2.0 else head, *rest)]
