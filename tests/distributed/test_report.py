"""Reports of processes to their supervisor."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tfn.distributed import report
from tfn.errors import ProgramMismatchError, WorkerLostError


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
    reporters[0].fault(ProgramMismatchError("they differ"))
    assert [fault.of_job for fault in report.faults(tmp_path)] == [True, False]


def test_a_death_is_told_by_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(report.FOLDER, str(tmp_path))
    reporter, asked = report.Reporter(0), []

    def check() -> None:
        asked.append(1)
        if len(asked) == 2:
            raise WorkerLostError("gone", rank=1)

    reporter.watch(check)
    assert report.steps(tmp_path)[0][0] == report.JOINED
    until = time.monotonic() + 30
    while not report.faults(tmp_path):
        assert time.monotonic() < until
        time.sleep(0.01)
    reporter.close()
    assert len(asked) == 2 and report.faults(tmp_path)[0].facts["rank"] == 1


def test_on_another_host_there_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(report.FOLDER, str(tmp_path / "gone"))
    reporter = report.Reporter(0)
    reporter.watch(lambda: None)
    reporter.step(1, None)
    reporter.fault(ValueError("x"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("end", "status", "found"), [("exit 3", 3, {}), ("kill -9 $$", 137, 9)])
def test_the_shell_tells_signals(tmp_path: Path, end: str, status: int, found: object) -> None:
    words = ["/bin/sh", "-c", report.WATCHED, "sh", "/bin/sh", "-c", end]
    variables = {report.FOLDER: str(tmp_path), "OMPI_COMM_WORLD_RANK": "4"}
    assert subprocess.run(words, env=variables).returncode == status
    assert report.signals(tmp_path) == ({4: "SIGKILL"} if found else {})
