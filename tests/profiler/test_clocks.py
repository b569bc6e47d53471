"""Traces of several processes on one clock: of the machine, of the job, of the day."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tfn
from tests.distributed.jobs import needs_mpi, run
from tests.perfetto import MISSING, Perfetto
from tfn import profiler
from tfn._support.events import Event
from tfn.errors import ArgumentError
from tfn.profiler.export import chrome_text


def written(path: Path, begin_ns: int, **facts: Any) -> Path:
    """A trace of one event that begins 1 us after the zero of its clock."""
    listed = [Event("annotation", "step", begin_ns + 1000, begin_ns + 3000, thread=1)]
    data = json.loads(chrome_text(listed, begin_ns))
    data["otherData"]["tfn"] |= facts
    path.write_text(json.dumps(data))
    return path


def begins(path: Path) -> list[float]:
    rows = json.loads(path.read_text())["traceEvents"]
    return [row["ts"] for row in rows if row["ph"] == "X"]


def clock(path: Path) -> str:
    return str(json.loads(path.read_text())["otherData"]["clock"])


def test_processes_of_one_machine_have_one_clock(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a.json", 5_000), written(tmp_path / "b.json", 12_500)
    merged = profiler.merge([a, b], tmp_path / "all.json")
    assert begins(merged) == [1.0, 8.5] and clock(merged) == "of the machine"
    rows = json.loads(merged.read_text())["traceEvents"]
    assert {row["pid"] for row in rows} == {0, 1}  # though both have the number of this process


def test_hosts_of_one_job_are_on_the_clock_of_process_0(tmp_path: Path) -> None:
    first = written(tmp_path / "a.json", 5_000, boot="x", job="j", ahead_ns=0)
    ahead = written(tmp_path / "b.json", 1_005_000, boot="y", job="j", ahead_ns=1_000_500)
    merged = profiler.merge([first, ahead], tmp_path / "all.json")
    assert begins(merged) == [1.5, 1.0] and clock(merged) == "of process 0"


def test_all_others_go_by_the_time_of_day(tmp_path: Path) -> None:
    a = written(tmp_path / "a.json", 5_000, boot="x", unix_ns=10**18)
    b = written(tmp_path / "b.json", 900, boot="y", unix_ns=10**18 + 2_000)
    merged = profiler.merge([a, b], tmp_path / "all.json")
    assert begins(merged) == [1.0, 3.0] and clock(merged) == "of the day"
    # A machine that cannot say which boot it is of has no clock in common with another.
    for path in (a, b):
        written(path, 0, boot="")
    assert clock(profiler.merge([a, b], tmp_path / "all.json")) == "of the day"


@pytest.mark.parametrize("text", ["", "[]", '{"traceEvents": []}', "3"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ArgumentError, match="no trace of tfn"):
        profiler.merge([tmp_path / "a.json"], tmp_path / "all.json")
    with pytest.raises(ArgumentError, match="cannot read"):
        profiler.merge([tmp_path / "none.json"], tmp_path / "all.json")
    with pytest.raises(ArgumentError, match="needs traces"):
        profiler.merge([], tmp_path / "all.json")


@needs_mpi
@pytest.mark.parametrize("axis_type", ["Auto", "Explicit"])
def test_a_job_has_its_messages_on_one_clock(axis_type: str, tmp_path: Path) -> None:
    """Between the two processes of a job, steps wait for each other in the merged trace too."""
    done = run(2, "job_profile.py", str(tmp_path), axis_type, folder=tmp_path)
    assert done.stdout.splitlines() == ["as expected True"] * 2, done.stdout + done.stderr
    rows = json.loads((tmp_path / "job.json").read_text())["traceEvents"]
    gathered: dict[int, list[tuple[float, float]]] = {0: [], 1: []}
    for row in rows:
        if row["ph"] == "X" and row["name"] == "all_gather over data":
            gathered[row["pid"]].append((row["ts"], row["ts"] + row["dur"]))
    for (begin, end), (other_begin, other_end) in zip(*gathered.values(), strict=True):
        assert begin < other_end and other_begin < end  # none ends before the other has begun
    if not MISSING:
        with Perfetto((tmp_path / "job.json").read_bytes()) as trace:
            assert trace.query("select value from stats where severity = 'error' and value") == []
            names = trace.query("select name from process where name is not null order by 1")
            assert [str(name).split(" on ")[0] for (name,) in names] == ["tfn 0", "tfn 1"]
            found = "select count(*) from slice where category = 'collective' and dur > 0"
            assert trace.query(found) == [(6,)]


def test_the_clock_of_a_process_alone_is_its_own() -> None:
    tfn.distributed.initialize()
    assert tfn.distributed.synchronize_clocks() == 0
    tfn.distributed.shutdown()
