"""Pooled memory of the host.

Fresh pages are dear: the first touch of each costs more than the arithmetic of a streaming op.  So
memory is asked from the system once, and comes back to a shelf when the last view of a buffer
is gone.  Sizes are rounded up to classes, four in each doubling, so that shelves are found again.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tfn.config import config
from tfn.dtypes import DType
from tfn.errors import ArgumentError, OutOfMemoryError
from tfn.hw.buffer import ALIGNMENT, Buffer
from tfn.hw.guards import Guards, guards, red_bytes
from tfn.trace.op import Shape

HUGE_BYTES = 2 << 20  # a huge page, and the size from which blocks ask for them
SLAB_BYTES = 1 << 20  # blocks up to a quarter of this are cut from slabs, which are never returned
LARGE_BYTES = SLAB_BYTES // 4
SLAB_BLOCKS = 64  # the most blocks cut at once
REGION_BYTES = 4 * HUGE_BYTES  # of huge pages, from which larger blocks are cut
SMALL_BYTES = 16 << 10  # up to this size, to copy twice costs less than to make a view

_libc = ctypes.CDLL(None, use_errno=True)
_mmap, _munmap, _madvise = _libc.mmap, _libc.munmap, _libc.madvise
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_FAILED = ctypes.c_void_p(-1).value


@lru_cache(maxsize=4096)
def size_class(size_bytes: int) -> int:
    """The size that is really allocated: 64 times 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ...

    Example:
        >>> size_class(1), size_class(600), size_class(1 << 20)
        (64, 640, 1048576)
    """
    units = -(-size_bytes // ALIGNMENT) or 1
    step = 1 << max((units - 1).bit_length() - 3, 0)
    return -(-units // step) * step * ALIGNMENT


@lru_cache(maxsize=1)
def physical_bytes() -> int:
    """The memory of the machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@lru_cache(maxsize=1)
def _swap_bytes() -> int:
    """What the system can move to disk; 0 where it does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("SwapTotal:"))


def free_limit() -> int:
    """How many bytes to keep for later: a quarter of the machine's memory."""
    return physical_bytes() // 4


def over_limit(size_bytes: int, live_bytes: int, limit: int) -> OutOfMemoryError:
    """The error for a buffer that would pass `config.memory_limit_bytes`."""
    return OutOfMemoryError(
        f"{size_bytes:,} bytes do not fit: {live_bytes:,} of {limit:,} are in use",
        got=f"config.memory_limit_bytes={limit}",
        hint="delete arrays, donate arguments, or raise config.memory_limit_bytes",
    )


def unshared(why: str) -> ArgumentError:
    """The error for memory of others that an array cannot use."""
    return ArgumentError(
        "the memory of this array cannot be shared, which copy=False asks for",
        got=why,
        hint="leave copy=False out",
    )


def check_machine(size_bytes: int) -> None:
    """Whether the machine could ever hold a buffer.

    A system that promises more memory than it has would end the process when the buffer is used.

    Raises:
        OutOfMemoryError: if it could not.
    """
    if size_bytes > physical_bytes() and size_bytes > physical_bytes() + _swap_bytes():
        raise OutOfMemoryError(
            f"{size_bytes:,} bytes do not fit into this machine",
            got=f"a machine of {physical_bytes():,} bytes",
            hint="work on a part at a time, as tfn.lax.map with batch_size does, or in a "
            "narrower dtype",
        )


