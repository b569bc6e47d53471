"""Use log: rows of native code and of Python, which are kept while each call is timed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.hw.entries import device, entry, toy
from tfn._support import events
from tfn.hw.cpu import native
from tfn.hw.cpu.use_log import UseLog


@pytest.fixture
def log() -> Iterator[tuple[Any, UseLog]]:
    own = device()
    dispatch: Any = own.queue.dispatch  # type: ignore[attr-defined]
    yield own, dispatch.uses
    events.enable(True)


def test_nothing_is_logged_outside_of_traces(log: Any) -> None:
    own, ring = log
    entry(own)(toy(own))
    assert ring.uses() == ([], 0) and ring._ring is None


def test_a_call_reads_its_arguments_and_writes_its_results(log: Any) -> None:
    own, ring = log
    call, x = entry(own), toy(own)
    events.enable(True, every=True)
    y = call(x)
    rows, older = ring.uses()
    made, read = id(y.buffer), id(x.buffer)
    assert [(row.what, row.buffer) for row in rows if row.what != "work"] == [
        ("allocate", made),
        ("read", read),
        ("write", made),
    ]
    assert older == 0 and {row.size_bytes for row in rows} == {x.buffer.size_bytes}
    del y
    assert (ring.uses()[0][-1].what, ring.uses()[0][-1].buffer) == ("free", made)
    times = [row.at_ns for row in ring.uses()[0]]
    assert times == sorted(times)


def test_rows_of_python_stand_between_those_of_native_code(log: Any) -> None:
    own, ring = log
    events.enable(True, every=True)
    x = toy(own)
    events.use("read", "mine", x.buffer)
    rows, _ = ring.uses()
    assert [(row.what, row.name) for row in rows] == [
        ("allocate", ""),
        ("write", events.HOST),
        ("read", "mine"),
    ]


def test_each_trace_begins_with_an_empty_ring(log: Any) -> None:
    own, ring = log
    events.enable(True, every=True)
    x = toy(own)
    events.enable(True)
    del x
    assert [row.what for row in ring.uses()[0]] == ["allocate", "write"]
    events.enable(True, every=True)
    assert ring.uses() == ([], 0)


def test_the_ring_keeps_the_latest(log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own, ring = log
    x = toy(own)
    events.enable(True, every=True)
    for _ in range(native.USE_ROWS + 7):
        ring.add("read", "f", x.buffer)
    ring.add("read", "last", x.buffer)
    rows, older = ring.uses()
    assert len(rows) == native.USE_ROWS and older == 8
    assert (rows[-1].name, rows[0].name) == ("last", "f")
