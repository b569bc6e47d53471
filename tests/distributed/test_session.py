"""Joining other processes, messages, agreement on programs, faults."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
from tests import covering
from tests.distributed.echo import Echo
from tests.distributed.jobs import needs_mpi, run
from tfn import distributed
from tfn.distributed import session as module
from tfn.distributed.launchers import LAUNCHERS
from tfn.distributed.session import Session
from tfn.distributed.supervisor import processes_with
from tfn.errors import DistributedError
from tfn.trace.processes import HostGrid, processes

ULFM = ("--with-ft", "ulfm", "--mca", "pml", "ob1")
WAYS = ("data=2,model=2", "fsdp=4")
LEFT_S = 10
"""After the end of a job, mpirun has killed a process that was stopped within two seconds."""


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for pair in LAUNCHERS.values():
        for name in pair:
            monkeypatch.delenv(name, raising=False)


def test_a_process_alone_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mpi4py", None)
    assert not distributed.is_initialized()
    distributed.initialize()
    try:
        assert distributed.is_initialized() and tfn.process_count() == 1
        distributed.progress(3, committed=2)
        assert module.session().facts()["committed"] == 2
        with pytest.raises(DistributedError, match="called twice"):
            distributed.initialize()
        distributed.sync_global_devices("here")
    finally:
        distributed.shutdown()
    distributed.shutdown()
    with pytest.raises(DistributedError, match="has not joined"):
        distributed.progress(4)


@pytest.mark.parametrize("given", [{"num_processes": 2}, {"process_id": 1}])
def test_arguments_are_checked_against_the_launcher(given: dict[str, int]) -> None:
    with pytest.raises(DistributedError, match="is not what the launcher says"):
        distributed.initialize(**given)  # type: ignore[arg-type]
    assert not distributed.is_initialized()


def test_one_process_of_a_launcher_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip(LAUNCHERS["MPICH"], ("0", "1"), strict=True):
        monkeypatch.setenv(name, value)
    distributed.initialize(num_processes=1, process_id=0)
    distributed.shutdown()


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session with one other process, the same as this one."""
    own = Session(Echo(), Echo(), ("a", "b"), 5.0, agreed=set())
    monkeypatch.setattr(module, "_SESSION", [own])
    return own


def test_an_error_of_mpi_fails_the_job(pair: Session) -> None:
    pair.step = 4
    error = pair.failure(RuntimeError("broken"))
    assert pair.failed and "MPI failed: broken" in str(error) and error.host == "b"


def test_programs_are_agreed_on_once(pair: Session) -> None:
    hosts = HostGrid((2,), (0, 1))
    for _ in range(2):
        module._agree(hosts, "step", "digest", "messages")
    assert len(pair.agreed) == 1
    assert processes.agree is None  # that of a session that has joined others


# Jobs.


@needs_mpi
def test_devices_arrays_and_programs_of_many_processes(tmp_path: Path) -> None:
    done = run(2, "job_api.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("as expected") == 2


@needs_mpi
def test_training_is_that_of_one_process(tmp_path: Path) -> None:
    words = ("mlp", *(("cnn",) if covering.exhaustive else ()), *WAYS)
    many = run(2, "job_training.py", str(tmp_path / "two"), *words, folder=tmp_path)
    assert many.returncode == 0, many.stderr
    one = run(1, "job_training.py", str(tmp_path / "one"), *words, folder=tmp_path, devices=4)
    got, want = (json.loads(done.stdout.splitlines()[-1]) for done in (many, one))
    assert set(got) == set(want) and len(want) == 3 + len(words) + 1
    assert len(want["mnist mlp"]) == 1024 // 128 + 1
    for name, losses in want.items():
        np.testing.assert_allclose(got[name], losses, rtol=1e-5, err_msg=name)
    assert got["bits"] == want["bits"]


def errors(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def none_left(folder: Path) -> bool:
    """Whether no process of a job is left: each has the job's folder in its environment."""
    for _ in range(10 * LEFT_S):
        if not processes_with(str(folder)):
            return True
        time.sleep(0.1)
    return False


@needs_mpi
def test_a_killed_process_is_an_error_in_the_others(tmp_path: Path) -> None:
    done = run(3, "job_fault.py", "killed", "1", devices=1, folder=tmp_path, options=ULFM)
    assert done.returncode == 75 and "done" not in done.stdout, done.stderr
    rows = errors(done)
    assert rows
    for row in rows:
        assert (row["kind"], row["rank"], row["step"], row["committed"]) == (
            "WorkerLostError",
            1,
            5,
            4,
        )
        assert row["collective"].startswith("all_gather over d") and row["host"]
    assert none_left(tmp_path)


@needs_mpi
@pytest.mark.parametrize("how", ["stopped", "leaves"])
def test_a_process_that_does_not_come_is_an_error_at_the_deadline(tmp_path: Path, how: str) -> None:
    done = run(2, "job_fault.py", how, "1", devices=1, folder=tmp_path, DEADLINE_S="1")
    assert done.returncode == 75 and "done" not in done.stdout, done.stderr
    (row,) = errors(done)
    assert (row["kind"], row["rank"], row["step"]) == ("CollectiveTimeoutError", 0, 5)
    assert none_left(tmp_path)


@needs_mpi
def test_an_error_of_one_process_ends_all(tmp_path: Path) -> None:
    done = run(2, "job_fault.py", "raises", "1", devices=1, folder=tmp_path)
    assert done.returncode == 1 and "a mistake of the user" in done.stderr
    assert "done" not in done.stdout and none_left(tmp_path)
