"""Kernel log: rows of launches, on each thread, in loops and around callbacks."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn import profiler
from tfn._support import events
from tfn.config import config
from tfn.eager import run
from tfn.lower.program import LOG_ROWS, MAX_TIMED_LAUNCHES, Program, launch_count


@pytest.fixture
def running() -> Iterator[None]:
    before = events.enabled(), events.every_call()
    yield
    events.enable(*before)


def traced(function: Any, *args: Any, calls: int = 1) -> list[events.Event]:
    """The events of kernels and waits of some calls of a function, by their begin."""
    jitted = tfn.jit(function)
    jitted(*args)
    with profiler.trace() as block:
        for _ in range(calls):
            jitted(*args)
    assert block.profile is not None
    return [event for event in block.profile.events if event.launch >= 0]


def two_kernels(x: Any) -> Any:
    y = jnp.tanh(x @ x)
    return y / y.sum(axis=1, keepdims=True)


def test_each_launch_of_each_call_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "threads", 1)
    listed = traced(two_kernels, jnp.ones((64, 64)), calls=5)
    kernels = [event for event in listed if event.kind == "kernel"]
    launches = sorted({event.launch for event in kernels})
    assert launches == list(range(len(launches))) and len(launches) > 1
    assert len(kernels) == 5 * len(launches)
    assert all(event.end_ns <= later.begin_ns for event, later in itertools.pairwise(kernels))
    assert all(event.worker == 0 for event in listed)


def test_threads_log_their_kernels_and_their_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "threads", 2)
    x = jnp.ones((300, 300))
    for _ in range(20):  # a worker that was not awake in time takes no part
        listed = traced(two_kernels, x, calls=10)
        if {event.worker for event in listed} == {0, 1}:
            break
    assert {event.worker for event in listed} == {0, 1}
    assert any(event.kind == "wait" and event.duration_ns > 0 for event in listed)


def test_kernels_lie_within_their_call() -> None:
    f = tfn.jit(two_kernels)
    x = jnp.ones((256, 256))
    f(x)
    with profiler.trace() as block:
        f(x)
    assert block.profile is not None
    (call,) = [event for event in block.profile.events if event.kind == "program"]
    kernels = [event for event in block.profile.events if event.kind == "kernel"]
    assert kernels and all(call.begin_ns <= e.begin_ns <= e.end_ns <= call.end_ns for e in kernels)
    own_ns = sum(event.duration_ns for event in kernels if event.worker == 0)
    assert own_ns <= call.duration_ns


def test_a_kernel_in_a_loop_has_one_row_with_all_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "threads", 1)

    def looped(h: Any, w: Any) -> Any:
        return tfn.lax.scan(lambda h, _: (two_kernels(h @ w), None), h, None, 7)[0]

    kernels = traced(looped, jnp.ones((64, 64)), jnp.ones((64, 64)), calls=2)
    assert {event.calls for event in kernels} >= {7}
    assert len(kernels) == 2 * len({event.launch for event in kernels})


def test_the_time_of_a_callback_is_no_kernel() -> None:
    def slow(x: Any) -> np.ndarray[Any, Any]:
        time.sleep(0.02)
        return np.asarray(x)

    def called(x: Any) -> Any:
        y = x @ x
        y = tfn.pure_callback(slow, y, y)
        return (y @ y).sum()

    kernels = [e for e in traced(called, jnp.ones((32, 32))) if e.kind == "kernel"]
    assert kernels and all(event.duration_ns < 10_000_000 for event in kernels)


def test_short_kernels_are_logged_in_traces_only(running: None) -> None:
    f = tfn.jit(two_kernels)
    x = jnp.ones((4, 4))
    f(x)
    log = run.device("cpu").queue.dispatch.kernels  # type: ignore[attr-defined]
    before = log._ring[0]
    f(x)
    assert log._ring[0] == before
    with profiler.trace():
        f(x)
    assert log._ring[0] > before


def test_the_log_goes_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "threads", 1)
    log = run.device("cpu").queue.dispatch.kernels  # type: ignore[attr-defined]
    log._ring[0] += LOG_ROWS
    listed = traced(two_kernels, jnp.ones((64, 64)), calls=3)
    assert len([event for event in listed if event.kind == "kernel"]) >= 6
    assert len(log.rows()) <= LOG_ROWS + MAX_TIMED_LAUNCHES


def test_programs_of_one_kernel_have_no_rows() -> None:
    assert traced(lambda x: x + 1, jnp.ones(8)) == []


def test_launches_are_counted_with_the_trips_of_loops() -> None:
    def looped(h: Any) -> Any:
        return tfn.lax.scan(lambda h, _: (two_kernels(h), None), h, None, 9)[0]

    loaded = run.load(tfn.jit(looped).trace(jnp.ones((64, 64))).jaxpr)
    program: Program = loaded.program
    assert launch_count(program.steps) >= 9 * 2 > len(program.launches)
