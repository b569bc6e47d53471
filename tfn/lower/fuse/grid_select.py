"""The largest elements of rows on grids: by the key of the last of them (radix select).

Bits of the threshold are found from the highest on, some at a time: of the digits that may follow
those that are known, it has the largest for which enough keys are not below.  Each step reads the
keys once.  Then those above it, and the first of those equal to it, are moved together in their
order, by a prefix sum, and sorted among themselves::

    the 3 largest of  5 9 2 9 5 7
    ->  digit by digit: 5 keys >= 5, 3 keys >= 7, 2 keys >= 8      the threshold is 7
    ->  above it: 9 9, at 0 1;  equal to it: 7, at 2               (1 3 5 are their numbers)
    ->  sorted, and stable: 9 9 7, numbers 1 3 5

Rows that a group sorts are sorted whole, as are those of which more than half is wanted.

Source: Alabi, Blanchard, Gordon and Steinbach, Fast k-selection algorithms for graphics processing
units (2012).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tfn.dtypes import INT32, INT64
from tfn.lower.codegen.sort import group_sort
from tfn.lower.codegen.sort.key_encoding import bit_width, sortable
from tfn.lower.graph import partial_sort
from tfn.lower.graph.block_scan import scan_in_blocks
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Param, Scatter, Sort
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

DIGIT_BITS = 4
"""Bits of the threshold that a step finds, by 15 counts of each row, which are in registers: a step
does 30 operations for the 4 bytes that it reads of a key, still less than memory takes for them."""

MAX_SHARE_TO_SELECT = 0.5
"""The part of a row up to which its largest elements are selected.

For 32-bit keys selection moves some 60 bytes for each element (8 reads of the key, two of its place
in the prefix sum, one write and read of that), a sort by digits 160 for each that it sorts.
Counted, not measured.
"""

MAX_ELEMENTS = 1 << 31
"""Rows whose elements have numbers of 32 bits."""


def largest(u: UOp, target: Target, sort: Callable[[UOp], list[UOp]]) -> list[UOp]:
    """The results of a SORT of the largest elements, for groups of threads.

    Args:
        sort: the results of a SORT of whole rows.
    """
    shape, k = u.src[0].shape, u.arg.largest
    n, lead = shape[-1], build.count(shape[:-1])
    whole = replace(u.arg, largest=None)
    is_short = group_sort.fits(UOp(Op.SORT, u.src, whole))
    is_much = k > MAX_SHARE_TO_SELECT * n or n >= MAX_ELEMENTS
    if 0 in (lead, k) or is_short or is_much or u.arg.keys > 1:
        return partial_sort.end_of_sort(u, sort)
    keys = sortable(build.reshape(u.src[0], (lead, n)))
    keys = UOp(Op.GBARRIER, (keys,))
    places = _places(keys, _threshold(keys, k), k, target)
    found = build.gather(keys, build.reshape(places, (lead, k, 1)), (1,), 1)
    operands = (~build.reshape(found, (lead, k)), places)  # stable: of equal keys the first
    order = sort(UOp(Op.SORT, operands, Sort(1)))[1]
    order = build.reshape(order, (*shape[:-1], k))
    return [partial_sort.at(x, order) for x in u.src]


def _threshold(keys: UOp, k: int) -> UOp:
    """The k-th largest key of each row."""
    lead, n = keys.shape
    rows, dtype = (lead,), keys.dtype
    params = Param(0, keys.shape, dtype), Param(1, rows, dtype), Param(2, (), dtype)
    every, known, shift = map(param, params)
    digit = build.full_like(known, 0)
    for value in range(1, 1 << DIGIT_BITS):
        least = known | (const(value, dtype, rows) << build.broadcast_in_dim(shift, rows, ()))
        is_below = every < build.broadcast_in_dim(least, keys.shape, (0,))
        below = build.reduce(build.cast(is_below, INT32), Op.ADD, (1,))
        digit = digit + build.cast(below <= n - k, dtype)
    known = known | (digit << build.broadcast_in_dim(shift, rows, ()))
    shifts = np.arange(bit_width(dtype) - DIGIT_BITS, -1, -DIGIT_BITS)
    steps = build.cast(build.iota(shifts.shape, 0, INT32), dtype) * DIGIT_BITS
    steps = const(int(shifts[0]), dtype, shifts.shape) - steps
    start = const(0, dtype, rows)
    return build.scan(function([known], params), [keys], [start], [steps], len(shifts))[0]


def _places(keys: UOp, threshold: UOp, k: int, target: Target) -> UOp:
    """The numbers of the k largest of each row: those above the threshold, then those equal."""
    lead, n = keys.shape
    least = build.broadcast_in_dim(threshold, keys.shape, (0,))
    is_above, is_equal = least < keys, build.eq(keys, least)
    # Both are counted by one sum: those above in the upper half of its bits.
    flags = (build.cast(is_above, INT64) << 32) | build.cast(is_equal, INT64)
    sums = _prefix_sums(flags, target)
    total = build.broadcast_in_dim(sums[0], keys.shape, (0,))
    before = build.moveaxis(sums[1], 0, 1) - flags
    low = const((1 << 32) - 1, INT64, keys.shape)
    at = build.where(is_above, before >> 32, (total >> 32) + (before & low))
    outside = build.full_like(at, k)
    at = build.where(is_above | is_equal, build.minimum(at, outside), outside)
    src = (
        const(0, INT32, (lead, k)),
        build.reshape(build.cast(at, INT32), (lead, n, 1)),
        build.reshape(build.iota(keys.shape, 1, INT32), (lead, n, 1)),
    )
    return UOp(Op.SCATTER, src, Scatter(1, Op.WHERE, distinct=True, whole=True))


def _prefix_sums(flags: UOp, target: Target) -> Sequence[UOp]:
    """The sum of each row, and the sums up to each element, along the first axis."""
    lead, dtype = flags.shape[:1], flags.dtype
    params = (Param(0, lead, dtype), Param(1, lead, dtype))
    total = param(params[0]) + param(params[1])
    body, start = function([total, total], params), const(0, dtype, lead)
    results = build.scan(body, [], [start], [build.moveaxis(flags, 1, 0)], flags.shape[1])
    return scan_in_blocks(results[0].src[0], target) or results
