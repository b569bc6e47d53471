"""Buffers of traces: makers, last readers and ends, of eager arrays, views and donated ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn import profiler
from tfn._support import events
from tfn._support.events import Use
from tfn.profiler import buffers
from tfn.profiler.buffers import BufferLife, lives, peak

SIZE = 5000
"""Elements of the arrays of a test, by which their buffers are told from all others."""


def traced(run: Callable[[], Any], size: int = SIZE) -> list[BufferLife]:
    """The lives of float32 arrays of a size in the block of a trace."""
    with profiler.trace() as block:
        kept = run()
    assert block.profile is not None
    del kept
    return [x for x in block.profile.buffers if x.size_bytes == 4 * size and not x.is_work]


def known(listed: list[BufferLife]) -> list[tuple[str, str, bool]]:
    return [(life.made_by, life.last_read_by, bool(life.freed_ns)) for life in listed]


def chain(x: Any) -> Any:
    y = x * 2
    z = jnp.exp(y)
    y.sum()
    return z + 1


@pytest.mark.parametrize("warm", [True, False])
def test_each_eager_array_has_its_maker_and_last_reader(warm: bool) -> None:
    """Calls of native entries, and the first ones, which go by way of Python."""
    size = SIZE + warm
    x = jnp.ones(size)
    if warm:
        chain(x)
    listed = traced(lambda: chain(x), size)
    assert known(listed) == [
        ("", "mul", False),  # made before the trace
        ("mul", "reduce", True),
        ("exp", "add", True),
        ("add", "", False),
    ]
    assert [life.reads for life in listed] == [1, 2, 1, 0]
    for life in listed[1:3]:
        assert 0 < life.made_ns < life.last_read_ns < life.freed_ns


def test_data_of_python_are_made_and_read_by_the_host() -> None:
    def run() -> None:
        x = jnp.asarray(np.ones(SIZE, np.float32))
        np.asarray(x)

    assert known(traced(run)) == [("host", "host", True)]


def test_arrays_that_share_numpys_memory_are_known_from_their_making() -> None:
    data = np.frombuffer(bytearray(4 * SIZE + 64), np.uint8)
    start = -data.__array_interface__["data"][0] % 64
    aligned = data[start : start + 4 * SIZE].view(np.float32)

    def run() -> None:
        x = jnp.asarray(aligned, copy=False)
        x + 1

    assert known(traced(run))[0] == ("host", "add", True)


def test_views_are_one_buffer_with_what_they_are_views_of() -> None:
    def run() -> Any:
        x = jnp.ones(SIZE) * 3
        view = x.reshape(50, -1)
        del x
        return (view + 1).sum()

    run()
    listed = known(traced(run))
    assert ("mul", "add", True) in listed
    assert sum(maker == "mul" for maker, _, _ in listed) == 1


def test_results_of_programs_that_are_their_arguments_are_no_new_buffers() -> None:
    same = tfn.jit(lambda x: (x, x + 1))
    x = jnp.ones(SIZE)
    same(x)
    listed = traced(lambda: same(x))
    assert known(listed) == [("", "<lambda>", False), ("<lambda>", "", False)]


def test_donated_buffers_begin_anew_as_results() -> None:
    def update(weights: Any, gradient: Any) -> Any:
        return weights - gradient

    step = tfn.jit(update, donate_argnums=0)

    def run() -> Any:
        weights = jnp.zeros(SIZE) + 1
        for _ in range(3):
            weights = step(weights, x)
        return weights

    x = jnp.ones(SIZE)
    run()
    listed = [life for life in traced(run) if life.made_by in ("add", "update")]
    assert known(listed) == [("add", "update", True)] + [("update", "update", True)] * 2 + [
        ("update", "", False)
    ]
    ends = [life.freed_ns for life in listed[:-1]]
    assert ends == [life.made_ns for life in listed[1:]]  # handed on at the same moment


def test_working_memory_is_that_of_its_program() -> None:
    f = tfn.jit(lambda x: jnp.sin(x @ x) @ x)
    x = jnp.ones((90, 90))
    f(x)
    with profiler.trace() as block:
        f(x)
    assert block.profile is not None
    (work,) = [life for life in block.profile.buffers if life.is_work]
    assert work.maker == "working memory of <lambda>" and work.size_bytes >= 4 * 90 * 90
    assert work.freed_ns and not work.reads


def test_threads_do_not_take_each_others_buffers() -> None:
    """Each thread makes arrays of a size of its own, by an operation of its own."""
    operations = {"mul": lambda x: x * 2, "add": lambda x: x + 2, "sub": lambda x: x - 2}
    starts = {name: jnp.ones(SIZE + i) for i, name in enumerate(operations)}
    long = tfn.jit(lambda x: (x @ x).sum())  # runs without the interpreter's lock
    square = jnp.ones((300, 300))
    long(square)

    def work(name: str) -> None:
        x = starts[name]
        for _ in range(40):
            x = operations[name](x)
            long(square)

    def run() -> None:
        threads = [threading.Thread(target=work, args=(name,)) for name in operations]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    for name in operations:
        work(name)
    with profiler.trace() as block:
        run()
    assert block.profile is not None
    for i, name in enumerate(operations):
        size_bytes = 4 * (SIZE + i)
        mine = [x for x in block.profile.buffers if x.size_bytes == size_bytes and x.made_by]
        assert known(mine) == [(name, name, True)] * 39 + [(name, "", True)]


def test_devices_without_native_code_say_as_much() -> None:
    before = tfn.config.device
    tfn.config.device = "python"
    try:
        listed = traced(lambda: chain(jnp.asarray(np.ones(SIZE, np.float32))))
    finally:
        tfn.config.device = before
    assert known(listed) == [
        ("host", "mul", True),
        ("mul", "reduce", True),
        ("exp", "add", True),
        ("add", "", False),
    ]


def test_a_trace_knows_nothing_of_the_trace_before() -> None:
    def run() -> Any:
        return jnp.ones(SIZE) * 5

    traced(run)
    x = run()
    listed = traced(lambda: x + 1)
    assert known(listed) == [("", "add", False), ("add", "", False)]
    assert not events.uses_kept() and profiler.latest().buffers == ()


def uses(*rows: tuple[str, str, int]) -> list[Use]:
    return [Use(what, name, buffer, 8, 10 * i) for i, (what, name, buffer) in enumerate(rows, 1)]


def test_the_ring_may_have_lost_how_a_buffer_began() -> None:
    log = uses(("free", "", 1), ("read", "f", 2), ("write", "f", 2), ("write", "g", 3))
    assert known(lives([log])) == [("", "f", True), ("f", "", False), ("g", "", False)]


def test_memory_that_is_allocated_again_is_another_buffer() -> None:
    log = uses(("allocate", "", 1), ("write", "f", 1), ("free", "", 1), ("allocate", "", 1))
    first, second = lives([log, []])
    assert first.maker == "f" and first.freed_ns == 30
    assert (second.made_ns, second.freed_ns) == (40, 0)


def test_the_peak_is_the_moment_of_most_bytes() -> None:
    listed = [
        BufferLife(100, "f", 10, freed_ns=30),
        BufferLife(50, "g", 20, freed_ns=30),
        BufferLife(120, "h", 30),
        BufferLife(10, "", 0),
    ]
    at = peak(listed)
    assert (at.at_ns, at.size_bytes) == (20, 160)
    assert [life.size_bytes for life in at.alive] == [100, 50, 10]
    assert peak([]).size_bytes == 0


def test_the_table_of_a_trace_ends_with_its_peak() -> None:
    chain(jnp.ones(SIZE))
    with profiler.trace() as block:
        chain(jnp.ones(SIZE))
    text = block.profile.as_text(100)  # type: ignore[union-attr]
    head, *rows = text[text.index("buffers at the peak") :].splitlines()
    assert head.startswith("buffers at the peak, ") and "kB at" in head
    cells = [row.split() for row in rows]
    assert any({"20.0", "exp", "add"} <= set(row) for row in cells), text
    assert max(map(len, text.splitlines())) <= 100
    assert buffers.as_text([], 0, 100) == ""
