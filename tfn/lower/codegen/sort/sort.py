"""Radix sort kernel: a stable sort of words, row by row, as instructions of the stage LINEAR.

A word is 64 bits: 32 of the key above, and below them a payload.  The payload is the one result
that is used, if it fits 32 bits, or else the number of the element, through which every result is
gathered at the end (argsort).  Wider keys, and several, are sorted by 32 bits at a time, the least
significant first:

    keys 3 1 2, results a b c  ->  words 3a 1b 2c  ->  1b 2c 3a  ->  b c a

Where the key is the only result, a word is a key and nothing else, of 32 or 64 bits.  The order of
floats that compare equal is restored at the end (`ties`).

Rows are sorted by length:

    short, several              a sorting network over rows side by side (`network`), where one
                                word holds a key and all else
    33 to some thousands        bitonic merges of vectors (`row_merges`), where one word does
    up to 32 elements           insertion sort
    up to 786,431               LSD radix sort: all digits are counted while the words are written,
                                then each pass moves the words by one digit; a pass that would move
                                nothing is skipped
    longer                      MSD first: one pass by the highest digit puts the words into buckets
                                that fit a cache; each bucket is sorted by two more digits, and by
                                insertion where these are equal

Buckets pay only if keys are spread evenly.  That is tested: on a sample of the keys before a row is
put into buckets, on the histograms of each bucket, and by counting the steps of insertion so far.
Where it fails, all digits are sorted by LSD passes.

Words that do not stay in the L2 cache are scattered over memory: with each word that is written,
the next line of its digit is prefetched.

Source: Knuth, The Art of Computer Programming, volume 3, sections 5.2.1 and 5.2.5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, FLOATS, INT64, UINT32, UINT64
from tfn.lower.codegen.builder import Builder
from tfn.lower.codegen.linearize import BEGIN, END
from tfn.lower.codegen.sort import group_sort, network, row_merges
from tfn.lower.codegen.sort.key_encoding import (
    bit_width,
    from_total_order,
    sortable,
    total_order,
)
from tfn.lower.codegen.sort.plan import KEY_BITS, SortPlan, block_ns, plan
from tfn.lower.codegen.sort.radix import (
    DIGIT_BITS,
    RADIX,
    UNROLL,
    Histograms,
    ReadWord,
    WriteWord,
)
from tfn.lower.codegen.sort.ties import restore_ties
from tfn.lower.graph.layout import LINE_BYTES
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, reshaped

ZERO = const(0, INT64)

PAYLOAD_BITS = (1 << KEY_BITS) - 1
PAYLOAD_MASK = const(PAYLOAD_BITS, UINT64)
"""The lower half of a word."""

MIN_ELEMENTS_TO_SKIP_PASSES = 1 << 10
"""Rows from this length on skip passes that move nothing, and unroll the others.

In shorter rows the test takes longer than the passes it saves.
"""

MIN_ELEMENTS_FOR_BUCKETS = 3 << 18
"""Rows from this length on (6 MiB of words) do not stay in a cache from pass to pass.

Every pass then waits for memory: buckets save two of three passes over all of it.
"""

MAX_EVEN_SAMPLE_COUNT = 16
"""Largest number of 256 sampled keys that share a digit, if keys are spread evenly."""

MAX_EVEN_BUCKET_COUNT = 128
"""Largest number of words of a bucket that share a digit, if keys are spread evenly."""

WORDS_PER_INSERTION_STEP = 8
"""An LSD pass over this many words takes as long as one step of insertion for each of them costs.

