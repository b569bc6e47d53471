"""Sorts on grids: short rows by groups of threads, long ones by digits (LSD radix sort).

A row that fits the local memory of a group is sorted there: see `codegen.sort.group_sort`.  A
longer one is cut into tiles.  Keys are moved by 8 bits at a time, the least significant first, with
the numbers of their elements, through which the results are gathered at the end::

    words 31 20 12 | 00 11 32, in two tiles, by their first digit
    ->  12 20 31 | 00 11 32      each tile is sorted by a group, in its local memory
    ->  0 1 1 1, 1 1 0 1         the words of each digit in each tile
    ->  0 1 3 4, 0 2 4 5         where they begin in the result: a scan over digits, then tiles
    ->  00 12 11 20 31 32        moved there: those of one digit and tile lie side by side

No order of threads matters: equal keys keep their order, and two runs give the same bits.

Source: Satish, Harris and Garland, Designing Efficient Sorting Algorithms for Manycore GPUs (2009).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tfn.dtypes import INT32, DType, uint8
from tfn.lower.codegen.sort import group_sort
from tfn.lower.codegen.sort.group_sort import TILE_ELEMENTS
from tfn.lower.codegen.sort.key_encoding import bit_width, sortable
from tfn.lower.fuse import grid_select
from tfn.lower.graph.block_scan import scan_in_blocks
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Param, Scatter, Sort
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

DIGIT_BITS = 8
"""Bits by which words are moved at a time: in a tile of 2,048, eight have the same digit, and lie
side by side: a sector of memory.  A pass less costs 16 bytes of traffic for each word."""

RADIX = 1 << DIGIT_BITS
CHUNK_BITS = 32
"""Bits of a key that are moved with its number."""

MAX_ELEMENTS = 1 << 31
"""Rows whose elements have numbers of 32 bits."""


def sort_on_grid(u: UOp, target: Target) -> list[UOp] | None:
    """The results of a SORT for groups of threads; None if its rows are too long, or empty."""
    if u.arg.largest is not None:
        return grid_select.largest(u, target, partial(_sorted, target=target))
    shape = u.src[0].shape
    if 0 in shape or shape[-1] + TILE_ELEMENTS > MAX_ELEMENTS or u.arg.shared:
        return None
    if group_sort.fits(u):
        return build.several(UOp(Op.SORT, u.src, replace(u.arg, shared=True)))
    n, lead = shape[-1], build.count(shape[:-1])
    order = _order([build.reshape(key, (lead, n)) for key in u.src[: u.arg.keys]], target)
    numbers = build.reshape(build.shrink(order, (0, 0), (lead, n)), (lead, n, 1))
    rows = (build.reshape(x, (lead, n)) for x in u.src)
    return [build.reshape(build.gather(x, numbers, (1,), 1), shape) for x in rows]


def _sorted(u: UOp, target: Target) -> list[UOp]:
    return sort_on_grid(u, target) or build.several(u)


def _order(keys: Sequence[UOp], target: Target) -> UOp:
    """The numbers of the elements of each row in order; those of a last tile's rest come last."""
    lead, n = keys[0].shape
    padded = n + -n % TILE_ELEMENTS
    order = build.iota((lead, padded), 1, INT32)
    for at, chunk in enumerate(_chunks(keys)):
        beyond = const((1 << bit_width(chunk.dtype)) - 1, chunk.dtype)
        words = build.pad(chunk, (0, 0), (0, padded - n), None, beyond)
        if at:
            numbers = build.reshape(order, (lead, padded, 1))
            words = build.reshape(build.gather(words, numbers, (1,), 1), (lead, padded))
        bits = bit_width(chunk.dtype)
        for low in range(0, bits, DIGIT_BITS):
            is_last = low + DIGIT_BITS == bits
            moved = _moved_by_digit(words, [order] if is_last else [order, words], low, target)
            order, words = moved[0], moved[-1]
    return order


