"""Sorts of rows by groups of threads: the words of a row lie in local memory.

A word is a key as `sortable` bits and, below it, the number of the element in its row, so that no
two are equal and any order is stable; through the numbers the results are gathered at the end.
Keys that leave no room for it in 32 bits, and several, lie beside each other, and are compared in
turn: no machine needs words of 64 bits for keys that have fewer.

    network      threads compare and exchange pairs of words, all pairs of a merge at the same
                 time; groups have several rows if these are short
    counting     keys of 8 bits, in two passes of 4: each thread counts the digits of its 8 words,
                 the counts of all threads become positions by a prefix sum, and words are moved

        words 31 20 12 00, of two threads    ->  counts of digits 0 1 2 3 by thread: 01 01 10 10
                                             ->  positions 00 11 23 34  ->  00 12 20 31

Long rows are sorted by digits, tile by tile: see `fuse.grid_sort`.

Source: Knuth, The Art of Computer Programming, volume 3, section 5.2.2, algorithm M; Satish, Harris
and Garland, Designing Efficient Sorting Algorithms for Manycore GPUs (2009).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from tfn._support.frozen import frozen
from tfn.dtypes import INT64, UINT32, UINT64, DType
from tfn.lower.codegen.builder import Builder
from tfn.lower.codegen.group_scan import prefixes
from tfn.lower.codegen.linearize import BEGIN
from tfn.lower.codegen.sort.key_encoding import bit_width, sortable
from tfn.lower.codegen.sort.network import merges
from tfn.lower.target.grid import Grid
from tfn.trace import build
from tfn.trace.argument import Param, Place, Range
from tfn.trace.banks import BANKS
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

TILE_ELEMENTS = 2048
"""The longest row: its words and counts take 26 KiB of local memory, so that two groups fit a core
of any GPU, and devices of OpenCL offer 32 KiB at least."""

GROUP_THREADS = 256
"""Threads of a group: 8 words of each are in registers at the same time."""

WORDS_OF_A_THREAD = TILE_ELEMENTS // GROUP_THREADS

MAX_LOCAL_BYTES = 32 << 10
"""Local memory for words, at the most: the least that OpenCL promises of a full profile."""

MIN_ELEMENTS_TO_COUNT = 64
"""Rows of 8-bit keys that are counted: a network for 64 has 21 merges, as many as counting has
barriers."""

DIGIT_BITS = 4
"""Bits that words are moved by at a time: 16 counts of each thread."""

RADIX = 1 << DIGIT_BITS
COUNTED_BITS = 8
INDEX_BITS = 16
"""Bits of the number in a word that holds a narrow key too; the bits above it are the key."""


_Number = Callable[[UOp, UOp | None], UOp]
"""From a place in the order, and whether it exists, to the number of the element there."""


@frozen
class GroupSortPlan:
    """A division of the rows of a SORT among groups and threads.

    Attributes:
        rows, size: how many rows, of how many elements.
        row_threads: threads of each row, a power of two.
        group_rows: rows of a group, a power of two.
        counts: whether rows are sorted by counting.
    """

    rows: int
    size: int
    row_threads: int
    group_rows: int
    counts: bool

    @property
    def groups(self) -> int:
        """The number of groups."""
        return -(-self.rows // self.group_rows)

    @property
    def threads(self) -> int:
        """The threads of a group."""
        return self.row_threads * self.group_rows


def plan(node: UOp) -> GroupSortPlan:
    """The plan of a SORT whose rows fit a group."""
    shape, keys = node.src[0].shape, node.src[: node.arg.keys]
    size, rows = shape[-1], prod(shape[:-1])
    counts = len(keys) == 1 and bit_width(keys[0].dtype) == COUNTED_BITS
    counts = counts and size >= MIN_ELEMENTS_TO_COUNT
    words = WORDS_OF_A_THREAD if counts else 2  # a thread of a network compares a pair
    row_threads = min(GROUP_THREADS, _power_of_two(-(-size // words)))
    group_rows = 1 if counts else min(GROUP_THREADS // row_threads, _power_of_two(rows))
    return GroupSortPlan(rows, size, row_threads, group_rows, counts)


def _power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def fits(node: UOp) -> bool:
    """Whether the rows of a SORT fit the local memory of a group."""
    keys, size = node.src[: node.arg.keys], node.src[0].shape[-1]
    word_bytes = sum(dtype.itemsize for dtype in _words(keys))
    return size <= TILE_ELEMENTS and size * word_bytes <= MAX_LOCAL_BYTES


def _words(keys: Sequence[UOp]) -> list[DType]:
    """The dtypes of the words of an element, the most significant first."""
    if len(keys) == 1 and bit_width(keys[0].dtype) <= 32 - INDEX_BITS:
        return [UINT32]
    return [*(UINT64 if bit_width(key.dtype) > 32 else UINT32 for key in keys), UINT32]


def assumed(node: UOp, items: Sequence[UOp]) -> dict[UOp, tuple[int, int]]:
    """Intervals of the numbers of elements in words, and of places made of counts."""
    p = plan(node)
    last_place = p.threads * WORDS_OF_A_THREAD - 1
    casts = [u for u in items if u.op is Op.CAST and u.dtype == INT64 and u.src[0].dtype == UINT32]
    is_digit = {u for u in casts if u.src[0].op is Op.AND and u.src[0].src[0].op is Op.SHR}
    return {
        u: (0, last_place if u.src[0].op is Op.ADD else p.size - 1)
        for u in casts
        if u not in is_digit
    }


def instructions(body: UOp, machine: Grid) -> tuple[UOp, ...]:
    """The kernel of TUPLE(GET(SORT(operands), i), ...); its buffers are results and operands."""
    node = body.src[0].src[0]
    p, code = plan(node), Builder()
    if p.counts:
        _Counting(code, p, body, machine).run()
    else:
        _Network(code, p, body).run()
    return tuple(code.scopes.root.items)


class _Rows:
    """The rows of a group in global memory, and the elements of each thread.

    Attributes:
        thread, lane: the number of a thread in its group, and in its row.
        number: of the thread's row in its group.
        start: the index of the row in operands and results.
        exists: whether there is such a row; None if all groups are full.
    """

    def __init__(self, code: Builder, p: GroupSortPlan, body: UOp) -> None:
        self.code, self.plan = code, p
        self.node = body.src[0].src[0]
        self.results = [
            (UOp(Op.PARAM, (), Param(i, u.shape, u.dtype)), self.node.src[u.arg])
            for i, u in enumerate(body.src)
        ]
        self.thread = UOp(Op.RANGE, (), Range(-1, p.threads, Place.LOCAL))
        self.number, self.lane = const(0, INT64), self.thread
        if p.group_rows > 1:
            self.number = code.place(self.thread // p.row_threads)
            self.lane = code.place(self.thread % p.row_threads)
        row = code.place(BEGIN * p.group_rows + self.number)
        self.exists = None if p.rows % p.group_rows == 0 else code.place(row < p.rows)
        self.start = code.place(row * p.size)

    def places(self) -> Iterator[list[tuple[UOp, UOp | None]]]:
        """Elements of a thread, neighbours of neighbours, some at a time: place and predicate."""
        p = self.plan
        rounds = [self._place(first) for first in range(0, p.size, p.row_threads)]
        for i in range(0, len(rounds), WORDS_OF_A_THREAD):
            yield rounds[i : i + WORDS_OF_A_THREAD]

    def _place(self, first: int) -> tuple[UOp, UOp | None]:
        place = self.code.place(self.lane + first)
        inside = self.exists
        if first + self.plan.row_threads > self.plan.size:
            is_element = self.code.place(place < self.plan.size)
            inside = is_element if inside is None else self.code.place(inside & is_element)
        return place, inside

    def load(self, operand: UOp, place: UOp, inside: UOp | None) -> UOp:
        """An element of the row."""
        return self.code.load(operand, self.start + place, where=inside)

    def gather(self, number: _Number) -> None:
        """Write the results, through the numbers of the elements in order."""
        for places in self.places():
            numbers = [number(place, inside) for place, inside in places]
            for result, operand in self.results:
                values = [
                    self.load(operand, i, inside)
                    for i, (_, inside) in zip(numbers, places, strict=True)
                ]
                for value, (place, inside) in zip(values, places, strict=True):
                    self.code.store(result, self.start + place, value, inside)


class _Network:
    """Rows by merges of pairs of words."""

    def __init__(self, code: Builder, p: GroupSortPlan, body: UOp) -> None:
        self.code, self.plan, self.rows = code, p, _Rows(code, p, body)
        node = self.rows.node
        self.keys = node.src[: node.arg.keys]
        room = p.size * p.group_rows
        self.memories = [code.local_memory(room, dtype) for dtype in _words(self.keys)]
        self.base = self.rows.number * p.size

    def run(self) -> None:
        """Bring the words, sort them, and gather the results."""
        code = self.code
        for places in self.rows.places():
            keys = [[self.rows.load(key, *place) for place in places] for key in self.keys]
            for (place, inside), *values in zip(places, *keys, strict=True):
                words = self._words_of(values, place)
                for memory, word in zip(self.memories, words, strict=True):
                    code.store(memory, self.base + place, word, inside)
        # The first merge is of words that the same thread has brought: no barrier is before it.
        with merges(code, self.plan.size) as (begin, apart, period, count):
            last = code.place(const(self.plan.size - 1, INT64) - apart)
            with code.loop(0, (count + (self.plan.row_threads - 1)) // self.plan.row_threads) as i:
                pair = code.place(i * self.plan.row_threads + self.rows.lane)
                low = code.place(build.minimum(begin + pair + (pair & -period), last))
                self._exchange(self.base + low, self.base + (low + apart), pair < count)
            code.barrier()
        numbers = self.memories[-1]

        def number(place: UOp, inside: UOp | None) -> UOp:
            word = code.load(numbers, self.base + place, where=inside)
            if len(self.memories) == 1:
                word = word & ((1 << INDEX_BITS) - 1)
            return code.place(build.cast(word, INT64))

        self.rows.gather(number)

    def _words_of(self, keys: Sequence[UOp], place: UOp) -> list[UOp]:
        """The words of an element."""
        number = build.cast(place, UINT32)
        words = zip(map(sortable, keys), self.memories)
        parts = [build.cast(bits, memory.dtype) for bits, memory in words]
        if len(self.memories) > 1:
            return [*parts, number]
        return [(parts[0] << INDEX_BITS) | number]

    def _exchange(self, low: UOp, high: UOp, exists: UOp) -> None:
        """Put the words at two places in order."""
        code, exists = self.code, self.code.place(exists)
        a = [code.load(memory, low, where=exists) for memory in self.memories]
        b = [code.load(memory, high, where=exists) for memory in self.memories]
        is_less = b[-1] < a[-1]
        for x, y in zip(a[-2::-1], b[-2::-1]):
            is_less = (y < x) | (build.eq(y, x) & is_less)
        is_less = code.place(is_less)
        for memory, x, y in zip(self.memories, a, b, strict=True):
            code.store(memory, low, build.where(is_less, y, x), exists)
            code.store(memory, high, build.where(is_less, x, y), exists)


class _Counting:
    """A row of keys of 8 bits, by the counts of its digits.

    Words and counts lie with a gap after each 32, so that threads at a distance of 8 or 16 meet
    different banks.
    """

    def __init__(self, code: Builder, p: GroupSortPlan, body: UOp, machine: Grid) -> None:
        self.code, self.plan, self.machine = code, p, machine
        self.rows = _Rows(code, p, body)
        self.room = p.threads * WORDS_OF_A_THREAD
        self.words = code.local_memory(_spread_size(self.room), UINT32)
        self.counts = code.local_memory(_spread_size(p.threads * RADIX), UINT32)

    def run(self) -> None:
        """Bring the words, move them by the lower digit, then by the upper; gather the results."""
        code, (key, *_) = self.code, self.rows.node.src
        thread, threads = self.rows.thread, self.plan.threads
        beyond = const((1 << COUNTED_BITS) - 1, UINT32)
        places = [code.place(thread + i * threads) for i in range(WORDS_OF_A_THREAD)]
        insides = [code.place(place < self.plan.size) for place in places]
        keys = [self.rows.load(key, *pair) for pair in zip(places, insides, strict=True)]
        for place, inside, value in zip(places, insides, keys, strict=True):
            digits = build.where(inside, build.cast(sortable(value), UINT32), beyond)
            word = (digits << INDEX_BITS) | build.cast(place, UINT32)
            code.store(self.words, _spread(place), word)
        code.barrier()
        with code.loop(0, COUNTED_BITS // DIGIT_BITS) as turn:
            self._move(code.place(build.cast(turn * DIGIT_BITS + INDEX_BITS, UINT32)))
            code.barrier()

        def number(place: UOp, inside: UOp | None) -> UOp:
            word = code.load(self.words, _spread(place), where=inside)
            return code.place(build.cast(word & ((1 << INDEX_BITS) - 1), INT64))

        self.rows.gather(number)

    def _move(self, shift: UOp) -> None:
        """Move all words by one digit."""
        code, thread, threads = self.code, self.rows.thread, self.plan.threads
        for i in range(RADIX):
            at = _spread(thread + i * threads)
            code.store(self.counts, at, const(0, UINT32))
        own = [_spread(thread * WORDS_OF_A_THREAD + i) for i in range(WORDS_OF_A_THREAD)]
        words = [code.load(self.words, at) for at in own]
        digits = [code.place((word >> shift) & (RADIX - 1)) for word in words]
        counts, ends = [], []
        for digit in digits:
            counts.append(code.place(_spread(build.cast(digit, INT64) * threads + thread)))
            ends.append(code.place(code.load(self.counts, counts[-1]) + 1))
            code.store(self.counts, counts[-1], ends[-1])
        code.barrier()
        self._add_up()
        for word, at, end in zip(words, counts, ends, strict=True):
            # The load is that of before, of another value: `end` has been placed since.
            place = code.place(build.cast(code.load(self.counts, at) + (end - 1), INT64))
            code.store(self.words, _spread(place), word)

    def _add_up(self) -> None:
        """Counts become the places of the first words with each digit of each thread."""
        code = self.code
        own = [code.place(_spread(self.rows.thread * RADIX + i)) for i in range(RADIX)]
        loads = [code.load(self.counts, at) for at in own]
        sums = [const(0, UINT32)]
        for load in loads:
            sums.append(code.place(sums[-1] + load))
        ((before, _),) = prefixes(code, Op.ADD, sums[-1:], self.rows.thread, self.machine)
        for at, value in zip(own, sums[:-1], strict=True):
            code.store(self.counts, at, before + value)
        code.barrier()


def _spread(place: UOp) -> UOp:
    """The place of an element with a gap after each 32."""
    return place + place // BANKS


def _spread_size(size: int) -> int:
    return size + (size - 1) // BANKS
