"""OpenCL memory: how pyopencl makes and copies buffers, which have no address on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn.extend import driven, frozen
from tfn.hw.opencl.driver import Driver


def memory_of(driver: Driver) -> driven.DriverMemory:
    """The memory of a device."""
    total_bytes, name = int(driver.device.global_mem_size), driver.device.name.strip()
    errors = (driver.cl.MemoryError, driver.cl.LogicError)
    limits = driven.Limits("opencl", name, total_bytes, total_bytes, errors)
    return driven.DriverMemory(limits, OpenClCopies(driver))


@frozen
class OpenClCopies:
    """Copies by the driver."""

    driver: Driver

    def create(self, size_bytes: int) -> Any:
        """A buffer of pyopencl."""
        cl = self.driver.cl
        return cl.Buffer(self.driver.context, cl.mem_flags.READ_WRITE, max(size_bytes, 1))

    def write(self, memory: Any, at: int, raw: np.ndarray[Any, Any]) -> None:
        """Copy bytes to the device, and wait."""
        self.driver.cl.enqueue_copy(self.driver.queue, memory, raw, dst_offset=at)

    def fetch(self, memory: Any, at: int, size_bytes: int) -> np.ndarray[Any, Any]:
        """Copy bytes to the host, and wait."""
        raw = np.empty(size_bytes, np.uint8)
        self.driver.cl.enqueue_copy(self.driver.queue, raw, memory, src_offset=at)
        return raw
