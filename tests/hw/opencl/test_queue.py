"""The OpenCL queue: loops, branches, routines and calls of the host, and kernels it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.hw.opencl.devices import needs_opencl, quick
from tests.lower.graphs import inputs, jaxpr, p, run_on, run_oracle
from tfn.config import config
from tfn.dtypes import FLOAT32, INT32
from tfn.errors import CompileError, DeviceError
from tfn.hw.memory import HostMemory
from tfn.hw.opencl.queue import OpenClQueue
from tfn.lower import pipeline
from tfn.trace import build
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

pytestmark = needs_opencl
X = p(0, 4)


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


def body(f: UOp, *like: UOp) -> UOp:
    return function([f], tuple(u.arg for u in like))


def check(*outputs: UOp) -> None:
    values = inputs(outputs)
    got = run_on(quick(), jaxpr(outputs), values)
    for x, y in zip(got, run_oracle(outputs, values), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)


def test_loops_branches_and_routines() -> None:
    # Bodies of two kernels each: loops that one kernel can run are tested with all other kernels.
    total = UOp(Op.GBARRIER, (build.broadcast_to(build.add_up(X, (0,)), (4,)),))
    step = body(X * 0.5 + total, X)
    first = build.reshape(build.shrink(X, (0,), (1,)), ())
    small = body(first * first < const(1e3, FLOAT32), X)
    looped = build.scan(step, [], [p(0, 4)], [], 3, False)[0]
    (until,) = build.repeat_while(small, step, [], [], [p(0, 4)])
    ways = [step, body(X + 1.0, X)]
    index = build.cast(build.reshape(build.shrink(p(1, 2, dtype=INT32), (0,), (1,)), ()), INT32)
    chosen = [build.choose(index + i, ways, [p(0, 4)])[0] for i in (-9, 9)]
    (once,) = build.call("f", step, [p(0, 4)])
    check(looped, until, *chosen, *build.call("f", step, [once]))


def test_a_slice_of_the_arena_is_an_operand_at_an_offset() -> None:
    # Each iteration writes a row of 12 bytes: no driver could make a buffer of its own of it.
    row = p(0, 3)
    total = UOp(Op.GBARRIER, (build.broadcast_to(build.add_up(row, (0,)), (3,)),))
    following = row * 0.5 + total
    scanned = function([following, following], (row.arg,))
    check(*build.scan(scanned, [], [p(0, 3)], [], 5, True))


def test_a_buffer_of_another_device_is_refused_by_a_program() -> None:
    device = quick()
    run = device.load(pipeline.lower(jaxpr([X * 2.0]), device.target))
    with pytest.raises(DeviceError, match="not on the device opencl"):
        run([HostMemory().allocate(16)], [device.memory.allocate(16)])


class Altered:
    """An object of which a few attributes are others."""

    def __init__(self, original: Any, **attributes: Any) -> None:
        self._original, self._attributes = original, attributes

    def __getattr__(self, name: str) -> Any:
        value = self._attributes.get(name)
        return getattr(self._original, name) if value is None else value


def refused(output: UOp, **properties: int) -> str:
    """The error of loading a program on a device with other properties."""
    device = quick()
    queue = device.queue
    assert isinstance(queue, OpenClQueue)
    program = pipeline.lower(jaxpr([output]), device.target)
    cl, real = queue.driver.cl, queue.driver.device

    class Kernel:
        """A kernel that says of itself what the driver says, on the real device."""

        def __init__(self, *arguments: Any) -> None:
            self._kernel = cl.Kernel(*arguments)
            self.num_args = self._kernel.num_args

        def get_work_group_info(self, info: int, _: Any) -> int:
            most = properties.get("work_group_size")
            if most and info == cl.kernel_work_group_info.WORK_GROUP_SIZE:
                return most
            return int(self._kernel.get_work_group_info(info, real))

    small = Altered(real, **properties)
    driver = replace(queue.driver, cl=Altered(cl, Kernel=Kernel), device=small)
    other = OpenClQueue(driver, queue.compiler, queue.memory)
    with pytest.raises(CompileError) as raised:
        replace(device, queue=other).load(program)
    return str(raised.value)


def test_kernels_that_the_device_cannot_run_are_refused() -> None:
    total = build.add_up(p(0, 1000), (0,))
    text = refused(total, local_mem_size=128)
    assert "more local memory" in text and "256 bytes of 128" in text
    text = refused(total, work_group_size=32)
    assert "larger groups" in text and "64 threads of 32" in text
