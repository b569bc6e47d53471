"""NCCL: exchanges between GPUs by NVIDIA's library, where it is installed.

Each message is one group of sends and receives, of bytes: NCCL chooses the links, and orders them
in the streams of the programs by itself.

Source: NCCL API reference, version 2: ncclCommInitAll, ncclGroupStart, ncclSend, ncclRecv.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from tfn.errors import DeviceError
from tfn.extend import Message
from tfn.hw.cuda.driver import Driver
from tfn.hw.cuda.exchange import Carrier, Move, PeerCopies, Place, enqueue, moves
from tfn.hw.cuda.library import package_library

NAMES = ("libnccl.so.2", "libnccl.so")
FUNCTIONS = (
    "ncclCommInitAll",
    "ncclCommDestroy",
    "ncclGroupStart",
    "ncclGroupEnd",
    "ncclSend",
    "ncclRecv",
    "ncclGetErrorString",
    "ncclGetUniqueId",
    "ncclCommInitRankConfig",
    "ncclCommGetAsyncError",
    "ncclCommAbort",
    "ncclAllGather",
    "ncclAllReduce",
)
_BYTES = 0  # ncclDataType_t: ncclInt8

Functions = Mapping[str, Callable[..., Any]]


@cache
def library() -> Functions | None:
    """The functions of the library of this machine; None where there is none."""
    opened = package_library(NAMES)
    if opened is None or not all(hasattr(opened, function) for function in FUNCTIONS):
        return None
    opened.ncclGetErrorString.restype = ctypes.c_char_p
    return {function: getattr(opened, function) for function in FUNCTIONS}


def carrier(drivers: Sequence[Driver], nccl: Functions | None = None) -> Carrier:
    """The carrier between these GPUs: NCCL if it is there, else copies of the driver."""
    nccl = nccl or library()
    return PeerCopies(drivers) if nccl is None else Nccl(drivers, nccl)


class Nccl:
    """Exchanges by NCCL."""

    def __init__(self, drivers: Sequence[Driver], nccl: Functions) -> None:
        self._nccl = nccl
        numbers = [driver.number for driver in drivers]
        self._communicators = (ctypes.c_void_p * len(numbers))()
        listed = (ctypes.c_int * len(numbers))(*numbers)
        self._call("ncclCommInitAll", self._communicators, len(numbers), listed)

    def __del__(self) -> None:
        for communicator in getattr(self, "_communicators", ()):
            self._nccl["ncclCommDestroy"](ctypes.c_void_p(communicator))

    def _call(self, name: str, *arguments: Any) -> None:
        code = self._nccl[name](*arguments)
        if code:
            said = self._nccl["ncclGetErrorString"](code) or b"an unknown error"
            raise DeviceError(
                "NCCL could not exchange values between the GPUs of a mesh",
                got=f"{said.decode(errors='replace')} ({code}), from {name}",
                hint="NCCL_DEBUG=INFO says more",
            )

    def exchange(
        self,
        message: Message,
        places: Sequence[Place],
        results: int,
        sizes: Sequence[int],
    ) -> None:
        """See `Carrier.exchange`."""
        listed = list(moves(message, places, results, sizes))
        self._call("ncclGroupStart")
        for move in listed:
            if isinstance(move, Move) and move.source != move.target:
                size = ctypes.c_size_t(move.size_bytes)
                for name, own, other, address in (
                    ("ncclSend", move.source, move.target, move.begin),
                    ("ncclRecv", move.target, move.source, move.end),
                ):
                    communicator = ctypes.c_void_p(self._communicators[own])
                    stream = places[own].driver.stream
                    place = ctypes.c_void_p(address)
                    self._call(name, place, size, _BYTES, other, communicator, stream)
        self._call("ncclGroupEnd")
        for move in listed:
            if not isinstance(move, Move) or move.source == move.target:
                enqueue(places, move)
