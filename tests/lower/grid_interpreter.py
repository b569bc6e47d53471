"""Reference interpreter of grids on NumPy: all threads in lockstep, with a check for races.

A value is an array with an element for each thread of each group.  A loop runs while any thread is
in it, and those that have left it keep their values: so the threads of a warp run on a GPU.  Two
threads race if both access an element, at least one writes, and no barrier of their group is
between; threads of different groups never meet at one, so that for them any such pair is a race.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn.trace.banks import WORD_BYTES, degree
from tfn.trace.grid_argument import GROUP_ROWS, SWIZZLE_BYTES, swizzled
from tfn.trace.op import Op
from tfn.trace.oracle import MEANING, Value, apply
from tfn.trace.uop import UOp, walk

NONE = -1
SEVERAL = -2
"""Numbers for the threads that have accessed an element: none so far, or more than one."""


class RaceError(Exception):
    """Two threads access an element without a barrier between them, and one of them writes."""


class DivergenceError(Exception):
    """Some threads wait at a barrier, or for a value of their warp, and others do not come."""


class BankConflictError(Exception):
    """The threads of a warp ask for too many words of one bank of local memory at once."""


WARP = 32
GROUP_WARPS = 4
UNWRITTEN = 113
"""The elements of local memory before anything is written there: any value but zero."""


def grid(
    items: Sequence[UOp],
    groups: int,
    threads: int,
    buffers: Sequence[Value],
    most_words_of_a_bank: int = WARP,
) -> None:
    """Run the instructions of a thread (stage LINEAR) on all threads of all groups.

    Raises:
        RaceError: naming the instruction, the element and both threads.
        DivergenceError: naming the barrier.
        BankConflictError: naming the memory, if an access of a warp meets more words of a bank.
    """
    machine = _Machine(items, groups, threads, buffers)
    machine.most_words_of_a_bank = most_words_of_a_bank
    machine.run()


class _Accesses:
    """The threads that have accessed each element of a memory, and since which barrier.

    Attributes:
        writer, reader: the last thread of each element.
        written, read: the number of barriers that its group had passed then.
        reading_group: the group of all readers so far, or SEVERAL.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.writer, self.reader, self.reading_group = (np.full(size, NONE) for _ in range(3))
        self.written, self.read = np.zeros(size, np.int64), np.zeros(size, np.int64)

    def load(self, at: Value, thread: Value, group: Value, epoch: Value, size: int) -> None:
        """Note a load by some threads; `size` is that of a group."""
        writer = self.writer[at]
        apart = (writer >= 0) & (writer // size != group)
        unordered = (writer >= 0) & (writer != thread) & (self.written[at] == epoch)
        self._refuse("loads", at, thread, writer, apart | unordered)
        _note(self.reader, self.read, at, thread, epoch)
        others = (self.reading_group[at] != NONE) & (self.reading_group[at] != group)
        self.reading_group[at] = np.where(others, SEVERAL, group)
        order = np.argsort(at, kind="stable")
        mixed = (at[order][1:] == at[order][:-1]) & (group[order][1:] != group[order][:-1])
        self.reading_group[at[order][1:][mixed]] = SEVERAL

    def store(self, at: Value, thread: Value, group: Value, epoch: Value, size: int) -> None:
        """Note a store by some threads."""
        order = np.argsort(at, kind="stable")
        twice = np.zeros(len(at), bool)
        twice[order[1:]] = at[order][1:] == at[order][:-1]
        self._refuse("stores", at, thread, thread[order[np.searchsorted(at[order], at)]], twice)
        writer = self.writer[at]
        apart = (writer >= 0) & (writer // size != group)
        unordered = (writer >= 0) & (writer != thread) & (self.written[at] == epoch)
        self._refuse("stores", at, thread, writer, apart | unordered)
        reader, reading = self.reader[at], self.reading_group[at]
        apart = (reading == SEVERAL) | ((reading >= 0) & (reading != group))
        unordered = (reader != NONE) & (reader != thread) & (self.read[at] == epoch)
        self._refuse("stores", at, thread, reader, apart | unordered)
        self.writer[at], self.written[at] = thread, epoch

    def _refuse(self, verb: str, at: Value, thread: Value, other: Value, races: Value) -> None:
        if races.any():
            i = int(np.argmax(races))
            who = "others access" if other[i] == SEVERAL else f"thread {other[i]} accesses"
            raise RaceError(
                f"thread {thread[i]} {verb} element {at[i]} of {self.name}, which {who} "
                "without a barrier between them"
            )


def _note(who: Value, when: Value, at: Value, thread: Value, epoch: Value) -> None:
    """Note the threads of an access: one of them, or SEVERAL of the same time."""
    same_time = when[at] == epoch
    others = same_time & (who[at] != NONE) & (who[at] != thread)
    who[at] = np.where(others, SEVERAL, thread)
    when[at] = epoch
    order = np.argsort(at, kind="stable")
    twice = at[order][1:] == at[order][:-1]
    who[at[order][1:][twice]] = SEVERAL


class _Machine:
    """All threads of a grid, instruction by instruction.

    Attributes:
        values: of each instruction, an element for each thread.
        active: the threads that run at present.
        epoch: for each thread the number of barriers that its group has passed.
        most_words_of_a_bank: by which the accesses of a warp to local memory are held.
    """

    most_words_of_a_bank = WARP

    def __init__(
        self, items: Sequence[UOp], groups: int, threads: int, buffers: Sequence[Value]
    ) -> None:
        self.items, self.threads, self.count = items, threads, groups * threads
        self.number = np.arange(self.count)
        self.group = self.number // threads
        self.active = np.ones(self.count, bool)
        self.epoch = np.zeros(self.count, np.int64)
        self.values: dict[UOp, Any] = {}
        self.memories: dict[UOp, Value] = {}
        self.accesses: dict[UOp, _Accesses] = {}
        special = {-1: self.group + 1, -2: self.group}
        for u in walk(items):
            if u.op is Op.RANGE:
                assert u.arg.size == threads, "the number of a thread is below that of all"
                self.values[u] = self.number % threads
            elif u.op is Op.PARAM and u.arg.index < 0:
                self.values[u] = special[u.arg.index]
            elif u.op is Op.PARAM:
                memory = self.memories[u] = buffers[u.arg.index]
                # Operands of one memory are one to races: a kernel may run in place.
                name = f"operand {u.arg.index}"
                same = [self.accesses[v] for v in self.accesses if self.memories[v] is memory]
                self.accesses[u] = same[0] if same else _Accesses(name, memory.size)
            elif u.op is Op.LOCAL_MEMORY:
                size = groups * u.size
                self.memories[u] = np.full(size, UNWRITTEN, u.dtype)
                self.accesses[u] = _Accesses(f"local memory {u.arg.number}", size)
        self.ends = {u.src[0]: i for i, u in enumerate(items) if u.op is Op.END}
        self.outside: list[Value] = []  # the active threads outside of each open loop
        # Products of four warps: those that have been started, and those that are added now.
        self.started: list[tuple[UOp, Value, list[Value]]] = []
        self.products: list[tuple[Value, Value]] = []
        # Groups of copies that have not arrived, the last of them still open.
        self.copies: list[list[tuple[UOp, Value, Value, Value]]] = [[]]

    def run(self) -> None:
        """Go through the list, back to the head of a loop while threads run it."""
        i, heads = 0, dict[UOp, int]()
        while i < len(self.items):
            u = self.items[i]
            if u.op is Op.LOOP:
                heads[u] = i
                i = self._loop(u, i)
            elif u.op is Op.LEAVE:
                self.active = self.active & self._get(u.src[1])
                if not self.active.any():
                    self.active, i = self.outside.pop(), self.ends[u.src[0]]
            elif u.op is Op.END:
                i = self._end(u, i, heads[u.src[0]])
            elif u.op is Op.STORE:
                self._store(u)
            elif u.op in GROUPWISE:
                GROUPWISE[u.op](self, u)
            elif u.op not in (Op.ACCUMULATOR, Op.PREFETCH):
                self._set(u, self._value(u))
            i += 1

    # Values.

    def _get(self, u: UOp) -> Value:
        if u.op is Op.CONST:
            return np.broadcast_to(MEANING[Op.CONST](u.arg), self.count)
        value: Value = self.values[u]
        return value

    def _set(self, u: UOp, value: Value) -> None:
        """Threads that do not run keep their values."""
        value = np.broadcast_to(value, self.count)
        before = self.values.get(u)
        self.values[u] = value if before is None else np.where(self.active, value, before)

    def _value(self, u: UOp) -> Value:
        if u.op is Op.LOAD:
            return self._load(u)
        if u.op is Op.EXCHANGE:
            self._meet(u)
            return np.asarray(self._get(u.src[0])[self.number ^ u.arg])
        if u.op in (Op.GROUP_MMA, Op.GROUP_WAIT):
            return self._group_product(u)
        if u.op in (Op.FRAGMENT, Op.WARP_MMA):
            self._meet(u)
            return self._fragment(u) if u.op is Op.FRAGMENT else self._product(u)
        return np.asarray(apply(u.op, u.arg, *map(self._get, u.src)))

    # Warps.

    def _meet(self, u: UOp, size: int = WARP) -> None:
        """All threads of a warp, or of several, come to an instruction together, or none."""
        running = np.add.reduceat(self.active, np.arange(0, self.count, size))
        split = np.flatnonzero((running > 0) & (running < size))
        if self.threads % size or len(split):
            raise DivergenceError(f"{running[split][:1]} of {size} threads of a warp come to {u}")

    def _fragment(self, u: UOp) -> Value:
        """An element of matrices whose rows begin where threads of the warp say."""
        memory, index = u.src
        n = 4 // memory.dtype.itemsize
        matrix, e = divmod(u.arg.element, n)
        lane = self.number % WARP
        row, column = lane // 4, n * (lane % 4) + e
        if u.arg.transposed:
            row, column = column, row
        first = self._get(index) + u.arg.offset
        assert not np.any(first % (4 * n)), f"rows of matrices begin at 16 bytes: {u}"
        speaks = self.active & (lane // 8 == matrix)  # a matrix at a time
        self._check_banks(memory, first, speaks, 4 * n)
        at = first[self.number - lane + 8 * matrix + row] + column
        outside = self.active & ((at < 0) | (at >= memory.size))
        assert not outside.any(), f"element {at[outside][0]} of {memory.size} is accessed: {u}"
        at = at + self.group * memory.size
        self._note(self.accesses[memory].load, at, self.active)
        return np.where(self.active, self.memories[memory][np.where(self.active, at, 0)], 0)

    def _product(self, u: UOp) -> Value:
        """An element of the product of two matrices in each warp."""
        n, (*operands, _, _, _, _) = u.arg.together, u.src
        lane = self.number.reshape(-1, WARP) % WARP
        warp, g, t = np.arange(len(lane))[:, None], lane // 4, lane % 4
        wide = u.dtype if u.dtype.kind == "i" else np.dtype(np.float64)
        a = np.zeros((len(lane), 16, u.arg.depth), wide)
        b = np.zeros((len(lane), u.arg.depth, 8), wide)
        for i, source in enumerate(operands):
            value = _as_multiplied(self._get(source).reshape(-1, WARP)).astype(wide)
            (j, e), is_left = divmod(i % (4 * n), n), i < 4 * n
            if is_left:
                a[warp, g + 8 * (j % 2), t * n + e + 4 * n * (j // 2)] = value
            else:
                b[warp, t * n + e + 4 * n * j, g] = value
        i = u.arg.element
        products = (a @ b)[warp, g + 8 * (i // 2), 2 * t + i % 2].reshape(-1)
        return np.asarray((self._get(u.src[-4 + i]) + products).astype(u.dtype))

    def _group_product(self, u: UOp) -> Value:
        """A sum of each thread of four warps; all of them are computed with the first.

        As late as they may be: a product that may be pending reads its operands at the next one.
        """
        if u.op is Op.GROUP_MMA:
            sums, element, pending = u.src[4:], u.arg.element, u.arg.pending
        else:
            sums, element, pending = u.src, u.arg, 0
        if element == 0:
            self._meet(u, GROUP_WARPS * WARP)
            if u.op is Op.GROUP_MMA:
                first = np.flatnonzero(self.active)[:: GROUP_WARPS * WARP]
                places = [self._get(u.src[i])[first][:, None, None] for i in (1, 3)]
                self.started.append((u, first, places))
            self.products = []
            while len(self.started) > pending:
                self.products.append(self._group_sums(*self.started.pop(0)))
        total = self._get(sums[element])
        warp, lane = self.number // WARP % GROUP_WARPS, self.number % WARP
        (j, h), q = divmod(element // 2, 2), element % 2
        row, column = 16 * warp + 8 * h + lane // 4, 8 * j + 2 * (lane % 4) + q
        for first, products in self.products:
            for begin, matrix in zip(first.tolist(), products, strict=True):
                own = slice(begin, begin + GROUP_WARPS * WARP)
                total = total.copy()
                total[own] += matrix[row[own], column[own]].astype(u.dtype)
        return np.asarray(total)

    def _group_sums(self, u: UOp, first: Value, places: Sequence[Value]) -> tuple[Value, Value]:
        """The product of each four warps, which read both operands now."""
        along, across = np.arange(u.arg.depth), np.arange(u.arg.columns)
        rows, (at_a, at_b) = np.arange(GROUP_ROWS), places
        a = self._swizzled(u, u.src[0], at_a, first, rows[:, None], along[None], u.arg.a_across)
        b = self._swizzled(u, u.src[2], at_b, first, across[None], along[:, None], u.arg.b_across)
        return first, a @ b

    def _swizzled(
        self,
        u: UOp,
        memory: UOp,
        begin: Value,
        first: Value,
        across: Value,
        along: Value,
        is_across: bool,
    ) -> Value:
        """An operand of each four warps, which their first thread reads for all of them."""
        size = memory.dtype.itemsize
        row = SWIZZLE_BYTES // size
        assert not np.any(begin % (8 * row)), f"a matrix begins at 1,024 bytes: {u}"
        places = across * row + along
        if is_across:
            places = (across // row * row + along) * row + across % row
        index = swizzled(begin + places, size)
        assert np.all((index >= 0) & (index < memory.size)), f"a matrix is beyond its memory: {u}"
        index = index + (self.group[first] * memory.size)[:, None, None]
        for i, thread in enumerate(first):
            count = index[i].size
            number, group, epoch = (
                np.full(count, x[thread]) for x in (self.number, self.group, self.epoch)
            )
            flat = index[i].reshape(-1)
            self.accesses[memory].load(flat, number, group, epoch, self.threads)
        return _as_multiplied(self.memories[memory][index])

    # Loops.

    def _carried(self, loop: UOp) -> tuple[UOp, ...]:
        end = self.items[self.ends[loop]]
        return end.src[1 : 1 + len(end.src) // 2]

    def _loop(self, u: UOp, i: int) -> int:
        self.outside.append(self.active)
        self._set(u, self._get(u.src[0]))
        for carry in self._carried(u):
            self._set(carry, self._get(carry.src[1]))
        if len(u.src) == 2:
            self.active = self.active & (self.values[u] < self._get(u.src[1]))
        if self.active.any():
            return i
        self.active = self.outside.pop()
        return self.ends[u]

    def _end(self, u: UOp, i: int, head: int) -> int:
        loop, carried = u.src[0], self._carried(u.src[0])
        following = [self._get(s) for s in u.src[1 + len(carried) :]]
        for carry, value in zip(carried, following, strict=True):
            self._set(carry, value)
        self._set(loop, self.values[loop] + 1)
        if len(loop.src) == 2:
            self.active = self.active & (self.values[loop] < self._get(loop.src[1]))
        if self.active.any():
            return head
        self.active = self.outside.pop()
        return i

    # Memory.

    def _barrier(self, u: UOp) -> None:
        self._come_together(u)
        self.epoch[self.active] += 1

    def _come_together(self, u: UOp) -> None:
        """All threads of a group come to an instruction, or none."""
        running = np.add.reduceat(self.active, np.arange(0, self.count, self.threads))
        split = np.flatnonzero((running > 0) & (running < self.threads))
        if len(split):
            raise DivergenceError(
                f"{running[split[0]]} of {self.threads} threads of group {split[0]} come to "
                f"{u.op.value} {u.arg}"
            )

    # Copies.

    def _copy(self, u: UOp) -> None:
        """Read now, write when the thread waits for it; until then nothing is in its place."""
        memory, to, operand, index = u.src[:4]
        size, count = memory.size, u.arg.count
        active = self.active
        for condition in u.src[4:]:
            active = active & self._get(condition)
        at = self._get(to) + u.arg.offset
        source = self._get(index) + u.arg.operand_offset
        for first, elements in ((at, size), (source, self.memories[operand].size)):
            outside = active & ((first < 0) | (first + count > elements))
            assert not outside.any(), f"element {first[outside][0]} of {elements} is accessed: {u}"
        self._check_banks(memory, at, active, count)
        at = at + self.group * size
        for i in range(count if active.any() else 0):
            self._note(self.accesses[operand].load, source + i, active)
            self._note(self.accesses[memory].store, at + i, active)
            values = self.memories[operand][source[active] + i]
            self.memories[memory][at[active] + i] = UNWRITTEN
            self.copies[-1].append((memory, at + i, active, values))

    def _copy_group(self, u: UOp) -> None:
        self._come_together(u)
        self.copies.append([])

    def _copy_wait(self, u: UOp) -> None:
        self._come_together(u)
        while len(self.copies) - 1 > u.arg:
            for memory, at, active, values in self.copies.pop(0):
                self._note(self.accesses[memory].store, at, active)
                self.memories[memory][at[active]] = values

    def _addresses(self, u: UOp, predicate: Sequence[UOp]) -> tuple[Value, Value]:
        """The elements that threads access, and which threads do."""
        active = self.active
        for condition in predicate:
            active = active & self._get(condition)
        at = self._get(u.src[1]) + u.arg.offset
        memory = u.src[0]
        size = memory.size if memory.op is Op.LOCAL_MEMORY else self.memories[memory].size
        outside = active & ((at < 0) | (at >= size))
        assert not outside.any(), f"element {at[outside][0]} of {size} is accessed: {u}"
        if memory.op is not Op.LOCAL_MEMORY:
            return at, active
        self._check_banks(memory, at, active)
        return at + self.group * size, active

    def _check_banks(self, memory: UOp, at: Value, active: Value, count: int = 1) -> None:
        """Refuse an access of a warp that meets too many words of one bank.

        Where each thread accesses several words, fewer threads get theirs at a time.
        """
        if self.most_words_of_a_bank == WARP:
            return
        itemsize = memory.dtype.itemsize
        together = WARP * WORD_BYTES // max(WORD_BYTES, count * itemsize)
        for first in range(0, self.count, together):
            own = slice(first, first + together)
            bytes_ = at[own][active[own]][:, None] * itemsize + np.arange(count) * itemsize
            found = degree((bytes_ // WORD_BYTES).reshape(-1).tolist()) if bytes_.size else 1
            if found > self.most_words_of_a_bank:
                raise BankConflictError(
                    f"threads {first} to {first + together - 1} meet {found} words of a bank in "
                    f"local memory {memory.arg.number}"
                )

    def _load(self, u: UOp) -> Value:
        at, active = self._addresses(u, u.src[2:])
        memory = self.memories[u.src[0]]
        out = np.zeros(self.count, memory.dtype)
        if active.any():
            out[active] = memory[at[active]]
            self._note(self.accesses[u.src[0]].load, at, active)
        return out

    def _store(self, u: UOp) -> None:
        at, active = self._addresses(u, u.src[3:])
        if active.any():
            self._note(self.accesses[u.src[0]].store, at, active)
            self.memories[u.src[0]][at[active]] = self._get(u.src[2])[active]

    def _note(self, note: Any, at: Value, active: Value) -> None:
        note(at[active], self.number[active], self.group[active], self.epoch[active], self.threads)


def _as_multiplied(x: Value) -> Value:
    """Elements of an operand as a unit multiplies them: of float32 the bits that tf32 has."""
    if x.dtype == np.float32:
        x = (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return x.astype(np.int64 if x.dtype.kind == "i" else np.float64)


GROUPWISE: dict[Op, Callable[[_Machine, UOp], None]] = {
    Op.BARRIER: _Machine._barrier,
    Op.COPY: _Machine._copy,
    Op.COPY_GROUP: _Machine._copy_group,
    Op.COPY_WAIT: _Machine._copy_wait,
}
"""The method for each instruction without a value by which the threads of a group work together."""
