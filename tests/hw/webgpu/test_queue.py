"""The WebGPU queue: loops, branches, routines and calls of the host, and kernels it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.hw.webgpu.devices import needs_webgpu, shared
from tests.lower.graphs import inputs, jaxpr, p, run_on, run_oracle
from tfn.config import config
from tfn.dtypes import BOOL, FLOAT32, INT32
from tfn.errors import CompileError, DeviceError
from tfn.hw.memory import HostMemory
from tfn.hw.webgpu.queue import WebGpuQueue
from tfn.hw.webgpu.wgsl import MAX_GROUPS
from tfn.lower import pipeline
from tfn.trace import build
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

pytestmark = needs_webgpu
X = p(0, 4)


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


def body(f: UOp, *like: UOp) -> UOp:
    return function([f], tuple(u.arg for u in like))


def check(*outputs: UOp) -> None:
    values = inputs(outputs)
    got = run_on(shared(), jaxpr(outputs), values)
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
    device = shared()
    run = device.load(pipeline.lower(jaxpr([X * 2.0]), device.target))
    with pytest.raises(DeviceError, match="not on the device webgpu"):
        run([HostMemory().allocate(16)], [device.memory.allocate(16)])


def test_more_operands_than_buffers_are_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    queue: Any = shared().queue
    few = queue.driver.limits | {"max-storage-buffers-per-shader-stage": 2}
    other = WebGpuQueue(replace(queue.driver, limits=few), queue.memory)
    device = replace(shared(), queue=other)
    with pytest.raises(CompileError, match="3 buffers of 2"):
        run_on(device, jaxpr([X + p(1, 4)]), [np.ones(4, np.float32)] * 2)
    (y,) = run_on(device, jaxpr([X * 2.0]), [np.ones(4, np.float32)])
    assert y.tolist() == [2, 2, 2, 2]


def test_a_refused_shader_is_an_error_with_the_words_of_the_driver() -> None:
    queue: Any = shared().queue
    text = '// {"name": "k", "threads": 1, "operands": []}\nno shader'
    with pytest.raises(CompileError, match=r"does not accept a kernel(?s:.*)no shader"):
        queue.pipeline(text, (), 0)


def test_more_groups_than_one_axis_can_have() -> None:
    n = MAX_GROUPS + 3
    rows = build.add_up(build.cast(p(0, n, 512, dtype=BOOL), INT32), (1,))
    assert pipeline.lower(jaxpr([rows]), shared().target).kernels[0].tiles == n
    x = np.arange(512) < np.arange(n)[:, None] % 512
    (y,) = run_on(shared(), jaxpr([rows]), [x])
    np.testing.assert_array_equal(y, np.arange(n) % 512)
