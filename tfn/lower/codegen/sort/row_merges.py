"""Bitonic merges: the words of one row are sorted by vectors, without a branch on their values.

    a row of 256 words, 8 in a vector   4 squares of 64, each sorted in registers
                                        merged to 2 runs of 128, and these to one of 256

A square of as many vectors as each has lanes is sorted along its columns by a network, transposed,
and its runs are merged in registers.  A merge of two runs of `half` words compares word i with word
``2 half - 1 - i``, after which both halves are bitonic; then words `half / 2`, `half / 4`, .. 1
apart.  Whole vectors are compared down to distances of a square; within squares the same is done in
registers, transposed for distances below a vector.  All exchanges put the smaller word first, so
that words of all ones behind the row stay there: where one of a pair is beyond them, the pair is
left out.  Its loops are the same for all lengths.

Source: K. E. Batcher 1968, "Sorting networks and their applications"; Knuth, The Art of Computer
Programming, volume 3, section 5.2.2, algorithm M.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfn._support.frozen import frozen
from tfn.dtypes import INT64, DType
from tfn.lower.codegen.builder import Builder
from tfn.lower.codegen.register_transpose import transpose
from tfn.lower.codegen.sort.network import comparable, exchanged
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

MAX_LANES = 16
"""Lanes of a vector up to which a square of vectors is held in registers."""


UNROLL = 2
"""Pairs of vectors that are loaded before the first of them is stored."""


def lanes(target: Target, word: DType) -> int:
    """Words of a vector by which a target merges rows; 0 where it does not."""
    n = target.vector_bytes // word.itemsize
    return n if word not in target.scalars and 2 <= n <= MAX_LANES else 0


@frozen
class RowMerges:
    """The words of one row, in memory.

    Attributes:
        code: receives the instructions.
        scratch, base: the words, from an index of the scratch on.
        size: how many there are; those up to a whole square are written too, as all ones.
        lanes: words of a vector.
    """

    code: Builder
    scratch: UOp
    base: UOp
    size: int
    lanes: int

    @property
    def _vectors(self) -> int:
        """Vectors of the row and of what is behind it up to a whole square."""
        return -(-self.size // self.lanes**2) * self.lanes

    def read(self, word: Callable[[UOp], UOp]) -> None:
        """Write the words of a row: `word` gives a vector of them, from an index of the row on."""
        code, n, dtype = self.code, self.lanes, self.scratch.dtype
        ones = comparable(const((1 << 8 * dtype.itemsize) - 1, dtype, (n,)))
        for i in range(self._vectors - n, self._vectors):
            code.store(self.scratch, self.base + i * n, ones)
        for start in self._starts():
            code.store(self.scratch, self.base + start, comparable(word(start)))

    def write(self, store: Callable[[UOp, UOp], None]) -> None:
        """Pass on the words in order: vectors of them, and the index in the row of each."""
        for start in self._starts():
            words = self.code.load(self.scratch, self.base + start, self.lanes)
            store(comparable(words), start)

    def _starts(self) -> Iterator[UOp]:
        """Inside a loop, the starts of vectors; the last may overlap the one before."""
        with self.code.loop(0, -(-self.size // self.lanes)) as i:
            yield self.code.place(
                build.minimum(i * self.lanes, const(self.size - self.lanes, INT64))
            )

    def sort(self) -> None:
        """Put the words in order."""
        code, squares = self.code, self._vectors // self.lanes
        self._in_squares(self._sorted_square)
        with code.loop(0, (squares - 1).bit_length()) as level:
            half = code.place(const(self.lanes, INT64) << level)  # in vectors
            self._compare_mirrored(half)
            with code.loop(0, level) as step:
                self._compare_apart(code.place((half >> 1) >> step))
            self._in_squares(self._merged_square)

    # Vectors in memory.

    def _compare_mirrored(self, half: UOp) -> None:
        """In pairs of runs of `half` vectors, compare word i with word 2 half - 1 - i."""
        code, zero, count = self.code, const(0, INT64), const(self._vectors, INT64)
        whole = half * 2
        with code.loop(0, code.place((count - half + whole - 1) // whole)) as pair:
            start = code.place(pair * whole)
            # Vectors that would be compared with those behind the row are left out.
            beyond = build.maximum(start + whole - count, zero)
            first = code.place(build.minimum(start + beyond, count))
            last = code.place(build.minimum(start + whole, count) - 1)

            def compare(*numbers: UOp) -> None:
                pairs = [(first + k, build.maximum(last - k, zero)) for k in numbers]
                words = [(self._load(i), self._reversed(self._load(j))) for i, j in pairs]
                for (i, j), pair in zip(pairs, words, strict=True):
                    low, high = self._exchanged(*pair)
                    self._store(i, low)
                    self._store(j, self._reversed(high))

            end = build.minimum(start + half, count)
            code.unrolled_loop(0, code.place(end - first), compare, UNROLL)

    def _compare_apart(self, apart: UOp) -> None:
        """In all runs of 2 apart vectors, compare each vector with the one that is `apart`."""
        code, count, whole = self.code, const(self._vectors, INT64), apart * 2
        with code.loop(0, code.place((count - apart + whole - 1) // whole)) as run:
            start = code.place(run * whole)

            def compare(*vectors: UOp) -> None:
                words = [(self._load(i), self._load(i + apart)) for i in vectors]
                for i, (a, b) in zip(vectors, words, strict=True):
                    low, high = self._exchanged(a, b)
                    self._store(i, low)
                    self._store(i + apart, high)

            end = code.place(build.minimum(start + apart, count - apart))
            code.unrolled_loop(start, end, compare, UNROLL)

    def _load(self, vector: UOp) -> UOp:
        return self.code.load(self.scratch, self.base + vector * self.lanes, self.lanes)

    def _store(self, vector: UOp, value: UOp) -> None:
        self.code.store(self.scratch, self.base + vector * self.lanes, value)

    # Squares in registers.

    def _in_squares(self, change: Callable[[list[UOp]], list[UOp]]) -> None:
        """Replace the vectors of each square."""
        n = self.lanes
        with self.code.loop(0, self._vectors // n) as square:
            first = self.code.place(self.base + square * (n * n))
            rows = [self.code.load(self.scratch, first + i * n, n) for i in range(n)]
            for i, row in enumerate(change(rows)):
                self.code.store(self.scratch, first + i * n, row)

    def _sorted_square(self, rows: list[UOp]) -> list[UOp]:
        """A square in order: its columns are sorted, and are then its rows, which are merged."""
        n = self.lanes
        for i, j in _merge_exchange(n):
            rows[i], rows[j] = self._exchanged(rows[i], rows[j])
        rows, half = transpose(rows, self.code.place), 1
        while half < n:
            for start in range(0, n, 2 * half):
                for i in range(start, start + half):
                    j = 2 * start + 2 * half - 1 - i
                    rows[i], high = self._exchanged(rows[i], self._reversed(rows[j]))
                    rows[j] = self._reversed(high)
            rows = self._merged_square(rows, half // 2)
            half *= 2
        return rows

    def _merged_square(self, rows: list[UOp], apart: int | None = None) -> list[UOp]:
        """Bitonic runs in order: vectors `apart` and less are compared, then words in each."""
        self._compare(rows, self.lanes // 2 if apart is None else apart)
        columns = transpose(rows, self.code.place)
        self._compare(columns, self.lanes // 2)
        return transpose(columns, self.code.place)

    def _compare(self, rows: list[UOp], apart: int) -> None:
        """Compare vectors that are `apart`, half as far apart, and so on to neighbours."""
        while apart:
            for i in range(self.lanes):
                if not i & apart:
                    rows[i], rows[i + apart] = self._exchanged(rows[i], rows[i + apart])
            apart //= 2

    def _exchanged(self, a: UOp, b: UOp) -> tuple[UOp, UOp]:
        return exchanged(self.code, a, b)

    def _reversed(self, u: UOp) -> UOp:
        return self.code.place(UOp(Op.SHUFFLE, (u, u), tuple(reversed(range(self.lanes)))))


def _merge_exchange(n: int) -> Iterator[tuple[int, int]]:
    """The pairs that a network for `n` numbers, a power of two, compares, in order."""
    p = n // 2
    while p:
        q, begin, apart = n // 2, 0, p
        while apart:
            yield from ((i, i + apart) for i in range(n - apart) if i & p == begin)
            apart, q, begin = (q - p, q // 2, p) if q > p else (0, q, begin)
        p //= 2
