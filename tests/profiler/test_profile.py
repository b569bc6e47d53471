"""Profiles: events of programs, traces, annotations, and the cost of keeping them."""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
from tfn import profiler
from tfn._support import events
from tfn.errors import ArgumentError


def names(profile: Any, kind: str = "program") -> list[str]:
    return [event.name for event in profile.events if event.kind == kind]


@pytest.fixture
def running() -> Iterator[None]:
    before = events.enabled(), events.every_call()
    yield
    events.enable(*before)


def test_a_trace_has_each_call_by_the_name_of_the_function() -> None:
    @tfn.jit
    def triple(x: Any) -> Any:
        return 3 * x

    x = tfn.numpy.ones(4)
    with profiler.trace() as block:
        for _ in range(10):
            triple(x)
    assert block.profile is not None
    assert names(block.profile).count("triple") == 10
    assert names(block.profile, "trace") == ["triple"]
    assert len(names(block.profile, "lower")) == len(names(block.profile, "compile")) == 1
    for event in block.profile.events:
        assert block.begin_ns <= event.begin_ns <= event.end_ns <= block.profile.end_ns


def test_a_trace_is_shown_as_its_profile() -> None:
    with profiler.trace() as block:
        tfn.numpy.ones(3) + 1
        assert str(block) == block._repr_html_() == "a trace that runs"
    assert block.profile is not None and str(block) == str(block.profile)
    assert block._repr_html_().startswith("<div><svg")


def test_all_calls_are_counted_though_some_are_timed() -> None:
    @tfn.jit
    def fourfold(x: Any) -> Any:
        return 4 * x

    x = tfn.numpy.ones(4)
    for _ in range(1001):  # one of them compiles
        fourfold(x)
    calls = [event for event in profiler.latest().events if event.name == "fourfold"]
    counted = sum(event.calls for event in calls if event.kind == "program")
    assert 996 <= counted <= 1002
    assert len(calls) < 400


def test_times_are_those_of_the_program() -> None:
    f = tfn.jit(lambda x: (x @ x).sum())
    x = tfn.numpy.ones((600, 600))
    f(x)
    with profiler.trace() as block:
        begin_ns = time.perf_counter_ns()
        f(x)
        took_ns = time.perf_counter_ns() - begin_ns
    assert block.profile is not None
    (event,) = [event for event in block.profile.events if event.kind == "program"]
    assert begin_ns - 50_000 < event.begin_ns and event.end_ns < begin_ns + took_ns + 50_000
    assert event.duration_ns > took_ns / 2


def test_eager_operations_have_the_names_of_their_ops() -> None:
    x = tfn.numpy.ones(4)
    with profiler.trace() as block:
        y = x * 2 + 1
        tfn.numpy.exp(y)
    assert block.profile is not None
    assert names(block.profile) == ["mul", "add", "exp"]


def test_recompilations_say_what_changed() -> None:
    @tfn.jit
    def grown(x: Any) -> Any:
        return x + 1

    with profiler.trace() as block:
        grown(tfn.numpy.ones(3))
        grown(tfn.numpy.ones(5))
    assert block.profile is not None
    reasons = [event.detail for event in block.profile.events if event.kind == "trace"]
    assert reasons == ["the first call", "x: f32[5] instead of f32[3]"]
    assert "compiled grown: x: f32[5] instead of f32[3]" in str(block.profile)


def test_callbacks_of_the_host_are_events() -> None:
    def seen(x: Any) -> None:
        time.sleep(0.002)

    def f(x: Any) -> Any:
        tfn.debug.callback(seen, x)
        return x * 2

    with profiler.trace() as block:
        tfn.jit(f)(tfn.numpy.ones(3))
        tfn.effects_barrier()
    assert block.profile is not None
    (event,) = [event for event in block.profile.events if event.kind == "host"]
    assert event.name == "seen" and event.duration_ns > 2_000_000


def test_annotations_nest_and_carry_details() -> None:
    @profiler.annotate("inner")
    def work() -> None:
        time.sleep(0.001)

    with profiler.trace() as block, profiler.annotate("outer", number=3):
        work()
        profiler.annotate_function(work, "renamed")()
    assert block.profile is not None
    outer = next(event for event in block.profile.events if event.name == "outer")
    inner = [event for event in block.profile.events if event.name == "inner"]
    assert outer.detail == "number=3" and len(inner) == 2
    assert all(outer.begin_ns <= e.begin_ns and e.end_ns <= outer.end_ns for e in inner)
    assert "renamed" in names(block.profile, "annotation")


def test_the_log_can_be_switched_off(running: None) -> None:
    double = tfn.jit(lambda x: 2 * x)
    x = tfn.numpy.ones(4)
    double(x)
    profiler.enable(False)
    with profiler.annotate("unseen"):
        double(x)
    listed = profiler.latest().events
    assert "unseen" not in {event.name for event in listed}
    profiler.enable(True)
    with profiler.annotate("seen"):
        pass
    assert profiler.latest().events[-1].name == "seen"


def test_a_trace_leaves_the_log_as_it_was(running: None) -> None:
    profiler.enable(False)
    with profiler.trace():
        assert events.enabled() and events.every_call()
    assert not events.enabled()


def test_programs_of_several_threads_are_all_seen() -> None:
    f = tfn.jit(lambda x: x + 1)
    x = tfn.numpy.ones(4)
    f(x)
    with profiler.trace() as block:
        threads = [threading.Thread(target=lambda: [f(x) for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert block.profile is not None
    assert sum(event.calls for event in block.profile.events) == 200


def test_jax_begins_and_ends_traces_by_name(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no trace runs"):
        profiler.stop_trace()
    profiler.start_trace(tmp_path / "folder")
    with pytest.raises(ArgumentError, match="runs already"):
        profiler.start_trace(tmp_path / "other")
    with profiler.StepTraceAnnotation("train", step_num=1), profiler.TraceAnnotation("part"):
        tfn.numpy.ones(3) + 1
    profiler.stop_trace()
    rows = json.loads((tmp_path / "folder" / "trace.json").read_text())["traceEvents"]
    assert {"train", "part"} <= {row["name"] for row in rows}


def test_formats_follow_the_name_of_the_file(tmp_path: Path) -> None:
    for name, start in {
        "a.json": '{"traceEvents"',
        "b.speedscope.json": '{"$schema"',
        "c.csv": "kind,name,begin_ns",
        "d.html": "<!doctype html>",
    }.items():
        with profiler.trace(tmp_path / name):
            tfn.numpy.ones(3) * 2
        assert (tmp_path / name).read_text().startswith(start)
    assert profiler.latest().save(tmp_path / "e.pb.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_names_live_as_long_as_their_programs() -> None:
    first, kept = events.number_of("kept", lambda: None)
    other, dropped = events.number_of("dropped", lambda: None)
    del dropped
    assert events.named(other).name == "dropped"  # it is among the latest
    for _ in range(events.MAX_NAMES):
        events.number_of("f", lambda: None)
    gc.collect()
    assert events.named(first) is kept and events.named(other).name == f"program {other}"
    assert len(events._RECENT) == events.MAX_NAMES


def test_results_are_the_same_while_calls_are_logged(running: None) -> None:
    f = tfn.jit(lambda x: tfn.numpy.sin(x).sum())
    x = tfn.numpy.arange(100.0)
    logged = np.asarray(f(x))
    profiler.enable(False)
    assert np.array_equal(np.asarray(f(x)), logged)
