"""NCCL between processes: exchanges from GPU to GPU, where all of them have the library.

    all_gather over data   ncclAllGather on the communicator of the line of processes

A line of processes makes its communicator at its first message: the first process makes an id,
and the connection between the processes carries it.  If one of them has no NCCL, or two of them
share a GPU, the host carries the messages of the line, as it does reductions that NCCL defines
otherwise.

A message is enqueued in the stream of the program, and waited for: so a process that is gone is an
error after the deadline, as of other transports, and no GPU waits for ever.

Source: NCCL API reference, version 2.14: ncclGetUniqueId, ncclCommInitRankConfig, ncclCommAbort.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

from tfn.dtypes import DType
from tfn.errors import DistributedError
from tfn.extend import Exchange, Message, Op, Shape, processes
from tfn.hw.cuda import nccl
from tfn.hw.cuda.driver import Driver, Event
from tfn.hw.cuda.library import NOT_READY
from tfn.hw.cuda.nccl import Functions

ID_BYTES = 128
IN_PROGRESS = 7  # ncclResult_t
BYTES = 0  # ncclDataType_t: ncclInt8

# fmt: off
DTYPES = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5,
    "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}
"""ncclDataType_t."""
OPS = {Op.ADD: 0, Op.MUL: 1, Op.MAX: 2, Op.MIN: 3}
"""ncclRedOp_t."""
# fmt: on

Types = Sequence[tuple[Shape, DType]]


class UniqueId(ctypes.Structure):
    """ncclUniqueId, which is passed by value."""

    _fields_ = (("internal", ctypes.c_char * ID_BYTES),)


class Config(ctypes.Structure):
    """ncclConfig_t of version 2.14: later libraries take it, with defaults for what they added."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", ctypes.c_int),
    )


MAGIC, VERSION = 0xCAFEBEEF, 21400


def combines(op: Op | None, dtype: DType) -> bool:
    """Whether NCCL reduces as the op says; its maximum of floats may lose a NaN."""
    return dtype.name in DTYPES and op in OPS and (op in (Op.ADD, Op.MUL) or dtype.kind in "iu")


def connected(driver: Driver) -> Between | None:
    """The exchanges of a GPU with those of other processes; None for a process alone."""
    return None if processes.exchanged is None else Between(driver, nccl.library())


