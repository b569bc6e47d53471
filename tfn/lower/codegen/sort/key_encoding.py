"""Sortable key encoding: unsigned bits that compare as the values of any dtype do.

int8    -128 -1 0 127          ->  00 7f 80 ff        the sign bit is flipped
float   -inf -1 -0 0 1 nan     ->  negatives are inverted, -0.0 becomes 0.0, NaN comes last
"""

from __future__ import annotations

import numpy as np

from tfn.dtypes import BFLOAT16, BOOL, FLOATS, SIGNED, DType
from tfn.trace import build
from tfn.trace.uop import UOp

_INFINITY_BITS = {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}


def bit_width(dtype: DType) -> int:
    """Bits of an element."""
    return 8 * dtype.itemsize


def infinity_bits(dtype: DType) -> int:
    """The bits of infinity; those of a NaN, without the sign, are above."""
    return 0x7F80 if dtype == BFLOAT16 else _INFINITY_BITS[dtype.itemsize]


def sortable(key: UOp) -> UOp:
    """Bits whose unsigned order is that of the values; equal values have equal bits."""
    dtype = key.dtype
    if dtype == BOOL:
        return build.cast(key, np.dtype("uint8"))
    unsigned = np.dtype(f"uint{bit_width(dtype)}")
    bits, sign = build.bitcast(key, unsigned), 1 << (bit_width(dtype) - 1)
    if dtype in SIGNED:
        return bits ^ sign
    if dtype not in FLOATS:
        return bits
    magnitude = bits & (sign - 1)
    zero = build.full_like(bits, 0)
    unsigned_zero = build.where(build.eq(magnitude, zero), zero, bits)
    number = build.where(unsigned_zero < sign, unsigned_zero ^ sign, ~unsigned_zero)
    is_nan = build.full_like(bits, infinity_bits(dtype)) < magnitude
    return build.where(is_nan, ~zero, number)


def total_order(key: UOp) -> UOp:
    """`sortable` bits that are different for all values: -0.0 is below 0.0, and NaNs differ."""
    if key.dtype not in FLOATS:
        return sortable(key)
    sign, nans = _sign_bit(key.dtype), _negative_nans(key.dtype)
    bits = build.bitcast(key, np.dtype(f"uint{bit_width(key.dtype)}"))
    # Inverted, negative NaNs come first; the subtraction wraps them around to the end.
    return (bits ^ (_sign_mask(bits) | sign)) - nans


def from_total_order(bits: UOp, dtype: DType) -> UOp:
    """The value whose `total_order` bits are these.

    Example:
        >>> from tfn.dtypes import int8, uint8
        >>> from tfn.trace import oracle
        >>> from tfn.trace.uop import const
        >>> lowest = from_total_order(const(0, uint8.dtype), int8.dtype)
        >>> oracle.evaluate([lowest], {})[0].item()
        -128
    """
    if dtype == BOOL:
        return build.cast(bits, BOOL)
    if dtype in SIGNED:
        bits = bits ^ _sign_bit(dtype)
    elif dtype in FLOATS:
        bits = bits + _negative_nans(dtype)
        bits = bits ^ (~_sign_mask(bits) | _sign_bit(dtype))
    return build.bitcast(bits, dtype)


def _sign_bit(dtype: DType) -> int:
    return 1 << (bit_width(dtype) - 1)


def _negative_nans(dtype: DType) -> int:
    """The number of NaNs that have the sign bit."""
    return _sign_bit(dtype) - 1 - infinity_bits(dtype)


def _sign_mask(bits: UOp) -> UOp:
    """All ones where the highest bit is set, all zeros elsewhere."""
    signed = build.bitcast(bits, np.dtype(f"int{8 * bits.dtype.itemsize}"))
    return build.bitcast(signed >> (8 * bits.dtype.itemsize - 1), bits.dtype)
