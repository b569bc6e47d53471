"""Data for training: batches in an order that a key determines, from any position in it.

Which rows make batch i of epoch e is a function of the key, e and i, and of nothing else.  So a
position is two numbers, to go on from one costs nothing, and a run that was interrupted sees what
it would have seen, on as many hosts as there are then:

    rows of batch 7     41 3 17 8 | 90 22 5 63        the same whatever the number of hosts
                        host 0    | host 1            each reads its own part
"""

from __future__ import annotations

import atexit
import operator
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from tfn import make_array_from_process_local_data, random, tree
from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import frozen, integer, one_of
from tfn.nn.hosts import Hosts
from tfn.nn.permutation import Permutation
from tfn.nn.store import Stored
from tfn.random import KeyLike
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

Rows = np.ndarray[Any, Any]


class Position(NamedTuple):
    """A position in the data: the next batch is number `batch` of an epoch.  It can be saved."""

    epoch: int = 0
    batch: int = 0


@dataclass(frozen=True, eq=False)
class Batches:
    """Arrays cut into batches of rows, in a new order every epoch.

    Attributes:
        arrays: a tree of arrays of one length: in memory, or mapped (``numpy.load(path,
            mmap_mode="r")``, ``numpy.memmap``, `nn.state.mapped`) or in a store
            (`nn.store.Stored`), of which only the rows of a batch are read; a file must not be cut
            short while it is mapped.  The rows may be windows of a long text that overlap:
            ``numpy.lib.stride_tricks.sliding_window_view(text, length)`` copies nothing.
        size: rows in a batch, of all hosts together.  Fewer rows than that at the end of an epoch
            are left out: in an order that changes they are others each time.  To use all of them,
            as in a test, choose a size that divides the rows, or add rows that the loss masks.
        key: determines the orders; None for the order as it is.
        transform: applied to each batch of NumPy arrays, ahead of its use; `jnp.asarray` if None,
            or none before arrays are put together by `sharding`.  It gets the rows of this host.
        sharding: the division of a batch among devices, whose first axis is that of the rows: then
            batches are arrays of all hosts, and each host reads the rows of its own devices.  If
            None, a batch has the rows of this host, an equal part of the batch.
        hosts: the processes that read together; those that tfn knows if None.
        shuffle: ``"stateless"`` computes the place of a row when it is needed; ``"sorted"`` holds
            the order of an epoch in memory, and is that of tfn 0.1, for runs that began with it.

    Example:
        >>> batches = Batches({"x": np.arange(6)}, 2)
        >>> [batch["x"].tolist() for batch in batches.stream(epochs=1)]
        [[0, 1], [2, 3], [4, 5]]
        >>> stream = Batches({"x": np.arange(6)}, 2, random.key(0)).stream()
        >>> _ = next(stream), next(stream)
        >>> stream.position
        Position(epoch=0, batch=2)
    """

    arrays: Any
    size: int
    key: KeyLike | None = None
    transform: Callable[[Any], Any] | None = None
    sharding: NamedSharding | None = None
    hosts: Hosts | None = None
    shuffle: Literal["stateless", "sorted"] = "stateless"

    def __post_init__(self) -> None:
        lengths = {path: len(x) for path, x in zip(tree.paths(self.arrays), self._leaves())}
        if len(set(lengths.values())) != 1:
            raise ShapeError(
                "batches need arrays of one length",
                got=str(lengths),
                hint="cut the longer ones: x[:n]",
            )
        if not 1 <= integer("batches", "size", self.size) <= self.rows:
            raise ArgumentError(
                "a batch has one row or more, and not more than there are",
                got=f"size={self.size}, {self.rows} rows",
                hint=f"pass a size from 1 to {self.rows}",
            )
        one_of("batches", "shuffle", self.shuffle, ("stateless", "sorted"))
        self.own  # noqa: B018  (raises now, not in the thread)

    def _leaves(self) -> list[Any]:
        # An Array is looked at through NumPy, since the rows of a batch are copied anyway.
        return [np.asarray(x) if isinstance(x, Array) else x for x in tree.leaves(self.arrays)]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(tree.leaves(self.arrays)[0])

    def __len__(self) -> int:
        return self.rows // self.size

    @property
    def own(self) -> Rows:
        """The rows of a batch that this host reads, as numbers from 0 to `size` - 1.

        Raises:
            ArgumentError: if a batch does not divide among the hosts, or no device of the sharding
                is of this one.
            ShapeError: if it does not divide among the devices.
        """
        hosts = self.hosts or Hosts.here()
        if self.sharding is None:
            return np.arange(self.size)[hosts.part("a batch", self.size)]
        rows = self.sharding.with_spec(P(*self.sharding.spec[:1]))
        parts = {
            range(self.size)[index[0]]
            for device, index in rows.devices_indices_map((self.size,)).items()
            if hosts.host_of(device) == hosts.index
        }
        if not parts:
            raise ArgumentError(
                f"host {hosts.index} has no device of the sharding of batches",
                got=str(self.sharding),
                hint="put batches on devices of all hosts",
            )
        return np.concatenate(sorted(map(np.asarray, parts), key=lambda part: part[0]))

    def order(self, epoch: int) -> Order:
        """Returns the order of the rows in an epoch, which is indexed by slices of positions.

        Example:
            >>> Batches(np.arange(5), 2, random.key(1)).order(0)[:].tolist()
            [0, 4, 1, 3, 2]
        """
        if self.key is None:
            return _InPlace(self.rows)
        key = random.fold_in(self.key, epoch)
        if self.shuffle == "sorted":
            return np.asarray(random.permutation(key, self.rows))
        return Permutation(self.rows, key)

    def stream(
        self,
        start: Position = Position(),  # noqa: B008  (frozen)
        *,
        epochs: int | None = None,
        ahead: int = 2,
    ) -> Stream:
        """Returns the batches from a position on.

        Args:
            start: position of the first batch, such as that of a checkpoint; the beginning by
                default.
            epochs: the epoch before which they end; None for never.
            ahead: number of batches that a thread prepares while others are used; 0 for no thread.

        Raises:
            ArgumentError: if there is no such position, as when it is of other data.
        """
        try:
            epoch, batch = map(operator.index, start)
        except (TypeError, ValueError):
            epoch = batch = -1
        if epoch < 0 or not 0 <= batch < len(self):
            raise ArgumentError(
                "a stream begins at a batch that there is",
                got=str(start),
                hint=f"batches are numbered from 0 to {len(self) - 1}, epochs from 0",
            )
        return Stream(self, Position(epoch, batch), epochs, ahead)

    def _from(self, start: Position, epochs: int | None) -> Iterator[tuple[Position, Any]]:
        """Batches, each with the position after it."""
        leaves, structure = self._leaves(), tree.structure(self.arrays)
        epoch, at = start
        own = self.own
        while epochs is None or epoch < epochs:
            order = self.order(epoch)
            for i in range(at, len(self)):
                rows = order[i * self.size : (i + 1) * self.size][own]
                item = tree.unflatten(structure, [_take(x, rows) for x in leaves])
                if self.transform is not None:
                    item = self.transform(item)
                elif self.sharding is None:
                    item = tree.map(jnp.asarray, item)
                if self.sharding is not None:
                    item = tree.map(self._of_all_hosts, item)
                after = Position(epoch, i + 1) if i + 1 < len(self) else Position(epoch + 1, 0)
                yield after, item
            epoch, at = epoch + 1, 0

    def _of_all_hosts(self, x: Any) -> Array:
        """An array of the rows of all hosts, from those of this one."""
        assert self.sharding is not None
        x = np.asarray(x)
        place = self.sharding.with_spec(P(*self.sharding.spec[: x.ndim]))
        return make_array_from_process_local_data(place, x, (self.size, *x.shape[1:]))


