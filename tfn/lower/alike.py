"""Elements that differ though their keys are equal, in a row that was sorted by keys alone.

Of floats these are zeros and NaNs: each has become the one that `keys.restored` makes.  Where there
are any, those of the operand are put into their places, in the order in which they are there.

    operand -0. 2. 0. -nan 1.  sorted 0. 0. 1. 2. nan  ->  -0. 0. 1. 2. -nan
"""

from __future__ import annotations

import numpy as np

from tfn.dtypes import INT64
from tfn.lower.byhand import Code
from tfn.lower.keys import infinity, width
from tfn.trace import build
from tfn.trace.uop import UOp, const

NONE = const(0, INT64)


def put_back(code: Code, operand: UOp, result: UOp, start: UOp, size: int) -> None:
    """Zeros and NaNs of one row of floats, from `start` on, as they are in the operand.

    The last comes first: that of the NaNs belongs to the end, that of the zeros has to be found.
    """
    most = (1 << (width(operand.dtype) - 1)) - 1  # the bits of each NaN that is there by now
    end = const(size - 1, INT64)
    zero = _up_to_zero(code, result, start, size) - 1
    some = _is(_bits(code.load(result, start + build.maximum(zero, NONE))), 0)
    with code.when(some | _is(_bits(code.load(result, start + end)), most)):
        each = code.open(0, size)
        places = [code.carry(each, at) for at in (zero, end)]
        value = code.load(operand, start + (end - each))
        magnitude = code.let(_bits(value) & most)
        found = code.let(_is(magnitude, 0)), code.let(magnitude > infinity(operand.dtype))
        with code.when(found[0] | found[1]):
            place = build.minimum(build.where(found[0], *places), end)
            code.store(result, start + build.maximum(place, NONE), value)
        following = [at - build.cast(is_, INT64) for at, is_ in zip(places, found, strict=True)]
        code.close(each, *zip(places, following, strict=True))


def _is(bits: UOp, value: int) -> UOp:
    return build.eq(bits, const(value, bits.dtype))


def _bits(value: UOp) -> UOp:
    """As a signed integer: negative for what is below zero, 0 for 0.0."""
    return build.bitcast(value, np.dtype(f"int{width(value.dtype)}"))


def _up_to_zero(code: Code, result: UOp, start: UOp, size: int) -> UOp:
    """How many elements of a sorted row are not above zero: what is left to look at is halved."""
    bits = size.bit_length()
    each = code.open(0, bits)
    found, step = (code.carry(each, const(i, INT64)) for i in (0, 1 << (bits - 1)))
    ahead = code.let(build.minimum(found + step, const(size, INT64)))
    last = code.load(result, start + build.maximum(ahead - 1, NONE))
    following = build.where(_bits(last) <= 0, ahead, found)
    code.close(each, (found, following), (step, step >> 1))
    return found
