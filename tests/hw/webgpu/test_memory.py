"""Memory of a WebGPU device: copies of any size, limits, and buffers of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.hw.webgpu.devices import needs_webgpu, shared
from tfn.config import config
from tfn.dtypes import FLOAT16, FLOAT32, canonical
from tfn.errors import ArgumentError, DeviceError, OutOfMemoryError
from tfn.hw.memory import HostMemory
from tfn.hw.webgpu.driver import driver
from tfn.hw.webgpu.memory import memory_of

pytestmark = needs_webgpu


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 1023])
def test_arrays_of_any_number_of_bytes_come_back(n: int) -> None:
    memory: Any = shared().memory
    before = memory.live_bytes
    x = np.arange(n, dtype=np.uint8)
    buffer = memory.copy(x)
    assert memory.live_bytes == before + n
    y = memory.read(buffer, (n,), canonical("uint8"))
    np.testing.assert_array_equal(x, y)
    assert not y.flags.writeable or not n
    del buffer
    assert memory.live_bytes == before


def test_a_part_that_begins_within_a_word() -> None:
    memory: Any = shared().memory
    buffer = memory.copy(np.arange(7, dtype=np.float16))
    assert memory.fetch(memory.of(buffer), 6, (3,), FLOAT16).tolist() == [3, 4, 5]


@pytest.mark.parametrize(("at", "n"), [(1, 1), (3, 2), (4, 3), (2, 6), (8, 4), (11, 1)])
def test_bytes_that_are_written_leave_their_neighbours(at: int, n: int) -> None:
    memory: Any = shared().memory
    x = np.arange(12, dtype=np.uint8)
    buffer = memory.copy(x)
    memory.write(memory.of(buffer), at, np.full(n, 99, np.uint8))
    x[at : at + n] = 99
    np.testing.assert_array_equal(memory.read(buffer, (12,), canonical("uint8")), x)


def test_limits_are_checked_before_anything_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    memory: Any = shared().memory
    with pytest.raises(OutOfMemoryError, match="a kernel reads no larger buffer"):
        memory.allocate(memory.limits.buffer_bytes + 1)
    monkeypatch.setattr(config, "memory_limit_bytes", memory.live_bytes + 1000)
    with pytest.raises(OutOfMemoryError):
        memory.allocate(1001)
    assert memory.allocate(1000).size_bytes == 1000


def test_memory_of_others_is_refused() -> None:
    memory: Any = shared().memory
    with pytest.raises(DeviceError):
        memory.of(HostMemory().allocate(4))
    with pytest.raises(ArgumentError):
        memory.adopt(np.zeros(3))
    with pytest.raises(DeviceError):
        _ = memory.allocate(4).address


def test_an_adapter_that_is_opened_twice_is_two_devices() -> None:
    wide, narrow = (shared(wide).memory for wide in (True, False))
    buffer = wide.copy(np.ones(4, np.float32))
    with pytest.raises(DeviceError, match="not on the device webgpu, where the program runs"):
        narrow.read(buffer, (4,), FLOAT32)
    other: Any = memory_of(driver(True))
    assert other.of(buffer) is buffer.memory
