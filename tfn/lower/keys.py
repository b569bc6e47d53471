"""What a sort compares: bits of keys, put in order first.

The sign bit of integers is flipped; negative floats are inverted, -0.0 becomes 0.0, and every NaN
comes after all else.
"""

from __future__ import annotations

import numpy as np

from tfn.dtypes import BFLOAT16, BOOL, FLOATS, SIGNED, DType
from tfn.trace import build
from tfn.trace.uop import UOp

INFINITY = {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}


def width(dtype: DType) -> int:
    """How many bits an element has."""
    return 8 * dtype.itemsize


def ordered(key: UOp) -> UOp:
    """Bits whose unsigned order is that of the values."""
    dtype = key.dtype
    if dtype == BOOL:
        return build.cast(key, np.dtype("uint8"))
    unsigned = np.dtype(f"uint{width(dtype)}")
    bits, sign = build.bitcast(key, unsigned), 1 << (width(dtype) - 1)
    if dtype in SIGNED:
        return bits ^ sign
    if dtype not in FLOATS:
        return bits
    infinity = 0x7F80 if dtype == BFLOAT16 else INFINITY[dtype.itemsize]
    magnitude = bits & (sign - 1)
    zero = build.full_like(bits, 0)
    plain = build.where(build.eq(magnitude, zero), zero, bits)
    found = build.where(plain < sign, plain ^ sign, ~plain)
    return build.where(build.full_like(bits, infinity) < magnitude, ~zero, found)
