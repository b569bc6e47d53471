"""CUDA memory: blocks that are used again, copies through pinned memory, and limits."""

from __future__ import annotations

from ctypes import c_uint64

import numpy as np
import pytest

from tests.covering import together
from tests.hw.cuda.devices import gpu
from tests.hw.cuda.simulator import SimulatedCuda
from tfn.config import config
from tfn.dtypes import ALL, FLOAT32
from tfn.errors import ArgumentError, DeviceError, OutOfMemoryError
from tfn.hw.cuda import memory as source
from tfn.hw.cuda.memory import CudaMemory
from tfn.hw.memory import HostMemory, size_class


def memory(simulated: SimulatedCuda | None = None) -> CudaMemory:
    return CudaMemory(gpu(simulated or SimulatedCuda()))


@together("dtype", ALL, ids=str)
@together("shape", [(), (0,), (3, 5), (2, 0, 3)], ids=str)
def test_elements_come_back(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    m = memory()
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    y = m.read(m.copy(x), shape, dtype)
    assert x.tobytes() == y.tobytes()
    assert y.dtype == dtype and not y.flags.writeable


def test_strided_arrays_are_copied_in_order() -> None:
    m = memory()
    x = np.arange(12, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(m.read(m.copy(x.T), (4, 3), x.dtype), x.T)


def test_large_copies_are_cut_into_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """More pieces than there are: each is waited for before it is written again."""
    monkeypatch.setattr(source, "LARGE_PIECE_BYTES", 4096)
    monkeypatch.setattr(source, "SMALL_COPY_BYTES", 64)
    m = memory()
    x = np.arange(50_001, dtype="float32")
    buffer = m.copy(x)
    x[:] = 0  # the copy has not run yet, and has left the array
    np.testing.assert_array_equal(m.read(buffer, (50_001,), FLOAT32), np.arange(50_001))


def test_small_copies_need_no_pinned_memory() -> None:
    simulated = SimulatedCuda()
    m = memory(simulated)
    buffers = [m.copy(np.full(3, i, np.float32)) for i in range(200)]
    assert not simulated.pinned
    for i, buffer in enumerate(buffers):
        assert m.read(buffer, (3,), FLOAT32).tolist() == [i] * 3


def test_a_copy_waits_for_programs_that_may_use_its_block() -> None:
    """Programs and copies run in two streams; the simulated ones run as late as they may."""
    simulated = SimulatedCuda()
    m = memory(simulated)
    old, size = m.copy(np.zeros(100_000, np.float32)), 400_000
    target = m.allocate(size)
    # Stands for a program that reads the old contents, and has not run yet.
    m.driver.library(
        "cuMemcpyDtoDAsync",
        *(c_uint64(m.pointer(target)), c_uint64(m.pointer(old)), c_uint64(size), m.driver.stream),
    )
    kernels = m.launcher.named(["a kernel"])
    m.launcher.note(kernels)
    del old
    new = m.copy(np.ones(100_000, np.float32))
    assert not m.read(target, (100_000,), FLOAT32).any()
    assert m.read(new, (100_000,), FLOAT32).all()


def test_blocks_are_used_again_and_given_back() -> None:
    simulated = SimulatedCuda()
    m = memory(simulated)
    first = m.allocate(100_000)
    place = m.pointer(first)
    assert m.live_bytes == size_class(100_000)
    del first
    second = m.allocate(99_000)  # of the same class
    assert m.pointer(second) == place and simulated.calls["cuMemAlloc"] == 1
    del second
    assert m.live_bytes == 0 and m.pool.free_bytes == size_class(100_000)
    m.trim()
    assert m.pool.free_bytes == 0 and not simulated.memory


def test_small_blocks_are_parts_of_a_slab() -> None:
    simulated = SimulatedCuda()
    m = memory(simulated)
    buffers = [m.allocate(4) for _ in range(60)]
    assert len({m.pointer(b) for b in buffers}) == 60 and simulated.calls["cuMemAlloc"] == 1


def test_free_lists_are_emptied_before_memory_is_out() -> None:
    m = memory(SimulatedCuda(limit_bytes=1 << 20))
    buffers = [m.allocate(200_000) for _ in range(4)]
    del buffers
    assert m.allocate(900_000).size_bytes == 900_000
    with pytest.raises(OutOfMemoryError, match="do not fit on a simulated GPU"):
        m.allocate(1 << 21)
    assert m.allocate(1000).size_bytes == 1000  # the device is still usable


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    m = memory()
    monkeypatch.setattr(config, "memory_limit_bytes", 1000)
    first = m.allocate(800)
    with pytest.raises(OutOfMemoryError, match="896 of 1,000 are in use"):
        m.allocate(300)
    assert first.size_bytes == 800


def test_memory_of_the_host_is_not_shared() -> None:
    with pytest.raises(ArgumentError, match="memory of its own"):
        memory().adopt(np.zeros(4))


def test_a_buffer_of_another_device_is_refused() -> None:
    with pytest.raises(DeviceError, match="not on the device cuda"):
        memory().pointer(HostMemory().allocate(4))
    with pytest.raises(DeviceError, match="on the device cuda, and the program runs on another"):
        memory().allocate(4).address  # noqa: B018


def test_a_gpu_that_has_failed_says_so() -> None:
    simulated = SimulatedCuda()
    m = memory(simulated)
    buffer = m.allocate(4)
    kernels = m.launcher.named(["k1", "k2"])
    m.launcher.note(kernels)
    simulated.lost = 700
    with pytest.raises(DeviceError, match="has failed in one of the kernels k1, k2") as raised:
        m.read(buffer, (), FLOAT32)
    assert "ILLEGAL_ADDRESS" in str(raised.value) and "context is lost" in str(raised.value)
    with pytest.raises(DeviceError, match="has failed"):
        m.synchronize()
