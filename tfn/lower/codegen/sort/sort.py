"""The kernel of a sort, written by hand at the stage LINEAR: a stable sort of words, row by row.

A word is 64 bits: 32 of the key above, and below them what is to be moved.  That is the one result
which is wanted, if it fits, or else the number of the element, through which every result is read
at the end.  Wider keys, and several, are sorted by 32 bits at a time, the least significant first:

    keys 3 1 2, results a b c  ->  words 3a 1b 2c  ->  1b 2c 3a  ->  b c a

Where the key is the only result, a word is a key and nothing else, of 32 bits or of 64.  What keys
of floats that are equal do not tell is put back at the end (`alike`).

Short rows are sorted by insertion.  Others by digits: all of them are counted while the words are
made, counts become positions, and each pass writes the words in the order of one digit.  A pass
that would move nothing is left out.

Where words go is far away if they do not stay near the core: so with each word that is written, the
memory for some that follow it is asked for.

What is too long for a cache is read and written as seldom as possible.  A pass by the highest digit
puts the words of a long row into buckets, which fit into a cache and are sorted one by one: by two
more digits, and what these leave over, which is little if keys are spread well, by insertion.
Whether they are is tried: with some keys before a row is put into buckets, with the counts of a
bucket, and by how much insertion had to do so far.  If not, all digits take their turns.

Source: Knuth, The Art of Computer Programming, volume 3, sections 5.2.1 and 5.2.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, FLOATS, INT64, UINT32, UINT64, DType
from tfn.lower.codegen.builder import Code
from tfn.lower.codegen.linearize import BEGIN, END
from tfn.lower.codegen.sort.key_encoding import ordered, restored, whole, width
from tfn.lower.codegen.sort.radix import AT_ONCE, DIGIT_BITS, VALUES, Digits, Get, Put
from tfn.lower.codegen.sort.ties import put_back
from tfn.lower.graph.layout import LINE_BYTES
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

WORD = 32
"""How many bits of a key one word holds, beside something else."""
BELOW = const((1 << WORD) - 1, UINT64)
"""The rest of a word."""
ZERO = const(0, INT64)
SHORT_ROW = 32
"""Up to so many elements, rows are sorted by insertion."""
PLAIN_ROW = 1 << 10
"""Below so many, looking for passes that move nothing takes longer than they do."""
MOST_COUNTED = (1 << 32) - 1
"""Of words that are keys: numbers up to so many may be as narrow as they are."""
LONG_ROW = 3 << 18
"""From so many, words do not stay in a cache from pass to pass."""
MOST_OF_SAMPLE = 16
"""A digit is not spread well if more of `VALUES` keys have the same."""
MOST_OF_BUCKET = 128
"""Nor if more words of a bucket have."""
WORDS_PER_STEP = 8
"""A pass takes as long as insertion with about one step for so many words."""
NEAR_PART = 2
"""The words of a row, twice, are near the core in so small a part of the second cache."""
MOST_GROUPS = 64
"""Rows are handed out to threads in so many groups, each with room for one row at a time."""
NS_PER_STEP = 1.5


@frozen
class Form:
    """How the rows of a SORT are sorted.

    Attributes:
        rows, size: how many rows, of how many elements.
        groups: of rows; each is one tile.
        digits: how many passes a word needs at most; 0 for insertion.
        alone: whether a word is a key, and nothing else.
        word: the dtype of words, and of the scratch.
    """

    rows: int
    size: int
    groups: int
    digits: int
    alone: bool
    word: DType

    @property
    def low(self) -> int:
        """The bit of a word at which its key begins."""
        return 0 if self.alone else WORD

    @property
    def room(self) -> int:
        """The scratch of one group: tables, words twice, each after a zero, and one number."""
        return self.digits * VALUES + 2 * (1 + self.size) + 1 if self.digits else self.size


def form(node: UOp, wanted: Sequence[int]) -> Form:
    """How a SORT is done of which these results are wanted."""
    shape, keys = node.src[0].shape, node.src[: node.arg.keys]
    size, rows = shape[-1], prod(shape[:-1])
    widest = max(width(key.dtype) for key in keys)
    alone = len(keys) == 1 and tuple(wanted) == (0,) and SHORT_ROW < size <= MOST_COUNTED
    narrow = alone and widest <= WORD
    digits = (widest if alone else min(WORD, widest)) // DIGIT_BITS if size > SHORT_ROW else 0
    return Form(rows, size, min(rows, MOST_GROUPS), digits, alone, UINT32 if narrow else UINT64)


def _asked(body: UOp) -> tuple[UOp, tuple[int, ...]]:
    """The SORT in a kernel, and which of its results are wanted."""
    return body.src[0].src[0], tuple(u.arg for u in body.src)


def form_of(body: UOp) -> Form:
    """How the kernel of TUPLE(GET(SORT(operands), i), ...) sorts."""
    return form(*_asked(body))


def scratch(node: UOp, wanted: Sequence[int]) -> UOp:
    """The room that the kernel of a SORT needs beside its operands and results."""
    found = form(node, wanted)
    return const(0, found.word, (found.groups * found.room,))


def work(body: UOp) -> int:
    """About how many nanoseconds the kernel of a SORT takes on one core."""
    (node, _), f = _asked(body), form_of(body)
    chunks = sum(-(-width(key.dtype) // WORD) for key in node.src[: node.arg.keys])
    chunks = 1 if f.alone else chunks
    steps = f.digits + 2 if f.digits else f.size
    return int(f.rows * f.size * chunks * steps * NS_PER_STEP)


LEMMA = (
    "a sort's words hold numbers of elements, and the counts of its digits add up to the size of a "
    "row: so both, and the positions made of counts, are below it"
)
"""What must be believed of a sort: it follows from what is in memory, not from indices."""


def believed(body: UOp, items: Sequence[UOp]) -> dict[UOp, tuple[int, int]]:
    """The values among instructions of which `LEMMA` says something, and what it says."""
    last, room = form_of(body).size - 1, len(body.src)

    def loaded(u: UOp) -> bool:
        return u.op is Op.LOAD and u.src[0].arg.index == room

    def of_memory(u: UOp) -> bool:
        return loaded(u) or (u.op is Op.AND and loaded(u.src[0]) and u.src[1] == BELOW)

    return {
        u: (0, last) for u in items if u.op is Op.CAST and u.dtype == INT64 and of_memory(u.src[0])
    }


@frozen
class _Chunk:
    """What one word holds of a key: bits from `low` on; whether it is sorted by first, or last."""

    key: UOp
    low: int
    bits: int
    first: bool
    last: bool

    @property
    def digits(self) -> range:
        return range(self.bits // DIGIT_BITS)


def _chunks(keys: Sequence[UOp], alone: bool) -> list[_Chunk]:
    if alone:
        return [_Chunk(keys[0], 0, width(keys[0].dtype), first=True, last=True)]
    found = [
        (key, low, min(WORD, width(key.dtype)))
        for key in reversed(keys)
        for low in range(0, width(key.dtype), WORD)
    ]
    return [_Chunk(*one, i == 0, i == len(found) - 1) for i, one in enumerate(found)]


def instructions(body: UOp, target: Target) -> tuple[tuple[UOp, ...], int]:
    """The kernel of TUPLE(GET(SORT(operands), i), ...), and its tiles.

    Its buffers are the results, the scratch, and the operands.
    """
    code, f = Code(), form_of(body)
    far = NEAR_PART * 2 * f.size * f.word.itemsize > target.l2_bytes
    group = code.open(BEGIN, END)
    per_group = -(-f.rows // f.groups)
    first = group * per_group
    with code.each(first, build.minimum(first + per_group, const(f.rows, INT64))) as row:
        only = f.rows == 1  # then all addresses are known
        start, room = (ZERO, ZERO) if only else (row * f.size, group * f.room)
        _Row(code, f, body, start, room, far).run()
    code.close(group)
    return tuple(code.scopes.root.items), f.groups


class _Row:
    """One row: `start` is its place in operands and results, `room` that of its scratch.

    Words are made in the order of those from `here`, and in the end are from `there`.  They may
    be `far` from the core.
    """

    def __init__(self, code: Code, f: Form, body: UOp, start: UOp, room: UOp, far: bool) -> None:
        self.code, self.form, self.start, self.far = code, f, start, far
        node, wanted = _asked(body)
        outputs = len(wanted)
        self.scratch = UOp(Op.PARAM, (), Param(outputs, scratch(node, wanted).shape, f.word))
        self.digits = Digits(code, self.scratch, room, f.low)
        self.here = room + f.digits * VALUES + 1 if f.digits else room
        self.there = self.here + f.size + 1 if f.digits else room
        self.steps = self.there + f.size
        self.results = [
            (UOp(Op.PARAM, (), Param(i, u.shape, u.dtype)), node.src[u.arg])
            for i, u in enumerate(body.src)
        ]
        self.chunks = _chunks(node.src[: node.arg.keys], f.alone)
        fits = outputs == 1 and self.results[0][0].dtype.itemsize * 8 <= WORD
        self.direct = f.alone or (fits and len(self.chunks) == 1)

    def run(self) -> None:
        """Sort by each 32 bits of the keys; the last time, the results are written."""
        for chunk in self.chunks:
            self.chunk = chunk
            if not self.form.digits:
                self._by_insertion()
            elif not self._is_long():
                self._by_digits(AT_ONCE if self.form.size >= PLAIN_ROW else 1)
            else:
                spread = self._is_spread()
                with self.code.when(spread):
                    self._by_buckets()
                with self.code.when(~spread):
                    self._by_digits(at_once=1)
            self.here, self.there = self.there, self.here
        key = self.chunk.key
        if self.form.alone and key.dtype in FLOATS:
            put_back(self.code, key, self.results[0][0], self.start, self.form.size)

    def _is_long(self) -> bool:
        """Whether a row may be put into buckets; narrow words are moved as soon as looked at."""
        return self.form.size >= LONG_ROW and self.chunk.bits >= WORD and self.form.word != UINT32

    # Words.

    def _number(self, i: UOp) -> UOp:
        """That of the element which is at `i` in the order so far."""
        if self.chunk.first:
            return build.cast(i, UINT64)
        return self.code.let(self._at(self.here)(i) & BELOW)

    def _key(self, number: UOp) -> UOp:
        """A word without its lower half."""
        at = self.start + build.cast(number, INT64)
        key = self.code.load(self.chunk.key, at)
        if self.form.alone:
            return self.code.let(build.cast(whole(key), self.form.word))
        wide = build.cast(ordered(key), UINT64)
        return self.code.let((wide & ~BELOW) if self.chunk.low else ((wide & BELOW) << WORD))

    def _word(self, i: UOp) -> UOp:
        """The word of the element which is at `i` in the order so far."""
        number = self._number(i)
        key = self._key(number)
        if self.form.alone:
            return key
        if self.direct:
            operand = self.results[0][1]
            value = self.code.load(operand, self.start + i)
            if operand.dtype != BOOL:
                value = build.bitcast(value, np.dtype(f"uint{width(operand.dtype)}"))
            number = build.cast(value, UINT64)
        return self.code.let(key | number)

    def _at(self, base: UOp) -> Get:
        return lambda at: self.code.load(self.scratch, base + at)

    def _to(self, base: UOp, far: bool = False) -> Put:
        def put(word: UOp, at: UOp) -> None:
            self.code.store(self.scratch, base + at, word)
            if far:
                self._ahead(self.scratch, base + at)

        return put

    def _ahead(self, buffer: UOp, at: UOp) -> None:
        """Ask for the line after this: it is there when words with the same digit get to it."""
        self.code.prefetch(buffer, at + LINE_BYTES // buffer.dtype.itemsize)

    def _write_far(self, word: UOp, at: UOp) -> None:
        self._write(word, at)
        for result, _ in self.results:
            self._ahead(result, self.start + at)

    def _write(self, word: UOp, at: UOp) -> None:
        """The results of a word that has found its position, if it is the last."""
        code = self.code
        if not self.chunk.last:
            return
        low = code.let(word if self.form.alone else word & BELOW)
        for result, operand in self.results:
            unsigned = np.dtype(f"uint{width(result.dtype)}")
            if not self.direct:
                value = code.load(operand, self.start + build.cast(low, INT64))
            elif self.form.alone:
                value = restored(build.cast(low, unsigned), result.dtype)
            elif result.dtype == BOOL:
                value = build.cast(low, BOOL)
            else:
                value = build.bitcast(build.cast(low, unsigned), result.dtype)
            code.store(result, self.start + at, value)

    # Insertion.

    def _by_insertion(self) -> None:
        with self.code.each(0, self.form.size) as i:
            self._insert(self._word(i), i, self._to(self.there))
        if self.chunk.last:
            with self.code.each(0, self.form.size) as i:
                self._write(self._at(self.there)(i), i)

    def _insert(self, word: UOp, i: UOp, put: Put) -> UOp:
        """Put word `i` before all that are larger, which move on by one; gives its new place."""
        code = self.code
        going = code.endless()
        at = code.carry(going, i)
        before = code.let(build.maximum(at - 1, ZERO))
        other = self._at(self.there)(before)
        code.leave(going, (at > 0) & self._less(word, other))
        put(other, at)
        code.close(going, (at, before))
        put(word, at)
        return at

    # Digits.

    def _by_digits(self, at_once: int) -> None:
        """All words by each digit, the least significant first."""
        digits, size = self.chunk.digits, self.form.size
        first = None
        if self.far and self.chunk.first:  # words are made twice sooner than written and read
            first = self._word
            self.digits.count(0, size, lambda i: self._key(self._number(i)), digits, at_once=1)
        else:
            self.digits.clear(digits)
            with self.code.each(0, size) as i:
                word = self._word(i)
                self._to(self.there)(word, i)
                self.digits.add(word, digits)
        self._passes(ZERO, const(size, INT64), digits, at_once, first)

    def _passes(
        self, begin: UOp, end: UOp, digits: range, at_once: int, first: Get | None = None
    ) -> None:
        """Sort some of the words by digits that are counted, and write them or bring them back.

        All words may be `far`, those of a bucket are not.  The `first` pass may make them.
        """
        code, here, there = self.code, self.there, self.here
        far = self.far and begin is ZERO
        for digit in digits[:-1] if self.chunk.last else digits:
            stop, onward = end, (there, here)
            if self.form.size >= PLAIN_ROW and first is None:
                alike = code.load(self.scratch, self.digits.at(self._at(here)(begin), digit))
                moves = code.let(build.ne(alike, build.cast(end - begin, self.form.word)))
                stop = build.where(moves, end, begin)
                onward = build.where(moves, there, here), build.where(moves, here, there)
            self.digits.positions(digit, begin)
            get, first = first or self._at(here), None
            self.digits.move(begin, stop, get, digit, self._to(there, far), at_once)
            here, there = map(code.let, onward)
        if self.chunk.last:
            self.digits.positions(digits[-1], begin)
            write = self._write_far if far else self._write
            self.digits.move(begin, end, first or self._at(here), digits[-1], write, at_once)
        elif here is not self.there:
            with code.each(build.where(build.eq(here, self.there), end, begin), end) as i:
                self._to(self.there)(self._at(here)(i), i)

    # Buckets.

    def _is_spread(self) -> UOp:
        """Whether the highest digits of some keys are spread well."""
        step, top = self.form.size // VALUES, self.chunk.digits[-1:]
        self.digits.count(0, VALUES, lambda i: self._key(self._number(i * step)), top, at_once=1)
        return self.code.let(self.digits.most(top) <= MOST_OF_SAMPLE)

    def _by_buckets(self) -> None:
        """By the highest digit first; then each bucket."""
        code, size, top = self.code, self.form.size, self.chunk.digits[-1:]
        self.digits.count(0, size, lambda i: self._key(self._number(i)), top)
        self.digits.positions(top[0], ZERO)
        self.digits.move(0, size, self._word, top[0], self._to(self.there, self.far))
        nothing = self.digits.number(0)
        code.store(self.scratch, self.there - 1, nothing)  # not larger than the first word
        code.store(self.scratch, self.steps, nothing)
        with code.each(0, VALUES) as bucket:
            before = self._end(build.maximum(bucket - 1, ZERO))
            begin = code.let(build.where(bucket > 0, before, ZERO))
            self._bucket(begin, code.let(self._end(bucket)))

    def _end(self, bucket: UOp) -> UOp:
        """Where the next bucket begins: positions have moved on to there."""
        found = self.code.load(
            self.scratch, self.digits.tables + self.chunk.digits[-1] * VALUES + bucket
        )
        return build.cast(build.minimum(found, self.digits.number(self.form.size)), INT64)

    def _bucket(self, begin: UOp, end: UOp) -> None:
        """By two digits and insertion, unless that has, or has had, too much to do."""
        code, get = self.code, self._at(self.there)
        digits = self.chunk.digits
        self.digits.count(begin, end, get, digits[-3:-1])
        spread = self.digits.most(digits[-3:-1]) <= MOST_OF_BUCKET
        steps = code.load(self.scratch, self.steps)
        few = code.let(spread & (steps <= build.cast(end // WORDS_PER_STEP, UINT64)))
        with code.when(few):
            self._by_two_digits(begin, end)
        with code.when(~few):
            self.digits.count(begin, end, get, digits[:-3], at_once=1)
            self._passes(begin, end, digits[:-1], at_once=1)

    def _by_two_digits(self, begin: UOp, end: UOp) -> None:
        """What is the same in both of them is put in order by insertion."""
        code, get, put = self.code, self._at(self.there), self._to(self.there)
        low, high = self.chunk.digits[-3:-1]
        length = build.minimum(end - begin, const(self.form.size, INT64))
        self.digits.positions(low, ZERO)
        self.digits.move(begin, end, get, low, self._to(self.here))
        self.digits.positions(high, begin)
        self.digits.move(0, length, self._at(self.here), high, put)

        def put_and_write(word: UOp, at: UOp) -> None:
            put(word, at)
            self._write(word, at)

        with code.each(begin, end) as i:
            word, before = get(i), get(i - 1)
            self._write(word, i)
            with code.when(self._less(word, before)):
                steps = i - self._insert(word, i, put_and_write)
                so_far = code.load(self.scratch, self.steps)
                code.store(self.scratch, self.steps, so_far + build.cast(steps, UINT64))

    def _less(self, word: UOp, other: UOp) -> UOp:
        """Whether a word has the smaller key."""
        return word < other if self.form.alone else (word >> WORD) < (other >> WORD)
