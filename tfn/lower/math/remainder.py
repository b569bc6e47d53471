"""Exact floating-point modulo: the quotient is subtracted in pieces of 49 bits.

    r = x;  repeat: q = upper 50 bits of round(r / y),  r = r - q y

Every such r has at most 53 bits, so that the FMA is exact.
"""

from __future__ import annotations

from tfn.dtypes import FLOAT32, FLOAT64
from tfn.lower.math.floats import (
    bits,
    divide,
    equal,
    fma,
    from_bits,
    magnitude,
    nearest,
    where,
    with_sign,
)
from tfn.trace.build import cast, ne
from tfn.trace.uop import UOp, const

PIECE_BITS = 49
"""Bits of the quotient that each step is sure to remove: 50, less one for rounding."""

QUOTIENT_BITS = {FLOAT32: 278, FLOAT64: 1024}
"""Bits of the largest quotient: for float32 of any two numbers, for float64 of most."""

LARGE_DIVISOR = 2.0**500
"""Beyond it, and below its inverse, a divisor is scaled: its inverse must be a normal number."""


def modulo(x: UOp, y: UOp) -> UOp:
    """x - floor(x / y) y, of the sign of y; NaN if y is zero or x infinite.

    float32 is computed in float64.  In float64 a quotient beyond 2**1023 gives NaN; it would
    take twice the pieces.
    """
    steps = -(-QUOTIENT_BITS[x.dtype] // PIECE_BITS)
    if x.dtype == FLOAT32:
        rest = cast(_nearest_rest(cast(x, FLOAT64), cast(y, FLOAT64), steps), FLOAT32)
    else:
        large = const(LARGE_DIVISOR, x.dtype, x.shape)
        size = magnitude(y)
        up = where(size < 1 / LARGE_DIVISOR, large, 1.0)
        scale = where(large < size, 1 / LARGE_DIVISOR, up)
        rest = _nearest_rest(x * scale, y * scale, steps) / scale
    return of_rest(x, y, rest)


def of_rest(x: UOp, y: UOp, rest: UOp) -> UOp:
    """`modulo` by a rest of either sign, which counts where |x| is not below |y|."""
    rest = where(magnitude(x) < magnitude(y), x, rest)
    # The nearest quotient leaves a rest of either sign; that of floor has the sign of y.
    opposite = ne(rest < 0.0, y < 0.0)
    return where(equal(rest, 0.0), with_sign(magnitude(rest), y), where(opposite, rest + y, rest))


def _nearest_rest(x: UOp, y: UOp, steps: int) -> UOp:
    """``x - n y`` for the integer n nearest to x / y."""
    inverse = divide(1.0, y)
    for _ in range(steps):
        # A quotient of 50 bits leaves a rest of at most 53, so that the FMA is exact.
        quotient = from_bits(bits(nearest(x * inverse)) & -8)
        x = fma(-quotient, y, x)
    return x
