"""The transport between processes of one host: memory that they share; of others, that below it.

    own part of each        slots of rank 0        slots of rank 1
    operand --copy-->  [ 0 | 1 | 2 | 3 ]  --copy--> result          all_gather, all_to_all, permute
                       [ 0 | 1 | 2 | 3 ]  --program, on slots of all ranks--> result    all_reduce

A value goes in pieces through a ring of slots, which stay in the caches.  Counters say how many
pieces a process has written, and how many it has read.  An exchange is a table of steps, made once
for its memory and run by native code, see `tfn.hw.cpu.exchange`: copies, waits for counters, calls
of the program that combines pieces.  The process that combines a piece reads those of the others
where they are.

Source: Graham, Shipman 2008, "MPI support for multi-core architectures: optimized shared memory
collectives".
"""

from __future__ import annotations

import mmap
import os
import secrets
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfn.config import config
from tfn.distributed.reduction import Called, Reduction
from tfn.distributed.transport import Arrived, Pairs, Pending, Transport
from tfn.extend import run
from tfn.hw.cpu import exchange
from tfn.hw.cpu.exchange import STEP

SLOT_BYTES = 256 << 10
"""Of a slot: a copy of 256 KiB takes 25 us, in which the waits and calls of one piece, about 1 us,
are lost; and the slots of two processes fit into a second-level cache of 2 MiB."""
SLOTS = 4
"""Of a ring: a process that is late by three pieces keeps no other waiting."""
LINE_BYTES = 128
"""Of a counter: processors fetch cache lines in pairs."""
LANES = 2
"""Rings of a process: what the others combine or pick from, and what all take as it is."""
SHARED_FOLDER = "/dev/shm"
TURNS = exchange.PAUSES + 100
"""Questions of a wait before Python looks at the deadline and at the other processes: the last ones
yield, and each may take a time slice of 3 ms on a busy machine."""
FEW_TURNS = 10
"""Questions of a wait that has stalled: Python sleeps between them, and so shall the core."""

Exchanged = Callable[[bytes, Sequence[int], str], list[bytes]]
Array = np.ndarray[Any, Any]
Step = tuple[int, int, int, int]


class SharedTransport:
    """Messages by shared memory where all processes of one are on this host.

    Args:
        below: the transport for all other messages.
        hosts: the name of the host of each process.
        exchanged: the bytes of each of some processes, for agreeing on shared memory.
        alive: raises if one of some processes is dead.
    """

    def __init__(
        self,
        below: Transport,
        hosts: Sequence[str],
        exchanged: Exchanged,
        alive: Callable[[Sequence[int]], None],
    ) -> None:
        self.below, self.hosts, self.exchanged, self.alive = below, hosts, exchanged, alive
        self.rank, self.size = below.rank, below.size
        self._groups: dict[tuple[int, ...], Group | None] = {}
        self._advance: exchange.Advance | None = None

    def group(self, ranks: Sequence[int]) -> Group | None:
        """The memory that some processes share, made when they first need it; None if they cannot.

        They can if all of them can map one file: processes of one host, with room for it.
        """
        key = tuple(ranks)
        if key not in self._groups:
            here = len({self.hosts[rank] for rank in key}) == 1 < len(key)
            self._groups[key] = self._made(key) if here else None
        return self._groups[key]

    def _made(self, ranks: tuple[int, ...]) -> Group | None:
        own, what = ranks.index(self.rank), "the exchange of shared memory"
        size_bytes, compiles = len(ranks) * RANK_BYTES, config.device != "python"
        made = _create(size_bytes) if own == 0 and compiles else None
        try:
            name = self.exchanged((made or "").encode(), ranks, what)[0].decode()
            memory = _mapped(name, size_bytes)
            flags = self.exchanged(bytes([memory is not None]), ranks, what)
        finally:
            if made:  # all have it, or will not: no file is left behind, however a process ends
                Path(made).unlink(missing_ok=True)
        if memory is None or b"\0" in flags:
            return None
        if self._advance is None:
            self._advance = exchange.load(run.device("cpu").queue)  # type: ignore[arg-type]
        return Group(memory, ranks, own, self.alive, self._advance)

    def all_gather(self, ranks: Sequence[int], sent: Any, got: Any) -> Callable[[], Pending]:
        """The bytes of each, copied from its slots."""
        group = self.group(ranks)
        if group is None:
            return self.below.all_gather(ranks, sent, got)
        return group.prepared(group.all_gather(sent, got), sent, got)

    def all_to_all(self, ranks: Sequence[int], sent: Any, got: Any) -> Callable[[], Pending]:
        """The i-th of equal parts of the bytes of each, copied from its slots."""
        group = self.group(ranks)
        if group is None:
            return self.below.all_to_all(ranks, sent, got)
        return group.prepared(group.all_to_all(sent, got), sent, got)

    def all_reduce(
        self, ranks: Sequence[int], reduction: Reduction, sent: Any, got: Any
    ) -> Callable[[], Pending]:
        """The values of all combined: each process combines a part, from slots of the others."""
        group = self.group(ranks)
        if group is None:
            return self.below.all_reduce(ranks, reduction, sent, got)
        return group.prepared(group.all_reduce(reduction, sent, got), sent, got)

    def permute(
        self, ranks: Sequence[int], pairs: Pairs, sent: Any, got: Any
    ) -> Callable[[], Pending]:
        """The bytes of the source, copied from its slots."""
        group = self.group(ranks)
        if group is None:
            return self.below.permute(ranks, pairs, sent, got)
        return group.prepared(group.permute(pairs, sent, got), sent, got)

    def close(self, status: int) -> None:
        """Leave the job."""
        self.below.close(status)


