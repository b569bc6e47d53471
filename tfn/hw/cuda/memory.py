"""CUDA memory: a pool of blocks of the device, and copies by way of pinned memory of the host.

A block whose last buffer is gone goes to the free list of its size class.  All programs run in one
stream, so it may be taken again while a program before still uses it.  Copies to the device run in
a stream of their own, beside programs; into a block that programs may still use they wait for them.

Pageable memory would be copied at 8 GB/s, pinned memory is at 50 (H100, PCIe 5).
"""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict, deque
from math import prod
from typing import Any, cast

import numpy as np

from tfn._support import events
from tfn.config import config
from tfn.dtypes import DType
from tfn.errors import DeviceError
from tfn.hw.buffer import Buffer
from tfn.hw.cuda.driver import Driver, Event
from tfn.hw.cuda.library import OUT_OF_MEMORY, CudaError
from tfn.hw.memory import (
    check_device,
    device_full,
    foreign,
    size_class,
    unshared,
    without_address,
)
from tfn.trace.op import Shape

SMALL_COPY_BYTES = 32 << 10
"""Up to this size a copy goes into the stream of programs: two events cost more than it takes."""
SMALL_PIECE_BYTES, LARGE_PIECE_BYTES = 256 << 10, 4 << 20
"""Pieces of pinned memory.  To pin 1 MiB takes 0.6 ms; a copy of 4 MiB takes 0.08."""
PIECES = 4
MAX_NAMED_PROGRAMS = 4
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
    """Memory of a GPU.

    Attributes:
        pointer: its address on the device.
        size_bytes: of the contents.
        exclusive: always true: no view of the memory exists on the host.
    """

    __slots__ = ("__weakref__", "_memory", "exclusive", "pointer", "size_bytes")

    def __init__(self, pointer: int, size_bytes: int, memory: CudaMemory) -> None:
        self.pointer, self.size_bytes, self._memory = pointer, size_bytes, memory
        self.exclusive = True

    def __del__(self) -> None:
        self._memory.release(self.pointer, self.size_bytes)

    @property
    def address(self) -> int:
        """Refuse: a program of another device asks.

        Raises:
            DeviceError: always.
        """
        raise without_address("cuda")


def pointer_of(buffer: object) -> int:
    """The address of a buffer of this device.

    Raises:
        DeviceError: for a buffer of another device.
    """
    if not isinstance(buffer, CudaBuffer):
        raise foreign("cuda", buffer)
    return buffer.pointer


