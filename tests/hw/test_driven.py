"""Devices that a driver has: memory by its copies, its errors, and runs that the host steps."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, get_args

import numpy as np
import pytest

from tests.lower.graphs import jaxpr, p
from tests.toy_grid import TARGET, language
from tfn import extend
from tfn.config import config
from tfn.dtypes import FLOAT32
from tfn.errors import ArgumentError, DeviceError, OutOfMemoryError
from tfn.hw.commands import Command, Launch, Recorded
from tfn.hw.driven import RUN, DriverExecutable, DriverMemory, DriverRun, Limits
from tfn.hw.memory import HostMemory
from tfn.lower import pipeline


class Full(Exception):
    """What the driver says where there is no room."""


class Arrays:
    """Memory of a driver that is NumPy's."""

    def create(self, size_bytes: int) -> Any:
        if size_bytes > 100:
            raise Full("nothing left")
        return np.zeros(size_bytes, np.uint8)

    def write(self, memory: Any, at: int, raw: np.ndarray[Any, Any]) -> None:
        memory[at : at + raw.size] = raw

    def fetch(self, memory: Any, at: int, size_bytes: int) -> np.ndarray[Any, Any]:
        return np.array(memory[at : at + size_bytes])


def made(platform: str = "toy") -> DriverMemory:
    return DriverMemory(Limits(platform, "a toy", 1000, 500, (Full,)), Arrays())


def test_a_driver_without_room_is_an_error_with_its_words() -> None:
    with pytest.raises(OutOfMemoryError, match=r"nothing left(?s:.*)1,000 bytes"):
        made().allocate(101)


def test_limits_are_checked_before_the_driver_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = made()
    with pytest.raises(OutOfMemoryError, match="a kernel reads no larger buffer"):
        memory.allocate(501)
    monkeypatch.setattr(config, "memory_limit_bytes", 50)
    first = memory.allocate(40)
    assert (first.size_bytes, memory.live_bytes) == (40, 40)
    with pytest.raises(OutOfMemoryError, match="40 of 50 are in use"):
        memory.allocate(11)
    del first
    assert memory.live_bytes == 0


@pytest.mark.parametrize("shape", [(), (0,), (3, 2)])
def test_elements_come_back(shape: tuple[int, ...]) -> None:
    memory, x = made(), np.full(shape, 1.5, np.float32)
    y = memory.read(memory.copy(x), shape, FLOAT32)
    np.testing.assert_array_equal(x, y)
    assert not y.flags.writeable


def test_buffers_of_others_are_refused() -> None:
    memory = made()
    for other in (HostMemory().allocate(4), made("other").allocate(4)):
        with pytest.raises(DeviceError, match="not on the device toy"):
            memory.of(other)
    with pytest.raises(ArgumentError, match="toy has memory of its own"):
        memory.adopt(np.zeros(3))
    with pytest.raises(DeviceError):
        _ = memory.allocate(4).address


def test_a_call_enqueues_launches_in_order_and_submits_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(extend.LANGUAGES, "toy", language)
    program = pipeline.lower(jaxpr([p(0, 4) * 2.0]), TARGET)
    memory, told = made(), list[str]()

    def enqueue(run: DriverRun, command: Launch) -> None:
        told.append(command.kernel)
        result, at = run.place(command.operands[0])
        run.memory.write(result, at, np.arange(4, dtype=np.float32))

    def begin() -> Any:
        return enqueue, lambda: told.append("submitted")

    out = memory.allocate(16)
    DriverExecutable(program, memory, nullcontext(), begin)([memory.allocate(16)], [out])
    assert told == [program.kernels[0].name, "submitted"]
    assert memory.read(out, (4,), FLOAT32).tolist() == [0, 1, 2, 3]


def test_every_command_is_enqueued_by_a_row() -> None:
    assert set(RUN) == set(get_args(Command)) - {Recorded}  # only CUDA has graphs
