"""Staged tiles: parts of operands that the threads of a group copy to local memory, and share.

One tile at a time, whose copy all threads wait for::

    for k:  barrier;  tile = a[.., k];  barrier;  sums += tile

or a ring of them, whose copies run ahead while threads compute (`Staged.stages`, here 3)::

    start tile[0] = a[.., 0];  start tile[1] = a[.., 1]
    for k:
        wait for all copies but the last one;  barrier
        start tile[(k + 2) % 3] = a[.., k + 2], if there is one
        sums += tile[k % 3]

A barrier an iteration is enough: where tile k + 2 goes was that of k - 1, with which all threads
were done before they came to the barrier.  A thread waits for its own copies before the barrier,
so that behind it those of all have arrived.  Four warps multiply a swizzled tile while the next one
is waited for: their copies run one iteration less ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Protocol

from tfn.dtypes import INT64
from tfn.lower.codegen.emitter import Emitter
from tfn.lower.loops.grid_opt_ops import copied_elements, padded_size, row_axes, tile_axes
from tfn.trace.argument import Access
from tfn.trace.grid_argument import SWIZZLE_BYTES, Copy
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

ZERO = const(0, INT64)


def coordinates(emitter: Emitter, number: UOp, ranges: Sequence[UOp]) -> dict[UOp, UOp]:
    """The iteration of each range that a number of all their iterations stands for.

    ``number % 4`` of the last of 4 iterations, ``number // 4 % 8`` of the one before of 8, ...
    """
    place, values = emitter.place, dict.fromkeys(ranges, ZERO)
    longer = [r for r in ranges if r.arg.size > 1]
    step = 1
    for r in reversed(longer):
        value = number if step == 1 else place(number // step)
        # The first range needs no remainder: the number is below the product of all sizes.
        values[r] = value if r is longer[0] else place(value % r.arg.size)
        step *= r.arg.size
    return values


class Group(Protocol):
    """The threads that copy; see `grid.GroupThreads`."""

    size: int
    thread: UOp

    def memory(self, size: int, like: UOp) -> UOp:
        """Local memory for some elements of a value's dtype."""

    def barrier(self, emitter: Emitter) -> None:
        """All threads wait for each other, and see what the others have written."""


