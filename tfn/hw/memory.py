"""Pooling allocator of host memory: free lists by size class.

The first touch of a page costs more than the arithmetic of a streaming operation on it.  So memory
is requested from the system once: when the last view of a buffer is gone, its block goes to the
free list of its size class, from which the next allocation takes it.  Sizes are rounded up to four
classes per doubling, which wastes at most a quarter and lets blocks be reused across sizes::

    slab of 1 MiB          -> blocks of up to 256 KiB, many at once; never returned
    region of huge pages   -> blocks of up to 2 MiB, one by one
    mapping of its own     -> larger blocks
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

from tfn._support import events
from tfn.config import config
from tfn.dtypes import DType
from tfn.errors import ArgumentError, DeviceError, OutOfMemoryError
from tfn.hw.buffer import ALIGNMENT, LARGE_BYTES, SHARED_ALIGNMENT, Buffer
from tfn.hw.guards import Guards, guards, red_bytes
from tfn.trace.op import Shape

HUGE_BYTES = 2 << 20
"""The size of a huge page; blocks of at least this size have huge pages of their own."""
SLAB_BYTES = 4 * LARGE_BYTES
"""The size of a slab, which is cut into small blocks: one system call for all of them."""
MAX_SLAB_BLOCKS = 64
"""Cut at once: a slab of 64-byte blocks would be 16,384 objects for one allocation."""
REGION_BYTES = 4 * HUGE_BYTES
"""The size of a region of huge pages, from which large blocks below a huge page are cut."""
COPY_TWICE_MAX_BYTES = 16 << 10
"""Up to this size, copying by way of `bytes` costs less than making a NumPy view of the buffer."""

_libc = ctypes.CDLL(None, use_errno=True)
_mmap, _munmap, _madvise = _libc.mmap, _libc.munmap, _libc.madvise
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_UNMAP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value


@lru_cache(maxsize=4096)
def size_class(size_bytes: int) -> int:
    """Bytes of the block for a size: 64 times 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ...

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
    """Swap space; 0 where the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("SwapTotal:"))


def free_limit() -> int:
    """Bytes that free lists may keep: a quarter of the machine's memory."""
    return physical_bytes() // 4


def over_limit(size_bytes: int, live_bytes: int, limit: int) -> OutOfMemoryError:
    """The error for a buffer that would pass `config.memory_limit_bytes`."""
    return OutOfMemoryError(
        f"{size_bytes:,} bytes do not fit: {live_bytes:,} of {limit:,} are in use",
        got=f"config.memory_limit_bytes={limit}",
        hint="delete arrays, donate arguments, or raise config.memory_limit_bytes",
    )


def check_device(
    size_bytes: int, live_bytes: int, total_bytes: int, limit: int, device: str
) -> None:
    """Check the memory of a device before `size_bytes` more are allocated.

    Raises:
        OutOfMemoryError: if they would pass `limit`, unless that is 0, or all that it has.
    """
    if limit and live_bytes + size_bytes > limit:
        raise over_limit(size_bytes, live_bytes, limit)
    if live_bytes + size_bytes > total_bytes:
        raise device_full(size_bytes, total_bytes, device, f"{live_bytes:,} bytes are in use")


def device_full(size_bytes: int, total_bytes: int, device: str, reason: str) -> OutOfMemoryError:
    """The error for a buffer that a device has no memory for."""
    return OutOfMemoryError(
        f"{size_bytes:,} bytes do not fit on {device}",
        got=f"{reason}; it has {total_bytes:,} bytes",
        hint="delete arrays, or compute within tfn.jit, which keeps no intermediate array",
    )


def without_address(device: str) -> DeviceError:
    """The error for a program of another device that asks a buffer of this one for its address."""
    return DeviceError(
        f"an array is on the device {device}, and the program runs on another",
        hint="make arrays after the device is chosen, or copy them by numpy.asarray before",
    )


def foreign(device: str, buffer: object) -> DeviceError:
    """The error for a program of this device that gets a buffer of another one."""
    return DeviceError(
        f"an array is not on the device {device}, where the program runs",
        got=f"a buffer of {type(buffer).__module__}",
        hint="make arrays after the device is chosen, or copy them by numpy.asarray",
    )


def unshared(why: str) -> ArgumentError:
    """The error for foreign memory that an array cannot share."""
    return ArgumentError(
        "the memory of this array cannot be shared, which copy=False asks for",
        got=why,
        hint="leave copy=False out",
    )


