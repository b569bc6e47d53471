"""The CUDA queue: what the host steps through, faults, and kernels that the device cannot run."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from tests.hw.cuda.devices import device_of
from tests.hw.cuda.simulator import SimulatedCuda
from tests.lower.graphs import inputs, jaxpr, p, run_on, run_oracle
from tfn.config import config
from tfn.dtypes import FLOAT32
from tfn.errors import CompileError, DeviceError
from tfn.hw.commands import Command
from tfn.hw.cuda.graph import COPIES
from tfn.hw.cuda.queue import RUN
from tfn.hw.memory import HostMemory
from tfn.lower import pipeline
from tfn.trace import build
from tfn.trace.argument import Host, VmapMethod
from tfn.trace.inline import runnable
from tfn.trace.jaxpr import Jaxpr, function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

X = p(0, 4)


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


def body(f: UOp, *like: UOp) -> UOp:
    return function([f], tuple(u.arg for u in like))


def total(x: UOp) -> UOp:
    return UOp(Op.GBARRIER, (build.broadcast_to(build.add_up(x, (0,)), x.shape),))


def controlled() -> list[UOp]:
    """Loops and a branch of several kernels."""
    step = body(X * 0.5 + total(X) * 0.1, X)
    first = build.reshape(build.shrink(X, (0,), (1,)), ())
    small = body(first * first < const(1e3, FLOAT32), X)
    grow = body(X * 1.5 + total(X), X)
    index = const(1, np.dtype("int32"))
    return [
        build.scan(step, [], [X], [], 90, False)[0],
        build.repeat_while(small, grow, [], [], [X])[0],
        build.choose(index, [step, grow], [X])[0],
    ]


def test_kernels_that_are_waited_for_give_the_same_values() -> None:
    simulated = SimulatedCuda()
    outputs = controlled()
    values = inputs(outputs)
    got = run_on(device_of(simulated, waits=True), jaxpr(outputs), values)
    for x, y in zip(got, run_oracle(outputs, values), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)
    assert simulated.calls["cuLaunchKernel"] == simulated.calls["cuStreamSynchronize"] > 100
    assert not simulated.calls["cuGraphCreate"]


def test_a_call_of_the_host_divides_graphs_and_loops() -> None:
    def square(results: list[np.ndarray], arguments: list[np.ndarray]) -> None:
        results[0][...] = arguments[0] ** 2

    host = Host(square, (((4,), FLOAT32),), VmapMethod.REFUSE)
    squared = UOp(Op.GET, (UOp(Op.HOST, (X * 0.1,), host),), 0)
    step = body(squared + total(X) * 0.2, X)
    outputs = [build.scan(step, [], [X], [], 5, False)[0] * 2.0]
    simulated, values = SimulatedCuda(), inputs(outputs)
    whole, functions = runnable(jaxpr(outputs).function)
    got = run_on(device_of(simulated), Jaxpr(whole), values, list(functions))
    np.testing.assert_allclose(got[0], run_oracle(outputs, values)[0], rtol=1e-5)
    assert simulated.calls["cuGraphLaunch"] > 5


def test_addresses_are_written_when_they_change() -> None:
    simulated = SimulatedCuda()
    device = device_of(simulated)
    run = device.load(pipeline.lower(jaxpr([X * 2.0]), device.target))
    x, y, z = (device.memory.copy(np.ones(4, np.float32)) for _ in range(3))
    before = simulated.calls["cuMemcpyHtoDAsync"]
    for _ in range(3):
        run([x], [y])
    assert simulated.calls["cuMemcpyHtoDAsync"] == before + 1
    run([y], [z])
    assert device.memory.read(z, (4,), FLOAT32).tolist() == [4.0] * 4
    assert simulated.calls["cuMemcpyHtoDAsync"] == before + 2
    run([x], [y])  # the addresses of before are those of another copy
    assert simulated.calls["cuMemcpyHtoDAsync"] == before + 2
    assert simulated.calls["cuGraphInstantiateWithFlags"] == COPIES


def test_a_buffer_of_another_device_is_refused_by_a_program() -> None:
    device = device_of(SimulatedCuda())
    run = device.load(pipeline.lower(jaxpr([X * 2.0]), device.target))
    with pytest.raises(DeviceError, match="not on the device cuda"):
        run([HostMemory().allocate(16)], [device.memory.allocate(16)])


def test_a_fault_names_the_kernels_that_were_running() -> None:
    simulated = SimulatedCuda()
    device = device_of(simulated)
    program = pipeline.lower(jaxpr([X * 2.0]), device.target)
    run = device.load(program)
    x, y = (device.memory.copy(np.ones(4, np.float32)) for _ in range(2))
    simulated.fault = 700
    run([x], [y])  # a graph fails when it runs, which is later
    with pytest.raises(DeviceError, match=f"one of the kernels {program.kernels[0].name}"):
        device.memory.read(y, (4,), FLOAT32)
    with pytest.raises(DeviceError, match="the context of the GPU is lost"):
        run([x], [y])


def test_a_kernel_that_is_waited_for_is_named() -> None:
    simulated = SimulatedCuda()
    device = device_of(simulated, waits=True)
    program = pipeline.lower(jaxpr([X * 2.0]), device.target)
    run = device.load(program)
    x, y = (device.memory.copy(np.ones(4, np.float32)) for _ in range(2))
    simulated.fault = 719
    with pytest.raises(DeviceError, match=f"the kernel {program.kernels[0].name} has failed") as e:
        run([x], [y])
    assert "LAUNCH_FAILED" in str(e.value) and "test_queue.py" in str(e.value)


def test_kernels_that_the_device_cannot_run_are_refused() -> None:
    outputs = [build.add_up(p(0, 1000), (0,))]
    simulated = SimulatedCuda()
    device = device_of(simulated)
    program = pipeline.lower(jaxpr(outputs), device.target)
    simulated.attributes["local_bytes"] = 16
    small = device_of(simulated)
    with pytest.raises(CompileError, match="more shared memory") as raised:
        small.load(program)
    assert "of 16" in str(raised.value)
    kernel = replace(program.kernels[0], threads=2048)
    launch = replace(program.launches[0], kernel=kernel)
    with pytest.raises(CompileError, match="larger groups") as raised:
        device.load(replace(program, steps=(launch,)))
    assert "2048 threads of 1024" in str(raised.value)


def test_waiting_for_all_programs() -> None:
    simulated = SimulatedCuda()
    device = device_of(simulated)
    run = device.load(pipeline.lower(Jaxpr(function([X * 2.0], (X.arg,))), device.target))
    buffers = [device.memory.copy(np.ones(4, np.float32)) for _ in range(2)]
    run(buffers[:1], buffers[1:])
    assert not simulated.launched
    device.queue.synchronize()
    assert len(simulated.launched) == 1


def test_every_command_is_run_by_a_row() -> None:
    assert set(RUN) == set(get_args(Command))
