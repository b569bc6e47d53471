"""WebGPU memory: buffers of the device, which have no address on the host."""

from __future__ import annotations

from math import prod
from typing import Any, cast

import numpy as np

from tfn.config import config
from tfn.dtypes import DType
from tfn.extend import Buffer, Shape, events
from tfn.extend import memory as errors
from tfn.hw.webgpu.driver import Driver

WORD_BYTES = 4
"""Copies of WebGPU begin and end at words."""


class DeviceBuffer:
    """Memory of a WebGPU device.

    Attributes:
        memory: the buffer as wgpu knows it.
        size_bytes: of the contents.
        exclusive: always true: no view of the memory exists on the host.
    """

    __slots__ = ("__weakref__", "_pool", "exclusive", "memory", "size_bytes")

    def __init__(self, memory: Any, size_bytes: int, pool: WebGpuMemory) -> None:
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
        raise errors.without_address("webgpu")


def memory_of(buffer: object) -> Any:
    """The memory of a buffer of this device, as wgpu knows it.

    Raises:
        DeviceError: for a buffer of another device.
    """
    if not isinstance(buffer, DeviceBuffer):
        raise errors.foreign("webgpu", buffer)
    return buffer.memory


class WebGpuMemory:
    """Memory of a WebGPU device.

    Attributes:
        live_bytes: of the buffers in use.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver, self.live_bytes = driver, 0
        limits = driver.limits
        self.most_bytes = min(limits["max-buffer-size"], limits["max-storage-buffer-binding-size"])

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory.

        Raises:
            OutOfMemoryError: if the device has none, or `config.memory_limit_bytes` would be
                passed.
        """
        wgpu = self.driver.wgpu
        self.check_room(size_bytes)
        usage = wgpu.BufferUsage
        try:
            memory = self.driver.device.create_buffer(
                size=max(_words(size_bytes), WORD_BYTES),
                usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST,
            )
        except wgpu.GPUError as error:
            raise errors.device_full(
                size_bytes, self.most_bytes, self.driver.name, str(error)
            ) from None
        return cast("Buffer", DeviceBuffer(memory, size_bytes, self))

    def check_room(self, size_bytes: int) -> None:
        """Check the device and `config.memory_limit_bytes` before `size_bytes` more are allocated.

        Raises:
            OutOfMemoryError: if they would pass it, or one buffer cannot be that large.
        """
        if size_bytes > self.most_bytes:
            raise errors.device_full(
                size_bytes, self.most_bytes, self.driver.name, "a kernel reads no larger buffer"
            )
        # WebGPU does not tell how much memory there is.
        limit = config.memory_limit_bytes
        errors.check_device(size_bytes, self.live_bytes, limit or 1 << 62, limit, self.driver.name)

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
        raise errors.unshared("the device webgpu has memory of its own")

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
        """Copy contiguous elements to the device, after the commands that were enqueued so far.

        A slot ends at a word: the bytes that fill its last one belong to no other.
        """
        if x.nbytes:
            raw = np.zeros(_words(x.nbytes), np.uint8)
            raw[: x.nbytes] = x.reshape(-1).view(np.uint8)
            self.driver.device.queue.write_buffer(memory, at, raw)

    def fetch(self, memory: Any, at: int, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """Copy elements to the host, and wait."""
        size_bytes = prod(shape) * dtype.itemsize
        if not size_bytes:
            return np.empty(shape, dtype)
        begin = at - at % WORD_BYTES
        read = self.driver.device.queue.read_buffer(memory, begin, _words(at + size_bytes - begin))
        raw = np.frombuffer(bytearray(read), np.uint8)
        return raw[at - begin : at - begin + size_bytes].view(dtype).reshape(shape)


def _words(size_bytes: int) -> int:
    return -(-size_bytes // WORD_BYTES) * WORD_BYTES
