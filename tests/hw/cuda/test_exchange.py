"""Exchanges between GPUs: what goes where, in which order, and the links between memories."""

from __future__ import annotations

import ctypes

import pytest

from tests.hw.cuda.simulator import SimulatedCuda
from tfn.hw.cuda.driver import Driver, opened
from tfn.hw.cuda.exchange import Move, Order, PeerCopies, Place, Zero, connect, moves
from tfn.hw.cuda.library import CudaError, checked
from tfn.trace.processes import HostGrid, Message
from tfn.trace.sharding import Exchange

SQUARE = HostGrid((2, 2), (0, 1, 2, 3), local=True)


def drivers(simulated: SimulatedCuda) -> list[Driver]:
    library = checked(simulated.library())
    return [opened(library, i) for i in range(simulated.count)]


def places(count: int) -> list[Place]:
    """GPUs whose results are at 1000 i and operands at 1000 i + 500."""
    (driver,) = drivers(SimulatedCuda())
    return [Place(driver, (1000 * i, 1000 * i + 500)) for i in range(count)]


def test_a_gather_along_an_axis_stays_in_its_line() -> None:
    message = Message(Exchange.GATHER, "model", 1, SQUARE)
    found = [m for m in moves(message, places(4), 1, (16, 8)) if m.target == 3]
    assert found == [Move(2, 3, 2500, 3000, 8), Move(3, 3, 3500, 3008, 8)]
    message = Message(Exchange.GATHER, "data", 0, SQUARE)
    found = [m for m in moves(message, places(4), 1, (16, 8)) if m.target == 3]
    assert found == [Move(1, 3, 1500, 3000, 8), Move(3, 3, 3500, 3008, 8)]


def test_a_transpose_sends_rows() -> None:
    message = Message(Exchange.TRANSPOSE, "data", 0, HostGrid((2,), (0, 1), local=True))
    assert list(moves(message, places(2), 1, (8, 8))) == [
        Move(0, 0, 500, 0, 4), Move(1, 0, 1500, 4, 4),
        Move(0, 1, 504, 1000, 4), Move(1, 1, 1504, 1004, 4),
    ]  # fmt: skip


def test_a_permutation_leaves_zeros_where_nothing_arrives() -> None:
    hosts = HostGrid((3,), (0, 1, 2), local=True)
    message = Message(Exchange.PERMUTE, "data", 0, hosts, ((0, 2), (2, 1)))
    assert list(moves(message, places(3), 1, (8, 8))) == [
        Zero(0, 0, 8), Move(2, 1, 2500, 1000, 8), Move(0, 2, 500, 2000, 8),
    ]  # fmt: skip


def test_values_are_there_before_they_are_copied_and_stay_until_then() -> None:
    simulated = SimulatedCuda(count=2)
    gpus = drivers(simulated)
    listed = []
    for gpu in gpus:
        gpu.enter()
        blocks = [ctypes.c_uint64() for _ in range(2)]
        for block in blocks:
            gpu.library("cuMemAlloc", ctypes.byref(block), ctypes.c_size_t(16))
        listed.append(Place(gpu, [block.value for block in blocks]))

    def fill(place: Place, byte: int) -> None:
        """Stands for a program that has not run yet."""
        place.driver.enter()
        address, value = ctypes.c_uint64(place.addresses[1]), ctypes.c_ubyte(byte)
        size, stream = ctypes.c_size_t(8), place.driver.stream
        place.driver.library("cuMemsetD8Async", address, value, size, stream)

    for i, place in enumerate(listed):
        fill(place, i + 1)
    carrier = PeerCopies(gpus)
    message = Message(Exchange.GATHER, "data", 0, HostGrid((2,), (0, 1), local=True))
    carrier.exchange(message, listed, 1, (16, 8))
    for place in listed:
        fill(place, 9)  # what comes next may write there
    for place in reversed(listed):
        place.driver.library("cuStreamSynchronize", place.driver.stream)
        with simulated.blocks.reached():
            assert ctypes.string_at(place.addresses[0], 16) == b"\1" * 8 + b"\2" * 8


def test_links_are_asked_for_and_opened_once() -> None:
    simulated = SimulatedCuda(count=3)
    gpus = drivers(simulated)
    connect(gpus)
    connect(gpus)  # another library of the process may have opened them
    assert simulated.calls["cuCtxEnablePeerAccess"] == 12
    simulated.fails["cuCtxEnablePeerAccess"] = 1
    with pytest.raises(CudaError, match="INVALID_VALUE"):
        connect(gpus)


def test_streams_meet() -> None:
    simulated = SimulatedCuda(count=3)
    order = Order(drivers(simulated))
    for _ in range(2):
        order.meet()
    assert simulated.calls["cuEventCreate"] == 3
    assert simulated.calls["cuStreamWaitEvent"] == 12
