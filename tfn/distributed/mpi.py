"""The transport over MPI: mpi4py, with the Open MPI of a wheel or the MPI of the machine.

Messages are nonblocking, so that the thread that waits for one can give up.  A process that is
killed is an error of a message where MPI was started with ``--with-ft ulfm``; elsewhere the
launcher ends the other processes, or the deadline does.

Source: "MPI: A Message-Passing Interface Standard", version 4.1, chapters 3, 6 and 7; Bland et al.
2013, "Post-failure recovery of MPI communication capability" (ULFM).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tfn.distributed.transport import Pairs, Pending
from tfn.errors import MissingPackageError

MAX_COUNT = (1 << 31) - 1
"""The largest number of elements of a message: MPI counts in 32 bits."""


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
            while self._requests and self._requests[-1].Test():
                self._requests.pop()
        except self._transport.mpi.Exception as error:
            raise self._transport.failure(error) from None
        return not self._requests


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
