"""The kernel of a sort, written by hand at the stage LINEAR: a stable sort of words, row by row.

A word is 64 bits: 32 of the key above, and below them what is to be moved.  That is the one result
which is wanted, if it fits, or else the number of the element, through which every result is read
at the end.  Wider keys, and several, are sorted by 32 bits at a time, the least significant first:

    keys 3 1 2, results a b c  ->  words 3a 1b 2c  ->  1b 2c 3a  ->  b c a

Short rows are sorted by insertion.  Others by digits: all of them are counted while the words are
made, counts become positions, and each pass writes the words in the order of one digit.

Keys are compared by bits that are put in order first: the sign bit of integers is flipped;
negative floats are inverted, -0.0 becomes 0.0, and every NaN comes after all else.

Source: Knuth, The Art of Computer Programming, volume 3, sections 5.2.1 and 5.2.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tfn.dtypes import BFLOAT16, BOOL, FLOATS, INT64, SIGNED, UINT64, DType
from tfn.frozen import frozen
from tfn.lower.linearize import BEGIN, END
from tfn.lower.scopes import Scopes
from tfn.trace import build
from tfn.trace.argument import Access, Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

WORD = 32
"""How many bits of a key one word holds."""
BELOW = const((1 << WORD) - 1, UINT64)
"""The rest of a word."""
SHORT_ROW = 32
"""Up to so many elements, rows are sorted by insertion."""
DIGIT_BITS = 8
"""Of one pass: counts, and a line of memory for each digit, fit into the first cache."""
MOST_GROUPS = 64
"""Rows are handed out to threads in so many groups, each with room for one row at a time."""
NS_PER_STEP = 1.5
INFINITY = {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}


@frozen
class Form:
    """How the rows of a SORT are sorted.

    Attributes:
        rows, size: how many rows, of how many elements.
        groups: of rows; each is one tile.
        digits: how many passes a word needs at most; 0 for insertion.
    """

    rows: int
    size: int
    groups: int
    digits: int

    @property
    def room(self) -> int:
        """The scratch of one group: words twice, and the counts of all digits."""
        return 2 * self.size + (self.digits << DIGIT_BITS) if self.digits else self.size


def form(node: UOp) -> Form:
    """How a SORT is done."""
    shape, keys = node.src[0].shape, node.src[: node.arg.keys]
    size, rows = shape[-1], prod(shape[:-1])
    widest = min(WORD, max(_width(key.dtype) for key in keys))
    digits = widest // DIGIT_BITS if size > SHORT_ROW else 0
    return Form(rows, size, min(rows, MOST_GROUPS), digits)


def scratch(node: UOp) -> UOp:
    """The room that the kernel of a SORT needs beside its operands and results."""
    found = form(node)
    return const(0, UINT64, (found.groups * found.room,))


def work(node: UOp) -> int:
    """About how many nanoseconds a SORT takes on one core."""
    f = form(node)
    chunks = sum(-(-_width(key.dtype) // WORD) for key in node.src[: node.arg.keys])
    steps = f.digits + 2 if f.digits else f.size
    return int(f.rows * f.size * chunks * steps * NS_PER_STEP)


def _width(dtype: DType) -> int:
    return 8 * dtype.itemsize


def ordered(key: UOp) -> UOp:
    """Bits whose unsigned order is that of the values."""
    dtype = key.dtype
    if dtype == BOOL:
        return build.cast(key, np.dtype("uint8"))
    unsigned = np.dtype(f"uint{_width(dtype)}")
    bits, sign = build.bitcast(key, unsigned), 1 << (_width(dtype) - 1)
    if dtype in SIGNED:
        return bits ^ sign
    if dtype not in FLOATS:
        return bits
    infinity = 0x7F80 if dtype == BFLOAT16 else INFINITY[dtype.itemsize]
    magnitude = bits & (sign - 1)
    zero = build.full_like(bits, 0)
    plain = build.where(build.eq(magnitude, zero), zero, bits)
    found = build.where(plain < sign, plain ^ sign, ~plain)
    return build.where(build.full_like(bits, infinity) < magnitude, ~zero, found)


LEMMA = (
    "a sort's words hold numbers of elements, and the counts of its digits add up to the size of a "
    "row: so both, and the positions made of counts, are below it"
)
"""What must be believed of a sort: it follows from what is in memory, not from indices."""


def believed(body: UOp, items: Sequence[UOp]) -> dict[UOp, tuple[int, int]]:
    """The values among instructions of which `LEMMA` says something, and what it says."""
    node = body.src[0].src[0]
    last, room = form(node).size - 1, len(body.src)

    def loaded(u: UOp) -> bool:
        return u.op is Op.LOAD and u.src[0].arg.index == room

    def of_memory(u: UOp) -> bool:
        return loaded(u) or (u.op is Op.AND and loaded(u.src[0]) and u.src[1] == BELOW)

    return {u: (0, last) for u in items
            if u.op is Op.CAST and u.dtype == INT64 and of_memory(u.src[0])}  # fmt: skip


class _Code:
    """Instructions over one buffer of scratch: loads and stores stay in their order."""

    def __init__(self) -> None:
        self.scopes = Scopes()

    def let(self, u: UOp) -> UOp:
        """Place what a value needs and has not been placed."""
        if u not in self.scopes.placed and u.op not in (Op.CONST, Op.PARAM):
            for s in u.src:
                self.let(s)
            self.scopes.add(u)
        return u

    def load(self, buffer: UOp, at: UOp) -> UOp:
        return self.scopes.here(UOp(Op.LOAD, (buffer, self.let(at)), Access(0, 1, 0)))

    def store(self, buffer: UOp, at: UOp, value: UOp) -> None:
        src = buffer, self.let(at), self.let(value)
        self.scopes.here(UOp(Op.STORE, src, Access(0, 1, 0)))

    def open(self, begin: UOp | int, end: UOp | int) -> UOp:
        ends = [const(x, INT64) if isinstance(x, int) else self.let(x) for x in (begin, end)]
        return self.scopes.open(*ends)

    def carry(self, loop: UOp, first: UOp) -> UOp:
        return self.scopes.here(UOp(Op.ACCUMULATOR, (loop, self.let(first)), 0))

    def close(self, loop: UOp, *carried: tuple[UOp, UOp]) -> None:
        """End a loop; what it carries goes on with these values."""
        following = [self.let(value) for _, value in carried]
        self.scopes.close(loop, [u for u, _ in carried], following)


def instructions(body: UOp) -> tuple[tuple[UOp, ...], int]:
    """The kernel of TUPLE(GET(SORT(operands), i), ...), and its tiles.

    Its buffers are the results, the scratch, and the operands.
    """
    node = body.src[0].src[0]
    code, f = _Code(), form(node)
    group = code.open(BEGIN, END)
    per_group = -(-f.rows // f.groups)
    first = group * per_group
    row = code.open(first, build.minimum(first + per_group, const(f.rows, INT64)))
    _Row(code, f, body, row * f.size, group * f.room).run()
    code.close(row)
    code.close(group)
    return tuple(code.scopes.root.items), f.groups


class _Row:
    """One row: `start` is its place in operands and results, `here` the one in the scratch."""

    def __init__(self, code: _Code, f: Form, body: UOp, start: UOp, here: UOp) -> None:
        self.code, self.form, self.start, self.here = code, f, start, here
        self.there = here + f.size
        self.counts = here + 2 * f.size
        node = body.src[0].src[0]
        outputs = len(body.src)
        self.operands = node.src
        self.scratch = UOp(Op.PARAM, (), Param(outputs, scratch(node).shape, UINT64))
        self.results = [
            (UOp(Op.PARAM, (), Param(i, u.shape, u.dtype)), self.operands[u.arg])
            for i, u in enumerate(body.src)
        ]
        self.chunks = [
            (key, low)
            for key in reversed(self.operands[: node.arg.keys])
            for low in range(0, _width(key.dtype), WORD)
        ]
        fits = outputs == 1 and self.results[0][0].dtype.itemsize * 8 <= WORD
        self.direct = fits and len(self.chunks) == 1

    def run(self) -> None:
        """Sort by each 32 bits of the keys; the last time, the results are written."""
        for i, (key, low) in enumerate(self.chunks):
            last = i == len(self.chunks) - 1
            if self.form.digits:
                self._by_digits(key, low, i > 0, last)
            else:
                self._by_insertion(key, low, i > 0, last)

    # Words.

    def _word(self, key: UOp, low: int, i: UOp, again: bool) -> UOp:
        """The word of element `i` in the order so far."""
        code = self.code
        number = build.cast(i, UINT64)
        if again:
            number = code.let(code.load(self.scratch, self.here + i) & BELOW)
        bits = ordered(code.load(key, self.start + build.cast(number, INT64)))
        wide = build.cast(bits, UINT64)
        above = (wide & ~BELOW) if low else ((wide & BELOW) << WORD)
        if self.direct:
            operand = self.results[0][1]
            value = code.load(operand, self.start + i)
            if operand.dtype != BOOL:
                value = build.bitcast(value, np.dtype(f"uint{_width(operand.dtype)}"))
            number = build.cast(value, UINT64)
        return code.let(above | number)

    def _write(self, word: UOp, at: UOp) -> None:
        """The results of a word that has found its position."""
        code = self.code
        low = code.let(word & BELOW)
        for result, operand in self.results:
            if not self.direct:
                value = code.load(operand, self.start + build.cast(low, INT64))
            elif result.dtype == BOOL:
                value = build.cast(low, BOOL)
            else:
                unsigned = np.dtype(f"uint{_width(result.dtype)}")
                value = build.bitcast(build.cast(low, unsigned), result.dtype)
            code.store(result, self.start + at, value)

    # Insertion.

    def _by_insertion(self, key: UOp, low: int, again: bool, last: bool) -> None:
        code, size = self.code, self.form.size
        each = code.open(0, size)
        word = self._word(key, low, each, again)
        going = code.scopes.open(const(0, INT64))
        at = code.carry(going, each)
        before = code.let(build.maximum(at - 1, const(0, INT64)))
        other = code.load(self.scratch, self.here + before)
        inside = const(0, INT64) < at
        larger = code.let(inside & ((word >> WORD) < (other >> WORD)))
        code.scopes.here(UOp(Op.LEAVE, (going, larger)))
        code.store(self.scratch, self.here + at, other)
        code.close(going, (at, before))
        code.store(self.scratch, self.here + at, word)
        code.close(each)
        if last:
            each = code.open(0, size)
            self._write(code.load(self.scratch, self.here + each), each)
            code.close(each)

    # Digits.

    def _by_digits(self, key: UOp, low: int, again: bool, last: bool) -> None:
        code, f = self.code, self.form
        digits = min(WORD, _width(key.dtype)) // DIGIT_BITS
        each = code.open(0, digits << DIGIT_BITS)
        code.store(self.scratch, self.counts + each, const(0, UINT64))
        code.close(each)
        each = code.open(0, f.size)
        word = self._word(key, low, each, again)
        code.store(self.scratch, self.here + each, word)
        for i in range(digits):
            at = self._digit(word, i)
            code.store(self.scratch, at, code.load(self.scratch, at) + 1)
        code.close(each)
        for i in range(digits):
            self._positions(i)
            each = code.open(0, f.size)
            word = code.load(self.scratch, self.here + each)
            at = self._digit(word, i)
            position = code.load(self.scratch, at)
            code.store(self.scratch, at, position + 1)
            position = build.cast(position, INT64)
            if last and i == digits - 1:
                self._write(word, position)
            else:
                code.store(self.scratch, self.there + position, word)
            code.close(each)
            self.here, self.there = self.there, self.here

    def _digit(self, word: UOp, i: int) -> UOp:
        """Where the count of a word's digit stands."""
        digit = (word >> (WORD + i * DIGIT_BITS)) & ((1 << DIGIT_BITS) - 1)
        first = self.counts + (i << DIGIT_BITS)
        return self.code.let(first + build.cast(digit, INT64))

    def _positions(self, i: int) -> None:
        """Counts become the positions of the first words with each digit."""
        code = self.code
        each = code.open(0, 1 << DIGIT_BITS)
        before = code.carry(each, const(0, UINT64))
        at = code.let(self.counts + (i << DIGIT_BITS) + each)
        count = code.load(self.scratch, at)
        code.store(self.scratch, at, before)
        code.close(each, (before, before + count))