class Order(Protocol):
    """An order of rows, of which parts are asked for."""

    def __getitem__(self, positions: slice, /) -> Rows:
        """The rows at some positions."""


@frozen
class _InPlace:
    """The order as it is."""

    rows: int

    def __getitem__(self, positions: slice, /) -> Rows:
        return np.arange(*positions.indices(self.rows))


def _take(x: object, rows: Rows) -> Rows:
    """Returns rows of an array; of one that is mapped, or in a store, in the order of the file."""
    if not isinstance(x, (np.memmap, Stored)):
        return np.asarray(x)[rows]
    order = np.argsort(rows)
    out = np.empty((len(rows), *x.shape[1:]), x.dtype)
    out[order] = x[rows[order]]
    return out


class Stream:
    """An iterator over batches that knows its position.  Close it, or use it in a ``with``.

    Attributes:
        position: of the next batch, whatever the thread has prepared.

    Example:
        >>> with Batches({"x": np.arange(4)}, 2).stream() as stream:
        ...     batch = next(stream)
        >>> batch["x"].tolist(), stream.position
        ([0, 1], Position(epoch=0, batch=1))
    """

    def __init__(self, batches: Batches, start: Position, epochs: int | None, ahead: int) -> None:
        self.position = Position(*start)
        source = batches._from(self.position, epochs)
        self._ready = _Ahead(source, ahead) if ahead else source

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Any:
        self.position, batch = next(self._ready)
        return batch

    def close(self) -> None:
        """Ends the thread, if there is one."""
        if isinstance(self._ready, _Ahead):
            self._ready.stop()
            self._ready.thread.join()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        ready = getattr(self, "_ready", None)  # if it was begun
        if isinstance(ready, _Ahead):
            ready.stop()  # and no waiting


class _Ahead:
    """The items of an iterator, prepared by a thread some of them ahead."""

    def __init__(self, source: Iterator[Any], ahead: int) -> None:
        self._queue: Items = queue.Queue(ahead)
        self._stop = threading.Event()
        self._ended: BaseException | None = None
        arguments = source, self._queue, self._stop  # not self, which can then be collected
        self.thread = threading.Thread(target=_produce, args=arguments, daemon=True)
        self.thread.start()
        _RUNNING[self.thread] = self._stop

    def __next__(self) -> Any:
        if self._ended is None:
            is_item, item = self._queue.get()
            if is_item:
                return item
            self._ended = item
        raise self._ended

    def stop(self) -> None:
        self._stop.set()
        self._ended = self._ended or StopIteration()
        with suppress(queue.Empty):
            while True:  # a thread that waits for room need not wait longer
                self._queue.get_nowait()


Items = queue.Queue[tuple[bool, Any]]
_RUNNING: weakref.WeakKeyDictionary[threading.Thread, threading.Event] = weakref.WeakKeyDictionary()
JOIN_TIMEOUT_SECONDS = 5.0


@atexit.register
def _end() -> None:
    """Stops all threads while the interpreter lives: a thread that wakes without it aborts."""
    running = list(_RUNNING.items())
    for _, stop in running:
        stop.set()
    for thread, _ in running:
        thread.join(JOIN_TIMEOUT_SECONDS)


def _produce(source: Iterator[Any], ready: Items, stop: threading.Event) -> None:
    """Puts (True, item) for each item, then (False, the exception that ended it)."""

    def put(item: tuple[bool, Any]) -> None:
        while not stop.is_set():
            with suppress(queue.Full):
                return ready.put(item, timeout=0.1)

    try:
        for item in source:
            if stop.is_set():
                return
            put((True, item))
        put((False, StopIteration()))
    except BaseException as error:
        put((False, error))
