"""The controller of a cluster: it traces, and the workers run.

    f = tfn.jit(step)       traced here, once
    y = f(x)                a command in a queue; y is a handle, made at once
    np.asarray(y)           the queue is sent, and the parts of y are brought here

Each array operation and each jitted call becomes a command.  Up to `steps_per_dispatch` calls go to
the workers together, so that a call costs the controller no message of its own.  Commands that were
sent run while the controller makes the next ones; an error of theirs is raised at the next dispatch
or at the next value that is asked for.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Sequence
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tfn.array import Array
from tfn.config import config
from tfn.distributed import wire
from tfn.distributed.gang import Gang
from tfn.distributed.remote import KEPT_BYTES, NAME, RemoteBuffer, as_buffer, remote, size_bytes
from tfn.distributed.specification import HostItem
from tfn.eager import placement, registry, stacks
from tfn.errors import DeletedArrayError, DistributedError, TfnError
from tfn.exporting import Portable
from tfn.extend import Jaxpr, concrete, devices, mutable, platforms, processes, run
from tfn.sharding import NamedSharding, PartitionSpec, Sharding
from tfn.trace.inline import names_devices
from tfn.trace.mesh import mesh_of
from tfn.trace.place import Request
from tfn.trace.processes import blocks
from tfn.trace.sharding import stacked_shape, stacking
from tfn.transforms.shard import program as partitioner

IN_FLIGHT = 2
"""Dispatches that were sent and not answered: one runs while the next is being made."""
CHECK_S = 0.2
"""Seconds between two questions whether workers live, while a checkpoint is waited for: each is a
call of every agent."""
SLACK_S = 5.0
"""A worker that waits for another gives up at its deadline; the controller waits so much longer,
to hear its error."""


@mutable
class Shipped:
    """A program that the workers have.

    Attributes:
        digest: SHA-256 of its bytes.
        on: the shardings that were asked for, as plain values.
        ranks: the workers that run it; None for all.
        mesh: that of its collectives, where no argument has one.
        results: the kinds of its results; None until it has run.
    """

    digest: str
    on: Any
    ranks: tuple[int, ...] | None
    mesh: Any
    results: tuple[tuple[Any, Any, Sharding | None], ...] | None = None


Slot = list[Any]
"""The place of the answers to a command: empty at first, then their list, one for each worker."""


class Controller:
    """Turns array operations into commands, and sends them to the workers.

    Args:
        gang: the workers.
        items: the hosts.
        steps_per_dispatch: calls that are sent together.
        deadline_s: seconds for which workers wait for each other.
    """

    def __init__(
        self, gang: Gang, items: Sequence[HostItem], steps_per_dispatch: int, deadline_s: float
    ) -> None:
        self.gang, self.steps, self.deadline_s = gang, steps_per_dispatch, deadline_s
        self.lock = RLock()
        self._take_hosts(items)
        self.device = remote(self)
        self.count = 0
        self.before: tuple[str, int] | None = None
        self.dispatches, self.checked_s = 0, 0.0
        self._forget()

    def _take_hosts(self, items: Sequence[HostItem]) -> None:
        self.owners: tuple[int, ...] = tuple(
            [rank for rank, item in enumerate(items) for _ in range(item.devices)]
        )
        self.size = len(items)

    def _forget(self) -> None:
        self.queue: list[Any] = []
        self.calls = 0
        self.freed: deque[int] = deque()
        self.slots: list[Slot] = []
        self.sent: deque[tuple[Any, list[Slot]]] = deque()
        self.programs: dict[Any, Shipped] = {}
        self.digests: set[str] = set()
        self.others: WeakKeyDictionary[Any, RemoteBuffer] = WeakKeyDictionary()
        self.oldest = self.count  # arrays with smaller numbers were lost
        self.fault: TfnError | None = None

    # The life of a cluster.

    def install(self) -> None:
        """Make the devices of the cluster those of this process."""
        self.before = config.device, config.devices
        platforms.MAKERS[NAME] = lambda: self.device
        platforms.CONTROLLERS[NAME] = self
        config.device, config.devices = NAME, len(self.owners)
        processes.check = self.check

    def uninstall(self) -> None:
        """Give this process its own devices back."""
        if self.before is not None:
            config.device, config.devices = self.before
            for table in (platforms.MAKERS, platforms.CONTROLLERS, registry.DEVICES):
                table.pop(NAME, None)
            self.before = processes.check = None

    def restart(self) -> None:
        """End all workers and start new ones; all arrays are lost, traces that hold some too."""
        with self.lock:
            self.gang.stop()
            self._forget()
            run.clear_caches()
            try:
                self.gang.start()
            except TfnError as error:  # as a host that goes away now: it can be started again
                self.fault = error
                raise
            self._take_hosts(self.gang.items)
            if self.before is not None:
                config.devices = len(self.owners)

    # The runtime.

    def call(
        self,
        jaxpr: Jaxpr,
        operands: Sequence[Array],
        donated: frozenset[int],
        on: Request | None,
        name: str,
    ) -> list[Array]:
        """A closed function in the workers: handles of its results."""
        kinds = tuple([x.kind for x in operands])
        with self.lock:
            self._check()
            key = jaxpr.function, kinds, on
            program = self.programs.get(key)
            if program is None:
                program = self.programs[key] = self._shipped(jaxpr, kinds, on, name)
            given = tuple([self._number(x) for x in operands])
            count = len(jaxpr.outputs)
            numbers = tuple(range(self.count, self.count + count))
            self.count += count
            first = program.results is None
            self.queue.append(
                (
                    *("call", program.digest, given, tuple(sorted(donated)), program.on, numbers),
                    *(program.ranks, name, program.mesh, first),
                )
            )
            for i in donated:
                operands[i].delete()
            self.calls += 1
            if program.results is None:
                program.results = self._kinds(self._answered(), program.ranks)
            elif self.calls >= self.steps:
                self.flush()
            return [
                self._handle(number, *kind)
                for number, kind in zip(numbers, program.results, strict=True)
            ]

    def put(self, x: Array, sharding: Sharding) -> Array:
        """An array divided anew; data of this process become an array of the cluster."""
        with self.lock:
            self._check()
            sharding.checked(x.shape)
            buffer: Any = x.concrete().buffer
            fresh = not isinstance(buffer, RemoteBuffer) or buffer.number is None
            if fresh and x.kind is not None and x.kind.sharding is None:
                data: Any = buffer.data if isinstance(buffer, RemoteBuffer) else run.read(x)
                return self._placed(data, x, sharding)
            number, self.count = self.count, self.count + 1
            source = self._number(x)
            ranks = self._both(x.kind.sharding if x.kind else None, sharding)
            self.queue.append(("put", source, wire.place_record(sharding), number, ranks))
            return self._handle(number, x.shape, x.dtype, sharding, x.weak_type)

    def _placed(self, data: np.ndarray[Any, Any], x: Array, sharding: Sharding) -> Array:
        """The data of this process under a sharding, as the stack of its parts."""
        partition = stacks.is_divided(sharding, x.ndim)
        if partition is not None:
            split, order = stacking(partition, x.shape)
            data = np.ascontiguousarray(data.reshape(split).transpose(order))
        buffer = as_buffer(RemoteBuffer(self, data.nbytes, data))
        return concrete(buffer, x.shape, x.dtype, x.weak_type, sharding)

    def _handle(
        self, number: int, shape: Any, dtype: Any, sharding: Sharding | None, weak: bool = False
    ) -> Array:
        buffer = RemoteBuffer(self, 0, None, number)
        x = concrete(as_buffer(buffer), shape, dtype, weak, sharding)
        buffer.kind = x.kind
        buffer.size_bytes = size_bytes(x.kind)
        return x

    def _number(self, x: Array) -> int:
        """The number of an array; its data are sent first if the workers have none."""
        buffer: Any = x.concrete().buffer
        if not isinstance(buffer, RemoteBuffer):
            other = self.others.get(buffer)
            if other is None:
                data = buffer.read(x.shape, x.dtype)
                other = self.others[buffer] = RemoteBuffer(self, data.nbytes, data)
            buffer = other
        current = buffer.owner is self and (buffer.number or 0) >= self.oldest
        if buffer.number is not None and current:
            return int(buffer.number)
        if buffer.data is None or buffer.owner is not self:
            raise _lost(x)
        buffer.number, self.count, buffer.kind = self.count, self.count + 1, x.kind
        self.queue.append(_New(buffer.number, x.kind, buffer.data))
        if buffer.data.nbytes > KEPT_BYTES and x.committed:
            buffer.data = None
        return int(buffer.number)

    def _shipped(self, jaxpr: Jaxpr, kinds: Any, on: Request | None, name: str) -> Shipped:
        place = placement.common_place(name or "a program", kinds) or (on.place if on else None)
        data = Portable.of(jaxpr).serialize()
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self.digests:
            self.digests.add(digest)
            self.queue.append(("program", digest, data))
        mesh = None
        if place is None and names_devices(jaxpr.function):
            axes = partitioner.mesh_of(jaxpr.function, [None] * len(kinds))
            assert axes is not None
            found = mesh_of(axes, NAME)
            mesh = wire.place_record(NamedSharding(found, PartitionSpec()))
            place = NamedSharding(found, PartitionSpec())
        return Shipped(digest, wire.request_record(on), self._ranks(place), mesh)

    def _kinds(self, slot: Slot, ranks: Any) -> Any:
        record = slot[0][ranks[0] if ranks else 0]
        return tuple(
            [
                (shape, dtype, wire.sharding_of(place, devices.devices(NAME)))
                for shape, dtype, place in record
            ]
        )

    def _ranks(self, sharding: Sharding | None) -> tuple[int, ...] | None:
        """The workers with devices of a sharding; None for all."""
        if sharding is None:
            return None
        found = tuple(sorted({self.owners[device.id] for device in sharding.devices}))
        return None if len(found) == self.size else found

    def _both(self, old: Sharding | None, new: Sharding) -> tuple[int, ...] | None:
        first, second = self._ranks(old), self._ranks(new)
        if first != second and old is not None:
            raise DistributedError(
                "an array cannot move from some hosts of a cluster to others",
                got=f"from ranks {first or 'all'} to ranks {second or 'all'}",
                hint="tfn.device_put(np.asarray(x), sharding) takes it through the controller",
            )
        return second

    # Checkpoints.

    def has(self, x: Any) -> bool:
        """Whether workers alone have the data of an array."""
        buffer: Any = x.concrete().buffer if isinstance(x, Array) else None
        return isinstance(buffer, RemoteBuffer) and buffer.data is None

    def save(
        self,
        folder: str,
        step: int,
        topic: str,
        timeout_s: float,
        rows: Sequence[tuple[int, str, Array, Any]],
    ) -> None:
        """Let workers begin to write pieces, those of host i + 1 worker i."""
        with self.lock:
            self._check()
            records = tuple(
                [(h - 1, name, self._number(x), p.name, p.start, p.shape) for h, name, x, p in rows]
            )
            self.queue.append(("save", folder, step, topic, int(1000 * timeout_s), records))
            self.flush()

    def read(self, path: str, name: str, shape: Any, dtype: Any, sharding: Any) -> Array:
        """An array of a checkpoint, of which each worker reads its part."""
        with self.lock:
            self._check()
            sharding.checked(shape)
            number, self.count = self.count, self.count + 1
            place = wire.place_record(sharding)
            self.queue.append(("read", path, name, place, number, self._ranks(sharding)))
            return self._handle(number, shape, dtype, sharding)

    def verify(self, path: str) -> None:
        """Compare the digests of a checkpoint, each worker a share.

        Raises:
            DamagedError: for what is not as it was written.
        """
        with self.lock:
            self.queue.append(("verify", path))
            self.flush(wait=True)

    def check(self) -> None:
        """Ask for workers that have died, now and then.

        Raises:
            WorkerLostError: naming one.
        """
        now_s = time.monotonic()
        if now_s < self.checked_s + CHECK_S:
            return
        self.checked_s = now_s
        try:
            self.gang.check()
        except DistributedError as error:
            self.fault = self.fault or error
            raise

    # Values.

    def forgotten(self, number: int) -> None:
        """Remember that an array has no references any more."""
        self.freed.append(number)

    def fetched(self, buffer: RemoteBuffer) -> np.ndarray[Any, Any]:
        """The stack of the parts that workers have of an array.

        Raises:
            TfnError: an error of the programs that compute it.
            DeletedArrayError: if it was lost with its workers.
        """
        with self.lock:
            self._check()
            kind = buffer.kind
            if buffer.number is None or buffer.number < self.oldest:
                raise _lost(kind)
            ranks = self._ranks(kind.sharding)
            sources = ranks or tuple(range(self.size))
            if stacks.is_divided(kind.sharding, len(kind.shape)) is None:
                sources = sources[:1]
            self.queue.append(("get", buffer.number, sources))
            slot = self._answered()
            return _joined(kind, [(rank, slot[0][rank]) for rank in sources], self.owners)

    def _answered(self) -> Slot:
        """Send the queue, whose last command asks for a value, and wait for it."""
        slot: Slot = []
        self.slots.append(slot)
        self.flush(wait=True)
        return slot

    def flush(self, wait: bool = False) -> None:
        """Send what is in the queue, and take answers: all of them, or until few are out.

        Raises:
            TfnError: the first error of a worker.
        """
        with self.lock:
            self._check()
            freed = [self.freed.popleft() for _ in range(len(self.freed))]
            if freed:
                self.queue.append(("free", tuple([n for n in freed if n >= self.oldest])))
            if self.queue:
                commands, self.queue, self.calls = self.queue, [], 0
                slots, self.slots = self.slots, []
                ticket = self.gang.send(self._messages(commands))
                self.sent.append((ticket, slots))
                self.dispatches += 1
            while len(self.sent) > (0 if wait else IN_FLIGHT):
                self._take(*self.sent.popleft())

    def _take(self, ticket: Any, slots: list[Slot]) -> None:
        try:
            records = self.gang.receive(ticket, self.deadline_s + SLACK_S)
        except TfnError as error:
            if isinstance(error, DistributedError):
                self.fault = self.fault or error
            raise
        for i, slot in enumerate(slots):
            slot.append([values[i] for _, values in records])

    def _messages(self, commands: Sequence[Any]) -> list[bytes]:
        """The message of each worker; the same object where all get the same."""
        if not any(isinstance(c, _New) and c.is_divided() for c in commands):
            same = wire.pack(
                tuple([c.record(0, ()) if isinstance(c, _New) else c for c in commands])
            )
            return [same] * self.size
        return [
            wire.pack(
                tuple([c.record(rank, self.owners) if isinstance(c, _New) else c for c in commands])
            )
            for rank in range(self.size)
        ]

    def progress(self, step: int, committed: int | None) -> None:
        """Tell the workers the step that begins, for errors."""
        with self.lock:
            self.queue.append(("progress", step, committed))

    def _check(self) -> None:
        if self.fault is not None:
            raise self.fault


class _New:
    """An array of data of the controller, on its way."""

    __slots__ = ("data", "kind", "number")

    def __init__(self, number: int, kind: Any, data: np.ndarray[Any, Any]) -> None:
        self.number, self.kind, self.data = number, kind, data

    def is_divided(self) -> bool:
        """Whether workers get different parts."""
        return self.kind.sharding is not None

    def record(self, rank: int, owners: Sequence[int]) -> tuple[Any, ...]:
        """The command for a worker, with the part of it."""
        sharding, own, ranks = self.kind.sharding, self.data, None
        if sharding is not None:
            holders = {owners[d.id] for d in sharding.devices} if owners else set()
            ranks = tuple(sorted(holders)) or None
            if owners and rank not in holders:
                own = self.data.reshape(-1)[:0]
            elif owners:
                own = self.data[_slices(self.kind, rank, owners)]
        place = wire.place_record(sharding)
        return ("new", self.number, self.kind.shape, self.kind.dtype, place, ranks, own.tobytes())


def _slices(kind: Any, rank: int, owners: Sequence[int]) -> tuple[slice, ...]:
    """The part of the stack of an array that a worker has."""
    partition = stacks.is_divided(kind.sharding, len(kind.shape))
    if partition is None:
        return ()
    mesh = kind.sharding.mesh
    grid = blocks(tuple([owners[device.id] for device in mesh.devices.flat]), mesh.axis_sizes)
    found = {}
    for axis, count, i in zip(mesh.axes, grid.sizes, grid.place(rank), strict=True):
        n = axis.size // count
        found[axis.name] = slice(i * n, (i + 1) * n)
    return tuple([found[name] for name in partition.names])


def _joined(
    kind: Any, parts: Sequence[tuple[int, bytes]], owners: Sequence[int]
) -> np.ndarray[Any, Any]:
    """The stack of the parts of workers."""
    partition = stacks.is_divided(kind.sharding, len(kind.shape))
    if partition is None:
        return np.frombuffer(parts[0][1], kind.dtype).reshape(kind.shape).copy()
    stack = np.empty(stacked_shape(partition, kind.shape), kind.dtype)
    for rank, data in parts:
        own = stack[_slices(kind, rank, owners)]
        own[...] = np.frombuffer(data, kind.dtype).reshape(own.shape)
    return stack


def _lost(x: Any) -> TfnError:
    return DeletedArrayError(
        "an array was lost with the workers that had it",
        got=f"{x.dtype.name}{list(x.shape)}, made before the cluster was started again",
        hint="load it from the newest checkpoint; cluster.run does so by calling its function anew",
    )
