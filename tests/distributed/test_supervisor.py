"""Jobs that are started again after a fault."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.jobs import ROOT, needs_mpi
from tests.distributed.test_session import none_left
from tfn.distributed import supervisor
from tfn.distributed.specification import parse
from tfn.distributed.supervisor import Plan, marked, processes_with, supervise
from tfn.errors import (
    ArgumentError,
    DistributedError,
    HostSpecificationError,
    SecurityError,
    WorkerLostError,
)

STEPS = str(ROOT / "tests" / "distributed" / "job_steps.py")


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {
        "PYTHONPATH": str(ROOT),
        "TFN_THREADS": "1",
        "TFN_DEVICE": "cpu",
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
    _, want, lines = run(job / "calm", capfd, "")
    assert lines == []
    status, got, lines = run(job / "killed", capfd, "killed")
    assert (status, got) == (0, want) and want
    assert len(lines) == 1 and lines[0].startswith("WorkerLostError: rank 1")
    assert "SIGKILL" in lines[0]
    assert none_left(job) and marked("no such mark") == []


@needs_mpi
@pytest.mark.parametrize("how", ["early", "computes"])
def test_a_death_is_known_wherever_the_others_are(job: Path, capfd: Any, how: str) -> None:
    begin = time.monotonic()
    status, got, lines = run(job / how, capfd, how, deadline_s=60.0)
    assert status == 0 and got and lines[0].startswith("WorkerLostError: rank 1 ")
    assert "SIGKILL" in lines[0] and time.monotonic() - begin < 45


@needs_mpi
def test_the_end_of_all_processes_by_a_signal_is_no_success(job: Path, capfd: Any) -> None:
    status, got, lines = run(job / "one", capfd, "killed", processes=1)
    assert status == 0 and got and lines[0].startswith("WorkerLostError: rank 0 has died: SIGKILL")


@needs_mpi
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_job_ends_with_its_supervisor(job: Path, number: int) -> None:
    (job / "f").mkdir()
    (job / "f" / "how").write_text("computes")
    words = ["-m", "tfn.distributed", "run", "-n", "2", STEPS, str(job / "f"), "12", "0"]
    started = subprocess.Popen([sys.executable, *words], env=dict(os.environ))
    until = time.monotonic() + 60
    while not (job / "f" / "hit").exists():  # one waits, and the other has died
        assert time.monotonic() < until
        time.sleep(0.02)
    started.send_signal(number)
    assert started.wait(60) == (-9 if number == signal.SIGKILL else 143)
    assert none_left(job)


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


def test_an_elastic_job_takes_all_spares_that_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    there(monkeypatch, "a,b,d,e,f")
    items, spares = parse("a,b,c"), parse("d,e,f")
    job = Plan(("t.py",), items, spares=spares, elastic=(2, 4))
    hosts, left = supervisor._left(job, items, spares, LOST)
    assert [i.host for i in hosts] == ["a", "b", "d", "e"] and [i.host for i in left] == ["f"]


def test_a_host_that_is_gone_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    there(monkeypatch, "a")
    items = parse("a,b")
    job = Plan(("t.py",), items)
    found = supervisor._gone(job, items, 1)
    assert found is not None and found.host == "b"
    assert supervisor._gone(job, items[:1], 1) is None is supervisor._gone(job, items, 0)


def test_hosts_are_checked_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    there(monkeypatch, "a")
    monkeypatch.setattr(supervisor, "Attempt", None)
    monkeypatch.setenv("TFN_CLUSTER_TOKEN", "")
    job = Plan(("t.py",), parse("a,b"))
    with pytest.raises(SecurityError, match="needs a token"):
        supervise(job)
    monkeypatch.setenv("TFN_CLUSTER_TOKEN", 32 * "x")
    monkeypatch.setenv("TFN_CLUSTER_CIDR", "10.0.0.0/24")
    with pytest.raises(HostSpecificationError, match="no command can be run on b"):
        supervise(job)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hosts": parse("a:CPU*2,b:CPU*4")}, "same number of devices"),
        ({"hosts": parse("a,b"), "spares": parse("b,c")}, "cannot be a spare"),
        ({"processes": 2, "elastic": (3, 4)}, "contain the number"),
        ({"processes": 0}, "processes is at least 1"),
        ({"restarts": -1}, "restarts is at least 0"),
        ({"deadline_s": 0.0}, "deadline is at least"),
    ],
)
def test_plans_that_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises((HostSpecificationError, ArgumentError), match=words):
        Plan(("t.py",), **options).check()


def test_hosts_that_answer(tmp_path: Path) -> None:
    launcher = tmp_path / "launcher"
    launcher.write_text('#!/bin/sh\n[ "$1" = a ] && exec "$2"\n[ "$1" = b ] && sleep 60\nexit 1\n')
    launcher.chmod(0o755)
    before = supervisor.PROBE_S
    supervisor.PROBE_S = 1.0
    try:
        assert supervisor.reachable(["a", "b", "c"], str(launcher)) == {"a"}
        supervisor.PROBE_S, begin = 60.0, time.monotonic()
        assert supervisor.reachable(["a", "b", "c"], str(launcher), 1) == {"a"}
        assert time.monotonic() - begin < 30  # it does not wait for b
    finally:
        supervisor.PROBE_S = before


def test_processes_that_end_while_they_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.name == "cmdline":
            raise ProcessLookupError(path)
        return os.stat(path, follow_symlinks=follow_symlinks)

    assert os.getpid() in processes_with("python", "cmdline")
    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(Path, "read_bytes", stat)
    assert processes_with("python", "cmdline") == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_whose_exception_is_dropped_ends_the_block_later() -> None:
    class Dropping:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGUSR1)
            time.sleep(0)  # the handler runs here, where exceptions are dropped

    with pytest.raises(SystemExit) as raised, supervisor._ended_by(signal.SIGUSR1) as check:
        check()
        dropping = Dropping()
        del dropping
        check()
    assert raised.value.code == 128 + signal.SIGUSR1
