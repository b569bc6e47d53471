"""The command: a script, its arguments and status, its table and its file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tfn import profiler
from tfn.profiler.__main__ import main

SCRIPT = """
import sys
import tfn
from beside import scale

@tfn.jit
def scaled(x):
    return x * scale

x = tfn.numpy.ones(8)
for _ in range(int(sys.argv[1])):
    x = scaled(x)
if len(sys.argv) > 2:
    raise SystemExit(int(sys.argv[2]))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("scale = 2.0\n")
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_traces_of_several_processes_are_merged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        with profiler.trace(tmp_path / f"{name}.json"), profiler.annotate(name):
            pass
    names = [str(tmp_path / f"{name}.json") for name in ("all", "a", "b")]
    assert main(["merge", *names]) == 0
    assert "written to" in capsys.readouterr().err
    rows = json.loads((tmp_path / "all.json").read_text())["traceEvents"]
    assert [row["name"] for row in rows if row["ph"] == "X"] == ["a", "b"]


def test_a_script_runs_and_its_table_is_printed(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.argv, sys.path[:]
    assert main(["run", str(script), "20"]) == 0
    assert (sys.argv, sys.path[:]) == before
    text = capsys.readouterr().err
    assert "scaled" in text and "compiled scaled: the first call" in text


def test_events_are_written_and_the_status_is_that_of_the_script(
    script: Path, tmp_path: Path
) -> None:
    path = tmp_path / "out.json"
    assert main(["run", "--save", str(path), str(script), "20", "3"]) == 3
    rows = json.loads(path.read_text())["traceEvents"]
    assert any(row["name"] == "scaled" and row.get("cat") == "program" for row in rows)


def test_a_live_table_ends_with_the_script(
    script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfn.profiler.__main__.REFRESH_SECONDS", 0.001)
    assert main(["run", "--live", str(script), "20"]) == 0
    assert "scaled" in capsys.readouterr().err
