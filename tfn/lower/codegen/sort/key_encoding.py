"""What a sort compares: bits of keys, put in order first, and what had those bits.

The sign bit of integers is flipped; negative floats are inverted, -0.0 becomes 0.0, and every NaN
comes after all else.
"""

from __future__ import annotations

import numpy as np

from tfn.dtypes import BFLOAT16, BOOL, FLOATS, SIGNED, DType
from tfn.trace import build
from tfn.trace.uop import UOp

_INFINITY = {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}


def width(dtype: DType) -> int:
    """How many bits an element has."""
    return 8 * dtype.itemsize


def infinity(dtype: DType) -> int:
    """Its bits: those of a NaN, without the sign, are above."""
    return 0x7F80 if dtype == BFLOAT16 else _INFINITY[dtype.itemsize]


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
    magnitude = bits & (sign - 1)
    zero = build.full_like(bits, 0)
    plain = build.where(build.eq(magnitude, zero), zero, bits)
    found = build.where(plain < sign, plain ^ sign, ~plain)
    return build.where(build.full_like(bits, infinity(dtype)) < magnitude, ~zero, found)


def whole(key: UOp) -> UOp:
    """As `ordered`, but no two values have the same bits: -0.0 is below 0.0, and NaNs differ."""
    if key.dtype not in FLOATS:
        return ordered(key)
    sign, below = _sign(key.dtype), _below(key.dtype)
    bits = build.bitcast(key, np.dtype(f"uint{width(key.dtype)}"))
    return (bits ^ (_spread(bits) | sign)) - below


def restored(bits: UOp, dtype: DType) -> UOp:
    """The value whose `whole` bits are these.

    Example:
        >>> from tfn.dtypes import int8, uint8
        >>> from tfn.trace import oracle
        >>> from tfn.trace.uop import const
        >>> lowest = restored(const(0, uint8.dtype), int8.dtype)
        >>> oracle.evaluate([lowest], {})[0].item()
        -128
    """
    if dtype == BOOL:
        return build.cast(bits, BOOL)
    if dtype in SIGNED:
        bits = bits ^ _sign(dtype)
    elif dtype in FLOATS:
        bits = bits + _below(dtype)
        bits = bits ^ (~_spread(bits) | _sign(dtype))
    return build.bitcast(bits, dtype)


def _sign(dtype: DType) -> int:
    return 1 << (width(dtype) - 1)


def _below(dtype: DType) -> int:
    """How many NaNs have the sign bit: inverted they would come first, but go to the end."""
    return _sign(dtype) - 1 - infinity(dtype)


def _spread(bits: UOp) -> UOp:
    """The first bit in the place of all."""
    signed = build.bitcast(bits, np.dtype(f"int{8 * bits.dtype.itemsize}"))
    return build.bitcast(signed >> (8 * bits.dtype.itemsize - 1), bits.dtype)
