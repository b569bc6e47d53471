"""Event log: a ring of the latest, switched on and off, with the logs of native calls."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tfn._support import events


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(events, "_EVENTS", events.deque(maxlen=4))
    monkeypatch.setattr(events, "_ADDED", [0])
    monkeypatch.setattr(events, "_COUNT", events.itertools.count())
    monkeypatch.setattr(events, "NATIVE", [])
    monkeypatch.setattr(events, "SWITCHES", [])
    yield
    events.enable(True)


def test_the_latest_events_are_kept() -> None:
    for i in range(6):
        events.add("kind", str(i), time.perf_counter_ns())
    listed, dropped = events.events()
    assert [event.name for event in listed] == ["2", "3", "4", "5"] and dropped == 2
    assert all(event.duration_ns >= 0 and event.thread for event in listed)


def test_nothing_is_added_while_it_is_off() -> None:
    told = []
    events.SWITCHES.append(lambda: told.append((events.enabled(), events.every_call())))
    events.enable(False)
    events.add("kind", "name", 0)
    events.enable(True, every=True)
    assert events.events() == ([], 0) and told == [(False, False), (True, True)]


def test_native_calls_are_among_the_others_in_order() -> None:
    number, kept = events.number_of("f", lambda: None)
    assert events.named(number) is kept
    events.NATIVE.append(lambda: ([events.CallRow(number, 1, 3, 4, 5)], 9))
    events.add("kind", "later", time.perf_counter_ns())
    listed, dropped = events.events()
    assert [event.name for event in listed] == ["f", "later"] and dropped == 9
    assert (listed[0].calls, listed[0].number, listed[0].duration_ns) == (4, number, 2)
