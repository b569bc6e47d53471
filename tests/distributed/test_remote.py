"""The device of a cluster, as the controller sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfn.distributed.remote import RemoteBuffer, remote
from tfn.errors import ArgumentError, DeviceError
from tfn.hw.memory import HostMemory


class Owner:
    """A controller that knows one array."""

    def __init__(self) -> None:
        self.gone: list[int] = []
        self.flushed = False

    def forgotten(self, number: int) -> None:
        self.gone.append(number)

    def fetched(self, buffer: RemoteBuffer) -> Any:
        return np.arange(4, dtype="int32")

    def flush(self, wait: bool = False) -> None:
        self.flushed = wait


def test_data_wait_in_the_buffer_and_come_from_workers() -> None:
    owner = Owner()
    memory = remote(owner).memory
    data = np.arange(3, dtype="float32")
    buffer = memory.copy(data)
    data[0] = 7
    assert memory.read(buffer, (3,), np.dtype("float32")).tolist() == [0, 1, 2]
    there: Any = RemoteBuffer(owner, 16, number=5)
    found = memory.read(there, (2, 2), np.dtype("int32"))
    assert found.tolist() == [[0, 1], [2, 3]] and not found.flags.writeable
    host = HostMemory().copy(np.ones(2, "float32"))
    assert memory.read(host, (2,), np.dtype("float32")).tolist() == [1, 1]
    del there
    assert owner.gone == [5]


def test_what_workers_do_is_refused_here() -> None:
    device = remote(Owner())
    with pytest.raises(DeviceError, match="allocated by its workers"):
        device.memory.allocate(4)
    with pytest.raises(ArgumentError):
        device.memory.adopt(np.ones(2))
    with pytest.raises(DeviceError):
        _ = device.memory.copy(np.ones(2)).address
    device.queue.synchronize()
