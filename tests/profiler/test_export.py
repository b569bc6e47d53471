"""Formats: Chrome traces, speedscope profiles that nest, CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tfn._support.events import Event
from tfn.profiler.export import chrome_text, csv_text, speedscope_text, tracks

LISTED = [
    Event("annotation", "step", 1000, 9000, thread=7, detail="number=3"),
    Event("program", "f", 2000, 3000, calls=4),
    Event("program", "g", 4000, 8000),
]


def test_chrome_traces_are_complete_events_in_microseconds() -> None:
    data = json.loads(chrome_text(LISTED, 1000))
    rows = {row["name"]: row for row in data["traceEvents"] if row["ph"] == "X"}
    assert (rows["step"]["ts"], rows["step"]["dur"]) == (0.0, 8.0)
    assert rows["step"]["args"] == {"detail": "number=3"} and rows["step"]["cat"] == "annotation"
    assert rows["f"]["args"] == {"stands for calls": 4}
    assert len({row["tid"] for row in rows.values()}) == 1  # one thread: native calls are its own
    heads = [row for row in data["traceEvents"] if row["ph"] == "M"]
    assert {row["name"] for row in heads} == {"process_name", "thread_name"}
    for row in data["traceEvents"]:
        assert {"ph", "pid", "tid", "name"} <= row.keys()


def test_native_calls_of_several_threads_have_tracks_without_overlap() -> None:
    listed = [
        Event("annotation", "a", 0, 100, thread=1),
        Event("annotation", "b", 0, 100, thread=2),
        Event("program", "f", 10, 50),
        Event("program", "g", 20, 40),
        Event("program", "h", 50, 60),
    ]
    made = tracks(listed)
    assert {name: [event.name for event in row] for name, row in made.items()} == {
        "thread 0": ["a"],
        "thread 1": ["b"],
        "programs 0": ["f", "h"],
        "programs 1": ["g"],
    }


events = st.builds(
    lambda name, begin, length, thread: Event("program", name, begin, begin + length, thread),
    st.sampled_from("abc"),
    st.integers(0, 50),
    st.integers(0, 30),
    st.integers(0, 2),
)


@given(st.lists(events, max_size=12))
def test_speedscope_profiles_open_and_close_in_order(listed: list[Event]) -> None:
    data = json.loads(speedscope_text(listed, 0))
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames: list[Any] = data["shared"]["frames"]
    opened = 0
    for profile in data["profiles"]:
        assert profile["type"] == "evented" and profile["unit"] == "nanoseconds"
        stack: list[int] = []
        last = profile["startValue"]
        for change in profile["events"]:
            assert change["at"] >= last and 0 <= change["frame"] < len(frames)
            last = change["at"]
            if change["type"] == "O":
                stack.append(change["frame"])
                opened += 1
            else:
                assert stack.pop() == change["frame"]
        assert not stack and profile["endValue"] >= last
    assert opened == len(listed)


def test_csv_has_a_line_for_each_event() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(LISTED, 1000))))
    assert [row["name"] for row in rows] == ["step", "f", "g"]
    assert rows[0]["begin_ns"] == "0" and rows[0]["duration_ns"] == "8000"
    assert rows[0]["detail"] == "number=3" and rows[1]["calls"] == "4"
