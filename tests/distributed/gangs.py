"""A gang without Ray: agents are objects of this process, each spoken to by a thread of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from typing import Any

from tests.distributed.jobs import ROOT
from tfn.distributed import wire
from tfn.distributed.agent import Agent, make_folder, remove_folder
from tfn.distributed.specification import HostItem
from tfn.errors import CollectiveTimeoutError


class ThreadGang:
    """Agents of this process."""

    def __init__(self, items: Sequence[HostItem], deadline_s: float, folder: str) -> None:
        self.items, self.deadline_s, self.cache = tuple(items), deadline_s, folder
        self.hosts = tuple([item.host for item in items])
        self.folder = make_folder()
        self.agents: list[Agent] = [Agent(rank, self.folder) for rank in range(len(items))]
        self.threads = [ThreadPoolExecutor(1) for _ in items]

    def start(self) -> None:
        for rank, agent in enumerate(self.agents):
            agent.listen(rank)
        variables = {
            "PYTHONPATH": str(ROOT),
            "TFN_THREADS": "1",
            "TFN_CACHE_DIR": self.cache,
            "TFN_DEVICE": "cpu",
        }
        self.agents[0].start(len(self.items), variables)
        joining = [
            thread.submit(agent.join, item.devices, int(1000 * self.deadline_s), 60.0)
            for thread, agent, item in zip(self.threads, self.agents, self.items, strict=True)
        ]
        for join in joining:
            join.result()

    def send(self, messages: Sequence[bytes]) -> list[Future[bytes]]:
        rows = zip(self.threads, self.agents, messages, strict=True)
        return [thread.submit(agent.exchange, message) for thread, agent, message in rows]

    def receive(self, ticket: Sequence[Future[bytes]], deadline_s: float) -> list[Any]:
        until = time.monotonic() + deadline_s
        try:
            records = [wire.unpack(f.result(until - time.monotonic())) for f in ticket]
        except Late:
            raise CollectiveTimeoutError("no answer") from None
        failed = [wire.error_of(record) for record in records if record[0] == "error"]
        if failed:
            raise min(failed, key=lambda error: type(error).__name__ != "WorkerLostError")
        return records

    def check(self) -> None:
        for agent in self.agents:
            record = wire.unpack(agent.lost())
            if record[0] == "error":
                raise wire.error_of(record)

    def stop(self) -> None:
        for agent in self.agents:
            agent.stop()

    def close(self) -> None:
        self.stop()
        for thread in self.threads:
            thread.shutdown()
        remove_folder(self.folder)


def alive(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
