"""Hosts: the processes that train together, and their agreements through a shared folder.

What hosts have to agree on to save and to resume (that all shards are written, which checkpoint is
whole) is a few bytes, a few times an hour, and may be said by a thread while the network of the
collectives is in use.  It is said in files of the folder that holds the checkpoints:

    host 0                                     every other host
    call.json     {topic, call: a nonce}   ->
                                           <-  answer-i.json  {call, nonce, payload}
    decision.json {nonces, decision}       ->

Host 0 takes only answers to its own call, the others take only a decision that names their own
nonce.  So what hosts that are gone have left there is never taken for an answer.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfn import process_count, process_index
from tfn.eager.devices import check_processes
from tfn.eager.platforms import CONTROLLERS, Controller
from tfn.errors import ArgumentError, HostError
from tfn.extend import PathLike, replacing
from tfn.sharding import Device

POLL_SECONDS = (0.002, 0.2)
"""The shortest and the longest time between two looks at the folder: a shared file system answers
in milliseconds, and a save takes seconds."""


@dataclass(frozen=True, repr=False)
class Hosts:
    """The processes that work together, and which of them this one is.

    Attributes:
        index: of this process, from 0.
        count: of all processes.
        host_of: the process that has a device.
        writer_of: the process that writes an array that is on no device in particular.

    Example:
        >>> Hosts.here()
        Hosts(0 of 1)
    """

    index: int
    count: int
    host_of: Callable[[Device], int] = lambda device: device.process_index
    writer_of: Callable[[Any], int] = lambda x: 0

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ArgumentError(
                "hosts are numbered from 0",
                got=f"index={self.index}, count={self.count}",
                hint="the index of a host is below their count",
            )

    @staticmethod
    def here() -> Hosts:
        """The processes as tfn knows them: `tfn.process_index` and `tfn.process_count`."""
        return Hosts(process_index(), process_count())

    @staticmethod
    def of(controller: Controller) -> Hosts:
        """A controller, host 0, and its workers: worker i is host i + 1."""
        owners = controller.owners
        return Hosts(
            0,
            controller.size + 1,
            lambda device: owners[device.id] + 1 if device.platform in CONTROLLERS else 0,
            lambda x: int(controller.has(x)),
        )

    def __repr__(self) -> str:
        return f"Hosts({self.index} of {self.count})"

    def part(self, what: str, size: int) -> slice:
        """The part of `size` rows that belongs to this host: as many as any other has.

        Raises:
            ArgumentError: if the rows do not divide among the hosts.

        Example:
            >>> Hosts(1, 4).part("a batch", 32)
            slice(8, 16, None)
        """
        if size % self.count:
            raise ArgumentError(
                f"{what} cannot be divided among the hosts",
                got=f"{size} rows, {self.count} hosts",
                hint=f"take a multiple of {self.count}",
            )
        each = size // self.count
        return slice(self.index * each, (self.index + 1) * each)


Decide = Callable[[list[Any]], Any]
"""Makes the decision of host 0 from what all hosts have to say, in their order."""


def agree(
    folder: PathLike, hosts: Hosts, topic: str, payload: Any, decide: Decide, timeout_s: float
) -> Any:
    """Returns the decision of host 0, which has heard all hosts; the same on each of them.

    All hosts call it with the same topic, in the same order of topics.

    Args:
        folder: a folder that all hosts see; files of it are made.
        hosts: who takes part.
        topic: the subject, so that hosts that are at different places are found out.
        payload: what this host has to say: data of JSON.
        decide: makes the decision, data of JSON; called on host 0, whose exception is raised there.
        timeout_s: seconds to wait for the others.

    Raises:
        HostError: if a host does not come in time, or host 0 could not decide.
        WorkerLostError: if one has died, where the transport can tell.
        OSError: if a file cannot be written.

    Example:
        >>> agree("/tmp", Hosts(0, 1), "which step", 7, max, 1.0)
        7
    """
    if hosts.count == 1:
        return decide([payload])
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + timeout_s
    if hosts.index:
        return _follow(place, hosts, topic, payload, deadline)
    return _lead(place, hosts, topic, payload, decide, deadline)


def _lead(
    place: Path, hosts: Hosts, topic: str, payload: Any, decide: Decide, deadline: float
) -> Any:
    call = os.urandom(8).hex()
    _write(place / "call.json", {"topic": topic, "call": call})
    answers: dict[int, Any] = {0: {"payload": payload}}
    pause = _Pause(deadline)
    while missing := [i for i in range(hosts.count) if i not in answers]:
        for i in missing:
            answer = _read(place / f"answer-{i}.json")
            if answer.get("call") == call:
                answers[i] = answer
        if len(answers) < hosts.count and not pause.more():
            absent = ", ".join(map(str, missing))
            raise HostError(
                f"not all hosts came to: {topic}",
                got=f"no answer from host {absent} of {hosts.count}",
                hint="they ended, are slower than the timeout, or see another folder",
            )
    nonces = [answers[i].get("nonce") for i in range(hosts.count)]
    try:
        decision = decide([answers[i]["payload"] for i in range(hosts.count)])
    except BaseException as error:
        with suppress(OSError):  # a full disk, perhaps: then the others wait for their deadline
            _write(place / "decision.json", {"nonces": nonces, "error": str(error) or repr(error)})
        raise
    _write(place / "decision.json", {"nonces": nonces, "decision": decision})
    return decision


def _follow(place: Path, hosts: Hosts, topic: str, payload: Any, deadline: float) -> Any:
    nonce, answered = os.urandom(8).hex(), None
    pause = _Pause(deadline)
    while True:
        decision = _read(place / "decision.json")
        if nonce in decision.get("nonces", ()):
            break
        call = _read(place / "call.json")
        if call.get("topic") == topic and call["call"] != answered:
            answered = call["call"]
            _write(
                place / f"answer-{hosts.index}.json",
                {"call": answered, "nonce": nonce, "payload": payload},
            )
        elif not pause.more():
            raise HostError(
                f"host {hosts.index} waited in vain at: {topic}",
                got=f"host 0 is at: {call.get('topic', 'nothing yet')}",
                hint="host 0 ended, is slower than the timeout, or does other things",
            )
    if "error" in decision:
        raise HostError(f"host 0 gave up: {topic}", got=decision["error"])
    return decision["decision"]


class _Pause:
    """Pauses between looks at a folder, longer each time, until a deadline."""

    def __init__(self, deadline: float) -> None:
        self.deadline, self.seconds = deadline, POLL_SECONDS[0]

    def more(self) -> bool:
        """Sleep, and whether there is still time.

        Raises:
            WorkerLostError: if another process has died, which would be waited for in vain.
        """
        check_processes()
        if time.monotonic() > self.deadline:
            return False
        time.sleep(self.seconds)
        self.seconds = min(1.5 * self.seconds, POLL_SECONDS[1])
        return True


def _write(path: Path, record: dict[str, Any]) -> None:
    with replacing(path) as file:
        file.write(json.dumps(record).encode())


def _read(path: Path) -> dict[str, Any]:
    """A record; an empty one while there is none, or while it is no record of ours."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
