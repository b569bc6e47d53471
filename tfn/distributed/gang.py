"""Gangs on Ray: an agent on each host, which Ray starts, supervises and speaks with.

Ray holds membership, placement and remote calls; see `tfn.distributed.agent` for what agents do.
An address "ray" starts a Ray of this machine, which ends with this process; then each host of a
specification is an agent here.  "ray://10.0.0.1:6379" joins a cluster that `ray start` has made.

Source: the Ray documentation, "Actors", "Placement groups" and "Fault tolerance".
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from tfn import config
from tfn.distributed import wire
from tfn.distributed.agent import Agent, make_folder, remove_folder
from tfn.distributed.security import RANGE
from tfn.distributed.specification import HostItem, check
from tfn.errors import (
    CollectiveTimeoutError,
    DistributedError,
    MissingPackageError,
    TfnError,
    WorkerLostError,
)

GRACE_S = 0.3
"""After the first error of a worker, the time for the others to say theirs: the worker that has
died is named by its agent at once, and by its peers within 0.1 s."""
LOOK_S = 0.2
"""Seconds after which answers that are there are read, while others are waited for: one may be an
error, and the worker of another may never answer."""
JOIN_S = 60.0
"""Seconds in which workers start and join: two take 1 s, 64 on two cores take a minute."""
STOP_S = 3.0
"""Seconds in which an agent ends its worker: it takes 0.1 s.  One that does not is replaced."""
INLINE_BYTES = 64 << 10
"""The largest message that goes with its call: Ray copies arguments of up to 100 KiB, and puts a
larger one into the store anew for each call."""
PRIORITY = ("WorkerLostError", "SecurityError", "ProgramMismatchError", "CollectiveTimeoutError")
"""The order in which errors of one fault are told: the first is the cause of the others."""


class Gang(Protocol):
    """The workers of a cluster, which start and end together."""

    hosts: tuple[str, ...]
    items: tuple[HostItem, ...]

    def start(self) -> None:
        """Start all workers, and wait until they have joined."""

    def send(self, messages: Sequence[bytes]) -> Any:
        """Send each worker its message; a ticket for the answers."""

    def receive(self, ticket: Any, deadline_s: float) -> list[Any]:
        """The answers.  Raises the error of a worker, or CollectiveTimeoutError."""

    def check(self) -> None:
        """Raise WorkerLostError for a worker that has died."""

    def stop(self) -> None:
        """End all workers; nothing is left of them."""

    def close(self) -> None:
        """End everything."""


def _ray(local: bool) -> Any:
    """Ray, which reads its settings when it is imported."""
    config.default_variables(RAY_USAGE_STATS_ENABLED="0")
    if "ray" not in sys.modules:
        config.default_variables(RAY_AUTH_MODE="token")
        if local:
            config.default_variables(RAY_AUTH_TOKEN=secrets.token_hex(32))
    try:
        import ray
    except ImportError:
        raise MissingPackageError(
            "a cluster on Ray needs the package ray", hint="pip install 'tfn[ray]'"
        ) from None
    return ray


def _run_on(agents: Mapping[str, Any], host: str, text: str) -> int:
    """Run a command on a host, by its agent; in the process of the first agent."""
    call = agents[host].command.options(concurrency_group="launch")
    return int(_ray(local=False).get(call.remote(text)))


class RayGang:
    """Agents and workers on Ray.

    Args:
        address: "ray" or "ray://HOST:PORT".
        items: the hosts.
        deadline_s: seconds for which workers wait for each other.
        variables: for the environment of the workers.
        spares: hosts that take the places of those that are lost.
        elastic: the least and the largest number of hosts with which it goes on; None for as many
            as at the beginning.
    """

    def __init__(
        self,
        address: str,
        items: Sequence[HostItem],
        deadline_s: float,
        variables: Mapping[str, str],
        spares: Sequence[HostItem] = (),
        elastic: tuple[int, int] | None = None,
    ) -> None:
        self.spares, self.elastic = list(spares), elastic or (len(items), len(items))
        self.local = address == "ray"
        self.ray, self.items, self.deadline_s = _ray(self.local), tuple(items), deadline_s
        self.variables, self.folder = dict(variables), make_folder()
        self.hosts: tuple[str, ...] = tuple([item.host for item in items])
        self.agents: list[Any] = []
        self.owns = not self.ray.is_initialized()
        if self.owns:
            self._initialize(address)
        try:
            if not self.local:
                check((*self.items, *self.spares), self._cores())
        except BaseException:
            self.close()
            raise

    def _cores(self) -> dict[str, float]:
        """The cores of each host of the cluster, by name and by address."""
        names = ("NodeManagerHostname", "NodeManagerAddress")
        nodes = [node for node in self.ray.nodes() if node["Alive"]]
        return {node[name]: node["Resources"].get("CPU", 0) for node in nodes for name in names}

    def _initialize(self, address: str) -> None:
        options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        if self.local:
            options |= {"address": "local", "include_dashboard": False}
            options["_node_ip_address"] = "127.0.0.1"
        else:
            options["address"] = address.removeprefix("ray://")
        try:
            self.ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise DistributedError(
                f"there is no cluster of Ray at {address}",
                got=str(error)[:300],
                hint="ray start --head --port=6379 makes one; its token is in RAY_AUTH_TOKEN",
            ) from None

    def _node(self, host: str) -> Any:
        """The number of the node of a host; None if it has left the cluster."""
        names = ("NodeManagerHostname", "NodeManagerAddress")
        nodes = [node for node in self.ray.nodes() if node["Alive"]]
        return next(
            (node["NodeID"] for node in nodes if host in [node[name] for name in names]), None
        )

    def _replace_lost(self) -> None:
        """Spares in the places of hosts that are gone, or fewer hosts.

        Raises:
            WorkerLostError: if too few are left.
        """
        kept, lost = [], []
        least, most = self.elastic
        for item, agent in zip(self.items, self.agents or [None] * len(self.items), strict=True):
            if self.local or agent is not None or self._node(item.host) is not None:
                kept.append((item, agent))
            else:
                lost.append(item.host)
        while self.agents and self.spares and len(kept) < most:
            spare = self.spares.pop(0)
            if self.local or self._node(spare.host) is not None:
                kept.append((spare, None))
        if lost and len(kept) < least:
            raise WorkerLostError(
                f"{len(kept)} hosts are left of the {len(self.items)} that the cluster needs",
                got=f"lost: {', '.join(lost)}",
                hint="connect(spares='host3:CPU*4', elastic=(1, 2)) names others, or takes fewer",
                host=lost[0],
            )
        self.items = tuple([item for item, _ in kept])
        self.agents = [agent for _, agent in kept]
        self.hosts = tuple([item.host for item in self.items])

    def _agent(self, rank: int) -> Any:
        """A new agent on the host of a rank; None if the host has just left the cluster."""
        groups = {"control": 2, "launch": 4}
        actor = self.ray.remote(num_cpus=0, concurrency_groups=groups)(Agent)
        options: dict[str, Any] = {}
        if not self.local:
            node = self._node(self.items[rank].host)
            if node is None:
                return None
            strategy = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
            options["scheduling_strategy"] = strategy(node, soft=False)
        return actor.options(**options).remote(rank, self.folder)

    def start(self) -> None:
        """Start all workers; agents that are gone are replaced first.

        Raises:
            DistributedError: if a worker does not join.
        """
        until = time.monotonic() + JOIN_S
        while True:
            self._replace_lost()
            self.agents = [
                self._agent(rank) if agent is None else agent
                for rank, agent in enumerate(self.agents)
            ]
            self._answering(until - time.monotonic(), "listen", lambda rank: (rank,))
            if None not in self.agents:
                break
            if time.monotonic() > until:
                raise DistributedError("the agents have not started", got=f"{JOIN_S:.0f} s")
        places: tuple[Any, ...] = ()
        if not self.local and len(self.items) > 1:
            by_host = dict(zip(self.hosts, self.agents, strict=True))
            network = config.launcher_variables([RANGE])[RANGE]
            places = self.hosts, network, partial(_run_on, by_host)
        begin = self.agents[0].start.remote(len(self.items), self.variables, *places)
        deadline_ms = int(self.deadline_s * 1000)
        joining = [
            agent.join.remote(item.devices, deadline_ms, JOIN_S)
            for agent, item in zip(self.agents, self.items, strict=True)
        ]
        self._asked([begin, *joining], 2 * JOIN_S)

    def _asked(self, refs: Sequence[Any], timeout_s: float) -> list[Any]:
        """The results of calls of agents; the error of one as it was raised there."""
        try:
            return list(self.ray.get(list(refs), timeout=timeout_s))
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise cause if isinstance(cause, TfnError) else DistributedError(str(error)) from None
        except self.ray.exceptions.RayActorError as error:
            raise WorkerLostError("an agent has died", got=str(error)[:300]) from None
        except self.ray.exceptions.GetTimeoutError:
            raise DistributedError(
                "the agents have not started the workers", got=f"{timeout_s:.0f} s have passed"
            ) from None

    def send(self, messages: Sequence[bytes]) -> Any:
        """One call of each agent; a large message for many is put into the store once."""
        stored: dict[int, Any] = {}
        for message in messages:
            if len(message) > INLINE_BYTES and id(message) not in stored:
                stored[id(message)] = self.ray.put(message)
        return [
            agent.exchange.remote(stored.get(id(message), message))
            for agent, message in zip(self.agents, messages, strict=True)
        ]

    def receive(self, ticket: Sequence[Any], deadline_s: float) -> list[Any]:
        """The answers of all workers.

        Raises:
            WorkerLostError: for a worker or an agent that has died.
            CollectiveTimeoutError: for one that does not answer.
            TfnError: what a worker has raised.
        """
        until = time.monotonic() + deadline_s
        while (left_s := until - time.monotonic()) > 0:
            try:
                answers = self.ray.get(ticket, timeout=min(left_s, LOOK_S))
            except self.ray.exceptions.GetTimeoutError:
                ready, _ = self.ray.wait(ticket, num_returns=len(ticket), timeout=0)
                if any(self._error_of(0, ref) for ref in ready):
                    break
            except self.ray.exceptions.RayError:
                break
            else:
                records = list(map(wire.unpack, answers))
                if all(record[0] != "error" for record in records):
                    return records
                break
        raise self._fault(ticket, until, deadline_s)

    def _fault(self, ticket: Sequence[Any], until: float, deadline_s: float) -> TfnError:
        """The error that tells the cause, of those that workers and agents have."""
        errors: dict[int, TfnError] = {}
        pending = dict(enumerate(ticket))
        while pending and time.monotonic() < until:
            ready, _ = self.ray.wait(
                list(pending.values()), num_returns=1, timeout=max(0.0, until - time.monotonic())
            )
            for rank in [rank for rank, ref in pending.items() if ref in ready]:
                error = self._error_of(rank, pending.pop(rank))
                if error is not None:
                    errors[rank] = error
                    until = min(until, time.monotonic() + GRACE_S)
            if any(isinstance(error, WorkerLostError) for error in errors.values()):
                break
        if not errors:
            rank = min(pending, default=0)
            return CollectiveTimeoutError(
                f"the worker of {self.hosts[rank]}, rank {rank}, has not answered in "
                f"{deadline_s:.1f} s",
                hint="it is stopped, its host is not reachable, or the dispatch takes longer: "
                "connect(deadline_s=...) allows for that",
                host=self.hosts[rank],
                rank=rank,
            )

        def order(rank: int) -> tuple[int, int]:
            name = type(errors[rank]).__name__
            return (PRIORITY.index(name) if name in PRIORITY else len(PRIORITY), rank)

        first = errors[min(errors, key=order)]
        if isinstance(first, CollectiveTimeoutError) and pending:
            rank = min(pending)  # the others have given up waiting, for this one
            return CollectiveTimeoutError(
                first.what,
                hint=f"the worker of {self.hosts[rank]}, rank {rank}, has said nothing: it is "
                "stopped, or its host is not reachable",
                host=self.hosts[rank],
                rank=rank,
                step=first.step,
                collective=first.collective,
                committed=first.committed,
            )
        return first

    def _error_of(self, rank: int, ref: Any) -> TfnError | None:
        try:
            record = wire.unpack(self.ray.get(ref, timeout=0))
        except self.ray.exceptions.RayError as error:
            return WorkerLostError(
                f"the agent of {self.hosts[rank]}, rank {rank}, has died",
                got=str(error).strip().splitlines()[0][:200],
                host=self.hosts[rank],
                rank=rank,
            )
        return wire.error_of(record) if record[0] == "error" else None

    def check(self) -> None:
        """Ask the agents whether their workers live; one that does not answer soon is not judged.

        Raises:
            WorkerLostError: for a worker or an agent that has died.
        """
        asked = [agent.lost.options(concurrency_group="control").remote() for agent in self.agents]
        ready, _ = self.ray.wait(asked, num_returns=len(asked), timeout=LOOK_S)
        for rank in [rank for rank, ref in enumerate(asked) if ref in ready]:
            error = self._error_of(rank, asked[rank])
            if error is not None:
                raise error

    def stop(self) -> None:
        """Kill all workers; agents that do not answer are killed, too."""
        self._answering(STOP_S, "stop", lambda rank: ())

    def _answering(
        self, timeout_s: float, method: str, arguments: Callable[[int], tuple[Any, ...]]
    ) -> None:
        """Call a method of all agents; those that have died, or do not answer, are none any more.

        Args:
            timeout_s: seconds to wait for them.
            method: of agents.
            arguments: of the method, for each rank.

        Raises:
            DistributedError: what the method has raised.
        """
        control = {"concurrency_group": "control"}
        asked = {
            rank: getattr(agent, method).options(**control).remote(*arguments(rank))
            for rank, agent in enumerate(self.agents)
            if agent is not None
        }
        if asked:
            self.ray.wait(list(asked.values()), num_returns=len(asked), timeout=timeout_s)
        for rank, ref in asked.items():
            try:
                self.ray.get(ref, timeout=0)
            except self.ray.exceptions.RayTaskError as error:
                raise DistributedError(str(error)) from None
            except self.ray.exceptions.RayError:
                self.ray.kill(self.agents[rank])
                self.agents[rank] = None

    def close(self) -> None:
        """End workers and agents, and the Ray that was started here."""
        if self.ray.is_initialized():
            self.stop()
            for agent in self.agents:
                if agent is not None:
                    self.ray.kill(agent)
            if self.owns:
                self.ray.shutdown()
        self.agents = []
        remove_folder(self.folder)
