"""Elements that are equal though they differ, in a row that was sorted by keys alone.

Of floats these are zeros and NaNs: `keys.whole` puts them next to each other, in an order of its
own.  Where there are any, those of the operand are written in the order in which they are there.

    operand 0. 2. -0. -nan 1.  sorted -0. 0. 1. 2. -nan  ->  0. -0. 1. 2. -nan
"""

from __future__ import annotations

import numpy as np

from tfn.dtypes import INT64
from tfn.lower.codegen.builder import Code
from tfn.lower.codegen.sort.key_encoding import infinity, whole, width
from tfn.trace import build
from tfn.trace.uop import UOp, const

NONE = const(0, INT64)


def put_back(code: Code, operand: UOp, result: UOp, start: UOp, size: int) -> None:
    """Zeros and NaNs of one row of floats, from `start` on, in the order of the operand.

    The last comes first: that of the NaNs belongs to the end, that of the zeros has to be found.
    """
    end = const(size - 1, INT64)
    lasts = _up_to_zero(code, result, start, size) - 1, end
    at = [code.load(result, start + build.maximum(last, NONE)) for last in lasts]
    with code.when(_kinds(at[0])[0] | _kinds(at[1])[1]):
        each = code.open(0, size)
        places = [code.carry(each, last) for last in lasts]
        value = code.load(operand, start + (end - each))
        found = [code.let(kind) for kind in _kinds(value)]
        with code.when(found[0] | found[1]):
            place = build.minimum(build.where(found[0], *places), end)
            code.store(result, start + build.maximum(place, NONE), value)
        following = [at - build.cast(is_, INT64) for at, is_ in zip(places, found, strict=True)]
        code.close(each, *zip(places, following, strict=True))


def _kinds(value: UOp) -> tuple[UOp, UOp]:
    """Whether it is a zero; whether it is a NaN."""
    bits = width(value.dtype)
    unsigned = build.bitcast(value, np.dtype(f"uint{bits}"))
    magnitude = unsigned & ((1 << (bits - 1)) - 1)
    return build.eq(magnitude, build.full_like(magnitude, 0)), magnitude > infinity(value.dtype)


def _up_to_zero(code: Code, result: UOp, start: UOp, size: int) -> UOp:
    """How many elements of a sorted row are not above zero: what is left to look at is halved."""
    bits, zero = size.bit_length(), whole(const(0.0, result.dtype))
    each = code.open(0, bits)
    found, step = (code.carry(each, const(i, INT64)) for i in (0, 1 << (bits - 1)))
    ahead = build.minimum(build.maximum(found + step, const(1, INT64)), const(size, INT64))
    last = code.load(result, start + (ahead - 1))
    following = build.where(whole(last) <= zero, ahead, found)
    code.close(each, (found, following), (step, step >> 1))
    return build.minimum(found, const(size, INT64))
