"""Sort kernel: a stable sort of words, row by row, as instructions of the stage LINEAR.

Rows are sorted by length:

    short, several              a sorting network over rows side by side (`network`), where one
                                word holds a key and all else
    33 to some thousands        bitonic merges of vectors (`row_merges`), where one word does
    up to 32 elements           insertion sort (`row_sort`, as the others)
    up to 786,431               LSD radix sort: all digits are counted while the words are written,
                                then each pass moves the words by one digit; a pass that would move
                                nothing is skipped
    longer                      MSD first: one pass by the highest digit puts the words into buckets
                                that fit a cache; each bucket is sorted by two more digits, and by
                                insertion where these are equal

`words` says what a word holds.

Source: Knuth, The Art of Computer Programming, volume 3, sections 5.2.1 and 5.2.5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfn.dtypes import FLOATS, INT64
from tfn.lower.codegen.builder import Builder
from tfn.lower.codegen.linearize import BEGIN, END
from tfn.lower.codegen.sort import group_sort, network, row_merges
from tfn.lower.codegen.sort.key_encoding import bit_width, from_total_order
from tfn.lower.codegen.sort.plan import SortPlan, block_ns, plan, plan_of, scratch, sort_and_outputs
from tfn.lower.codegen.sort.row_sort import RowSorter
from tfn.lower.codegen.sort.ties import restore_ties
from tfn.lower.codegen.sort.words import PAYLOAD_BITS, PAYLOAD_MASK, chunks_of, words_of
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, reshaped

ZERO = const(0, INT64)

CACHED_L2_DIVISOR = 2
"""Words, source and target of a pass, are cached if they fit into this part of the L2 cache."""

NS_PER_WORD_AND_PASS = 1.5
"""Estimated time of one word in one pass, or in one step of insertion."""


def groups_and_threads(body: UOp) -> tuple[int, int]:
    """The tiles of the kernel of a SORT, and the threads that run each of them together."""
    node, _ = sort_and_outputs(body)
    if not node.arg.shared:
        return plan_of(body).groups, 1
    shared = group_sort.plan(node)
    return shared.groups, shared.threads


def work(body: UOp) -> int:
    """Estimated nanoseconds of the kernel of a SORT on one core."""
    (node, _), p = sort_and_outputs(body), plan_of(body)
    chunks = len(chunks_of(node.src[: node.arg.keys], p.keys_only))
    passes = p.digits + 2 if p.digits else p.size
    if p.lanes:
        return int(-(-p.rows // p.lanes) * block_ns(p.size, p.lanes, p.keys_only))
    return int(p.rows * p.size * chunks * passes * NS_PER_WORD_AND_PASS)


ASSUMPTION = (
    "a sort's words hold numbers of elements, and the counts of its digits add up to the size of a "
    "row: so both, and the positions made of counts, are below it"
)
"""The assumption under which a sort is proved in bounds: it is about contents of memory."""


def assumed(body: UOp, items: Sequence[UOp]) -> dict[UOp, tuple[int, int]]:
    """Intervals of the instructions that `ASSUMPTION` is about."""
    node, used = sort_and_outputs(body)
    if node.arg.shared:
        return group_sort.assumed(node, items)
    last, scratch_index = plan(node, used).size - 1, len(body.src)

    def is_scratch_load(u: UOp) -> bool:
        return u.op is Op.LOAD and u.src[0].arg.index == scratch_index

    def is_number(u: UOp) -> bool:
        if u.op is Op.AND and u.src[1] in (PAYLOAD_MASK, reshaped(PAYLOAD_MASK, u.shape)):
            return is_scratch_load(u.src[0])
        return is_scratch_load(u)

    casts = (u for u in items if u.op is Op.CAST and u.dtype == INT64)
    return {u: (0, last) for u in casts if is_number(u.src[0])}


def instructions(body: UOp, target: Target) -> tuple[tuple[UOp, ...], int]:
    """The kernel of TUPLE(GET(SORT(operands), i), ...), and its tiles.

    Its buffers are the results, the scratch if there is any, and the operands.
    """
    code, p = Builder(), plan_of(body)
    uncached = CACHED_L2_DIVISOR * 2 * p.size * p.word.itemsize > target.l2_bytes
    # Threads share groups, not rows: each group needs scratch of its own.
    group = code.open(BEGIN, END)
    if p.lanes:
        _sort_side_by_side(code, p, body, group, target)
        code.close(group)
        return tuple(code.scopes.root.items), p.groups
    per_group = -(-p.rows // p.groups)
    first = group * per_group
    with code.loop(first, build.minimum(first + per_group, const(p.rows, INT64))) as row:
        is_one_row = p.rows == 1  # then all addresses are constants
        start, base = (ZERO, ZERO) if is_one_row else (row * p.size, group * p.scratch_size)
        RowSorter(code, p, body, start, base, uncached).run(row_merges.lanes(target, p.word))
    code.close(group)
    return tuple(code.scopes.root.items), p.groups


def _sort_side_by_side(code: Builder, p: SortPlan, body: UOp, group: UOp, target: Target) -> None:
    """The rows of a group, by the network, a vector of rows at a time."""
    node, used = sort_and_outputs(body)
    key, memory = node.src[0], scratch(node, used)
    words = UOp(Op.PARAM, (), Param(len(used), memory.shape, p.word))
    # A vector may take several registers, but no part of one; a register may be of one number.
    fits = target.lane_bytes < target.vector_bytes <= network.LANE_BYTES
    has_lanes = fits and p.word not in target.scalars
    blocks = -(-p.rows // p.lanes)
    per_group = -(-blocks // p.groups)
    end = build.minimum((group + 1) * per_group, const(blocks, INT64))

    def word(keys: UOp, number: UOp) -> UOp:
        numbers = UOp(Op.SPLAT, (number,), p.lanes) if keys.shape else number
        return code.place(network.comparable(words_of(p, keys, numbers)))

    with code.loop(group * per_group, end) as number:
        first = code.place(number * p.lanes)
        block = network.Block(
            code, words, group * p.scratch_size, first, p.rows, p.size, p.lanes if has_lanes else 1
        )
        block.read(key, word)
        block.sort()
        for i, u in enumerate(body.src):
            operand = node.src[u.arg]

            def value(word: UOp, start: UOp, operand: UOp = operand) -> UOp:
                if p.keys_only:
                    unsigned = np.dtype(f"uint{bit_width(operand.dtype)}")
                    bits = build.cast(network.comparable(word), unsigned)
                    return from_total_order(bits, operand.dtype)
                place = code.place(build.cast(code.place(word & PAYLOAD_BITS), INT64))
                return code.load(operand, start + place)

            block.write(UOp(Op.PARAM, (), Param(i, u.shape, u.dtype)), value)
        if p.keys_only and key.dtype in FLOATS:
            result = UOp(Op.PARAM, (), Param(0, body.src[0].shape, key.dtype))
            with code.loop(0, p.lanes) as lane:
                restore_ties(code, key, result, block.start(lane), p.size)
