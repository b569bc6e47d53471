"""Grid linearisation: a loop nest becomes the instructions of one thread of a group.

    group r0 in 8: local r1 in 256:            v0 = load a[begin*256 + thread]
      b[r0*256 + r1] = sin a[...]      ->      store b[begin*256 + thread] = ...

The group's number is the parameter `begin`, the number of a thread in its group is a RANGE.  All
places GROUP of a nest together are the grid, and all places LOCAL the threads: the last range
counts fastest.  Threads beyond a bound are idle: their loop over a LOCAL range runs no iteration::

    local r1 in min(256, 1000 - r0*256):       loop i in thread..min(thread + 1, bound):

A barrier of a group, BARRIER, is emitted where all its threads come: after each level of a
reduction over threads, and before and after a tile is copied to local memory.  In kernels that
stage tiles no loop may be left out, so idle threads are masked access by access instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

from tfn.dtypes import INT64
from tfn.errors import SplitError
from tfn.lower.codegen.emitter import Emitter
from tfn.lower.codegen.group_scan import emit_shared
from tfn.lower.codegen.linearize import BEGIN
from tfn.lower.codegen.recurrence import Recurrence
from tfn.lower.codegen.staged_tiles import StagedTiles, coordinates, swizzled_index
from tfn.lower.codegen.warp_product import emit_reduction
from tfn.lower.loops import loop_nest
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.target.grid import Grid
from tfn.trace import build
from tfn.trace.argument import Access, Place, Range
from tfn.trace.grid_argument import LocalMemory
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, nodes, walk

ZERO = const(0, INT64)
PLAIN = Grid()
"""A machine whose threads share memory, and nothing else."""


def thread_count(n: Nest) -> int:
    """The threads of a group that runs a nest."""
    around = _size(_local(n.loops))
    shared: list[int] = [u.arg.threads for u in n.body.src if u.op is Op.RECUR]
    return max([around, *shared, *(_size(_local(f.src[1:])) for f in loop_nest.folds(n.body))])


def _local(ranges: Sequence[UOp]) -> list[UOp]:
    return [r for r in ranges if r.arg.place is Place.LOCAL]


def _size(ranges: Sequence[UOp]) -> int:
    return prod(r.arg.size for r in ranges)


def linearize(n: Nest, fma: bool = True, machine: Grid = PLAIN) -> tuple[UOp, ...]:
    """The instructions of one thread of a group, in order: the stage LINEAR.

    Args:
        n: the nest, its ranges bound to groups, threads, loops and registers.
        fma: whether products are added to sums without rounding them.
        machine: the grid: whether threads of a warp exchange values.
    """
    linearizer = GridLinearizer(n, fma, machine)
    linearizer.loops(0)
    return tuple(linearizer.code.scope.items)


class GridLinearizer:
    """The loops of a thread around a kernel's stores.

    Attributes:
        outer: ranges of threads, and ranges that run as loops, outermost first.
        inner: ranges in registers, inside of all loops.
    """

    def __init__(self, n: Nest, fma: bool, machine: Grid) -> None:
        self.body = n.body
        self.threads = GroupThreads(n, machine)
        self.emitter = Emitter(n, fma, emit_reduction, self.threads)
        if self.threads.is_masked:  # a tile that is skipped by some threads has barriers for all
            self.emitter.masks = {}
        self.code, self.at, self.machine = self.emitter.code, self.emitter.at, machine
        groups = [r for r in n.loops if r.arg.place is Place.GROUP]
        self.at.env.update(coordinates(self.emitter, BEGIN, groups))
        self.outer = [r for r in n.loops if r.arg.place in (Place.LOOP, Place.LOCAL)]
        self.inner = [r for r in n.loops if r not in groups and r not in self.outer]

    def loops(self, level: int) -> None:
        """Emit the loops from `level` inwards, and the stores in the innermost."""
        if level == len(self.outer):
            self._stores()
            return
        r = self.outer[level]
        if r.arg.size == 1 and r.arg.place is Place.LOOP:  # elements in registers are found there
            with self.at.constant(r, 0):
                self.loops(level + 1)
            return
        begin: UOp = ZERO
        end: UOp | None = const(r.arg.size, INT64)
        if r.arg.place is Place.LOCAL:
            begin, end = self.threads.iterations(self.emitter, r)
        if end is None:
            with self.at.looping(r, begin):
                self.loops(level + 1)
            return
        counter = self.code.open(begin, end)
        with self.at.looping(r, counter):
            self.loops(level + 1)
        self.code.close(counter, [], [])

    def _stores(self) -> None:
        stores = [u for u in self.body.src if u.op is Op.STORE]
        for _ in self.at.unrolled(self.inner):
            for store in stores:
                self.emitter.store(store)
        for u in self.body.src:
            if u.op is Op.RECUR and u.arg.threads > 1:
                emit_shared(self.emitter, u, self.machine)
            elif u.op is Op.RECUR:
                Recurrence(self.emitter, u).run(self.inner)


class GroupThreads:
    """The threads of a group: which iterations they run, what they share, where they meet.

    Attributes:
        size: the number of threads.
        thread: the number of a thread in its group, as a range of all threads.
        tiles: the tiles in local memory.
        loads_matrices: whether a warp loads matrices from tiles by one instruction.
        is_masked: whether idle threads run all loops, and their accesses are masked.
        only_first: whether only the first thread stores, since no store is in a range of threads.
    """

    def __init__(self, n: Nest, machine: Grid) -> None:
        self.size = thread_count(n)
        self.warp, self.exchanges = machine.warp_threads, machine.exchanges
        self.loads_matrices = machine.loads_matrices
        self.thread = UOp(Op.RANGE, (), Range(-1, self.size, Place.LOCAL))
        self._axes = [_local(n.loops), *(_local(f.src[1:]) for f in loop_nest.folds(n.body))]
        sizes = sorted({_size(axes) for axes in self._axes if axes})
        if len(sizes) > 1:
            raise SplitError(
                "the loops of a kernel, and its reductions, share the same threads of a group",
                got=f"ranges of {', '.join(map(str, sizes))} threads",
                hint="split all of them by the same amounts",
            )
        if self.size & (self.size - 1) and any(self._axes[1:]):
            raise SplitError(
                "a reduction over threads is a tree over a power of two of them",
                got=f"{self.size} threads",
            )
        staged = [u for u in nodes(n.body) if u.op is Op.STAGED]
        self.tiles = StagedTiles(staged, self)
        # A bound on what is unrolled within a thread differs from element to element.
        unrolled = (
            s.op is Op.RANGE and s.arg.place is Place.UPCAST
            for axes in self._axes
            for r in axes
            for s in walk(r.src)
        )
        self.is_masked = bool(staged) or any(unrolled)
        self.only_first = self.size > 1 and not self._axes[0]
        self._memories = self._barriers = 0
        self._shared: tuple[UOp, UOp | None] | None = None

    # Iterations.

    def iterations(self, emitter: Emitter, r: UOp) -> tuple[UOp, UOp | None]:
        """The first iteration of a thread in a range, and the end; None if it has just one."""
        axes = next(axes for axes in self._axes if r in axes)
        begin = coordinates(emitter, self.thread, axes)[r]
        if self.is_masked or not r.src:
            return begin, None
        bound = emitter.emit(r.src[0])
        return begin, emitter.place(build.minimum(emitter.place(begin + 1), bound))

    def mask(self, emitter: Emitter, node: UOp) -> UOp | None:
        """The predicate of an access by threads that may be idle; None if none is."""
        depends = emitter.at.depends.get(node)
        if depends is None:  # the load of a mask: simplified, it may be no node of the body
            depends = tuple(u for u in walk([node]) if u.op is Op.RANGE)
        if self._shared is not None and self._shared[0] in depends:
            return self._shared[1]
        mask = self.working(emitter, _local(depends))
        if self.only_first and node.op is Op.STORE:
            is_first = emitter.place(self.thread < 1)
            return is_first if mask is None else emitter.place(mask & is_first)
        return mask

    @contextmanager
    def only(self, r: UOp, inside: UOp | None) -> Iterator[None]:
        """Mask what depends on a range that all threads share, at the elements of the present."""
        self._shared = r, inside
        yield
        self._shared = None

    def working(self, emitter: Emitter, ranges: Sequence[UOp]) -> UOp | None:
        """Whether a thread has an element of its own in ranges of threads; None if all have."""
        mask: UOp | None = None
        for r in ranges if self.is_masked else ():
            if r.src:
                is_inside = emitter.place(emitter.env[r] < emitter.emit(r.src[0]))
                mask = is_inside if mask is None else emitter.place(mask & is_inside)
        return mask

    # Local memory and barriers.

    def memory(self, size: int, like: UOp) -> UOp:
        """Local memory for some elements of a value's dtype."""
        self._memories += 1
        return UOp(Op.LOCAL_MEMORY, (), LocalMemory(self._memories - 1, (size,), like.dtype))

    def barrier(self, emitter: Emitter) -> None:
        """All threads wait for each other, and see what the others have written."""
        self._barriers += 1
        emitter.append(UOp(Op.BARRIER, (), self._barriers))

    def combine(self, emitter: Emitter, op: Op, value: UOp) -> UOp:
        """The reduction of a value over all threads, as a tree through local memory.

        Its order is that of the threads' numbers, and no matter of time::

            t[thread] = value                          barrier
            if thread < 128: t[thread] += t[thread + 128]    barrier, and so on down to t[0]

        Where threads of a warp exchange values, each of them adds up its part of all warps, and a
        warp the rest: the same tree, with two barriers::

            t[thread] = value                          barrier
            u = (t[lane] + t[lane + 128]) + ...        barrier
            u += that of lane ^ 16; ^ 8; ^ 4; ^ 2; ^ 1
        """
        if self.warp <= self.size and self.exchanges:
            return self._combine_warps(emitter, op, value)
        memory, place, one = self.memory(self.size, value), emitter.place, Access(0, 1, 0)
        emitter.append(UOp(Op.STORE, (memory, self.thread, value), one))
        self.barrier(emitter)
        half = self.size // 2
        while half:
            is_low = place(self.thread < half)
            loads = [
                emitter.append(UOp(Op.LOAD, (memory, self.thread, is_low), Access(offset, 1, 0)))
                for offset in (0, half)
            ]
            total = emitter.append(UOp(op, tuple(loads)))
            emitter.append(UOp(Op.STORE, (memory, self.thread, total, is_low), one))
            self.barrier(emitter)
            half //= 2
        result = emitter.append(UOp(Op.LOAD, (memory, ZERO), one))
        self.barrier(emitter)  # in a loop, the next iteration writes the memory again
        return result

    def _combine_warps(self, emitter: Emitter, op: Op, value: UOp) -> UOp:
        """The same reduction, by exchanges within warps."""
        place, warp = emitter.place, self.warp
        if self.size > warp:
            memory, one = self.memory(self.size, value), Access(0, 1, 0)
            emitter.append(UOp(Op.STORE, (memory, self.thread, value), one))
            self.barrier(emitter)
            lane = place(self.thread % warp)
            parts = [
                emitter.append(UOp(Op.LOAD, (memory, lane), Access(at, 1, 0)))
                for at in range(0, self.size, warp)
            ]
            self.barrier(emitter)  # in a loop, the next iteration writes the memory again
            while len(parts) > 1:
                half = len(parts) // 2
                pairs = zip(parts[:half], parts[half:], strict=True)
                parts = [emitter.append(UOp(op, pair)) for pair in pairs]
            (value,) = parts
        distance = warp // 2
        while distance:
            other = emitter.append(UOp(Op.EXCHANGE, (value,), distance))
            value = emitter.append(UOp(op, (value, other)))
            distance //= 2
        return value

    # Tiles in local memory.

    def before(self, emitter: Emitter, r: UOp) -> None:
        """Start the copies of the first tiles, before the loop of a reduction that takes them."""
        self.tiles.start(emitter, r)

    def enter(self, emitter: Emitter, r: UOp) -> None:
        """Bring the tiles that are staged in an iteration of a reduction's loop."""
        self.tiles.enter(emitter, r)

    def load_staged(self, emitter: Emitter, node: UOp) -> UOp:
        """The element of a tile in local memory at the present coordinates."""
        memory, base, offset = self.tiles.address(emitter, node)
        if node.arg.swizzled:
            index = emitter.place(base + offset)
            base, offset = swizzled_index(emitter, index, node.dtype.itemsize), 0
        return emitter.append(UOp(Op.LOAD, (memory, base), Access(offset, 1, 0)))
