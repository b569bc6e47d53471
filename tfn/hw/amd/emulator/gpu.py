"""The emulated GPU: memory of the host that kernels of the machine may access."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfn.hw.amd.code_object import Image
from tfn.hw.amd.emulator.machine import Machine, aligned


class Block:
    """Memory of the emulated GPU.

    Attributes:
        data: its bytes.
    """

    __slots__ = ("__weakref__", "data")

    def __init__(self, size_bytes: int) -> None:
        self.data = aligned(size_bytes)
        self.data.fill(0xFF)  # floats are NaN until they are written


class EmulatedGpu:
    """A GPU of which every launch runs on the host, before the next call."""

    def __init__(self, level: int = 1) -> None:
        self.machine = Machine(level)

    def create(self, size_bytes: int) -> Block:
        """Memory, which kernels may access until it is freed."""
        block = Block(max(size_bytes, 1))
        address, allocations = self.address(block), self.machine.allocations
        allocations[address] = size_bytes
        weakref.finalize(block, allocations.pop, address)
        return block

    def write(self, memory: Block, at: int, raw: np.ndarray[Any, Any]) -> None:
        """Copy bytes to memory."""
        memory.data[at : at + raw.nbytes] = raw

    def fetch(self, memory: Block, at: int, size_bytes: int) -> np.ndarray[Any, Any]:
        """Copy bytes from memory."""
        return memory.data[at : at + size_bytes].copy()

    def address(self, memory: Block) -> int:
        """The address of memory, which is that of the host."""
        return int(memory.data.ctypes.data)

    def launch(
        self, image: Image, name: str, groups: int, threads: int, arguments: Sequence[int]
    ) -> None:
        """Run a kernel, and wait.

        Raises:
            CompileError: for code that is not understood, or that misses a wait.
            DeviceError: for a fault.
        """
        self.machine.launch(image, name, groups, threads, arguments)

    def synchronize(self) -> None:
        """Nothing: every launch has finished when it returns."""
