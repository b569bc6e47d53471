"""Sorting network: short rows are sorted side by side, one in each lane of a vector.

    rows 3 1 2     words 3 6     1 4     1 4            1 2 3
         6 5 4  ->       1 5  -> 3 5  -> 2 5  -> ... -> 4 5 6
                         2 4     2 6     3 6

A block of as many rows as a vector has lanes is turned into words, word `i` of all rows in one
vector.  The network compares and exchanges pairs of vectors, whose places do not depend on the
values: no branch waits for a comparison.  Words are all different, or equal in all their bits, so
that the order is stable without further ado.  Its loops are the same for all lengths.

Source: Knuth, The Art of Computer Programming, volume 3, section 5.2.2, algorithm M (Batcher's
merge exchange).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, INT64, UINT64, DType
from tfn.lower.codegen.builder import Builder
from tfn.lower.codegen.register_transpose import transpose
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

LANE_BYTES = 64
"""Bytes of the vectors: narrower registers hold one in parts."""

UNROLL = 4
"""Pairs that are loaded before the first of them is stored: those of one merge do not overlap.

Columns of 182 float64 took 120 us by two pairs, 107 by four, 137 by eight."""

Words = Callable[[UOp, UOp], UOp]
"""Gives words from keys and the number of their elements in the row."""


def lanes(word: DType) -> int:
    """Rows of a block."""
    return LANE_BYTES // word.itemsize


def comparisons(size: int) -> int:
    """About how many pairs the network compares: exact where the size is a power of two."""
    steps = max(1, (size - 1).bit_length())
    return int((steps * steps - steps + 4) * size / 4)


def comparable(words: UOp) -> UOp:
    """Words with the sign flipped where they are compared as signed ones, and back again.

    AVX2 has no other comparison of 64 bits.
    """
    return words ^ (1 << 63) if words.dtype == UINT64 else words


def exchanged(code: Builder, a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """The smaller and the larger of two `comparable` words, in each lane."""
    signed = [build.bitcast(u, INT64) if u.dtype == UINT64 else u for u in (a, b)]
    pair = build.minimum(*signed), build.maximum(*signed)
    low, high = (code.place(build.bitcast(u, a.dtype)) for u in pair)
    return low, high


@contextmanager
def merges(code: Builder, size: int) -> Iterator[tuple[UOp, UOp, UOp, UOp]]:
    """The merges of a network for `size` numbers, inside a loop: begin, apart, period and count.

    The pairs of a merge are `apart`, and their lower numbers are those whose bit `period` is that
    of `begin`: one loop counts them all, whatever their distance.
    """
    zero, steps = const(0, INT64), (size - 1).bit_length()
    one, n, whole = (const(k, INT64) for k in (1, size, 1 << steps))
    with code.loop(0, steps) as step:
        period = code.place((whole >> 1) >> step)
        bits = code.place(const(steps, INT64) - step)  # of a run of twice the period
        with code.loop(0, step + 1) as merge:
            is_first = build.eq(merge, zero)
            apart = build.where(is_first, period, (whole >> merge) - period)
            # It is in bounds; the clamp, and that of places by it, are for the proof.
            apart = build.minimum(apart, const(max(size - 1, 1), INT64))
            apart = code.place(build.maximum(apart, one))
            begin = code.place(build.where(is_first, zero, period))
            numbers = code.place(build.maximum(n - apart - begin, zero))
            runs = code.place(numbers >> bits)
            rest = build.minimum(numbers - (runs << bits), period)
            yield begin, apart, period, code.place(runs * period + rest)


@frozen
class Block:
    """Rows that are sorted side by side.

    Attributes:
        code: receives the instructions.
        scratch, base: words of the block, from an index of the scratch on.
        first: the number of the first row.
        rows, size: of the whole operand.
        width: lanes of a vector, or 1 where the target has none for words.
    """

    code: Builder
    scratch: UOp
    base: UOp
    first: UOp
    rows: int
    size: int
    width: int

    @property
    def lanes(self) -> int:
        """Rows of the block; the last row of the operand stands for those beyond its end."""
        return lanes(self.scratch.dtype)

    def start(self, lane: UOp | int) -> UOp:
        """The index in operands and results at which a row begins."""
        row = build.minimum(self.first + lane, const(self.rows - 1, INT64))
        return self.code.place(row * self.size)

    def starts(self) -> UOp:
        """The same for all rows, as a vector."""
        row = UOp(Op.SPLAT, (self.first,), self.lanes) + UOp(Op.LANES, (), self.lanes)
        return self.code.place(build.minimum(row, build.full_like(row, self.rows - 1)) * self.size)

    def _in_tiles(self, dtype: DType) -> bool:
        """Whether elements of a dtype are loaded and stored by squares of rows and columns."""
        return self.width > 1 and self.size >= self.lanes and dtype != BOOL

    def read(self, key: UOp, words: Words) -> None:
        """Write the words of all keys of the block, which are `comparable`."""
        code, n = self.code, self.lanes
        if not self._in_tiles(key.dtype):
            with code.loop(0, n) as lane:
                start = self.start(lane)
                with code.loop(0, self.size) as i:
                    word = words(code.load(key, start + i), i)
                    code.store(self.scratch, self.base + i * n + lane, word)
            return
        starts = [self.start(lane) for lane in range(n)]
        with self._columns() as column:
            rows = [code.load(key, start + column, n) for start in starts]
            for j, keys in enumerate(transpose(rows, code.place)):
                word = words(keys, column + j)
                code.store(self.scratch, self.base + (column + j) * n, word)

    def write(self, result: UOp, value: Callable[[UOp, UOp], UOp]) -> None:
        """Write a result: of words in order, and the index at which their rows start."""
        code, n = self.code, self.lanes
        if not self._in_tiles(result.dtype):
            with code.loop(0, n) as lane:
                start = self.start(lane)
                with code.loop(0, self.size) as i:
                    word = code.load(self.scratch, self.base + i * n + lane)
                    code.store(result, start + i, value(word, start))
            return
        starts, all_starts = [self.start(lane) for lane in range(n)], self.starts()
        with self._columns() as column:
            words = [code.load(self.scratch, self.base + (column + j) * n, n) for j in range(n)]
            columns = [code.place(value(word, all_starts)) for word in words]
            for start, row in zip(starts, transpose(columns, code.place), strict=True):
                code.store(result, start + column, row)

    @contextmanager
    def _columns(self) -> Iterator[UOp]:
        """A loop over the first columns of squares; the last of them may overlap the one before."""
        n = self.lanes
        with self.code.loop(0, -(-self.size // n)) as square:
            yield self.code.place(build.minimum(square * n, const(self.size - n, INT64)))

    def sort(self) -> None:
        """Compare and exchange words until all rows are in order."""
        with merges(self.code, self.size) as (begin, apart, period, count):
            last = self.code.place(const(self.size, INT64) - apart - 1)

            def exchange(*pairs: UOp) -> None:
                lows = [build.minimum(begin + i + (i & -period), last) for i in pairs]
                self._exchange([self.code.place(i) for i in lows], apart)

            self.code.unrolled_loop(0, count, exchange, UNROLL)

    def _exchange(self, lows: Sequence[UOp], apart: UOp) -> None:
        """Put words of each row that are some places apart in order."""
        code, n = self.code, self.lanes
        for lane in range(0, n, self.width):
            at = [(self.base + i * n + lane, self.base + (i + apart) * n + lane) for i in lows]
            words = [[code.load(self.scratch, i, self.width) for i in pair] for pair in at]
            for (i, j), (a, b) in zip(at, words, strict=True):
                low, high = exchanged(code, a, b)
                code.store(self.scratch, i, low)
                code.store(self.scratch, j, high)