def pages(size_bytes: int, live_bytes: int) -> int:
    """The address of new pages from the system; huge ones, if it has any, for huge blocks.

    Raises:
        OutOfMemoryError: if it refuses, saying that `live_bytes` are in use.
    """
    check_machine(size_bytes)
    huge = size_bytes >= HUGE_BYTES
    asked = size_bytes + HUGE_BYTES if huge else size_bytes
    start = _mmap(
        None, asked, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
    )
    if start == _FAILED:
        raise OutOfMemoryError(
            f"the system has no {size_bytes:,} bytes left",
            got=os.strerror(ctypes.get_errno()),
            hint=f"delete arrays, which hold {live_bytes:,} bytes, or donate arguments",
        )
    if not huge:
        return int(start)
    # A huge page must begin at a multiple of its size: what is before and after goes back.
    page = mmap.PAGESIZE
    first = -(-start // HUGE_BYTES) * HUGE_BYTES
    last = -(-(first + size_bytes) // page) * page
    if first > start:
        _munmap(start, first - start)
    if start + asked > last:
        _munmap(last, start + asked - last)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        _madvise(first, size_bytes, mmap.MADV_HUGEPAGE)
    return int(first)


class Regions:
    """Blocks larger than those of slabs, of huge pages even where one alone would not fill any.

    A matrix of a megabyte has 256 small pages: more than the processor knows the places of, when a
    kernel goes down its columns.  What a region has left, when it is too little for a block, is
    never touched.
    """

    def __init__(self) -> None:
        self._at = self._end = 0

    def cut(self, block_bytes: int, live_bytes: int) -> int:
        """The address of new memory.

        Raises:
            OutOfMemoryError: as `pages`.
        """
        if block_bytes >= HUGE_BYTES:
            return pages(block_bytes, live_bytes)
        if self._at + block_bytes > self._end:
            self._at = pages(REGION_BYTES, live_bytes)
            self._end = self._at + REGION_BYTES
        start = self._at
        self._at += block_bytes
        return start

    def blocks(self, block_bytes: int, live_bytes: int, guards: Guards | None) -> list[int]:
        """The addresses of new blocks: large ones come one by one, small ones many at once.

        Raises:
            OutOfMemoryError: as `pages`.
        """
        red = red_bytes(block_bytes) if guards else 0
        room, large = block_bytes + 2 * red, block_bytes > LARGE_BYTES
        count = 1 if large else min(SLAB_BYTES // block_bytes, SLAB_BLOCKS)
        start = self.cut(room, live_bytes) if large else pages(count * room, live_bytes)
        found = [start + i * room + red for i in reversed(range(count))]
        if guards:
            for address in found:
                guards.mark_free(address, block_bytes)
        return found


class _Lease:
    """A block in use; when it dies, the block is back on its shelf."""

    __slots__ = ("address", "block_bytes", "pool")

    def __init__(self, address: int, block_bytes: int, pool: Pool) -> None:
        self.address, self.block_bytes, self.pool = address, block_bytes, pool

    def __del__(self) -> None:
        self.pool.take_back(self.address, self.block_bytes)


class Pool:
    """Blocks by size class.

    Attributes:
        live_bytes: of the buffers in use, as rounded up.
        peak_bytes: the most there ever were; may be set back.
        free_bytes: on the shelves.
        free_limit_bytes: above this, big blocks go back to the system.
        refills: how many times there was no block of a size, and new memory was taken.
    """

    def __init__(self, free_limit_bytes: int | None = None) -> None:
        self.live_bytes = self.peak_bytes = self.free_bytes = self.refills = 0
        self.free_limit_bytes = free_limit() if free_limit_bytes is None else free_limit_bytes
        self._shelves: dict[int, list[int]] = {}
        self._large, self._return = LARGE_BYTES, _munmap  # still here when the process ends
        self._regions, self._guards = Regions(), guards()
        # Reentrant, because a garbage collection inside it may bring blocks back.
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()  # another thread, now gone, may have held it

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory, aligned to 64 bytes.

        Raises:
            OutOfMemoryError: if the system refuses, or `config.memory_limit_bytes` would be passed.
        """
        block_bytes = size_class(size_bytes)
        limit = config.memory_limit_bytes
        with self._lock:
            if limit and self.live_bytes + block_bytes > limit:
                raise over_limit(size_bytes, self.live_bytes, limit)
            shelf = self._shelves.get(block_bytes)
            if shelf:
                address = shelf.pop()
                self.free_bytes -= block_bytes
            else:
                address = self._refill(block_bytes)
            self.live_bytes += block_bytes
            if self.live_bytes > self.peak_bytes:
                self.peak_bytes = self.live_bytes
        buffer = Buffer(address, size_bytes, _Lease(address, block_bytes, self), True)
        if self._guards:
            self._guards.allocated(address, block_bytes, size_bytes)
        return buffer

    def copy(self, data: bytes) -> Buffer:
        """Memory that begins with these bytes.

        Raises:
            OutOfMemoryError: as `allocate`.
        """
        buffer = self.allocate(len(data))
        ctypes.memmove(buffer.address, data, len(data))
        return buffer

    def take_back(self, address: int, block_bytes: int) -> None:
        """A block that nothing refers to any more; for its lease only."""
        try:
            if self._guards:
                self._guards.freed(address, block_bytes)
        finally:
            with self._lock:
                self.live_bytes -= block_bytes
                too_much = self.free_bytes + block_bytes > self.free_limit_bytes
                if block_bytes > self._large and too_much:
                    self._return(address, block_bytes)
                else:
                    self._shelves.setdefault(block_bytes, []).append(address)
                    self.free_bytes += block_bytes

    def release(self) -> None:
        """Return the big blocks on the shelves to the system."""
        with self._lock:
            for block_bytes, shelf in self._shelves.items():
                while block_bytes > LARGE_BYTES and shelf:
                    _munmap(shelf.pop(), block_bytes)
                    self.free_bytes -= block_bytes

    def _refill(self, block_bytes: int) -> int:
        """A block of new memory; small ones bring a shelf of their like."""
        self.refills += 1
        *others, first = self._regions.blocks(block_bytes, self.live_bytes, self._guards)
        self._shelves.setdefault(block_bytes, []).extend(others)
        self.free_bytes += len(others) * block_bytes
        return first


class Blocks(Protocol):
    """A pool, in Python or native."""

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory.  Raises OutOfMemoryError."""

    def copy(self, data: bytes) -> Buffer:
        """Memory that begins with these bytes.  Raises OutOfMemoryError."""


class HostMemory:
    """Memory of this process.

    Attributes:
        pool: where blocks come from.
        wrap: makes a buffer of (address, size in bytes, owner).
        allocate: gives uninitialised memory, or raises OutOfMemoryError.
    """

    def __init__(
        self, pool: Blocks | None = None, wrap: Callable[[int, int, Any], Buffer] = Buffer
    ) -> None:
        self.pool: Any = Pool() if pool is None else pool
        self.allocate: Callable[[int], Buffer] = self.pool.allocate
        self.wrap = wrap

    def check_room(self, size_bytes: int) -> None:
        """Whether so much more would pass `config.memory_limit_bytes`, or what the machine has.

        Raises:
            OutOfMemoryError: if it would.
        """
        check_machine(size_bytes)
        limit = config.memory_limit_bytes
        if limit and self.pool.live_bytes + size_bytes > limit:
            raise over_limit(size_bytes, self.pool.live_bytes, limit)

    def copy(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The elements of a NumPy array, one row after the other.

        Raises:
            OutOfMemoryError: as `allocate`.
        """
        if x.nbytes <= SMALL_BYTES:
            copied: Buffer = self.pool.copy(x.tobytes())
            return copied
        buffer = self.allocate(x.nbytes)
        buffer.view(x.shape, x.dtype)[...] = x
        return buffer

    def adopt(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The memory of a NumPy array itself.

        Raises:
            ArgumentError: if it is not contiguous, or not aligned.
        """
        address = x.__array_interface__["data"][0]
        if x.nbytes and not x.flags.c_contiguous:
            raise unshared(f"its strides are {x.strides}, and only rows without gaps can be shared")
        if x.nbytes and address % ALIGNMENT:
            raise unshared(
                f"it begins {address % ALIGNMENT} bytes after a multiple of {ALIGNMENT} bytes"
            )
        return self.wrap(address, x.nbytes, x)

    def read(self, buffer: Buffer, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """A view that cannot be made writable, and keeps the memory alive."""
        return buffer.read(shape, dtype)
