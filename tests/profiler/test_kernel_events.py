"""Events of kernels: names of functions and operations, and their rates."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn import profiler
from tfn._support.events import Event
from tfn.profiler.kernel_events import named, work_of
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P


def normalised(x: Any) -> Any:
    y = x @ x
    return y / y.sum(axis=1, keepdims=True)


def test_kernels_have_the_names_of_their_function_and_operations() -> None:
    f = tfn.jit(normalised)
    f(jnp.ones((128, 128)))
    with profiler.trace() as block:
        f(jnp.ones((128, 128)))
    assert block.profile is not None
    kernels = [event for event in block.profile.events if event.kind == "kernel"]
    assert {event.name for event in kernels} >= {"normalised 0 dot_general"}
    work = work_of(kernels[0])
    assert work is not None and work.flops == 2 * 128**3
    waits = {event.name for event in block.profile.events if event.kind == "wait"}
    assert waits <= {"normalised"}


def test_kernels_of_programs_that_are_gone_keep_a_name() -> None:
    (event,) = named([Event("kernel", "p12", 5, 7, number=1 << 40, launch=3)])
    assert event.name == "p12 3" and work_of(event) is None
    gc.collect()


@pytest.mark.usefixtures("eight_devices")
def test_collectives_are_events_of_the_kernels_that_do_them() -> None:
    mesh = tfn.make_mesh((8,), ("data",))
    x = tfn.device_put(np.ones((64, 32), "float32"), NamedSharding(mesh, P("data")))
    step = tfn.jit(lambda w, x: w - tfn.grad(lambda w: jnp.tanh(x @ w).sum())(w))
    w = jnp.ones((32, 16))
    step(w, x)
    with profiler.trace() as block:
        step(w, x)
    assert block.profile is not None
    (moved,) = [event for event in block.profile.events if event.kind == "collective"]
    size_bytes = 32 * 16 * 4 * 2 * 7 // 8
    assert (moved.name, moved.moved_bytes) == ("all_reduce over data", size_bytes)
    kernel = next(e for e in block.profile.events if moved.detail.endswith(f"into {e.name}"))
    assert kernel.begin_ns == moved.begin_ns == moved.end_ns and kernel.kind == "kernel"
    assert "dot_general" in kernel.name
    (line,) = [row for row in str(block.profile).splitlines() if row.startswith("collective")]
    assert "fused" in line and f"{size_bytes:,} B" in line


def test_other_events_stay_as_they_are() -> None:
    listed = [Event("program", "f", 0, 10), Event("annotation", "a", 2, 3)]
    assert named(listed) == listed
