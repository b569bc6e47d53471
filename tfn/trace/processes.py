"""Processes that work together on one program: this one's number, and how a mesh lies on them.

    Mesh('data': 4) on 2 processes of 2 devices  =  blocks of a grid: sizes (2,), ranks (0, 1)

Each process holds one block of the devices of a mesh, all blocks of one shape.  So an axis of the
mesh is one over processes, the major one, and one within a process.  What crosses processes is a
`Message`, which the transport of this process carries; see `tfn.distributed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from tfn._support.frozen import frozen, mutable
from tfn.errors import DeviceError
from tfn.trace.op import Op, Shape
from tfn.trace.sharding import Exchange

Arrays = Sequence[np.ndarray]


@frozen
class Clock:
    """The clock of this process, ``time.perf_counter_ns``, beside that of process 0.

    Attributes:
        job: a name of the job: the clocks of its processes were compared with each other.
        ahead_ns: by how much this one is ahead.
        error_ns: by how much that may be wrong.
    """

    job: str
    ahead_ns: int
    error_ns: int


@mutable
class Processes:
    """The processes that work together, as this one sees them.

    Attributes:
        index: the number of this process.
        device_counts: the number of devices of each process; None for one process alone.
        bind: ``(message, results, operands) -> call``: a message prepared for its memory.
        begin: as `bind`; the call returns before the message has arrived.
        end: ``(message, results) -> call``: waits for the message to these results.
        exchanged: ``(bytes, ranks, what)``: some bytes of each process, for all of them.
        wait: ``(what, pending)``: until each has arrived, by its ``test()``, or the deadline.
        agree: ``(hosts, name, digest, messages)``: raises unless all processes of the hosts are
            about to run the same program, with the same messages in the same order.
        clock: of this process, compared with that of process 0; None for one process alone.
        check: raises if another process has died; None where nothing can tell.
        host_index: the number of this process among those of its host.
    """

    index: int = 0
    device_counts: tuple[int, ...] | None = None
    bind: Callable[[Message, Arrays, Arrays], Callable[[], None]] | None = None
    begin: Callable[[Message, Arrays, Arrays], Callable[[], None]] | None = None
    end: Callable[[Message, Arrays], Callable[[], None]] | None = None
    exchanged: Callable[[bytes, Sequence[int], str], list[bytes]] | None = None
    wait: Callable[[str, Sequence[Any]], None] | None = None
    agree: Callable[[HostGrid, str, str, str], None] | None = None
    clock: Clock | None = None
    check: Callable[[], None] | None = None
    host_index: int = 0

    @property
    def count(self) -> int:
        """The number of processes."""
        return 1 if self.device_counts is None else len(self.device_counts)

    @property
    def rows(self) -> tuple[tuple[int, int], ...]:
        """The process of each device, and its number on this process, in the order of devices."""
        counts = self.device_counts or ()
        return tuple([(process, i) for process, n in enumerate(counts) for i in range(n)])


processes = Processes()
"""The processes that this one works with: none until `tfn.distributed.initialize`."""


@frozen
class HostGrid:
    """The blocks of a mesh that processes hold.

    Attributes:
        sizes: the number of blocks along each axis of the mesh.
        ranks: the process of each block, row by row.
        local: whether all blocks are devices of this process, with memories of their own; then
            ranks are their numbers in the mesh.
    """

    sizes: Shape
    ranks: tuple[int, ...]
    local: bool = False

    def place(self, rank: int) -> Shape:
        """The place of the block of a process.

        Raises:
            DeviceError: for a process that has no device of the mesh.
        """
        if rank not in self.ranks:
            raise DeviceError(
                f"process {rank} has no device of the mesh",
                got=f"a mesh over the devices of processes {', '.join(map(str, self.ranks))}",
                hint="only processes with devices of a mesh call functions over it",
            )
        return tuple([int(i) for i in np.unravel_index(self.ranks.index(rank), self.sizes)])

    def line(self, axis: int, rank: int) -> tuple[int, ...]:
        """The processes along an axis, through the block of one of them."""
        place: tuple[Any, ...] = self.place(rank)
        through = (*place[:axis], slice(None), *place[axis + 1 :])
        return tuple(np.array(self.ranks).reshape(self.sizes)[through].tolist())


@frozen
class Message:
    """An exchange between processes: a function of the host in a program, as ``run`` of `Host`.

    It moves bytes and computes nothing, except in a REDUCE.  Several values of one exchange go
    together.

    Attributes:
        kind: GATHER, TRANSPOSE, PERMUTE or REDUCE, each value as `Exchange` says of one value.
        name: of the axis of the mesh.
        axis: its number.
        hosts: the processes.
        pairs: (source, destination) along the axis of a PERMUTE.
        op: the monoid of a REDUCE.
    """

    kind: Exchange
    name: str
    axis: int
    hosts: HostGrid
    pairs: tuple[tuple[int, int], ...] = ()
    op: Op | None = None

    def bound(self, results: Arrays, operands: Arrays) -> Callable[[], None]:
        """The exchange of the data at these places, which is called many times."""
        assert processes.bind is not None, "a program of many processes runs after initialize()"
        return processes.bind(self, results, operands)

    def begun(self, results: Arrays, operands: Arrays) -> Callable[[], None]:
        """The beginning of the exchange of the data at these places."""
        assert processes.begin is not None, "a program of many processes runs after initialize()"
        return processes.begin(self, results, operands)

    def ended(self, results: Arrays, operands: Arrays) -> Callable[[], None]:
        """Its end: then the results are there."""
        assert processes.end is not None, "a program of many processes runs after initialize()"
        return processes.end(self, results)

    def __call__(self, results: Arrays, operands: Arrays) -> None:
        """The exchange, once."""
        self.bound(results, operands)()

    def received_bytes(self, result_bytes: int) -> int:
        """The bytes of the results that come from other processes."""
        n = self.hosts.sizes[self.axis]
        if self.kind is Exchange.REDUCE:  # its part from all others, then the parts of all others
            return 2 * result_bytes * (n - 1) // n
        return result_bytes if self.kind is Exchange.PERMUTE else result_bytes * (n - 1) // n

    @property
    def __name__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """Its text in prints and errors: ``all_gather over data``."""
        kind = "all_reduce" if self.kind is Exchange.REDUCE else self.kind.value
        return f"{kind} over {self.name}"


@frozen
class Coordinates:
    """The place of this process in the grid of hosts: a function of the host without operands.

    The program is the same in all processes for that reason, and needs no further argument.
    """

    hosts: HostGrid

    def __call__(self, results: Arrays, operands: Arrays) -> None:
        """The number of this process's block along each axis."""
        for out, i in zip(results, self.hosts.place(processes.index), strict=True):
            out[...] = i

    @property
    def __name__(self) -> str:
        return "process_coordinates"


