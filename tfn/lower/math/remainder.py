"""Modulo of floats, exact: the quotient is taken off in pieces of 49 bits.

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
    magnitude,
    nearest,
    unbits,
    where,
    with_sign,
)
from tfn.trace.build import cast, ne
from tfn.trace.uop import UOp, const

PIECE_BITS = 49
QUOTIENT_BITS = {FLOAT32: 278, FLOAT64: 1024}  # float32: all there are
FAR = 2.0**500


def modulo(x: UOp, y: UOp) -> UOp:
    """x - floor(x / y) y, of the sign of y; NaN if y is zero or x infinite.

    float32 is computed in float64.  In float64 a quotient beyond 2**1023 gives NaN; it would
    take twice the pieces.
    """
    steps = -(-QUOTIENT_BITS[x.dtype] // PIECE_BITS)
    if x.dtype == FLOAT32:
        rest = cast(_nearest_rest(cast(x, FLOAT64), cast(y, FLOAT64), steps), FLOAT32)
    else:
        # 1 / y must neither overflow nor be denormal.
        far = const(FAR, x.dtype, x.shape)
        size = magnitude(y)
        up = where(size < 1 / FAR, far, 1.0)
        scale = where(far < size, 1 / FAR, up)
        rest = _nearest_rest(x * scale, y * scale, steps) / scale
    rest = where(magnitude(x) < magnitude(y), x, rest)
    wrong = ne(rest < 0.0, y < 0.0)
    return where(equal(rest, 0.0), with_sign(magnitude(rest), y), where(wrong, rest + y, rest))


def _nearest_rest(x: UOp, y: UOp, steps: int) -> UOp:
    inverse = divide(1.0, y)
    for _ in range(steps):
        quotient = unbits(bits(nearest(x * inverse)) & -8)
        x = fma(-quotient, y, x)
    return x
