"""Pooling allocators, in Python and native: reuse, limits, counters, lifetimes."""

from __future__ import annotations

import gc
import mmap
import threading
from itertools import pairwise

import numpy as np
import pytest

from tests.covering import together
from tfn.config import config
from tfn.dtypes import ALL, BFLOAT16, FLOAT32, INT32
from tfn.errors import ArgumentError, OutOfMemoryError
from tfn.hw.cpu.device import cpu
from tfn.hw.guards import DEBUG, red_bytes
from tfn.hw.memory import (
    HUGE_BYTES,
    MAX_SLAB_BLOCKS,
    REGION_BYTES,
    HostMemory,
    Pool,
    size_class,
)


@pytest.fixture(params=["python", "native"])
def pool(request):
    """A new pool, in Python or native."""
    return Pool() if request.param == "python" else cpu().memory.pool


@pytest.fixture(params=["python", "native"])
def memory(request):
    return HostMemory() if request.param == "python" else cpu().memory


def test_size_classes_grow_and_waste_at_most_a_quarter():
    sizes = [size_class(n) for n in range(1, 20_000, 7)]
    assert sizes == sorted(sizes)
    for n in (1, 63, 64, 65, 1000, 4097, 1 << 20, (1 << 20) + 1, 123_456_789):
        size = size_class(n)
        assert size >= n and size % 64 == 0
        assert size < n * 1.25 + 64
        assert size_class(size) == size
    assert size_class(0) == 64


def red(size_bytes):
    """What is left free beside a block, for the device that finds what is written there."""
    return red_bytes(size_bytes) if config.device == DEBUG else 0


@pytest.mark.parametrize("size_bytes", [0, 1, 64, 1000, 300_000, 1 << 20, HUGE_BYTES + 1])
def test_blocks_are_aligned_writable_and_reused(pool, size_bytes):
    buffer = pool.allocate(size_bytes)
    address = buffer.address
    assert buffer.size_bytes == size_bytes and address % 64 == 0
    if size_bytes >= HUGE_BYTES:
        assert address % HUGE_BYTES == red(size_bytes)
    buffer.view((size_bytes,), np.dtype(np.uint8))[...] = 7
    refills = pool.refills
    del buffer
    assert pool.live_bytes == 0 and pool.free_bytes >= size_class(size_bytes)
    assert pool.allocate(size_bytes).address == address
    assert pool.refills == refills