RANK_BYTES = 4096 + LANES * SLOTS * SLOT_BYTES
"""Of a process: a page of counters, then the slots of its rings."""


def _create(size_bytes: int) -> str | None:
    """A new file of shared memory, with room for all of it; None if there is none."""
    folder = SHARED_FOLDER if os.path.isdir(SHARED_FOLDER) else tempfile.gettempdir()
    path = os.path.join(folder, f"tfn-{secrets.token_hex(16)}")
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except OSError:
        return None
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)  # or else a full one ends a later write
    except OSError:
        os.unlink(path)
        return None
    finally:
        os.close(descriptor)
    return path


def _mapped(path: str, size_bytes: int) -> mmap.mmap | None:
    """The memory of a file; None if it is not there, as for a host of another name space."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        return mmap.mmap(descriptor, size_bytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)


class Group:
    """Processes of one host, and the memory that they share.

    Args:
        memory: of all of them.
        ranks: of the processes.
        own: the place of this one among them.
        alive: raises if one of some processes is dead.
        advance: runs steps.

    Attributes:
        queue: exchanges that wait, in the order of their beginning: only the first one moves.
        turns: questions of its waits.
        check: raises if another process is dead.
    """

    def __init__(
        self,
        memory: mmap.mmap,
        ranks: Sequence[int],
        own: int,
        alive: Callable[[Sequence[int]], None],
        advance: exchange.Advance,
    ) -> None:
        self._memory = np.frombuffer(memory, "uint8")
        self._start = _address(self._memory)
        self.own, self.count = own, len(ranks)
        self.others = [i for i in range(self.count) if i != own]
        self.check: Callable[[], None] = lambda: alive([ranks[i] for i in self.others])
        self._passed = np.zeros(LANES, "int64")  # pieces of all exchanges before
        self.queue: deque[_Running] = deque()
        self.turns = TURNS
        self.advance = advance

    # Places.

    def _counter(self, rank: int, lane: int, read: bool) -> int:
        return self._start + rank * RANK_BYTES + (2 * lane + read) * LINE_BYTES

    def _slot(self, rank: int, lane: int, piece: int) -> int:
        at = lane * SLOTS + piece % SLOTS  # each exchange begins with the first slot
        return self._start + rank * RANK_BYTES + 4096 + at * SLOT_BYTES

    # Steps.

    def _post(self, lane: int, read: bool, pieces: int) -> Step:
        counter = self._counter(self.own, lane, read)
        return (STEP["post"], counter, pieces, _address(self._passed) + 8 * lane)

    def _waits(self, lane: int, read: bool, pieces: int) -> list[Step]:
        base = _address(self._passed) + 8 * lane
        return [
            (STEP["wait"], self._counter(rank, lane, read), pieces, base) for rank in self.others
        ]

    def _write(self, lane: int, piece: int, sources: Sequence[tuple[int, int, int]]) -> list[Step]:
        """Copy to a slot: (offset in it, address, bytes); others have read what was there before.

        That is a piece of this exchange or, before its first one, all of those before.
        """
        slot = self._slot(self.own, lane, piece)
        copies = [(STEP["copy"], slot + at, source, n) for at, source, n in sources]
        free = [] if 0 < piece < SLOTS else self._waits(lane, True, max(piece + 1 - SLOTS, 0))
        return [*free, *copies, self._post(lane, False, piece + 1)]

    def _take(
        self, lane: int, piece: int, copies: Sequence[tuple[int, int, int, int]]
    ) -> list[Step]:
        """Copy from slots of others: (rank, offset in its slot, address, bytes)."""
        taken = [
            (STEP["copy"], to, self._slot(rank, lane, piece) + at, n) for rank, at, to, n in copies
        ]
        return [*self._waits(lane, False, piece + 1), *taken, self._post(lane, True, piece + 1)]

    # Exchanges.

    def all_gather(self, sent: Array, got: Array) -> _Table:
        """The steps of an all-gather."""
        size, source, target = sent.nbytes, _address(sent), _address(got)
        spans = _spans(size, SLOT_BYTES)
        writes = [self._write(1, k, [(0, source + a, n)]) for k, (a, n) in enumerate(spans)]
        takes = [
            self._take(1, k, [(rank, 0, target + rank * size + a, n) for rank in self.others])
            for k, (a, n) in enumerate(spans)
        ]
        own = (STEP["copy"], target + self.own * size, source, size)
        return _Table(_staggered(writes, takes, [own]), (0, len(spans)))

    def all_to_all(self, sent: Array, got: Array) -> _Table:
        """The steps of an all-to-all."""
        size, source, target = sent.nbytes // self.count, _address(sent), _address(got)
        width = SLOT_BYTES // self.count // 64 * 64
        spans = _spans(size, width)
        writes = [
            self._write(0, k, [(r * width, source + r * size + a, n) for r in self.others])
            for k, (a, n) in enumerate(spans)
        ]
        takes = [
            self._take(0, k, [(r, self.own * width, target + r * size + a, n) for r in self.others])
            for k, (a, n) in enumerate(spans)
        ]
        own = (STEP["copy"], target + self.own * size, source + self.own * size, size)
        return _Table(_staggered(writes, takes, [own]), (len(spans), 0))

    def permute(self, pairs: Pairs, sent: Array, got: Array) -> _Table:
        """The steps of a permutation: all count all pieces, so that they agree on the numbers."""
        begin = next((begin for begin, end in pairs if end == self.own), None)
        sends = any(begin == self.own != end for begin, end in pairs)
        source, target = _address(sent), _address(got)
        spans = _spans(sent.nbytes, SLOT_BYTES)
        writes = [
            self._write(1, k, [(0, source + a, n)] if sends else [])
            for k, (a, n) in enumerate(spans)
        ]
        takes = [
            self._take(1, k, [(begin, 0, target + a, n)] if begin not in (None, self.own) else [])
            for k, (a, n) in enumerate(spans)
        ]
        own = [(STEP["copy"], target, source, sent.nbytes)] if begin == self.own else []
        clear = got if begin is None else None
        return _Table(_staggered(writes, takes, own), (0, len(spans)), (), clear)

    def all_reduce(self, reduction: Reduction, sent: Array, got: Array) -> _Table:
        """The steps of an all-reduce."""
        itemsize, source, target = reduction.dtype.itemsize, _address(sent), _address(got)
        most_bytes = SLOT_BYTES // self.count // 64 * 64
        pieces = reduction.pieces(sent.nbytes // itemsize, self.count, most_bytes)
        rounds, size = len(pieces[0]), pieces[0][0].size
        n, width = size * itemsize, most_bytes
        called = Called(reduction.program(self.count, size))
        buffers = np.zeros((rounds, self.count + 1), "int64")
        writes, combined, takes = [], [], []
        for k in range(rounds):
            starts = [pieces[rank][k].start * itemsize for rank in range(self.count)]
            here = starts[self.own]
            parts = [(r * width, source + starts[r], n) for r in self.others]
            writes.append(self._write(0, k, parts))
            places = [self._slot(r, 0, k) + self.own * width for r in range(self.count)]
            places[self.own] = source + here
            buffers[k] = [*places, target + here]
            call = (STEP["call"], called.call, _address(buffers[k]), called.work)
            read = [*self._waits(0, False, k + 1), call, self._post(0, True, k + 1)]
            combined.append([*read, *self._write(1, k, [(0, target + here, n)])])
            takes.append(self._take(1, k, [(r, 0, target + starts[r], n) for r in self.others]))
        steps = _staggered(writes, combined, [], takes)
        return _Table(steps, (rounds, rounds), (called, buffers))

    def prepared(self, table: _Table, *keep: Array) -> Callable[[], Pending]:
        """The function that starts an exchange; one that meets no delay ends at once."""
        base = _address(self._passed)
        counted = [(STEP["add"], base + 8 * lane, n, 0) for lane, n in enumerate(table.pieces)]
        steps = np.array([*table.steps, *counted], "int64").reshape(-1, 4)
        address, count, clear = _address(steps), len(steps), table.clear
        queue, advance, arrived = self.queue, self.advance, Arrived()
        kept = steps, table, keep

        def begin() -> Pending:
            if clear is not None:
                clear.fill(0)
            at = 0 if queue else advance(address, 0, count, TURNS)
            return arrived if at == count else _Running(self, address, at, count, kept)

        return begin


class _Table:
    """An exchange as steps.

    Attributes:
        steps: in order.
        pieces: so many of each lane.
        keep: what steps use.
        clear: a result that nothing is sent to, which becomes 0.
    """

    def __init__(
        self,
        steps: list[Step],
        pieces: tuple[int, int],
        keep: tuple[Any, ...] = (),
        clear: Array | None = None,
    ) -> None:
        self.steps, self.pieces, self.keep, self.clear = steps, pieces, keep, clear


class _Running:
    """An exchange on its way, which waits for another process, or for an exchange before it."""

    __slots__ = ("_address", "_at", "_count", "_group", "_kept")

    def __init__(self, group: Group, address: int, at: int, count: int, kept: object) -> None:
        self._group, self._address, self._at, self._count = group, address, at, count
        self._kept = kept
        group.queue.append(self)

    def test(self) -> bool:
        """Whether it has ended; if not, it has stalled.  Those that began before it come first."""
        group = self._group
        while self._at < self._count:
            first = group.queue[0]
            at = group.advance(first._address, first._at, first._count, group.turns)
            moved, first._at = at > first._at, at
            group.turns = TURNS if moved else FEW_TURNS
            if at == first._count:
                group.queue.popleft()
            elif not moved:
                group.check()
                return False
        return True


def _spans(size: int, width: int) -> list[tuple[int, int]]:
    """(start, length) of the pieces of some bytes."""
    return [(a, min(width, size - a)) for a in range(0, size, width)]


def _staggered(
    writes: Sequence[list[Step]],
    second: Sequence[list[Step]],
    own: list[Step],
    third: Sequence[list[Step]] = (),
) -> list[Step]:
    """Each stage one piece behind the one before, so that a process seldom waits for another."""
    steps: list[Step] = []
    for k in range(len(writes) + 2):
        steps += writes[k] if k < len(writes) else []
        steps += own if k == 0 else []
        steps += second[k - 1] if 0 < k <= len(second) else []
        steps += third[k - 2] if 1 < k <= len(third) + 1 else []
    return steps


def _address(x: Array) -> int:
    address: int = x.__array_interface__["data"][0]
    return address
