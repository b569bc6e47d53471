"""Partial sorts: the largest elements of rows on a processor, by selection or by a whole sort.

A SORT says with `largest` how many elements of each row are wanted.  Few of many are selected one
after the other; more are the end of a sort::

    sort x, largest 3    ->    scan of 3 steps, each for the largest that remains
                         ->    (sort of the reversed rows)[-3:], reversed

On grids they are found by their threshold: see `fuse.grid_select`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tfn.dtypes import FLOATS, INT32, INT64, INTEGERS, DType
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

BLOCK_ALIGNMENT_ELEMENTS = 16
"""Block sizes are multiples of this: whole vectors of 512 bits of 32-bit keys."""

MAX_ELEMENTS_IN_32_BITS = 1 << 30
"""Rows below this size are indexed in 32 bits, the padding of the last block included."""

MIN_ELEMENTS_TO_SELECT = 64
"""Shorter rows are sorted: there is nothing to gain."""

SELECT_STEP_NS = 20
SELECT_NS_PER_BLOCK_ELEMENT = 0.5
SORT_NS_PER_ELEMENT = 7
"""Measured: each of the k largest takes a step, in which a block of sqrt(size) elements is read;
a sort takes its time for each element of the row.  The cheaper of the two is used."""


def largest(u: UOp) -> list[UOp]:
    """The results of a SORT of the largest elements, on a processor."""
    size, k = u.src[0].shape[-1], u.arg.largest
    step_ns = SELECT_STEP_NS + SELECT_NS_PER_BLOCK_ELEMENT * math.isqrt(size)
    is_cheaper = 0 < k * step_ns < SORT_NS_PER_ELEMENT * size
    in_range = MIN_ELEMENTS_TO_SELECT <= size < MAX_ELEMENTS_IN_32_BITS
    if is_cheaper and in_range and u.arg.keys == 1 and _key_dtype(u.src[0].dtype) is not None:
        places = _selected(u.src[0], k)
        return [at(x, places) for x in u.src]
    return end_of_sort(u)


def end_of_sort(u: UOp, sort: Callable[[UOp], list[UOp]] = build.several) -> list[UOp]:
    """The same by a sort of whole rows: the end of a stable one of the reversed rows, reversed."""
    last, shape, k = u.src[0].ndim - 1, u.src[0].shape, u.arg.largest
    if not k:
        return [build.shrink(x, (0,) * len(shape), (*shape[:-1], 0)) for x in u.src]
    operands = tuple(build.flip(x, (last,)) for x in u.src)
    ordered = sort(UOp(Op.SORT, operands, replace(u.arg, largest=None)))
    begin = (*(0,) * last, shape[-1] - k)
    return [build.flip(build.shrink(x, begin, shape), (last,)) for x in ordered]


def at(x: UOp, places: UOp) -> UOp:
    """The elements of each row at indices."""
    last = x.ndim - 1
    if x == build.iota(x.shape, last, x.dtype):  # the numbers of the elements
        return build.cast(places, x.dtype)
    elements = build.gather(x, build.reshape(places, (*places.shape, 1)), (1,), last)
    return build.reshape(elements, places.shape)


def _key_dtype(dtype: DType) -> DType | None:
    """Integers that hold all values of a dtype and one below; None if there are none."""
    if dtype in FLOATS:
        return INT64 if dtype.itemsize == 8 else INT32
    wide = dtype in INTEGERS and dtype.itemsize == 4
    return None if dtype not in INTEGERS or dtype.itemsize == 8 else INT64 if wide else INT32


def _keys(x: UOp) -> UOp:
    """Integers in the order of the values, all above the least of their dtype; NaN is the most."""
    dtype = _key_dtype(x.dtype)
    assert dtype is not None, x
    if x.dtype not in FLOATS:
        return build.cast(x, dtype)
    most = np.iinfo(dtype).max
    x = build.cast(x, np.dtype(f"float{8 * dtype.itemsize}"))
    bits = build.bitcast(x + 0.0, dtype)  # of both zeros the same
    negative = bits >> (8 * dtype.itemsize - 1)
    return build.where(build.ne(x, x), build.full_like(bits, most), bits ^ (negative & most))


def _selected(x: UOp, k: int) -> UOp:
    """The indices of the k largest of each row, by selection of the largest that remains.

    The largest remaining key of each block is carried along, so a step reads the block with the
    best of them only: once to select the key, and once for the largest that remains after it.
    """
    keys = _keys(x)
    last, size, kind = keys.ndim - 1, keys.shape[-1], keys.dtype
    width = BLOCK_ALIGNMENT_ELEMENTS * max(1, math.isqrt(size) // BLOCK_ALIGNMENT_ELEMENTS)
    count, least = -(-size // width), np.iinfo(kind).min
    rows = keys.shape[:-1]
    beyond = (*(0,) * last, count * width - size)
    keys = build.pad(keys, (0,) * keys.ndim, beyond, None, const(least, kind))
    blocks = UOp(Op.GBARRIER, (build.reshape(keys, (*rows, count, width)),))
    params = (
        Param(0, (*rows, count * width), kind),
        Param(1, (*rows, count), kind),
        Param(2, rows, kind),
        Param(3, rows, INT32),
    )
    all_, best, key, place = map(param, params)

    def left(of: UOp, line: UOp, key: UOp, place: UOp) -> UOp:
        """Masks the keys that were selected already, up to (key, place), with the least key."""
        before, there = (build.broadcast_in_dim(u, of.shape, range(last)) for u in (key, place))
        after = (of < before) | (build.eq(of, before) & (there < line))
        return build.where(after, of, build.full_like(of, least))

    block = build.reduce(best, Op.MAX, (last,), index=INT32)
    first = build.broadcast_in_dim(block * width, (*rows, width), range(last))
    line = first + build.iota((*rows, width), last)
    some = build.gather(all_, build.reshape(block * width, (*rows, 1)), (width,), last)
    some = left(some, line, key, place)
    key = build.reduce(some, Op.MAX, (last,))
    place = block * width + build.reduce(some, Op.MAX, (last,), index=INT32)
    rest = build.reduce(left(some, line, key, place), Op.MAX, (last,))
    rest, here = (build.broadcast_in_dim(u, (*rows, count), range(last)) for u in (rest, block))
    best = build.where(build.eq(build.iota((*rows, count), last), here), rest, best)

    start = [
        build.reduce(blocks, Op.MAX, (last + 1,)),
        const(np.iinfo(kind).max, kind, rows),
        const(-1, INT32, rows),
    ]
    consts = [build.reshape(blocks, (*rows, count * width))]
    places = build.scan(function([best, key, place, place], params), consts, start, [], k)[3]
    return build.moveaxis(places, 0, last)
