"""Workers: processes that hold the arrays of a controller, and run its programs.

    python -m tfn.distributed.worker FOLDER        started by mpirun, one on each host

A worker takes messages from the agent of its host, by a socket of the folder, which only its user
can open.  It blocks there while it has nothing to do, and ends when the agent does.  What it runs
are functions of tfn, decoded from canonical bytes whose digest it checks: no code is ever sent.
"""

from __future__ import annotations

import hashlib
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Client
from typing import Any

import numpy as np

import tfn
from tfn.array import Array
from tfn.config import config
from tfn.distributed import session, wire
from tfn.distributed.launchers import launch
from tfn.eager import shards, stacks
from tfn.errors import DistributedError, SecurityError
from tfn.exporting import Portable, deserialize
from tfn.extend import Jaxpr, concrete, devices, processes, run
from tfn.trace.sharding import stacked_shape


class Worker:
    """The arrays and the programs of a worker, by number and digest."""

    def __init__(self) -> None:
        self.arrays: dict[int, Array] = {}
        self.programs: dict[str, Jaxpr] = {}
        self.values: list[Any] = []
        self._pieces: Any = None
        self.devices: Sequence[Any] = devices.devices()

    def answer(self, message: bytes) -> bytes:
        """Execute commands in their order; the values that they ask for, or the first error."""
        self.values = []
        try:
            for name, *rest in wire.unpack(message):
                COMMANDS[name](self, *rest)
            return wire.pack(("done", tuple(self.values)))
        except Exception as error:  # of many classes: the program is the user's
            return wire.pack(wire.error_record(error))

    def program(self, digest: str, data: bytes) -> None:
        """Keep a program.

        Raises:
            SecurityError: if the bytes are not those that the controller has named.
            ExportError: if they are no program.
        """
        found = hashlib.sha256(data).hexdigest()
        if found != digest:
            raise SecurityError(
                "a program is not the one that the controller has named",
                got=f"SHA-256 {found[:12]} instead of {digest[:12]}",
                rank=processes.index,
            )
        closed = deserialize(data)
        assert isinstance(closed, Portable)
        self.programs[digest] = closed.jaxpr

    def new(self, number: int, shape: Any, dtype: Any, place: Any, ranks: Any, data: bytes) -> None:
        """Make an array of data: the part that this worker holds."""
        if _absent(ranks):
            return
        sharding = wire.sharding_of(place, self.devices)
        partition, whole = stacks.own_part(sharding, shape)
        own = whole if partition is None else stacked_shape(partition, whole)
        memory = run.device().memory
        buffer = memory.copy(np.frombuffer(data, dtype).reshape(own))
        self.arrays[number] = concrete(buffer, shape, dtype, False, sharding)

    def call(
        self,
        digest: str,
        operands: Sequence[int],
        donated: Sequence[int],
        on: Any,
        results: Sequence[int],
        ranks: Any,
        name: str,
        mesh: Any,
        first: bool,
    ) -> None:
        """Run a program; at its first call the controller asks for the kinds of its results."""
        if _absent(ranks):
            if first:
                self.values.append(None)
            return
        if mesh is not None:
            seen = wire.sharding_of(mesh, self.devices)
            assert seen is not None and seen.mesh.axes  # type: ignore[union-attr]
        given = [self.arrays[i] for i in operands]
        request = wire.request_of(on, self.devices)
        made = run.call(self.programs[digest], given, frozenset(donated), request, name)
        self.arrays.update(zip(results, made, strict=True))
        if first:
            kinds = [x.kind for x in made]
            self.values.append(
                tuple([(k.shape, k.dtype, wire.place_record(k.sharding)) for k in kinds if k])
            )

    def put(self, number: int, place: Any, result: int, ranks: Any) -> None:
        """Divide an array anew."""
        if _absent(ranks):
            return
        sharding = wire.sharding_of(place, self.devices)
        assert sharding is not None
        self.arrays[result] = shards.put(self.arrays[number], sharding)

    def get(self, number: int, ranks: Any) -> None:
        """The data of an array that this worker has."""
        if _absent(ranks):
            self.values.append(None)
            return
        stack = stacks.stack_of(self.arrays[number], run.device().memory)
        self.values.append(stack.tobytes())

    def free(self, numbers: Sequence[int]) -> None:
        """Forget arrays."""
        for number in numbers:
            self.arrays.pop(number, None)

    def save(
        self, folder: str, step: int, topic: str, timeout_ms: int, rows: Sequence[Any]
    ) -> None:
        """Begin to write the pieces of a checkpoint that are this worker's."""
        own = [row for rank, *row in rows if rank == processes.index]
        self.pieces.write(folder, step, topic, timeout_ms / 1000, own, self.arrays)

    def read(self, path: str, name: str, place: Any, result: int, ranks: Any) -> None:
        """Make an array of a checkpoint: the part that this worker holds."""
        if not _absent(ranks):
            sharding = wire.sharding_of(place, self.devices)
            self.arrays[result] = self.pieces.read(path, name, sharding)

    def verify(self, path: str) -> None:
        """Compare the digests of this worker's share of a checkpoint."""
        self.pieces.verify(path)

    @property
    def pieces(self) -> Any:
        """The pieces of checkpoints; their files are loaded only now: they take 40 ms."""
        if self._pieces is None:
            self._pieces = tfn.nn.checkpoint.workers.Pieces(processes.index, processes.count)
        return self._pieces

    def progress(self, step: int, committed: int | None) -> None:
        """Know the step, for errors."""
        session.progress(step, committed)


COMMANDS: dict[str, Callable[..., None]] = {
    "program": Worker.program,
    "new": Worker.new,
    "call": Worker.call,
    "put": Worker.put,
    "get": Worker.get,
    "free": Worker.free,
    "progress": Worker.progress,
    "save": Worker.save,
    "read": Worker.read,
    "verify": Worker.verify,
}
"""The commands of a controller; see `tfn.distributed.wire`."""


def _absent(ranks: Sequence[int] | None) -> bool:
    return ranks is not None and processes.index not in ranks


def serve(folder: str) -> None:
    """Join the others, and answer messages until the agent is gone."""
    started = launch()
    rank = started.rank if started else 0
    agent = Client(os.path.join(folder, f"{rank}.sock"), "AF_UNIX")
    options = wire.unpack(agent.recv_bytes())
    config.devices = options[0]
    try:
        session.initialize(deadline_s=options[1] / 1000)
    except DistributedError as error:
        agent.send_bytes(wire.pack(wire.error_record(error)))
        raise
    hello = ("joined", rank, os.getpid(), socket.gethostname(), len(devices.devices()))
    agent.send_bytes(wire.pack(hello))
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(agent, messages), daemon=True).start()
    worker = Worker()
    while True:
        agent.send_bytes(worker.answer(messages.get()))


def _receive(agent: Any, messages: queue.SimpleQueue[bytes]) -> None:
    """Take messages; without an agent the process ends at once, whatever it is waiting for."""
    try:
        while True:
            messages.put(agent.recv_bytes())
    except (EOFError, OSError):
        os._exit(session.TEMPORARY_FAILURE)


if __name__ == "__main__":
    serve(sys.argv[1])
