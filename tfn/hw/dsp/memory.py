"""Shared memory: one file that the host and the DSP map, and a best-fit allocator of ranges of it.

The host writes the elements of an array where the DSP reads them, so a call copies nothing.  The
file is sparse: what was never written takes no memory, and large ranges that are freed are given
back.
"""

from __future__ import annotations

import atexit
import bisect
import ctypes
import mmap
import os
import tempfile
import threading
from collections.abc import Callable

from tfn.config import config
from tfn.errors import DeviceError, OutOfMemoryError
from tfn.extend import Buffer, memory
from tfn.hw.dsp.commands import BASE, BUFFERS_AT, CODE_AT, TOTAL_BYTES

VECTOR_BYTES = 128
"""Blocks begin at a vector of HVX."""
GUARD_BYTES = 1 << 16
"""Memory after the last buffer, which masked loads may read."""
RETURN_BYTES = 1 << 20
"""Freed ranges from this size on are given back to the system."""
_MADV_REMOVE = 9  # the number that Linux gives it


class Ranges:
    """A best-fit allocator of a range of numbers; neighbours that are free become one.

    Example:
        >>> ranges = Ranges(0, 1024)
        >>> first, second = ranges.allocate(100), ranges.allocate(200)
        >>> first, second
        (0, 128)
        >>> ranges.free(first, 100)
        >>> ranges.allocate(300), ranges.allocate(1)
        (384, 0)
    """

    def __init__(self, begin: int, end: int) -> None:
        self._begins, self._ends = [begin], [end]

    def allocate(self, size: int) -> int | None:
        """The begin of a free range; None if there is none as long."""
        size = rounded(size)
        best = min(
            (i for i in range(len(self._begins)) if self._ends[i] - self._begins[i] >= size),
            key=lambda i: self._ends[i] - self._begins[i],
            default=None,
        )
        if best is None:
            return None
        begin = self._begins[best]
        if begin + size == self._ends[best]:
            del self._begins[best], self._ends[best]
        else:
            self._begins[best] += size
        return begin

    def free(self, begin: int, size: int) -> None:
        """Take a range back."""
        end = begin + rounded(size)
        at = bisect.bisect(self._begins, begin)
        joins_before = at > 0 and self._ends[at - 1] == begin
        joins_after = at < len(self._begins) and self._begins[at] == end
        if joins_before and joins_after:
            self._ends[at - 1] = self._ends[at]
            del self._begins[at], self._ends[at]
        elif joins_before:
            self._ends[at - 1] = end
        elif joins_after:
            self._begins[at] = begin
        else:
            self._begins.insert(at, begin)
            self._ends.insert(at, end)


