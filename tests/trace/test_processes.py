"""Blocks of a mesh that processes hold."""

from __future__ import annotations

import numpy as np
import pytest

from tfn.errors import DeviceError
from tfn.trace import processes as module
from tfn.trace.processes import Coordinates, HostGrid, Message, Processes, blocks
from tfn.trace.sharding import Exchange


@pytest.mark.parametrize(
    ("owners", "sizes", "want"),
    [
        ((0, 0, 1, 1), (4,), HostGrid((2,), (0, 1))),
        ((1, 1, 0, 0), (2, 2), HostGrid((2, 1), (1, 0))),
        ((0, 1, 0, 1), (2, 2), HostGrid((1, 2), (0, 1))),
        ((0, 1, 2, 3), (2, 2), HostGrid((2, 2), (0, 1, 2, 3))),
        ((0, 0, 1, 1, 2, 2, 3, 3), (2, 4), HostGrid((2, 2), (0, 1, 2, 3))),
        ((5,), (1, 1), HostGrid((1, 1), (5,))),
    ],
)
def test_blocks(owners: tuple[int, ...], sizes: tuple[int, ...], want: HostGrid) -> None:
    assert blocks(owners, sizes) == want


@pytest.mark.parametrize(
    ("owners", "sizes"),
    [((0, 1, 0, 1), (4,)), ((0, 0, 0, 1), (4,)), ((0, 0, 1), (3,)), ((0, 1, 1, 0), (2, 2))],
)
def test_processes_that_hold_no_blocks_are_an_error(
    owners: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    with pytest.raises(DeviceError, match="do not hold blocks"):
        blocks(owners, sizes)


def test_places_and_lines() -> None:
    hosts = HostGrid((2, 3), (4, 5, 6, 7, 8, 9))
    assert hosts.place(8) == (1, 1)
    assert hosts.line(0, 8) == (5, 8) and hosts.line(1, 8) == (7, 8, 9)
    with pytest.raises(DeviceError, match="process 3 has no device of the mesh"):
        hosts.place(3)


def test_devices_of_processes_in_order() -> None:
    assert Processes(1, (2, 1)).rows == ((0, 0), (0, 1), (1, 0))
    assert Processes().count == 1 and Processes(0, (1, 1, 1)).count == 3


def test_messages_and_coordinates_run_in_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def bind(message: Message, results: object, operands: object) -> object:
        return lambda: seen.append((message, results, operands))

    monkeypatch.setattr(module, "processes", Processes(7, (1,) * 8, bind))  # type: ignore[arg-type]
    hosts = HostGrid((1, 2), (6, 7))
    message = Message(Exchange.GATHER, "d", 1, hosts)
    assert str(message) == message.__name__ == "all_gather over d"
    x = np.ones(3)
    message([x], [x])
    assert seen == [(message, [x], [x])]
    first, second = np.zeros((), "int32"), np.zeros((), "int32")
    Coordinates(hosts)([first, second], [])
    assert (first, second) == (0, 1)
