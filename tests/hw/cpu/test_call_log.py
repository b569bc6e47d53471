"""Call log: rows of native calls, sampled or all, on the clock of Python."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hw.entries import device, entry, toy
from tfn._support import events
from tfn.hw.cpu import native
from tfn.hw.cpu.call_log import TIMED_PERIOD, CallLog


@pytest.fixture
def log() -> Iterator[tuple[Any, CallLog]]:
    own = device()
    dispatch: Any = own.queue.dispatch  # type: ignore[attr-defined]
    yield own, dispatch.log
    events.enable(True)


def test_one_call_of_a_few_is_timed_and_all_are_counted(log: Any) -> None:
    own, ring = log
    call, x = entry(own), toy(own)
    for _ in range(10 * TIMED_PERIOD + 1):
        call(x)
    rows, older = ring.calls()
    assert len(rows) == 11 and older == 0
    assert sum(row[3] for row in rows) == 10 * TIMED_PERIOD + 1


def test_each_call_is_timed_on_request(log: Any) -> None:
    own, ring = log
    call, x = entry(own), toy(own)
    events.enable(True, every=True)
    begin_ns = time.perf_counter_ns()
    for _ in range(9):
        call(x)
    rows, _ = ring.calls()
    assert [row[3] for row in rows] == [1] * 9
    times = [ns for _, begin, end, _, _ in rows for ns in (begin, end)]
    assert times == sorted(times)
    slack_ns = 100_000  # of two readings of both clocks
    assert begin_ns - slack_ns < times[0] and times[-1] < time.perf_counter_ns() + slack_ns


def test_the_ring_keeps_the_latest(log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own, ring = log
    call, x = entry(own), toy(own)
    events.enable(True, every=True)
    for _ in range(native.RING_ROWS + 5):
        call(x)
    rows, older = ring.calls()
    assert len(rows) == native.RING_ROWS and older == 5
    assert {row[3] for row in rows} == {1}


def test_a_log_that_is_off_has_no_rows(log: Any) -> None:
    own, ring = log
    events.enable(False)
    call, x = entry(own), toy(own)
    call(x)
    assert ring.calls() == ([], 0)


def test_refused_calls_are_no_calls(log: Any) -> None:
    own, ring = log
    call = entry(own)
    assert call(toy(device())) is NotImplemented
    assert call() is NotImplemented
    assert ring.calls()[0] == []
