"""Memory checker: writes beside arrays and after free."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.config import config
from tfn.dtypes import FLOAT32
from tfn.eager import registry, run
from tfn.errors import MemoryCorruptionError
from tfn.hw.buffer import LARGE_BYTES
from tfn.hw.cpu.device import cpu
from tfn.hw.guards import DEBUG, POISON, red_bytes
from tfn.hw.memory import Pool

SIZES = (1, 100, 640, 5000, 300_000, 3 << 20)


@pytest.fixture(params=["python", "native"])
def pool(request: Any, monkeypatch: Any) -> Any:
    """A guarded pool of either make."""
    monkeypatch.setattr(config, "device", DEBUG)
    made: Any = Pool() if request.param == "python" else cpu().memory
    return made if request.param == "python" else made.pool


@pytest.fixture
def unraised(monkeypatch: Any) -> list[BaseException]:
    """Errors of places that cannot raise them: the end of a block."""
    errors: list[BaseException] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: errors.append(report.exc_value))
    return errors


def test_red_zones_of_large_blocks_are_whole_pages() -> None:
    assert red_bytes(LARGE_BYTES) == 64 and red_bytes(LARGE_BYTES + 1) % 4096 == 0


def test_only_the_debug_device_has_guards(monkeypatch: Any) -> None:
    monkeypatch.setattr(config, "device", "cpu")
    assert Pool()._guards is None and cpu().name == "cpu"
    monkeypatch.setattr(config, "device", DEBUG)
    assert Pool()._guards is not None and cpu().name == DEBUG


@pytest.mark.parametrize("size", SIZES)
def test_correct_accesses_are_not_reported(pool: Any, unraised: list[Any], size: int) -> None:
    for _ in range(3):
        buffers = [pool.allocate(size) for _ in range(3)]
        for buffer in buffers:
            assert buffer.address % 64 == 0
            assert ctypes.string_at(buffer.address, size) == bytes([POISON]) * size
            ctypes.memset(buffer.address, 1, size)
        del buffers, buffer
    pool.release()
    pool.allocate(size)
    assert not unraised


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("place", ["before", "after"])
def test_writes_beside_an_array_are_found(
    pool: Any, unraised: list[Any], size: int, place: str
) -> None:
    buffer = pool.allocate(size)  # made here
    at = -1 if place == "before" else size
    ctypes.memset(buffer.address + at, 0, 1)
    del buffer
    (error,) = unraised
    assert type(error) is MemoryCorruptionError and "beside an array" in error.what
    assert error.got.startswith(f"byte {at} of an array of {size:,} bytes at 0x")
    assert error.where.endswith("buffer = pool.allocate(size)  # made here")
    pool.allocate(size)  # told once
    assert len(unraised) == 1


@pytest.mark.parametrize("size", SIZES)
def test_writes_after_free_are_found(pool: Any, unraised: list[Any], size: int) -> None:
    buffer = pool.allocate(size)
    address = buffer.address
    del buffer  # freed here
    ctypes.memset(address + size // 2, 7, 1)
    try:
        again = pool.allocate(size)
    except MemoryCorruptionError as error:  # where it can be raised, it is
        unraised.append(error)
    (error,) = unraised
    assert "after it was freed" in error.what and error.where.endswith("del buffer  # freed here")
    assert f"byte {size // 2} of a block" in error.got and error.got.endswith("is 0x07")
    again = pool.allocate(size)
    assert again and len(unraised) == 1


def test_a_raised_error_survives_a_hook(pool: Any, unraised: list[Any]) -> None:
    def fail() -> None:
        buffer = pool.allocate(100)
        ctypes.memset(buffer.address + 100, 0, 1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        fail()
    del caught
    gc.collect()
    assert [type(error) for error in unraised] == [MemoryCorruptionError]


def test_native_entries_work_with_guards(monkeypatch: Any, unraised: list[Any]) -> None:
    monkeypatch.setattr(config, "device", DEBUG)
    monkeypatch.setattr(registry, "DEVICES", {})
    run.clear_caches()  # entries of the eager functions belong to the device that made them
    f = tfn.jit(lambda x, y: {"z": [x @ y, x + 1]})
    step = tfn.jit(lambda x: x * 2, donate_argnums=0)
    kept: list[Any] = []
    for i in range(3):
        x = tnp.ones((33, 33)) * i
        assert x.device.platform == DEBUG
        z = f(x, x)["z"]
        assert float(z[0][0, 0]) == 33 * i * i and float(z[1].sum()) == 33 * 33 * (i + 1)
        kept.append(np.asarray(z[1]))
        z = step(step(z[1]))
        assert float(z[0, 0]) == 4 * (i + 1)
    gc.collect()
    assert [float(x[0, 0]) for x in kept] == [1, 2, 3] and len(f._direct) == 1
    assert not unraised
    run.clear_caches()


def test_a_freed_array_reads_as_garbage(pool: Any) -> None:
    buffer = pool.allocate(64)
    ctypes.memset(buffer.address, 0, 64)
    view = np.ndarray((16,), FLOAT32, (ctypes.c_char * 64).from_address(buffer.address))
    del buffer
    assert (view < -1e17).all()