class StagedTiles:
    """The tiles of a kernel.

    Args:
        staged: the loads from tiles.
        group: the threads that share them.
    """

    def __init__(self, staged: Iterable[UOp], group: Group) -> None:
        self.group = group
        self._by_loop: dict[int, list[UOp]] = {}
        for u in staged:
            self._by_loop.setdefault(u.arg.at, []).append(u)
        self._places: dict[UOp, tuple[UOp, dict[UOp, int]]] = {}
        self._copies = 0

    def start(self, emitter: Emitter, r: UOp) -> None:
        """Start the copies of the first tiles of a ring, before the loop that takes them."""
        staged = self._by_loop.get(r.arg.number, [])
        for i in range(_distance(staged)):
            with emitter.at.constant(r, i):
                self._start(emitter, r, staged)

    def enter(self, emitter: Emitter, r: UOp) -> None:
        """Bring the tiles of an iteration."""
        staged = self._by_loop.get(r.arg.number, [])
        distance = _distance(staged)
        if not staged:
            return
        if not distance:
            self.group.barrier(emitter)  # the tiles before are no longer needed
            for node in staged:
                self._copy(emitter, node)
            self.group.barrier(emitter)
            return
        emitter.append(UOp(Op.COPY_WAIT, (), distance - 1))
        self.group.barrier(emitter)
        index = emitter.at.fixed.get(r)
        with emitter.at.restoring([r]):
            if index is None:
                emitter.env[r] = emitter.place(emitter.env[r] + distance)
                self._start(emitter, r, staged)
            else:
                with emitter.at.constant(r, index + distance):
                    self._start(emitter, r, staged)

    # Copies.

    def _start(self, emitter: Emitter, r: UOp, staged: Sequence[UOp]) -> None:
        """Start the copies of the tiles of an iteration, if there is such a one, as one group."""
        index, predicate = emitter.at.fixed.get(r), list[UOp]()
        if index is None:
            predicate.append(emitter.place(emitter.env[r] < r.arg.size))
        if index is None or index < r.arg.size:
            for node in staged:
                self._start_tile(emitter, r, node, predicate)
        self._copies += 1
        emitter.append(UOp(Op.COPY_GROUP, (), self._copies))

    def _start_tile(self, emitter: Emitter, r: UOp, node: UOp, predicate: Sequence[UOp]) -> None:
        """Start the copy of a tile: neighbouring threads bring neighbouring runs of elements."""
        load, place, count = node.src[0], emitter.place, copied_elements(node)
        axes = tile_axes(node)
        runs = _size(axes) // count
        memory, _ = self._place(node)
        counter = emitter.code.open(ZERO, const(-(-runs // self.group.size), INT64))
        run = place(place(counter * self.group.size) + self.group.thread)
        element = place(run * count)
        with emitter.at.restoring(axes):
            _set(emitter, axes, element)
            for u in emitter.address_values(load.src[1]):
                emitter.emit(u)
            base, offset, _, _ = emitter.address(load.src[1])
        slot, first = self._slot(emitter, r, node)
        at = self._padded(emitter, node, element)
        to = at if slot is None else place(at + slot)
        conditions = list(predicate)
        if runs % self.group.size:
            conditions.append(place(run < runs))
        if len(conditions) == 2:
            conditions = [place(conditions[0] & conditions[1])]
        src = (memory, to, load.src[0], base, *conditions)
        emitter.append(UOp(Op.COPY, src, Copy(first, offset, count)))
        emitter.code.close(counter, [], [])

    def _copy(self, emitter: Emitter, node: UOp) -> None:
        """Copy a tile: neighbouring threads load neighbouring elements, `size` apart from the next.

        ``for c in ceil(elements / 256): tile[c * 256 + thread] = load at that element's ranges``
        """
        load, code, place, group = node.src[0], emitter.code, emitter.place, self.group
        axes = tile_axes(node)
        elements = _size(axes)
        memory, _ = self._place(node)
        counter = code.open(ZERO, const(-(-elements // group.size), INT64))
        element = place(place(counter * group.size) + group.thread)
        with emitter.at.restoring(axes):
            wrapped = element if elements % group.size == 0 else place(element % elements)
            _set(emitter, axes, wrapped)
            value = emitter.emit(load)
        src = [memory, self._padded(emitter, node, element), value]
        if elements % group.size:
            src.append(place(element < elements))
        emitter.append(UOp(Op.STORE, tuple(src), Access(0, 1, 0)))
        code.close(counter, [], [])

    # Places in local memory.

    def _place(self, node: UOp) -> tuple[UOp, dict[UOp, int]]:
        """The memory of a tile, or of a ring of them, and the steps of its axes there."""
        if node not in self._places:
            axes = tile_axes(node)
            row = _size(row_axes(axes))
            steps = {r: _size(axes[i + 1 :]) for i, r in enumerate(axes)}
            for r, step in steps.items():
                if step >= row:
                    steps[r] = step // row * (row + node.arg.pad)
            memory = self.group.memory(node.arg.stages * padded_size(node), node)
            self._places[node] = memory, steps
        return self._places[node]

    def _padded(self, emitter: Emitter, node: UOp, element: UOp) -> UOp:
        """The place of an element that is counted without padding, in the order of a tile."""
        if node.arg.swizzled:
            return swizzled_index(emitter, element, node.dtype.itemsize)
        row, pad, place = _size(row_axes(tile_axes(node))), node.arg.pad, emitter.place
        return place(element + place(place(element // row) * pad)) if pad else element

    def _slot(self, emitter: Emitter, r: UOp, node: UOp) -> tuple[UOp | None, int]:
        """The beginning of the present iteration's tile in a ring: a value, and a constant."""
        stages, size, place = node.arg.stages, padded_size(node), emitter.place
        index = emitter.at.fixed.get(r)
        if stages == 1 or index is not None:
            return None, (index or 0) % stages * size
        return place(place(emitter.env[r] % stages) * size), 0

    def steps(self, node: UOp) -> dict[UOp, int]:
        """The distances between neighbours along the axes of a tile, in elements."""
        return self._place(node)[1]

    def address(self, emitter: Emitter, node: UOp) -> tuple[UOp, UOp, int]:
        """The memory of a tile, and the index of the element at the present coordinates.

        The index is a value and a constant; of a swizzled tile, before it is swizzled.
        """
        memory, steps = self._place(node)
        r = next(r for r in emitter.at.env if r.arg.number == node.arg.at)
        slot, offset = self._slot(emitter, r, node)
        terms = [] if slot is None else [(slot, 1)]
        for axis, step in steps.items():
            value = emitter.env[axis]
            if value.op is Op.CONST:
                offset += step * int(value.arg.value)
            else:
                terms.append((value, step))
        return memory, emitter.total(terms), offset


def _distance(staged: Sequence[UOp]) -> int:
    """Iterations by which the copies of a loop's tiles run ahead; all of them by the same."""
    (ahead,) = {u.arg.ahead for u in staged} or {0}
    return int(ahead)


def _set(emitter: Emitter, axes: Sequence[UOp], element: UOp) -> None:
    """Set the axes of a tile to the coordinates of an element."""
    for r in axes:
        emitter.at.fixed.pop(r, None)
    emitter.env.update(coordinates(emitter, element, axes))


def _size(ranges: Sequence[UOp]) -> int:
    return prod(r.arg.size for r in ranges)


def swizzled_index(emitter: Emitter, index: UOp, itemsize: int) -> UOp:
    """`trace.argument.swizzled` of an index."""
    place = emitter.place
    row = place(index // (SWIZZLE_BYTES // itemsize))
    moved = place(place(row % 8) * (16 // itemsize))
    return place(UOp(Op.XOR, (index, moved)))
