"""The null device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.hw.programs import scale, summed
from tfn.dtypes import ALL, BFLOAT16, BOOL, FLOAT32, INEXACT
from tfn.errors import CompileError, DeviceError
from tfn.hw.null import fill, null
from tfn.lower.program import Slot, Space


def test_results_are_nan_and_cannot_be_read():
    device = null()
    run = device.load(scale(100))
    x, y = device.memory.copy(np.ones(100, np.float32)), device.memory.allocate(400)
    run([x], [y])
    assert np.isnan(y.view((100,), FLOAT32)).all()
    assert (x.view((100,), FLOAT32) == 1).all()
    with pytest.raises(DeviceError, match="null device has no data"):
        device.memory.read(y, (100,), FLOAT32)
    device.queue.synchronize()


def test_an_output_that_is_an_input_is_left_alone():
    device = null()
    run = device.load(replace(scale(4), aliases=((0, Slot(Space.INPUT, 0)),)))
    x = device.memory.copy(np.ones(4, np.float32))
    run([x], [x])
    assert (x.view((4,), FLOAT32) == 1).all()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_outputs_of_every_dtype_are_filled_with_a_pattern(dtype):
    buffer = null().memory.allocate(5 * dtype.itemsize)
    fill(buffer, (5,), dtype)
    values = buffer.view((5,), dtype)
    if dtype in INEXACT and np.isnan(np.array(np.nan, dtype)):
        assert np.isnan(values.astype(np.complex128)).all()
    else:
        assert set(values.tobytes()) == {0xAB}


def test_programs_are_compiled_all_the_same():
    device = null()
    with pytest.raises(CompileError):
        device.load(replace(summed(3), text="define nothing"))


def test_empty_outputs():
    buffer = null().memory.allocate(0)
    fill(buffer, (0, 3), BFLOAT16)
    fill(buffer, (0,), BOOL)
