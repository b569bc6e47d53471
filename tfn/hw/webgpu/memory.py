"""WebGPU memory: how wgpu makes and copies buffers, which have no address on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn.extend import driven, frozen
from tfn.hw.webgpu.driver import Driver, reached

WORD_BYTES = 4
"""Copies of WebGPU begin and end at words."""

UNKNOWN_BYTES = 1 << 62
"""WebGPU does not tell how much memory there is."""


def memory_of(driver: Driver) -> driven.DriverMemory:
    """The memory of a device."""
    sizes = (
        driver.limits[f"max-{kind}"] for kind in ("buffer-size", "storage-buffer-binding-size")
    )
    errors = (driver.wgpu.GPUError,)
    limits = driven.Limits("webgpu", driver.name, UNKNOWN_BYTES, min(sizes), errors)
    return driven.DriverMemory(limits, WebGpuCopies(driver))


@frozen
class WebGpuCopies:
    """Copies by the driver."""

    driver: Driver

    def create(self, size_bytes: int) -> Any:
        """A buffer of wgpu."""
        usage = self.driver.wgpu.BufferUsage
        with reached(self.driver):
            return self.driver.device.create_buffer(
                size=max(_words(size_bytes), WORD_BYTES),
                usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST,
            )

    def write(self, memory: Any, at: int, raw: np.ndarray[Any, Any]) -> None:
        """Copy bytes to the device, after the commands that were enqueued so far.

        Bytes that share a word with others, as elements of an output that loops fill do, are
        written together with these.
        """
        begin = at - at % WORD_BYTES
        size_bytes = _words(at + raw.nbytes - begin)
        if size_bytes == raw.nbytes or size_bytes == memory.size:
            words = np.zeros(size_bytes, np.uint8)
        else:
            words = self.fetch(memory, begin, size_bytes)
        words[at - begin : at - begin + raw.nbytes] = raw
        with reached(self.driver):
            self.driver.device.queue.write_buffer(memory, begin, words)

    def fetch(self, memory: Any, at: int, size_bytes: int) -> np.ndarray[Any, Any]:
        """Copy bytes to the host, and wait."""
        begin = at - at % WORD_BYTES
        words = _words(at + size_bytes - begin)
        with reached(self.driver):
            read = self.driver.device.queue.read_buffer(memory, begin, words)
        raw = np.frombuffer(bytearray(read), np.uint8)
        return raw[at - begin : at - begin + size_bytes]


def _words(size_bytes: int) -> int:
    return -(-size_bytes // WORD_BYTES) * WORD_BYTES