class Between:
    """Exchanges with the GPUs of other processes.

    Args:
        functions: of NCCL; None if this process has it not.
    """

    def __init__(self, driver: Driver, functions: Functions | None) -> None:
        self._driver, self._nccl = driver, functions
        self._communicators: dict[tuple[int, ...], ctypes.c_void_p | None] = {}

    def __del__(self) -> None:
        for communicator in self._communicators.values():
            if communicator is not None and self._nccl is not None:
                self._nccl["ncclCommDestroy"](communicator)

    def exchange(
        self, message: Message, pointers: Sequence[int], types: Types, results: int
    ) -> bool:
        """Exchange values of the device; False if the host has to do it.

        Args:
            pointers: of the results, then of the operands.
            types: of each.

        Raises:
            CollectiveTimeoutError: after the deadline of the job.
            DistributedError: if NCCL fails.
        """
        reduces = message.kind is Exchange.REDUCE
        if reduces and not all(combines(message.op, dtype) for _, dtype in types[results:]):
            return False
        ranks = message.hosts.line(message.axis, processes.index)
        if ranks not in self._communicators:
            self._communicators[ranks] = self._joined(ranks)
        communicator, event = self._communicators[ranks], self._driver.event()
        if communicator is None:
            return False
        self._driver.enter()
        try:
            self._call("ncclGroupStart")
            for k in range(results):
                sizes = [prod(shape) * d.itemsize for shape, d in (types[k], types[results + k])]
                if sizes[1]:
                    got, sent = pointers[k], pointers[results + k]
                    self._add(message, communicator, ranks, sent, got, types[results + k])
            self._call("ncclGroupEnd")
            self._wait(str(message), Enqueued(self, communicator))
            event.record(self._driver.stream)
            self._wait(str(message), Happened(event, Enqueued(self, communicator)))
        except DistributedError:
            self._abort()
            raise
        return True

    def _add(
        self,
        message: Message,
        communicator: Any,
        ranks: Sequence[int],
        sent: int,
        got: int,
        kind: tuple[Shape, DType],
    ) -> None:
        """Add the exchange of one value to a group."""
        (shape, dtype), own, stream = kind, ranks.index(processes.index), self._driver.stream
        count, size = prod(shape), prod(shape) * dtype.itemsize

        def move(name: str, place: int, size_bytes: int, other: int) -> None:
            where, length = ctypes.c_void_p(place), ctypes.c_size_t(size_bytes)
            self._call(name, where, length, BYTES, other, communicator, stream)

        begin, end = ctypes.c_void_p(sent), ctypes.c_void_p(got)
        if message.kind is Exchange.REDUCE:
            assert message.op is not None
            what = ctypes.c_size_t(count), DTYPES[dtype.name], OPS[message.op]
            self._call("ncclAllReduce", begin, end, *what, communicator, stream)
        elif message.kind is Exchange.GATHER:
            length = ctypes.c_size_t(size)
            self._call("ncclAllGather", begin, end, length, BYTES, communicator, stream)
        elif message.kind is Exchange.TRANSPOSE:
            row = size // len(ranks)
            for i in range(len(ranks)):
                move("ncclSend", sent + i * row, row, i)
                move("ncclRecv", got + i * row, row, i)
        else:
            for source, target in message.pairs:
                if source == own:
                    move("ncclSend", sent, size, target)
                if target == own:
                    move("ncclRecv", got, size, source)
            if own not in {target for _, target in message.pairs}:
                zeros = ctypes.c_uint64(got), ctypes.c_ubyte(0), ctypes.c_size_t(size)
                self._driver.library("cuMemsetD8Async", *zeros, stream)

    def _joined(self, ranks: tuple[int, ...]) -> ctypes.c_void_p | None:
        """The communicator of a line of processes; None if NCCL cannot join them."""
        assert processes.exchanged is not None, "the process has joined others"
        own, id_ = ranks.index(processes.index), UniqueId()
        if self._nccl is not None and own == 0:
            self._call("ncclGetUniqueId", ctypes.byref(id_))
        said = b"" if self._nccl is None else bytes(id_) + self._driver.uuid
        listed = processes.exchanged(said, ranks, "the id of a communicator of NCCL")
        if not all(listed) or len({x[ID_BYTES:] for x in listed}) < len(listed):
            return None
        config = Config(ctypes.sizeof(Config), MAGIC, VERSION, 0)
        communicator, first = ctypes.c_void_p(), UniqueId.from_buffer_copy(listed[0][:ID_BYTES])
        self._driver.enter()
        self._call(
            "ncclCommInitRankConfig",
            *(ctypes.byref(communicator), len(ranks), first, own, ctypes.byref(config)),
        )
        self._wait("joining a communicator of NCCL", Enqueued(self, communicator))
        return communicator

    def state(self, communicator: ctypes.c_void_p) -> bool:
        """Whether a communicator has done what it was asked for.

        Raises:
            DistributedError: if it has failed.
        """
        state = ctypes.c_int()
        self._call("ncclCommGetAsyncError", communicator, ctypes.byref(state))
        if state.value not in (0, IN_PROGRESS):
            raise self._failure(state.value, "ncclCommGetAsyncError")
        return state.value == 0

    def _wait(self, what: str, pending: Any) -> None:
        assert processes.wait is not None, "the process has joined others"
        processes.wait(what, [pending])

    def _abort(self) -> None:
        """End all communicators: their other processes are told, or gone."""
        listed, self._communicators = self._communicators, {}
        for communicator in listed.values():
            if communicator is not None and self._nccl is not None:
                self._nccl["ncclCommAbort"](communicator)

    def _call(self, name: str, *arguments: Any) -> None:
        assert self._nccl is not None
        code = self._nccl[name](*arguments)
        if code not in (0, IN_PROGRESS):
            raise self._failure(code, name)

    def _failure(self, code: int, name: str) -> DistributedError:
        assert self._nccl is not None
        said = self._nccl["ncclGetErrorString"](code) or b"an unknown error"
        return DistributedError(
            "NCCL could not exchange values between the GPUs of several processes",
            got=f"{said.decode(errors='replace')} ({code}), from {name}",
            hint="NCCL_DEBUG=INFO says more",
            rank=processes.index,
        )


class Enqueued:
    """A communicator that works on what it was asked for."""

    def __init__(self, between: Between, communicator: ctypes.c_void_p) -> None:
        self._between, self._communicator = between, communicator

    def test(self) -> bool:
        """Whether it is in the stream; raises if it has failed."""
        return self._between.state(self._communicator)


class Happened:
    """An exchange in a stream, which may fail on its way."""

    def __init__(self, event: Event, enqueued: Enqueued) -> None:
        self._event, self._enqueued = event, enqueued

    def test(self) -> bool:
        """Whether it has ended; raises if it has failed."""
        code = self._event.library.functions["cuEventQuery"](self._event.handle)
        if code == NOT_READY:
            self._enqueued.test()
            return False
        if code:
            raise self._event.library.error(code, "cuEventQuery")
        return True
