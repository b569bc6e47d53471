"""The transport over MPI: mpi4py, with the Open MPI of a wheel or the MPI of the machine.

Messages are nonblocking, so that the thread that waits for one can give up.  A process that is
killed is an error of a message where MPI was started with ``--with-ft ulfm``; elsewhere the
launcher ends the other processes, or the deadline does.

Source: "MPI: A Message-Passing Interface Standard", version 4.1, chapters 3, 6 and 7; Bland et al.
2013, "Post-failure recovery of MPI communication capability" (ULFM).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tfn.distributed.reduction import Reduction
from tfn.distributed.transport import Pairs, Pending
from tfn.errors import MissingPackageError

MAX_COUNT = (1 << 31) - 1
"""The largest number of elements of a message: MPI counts in 32 bits."""
PIECE_BYTES = 1 << 20
"""Of an all-reduce, from each process to each: a message of 1 MiB takes 0.5 to 1 ms between hosts,
beside which the start of the next one, some 20 us, is little."""
LOCK = threading.RLock()
"""Held by who calls MPI: a thread asks for messages beside the program, and not every MPI lets
several threads call it at once."""
PROBE_TAG = 7
"""Of messages that are never sent: to ask for one shows whether its sender is dead."""
AHEAD = 3
"""Pieces on their way at once: one that comes, one that is combined, one that goes."""


def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except ImportError:
        raise MissingPackageError(
            "programs of many processes need mpi4py and an MPI library",
            hint="pip install 'tfn[mpi]'",
        ) from None
    return MPI


class _Requests:
    """The requests of one message."""

    __slots__ = ("_requests", "_transport")

    def __init__(self, transport: MpiTransport, requests: list[Any]) -> None:
        self._transport, self._requests = transport, requests

    def test(self) -> bool:
        """Whether all have ended."""
        try:
            with LOCK:
                while self._requests and self._requests[-1].Test():
                    self._requests.pop()
        except self._transport.mpi.Exception as error:
            raise self._transport.failure(error) from None
        return not self._requests


class _Combined:
    """An all-reduce in pieces: each goes to who combines it, and from there to all.

    While pieces are combined, those after them and before them are on their way.  All processes
    start the messages of a communicator in the same order, whatever comes when: so of several
    all-reduces one is on its way, and the others wait in its queue.
    """

    __slots__ = ("_coming", "_going", "_next", "_plan", "_queue", "_transport")

    def __init__(self, transport: MpiTransport, plan: _Plan, queue: deque[_Combined]) -> None:
        self._transport, self._plan, self._queue, self._next = transport, plan, queue, 0
        self._coming: list[Any] = []
        self._going: list[Any] = []
        queue.append(self)
        if queue[0] is self:
            self._send()

    @property
    def _ended(self) -> bool:
        return self._next == self._plan.rounds and not self._coming and not self._going

    def _send(self) -> None:
        while self._next < self._plan.rounds and len(self._coming) < AHEAD:
            self._coming.append(self._plan.scatter(self._next))
            self._next += 1

    def test(self) -> bool:
        """Whether all pieces have arrived; those of all-reduces that began before come first."""
        try:
            with LOCK:
                while not self._ended:
                    if not self._queue[0]._advanced():
                        return False
                    self._queue.popleft()
                    if self._queue:
                        self._queue[0]._send()
        except self._transport.mpi.Exception as error:
            raise self._transport.failure(error) from None
        return True

    def _advanced(self) -> bool:
        while self._going and self._going[0].Test():
            self._going.pop(0)
        while self._coming and self._coming[0].Test():
            self._coming.pop(0)
            k = self._next - len(self._coming) - 1
            self._plan.combine(k)
            self._going.append(self._plan.gather(k))
            self._send()
        return self._ended


class _Plan:
    """The messages of an all-reduce, prepared for its memory.

    Attributes:
        rounds: the number of pieces that each process combines.
    """

    def __init__(self, mpi: Any, comm: Any, reduction: Reduction, sent: Any, got: Any) -> None:
        self._in_place = mpi.IN_PLACE
        self._comm, self._reduction = comm, reduction
        ranks, self._own = comm.Get_size(), comm.Get_rank()
        kind = reduction.dtype
        self._sent, self._got = sent.view(kind), got.view(kind)
        self._pieces = reduction.pieces(self._sent.size, ranks, PIECE_BYTES)
        self.rounds, self._size = len(self._pieces[0]), self._pieces[0][0].size
        self._type = mpi.BYTE.Create_contiguous(kind.itemsize).Commit()
        self._rows = [np.empty((ranks, self._size), kind) for _ in range(AHEAD)]
        self._counts = [self._size] * ranks
        self._even = [self._size * i for i in range(ranks)]

    def _starts(self, k: int) -> list[int]:
        return [row[k].start for row in self._pieces]

    def scatter(self, k: int) -> Any:
        """MPI_Ialltoallv of the k-th pieces, to who combines them."""
        source = [self._sent, (self._counts, self._starts(k)), self._type]
        target = [self._rows[k % AHEAD], (self._counts, self._even), self._type]
        return self._comm.Ialltoallv(source, target)

    def _here(self, k: int) -> Any:
        start = self._pieces[self._own][k].start
        return self._got[start : start + self._size]

    def combine(self, k: int) -> None:
        """The k-th piece of this process, from those of all."""
        self._reduction.combine([*self._rows[k % AHEAD]], self._here(k))

    def gather(self, k: int) -> Any:
        """MPI_Iallgatherv of the k-th pieces, in place."""
        target = [self._got, (self._counts, self._starts(k)), self._type]
        return self._comm.Iallgatherv(self._in_place, target)


class MpiTransport:
    """Messages by MPI.

    Args:
        channel: a number; messages of different channels are never taken for each other.

    Attributes:
        rank: of this process.
        size: the number of processes.
        mpi: the module.
        failure: from an error of MPI to the error that users see.
    """

    def __init__(self, channel: int = 0) -> None:
        self.mpi, self._channel = _mpi(), channel
        world = self.mpi.COMM_WORLD
        world.Set_errhandler(self.mpi.ERRORS_RETURN)
        self.rank, self.size = world.Get_rank(), world.Get_size()
        self.failure: Callable[[Exception], Exception] = lambda error: error
        self._comms: dict[tuple[int, ...], Any] = {}
        self._queues: dict[tuple[int, ...], deque[_Combined]] = {}

    def comm(self, ranks: Sequence[int]) -> Any:
        """The communicator of some processes, made by them alone when they first need it."""
        key = tuple(ranks)
        found = self._comms.get(key)
        if found is None:
            world = self.mpi.COMM_WORLD
            group = world.Get_group().Incl(list(key))
            found = self._comms[key] = world.Create_group(group, self._channel)
            found.Set_errhandler(self.mpi.ERRORS_RETURN)
        return found

    def _started(self, start: Callable[[], list[Any]]) -> Callable[[], Pending]:
        def begin() -> Pending:
            try:
                with LOCK:
                    return _Requests(self, start())
            except self.mpi.Exception as error:
                raise self.failure(error) from None

        return begin

    def all_gather(self, ranks: Sequence[int], sent: Any, got: Any) -> Callable[[], Pending]:
        """MPI_Iallgather of bytes."""
        begin = self.comm(ranks).Iallgather
        source, target = self._buffer(sent, 1), self._buffer(got, len(ranks))
        return self._started(lambda: [begin(source, target)])

    def all_to_all(self, ranks: Sequence[int], sent: Any, got: Any) -> Callable[[], Pending]:
        """MPI_Ialltoall of bytes."""
        begin = self.comm(ranks).Ialltoall
        source, target = self._buffer(sent, len(ranks)), self._buffer(got, len(ranks))
        return self._started(lambda: [begin(source, target)])

    def all_reduce(
        self, ranks: Sequence[int], reduction: Reduction, sent: Any, got: Any
    ) -> Callable[[], Pending]:
        """MPI_Ialltoallv, a program, and MPI_Iallgatherv, in pieces.

        MPI_Iallreduce has no bfloat16, and its order of sums is its own.
        """
        plan = _Plan(self.mpi, self.comm(ranks), reduction, sent, got)
        queue = self._queues.setdefault(tuple(ranks), deque())

        def begin() -> Pending:
            try:
                with LOCK:
                    return _Combined(self, plan, queue)
            except self.mpi.Exception as error:
                raise self.failure(error) from None

        return begin

    def permute(
        self, ranks: Sequence[int], pairs: Pairs, sent: Any, got: Any
    ) -> Callable[[], Pending]:
        """MPI_Irecv from the source, MPI_Isend to the destination."""
        comm, own = self.comm(ranks), list(ranks).index(self.rank)
        to = next((end for begin, end in pairs if begin == own), None)
        begin = next((begin for begin, end in pairs if end == own), None)
        source, target = self._buffer(sent, 1), self._buffer(got, 1)

        def start() -> list[Any]:
            requests = []
            if begin is None:
                got.fill(0)
            else:
                requests.append(comm.Irecv(target, begin))
            if to is not None:
                requests.append(comm.Isend(source, to))
            return requests

        return self._started(start)

    def _buffer(self, data: np.ndarray[Any, Any], parts: int) -> list[Any]:
        """Memory as MPI takes it: bytes, or larger elements where those are too many to count."""
        width = data.nbytes // max(parts, 1)
        if width <= MAX_COUNT:
            return [data, width, self.mpi.BYTE]
        kind = self.mpi.BYTE.Create_contiguous(data.dtype.itemsize)
        return [data, width // data.dtype.itemsize, kind.Commit()]

    def lost(self) -> list[int]:
        """The processes that MPI knows to be dead; empty if it cannot tell.

        MPI hears of them while it is asked for messages; no message is waited for here.
        """
        with suppress(self.mpi.Exception):  # of the dead one
            self.mpi.COMM_WORLD.Iprobe(self.mpi.ANY_SOURCE, self.mpi.ANY_TAG)
        try:
            group = self.mpi.COMM_WORLD.Get_failed()
            world = self.mpi.COMM_WORLD.Get_group()
            return list(group.Translate_ranks(list(range(group.Get_size())), world))
        except (self.mpi.Exception, NotImplementedError):
            return []

    def alive(self, ranks: Sequence[int]) -> None:
        """Raise if MPI knows one of some processes to be dead: with ULFM alone."""
        try:
            with LOCK:
                for rank in ranks:
                    self.mpi.COMM_WORLD.Iprobe(rank, PROBE_TAG)
        except self.mpi.Exception as error:
            raise self.failure(error) from None

    def is_loss(self, error: Exception) -> bool:
        """Whether an error of MPI says that a process is dead."""
        kind = getattr(error, "Get_error_class", lambda: None)()
        return kind in (
            getattr(self.mpi, "ERR_PROC_FAILED", -1),
            getattr(self.mpi, "ERR_REVOKED", -1),
            getattr(self.mpi, "ERR_PROC_FAILED_PENDING", -1),
        )

    def close(self, status: int) -> None:
        """MPI_Finalize, which waits for all processes; after a fault MPI_Abort."""
        if status:
            self.mpi.COMM_WORLD.Abort(status)
        elif not self.mpi.Is_finalized():
            self.mpi.Finalize()
