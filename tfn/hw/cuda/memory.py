"""CUDA memory: a pool of blocks of the device, and copies by way of pinned memory of the host.

A block whose last buffer is gone goes to the free list of its size class, and remembers how many
programs were started.  All run in one stream, so it may be taken again while one before still uses
it.  Copies to the device run in a stream of their own, beside programs; into a block that programs
may still use they wait for them.

Pageable memory would be copied at 8 GB/s, pinned memory is at 50 (H100, PCIe 5).
"""

from __future__ import annotations

import ctypes
import sys
import threading
from math import prod
from typing import Any, cast

import numpy as np

from tfn.config import config
from tfn.dtypes import DType
from tfn.errors import DeviceError
from tfn.extend import Buffer, Shape, events, memory
from tfn.hw.cuda.driver import Driver, Event
from tfn.hw.cuda.exchange import Order, connect, copy_peer
from tfn.hw.cuda.launch import Launcher
from tfn.hw.cuda.library import OUT_OF_MEMORY, CudaError

SMALL_COPY_BYTES = 32 << 10
"""Up to this size a copy goes into the stream of programs: two events cost more than it takes.  It
need not be pinned: the driver copies it before its function returns, and 4 bytes arrive in 8.4 us
from pageable memory, in 9.2 from pinned memory (H100)."""
LARGE_PIECE_BYTES = 4 << 20
"""Pieces of pinned memory.  To pin 1 MiB takes 0.6 ms; a copy of 4 MiB takes 0.08."""
PIECES = 4
SLAB_BLOCK_BYTES = 16 << 10
"""Blocks up to this size are parts of slabs of at most 1 MiB: an allocation of the driver takes
6 us (H100)."""
MAX_NAMED_KERNELS = 6
"""Names in the error of a GPU that has failed: a graph does not say which of its kernels it was."""