Insertion is given up when there have been more steps.
"""

CACHED_L2_DIVISOR = 2
"""Words, source and target of a pass, are cached if they fit into this part of the L2 cache."""

NS_PER_WORD_AND_PASS = 1.5
"""Estimated time of one word in one pass, or in one step of insertion."""


def _sort_and_outputs(body: UOp) -> tuple[UOp, tuple[int, ...]]:
    """The SORT in the body of a kernel, and which of its results are used."""
    return body.src[0].src[0], tuple(u.arg for u in body.src)


def plan_of(body: UOp) -> SortPlan:
    """The algorithm for the kernel of TUPLE(GET(SORT(operands), i), ...)."""
    return plan(*_sort_and_outputs(body))


def groups_and_threads(body: UOp) -> tuple[int, int]:
    """The tiles of the kernel of a SORT, and the threads that run each of them together."""
    node, _ = _sort_and_outputs(body)
    if not node.arg.shared:
        return plan_of(body).groups, 1
    shared = group_sort.plan(node)
    return shared.groups, shared.threads


def scratch(node: UOp, outputs: Sequence[int]) -> UOp:
    """The buffer that the kernel of a SORT needs beside its operands and results."""
    p = plan(node, outputs)
    return const(0, p.word, (p.groups * p.scratch_size,))


def work(body: UOp) -> int:
    """Estimated nanoseconds of the kernel of a SORT on one core."""
    (node, _), p = _sort_and_outputs(body), plan_of(body)
    chunks = sum(-(-bit_width(key.dtype) // KEY_BITS) for key in node.src[: node.arg.keys])
    chunks = 1 if p.keys_only else chunks
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
    node, used = _sort_and_outputs(body)
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


@frozen
class _Chunk:
    """Bits of a key that words hold: `bits` from `low` on; whether they are sorted first, last."""

    key: UOp
    low: int
    bits: int
    first: bool
    last: bool

    @property
    def digits(self) -> range:
        return range(self.bits // DIGIT_BITS)


def _chunks(keys: Sequence[UOp], keys_only: bool) -> list[_Chunk]:
    """The chunks of all keys, the least significant first."""
    if keys_only:
        return [_Chunk(keys[0], 0, bit_width(keys[0].dtype), first=True, last=True)]
    chunks = [
        (key, low, min(KEY_BITS, bit_width(key.dtype)))
        for key in reversed(keys)
        for low in range(0, bit_width(key.dtype), KEY_BITS)
    ]
    return [_Chunk(*chunk, i == 0, i == len(chunks) - 1) for i, chunk in enumerate(chunks)]


def instructions(body: UOp, target: Target) -> tuple[tuple[UOp, ...], int]:
    """The kernel of TUPLE(GET(SORT(operands), i), ...), and its tiles.

    Its buffers are the results, the scratch if there is any, and the operands.
    """
    if target.grid is not None and _sort_and_outputs(body)[0].arg.shared:
        return group_sort.instructions(body, target.grid), groups_and_threads(body)[0]
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
        _RowSorter(code, p, body, start, base, uncached).run(row_merges.lanes(target, p.word))
    code.close(group)
    return tuple(code.scopes.root.items), p.groups


def _sort_side_by_side(code: Builder, p: SortPlan, body: UOp, group: UOp, target: Target) -> None:
    """The rows of a group, by the network, a vector of rows at a time."""
    node, used = _sort_and_outputs(body)
    key, memory = node.src[0], scratch(node, used)
    words = UOp(Op.PARAM, (), Param(len(used), memory.shape, p.word))
    # A vector may take several registers, but no part of one.
    fits = target.vector_bytes <= network.LANE_BYTES and p.word not in target.scalars
    has_lanes = target.grid is None and fits
    blocks = -(-p.rows // p.lanes)
    per_group = -(-blocks // p.groups)
    end = build.minimum((group + 1) * per_group, const(blocks, INT64))

    def word(keys: UOp, number: UOp) -> UOp:
        numbers = UOp(Op.SPLAT, (number,), p.lanes) if keys.shape else number
        return code.place(network.comparable(_words(p, keys, numbers)))

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


def _words(p: SortPlan, keys: UOp, numbers: UOp) -> UOp:
    """The words of elements, whose order is that of their keys, and then of their numbers."""
    if p.keys_only:
        return build.cast(total_order(keys), p.word)
    return (build.cast(sortable(keys), UINT64) << KEY_BITS) | build.cast(numbers, UINT64)


class _RowSorter:
    """The instructions that sort one row.

    Attributes:
        start: index of the row in operands and results.
        uncached: whether words do not stay in the L2 cache.
        source, target: index in the scratch of the words before and after a chunk is sorted.
        steps: index in the scratch of the number of insertion steps so far.
        chunk: the bits that words are sorted by at present.
        packed: whether a word holds the result itself, not the number of its element.
    """

    def __init__(
        self, code: Builder, p: SortPlan, body: UOp, start: UOp, base: UOp, uncached: bool
    ) -> None:
        self.code, self.plan, self.start, self.uncached = code, p, start, uncached
        node, used = _sort_and_outputs(body)
        outputs = len(used)
        self.scratch = UOp(Op.PARAM, (), Param(outputs, scratch(node, used).shape, p.word))
        self.base, self.histograms = base, Histograms(code, self.scratch, base, p.low)
        self.source = base + p.digits * RADIX + 1 if p.digits else base
        self.target = self.source + p.size + 1 if p.digits else base
        self.steps = self.target + p.size
        self.results = [
            (UOp(Op.PARAM, (), Param(i, u.shape, u.dtype)), node.src[u.arg])
            for i, u in enumerate(body.src)
        ]
        self.chunks = _chunks(node.src[: node.arg.keys], p.keys_only)
        fits = outputs == 1 and self.results[0][0].dtype.itemsize * 8 <= KEY_BITS
        self.packed = p.keys_only or (fits and len(self.chunks) == 1)

    def run(self, lanes: int) -> None:
        """Sort by each chunk of the keys, or by merges with `lanes`, and write the results."""
        if self.plan.merges and lanes:
            self._sort_by_merges(lanes)
        else:
            self._sort_by_chunks()
        if self.plan.keys_only and self.chunk.key.dtype in FLOATS:
            key, (result, _) = self.chunk.key, self.results[0]
            restore_ties(self.code, key, result, self.start, self.plan.size)

    def _sort_by_chunks(self) -> None:
        for chunk in self.chunks:
            self.chunk = chunk
            if not self.plan.digits:
                self._sort_by_insertion()
            elif not self._may_use_buckets():
                is_long = self.plan.size >= MIN_ELEMENTS_TO_SKIP_PASSES
                self._sort_by_digits(UNROLL if is_long else 1)
            else:
                is_even = self._is_spread_evenly()
                with self.code.when(is_even):
                    self._sort_by_buckets()
                # Code for uneven keys is kept small: they are rare, and unrolling helps them least.
                with self.code.when(~is_even):
                    self._sort_by_digits(unroll=1)
            self.source, self.target = self.target, self.source

    def _sort_by_merges(self, lanes: int) -> None:
        """Sort words that all differ, or are equal in all their bits, by vectors."""
        code, size, (self.chunk,) = self.code, self.plan.size, self.chunks
        self.packed, key = self.plan.keys_only, self.chunk.key
        merges = row_merges.RowMerges(code, self.scratch, self.base, size, lanes)

        def words(i: UOp) -> UOp:
            keys = code.load(key, self.start + i, lanes)
            numbers = UOp(Op.SPLAT, (i,), lanes) + UOp(Op.LANES, (), lanes)
            return code.place(_words(self.plan, keys, numbers))

        def store(words: UOp, i: UOp) -> None:
            unsigned = np.dtype(f"uint{bit_width(key.dtype)}")
            values = from_total_order(build.cast(words, unsigned), key.dtype)
            code.store(self.results[0][0], self.start + i, values)

        merges.read(words)
        merges.sort()
        if self.packed:
            merges.write(store)
            return
        with code.loop(0, size) as i:
            self._write_results(self._reader(self.base)(i), i)

    def _may_use_buckets(self) -> bool:
        """Whether a row is long enough for buckets; 32-bit words are cheap enough to move."""
        p = self.plan
        is_long = p.size >= MIN_ELEMENTS_FOR_BUCKETS
        return is_long and self.chunk.bits >= KEY_BITS and p.word != UINT32

    # Words.

    def _element_number(self, i: UOp) -> UOp:
        """The number of the element that is at `i` in the order so far."""
        if self.chunk.first:
            return build.cast(i, UINT64)
        return self.code.place(self._reader(self.source)(i) & PAYLOAD_MASK)

    def _key(self, number: UOp) -> UOp:
        """The word of an element, without its payload."""
        index = self.start + build.cast(number, INT64)
        key = self.code.load(self.chunk.key, index)
        if self.plan.keys_only:
            return self.code.place(build.cast(total_order(key), self.plan.word))
        wide = build.cast(sortable(key), UINT64)
        in_place = (wide & ~PAYLOAD_MASK) if self.chunk.low else ((wide & PAYLOAD_MASK) << KEY_BITS)
        return self.code.place(in_place)

    def _word(self, i: UOp) -> UOp:
        """The word of the element that is at `i` in the order so far."""
        payload = self._element_number(i)
        key = self._key(payload)
        if self.plan.keys_only:
            return key
        if self.packed:  # the result travels with its key: nothing is gathered at the end
            operand = self.results[0][1]
            value = self.code.load(operand, self.start + i)
            if operand.dtype != BOOL:
                value = build.bitcast(value, np.dtype(f"uint{bit_width(operand.dtype)}"))
            payload = build.cast(value, UINT64)
        return self.code.place(key | payload)

    def _reader(self, base: UOp) -> ReadWord:
        return lambda index: self.code.load(self.scratch, base + index)

    def _writer(self, base: UOp, uncached: bool = False) -> WriteWord:
        def write(word: UOp, index: UOp) -> None:
            self.code.store(self.scratch, base + index, word)
            if uncached:
                self._prefetch_next_line(self.scratch, base + index)

        return write

    def _prefetch_next_line(self, buffer: UOp, index: UOp) -> None:
        """Prefetch the line after this one: the next words of the same digit are written there."""
        self.code.prefetch(buffer, index + LINE_BYTES // buffer.dtype.itemsize)

    def _write_uncached_results(self, word: UOp, index: UOp) -> None:
        self._write_results(word, index)
        for result, _ in self.results:
            self._prefetch_next_line(result, self.start + index)

    def _write_results(self, word: UOp, index: UOp) -> None:
        """Write the results of a word at its final position, if its chunk is the last."""
        code = self.code
        if not self.chunk.last:
            return
        payload = code.place(word if self.plan.keys_only else word & PAYLOAD_MASK)
        for result, operand in self.results:
            unsigned = np.dtype(f"uint{bit_width(result.dtype)}")
            if not self.packed:
                value = code.load(operand, self.start + build.cast(payload, INT64))
            elif self.plan.keys_only:
                value = from_total_order(build.cast(payload, unsigned), result.dtype)
            elif result.dtype == BOOL:
                value = build.cast(payload, BOOL)
            else:
                value = build.bitcast(build.cast(payload, unsigned), result.dtype)
            code.store(result, self.start + index, value)

    # Insertion sort.

    def _sort_by_insertion(self) -> None:
        with self.code.loop(0, self.plan.size) as i:
            self._insert(self._word(i), i, self._writer(self.target))
        if self.chunk.last:
            with self.code.loop(0, self.plan.size) as i:
                self._write_results(self._reader(self.target)(i), i)

    def _insert(self, word: UOp, i: UOp, write: WriteWord) -> UOp:
        """Insert word `i` before all larger ones, which are shifted; returns its position."""
        code = self.code
        loop = code.open_endless()
        position = code.carry(loop, i)
        before = code.place(build.maximum(position - 1, ZERO))
        other = self._reader(self.target)(before)
        code.leave_unless(loop, (position > 0) & self._is_less(word, other))
        write(other, position)
        code.close(loop, (position, before))
        write(word, position)
        return position

    # LSD radix sort.

    def _sort_by_digits(self, unroll: int) -> None:
        """Sort all words by each digit, the least significant first."""
        digits, size = self.chunk.digits, self.plan.size
        read_first = None
        if self.uncached and self.chunk.first:
            # Words are computed twice in less time than they are written to memory and read.
            read_first = self._word
            read_key: ReadWord = lambda i: self._key(self._element_number(i))
            self.histograms.count(0, size, read_key, digits, unroll=1)
        else:
            self.histograms.clear(digits)
            with self.code.loop(0, size) as i:
                word = self._word(i)
                self._writer(self.target)(word, i)
                self.histograms.add(word, digits)
        self._passes(ZERO, const(size, INT64), digits, unroll, read_first)

    def _passes(
        self,
        begin: UOp,
        end: UOp,
        digits: range,
        unroll: int,
        read_first: ReadWord | None = None,
    ) -> None:
        """Sort a range of words by digits that are counted; write their results, or move them back.

        A row may be uncached, a bucket is not.  The first pass may compute the words it reads.
        """
        code, source, target = self.code, self.target, self.source
        uncached = self.uncached and begin is ZERO
        for digit in digits[:-1] if self.chunk.last else digits:
            stop, following = end, (target, source)
            if self.plan.size >= MIN_ELEMENTS_TO_SKIP_PASSES and read_first is None:
                # A pass moves nothing if all words have the digit of the first: its loop is empty.
                first_word = self._reader(source)(begin)
                count = code.load(self.scratch, self.histograms.index(first_word, digit))
                moves = code.place(build.ne(count, build.cast(end - begin, self.plan.word)))
                stop = build.where(moves, end, begin)
                following = (
                    build.where(moves, target, source),
                    build.where(moves, source, target),
                )
            self.histograms.prefix_sum(digit, begin)
            read, read_first = read_first or self._reader(source), None
            write = self._writer(target, uncached)
            self.histograms.scatter(begin, stop, read, digit, write, unroll)
            source, target = map(code.place, following)
        if self.chunk.last:
            self.histograms.prefix_sum(digits[-1], begin)
            write = self._write_uncached_results if uncached else self._write_results
            read = read_first or self._reader(source)
            self.histograms.scatter(begin, end, read, digits[-1], write, unroll)
        elif source is not self.target:  # an odd number of passes, or passes were skipped
            with code.loop(build.where(build.eq(source, self.target), end, begin), end) as i:
                self._writer(self.target)(self._reader(source)(i), i)

    # MSD buckets.

    def _is_spread_evenly(self) -> UOp:
        """Whether the highest digits of a sample of keys are spread evenly."""
        stride, top = self.plan.size // RADIX, self.chunk.digits[-1:]
        read: ReadWord = lambda i: self._key(self._element_number(i * stride))
        self.histograms.count(0, RADIX, read, top, unroll=1)
        return self.code.place(self.histograms.largest(top) <= MAX_EVEN_SAMPLE_COUNT)

    def _sort_by_buckets(self) -> None:
        """Sort by the highest digit, then each bucket."""
        code, size, top = self.code, self.plan.size, self.chunk.digits[-1:]
        self.histograms.count(0, size, lambda i: self._key(self._element_number(i)), top)
        self.histograms.prefix_sum(top[0], ZERO)
        write = self._writer(self.target, self.uncached)
        self.histograms.scatter(0, size, self._word, top[0], write)
        zero = self.histograms.constant(0)
        code.store(self.scratch, self.target - 1, zero)  # a sentinel: not above the first word
        code.store(self.scratch, self.steps, zero)
        with code.loop(0, RADIX) as bucket:
            before = self._bucket_end(build.maximum(bucket - 1, ZERO))
            begin = code.place(build.where(bucket > 0, before, ZERO))
            self._sort_bucket(begin, code.place(self._bucket_end(bucket)))

    def _bucket_end(self, bucket: UOp) -> UOp:
        """The position of the next bucket: the scatter has advanced positions to there."""
        index = self.histograms.tables + self.chunk.digits[-1] * RADIX + bucket
        position = self.code.load(self.scratch, index)
        size = self.histograms.constant(self.plan.size)
        return build.cast(build.minimum(position, size), INT64)

    def _sort_bucket(self, begin: UOp, end: UOp) -> None:
        """Sort by two digits and insertion, unless that takes, or has taken, too many steps."""
        code, read = self.code, self._reader(self.target)
        digits = self.chunk.digits
        self.histograms.count(begin, end, read, digits[-3:-1])
        is_even = self.histograms.largest(digits[-3:-1]) <= MAX_EVEN_BUCKET_COUNT
        steps = code.load(self.scratch, self.steps)
        is_cheap = steps <= build.cast(end // WORDS_PER_INSERTION_STEP, UINT64)
        use_insertion = code.place(is_even & is_cheap)
        with code.when(use_insertion):
            self._sort_by_two_digits(begin, end)
        with code.when(~use_insertion):
            self.histograms.count(begin, end, read, digits[:-3], unroll=1)
            self._passes(begin, end, digits[:-1], unroll=1)

    def _sort_by_two_digits(self, begin: UOp, end: UOp) -> None:
        """Sort a bucket by two digits, and words that are equal in both by insertion."""
        code, read, write = self.code, self._reader(self.target), self._writer(self.target)
        low, high = self.chunk.digits[-3:-1]
        length = build.minimum(end - begin, const(self.plan.size, INT64))
        self.histograms.prefix_sum(low, ZERO)
        self.histograms.scatter(begin, end, read, low, self._writer(self.source))
        self.histograms.prefix_sum(high, begin)
        self.histograms.scatter(0, length, self._reader(self.source), high, write)

        def write_with_results(word: UOp, index: UOp) -> None:
            write(word, index)
            self._write_results(word, index)

        # Results are written at once: an insertion overwrites those of the words it shifts.
        with code.loop(begin, end) as i:
            word, before = read(i), read(i - 1)
            self._write_results(word, i)
            with code.when(self._is_less(word, before)):
                steps = i - self._insert(word, i, write_with_results)
                total = code.load(self.scratch, self.steps)
                code.store(self.scratch, self.steps, total + build.cast(steps, UINT64))

    def _is_less(self, word: UOp, other: UOp) -> UOp:
        """Whether a word has the smaller key."""
        if self.plan.keys_only:
            return word < other
        return (word >> KEY_BITS) < (other >> KEY_BITS)