def _chunks(keys: Sequence[UOp]) -> Iterator[UOp]:
    """The bits by which rows are sorted, 32 at most of each key, the least significant first."""
    for key in reversed(keys):
        bits = sortable(key)
        if bit_width(bits.dtype) <= CHUNK_BITS:
            yield bits
            continue
        for low in range(0, bit_width(bits.dtype), CHUNK_BITS):
            yield build.cast(bits >> low if low else bits, np.dtype(f"uint{CHUNK_BITS}"))


def _moved_by_digit(words: UOp, values: Sequence[UOp], low: int, target: Target) -> list[UOp]:
    """Values in the order of one digit of their words."""
    lead, padded = words.shape
    tiles = padded // TILE_ELEMENTS
    shape = (lead * tiles, TILE_ELEMENTS)
    digits = build.cast((words >> low if low else words) & (RADIX - 1), uint8.dtype)
    operands = tuple(build.reshape(x, shape) for x in (digits, *values))
    digits, *values = build.several(UOp(Op.SORT, operands, Sort(1, shared=True)))
    begins = _begins(digits)  # [tile of all rows, digit]
    ends = build.concat(
        [
            build.shrink(begins, (0, 1), begins.shape),
            const(TILE_ELEMENTS, INT32, (shape[0], 1)),
        ],
        1,
    )
    counts = _by_digit(ends - begins, lead, tiles)
    offsets = _running_sum(counts, target) - counts - _by_digit(begins, lead, tiles)
    offsets = build.permute(build.reshape(offsets, (RADIX, tiles, lead)), (2, 1, 0))
    numbers = build.cast(build.reshape(digits, (*shape, 1)), INT32)
    offset = build.gather(build.reshape(offsets, (shape[0], RADIX)), numbers, (1,), 1)
    places = build.reshape(offset, shape) + build.iota(shape, 1, INT32)
    at = build.reshape(places, (lead, padded, 1))
    return [_put(x, at, x.dtype) for x in values]


def _begins(digits: UOp) -> UOp:
    """The first place of each digit in sorted tiles, by bisection: the number of words below it."""
    tiles = digits.shape[0]
    sought = build.iota((tiles, RADIX), 1, INT32)
    begin = build.full_like(sought, 0)
    steps = [TILE_ELEMENTS >> i for i in range(1, TILE_ELEMENTS.bit_length())]
    for step in (*steps, 1):  # once more for the last word
        at = build.reshape(begin + (step - 1), (tiles, RADIX, 1))
        digit = build.reshape(build.gather(digits, at, (1,), 1), (tiles, RADIX))
        begin = build.where(build.cast(digit, INT32) < sought, begin + step, begin)
    return begin


def _by_digit(x: UOp, lead: int, tiles: int) -> UOp:
    """Numbers of each tile and digit in the order of a result: digits, their tiles, rows."""
    x = build.permute(build.reshape(x, (lead, tiles, RADIX)), (2, 1, 0))
    return build.reshape(x, (RADIX * tiles, lead))


def _running_sum(x: UOp, target: Target) -> UOp:
    """The sums of all elements up to each along the first axis."""
    params = (Param(0, x.shape[1:], x.dtype), Param(1, x.shape[1:], x.dtype))
    total = param(params[0]) + param(params[1])
    body = function([total, total], params)
    start = const(0, x.dtype, x.shape[1:])
    results = build.scan(body, [], [start], [x], x.shape[0])
    return (scan_in_blocks(results[0].src[0], target) or results)[1]


def _put(x: UOp, at: UOp, dtype: DType) -> UOp:
    """The elements of each row at places that are all different."""
    lead, padded, _ = at.shape
    updates = build.reshape(x, (lead, padded, 1))
    src = (const(0, dtype, (lead, padded)), at, updates)
    return UOp(Op.SCATTER, src, Scatter(1, Op.WHERE, distinct=True, whole=True))