class Pinned:
    """Pieces of pinned memory, used in turn by one stream."""

    def __init__(self, driver: Driver, stream: Any, piece_bytes: int) -> None:
        self.driver, self.stream, self.piece_bytes = driver, stream, piece_bytes
        self._pieces: list[tuple[int, Event]] = []
        self._number, self._used = -1, piece_bytes

    def take(self, size_bytes: int) -> int:
        """The address of memory that no copy uses any more; its use is to be enqueued at once."""
        assert size_bytes <= self.piece_bytes, "larger copies are cut into pieces"
        if self._used + size_bytes > self.piece_bytes:
            if self._number >= 0:
                self._pieces[self._number][1].record(self.stream)
            self._number = (self._number + 1) % PIECES
            if self._number == len(self._pieces):
                size = ctypes.c_size_t(self.piece_bytes)
                piece = ctypes.c_void_p()
                self.driver.library("cuMemHostAlloc", ctypes.byref(piece), size, 0)
                self._pieces.append((piece.value or 0, self.driver.event()))
            else:
                self._pieces[self._number][1].wait()
            self._used = 0
        address = self._pieces[self._number][0] + self._used
        self._used += -(-size_bytes // 64) * 64
        return address


class CudaBuffer:
    """Memory of a GPU, for interpreters that native code does not support.

    Attributes:
        pointer: its address on the device.
        size_bytes: of the contents.
        owner: returns the block when it dies.
        exclusive: always true: no view of the memory exists on the host.
        freed_after: the programs that may still use the block: all, since none are counted.
    """

    __slots__ = ("exclusive", "owner", "pointer", "size_bytes")
    freed_after = sys.maxsize

    def __init__(
        self, pointer: int, size_bytes: int, owner: Any = None, exclusive: bool = True
    ) -> None:
        self.pointer, self.size_bytes, self.owner = pointer, size_bytes, owner
        self.exclusive = exclusive

    @property
    def address(self) -> int:
        """Refuse: a program of another device asks.

        Raises:
            DeviceError: always.
        """
        raise memory.without_address("cuda")


class CudaMemory:
    """Memory of a GPU, and the source of the blocks of its pool.

    Attributes:
        launcher: counts programs.
        pool: free lists, native ones after `use`.
        finished: the number of programs that have certainly run.
        large_bytes, free_limit_bytes, unmap: see `tfn.hw.memory.BlockSource`.
    """

    def __init__(self, driver: Driver, launcher: Launcher | None = None) -> None:
        self.driver, self.launcher = driver, launcher or Launcher(driver)
        self.large_bytes, self.free_limit_bytes = SLAB_BLOCK_BYTES, sys.maxsize
        self.unmap = driver.library.address("cuMemFree")
        self.pool: Any = memory.Pool(source=self, wrap=cast("Any", CudaBuffer))
        self._buffers: type = CudaBuffer
        self.finished = 0
        self.lock = threading.RLock()
        self._large = Pinned(driver, driver.copy_stream, LARGE_PIECE_BYTES)
        self._back = Pinned(driver, driver.stream, LARGE_PIECE_BYTES)
        self._copied = driver.event()
        self._orders: dict[int, Order] = {}  # by the number of another GPU

    def use(self, pool: Any, buffers: type) -> None:
        """Allocate from another pool, whose buffers are of this type."""
        self.pool, self._buffers = pool, buffers

    @property
    def live_bytes(self) -> int:
        """Bytes of the blocks in use."""
        return int(self.pool.live_bytes)

    def pointer(self, buffer: object) -> int:
        """The address of a buffer of this device.

        Raises:
            DeviceError: for a buffer of another device.
        """
        if type(buffer) is not self._buffers:
            raise memory.foreign("cuda", buffer)
        return buffer.pointer  # type: ignore[attr-defined, no-any-return]

    # Blocks.

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory.

        Raises:
            OutOfMemoryError: if the device has none, or `config.memory_limit_bytes` would be
                passed.
        """
        with self.lock:  # before that of the pool, which may ask for blocks
            return cast("Buffer", self.pool.allocate(size_bytes))

    def blocks(self, block_bytes: int, live_bytes: int, guards: Any = None) -> list[int]:
        """Blocks of the driver's, for which free lists are emptied if need be.

        Raises:
            OutOfMemoryError: if the device has no memory left.
        """
        with self.lock:
            self.check_room(block_bytes)
            count = memory.MAX_SLAB_BLOCKS if block_bytes <= self.large_bytes else 1
            start = self._new(count * block_bytes)
            return [start + i * block_bytes for i in reversed(range(count))]

    def _new(self, size_bytes: int) -> int:
        pointer = ctypes.c_uint64()
        self.driver.enter()
        for attempt in range(2):
            try:
                size = ctypes.c_size_t(size_bytes)
                self.driver.library("cuMemAlloc", ctypes.byref(pointer), size)
                return pointer.value
            except CudaError as error:
                if error.code != OUT_OF_MEMORY:
                    raise self.lost(error) from None
                if attempt:
                    total_bytes, name = self.driver.total_bytes, self.driver.name
                    raise memory.device_full(size_bytes, total_bytes, name, str(error)) from None
                self.trim()
        raise AssertionError("the second attempt returns or raises")

    def trim(self) -> None:
        """Give the large blocks of free lists back to the driver, when all programs have run."""
        with self.lock:
            self.synchronize()
            self.pool.release()

    def check_room(self, size_bytes: int) -> None:
        """Check the device and `config.memory_limit_bytes` before `size_bytes` more are allocated.

        Raises:
            OutOfMemoryError: if they would pass it.
        """
        total_bytes, limit = self.driver.total_bytes, config.memory_limit_bytes
        memory.check_device(size_bytes, self.live_bytes, total_bytes, limit, self.driver.name)

    def check(self) -> None:
        """Check that no launch of an entry has failed.

        Raises:
            DeviceError: if one has, once; or at every call, if the context is lost.
        """
        code = self.launcher.take_failure()
        if code:
            error = self.driver.library.error(code, "cuGraphLaunch")
            if not error.is_lost:
                self.launcher.enable()
            raise self.lost(error)

    def lost(self, error: CudaError) -> DeviceError:
        """The error of a GPU, with the kernels that may have failed."""
        running = self.launcher.recent(self.finished)
        names = ", ".join(
            [*running[:MAX_NAMED_KERNELS], *["..."][: len(running) > MAX_NAMED_KERNELS]]
        )
        return DeviceError(
            f"the GPU {self.driver.name} has failed"
            + (f" in one of the kernels {names}" if names else ""),
            got=str(error),
            hint="its context is lost: start the process again; TFN_DEVICE=cuda-debug waits for "
            "each kernel, and names the one that fails"
            if error.is_lost
            else "what the last programs should have computed is not there",
        )

    def synchronize(self) -> None:
        """Wait until all programs and copies have run.

        Raises:
            DeviceError: if one of them has failed.
        """
        with self.lock:
            self.check()
            started = self.launcher.started
            try:
                self.driver.enter()
                self.driver.library("cuStreamSynchronize", self.driver.copy_stream)
                self.driver.library("cuStreamSynchronize", self.driver.stream)
            except CudaError as error:
                raise self.lost(error) from None
            self.finished = max(self.finished, started)

    # Copies.

    def copy(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The elements of a NumPy array in row-major order; it may change after.

        Raises:
            OutOfMemoryError: as `allocate`.
        """
        with self.lock:
            buffer: Any = self.allocate(x.nbytes)
            self.write(buffer.pointer, np.ascontiguousarray(x), buffer.freed_after)
            events.use("write", events.HOST, buffer)
            return cast("Buffer", buffer)

    def brought(self, source: CudaMemory, buffer: Buffer) -> Buffer:
        """A copy of a buffer of another GPU, from memory to memory; itself if it is of this one.

        Raises:
            OutOfMemoryError: as `allocate`.
        """
        if source is self:
            self.pointer(buffer)
            return buffer
        with source.lock, self.lock:
            begin, result = source.pointer(buffer), self.allocate(buffer.size_bytes)
            try:
                order = self._orders.get(source.driver.number)
                if order is None:
                    connect([self.driver, source.driver])
                    order = Order([self.driver, source.driver])
                    self._orders[source.driver.number] = order
                order.meet()  # what it holds is there, and what was in its place is read
                size = ctypes.c_size_t(buffer.size_bytes)
                if buffer.size_bytes:
                    ends = self.pointer(result), begin
                    copy_peer(self.driver, source.driver, *ends, size)
                order.meet()
            except CudaError as error:
                raise self.lost(error) from None
            return result

    def adopt(self, x: np.ndarray[Any, Any]) -> Buffer:
        """Refuse: the device has memory of its own.

        Raises:
            ArgumentError: always.
        """
        raise memory.unshared("the device cuda has memory of its own")

    def write(self, pointer: int, x: np.ndarray[Any, Any], started: int | None = None) -> None:
        """Copy contiguous elements to the device.

        Args:
            started: the number of programs that may still use the memory; all, unless given.
        """
        if not x.nbytes:
            return
        with self.lock:
            source, driver = x.__array_interface__["data"][0], self.driver
            try:
                driver.enter()
                if x.nbytes <= SMALL_COPY_BYTES:
                    self._send(pointer, source, x.nbytes, driver.stream)
                    return
                if (self.launcher.started if started is None else started) > self.finished:
                    self._copied.record(driver.stream)
                    self._copied.hold(driver.copy_stream)
                for at in range(0, x.nbytes, LARGE_PIECE_BYTES):
                    size = min(LARGE_PIECE_BYTES, x.nbytes - at)
                    piece = self._large.take(size)
                    ctypes.memmove(piece, source + at, size)
                    self._send(pointer + at, piece, size, driver.copy_stream)
                self._copied.record(driver.copy_stream)
                self._copied.hold(driver.stream)
            except CudaError as error:
                raise self.lost(error) from None

    def _send(self, pointer: int, source: int, size_bytes: int, stream: Any) -> None:
        self.driver.library(
            "cuMemcpyHtoDAsync",
            *(ctypes.c_uint64(pointer), ctypes.c_void_p(source), ctypes.c_size_t(size_bytes)),
            stream,
        )

    def read(self, buffer: Buffer, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """A read-only copy on the host; waits for the programs that write it.

        Raises:
            DeviceError: for a buffer of another device, or if a program has failed.
        """
        events.use("read", events.HOST, buffer)
        data = self.fetch(self.pointer(buffer), shape, dtype)
        data.flags.writeable = False
        return data

    def fetch(self, pointer: int, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """Copy elements to the host: a piece is enqueued while the one before is copied on."""
        raw = np.empty(prod(shape) * dtype.itemsize, np.uint8)
        with self.lock:
            self.check()
            target, waiting = raw.ctypes.data, list[tuple[int, int, int, Event]]()
            started = self.launcher.started
            try:
                self.driver.enter()
                for at in range(0, raw.nbytes, LARGE_PIECE_BYTES):
                    size = min(LARGE_PIECE_BYTES, raw.nbytes - at)
                    waiting.append((self._fetch(pointer + at, size), at, size, self._event()))
                    if len(waiting) > 1:
                        _receive(target, waiting.pop(0))
                for piece in waiting:
                    _receive(target, piece)
            except CudaError as error:
                raise self.lost(error) from None
            if raw.nbytes:
                self.finished = max(self.finished, started)
        return raw.view(dtype).reshape(shape)

    def _fetch(self, pointer: int, size_bytes: int) -> int:
        """Enqueue a copy to pinned memory, whose address is returned."""
        address = self._back.take(size_bytes)
        self.driver.library(
            "cuMemcpyDtoHAsync",
            *(ctypes.c_void_p(address), ctypes.c_uint64(pointer), ctypes.c_size_t(size_bytes)),
            self.driver.stream,
        )
        return address

    def _event(self) -> Event:
        event = self.driver.event()
        event.record(self.driver.stream)
        return event


def _receive(target: int, piece: tuple[int, int, int, Event]) -> None:
    """Wait for a piece, and copy it to where it belongs."""
    address, at, size_bytes, event = piece
    event.wait()
    ctypes.memmove(target + at, address, size_bytes)
