"""Checkpoints of a cluster that one process controls: each worker writes and reads its own pieces.

    controller   says which worker writes which pieces; writes the manifest when all have
    worker i     writes its pieces to a file of its own, on a thread, and tells the controller

They agree as processes that save together do, through the folder: the controller is host 0, worker
i is host i + 1.  Data of the controller itself, as NumPy arrays and numbers, it writes itself.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfn import device_put, make_array_from_callback
from tfn.array import Array
from tfn.errors import HostError
from tfn.nn.checkpoint.files import Reader
from tfn.nn.checkpoint.folder import Checkpoints
from tfn.nn.checkpoint.manifest import Piece
from tfn.nn.checkpoint.pieces import Held, Owned, bounds
from tfn.nn.checkpoint.stored import opened
from tfn.nn.checkpoint.writer import Writer
from tfn.nn.hosts import Hosts
from tfn.sharding import SingleDeviceSharding

Row = tuple[str, int, str, tuple[int, ...], tuple[int, ...]]
"""A piece that a worker writes: array, its number, name, start, shape."""


class Pieces:
    """The checkpoints that a worker writes and reads.

    Args:
        rank: of the worker.
        count: the number of workers.
    """

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count
        self.reader: Reader | None = None
        self.path = ""

    def write(
        self,
        folder: str,
        step: int,
        topic: str,
        timeout_s: float,
        rows: Sequence[Row],
        arrays: Mapping[int, Any],
    ) -> None:
        """Hold pieces of arrays as they are now, and begin to write them.

        Args:
            folder: of the checkpoints of the run.
            step: of the checkpoint.
            topic: by which the controller calls.
            timeout_s: seconds to wait for the controller.
            rows: the pieces of this worker.
            arrays: by number.
        """
        owned = [_owned(row, arrays[row[1]]) for row in rows]
        held = Held({}, {}, (), {}, {}, owned, [])
        hosts = Hosts(self.rank + 1, self.count + 1)
        checkpoints = Checkpoints(folder, hosts=hosts, timeout_s=timeout_s)

        def job() -> None:
            nonlocal held
            try:
                checkpoints.write(step, held, {}, keep=1, topic=topic)
            except (HostError, OSError) as error:  # the controller knows, or has given up
                print(f"step {step} was not saved: {error}", file=sys.stderr, flush=True)

        Writer().start(job)

    def read(self, path: str, name: str, sharding: Any) -> Array:
        """The part of an array that belongs to the devices of this worker.

        Args:
            path: of the checkpoint.
            name: of the array.
            sharding: of the array that is made.

        Raises:
            DamagedError: if a piece is not what was written.
        """
        reader = self._opened(path)
        if isinstance(sharding, SingleDeviceSharding):
            whole: Array = device_put(reader.whole(name), sharding)
            return whole
        shape, dtype = reader.type_of(name)
        part = lambda index: reader.part(name, bounds(index, shape))
        return make_array_from_callback(shape, sharding, part, dtype)

    def verify(self, path: str) -> None:
        """Compare the digests of this worker's share of the pieces, but for those that were read.

        Raises:
            DamagedError: for the first that is not what was written.
        """
        try:
            self._opened(path).verify(slice(self.rank, None, self.count))
        finally:
            self._close()

    def _opened(self, path: str) -> Reader:
        if self.reader is None or self.path != path:
            self._close()
            self.reader, self.path = opened(path), path
        return self.reader

    def _close(self) -> None:
        if self.reader is not None:
            self.reader.__exit__(None, None, None)
        self.reader = None


def _owned(row: Row, x: Any) -> Owned:
    """A piece with its data, which are held."""
    array, _, name, start, shape = row
    parts = {bounds(shard.index, x.shape): shard for shard in x.addressable_shards}
    data = np.asarray(parts[start, shape].data)
    data = np.ascontiguousarray(data).reshape(shape)
    return Owned(array, Piece(0, name, start, shape, None), data.dtype, lambda: data)
