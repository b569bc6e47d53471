"""Buffers: views and lifetime."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from tests.covering import together
from tfn.dtypes import ALL, FLOAT32
from tfn.hw.buffer import Buffer


class Owner:
    """Something whose life can be watched."""


def test_the_owner_lives_as_long_as_any_view():
    memory, owner = np.arange(16, dtype=np.float32), Owner()
    alive = weakref.ref(owner)
    view = Buffer(memory.ctypes.data, 64, owner).view((4, 4), FLOAT32)
    del owner
    part = view.T[1:, 2]
    del view
    gc.collect()
    assert alive() is not None and part.tolist() == [9, 10, 11]
    del part
    gc.collect()
    assert alive() is None


def test_views_share_memory_and_can_be_written():
    memory = np.zeros(16, np.float32)
    buffer = Buffer(memory.ctypes.data, 64, memory)
    buffer.view((2, 8), FLOAT32)[1, 0] = 5
    assert memory[8] == 5
    assert np.shares_memory(memory, buffer.view((16,), FLOAT32))


def test_read_only_views_cannot_be_made_writable():
    memory, owner = np.arange(16, dtype=np.float32), Owner()
    alive = weakref.ref(owner)
    buffer = Buffer(memory.ctypes.data, 64, owner, True)
    view = buffer.read((4, 4), FLOAT32)
    assert not buffer.exclusive and np.shares_memory(view, memory)
    for x in (view, view.T, view[1:].view(np.int32), view.reshape(-1)):
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            x.flags.writeable = True
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            x.setflags(write=True)
    part = view.T[1:, 2]
    del buffer, owner, view, x
    gc.collect()
    assert alive() is not None and part.tolist() == [9, 10, 11]
    del part
    gc.collect()
    assert alive() is None


@together("dtype", ALL, ids=str)
@together("shape", [(), (0,), (2, 0), (3,), (2, 3)], ids=str)
def test_views_of_every_kind(dtype, shape):
    memory = np.zeros(64, np.uint8)
    view = Buffer(memory.ctypes.data, 64, memory).view(shape, dtype)
    assert view.shape == shape and view.dtype == dtype
    assert view.flags.c_contiguous and view.flags.writeable
    read = Buffer(memory.ctypes.data, 64, memory).read(shape, dtype)
    assert read.shape == shape and read.dtype == dtype and not read.flags.writeable


def test_memory_is_shared_unless_said_otherwise():
    assert not Buffer(64, 0, None).exclusive
