"""Rank and size from the environment."""

from __future__ import annotations

import pytest

from tfn.distributed.launchers import LAUNCHERS, Launch, launch
from tfn.errors import DistributedError


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for pair in LAUNCHERS.values():
        for name in pair:
            monkeypatch.delenv(name, raising=False)


def test_a_process_that_was_started_alone() -> None:
    assert launch() is None


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_each_launcher(monkeypatch: pytest.MonkeyPatch, launcher: str) -> None:
    rank, size = LAUNCHERS[launcher]
    monkeypatch.setenv(rank, "3")
    assert launch() is None
    monkeypatch.setenv(size, "4")
    assert launch() == Launch(launcher, 3, 4)


def test_mpi_within_slurm_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip([*LAUNCHERS["Slurm"], *LAUNCHERS["Open MPI"]], ("0", "1", "1", "2")):
        monkeypatch.setenv(name, value)
    assert launch() == Launch("Open MPI", 1, 2)


def test_what_is_no_number_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_RANK", "one")
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(DistributedError, match="MPICH does not say which process"):
        launch()