@lru_cache(maxsize=256)
def blocks(owners: tuple[int, ...], sizes: Shape) -> HostGrid:
    """The blocks of a mesh, from the process of each of its devices.

    Args:
        owners: of the devices, row by row.
        sizes: of the axes.

    Raises:
        DeviceError: if processes do not hold blocks of one shape.

    Example:
        >>> [grid.sizes for grid in (blocks((0, 0, 1, 1), (4,)), blocks((0, 1, 0, 1), (2, 2)))]
        [(2,), (1, 2)]
    """
    grid = np.array(owners).reshape(sizes)
    block = []
    for axis, n in enumerate(sizes):
        first = np.moveaxis(grid, axis, 0).reshape(n, -1)[:, 0]
        differs = np.flatnonzero(first != first[0])
        block.append(int(differs[0]) if differs.size else n)
    if not any(n % b for n, b in zip(sizes, block, strict=True)):
        corners = grid[tuple([slice(None, None, b) for b in block])]
        filled = corners
        for axis, b in enumerate(block):
            filled = filled.repeat(b, axis)
        if np.array_equal(filled, grid) and len(set(corners.flat)) == corners.size:
            return HostGrid(corners.shape, tuple(corners.ravel().tolist()))
    raise DeviceError(
        "the processes of a mesh do not hold blocks of it",
        got=f"a mesh of sizes {sizes} whose devices belong to processes {list(owners[:16])}",
        hint="tfn.make_mesh arranges devices process by process; put the axes within a process "
        f"last, with {prod(block)} devices or a divisor along each",
    )
