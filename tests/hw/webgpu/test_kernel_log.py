"""The times of launches by the clock of an adapter, in traces."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import tfn
from tests.hw.webgpu.devices import needs_webgpu, shared
from tests.lower.graphs import jaxpr, p, run_on
from tfn._support import events
from tfn._support.events import Event
from tfn.config import config
from tfn.hw.device import Device
from tfn.hw.webgpu import driver, kernel_log
from tfn.hw.webgpu.queue import MAX_LAUNCHES, WebGpuQueue

pytestmark = needs_webgpu
needs_times = pytest.mark.skipif(
    not driver.available() and not driver.driver(True).tick_ns,
    reason=f"times of kernels are NOT TESTED: the adapter has no {driver.TIMES}",
)


def use(monkeypatch: pytest.MonkeyPatch, tick_ns: float | None = None) -> Device:
    """Makes a device with a queue of its own the default, with other ticks if they are given."""
    queue: Any = shared().queue
    own = queue.driver if tick_ns is None else replace(queue.driver, tick_ns=tick_ns)
    device = replace(shared(), queue=WebGpuQueue(own, queue.memory))
    monkeypatch.setattr(config, "disk_cache", False)
    monkeypatch.setattr(events, "KERNELS", [])
    monkeypatch.setitem(tfn.eager.registry.DEVICES, "webgpu", device)
    monkeypatch.setattr(config, "device", "webgpu")
    return device


def traced(calls: int = 2, n: int = 30) -> list[Event]:
    """The kernels of calls of a function of two; other shapes are other programs."""

    def rows(x: tfn.Array) -> tfn.Array:
        return x * tfn.numpy.exp(x).sum(0)

    function, x = tfn.jit(rows), tfn.numpy.ones((40, n))
    function(x).block_until_ready()
    with tfn.profiler.trace() as block:
        for _ in range(calls):
            function(x)
    assert block.profile is not None and str(block.profile)
    kinds = [event.kind for event in block.profile.events]
    assert kinds.count("program") == calls
    return [event for event in block.profile.events if event.kind == "kernel"]


@needs_times
def test_kernels_have_their_names_and_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    kernels = traced()
    assert [kernel.name for kernel in kernels] == ["rows 0 reduce, exp", "rows 1 mul"] * 2
    assert all(kernel.duration_ns > 0 for kernel in kernels)
    assert all(a.end_ns <= b.begin_ns for a, b in itertools.pairwise(kernels))
    assert all(0 < kernel.asked_ns <= kernel.begin_ns for kernel in kernels)


@needs_times
def test_more_launches_than_a_command_buffer_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of operands that are copied together, too, in passes of their own."""
    queue: Any = use(monkeypatch).queue
    few = queue.driver.limits | {"max-storage-buffers-per-shader-stage": 2}
    for n, limits in ((3, queue.driver.limits), (4, few)):
        device = replace(
            shared(), queue=WebGpuQueue(replace(queue.driver, limits=limits), queue.memory)
        )
        monkeypatch.setitem(tfn.eager.registry.DEVICES, "webgpu", device)

        def step(state: Any, _: None) -> Any:
            x, y = state
            return (x - (y * y).sum() * 1e-3, y + x.sum() * 1e-3), None

        function = tfn.jit(lambda x, y: tfn.lax.scan(step, (x, y), None, length=140)[0])
        with tfn.profiler.trace() as block:
            function(tfn.numpy.ones(n), tfn.numpy.ones(n))
        assert block.profile is not None
        kernels = [event for event in block.profile.events if event.kind == "kernel"]
        assert len({k.asked_ns for k in kernels}) > 1 and len(kernels) > MAX_LAUNCHES
        assert all(a.end_ns <= b.begin_ns for a, b in itertools.pairwise(kernels))


@needs_times
def test_times_are_read_before_too_many_are_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "MAX_UNREAD", 2)
    use(monkeypatch)
    assert len(traced(5, 31)) == 10


@needs_times
def test_a_clock_of_other_ticks_is_set_by_that_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, 0.5)
    begin_ns = time.perf_counter_ns()
    kernels = traced(n=32)
    assert len(kernels) == 4
    assert all(begin_ns < kernel.begin_ns < time.perf_counter_ns() for kernel in kernels)


def test_an_adapter_without_times_logs_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, 0.0)
    assert traced(n=33) == [] and events.KERNELS == []
    assert driver.tick_ns(SimpleNamespace(features=[])) == 0


@needs_times
def test_outside_of_traces_launches_share_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    device = use(monkeypatch)
    log = cast("WebGpuQueue", device.queue).log
    assert not log.running()
    run_on(device, jaxpr([p(0, 4) * 2.0]), [np.ones(4, np.float32)])
    assert log.rows() == [] and events.KERNELS == []


@needs_times
def test_the_times_of_a_lost_device_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KERNELS", [])
    monkeypatch.setattr(events, "uses_kept", lambda: True)
    driver.driver.cache_clear()
    lost = driver.driver(True)
    driver.driver.cache_clear()
    log = kernel_log.KernelLog(lost, 4)
    assert log.running()
    memory = lost.device.create_buffer(size=16, usage=lost.wgpu.BufferUsage.COPY_SRC)
    log.add(memory, [(1, 0)], 1)
    lost.device.destroy()
    assert log.rows() == []