def check_machine(size_bytes: int) -> None:
    """Refuse a buffer that is larger than memory and swap space together.

    A system that overcommits memory would kill the process when the buffer is used.

    Raises:
        OutOfMemoryError: if it is.
    """
    if size_bytes > physical_bytes() and size_bytes > physical_bytes() + _swap_bytes():
        raise OutOfMemoryError(
            f"{size_bytes:,} bytes do not fit into this machine",
            got=f"a machine of {physical_bytes():,} bytes",
            hint="work on a part at a time, as tfn.lax.map with batch_size does, or in a "
            "narrower dtype",
        )


def pages(size_bytes: int, live_bytes: int) -> int:
    """The address of new pages from the system; huge pages, if it has any, from `HUGE_BYTES` on.

    Raises:
        OutOfMemoryError: if the system refuses; the error says that `live_bytes` are in use.
    """
    check_machine(size_bytes)
    huge = size_bytes >= HUGE_BYTES
    mapped_bytes = size_bytes + HUGE_BYTES if huge else size_bytes
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    start = _mmap(None, mapped_bytes, protection, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if start == _FAILED:
        raise OutOfMemoryError(
            f"the system has no {size_bytes:,} bytes left",
            got=os.strerror(ctypes.get_errno()),
            hint=f"delete arrays, which hold {live_bytes:,} bytes, or donate arguments",
        )
    if not huge:
        return int(start)
    # A huge page must begin at a multiple of its size: unmap the excess before and after.
    page = mmap.PAGESIZE
    first = -(-start // HUGE_BYTES) * HUGE_BYTES
    last = -(-(first + size_bytes) // page) * page
    if first > start:
        _munmap(start, first - start)
    if start + mapped_bytes > last:
        _munmap(last, start + mapped_bytes - last)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        _madvise(first, size_bytes, mmap.MADV_HUGEPAGE)
    return int(first)


class BlockSource(Protocol):
    """The source of a pool's blocks.

    Attributes:
        large_bytes: blocks above this may go back, one by one; smaller ones are parts of slabs.
        free_limit_bytes: while free lists hold more, large blocks go back.
        unmap: the address of the function that takes one back, of (address, size in bytes).
    """

    large_bytes: int
    free_limit_bytes: int
    unmap: int

    def blocks(self, block_bytes: int, live_bytes: int, guards: Guards | None) -> list[int]:
        """The addresses of new blocks.  Raises OutOfMemoryError."""


class Regions:
    """Cuts large blocks from huge pages, even blocks that are smaller than one huge page.

    A matrix of a megabyte has 256 small pages, more than the processor's first TLB holds when a
    kernel runs down its columns.  The rest of a region that is too small for a block stays unused,
    and untouched.
    """

    def __init__(self) -> None:
        self._at = self._end = 0
        self.large_bytes, self.free_limit_bytes = LARGE_BYTES, free_limit()
        self.unmap = ctypes.cast(_munmap, ctypes.c_void_p).value or 0

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
        """The addresses of new blocks: one if they are large, else as many as a slab holds.

        Raises:
            OutOfMemoryError: as `pages`.
        """
        red = red_bytes(block_bytes) if guards else 0
        room, large = block_bytes + 2 * red, block_bytes > LARGE_BYTES
        count = 1 if large else min(SLAB_BYTES // block_bytes, MAX_SLAB_BLOCKS)
        start = self.cut(room, live_bytes) if large else pages(count * room, live_bytes)
        addresses = [start + i * room + red for i in reversed(range(count))]
        if guards:
            for address in addresses:
                guards.mark_free(address, block_bytes)
        return addresses


class _Block:
    """The owner of a block in use; when it dies, the block goes back to its free list."""

    __slots__ = ("address", "block_bytes", "pool")

    def __init__(self, address: int, block_bytes: int, pool: Pool) -> None:
        self.address, self.block_bytes, self.pool = address, block_bytes, pool

    def __del__(self) -> None:
        self.pool.free(self.address, self.block_bytes)


class Pool:
    """Blocks by size class.

    Attributes:
        live_bytes: of the blocks in use.
        peak_bytes: the maximum of `live_bytes`; may be set back.
        free_bytes: of the blocks in free lists.
        free_limit_bytes: while free lists hold more, large blocks go back to the system.
        refills: the number of times that a free list was empty and new memory was requested.
    """

    def __init__(
        self,
        free_limit_bytes: int | None = None,
        source: BlockSource | None = None,
        wrap: Callable[[int, int, Any, bool], Buffer] = Buffer,
    ) -> None:
        self.live_bytes = self.peak_bytes = self.free_bytes = self.refills = 0
        self._free_lists: dict[int, list[int]] = {}
        self._source, self._wrap = source or Regions(), wrap
        limit = self._source.free_limit_bytes if free_limit_bytes is None else free_limit_bytes
        self.free_limit_bytes = limit
        # Globals are None when the process ends and the last buffers die.
        self._large_bytes, self._unmap = self._source.large_bytes, _UNMAP(self._source.unmap)
        self._guards = None if source else guards()
        # Reentrant, because a garbage collection inside it may free blocks.
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
            free_list = self._free_lists.get(block_bytes)
            if free_list:
                address = free_list.pop()
                self.free_bytes -= block_bytes
            else:
                address = self._refill(block_bytes)
            self.live_bytes += block_bytes
            if self.live_bytes > self.peak_bytes:
                self.peak_bytes = self.live_bytes
        buffer = self._wrap(address, size_bytes, _Block(address, block_bytes, self), True)
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

    def free(self, address: int, block_bytes: int) -> None:
        """Put a block back; only its `_Block` calls this."""
        try:
            if self._guards:
                self._guards.freed(address, block_bytes)
        finally:
            with self._lock:
                self.live_bytes -= block_bytes
                full = self.free_bytes + block_bytes > self.free_limit_bytes
                if block_bytes > self._large_bytes and full:
                    self._unmap(address, block_bytes)
                else:
                    self._free_lists.setdefault(block_bytes, []).append(address)
                    self.free_bytes += block_bytes

    def release(self) -> None:
        """Return the large free blocks to the system."""
        with self._lock:
            for block_bytes, free_list in self._free_lists.items():
                while block_bytes > self._large_bytes and free_list:
                    self._unmap(free_list.pop(), block_bytes)
                    self.free_bytes -= block_bytes

    def _refill(self, block_bytes: int) -> int:
        """A block of new memory; the others of a slab go to the free list."""
        self.refills += 1
        *others, first = self._source.blocks(block_bytes, self.live_bytes, self._guards)
        self._free_lists.setdefault(block_bytes, []).extend(others)
        self.free_bytes += len(others) * block_bytes
        return first


class Blocks(Protocol):
    """The part of a pool that `HostMemory` needs; pools are `Pool` and `tfn.hw.cpu.pool.Pool`."""

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory.  Raises OutOfMemoryError."""

    def copy(self, data: bytes) -> Buffer:
        """Memory that begins with these bytes.  Raises OutOfMemoryError."""


class HostMemory:
    """Memory of this process.

    Attributes:
        pool: allocates blocks.
        wrap: makes a buffer of (address, size in bytes, owner).
        allocate: returns uninitialised memory, or raises OutOfMemoryError.
    """

    def __init__(
        self, pool: Blocks | None = None, wrap: Callable[[int, int, Any], Buffer] = Buffer
    ) -> None:
        self.pool: Any = Pool() if pool is None else pool
        self.allocate: Callable[[int], Buffer] = self.pool.allocate
        self.wrap = wrap

    def check_room(self, size_bytes: int) -> None:
        """Check the machine and `config.memory_limit_bytes` before `size_bytes` more are allocated.

        Raises:
            OutOfMemoryError: if they would pass it.
        """
        check_machine(size_bytes)
        limit = config.memory_limit_bytes
        if limit and self.pool.live_bytes + size_bytes > limit:
            raise over_limit(size_bytes, self.pool.live_bytes, limit)

    def copy(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The elements of a NumPy array in row-major order.

        Raises:
            OutOfMemoryError: as `allocate`.
        """
        if x.nbytes <= COPY_TWICE_MAX_BYTES:
            buffer: Buffer = self.pool.copy(x.tobytes())
        else:
            buffer = self.allocate(x.nbytes)
            buffer.view(x.shape, x.dtype)[...] = x
        events.use("write", events.HOST, buffer)
        return buffer

    def adopt(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The memory of a NumPy array itself.

        Raises:
            ArgumentError: if it is not contiguous, or not aligned.
        """
        address = x.__array_interface__["data"][0]
        if x.nbytes and not x.flags.c_contiguous:
            raise unshared(f"its strides are {x.strides}, and only rows without gaps can be shared")
        beyond = address % SHARED_ALIGNMENT
        if x.nbytes and beyond:
            raise unshared(f"it begins {beyond} bytes after a multiple of {SHARED_ALIGNMENT} bytes")
        buffer = self.wrap(address, x.nbytes, x)
        events.use("write", events.HOST, buffer)
        return buffer

    def read(self, buffer: Buffer, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """A view that cannot be made writable, and keeps the memory alive.

        Raises:
            DeviceError: for a buffer of another device.
        """
        _ = buffer.address  # which memory of another device does not tell
        events.use("read", events.HOST, buffer)
        return buffer.read(shape, dtype)
