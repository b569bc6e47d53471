"""Agents: what they say of a worker that does not join, or is gone."""

from __future__ import annotations

import os

import pytest

from tests.distributed.jobs import needs_mpi
from tfn.distributed import wire
from tfn.distributed.agent import Agent, make_folder, remove_folder
from tfn.errors import DistributedError


def test_a_worker_that_does_not_come() -> None:
    folder = make_folder()
    agent = Agent(0, folder)
    agent.listen(0)
    with pytest.raises(DistributedError, match="has not joined within 0 s"):
        agent.join(1, 1000, 0.1)
    agent.stop()
    remove_folder(folder)
    assert not os.path.exists(folder)


@needs_mpi
def test_one_worker_joins_answers_and_ends() -> None:
    folder = make_folder()
    agent = Agent(0, folder)
    assert agent.listen(0) == agent.host
    agent.start(1, {"PYTHONPATH": os.getcwd(), "TFN_DEVICE": "cpu"})
    hello = wire.unpack(agent.join(3, 1000, 60.0))
    assert hello[0] == "joined" and hello[1] == 0 and hello[4] == 3
    assert wire.unpack(agent.exchange(wire.pack(()))) == ("done", ())
    os.kill(agent.pid, 9)
    lost = wire.error_of(wire.unpack(agent.exchange(wire.pack(()))))
    assert "has died" in str(lost) and lost.rank == 0  # type: ignore[attr-defined]
    agent.stop()
    agent.stop()
    remove_folder(folder)