class CudaMemory:
    """Memory of a GPU.

    Attributes:
        live_bytes: of the buffers in use.
        kept_bytes: of the blocks in free lists.
        started, finished: the number of programs that were launched, and of those that have
            certainly run.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.live_bytes = self.kept_bytes = 0
        self.started = self.finished = 0
        self._recent: deque[tuple[int, tuple[str, ...]]] = deque(maxlen=MAX_NAMED_PROGRAMS)
        self.lock = threading.RLock()
        self.small = Pinned(driver, driver.stream, SMALL_PIECE_BYTES)
        self._large = Pinned(driver, driver.copy_stream, LARGE_PIECE_BYTES)
        self._back = Pinned(driver, driver.stream, LARGE_PIECE_BYTES)
        self._copied = driver.event()
        self._free: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._returned: list[tuple[int, int, int]] = []

    def note(self, kernels: tuple[str, ...]) -> None:
        """Count a program that was launched, and remember its kernels for errors."""
        self.started += 1
        self._recent.append((self.started, kernels))

    # Blocks.

    def release(self, pointer: int, size_bytes: int) -> None:
        """Take a block back; any thread may, and at any time: the collector calls it."""
        self._returned.append((pointer, size_bytes, self.started))

    def _collect(self) -> None:
        """Move the blocks that were given back to their free lists."""
        while self._returned:
            pointer, size_bytes, started = self._returned.pop()
            block_bytes = size_class(size_bytes)
            self.live_bytes -= size_bytes
            self.kept_bytes += block_bytes
            self._free[block_bytes].append((pointer, started))

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory.

        Raises:
            OutOfMemoryError: if the device has none, or `config.memory_limit_bytes` would be
                passed.
        """
        return cast("Buffer", self._allocate(size_bytes)[0])

    def _allocate(self, size_bytes: int) -> tuple[CudaBuffer, int]:
        """Memory, and the number of programs that may still use it."""
        with self.lock:
            self.check_room(size_bytes)
            block_bytes = size_class(size_bytes)
            free = self._free[block_bytes]
            if free:
                pointer, started = free.pop()
                self.kept_bytes -= block_bytes
            else:
                pointer, started = self._new(block_bytes, size_bytes), 0
            self.live_bytes += size_bytes
            return CudaBuffer(pointer, size_bytes, self), started

    def _new(self, block_bytes: int, size_bytes: int) -> int:
        """A block of the driver's, for which free lists are emptied if need be."""
        pointer = ctypes.c_uint64()
        self.driver.enter()
        for attempt in range(2):
            try:
                size = ctypes.c_size_t(block_bytes)
                self.driver.library("cuMemAlloc", ctypes.byref(pointer), size)
                return pointer.value
            except CudaError as error:
                if error.code != OUT_OF_MEMORY:
                    raise self._lost(error) from None
                if attempt:
                    total_bytes, name = self.driver.total_bytes, self.driver.name
                    raise device_full(size_bytes, total_bytes, name, str(error)) from None
                self.trim()
        raise AssertionError("the second attempt returns or raises")

    def trim(self) -> None:
        """Give the blocks of free lists back to the driver, when all programs have run."""
        with self.lock:
            self.synchronize()
            for blocks in self._free.values():
                while blocks:
                    self.driver.library("cuMemFree", ctypes.c_uint64(blocks.pop()[0]))
            self.kept_bytes = 0

    def check_room(self, size_bytes: int) -> None:
        """Check the device and `config.memory_limit_bytes` before `size_bytes` more are allocated.

        Raises:
            OutOfMemoryError: if they would pass it.
        """
        with self.lock:
            self._collect()
            total_bytes, limit = self.driver.total_bytes, config.memory_limit_bytes
            check_device(size_bytes, self.live_bytes, total_bytes, limit, self.driver.name)

    def _lost(self, error: CudaError) -> DeviceError:
        running = [k for number, kernels in self._recent if number > self.finished for k in kernels]
        names = ", ".join(
            [*running[:MAX_NAMED_KERNELS], *["..."][: len(running) > MAX_NAMED_KERNELS]]
        )
        return DeviceError(
            f"the GPU {self.driver.name} has failed"
            + (f" in one of the kernels {names}" if names else ""),
            got=str(error),
            hint="its context is lost: start the process again; TFN_DEVICE=cuda-debug waits for "
            "each kernel, and names the one that fails",
        )

    def synchronize(self) -> None:
        """Wait until all programs and copies have run.

        Raises:
            DeviceError: if one of them has failed.
        """
        with self.lock:
            started = self.started
            try:
                self.driver.enter()
                self.driver.library("cuStreamSynchronize", self.driver.copy_stream)
                self.driver.library("cuStreamSynchronize", self.driver.stream)
            except CudaError as error:
                raise self._lost(error) from None
            self.finished = max(self.finished, started)

    # Copies.

    def copy(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The elements of a NumPy array in row-major order; it may change after.

        Raises:
            OutOfMemoryError: as `allocate`.
        """
        with self.lock:
            buffer, started = self._allocate(x.nbytes)
            self.write(buffer.pointer, np.ascontiguousarray(x), started)
            events.use("write", events.HOST, buffer)
            return cast("Buffer", buffer)

    def adopt(self, x: np.ndarray[Any, Any]) -> Buffer:
        """Refuse: the device has memory of its own.

        Raises:
            ArgumentError: always.
        """
        raise unshared("the device cuda has memory of its own")

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
                    self._send(self.small, pointer, source, x.nbytes)
                    return
                if (self.started if started is None else started) > self.finished:
                    self._copied.record(driver.stream)
                    self._copied.hold(driver.copy_stream)
                for at in range(0, x.nbytes, LARGE_PIECE_BYTES):
                    size = min(LARGE_PIECE_BYTES, x.nbytes - at)
                    self._send(self._large, pointer + at, source + at, size)
                self._copied.record(driver.copy_stream)
                self._copied.hold(driver.stream)
            except CudaError as error:
                raise self._lost(error) from None

    def _send(self, pinned: Pinned, pointer: int, source: int, size_bytes: int) -> None:
        address = pinned.take(size_bytes)
        ctypes.memmove(address, source, size_bytes)
        self.driver.library(
            "cuMemcpyHtoDAsync",
            *(ctypes.c_uint64(pointer), ctypes.c_void_p(address), ctypes.c_size_t(size_bytes)),
            pinned.stream,
        )

    def read(self, buffer: Buffer, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """A read-only copy on the host; waits for the programs that write it.

        Raises:
            DeviceError: for a buffer of another device, or if a program has failed.
        """
        events.use("read", events.HOST, buffer)
        data = self.fetch(pointer_of(buffer), shape, dtype)
        data.flags.writeable = False
        return data

    def fetch(self, pointer: int, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """Copy elements to the host: a piece is enqueued while the one before is copied on."""
        raw = np.empty(prod(shape) * dtype.itemsize, np.uint8)
        with self.lock:
            target, waiting, started = raw.ctypes.data, list[tuple[int, int, int, Event]](), 0
            started = self.started
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
                raise self._lost(error) from None
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
