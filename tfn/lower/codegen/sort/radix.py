"""Radix sort pass: histogram of a digit, prefix sum, scatter.

    words 3a 1b 2c 1d    counts 1: 2, 2: 1, 3: 1    positions 1: 0, 2: 2, 3: 3    1b 1d 2c 3a

A word ends with its key: from some bit on, it is nothing else.  Digits of a key are numbered from
the least significant.
"""

from __future__ import annotations

from collections.abc import Callable

from tfn._support.frozen import frozen
from tfn.dtypes import INT64
from tfn.lower.codegen.builder import Builder, Index
from tfn.trace import build
from tfn.trace.uop import UOp, const

DIGIT_BITS = 8
"""Bits sorted by one pass: the histogram, and one open cache line per value, fit the L1 cache."""

RADIX = 1 << DIGIT_BITS
"""Values of a digit."""

UNROLL = 4
"""Words that are loaded, and whose positions are found, before the first of them is stored.

The loads then do not wait for each other; the two chains through a histogram entry remain.
"""

ReadWord = Callable[[UOp], UOp]
"""Gives the word at an index."""

WriteWord = Callable[[UOp, UOp], None]
"""Stores a word at its position."""


@frozen
class Histograms:
    """A table of counts, and then of positions, for each digit.

    Attributes:
        code: receives the instructions.
        memory: the buffer of the tables; its dtype is that of words.
        tables: index of the first table in it.
        low: the bit of a word at which its key begins.
    """

    code: Builder
    memory: UOp
    tables: UOp
    low: int

    def index(self, word: UOp, digit: int) -> UOp:
        """The index of the table entry of a word's digit."""
        shift = self.low + digit * DIGIT_BITS
        value = ((word >> shift) if shift else word) & (RADIX - 1)
        return self.tables + digit * RADIX + build.cast(value, INT64)

    def constant(self, value: int) -> UOp:
        """A constant of the dtype of words."""
        return const(value, self.memory.dtype)

    def clear(self, digits: range) -> None:
        """Set the counts of some digits to zero."""
        with self.code.loop(digits[0] * RADIX, (digits[-1] + 1) * RADIX) as i:
            self.code.store(self.memory, self.tables + i, self.constant(0))

    def add(self, word: UOp, digits: range) -> None:
        """Count some digits of one word."""
        for digit in digits:
            index = self.index(word, digit)
            self.code.store(self.memory, index, self.code.load(self.memory, index) + 1)

    def count(
        self, begin: Index, end: Index, read: ReadWord, digits: range, unroll: int = UNROLL
    ) -> None:
        """Clear some digits, and count them over a range of words."""

        def body(*indices: UOp) -> None:
            for word in [read(i) for i in indices]:
                self.add(word, digits)

        self.clear(digits)
        self.code.unrolled_loop(begin, end, body, unroll)

    def largest(self, digits: range) -> UOp:
        """The largest count among the values of some digits."""
        code = self.code
        loop = code.open(digits[0] * RADIX, (digits[-1] + 1) * RADIX)
        largest = code.carry(loop, self.constant(0))
        count = code.load(self.memory, self.tables + loop)
        code.close(loop, (largest, build.maximum(largest, count)))
        return largest

    def prefix_sum(self, digit: int, begin: UOp) -> None:
        """Turn counts into the position of the first word with each value, from `begin` on."""
        code = self.code
        loop = code.open(0, RADIX)
        position = code.carry(loop, build.cast(begin, self.memory.dtype))
        index = code.place(self.tables + digit * RADIX + loop)
        count = code.load(self.memory, index)
        code.store(self.memory, index, position)
        code.close(loop, (position, position + count))

    def scatter(
        self,
        begin: Index,
        end: Index,
        read: ReadWord,
        digit: int,
        write: WriteWord,
        unroll: int = UNROLL,
    ) -> None:
        """Store words at the positions of their digit, which advance to those of the next value."""

        def body(*indices: UOp) -> None:
            words = [read(i) for i in indices]
            positions = []
            for word in words:
                index = self.index(word, digit)
                positions.append(self.code.load(self.memory, index))
                self.code.store(self.memory, index, positions[-1] + 1)
            for word, position in zip(words, positions, strict=True):
                write(word, build.cast(position, INT64))

        self.code.unrolled_loop(begin, end, body, unroll)