def rounded(size_bytes: int) -> int:
    """Bytes of whole vectors, at least one."""
    return max(-(-size_bytes // VECTOR_BYTES), 1) * VECTOR_BYTES


class SharedMemory:
    """The file, mapped into this process.

    Attributes:
        file: its descriptor, which a transport passes on.
        size_bytes: its size.
        address: where this process has mapped it.
        base: where the DSP has mapped it, since the transport was started last.
    """

    def __init__(self, file: int | None = None, size_bytes: int = TOTAL_BYTES) -> None:
        self.size_bytes, self.base = size_bytes, BASE
        self.file = _sparse_file(size_bytes) if file is None else file
        self._map = mmap.mmap(self.file, size_bytes, mmap.MAP_SHARED)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.words = memoryview(self._map).cast("I")
        self.process = os.getpid()

    def check_process(self) -> None:
        """Check that this process is the one that has opened the device.

        Raises:
            DeviceError: after a fork.
        """
        if os.getpid() != self.process:
            raise DeviceError(
                "the DSP was opened before this process was forked, and belongs to its parent",
                got=f"process {os.getpid()}, a child of the process {self.process}",
                hint="start processes by spawn, or use the DSP in the child only",
            )

    def holds(self, address: int, size_bytes: int) -> bool:
        """Whether a range of host memory is shared."""
        return self.address <= address and address + size_bytes <= self.address + self.size_bytes

    def on_device(self, address: int) -> int:
        """The address on the DSP of a host address."""
        return address - self.address + self.base

    def on_host(self, address: int) -> int:
        """The host address of an address on the DSP.

        Raises:
            DeviceError: if it is not in shared memory.
        """
        if not self.base <= address < self.base + self.size_bytes:
            raise DeviceError(
                "the DSP names an address outside of shared memory",
                got=f"{address:#x}",
                hint="arrays are not lost, and the next call starts it again",
            )
        return address - self.base + self.address


def _sparse_file(size_bytes: int) -> int:
    """A descriptor of a new file in memory that no name leads to."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tfn-dsp", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size_bytes)
    return descriptor


class Block:
    """The owner of a range in use; the range is free again when it dies."""

    __slots__ = ("_free", "begin", "size_bytes")

    def __init__(self, begin: int, size_bytes: int, free: Callable[[int, int], None]) -> None:
        self.begin, self.size_bytes, self._free = begin, size_bytes, free

    def __del__(self) -> None:
        self._free(self.begin, self.size_bytes)


class SharedPool:
    """Blocks of shared memory for buffers; `tfn.hw.memory.Blocks`.

    Attributes:
        live_bytes: of the blocks in use.
        peak_bytes: the maximum of `live_bytes`; may be set back.
    """

    def __init__(self, shared: SharedMemory) -> None:
        self.shared, self.live_bytes, self.peak_bytes = shared, 0, 0
        # Whole vectors are loaded at masked ends of arrays: there is memory after the last.
        self._ranges = Ranges(BUFFERS_AT, shared.size_bytes - GUARD_BYTES)
        # Reentrant, because a garbage collection inside it may free blocks.
        self._lock = threading.RLock()
        self._advise = ctypes.CDLL(None).madvise
        self._advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        # Globals are None when the process ends and the last buffers die: nothing is freed then.
        self._open = [True]
        atexit.register(self._open.clear)

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory that both sides see.

        Raises:
            OutOfMemoryError: if there is none, or `config.memory_limit_bytes` would be passed.
            DeviceError: in a process that was forked after the device was opened.
        """
        self.shared.check_process()
        block_bytes, limit = rounded(size_bytes), config.memory_limit_bytes
        with self._lock:
            if limit and self.live_bytes + block_bytes > limit:
                raise memory.over_limit(size_bytes, self.live_bytes, limit)
            begin = self._ranges.allocate(block_bytes)
            if begin is None:
                whole = self.shared.size_bytes - BUFFERS_AT
                raise OutOfMemoryError(
                    f"{size_bytes:,} bytes do not fit into the memory of the DSP",
                    got=f"{self.live_bytes:,} of {whole:,} bytes in use",
                    hint="delete arrays, or donate arguments: a DSP has 32-bit addresses",
                )
            self.live_bytes += block_bytes
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        owner = Block(begin, block_bytes, self._freed)
        return Buffer(self.shared.address + begin, size_bytes, owner, True)

    def copy(self, data: bytes) -> Buffer:
        """Memory that begins with these bytes.

        Raises:
            OutOfMemoryError, DeviceError: as `allocate`.
        """
        buffer = self.allocate(len(data))
        ctypes.memmove(buffer.address, data, len(data))
        return buffer

    def _freed(self, begin: int, block_bytes: int) -> None:
        if not self._open:
            return
        with self._lock:
            self.live_bytes -= block_bytes
            if block_bytes >= RETURN_BYTES:
                page = mmap.PAGESIZE
                first = -(-begin // page) * page
                last = (begin + block_bytes) // page * page
                self._advise(self.shared.address + first, last - first, _MADV_REMOVE)
            self._ranges.free(begin, block_bytes)


class CodeSpace:
    """Places for the code of programs.

    The DSP may keep translations of code that has run, so a place is used again only after it has
    started anew.

    Attributes:
        retired_bytes: of code that is no longer used.
    """

    def __init__(self) -> None:
        self._ranges = Ranges(CODE_AT, BUFFERS_AT)
        self._retired: list[tuple[int, int]] = []
        self._lock = threading.RLock()

    def allocate(self, size_bytes: int) -> Block:
        """A place for code.

        Raises:
            OutOfMemoryError: if there is none.
        """
        with self._lock:
            begin = self._ranges.allocate(size_bytes)
        if begin is None:
            raise OutOfMemoryError(
                f"{size_bytes:,} bytes of code do not fit into the memory of the DSP",
                got=f"{BUFFERS_AT - CODE_AT:,} bytes for code",
                hint="jitted.clear_cache() drops the programs of a function",
            )
        return Block(begin, size_bytes, self._retire)

    def _retire(self, begin: int, size_bytes: int) -> None:
        self._retired.append((begin, size_bytes))

    @property
    def retired_bytes(self) -> int:
        """Bytes of code that is no longer used, and of which translations may remain."""
        return sum(size for _, size in self._retired)

    def reuse(self) -> None:
        """Free what is retired: the DSP has started anew."""
        with self._lock:
            while self._retired:
                self._ranges.free(*self._retired.pop())
