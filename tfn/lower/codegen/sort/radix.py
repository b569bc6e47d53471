"""Digits of words: counted, each in a table; turned into positions; and words put there.

    words 3a 1b 2c 1d    counts 1: 2, 2: 1, 3: 1    positions 1: 0, 2: 2, 3: 3    1b 1d 2c 3a

A word ends with its key: from some bit on, it is nothing else.  Digits of a key are numbered from
the least significant.
"""

from __future__ import annotations

from collections.abc import Callable

from tfn._support.frozen import frozen
from tfn.dtypes import INT64
from tfn.lower.codegen.builder import Code, Index
from tfn.trace import build
from tfn.trace.uop import UOp, const

DIGIT_BITS = 8
"""Of one pass: counts, and a line of memory for each digit, fit into the first cache."""
VALUES = 1 << DIGIT_BITS
"""Of one digit."""
AT_ONCE = 4
"""So many words are loaded, and their positions found, before the first of them is put anywhere:
none waits for another."""

Get = Callable[[UOp], UOp]
"""The word with a number."""
Put = Callable[[UOp, UOp], None]
"""What is done with a word and its position."""


@frozen
class Digits:
    """A table for each digit.

    Attributes:
        code: where instructions go.
        memory: the buffer, of numbers as words are.
        tables: where in it the first table begins.
        low: the bit of a word at which its key begins.
    """

    code: Code
    memory: UOp
    tables: UOp
    low: int

    def at(self, word: UOp, digit: int) -> UOp:
        """Where the entry of a word's digit is."""
        from_ = self.low + digit * DIGIT_BITS
        value = ((word >> from_) if from_ else word) & (VALUES - 1)
        return self.tables + digit * VALUES + build.cast(value, INT64)

    def number(self, value: int) -> UOp:
        """A constant as words are."""
        return const(value, self.memory.dtype)

    def clear(self, digits: range) -> None:
        """Nothing has been counted of these digits."""
        with self.code.each(digits[0] * VALUES, (digits[-1] + 1) * VALUES) as i:
            self.code.store(self.memory, self.tables + i, self.number(0))

    def add(self, word: UOp, digits: range) -> None:
        """Count these digits of one word."""
        for digit in digits:
            at = self.at(word, digit)
            self.code.store(self.memory, at, self.code.load(self.memory, at) + 1)

    def count(
        self, begin: Index, end: Index, get: Get, digits: range, at_once: int = AT_ONCE
    ) -> None:
        """Count these digits, and nothing else, of some words."""

        def body(*places: UOp) -> None:
            for word in [get(place) for place in places]:
                self.add(word, digits)

        self.clear(digits)
        self.code.over(begin, end, body, at_once)

    def most(self, digits: range) -> UOp:
        """How often the most frequent value of any of these digits was counted."""
        code = self.code
        each = code.open(digits[0] * VALUES, (digits[-1] + 1) * VALUES)
        most = code.carry(each, self.number(0))
        count = code.load(self.memory, self.tables + each)
        code.close(each, (most, build.maximum(most, count)))
        return most

    def positions(self, digit: int, begin: UOp) -> None:
        """Counts become the positions of the first words with each value, the first at `begin`."""
        code = self.code
        each = code.open(0, VALUES)
        before = code.carry(each, build.cast(begin, self.memory.dtype))
        at = code.let(self.tables + digit * VALUES + each)
        count = code.load(self.memory, at)
        code.store(self.memory, at, before)
        code.close(each, (before, before + count))

    def move(
        self, begin: Index, end: Index, get: Get, digit: int, put: Put, at_once: int = AT_ONCE
    ) -> None:
        """Put words where their digit says; positions go on to where the next value begins."""

        def body(*places: UOp) -> None:
            words = [get(place) for place in places]
            positions = []
            for word in words:
                at = self.at(word, digit)
                positions.append(self.code.load(self.memory, at))
                self.code.store(self.memory, at, positions[-1] + 1)
            for word, position in zip(words, positions, strict=True):
                put(word, build.cast(position, INT64))

        self.code.over(begin, end, body, at_once)
