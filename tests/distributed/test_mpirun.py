"""The command of mpirun."""

from __future__ import annotations

import sys

import pytest

from tests.distributed.jobs import needs_mpi
from tfn.distributed import mpirun
from tfn.errors import MissingPackageError


@needs_mpi
def test_processes_of_this_machine() -> None:
    words = mpirun.command(["train.py", "-x"], 3)
    assert words[1:3] == ["-n", "3"] and "--oversubscribe" in words and "--host" not in words
    assert words[-3:] == [sys.executable, "train.py", "-x"]
    assert words[words.index("btl") + 1] == "self,sm"  # none that listens
    assert mpirun.command(["t.py"], 1, under=("nice",))[-3:] == ["nice", sys.executable, "t.py"]


@needs_mpi
def test_hosts_are_bound_to_their_network() -> None:
    words = mpirun.command(["t.py"], 2, ["a", "b"], "agent", "10.0.0.0/24", ["TFN_DEVICES"])
    text = " ".join(words)
    for part in (
        "--host a:1,b:1",
        "--prtemca plm_ssh_agent agent",
        "--mca btl_tcp_if_include 10.0.0.0/24",
        "--prtemca prte_if_include 10.0.0.0/24",
        "-x TFN_DEVICES",
        "--with-ft ulfm",
    ):
        assert part in text
    assert "--oversubscribe" not in words


def test_the_environment_has_nothing_of_another_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    found = mpirun.environment(TFN_DEVICES="2")
    assert "OMPI_COMM_WORLD_RANK" not in found and found["TFN_DEVICES"] == "2"


def test_without_mpirun_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpirun.shutil, "which", lambda *_, **__: None)
    with pytest.raises(MissingPackageError, match="needs mpirun"):
        mpirun.mpirun()
