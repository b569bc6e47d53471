"""OpenCL memory: copies to and from the device, and its limits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.covering import together
from tests.hw.opencl.devices import needs_opencl
from tfn.config import config
from tfn.dtypes import ALL
from tfn.errors import ArgumentError, DeviceError, OutOfMemoryError
from tfn.hw.driven import DriverMemory
from tfn.hw.memory import HostMemory
from tfn.hw.opencl import driver
from tfn.hw.opencl.memory import memory_of

pytestmark = needs_opencl


def memory() -> DriverMemory:
    return memory_of(driver.driver())


@together("dtype", ALL, ids=str)
@together("shape", [(), (0,), (3, 5), (2, 0, 3)], ids=str)
def test_elements_come_back(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    m = memory()
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    y = m.read(m.copy(x), shape, dtype)
    assert x.tobytes() == y.tobytes()
    assert y.dtype == dtype and not y.flags.writeable


def test_strided_arrays_are_copied_in_order() -> None:
    m = memory()
    x = np.arange(12, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(m.read(m.copy(x.T), (4, 3), x.dtype), x.T)


def test_bytes_in_use_are_counted() -> None:
    m = memory()
    buffer = m.allocate(1000)
    assert m.live_bytes == 1000
    del buffer
    assert m.live_bytes == 0


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    m = memory()
    with pytest.raises(OutOfMemoryError, match="do not fit on"):
        m.allocate(1 << 50)
    monkeypatch.setattr(config, "memory_limit_bytes", 1000)
    first = m.allocate(800)
    with pytest.raises(OutOfMemoryError, match="800 of 1,000 are in use"):
        m.allocate(300)
    assert first.size_bytes == 800


def test_memory_of_the_host_is_not_shared() -> None:
    with pytest.raises(ArgumentError, match="memory of its own"):
        memory().adopt(np.zeros(4))


def test_a_buffer_of_another_device_is_refused() -> None:
    with pytest.raises(DeviceError, match="not on the device opencl"):
        memory().of(HostMemory().allocate(4))
