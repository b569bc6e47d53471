"""Native buffers: attributes, references, reuse; well-formed text."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from tests.hw.entries import device
from tfn.dtypes import FLOAT32
from tfn.hw.compile.llvm import LlvmCompiler, assembly
from tfn.hw.cpu import native
from tfn.hw.cpu.target import host, named


@pytest.fixture(scope="module")
def memory() -> Any:
    return device().memory


@pytest.mark.parametrize("guarded", [False, True])
def test_the_text_is_well_formed(guarded: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr("tfn.config.config.disk_cache", False)
    assert LlvmCompiler(verify=True).compile(native.text(guarded), host())


@pytest.mark.parametrize("name, instruction", [("x86-64-v3", "rdtsc"), ("aarch64", "cntvct_el0")])
def test_each_machine_reads_a_counter_that_users_may_read(name: str, instruction: str) -> None:
    assert instruction in assembly(native.text(), named(name)).lower()


def test_attributes_and_buffer_protocol_of_a_native_buffer(memory: Any) -> None:
    buffer = memory.allocate(100)
    assert buffer.size_bytes == 100 and buffer.address % 64 == 0
    assert buffer.owner is None and buffer.exclusive is True
    assert memoryview(buffer).readonly and buffer.exclusive is False
    for name in ("address", "size_bytes", "owner", "exclusive"):
        with pytest.raises(AttributeError):
            setattr(buffer, name, getattr(buffer, name))
    with pytest.raises(TypeError):
        type(buffer)()
    view = buffer.view((25,), FLOAT32)
    view[...] = 3
    del buffer
    assert (view == 3).all()


def test_a_freed_buffer_is_reused(memory: Any) -> None:
    buffer = memory.allocate(100)
    memory.read(buffer, (25,), FLOAT32)
    address, identity = buffer.address, id(buffer)
    del buffer
    again = memory.allocate(70)
    assert (again.address, id(again), again.size_bytes) == (address, identity, 70)
    assert again.exclusive and sys.getrefcount(again) == 2


def test_an_adopted_buffer_releases_its_owner(memory: Any) -> None:
    class Owner:
        pass

    data, owner = np.zeros(16, np.float32), Owner()
    alive = weakref.ref(owner)
    before = sys.getrefcount(owner)
    buffer = memory.wrap(data.ctypes.data, 64, owner)
    assert buffer.owner is owner and not buffer.exclusive
    live = memory.pool.live_bytes
    view = buffer.view((16,), FLOAT32)
    del buffer, owner
    gc.collect()
    assert alive() is not None and before
    del view
    gc.collect()
    assert alive() is None and memory.pool.live_bytes == live


def test_references_to_the_buffer_type_are_counted(memory: Any) -> None:
    """Each buffer refers to its type, also in a free list."""
    data = np.zeros(16, np.float32)
    kind = type(memory.allocate(64))
    before = sys.getrefcount(kind)
    buffers = [memory.wrap(data.ctypes.data, 64, data) for _ in range(10)]
    assert sys.getrefcount(kind) == before + 10
    del buffers
    assert sys.getrefcount(kind) == before


def test_pool_copies_bytes(memory: Any) -> None:
    for data in (b"", b"x", bytes(range(200))):
        buffer = memory.pool.copy(data)
        assert buffer.size_bytes == len(data)
        assert bytes(buffer.view((len(data),), np.dtype(np.uint8))) == data
