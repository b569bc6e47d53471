"""Shared memory: best fit, coalescing, limits, addresses of both sides."""

from __future__ import annotations

import gc
import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfn.config import config
from tfn.errors import DeviceError, OutOfMemoryError
from tfn.hw.dsp.commands import BASE, TOTAL_BYTES
from tfn.hw.dsp.memory import CodeSpace, Ranges, SharedMemory, SharedPool, rounded


@given(st.integers(0, 2**32), st.lists(st.integers(0, 3000), max_size=60))
def test_ranges_never_overlap_and_become_one_again(seed: int, sizes: list[int]) -> None:
    ranges, live, draw = Ranges(0, 100_000), {}, random.Random(seed)
    for size in sizes:
        begin = ranges.allocate(size)
        if begin is None:
            assert sum(map(rounded, live.values())) + rounded(size) > 100_000 // 8
            continue
        end = begin + rounded(size)
        assert begin % 128 == 0
        assert all(end <= b or b + rounded(n) <= begin for b, n in live.items())
        live[begin] = size
        if draw.random() < 0.5:
            at = draw.choice(list(live))
            ranges.free(at, live.pop(at))
    for begin, size in live.items():
        ranges.free(begin, size)
    assert ranges.allocate(100_000 // 128 * 128) == 0


@pytest.fixture(scope="module")
def pool() -> SharedPool:
    return SharedPool(SharedMemory())


def test_buffers_are_reused(pool: SharedPool) -> None:
    first = pool.allocate(1000)
    address = first.address
    assert address % 128 == 0
    assert pool.live_bytes == 1024
    del first
    gc.collect()
    assert pool.live_bytes == 0
    assert pool.allocate(900).address == address


def test_large_ranges_are_given_back(pool: SharedPool) -> None:
    buffer = pool.allocate(64 << 20)
    buffer.view((64 << 20,), __import__("numpy").dtype("uint8"))[...] = 1
    before = os.fstat(pool.shared.file).st_blocks
    del buffer
    gc.collect()
    assert os.fstat(pool.shared.file).st_blocks < before - (60 << 20) // 512


def test_limits(pool: SharedPool, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OutOfMemoryError, match="memory of the DSP"):
        pool.allocate(TOTAL_BYTES)
    monkeypatch.setattr(config, "memory_limit_bytes", 1000)
    with pytest.raises(OutOfMemoryError, match="1,000"):
        pool.allocate(2000)


def test_addresses_of_both_sides(pool: SharedPool) -> None:
    shared = pool.shared
    buffer = pool.copy(b"abc")
    on_device = shared.on_device(buffer.address)
    assert BASE < on_device < BASE + TOTAL_BYTES
    assert shared.on_host(on_device) == buffer.address
    assert shared.holds(buffer.address, 3)
    assert not shared.holds(shared.address + TOTAL_BYTES - 1, 2)
    for address in (0, BASE - 1, BASE + TOTAL_BYTES):
        with pytest.raises(DeviceError, match="outside of shared memory"):
            shared.on_host(address)


def test_a_fork_may_not_use_it(pool: SharedPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: pool.shared.process + 1)
    with pytest.raises(DeviceError, match="forked"):
        pool.allocate(1)


def test_places_of_code_are_reused_after_a_start_only() -> None:
    space = CodeSpace()
    first = space.allocate(1000)
    begin = first.begin
    del first
    gc.collect()
    assert space.retired_bytes == 1000
    assert space.allocate(1000).begin != begin
    space.reuse()
    assert space.retired_bytes == 0
    assert space.allocate(1000).begin == begin
