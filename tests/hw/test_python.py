"""The oracle as a device."""

from __future__ import annotations

import numpy as np

from tfn.dtypes import FLOAT32
from tfn.hw.python import python
from tfn.lower.program import Program
from tfn.trace.argument import Param
from tfn.trace.build import add_up
from tfn.trace.jaxpr import function, param


def test_a_program_is_its_function_evaluated():
    params = (Param(0, (3, 4), FLOAT32), Param(1, (3, 4), FLOAT32))
    x, y = map(param, params)
    outputs = [x * y, add_up(x, (1,))]
    shapes = tuple((u.shape, u.dtype) for u in outputs)
    inputs = tuple((p.shape, p.dtype) for p in params)
    device = python()
    program = Program("main", function(outputs, params), (), 0, inputs, shapes, (), 0, 0, "", False)
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    b = a + 1
    out = [device.memory.allocate(48), device.memory.allocate(12)]
    device.load(program)([device.memory.copy(a), device.memory.copy(b)], out)
    assert (device.memory.read(out[0], (3, 4), FLOAT32) == a * b).all()
    assert (device.memory.read(out[1], (3,), FLOAT32) == a.sum(1)).all()