def test_live_buffers_never_overlap(pool):
    sizes = [1, 64, 65, 640, 5000, 70_000, 300_000, 3 << 20] * (MAX_SLAB_BLOCKS // 8 + 3)
    buffers = [pool.allocate(n) for n in sizes]
    spans = sorted((b.address, b.address + b.size_bytes) for b in buffers)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert pool.live_bytes == sum(map(size_class, sizes)) == pool.peak_bytes
    del buffers
    assert pool.live_bytes == 0


def test_a_view_keeps_its_memory_alive(pool):
    view = pool.allocate(4000).view((1000,), FLOAT32)
    view[...] = 1
    assert pool.live_bytes == size_class(4000)
    other = pool.allocate(4000).view((1000,), FLOAT32)
    other[...] = 2
    part = view[10:20].reshape(2, 5)
    del view
    gc.collect()
    assert pool.live_bytes == 2 * size_class(4000)
    assert (part == 1).all()
    del part, other
    gc.collect()
    assert pool.live_bytes == 0


def test_large_free_blocks_above_the_limit_are_returned(pool):
    pool.free_limit_bytes = 5 << 20
    buffers = [pool.allocate(2 << 20) for _ in range(4)]
    del buffers
    assert pool.free_bytes == 4 << 20
    pool.release()
    assert pool.free_bytes == 0
    refills = pool.refills
    pool.allocate(2 << 20)
    assert pool.refills == refills + 1


def test_large_blocks_share_huge_pages(pool):
    """Each a whole number of pages, so that it can go back alone."""
    size_bytes = size_class(900_000)
    buffers = [pool.allocate(size_bytes) for _ in range(3 * REGION_BYTES // size_bytes)]
    for i, buffer in enumerate(buffers):
        buffer.view((size_bytes // 4,), FLOAT32)[...] = i
    for i, buffer in enumerate(buffers):
        assert (buffer.view((size_bytes // 4,), FLOAT32) == i).all()
    starts = sorted(buffer.address for buffer in buffers)
    beside = sum(b - a == size_bytes + 2 * red(size_bytes) for a, b in pairwise(starts))
    assert beside >= len(starts) - 4 and not any(start % mmap.PAGESIZE for start in starts)
    del buffers, buffer
    pool.release()
    assert pool.free_bytes == 0


def test_memory_limit_is_checked_before_allocation(pool, monkeypatch):
    monkeypatch.setattr(config, "memory_limit_bytes", 10_000)
    first = pool.allocate(5000)
    with pytest.raises(OutOfMemoryError, match=r"6,000 bytes do not fit: 5,120 of 10,000"):
        pool.allocate(6000)
    assert pool.live_bytes == 5120
    del first
    pool.allocate(6000)


def test_sizes_above_physical_memory_are_refused_without_a_system_call(pool):
    with pytest.raises(OutOfMemoryError, match="do not fit into this machine"):
        pool.allocate(1 << 60)
    assert pool.live_bytes == 0


def test_failed_mmap_is_an_out_of_memory_error(pool, monkeypatch):
    monkeypatch.setattr("tfn.hw.memory.physical_bytes", lambda: 1 << 62)
    with pytest.raises(OutOfMemoryError, match="the system has no"):
        pool.allocate(1 << 60)


def test_peak_bytes_can_be_reset(pool):
    pool.allocate(1 << 20)
    assert (pool.live_bytes, pool.peak_bytes) == (0, 1 << 20)
    pool.peak_bytes = 0
    pool.allocate(1 << 10)
    assert pool.peak_bytes == 1 << 10


def test_blocks_freed_by_garbage_collection_are_counted(pool):
    for _ in range(2000):
        loop: list[object] = [pool.allocate(100)]
        loop.append(loop)
    del loop
    gc.collect()
    assert pool.live_bytes == 0


def test_many_threads_share_a_pool(pool):
    wrong = []

    def work(mark: int) -> None:
        for i in range(300):
            buffers = [pool.allocate(256) for _ in range(5)]
            views = [b.view((64,), INT32) for b in buffers]
            for view in views:
                view[...] = mark * 1000 + i
            wrong.extend(v for v in views if not (v == mark * 1000 + i).all())

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and pool.live_bytes == 0


def aligned(size: int) -> np.ndarray:
    raw = np.zeros(size + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + size]


@pytest.mark.parametrize("size", [10, 1000, 10000])
def test_copying_never_shares(memory, size):
    x = aligned(size)
    x[...] = np.arange(size)
    for y in (x, x[1:], x[::2], x.reshape(10, -1).T, np.asfortranarray(x.reshape(10, -1))):
        copied = memory.copy(y)
        assert copied.address % 64 == 0 and copied.exclusive
        assert (copied.view(y.shape, FLOAT32) == y).all()
        copied.view(y.shape, FLOAT32)[...] = -1
    assert (x == np.arange(size)).all()


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_adopting_shares_or_refuses(memory, size):
    x = aligned(size)
    shared = memory.adopt(x)
    assert shared.address == x.ctypes.data and not shared.exclusive and shared.owner is x
    if size > 4:
        assert memory.adopt(x[4:]).address == x.ctypes.data + 16
    refused = [(x[1:], "begins 4 bytes after"), (aligned(32)[::2], "strides are")]
    for y, why in refused if size > 1 else refused[1:]:
        with pytest.raises(ArgumentError, match=why) as caught:
            memory.adopt(y)
        assert caught.value.hint == "leave copy=False out"
    assert memory.adopt(x[size:]).size_bytes == 0


@together("dtype", ALL, ids=str)
@together("shape", [(), (0,), (3, 0, 2), (1,), (7,), (13, 11)], ids=str)
def test_copied_arrays_are_read_back(memory, shape, dtype):
    x = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 5).astype(dtype)
    back = memory.read(memory.copy(x), shape, dtype)
    assert back.dtype == dtype and back.shape == shape
    assert back.tobytes() == x.tobytes()
    assert not back.flags.writeable


def test_memory_shared_with_numpy_is_not_exclusive(memory):
    buffer = memory.allocate(64)
    assert buffer.exclusive
    memory.read(buffer, (16,), FLOAT32)
    assert not buffer.exclusive
    assert memory.copy(np.ones(3, BFLOAT16)).exclusive
