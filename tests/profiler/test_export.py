"""Formats: Chrome traces as Perfetto reads them, speedscope profiles by its schema, CSV."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

import tfn
from tests.perfetto import MISSING, Perfetto
from tfn import numpy as jnp
from tfn import profiler
from tfn._support.events import Event
from tfn.profiler.buffers import BufferLife
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


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_the_trace_processor_of_perfetto_reads_what_was_written(tmp_path: Path) -> None:
    """Slices, how they nest, their tracks, times and arguments, and the counter of memory."""

    @tfn.jit
    def step(x: Any) -> Any:
        tfn.debug.callback(lambda _: None, x[0])
        return jnp.exp(x @ x).sum(axis=1)

    x = jnp.ones((300, 300)) / 300
    with profiler.trace(tmp_path / "step.json") as block:
        for number in range(3):
            with profiler.annotate('step ×2 of "training"', number=number):
                step(x)
    assert block.profile is not None
    listed, begin_ns = block.profile.events, block.profile.begin_ns
    assert {event.kind for event in listed} >= {"kernel", "program", "host", "annotation"}
    with Perfetto((tmp_path / "step.json").read_bytes()) as trace:
        wrong = "select name, value from stats where severity in ('error', 'data_loss') and value"
        assert trace.query(wrong) == []
        slices = trace.query(
            "select category, s.name, ts, dur from slice s join thread_track on track_id = "
            "thread_track.id join thread using (utid) order by ts, dur, s.name"
        )
        written = [
            (event.kind, event.name, event.begin_ns - begin_ns, event.duration_ns)
            for event in listed
        ]
        assert slices == sorted(written, key=lambda row: (row[2], row[3], row[1]))
        kept = trace.query(
            "select s.name, dur, extract_arg(s.arg_set_id, 'args.last read by') from slice s "
            "join process_track t on track_id = t.id where category = 'buffer' order by s.id"
        )
        assert len(kept) == len(block.profile.buffers) > 3
        assert ("step", "nothing") in {(name, reader) for name, _, reader in kept}
        assert all(duration > 0 for _, duration, _ in kept)
        names = trace.query("select name from thread where name is not null order by name")
        assert names == [(name,) for name in sorted(tracks(listed))]
        assert trace.query("select name from process where name is not null") == [("tfn",)]
        nested = (
            "select c.category, p.category, count(*) from slice c join slice p on c.parent_id = "
            "p.id where c.category = 'program' group by 1, 2"
        )
        assert trace.query(nested) == [("program", "annotation", 3)]
        counted = "select ts, value from counter join track on track_id = track.id order by ts"
        live = [(e.end_ns - begin_ns, float(e.live_bytes)) for e in listed if e.live_bytes]
        assert trace.query(counted) == sorted(live)
        details = (
            "select display_value from args join slice using (arg_set_id) where "
            "args.key = 'args.detail' and category = 'annotation' order by ts"
        )
        assert trace.query(details) == [("number=0",), ("number=1",), ("number=2",)]


def test_threads_that_look_for_compiled_code_call_no_program() -> None:
    listed = [
        Event("annotation", "a", 0, 100, thread=1),
        Event("cache", "disk miss", 5, 20, thread=2),
        Event("program", "f", 30, 50),
    ]
    made = {name: [event.name for event in row] for name, row in tracks(listed).items()}
    assert made == {"thread 0": ["a", "f"], "thread 1": ["disk miss"]}


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


SPEEDSCOPE = "speedscope@1.25.0"


def test_speedscope_profiles_have_its_schema(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm, by which speedscope's schema comes")
    fetch = [npm, "pack", SPEEDSCOPE, "--prefer-offline", "--silent"]
    got = subprocess.run(fetch, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    if got.returncode:
        pytest.skip(f"npm cannot fetch speedscope: {got.stderr.strip()[:200]}")
    with tarfile.open(next(tmp_path.glob("*.tgz"))) as package:
        schema = package.extractfile("package/dist/release/file-format-schema.json")
        assert schema is not None
        valid = Draft7Validator(json.load(schema))
    valid.validate(json.loads(speedscope_text(LISTED, 1000)))
    with profiler.trace(tmp_path / "step.speedscope.json"):
        tfn.jit(lambda x: (x @ x).sum())(jnp.ones((300, 300)))
    written = json.loads((tmp_path / "step.speedscope.json").read_text())
    valid.validate(written)
    written["profiles"][0]["unit"] = "fortnights"
    assert not valid.is_valid(written)


def test_csv_has_a_line_for_each_event() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(LISTED, 1000))))
    assert [row["name"] for row in rows] == ["step", "f", "g"]
    assert rows[0]["begin_ns"] == "0" and rows[0]["duration_ns"] == "8000"
    assert rows[0]["detail"] == "number=3" and rows[1]["calls"] == "4"


def test_csv_has_a_line_for_each_buffer() -> None:
    life = BufferLife(64, "mul", 2000, False, "add", 2500, 1, 3000)
    old = BufferLife(32, last_read_by="add", last_read_ns=2500, reads=1)
    rows = list(csv.DictReader(io.StringIO(csv_text(LISTED, 1000, 9000, [life, old]))))
    assert [row["kind"] for row in rows[-2:]] == ["buffer", "buffer"]
    assert [row["name"] for row in rows[-2:]] == ["mul", "before the trace"]
    assert [(row["begin_ns"], row["duration_ns"]) for row in rows[-2:]] == [
        ("1000", "1000"),
        ("0", "8000"),
    ]
    assert rows[-2]["detail"].startswith("made by mul at 1.00 us, last read by add at 1.50 us")
    assert rows[-1]["live_bytes"] == "32"
