"""The native memory pool: free lists by size class, whose hot paths are in `buffers.ll`.

It does as `tfn.hw.memory.Pool`, which serves interpreters that `native` does not support.
Native code pops a block from its free list and pushes it back; Python fills the lists.
"""

from __future__ import annotations

import atexit
import ctypes
from functools import lru_cache
from typing import Any

from tfn.config import config
from tfn.hw.buffer import ALIGNMENT, Buffer
from tfn.hw.cpu.interpreter import bind, keep_forever, method
from tfn.hw.cpu.loader import Code
from tfn.hw.cpu.native import State
from tfn.hw.guards import guards
from tfn.hw.memory import BlockSource, Regions, free_limit, over_limit, size_class

SYMBOLS = ("allocate", "provide", "unmap_free")


@lru_cache(maxsize=4096)
def free_list_of(size_bytes: int) -> tuple[int, int]:
    """Bytes of the block that holds `size_bytes`, and the number of its free list.

    Example:
        >>> free_list_of(100), free_list_of(1 << 20)
        ((128, 2), (1048576, 52))
    """
    block_bytes = size_class(size_bytes)
    units = block_bytes // ALIGNMENT
    doublings = max((units - 1).bit_length() - 3, 0)
    return block_bytes, doublings * 4 + (units >> doublings)


def _counter(word: str) -> Any:
    """An attribute that is a word of the native state."""

    def read(pool: Pool) -> int:
        return pool.state[word]

    def write(pool: Pool, value: int) -> None:
        pool.state[word] = value

    return property(read, write)


class Pool:
    """Blocks by size class, counted by native code.

    Attributes:
        state: the words in which native code counts.
        live_bytes, peak_bytes, free_bytes, free_limit_bytes, refills: see `tfn.hw.memory.Pool`.
    """

    live_bytes, peak_bytes = _counter("live_bytes"), _counter("peak_bytes")
    free_bytes, free_limit_bytes = _counter("free_bytes"), _counter("free_limit_bytes")

    def __init__(self, state: State, code: Code, source: BlockSource | None = None) -> None:
        self.state, self.refills, self._source = state, 0, source or Regions()
        self._guards = None if source else guards()
        if self._guards:
            hooks = self._guards.allocated, self._guards.freed
            keep_forever(*hooks)
            state["on_allocate"], state["on_free"] = map(id, hooks)
            atexit.register(self._remove_hooks)
        self._allocate, self._provide, self._unmap_free = (
            bind(method(name, code.addresses[name]), None) for name in SYMBOLS
        )
        state["free_limit_bytes"] = source.free_limit_bytes if source else free_limit()
        state["large_bytes"], state["unmap"] = self._source.large_bytes, self._source.unmap

    def copy(self, data: bytes) -> Buffer:
        """Memory that begins with these bytes.

        Raises:
            OutOfMemoryError: as `allocate`.
        """
        buffer: Buffer | None = self._allocate(len(data), *free_list_of(len(data)), data)
        if buffer is None:
            buffer = self.allocate(len(data))
            ctypes.memmove(buffer.address, data, len(data))
        return buffer

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory, aligned to 64 bytes.

        Raises:
            OutOfMemoryError: if the system refuses, or `config.memory_limit_bytes` would be passed.
        """
        block_bytes, free_list = free_list_of(size_bytes)
        while True:  # another thread may take the blocks that a refill brings
            buffer: Buffer | None = self._allocate(size_bytes, block_bytes, free_list)
            if buffer is not None:
                return buffer
            limit = config.memory_limit_bytes
            if limit and self.live_bytes + block_bytes > limit:
                raise over_limit(size_bytes, self.live_bytes, limit)
            self._refill(block_bytes, free_list)

    def _refill(self, block_bytes: int, free_list: int) -> None:
        addresses = self._source.blocks(block_bytes, self.live_bytes, self._guards)
        self.refills += 1
        for address in addresses:
            self._provide(address, block_bytes, free_list)

    def _remove_hooks(self) -> None:
        """Call no Python any more: the interpreter ends."""
        self.state["on_allocate"] = self.state["on_free"] = 0

    def release(self) -> None:
        """Return the large free blocks to the system."""
        for doublings in range(44):
            for units in (5, 6, 7, 8):
                block_bytes = units * ALIGNMENT << doublings
                if block_bytes > self._source.large_bytes:
                    self._unmap_free(*free_list_of(block_bytes))
