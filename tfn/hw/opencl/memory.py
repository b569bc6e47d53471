"""OpenCL memory: buffers of the device, which have no address on the host."""

from __future__ import annotations

from math import prod
from typing import Any, cast

import numpy as np

from tfn.config import config
from tfn.dtypes import DType
from tfn.extend import Buffer, Shape, events, memory
from tfn.hw.opencl.driver import Driver


class DeviceBuffer:
    """Memory of an OpenCL device.

    Attributes:
        memory: the buffer as pyopencl knows it.
        size_bytes: of the contents.
        exclusive: always true: no view of the memory exists on the host.
    """

    __slots__ = ("__weakref__", "_pool", "exclusive", "memory", "size_bytes")

    def __init__(self, memory: Any, size_bytes: int, pool: OpenClMemory) -> None:
        self.memory, self.size_bytes, self._pool = memory, size_bytes, pool
        self.exclusive = True
        pool.live_bytes += size_bytes

    def __del__(self) -> None:
        self._pool.live_bytes -= self.size_bytes

    @property
    def address(self) -> int:
        """Refuse: a program of another device asks.

        Raises:
            DeviceError: always.
        """
        raise memory.without_address("opencl")


def memory_of(buffer: object) -> Any:
    """The memory of a buffer of this device, as pyopencl knows it.

    Raises:
        DeviceError: for a buffer of another device.
    """
    if not isinstance(buffer, DeviceBuffer):
        raise memory.foreign("opencl", buffer)
    return buffer.memory


class OpenClMemory:
    """Memory of an OpenCL device.

    Attributes:
        live_bytes: of the buffers in use.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver, self.live_bytes = driver, 0

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory.

        Raises:
            OutOfMemoryError: if the device has none, or `config.memory_limit_bytes` would be
                passed.
        """
        cl = self.driver.cl
        self.check_room(size_bytes)
        try:
            flags = cl.mem_flags.READ_WRITE
            memory = cl.Buffer(self.driver.context, flags, max(size_bytes, 1))
        except (cl.MemoryError, cl.LogicError) as error:
            total_bytes, name = self.driver.device.global_mem_size, self.driver.device.name.strip()
            raise memory.device_full(size_bytes, total_bytes, name, str(error)) from None
        return cast("Buffer", DeviceBuffer(memory, size_bytes, self))

    def check_room(self, size_bytes: int) -> None:
        """Check the device and `config.memory_limit_bytes` before `size_bytes` more are allocated.

        Raises:
            OutOfMemoryError: if they would pass it.
        """
        device, limit = self.driver.device, config.memory_limit_bytes
        total_bytes, name = device.global_mem_size, device.name.strip()
        memory.check_device(size_bytes, self.live_bytes, total_bytes, limit, name)

    def copy(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The elements of a NumPy array in row-major order.

        Raises:
            OutOfMemoryError: as `allocate`.
        """
        buffer = self.allocate(x.nbytes)
        if x.nbytes:
            self.write(memory_of(buffer), 0, np.ascontiguousarray(x))
        events.use("write", events.HOST, buffer)
        return buffer

    def adopt(self, x: np.ndarray[Any, Any]) -> Buffer:
        """Refuse: the device has memory of its own.

        Raises:
            ArgumentError: always.
        """
        raise memory.unshared("the device opencl has memory of its own")

    def read(self, buffer: Buffer, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """A read-only copy on the host; waits for the programs that write it.

        Raises:
            DeviceError: for a buffer of another device.
        """
        events.use("read", events.HOST, buffer)
        data = self.fetch(memory_of(buffer), 0, shape, dtype)
        data.flags.writeable = False
        return data

    def write(self, memory: Any, at: int, x: np.ndarray[Any, Any]) -> None:
        """Copy contiguous elements to the device, and wait."""
        if x.nbytes:
            raw = x.reshape(-1).view(np.uint8)
            self.driver.cl.enqueue_copy(self.driver.queue, memory, raw, dst_offset=at)

    def fetch(self, memory: Any, at: int, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """Copy elements to the host, and wait."""
        raw = np.empty(prod(shape) * dtype.itemsize, np.uint8)
        if raw.nbytes:
            self.driver.cl.enqueue_copy(self.driver.queue, raw, memory, src_offset=at)
        return raw.view(dtype).reshape(shape)
