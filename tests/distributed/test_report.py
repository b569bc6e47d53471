"""Reports of processes to their supervisor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfn.distributed import report
from tfn.errors import WorkerLostError


def test_without_a_supervisor_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(report.FOLDER, raising=False)
    monkeypatch.delenv(report.DEADLINE, raising=False)
    reporter = report.Reporter(0)
    reporter.step(1, None)
    reporter.fault(ValueError("x"))
    assert report.deadline_s(7.0) == 7.0


def test_steps_and_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(report.FOLDER, str(tmp_path))
    monkeypatch.setenv(report.DEADLINE, "2.5")
    assert report.deadline_s(7.0) == 2.5
    reporters = [report.Reporter(rank) for rank in range(2)]
    for step in range(3):
        reporters[1].step(step, None if step == 0 else 1)
    found = report.steps(tmp_path)
    assert set(found) == {1} and found[1][:2] == (2, 1) and found[1][2] < 60
    reporters[1].fault(WorkerLostError("gone", host="b", rank=0, step=2, committed=1))
    reporters[0].fault(ValueError("mine"))
    first, second = report.faults(tmp_path)
    assert first.of_job and first.facts["rank"] == 0 and first.facts["committed"] == 1
    assert not second.of_job and second.kind == "ValueError"
