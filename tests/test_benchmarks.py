"""The race: it runs beside NumPy, agrees with it, and every row has its program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "run.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_rows_are_run_compared_and_written(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    rows = ["disp_tiny", "disp_tree100", "eager20", "mm256", "hess_rosen50"]
    options = ("--only", ",".join(rows), "--seconds", "0.001", "--repeats", "2")
    done = run(*options, "--contestants", "tfn,numpy", "--json", str(path))
    assert done.returncode == 0, done.stderr
    assert "something else" not in done.stdout and "Error" not in done.stdout
    found = json.loads(path.read_text())["rows"]
    assert list(found) == rows
    assert all(result["tfn"]["cpu_s"] > 0 for result in found.values())
    assert "numpy" in found["eager20"] and "numpy" not in found["hess_rosen50"]


def test_unknown_rows_are_named() -> None:
    done = run("--only", "mm512,mm3")
    assert done.returncode != 0 and "mm3" in done.stderr


def test_every_row_has_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    from run import CONTESTANTS, ROWS

    assert CONTESTANTS["tfn"]("tfn").keys() == ROWS.keys()
