"""The reference device."""

from __future__ import annotations

import numpy as np

from tfn.dtypes import FLOAT32
from tfn.hw.python import python
from tfn.lower.program import Program
from tfn.trace.argument import Host, HostSlot, Param, VmapMethod
from tfn.trace.build import add_up, several
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp


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


def test_callbacks_fill_their_slots():
    kind = ((3,), FLOAT32)
    x = param(Param(0, *kind))
    host = Host(HostSlot(0, "f"), (kind,), VmapMethod.REFUSE)
    f = function(several(UOp(Op.HOST, (x,), host)), (Param(0, *kind),))
    device = python()
    loaded = device.load(Program("main", f, (), 0, (kind,), (kind,), (), 0, 0, "", False))
    for factor in (2, 3):

        def run(results, operands, factor=factor):
            np.multiply(operands[0], factor, out=results[0])

        out = device.memory.allocate(12)
        loaded.with_callbacks([run])([device.memory.copy(np.ones(3, np.float32))], [out])
        assert device.memory.read(out, *kind).tolist() == [factor] * 3
