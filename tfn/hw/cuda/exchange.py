"""Exchanges between the GPUs of this process: what carries a message of a program.

    all_gather over data   each GPU copies the value of each, in its own stream

A carrier copies by the driver, from memory to memory where the machine has a link between them
(`PeerCopies`), or by NCCL, where it is installed (`tfn.hw.cuda.nccl`).  Both move bytes alone: sums
are compiled, in the order of the mesh, so that their bits do not depend on what carries them.

Source: CUDA Driver API, peer context memory access.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from tfn.extend import Exchange, Message, frozen
from tfn.hw.cuda.driver import Driver, Event
from tfn.hw.cuda.library import PEER_ENABLED, CudaError


@frozen
class Place:
    """A GPU with the addresses of the results and operands of a message.

    Attributes:
        addresses: of the results, then of the operands.
    """

    driver: Driver
    addresses: Sequence[int]


@frozen
class Move:
    """Bytes that go from one GPU to another, or within one.

    Attributes:
        source, target: numbers of GPUs in the mesh.
        begin, end: where the bytes are, and where they go to.
    """

    source: int
    target: int
    begin: int
    end: int
    size_bytes: int


@frozen
class Zero:
    """Bytes that become 0, since nothing arrives there."""

    target: int
    end: int
    size_bytes: int


class Carrier(Protocol):
    """Exchanges values between the GPUs of a group."""

    def exchange(
        self,
        message: Message,
        places: Sequence[Place],
        results: int,
        sizes: Sequence[int],
    ) -> None:
        """Enqueue a message.

        Args:
            places: of the GPUs in the order of the mesh.
            results: the number of results.
            sizes: bytes of results and operands.
        """


def moves(
    message: Message, places: Sequence[Place], results: int, sizes: Sequence[int]
) -> Iterator[Move | Zero]:
    """The bytes that a message moves, and where to; see `Carrier.exchange`.

    ::

        GATHER      the value of each along the axis, one after the other
        TRANSPOSE   row i of each goes to the i-th
        PERMUTE     by pairs; zeros where nothing arrives
    """
    for target, place in enumerate(places):
        line = message.hosts.line(message.axis, target)
        own = line.index(target)
        for k in range(results):
            end, operand, size = place.addresses[k], results + k, sizes[results + k]
            if message.kind is Exchange.PERMUTE:
                came = [line[s] for s, t in message.pairs if t == own]
                if not came:
                    yield Zero(target, end, size)
                for source in came:
                    yield Move(source, target, places[source].addresses[operand], end, size)
                continue
            gathers = message.kind is Exchange.GATHER
            assert gathers or message.kind is Exchange.TRANSPOSE, "sums are compiled"
            row = size if gathers else size // len(line)
            for i, source in enumerate(line):
                begin = places[source].addresses[operand] + (0 if gathers else own * row)
                yield Move(source, target, begin, end + i * row, row)


def enqueue(places: Sequence[Place], move: Move | Zero) -> None:
    """Enqueue a move of the driver in the stream of its target."""
    target = places[move.target].driver
    target.enter()
    end, size = ctypes.c_uint64(move.end), ctypes.c_size_t(move.size_bytes)
    if isinstance(move, Zero):
        target.library("cuMemsetD8Async", end, ctypes.c_ubyte(0), size, target.stream)
        return
    begin = ctypes.c_uint64(move.begin)
    if move.source == move.target:
        target.library("cuMemcpyDtoDAsync", end, begin, size, target.stream)
        return
    copy_peer(target, places[move.source].driver, move.end, move.begin, size)


def copy_peer(target: Driver, source: Driver, end: int, begin: int, size: Any) -> None:
    """Enqueue a copy from one GPU to another, in the stream of the target."""
    target.enter()
    target.library(
        "cuMemcpyPeerAsync",
        *(ctypes.c_uint64(end), target.context, ctypes.c_uint64(begin), source.context, size),
        target.stream,
    )


def connect(drivers: Sequence[Driver]) -> None:
    """Let each GPU reach the memory of each other one where the machine has a link.

    Elsewhere the driver copies by way of the host.
    """
    for own in drivers:
        own.enter()
        for other in drivers:
            if own is other:
                continue
            can = own.library.integer("cuDeviceCanAccessPeer", own.number, other.number)
            try:
                if can:
                    own.library("cuCtxEnablePeerAccess", other.context, 0)
            except CudaError as error:
                if error.code != PEER_ENABLED:
                    raise


class Order:
    """Events by which the streams of a group wait for each other."""

    def __init__(self, drivers: Sequence[Driver]) -> None:
        self._drivers = tuple(drivers)
        self._events: list[Event] = []

    def meet(self) -> None:
        """Let each stream wait for what all have enqueued so far."""
        for i, driver in enumerate(self._drivers):
            driver.enter()
            if len(self._events) == i:
                self._events.append(driver.event())
            self._events[i].record(driver.stream)
        for i, driver in enumerate(self._drivers):
            driver.enter()
            for j, event in enumerate(self._events):
                if i != j:
                    event.hold(driver.stream)


class PeerCopies:
    """Exchanges by copies of the driver, each in the stream of the GPU that receives."""

    def __init__(self, drivers: Sequence[Driver]) -> None:
        connect(drivers)
        self._order = Order(drivers)

    def exchange(
        self,
        message: Message,
        places: Sequence[Place],
        results: int,
        sizes: Sequence[int],
    ) -> None:
        """See `Carrier.exchange`.  Values are there before the first copy, and stay to the last."""
        self._order.meet()
        for move in moves(message, places, results, sizes):
            enqueue(places, move)
        self._order.meet()
