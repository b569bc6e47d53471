"""Jobs that are started again after a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.distributed.jobs import ROOT, needs_mpi
from tests.distributed.test_session import none_left
from tfn.distributed import supervisor
from tfn.distributed.specification import parse
from tfn.distributed.supervisor import Plan, marked, supervise
from tfn.errors import DistributedError, HostSpecificationError, WorkerLostError

STEPS = str(ROOT / "tests" / "distributed" / "job_steps.py")


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {
        "PYTHONPATH": str(ROOT),
        "TFN_THREADS": "1",
        "TFN_DEVICE": "cpu",
        "TFN_CACHE_DIR": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def plan(folder: Path, **options: Any) -> Plan:
    settings: dict[str, Any] = {"processes": 2, "devices": 1, "deadline_s": 2.0, **options}
    return Plan((STEPS, str(folder), "12", "7"), **settings)


def run(folder: Path, capfd: Any, how: str, **options: Any) -> tuple[int, str, list[str]]:
    folder.mkdir()
    if how:
        (folder / "how").write_text(how)
    lines: list[str] = []
    status = supervise(plan(folder, **options), lines.append)
    out = capfd.readouterr().out
    return status, out[out.index("result") :].split()[1] if "result" in out else "", lines


@needs_mpi
def test_a_killed_job_goes_on_to_the_same_bits(job: Path, capfd: Any) -> None:
    assert run(job / "whole", capfd, "")[2] == []
    want = run(job / "again", capfd, "")[1]
    status, got, lines = run(job / "killed", capfd, "killed")
    assert (status, got) == (0, want) and want
    assert len(lines) == 1 and lines[0].startswith("WorkerLostError: rank 1")
    assert none_left(job) and marked("no such mark") == []


@needs_mpi
def test_a_stopped_job_goes_on_after_the_deadline(job: Path, capfd: Any) -> None:
    status, got, lines = run(job / "stopped", capfd, "stopped")
    assert status == 0 and got and lines[0].startswith("CollectiveTimeoutError")


@needs_mpi
def test_an_error_of_the_script_ends_the_job(job: Path, capfd: Any) -> None:
    status, got, lines = run(job / "raises", capfd, "raises")
    assert status != 0 and not got and not lines


@needs_mpi
def test_the_last_restart_raises_the_fault(job: Path) -> None:
    (job / "f").mkdir()
    (job / "f" / "how").write_text("killed")
    with pytest.raises(WorkerLostError) as found:
        supervise(plan(job / "f", restarts=0), lambda _: None)
    assert (found.value.rank, found.value.step, found.value.committed) == (1, 7, 0)


def there(monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
    monkeypatch.setattr(supervisor, "reachable", lambda *_: set(hosts.split(",")))


LOST = WorkerLostError("gone", host="b", rank=1)


def test_a_spare_takes_the_place_of_a_lost_host(monkeypatch: pytest.MonkeyPatch) -> None:
    there(monkeypatch, "a,c,d,e")
    given = parse("a:CPU*2,b:CPU*2,c:CPU*2"), parse("d:CPU*2,e:CPU*2")
    job = Plan(("t.py",), given[0], spares=given[1])
    hosts, spares = supervisor._left(job, given[0], given[1], LOST)
    assert [i.host for i in hosts] == ["a", "c", "d"] and [i.host for i in spares] == ["e"]


def test_fewer_hosts_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    there(monkeypatch, "a,c")
    items = parse("a:CPU*2,b:CPU*2,c:CPU*2")
    with pytest.raises(DistributedError, match="2 hosts are left, and the job needs 3"):
        supervisor._left(Plan(("t.py",), items), items, (), LOST)
    hosts, _ = supervisor._left(Plan(("t.py",), items, elastic=(2, 3)), items, (), LOST)
    assert [i.host for i in hosts] == ["a", "c"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hosts": parse("a:CPU*2,b:CPU*4")}, "same number of devices"),
        ({"hosts": parse("a,b"), "spares": parse("b,c")}, "cannot be a spare"),
        ({"processes": 2, "elastic": (3, 4)}, "contain the number"),
    ],
)
def test_plans_that_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(HostSpecificationError, match=words):
        Plan(("t.py",), **options).check()


def test_hosts_that_answer(tmp_path: Path) -> None:
    launcher = tmp_path / "launcher"
    launcher.write_text('#!/bin/sh\n[ "$1" = a ] && exec "$2"\n[ "$1" = b ] && sleep 60\nexit 1\n')
    launcher.chmod(0o755)
    before = supervisor.PROBE_S
    supervisor.PROBE_S = 1.0
    try:
        assert supervisor.reachable(["a", "b", "c"], str(launcher)) == {"a"}
    finally:
        supervisor.PROBE_S = before
