"""Tie restoration: stable order among keys that compare equal but differ in bits.

Of floats these are +0.0 / -0.0 and NaNs: `key_encoding.total_order` makes them neighbours, in an
order of its own.  Where a row has any, those of the operand are written in the operand's order.

    operand 0. 2. -0. -nan 1.  sorted -0. 0. 1. 2. -nan  ->  0. -0. 1. 2. -nan
"""

from __future__ import annotations

import numpy as np

from tfn.dtypes import INT64
from tfn.lower.codegen.builder import Builder
from tfn.lower.codegen.sort.key_encoding import bit_width, infinity_bits, total_order
from tfn.trace import build
from tfn.trace.uop import UOp, const

ZERO = const(0, INT64)


def restore_ties(code: Builder, operand: UOp, result: UOp, start: UOp, size: int) -> None:
    """Write the zeros and NaNs of one row of floats in the order of the operand.

    The row begins at `start` in both buffers.  It is filled from the back: the last NaN is the last
    element, and the last zero is found by binary search.
    """
    end = const(size - 1, INT64)
    lasts = _count_up_to_zero(code, result, start, size) - 1, end
    values = [code.load(result, start + build.maximum(last, ZERO)) for last in lasts]
    has_zeros, has_nans = _is_zero(values[0]), _is_nan(values[1])
    with code.when(has_zeros | has_nans):
        loop = code.open(0, size)
        positions = [code.carry(loop, last) for last in lasts]
        value = code.load(operand, start + (end - loop))
        is_tied = [code.place(_is_zero(value)), code.place(_is_nan(value))]
        with code.when(is_tied[0] | is_tied[1]):
            position = build.minimum(build.where(is_tied[0], *positions), end)
            code.store(result, start + build.maximum(position, ZERO), value)
        following = [
            position - build.cast(tied, INT64)
            for position, tied in zip(positions, is_tied, strict=True)
        ]
        code.close(loop, *zip(positions, following, strict=True))


def _magnitude(value: UOp) -> UOp:
    bits = bit_width(value.dtype)
    return build.bitcast(value, np.dtype(f"uint{bits}")) & ((1 << (bits - 1)) - 1)


def _is_zero(value: UOp) -> UOp:
    magnitude = _magnitude(value)
    return build.eq(magnitude, build.full_like(magnitude, 0))


def _is_nan(value: UOp) -> UOp:
    return _magnitude(value) > infinity_bits(value.dtype)


def _count_up_to_zero(code: Builder, result: UOp, start: UOp, size: int) -> UOp:
    """The number of elements of a sorted row that are at most 0.0, by binary search."""
    bits, zero = size.bit_length(), total_order(const(0.0, result.dtype))
    loop = code.open(0, bits)
    count, step = (code.carry(loop, const(i, INT64)) for i in (0, 1 << (bits - 1)))
    probe = build.minimum(build.maximum(count + step, const(1, INT64)), const(size, INT64))
    last = code.load(result, start + (probe - 1))
    following = build.where(total_order(last) <= zero, probe, count)
    code.close(loop, (count, following), (step, step >> 1))
    return build.minimum(count, const(size, INT64))
