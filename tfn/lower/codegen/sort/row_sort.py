"""One row is sorted: insertion sort, LSD radix sort, MSD buckets.

Buckets pay only if keys are spread evenly.  That is tested: on a sample of the keys before a row is
put into buckets, on the histograms of each bucket, and by counting the steps of insertion so far.
Where it fails, all digits are sorted by LSD passes.

Words that do not stay in the L2 cache are scattered over memory: with each word that is written,
the next line of its digit is prefetched.

Source: Knuth, The Art of Computer Programming, volume 3, sections 5.2.1 and 5.2.5.
"""

from __future__ import annotations

import numpy as np

from tfn.dtypes import BOOL, FLOATS, INT64, UINT32, UINT64
from tfn.lower.codegen.builder import Builder
from tfn.lower.codegen.sort import row_merges
from tfn.lower.codegen.sort.key_encoding import bit_width, from_total_order, sortable, total_order
from tfn.lower.codegen.sort.plan import KEY_BITS, SortPlan, scratch, sort_and_outputs
from tfn.lower.codegen.sort.radix import RADIX, UNROLL, Histograms, ReadWord, WriteWord
from tfn.lower.codegen.sort.ties import restore_ties
from tfn.lower.codegen.sort.words import PAYLOAD_MASK, chunks_of, words_of
from tfn.lower.graph.layout import LINE_BYTES
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

ZERO = const(0, INT64)

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


class RowSorter:
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
        node, used = sort_and_outputs(body)
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
        self.chunks = chunks_of(node.src[: node.arg.keys], p.keys_only)
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
                with self.code.when(~is_even):  # as floats are, by their exponents
                    self._sort_by_digits(UNROLL)
            self.source, self.target = self.target, self.source

    def _sort_by_merges(self, lanes: int) -> None:
        """Sort words that all differ, or are equal in all their bits, by vectors."""
        code, size, (self.chunk,) = self.code, self.plan.size, self.chunks
        self.packed, key = self.plan.keys_only, self.chunk.key
        merges = row_merges.RowMerges(code, self.scratch, self.base, size, lanes)

        def words(i: UOp) -> UOp:
            keys = code.load(key, self.start + i, lanes)
            numbers = UOp(Op.SPLAT, (i,), lanes) + UOp(Op.LANES, (), lanes)
            return code.place(words_of(self.plan, keys, numbers))

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
