"""The steps of a program: kernels in order, loops around them, branches between them.

A function becomes a list of steps.  SCAN, WHILE and COND are not kernels: their bodies are
functions, so they are cut and scheduled like any other, with their parameters bound to places in
memory instead of values.

    scan body (c, x) -> (c', y)      for i in range(n):  kernels of the body on
                                       c   the carry's place, the same in every iteration
                                       x   the slice i of the array
                                       y   the slice i of the result

A new carry is written straight over the old one if nothing needs that any more: every other reader
has run before, and the kernel that writes it reads it only where it writes.  Otherwise it gets a
place of its own and is copied at the end of the iteration.

Where a place is, and whether a barrier is needed, is decided when all lifetimes are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tfn._support.frozen import frozen, mutable
from tfn.dtypes import INT64, DType
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.fuse.ranges import IndexedKernel, Region
from tfn.lower.memory import planner
from tfn.lower.memory.in_place import elementwise
from tfn.lower.program import (
    ESTIMATED_LOOP_TRIPS,
    Branch,
    Call,
    HostCall,
    Kernel,
    Launch,
    Loop,
    Routine,
    Slot,
    Space,
    Step,
    copies,
    rounded,
    spent,
)
from tfn.lower.target.target import Target
from tfn.trace.argument import Param, Range
from tfn.trace.build import count
from tfn.trace.op import Op, Shape
from tfn.trace.regions import results
from tfn.trace.uop import UOp, const, reshaped

HOST_NS = 5_000
"""What a call of the host is taken to cost, beside what it does."""


@dataclass(frozen=True, eq=False)
class Room:
    """Memory for a value: an input or output of the program, or a part of the arena."""

    space: Space
    at: int
    size_bytes: int


@frozen
class Ref:
    """A value in a room: all of it, or the slice that loops have come to."""

    room: Room
    offset: int = 0
    steps: tuple[tuple[int, int], ...] = ()


@mutable
class Planned:
    """A step whose places are still rooms.

    Attributes:
        at: its position in the text, which lifetimes count in.
        stage: what it was made from; a copy has none.
    """

    at: int
    stage: IndexedKernel | Region | None = None
    kernel: Kernel | None = None
    operands: tuple[Ref, ...] = ()
    written: int = 0
    loop: Loop | None = None
    condition: Ref | None = None
    head: Frame | None = None
    body: Frame | None = None
    index: Ref | None = None
    ways: Sequence[Frame] = ()
    host: HostCall | None = None
    called: Schedule | None = None


@frozen
class Frame:
    """A function as it is scheduled: with its barriers, in steps, and where each value is."""

    function: UOp
    steps: Sequence[Planned]
    refs: Mapping[UOp, Ref]


@frozen
class Schedule:
    """A whole function, scheduled.

    Attributes:
        routine: what runs, with the memory it needs beside inputs and outputs.
        frame: the same steps with what they were made from, for those who print them.
        lives: when each room of the arena is in use, by position.
        offsets: where each of them is.
    """

    routine: Routine
    frame: Frame
    lives: Mapping[Room, planner.Life]
    offsets: Mapping[Room, int]


class Scheduler:
    """The state of one program's scheduling.

    Attributes:
        lives: when each room of the arena is in use, by position in the text.
        now: the present position.
        loops: loops made so far.
    """

    def __init__(self, target: Target, kernel: Callable[[UOp, Target], Kernel]) -> None:
        self.target, self.kernel = target, kernel
        self.lives: dict[Room, planner.Life] = {}
        self.now = self.loops = 0

    # Rooms.

    def room(self, shape: Shape, dtype: DType) -> Ref:
        """A new part of the arena."""
        return Ref(Room(Space.ARENA, 0, rounded(count(shape) * dtype.itemsize)))

    def touch(self, *refs: Ref) -> None:
        """The rooms are in use at the present position."""
        for ref in refs:
            if ref.room.space is Space.ARENA:
                life = self.lives.get(ref.room)
                first = self.now if life is None else life.first
                self.lives[ref.room] = planner.Life(ref.room.size_bytes, first, self.now)

    def keep(self, since: int) -> None:
        """What was alive before a loop, and used in it, lives until its end."""
        for room, life in self.lives.items():
            if life.first < since <= life.last:
                self.lives[room] = replace(life, last=self.now)

    # Functions.

    def function(
        self, function: UOp, params: Sequence[Ref], targets: Sequence[Ref | None], carried: int = 0
    ) -> Frame:
        """The steps of a function.

        An output with a target is put there.  The first `carried` outputs are written over the
        parameters that `targets` names for them where that is safe, and copied there otherwise.
        """
        cut_ = boundaries.insert_barriers(function, self.target)
        found = ranges.indexed_kernels(cut_)
        refs = {UOp(Op.PARAM, (), p): ref for p, ref in zip(function.arg.params, params)}
        late: list[int] = []
        for i, (value, target) in enumerate(zip(cut_.src, targets, strict=True)):
            direct = target is not None and value not in refs
            if direct and i < carried:
                direct = in_place(found, cut_, i, refs, target)
            if direct:
                assert target is not None
                refs[value] = target
            elif target is not None and refs.get(value) != target:
                late.append(i)
        steps: list[Planned] = []
        for stage in found:
            if isinstance(stage, Region):
                steps += self.region(stage, refs)
            else:
                steps += self.stage(stage, refs)
        for i in late:
            refs.setdefault(cut_.src[i], self._room(cut_.src[i]))
        held: dict[int, Ref] = {}
        for i in late:  # carries may change places: all are read before any is written
            if i < carried and cut_.src[i].op is Op.PARAM:
                held[i] = self._room(cut_.src[i])
                steps += self.copy(cut_.src[i], refs[cut_.src[i]], held[i])
        for i in sorted(late, key=lambda i: i < carried):  # slices may be of old carries
            to = targets[i]
            assert to is not None
            steps += self.copy(cut_.src[i], held.get(i, refs[cut_.src[i]]), to)
        return Frame(cut_, steps, refs)

    def _room(self, u: UOp) -> Ref:
        return self.room(u.shape, u.dtype)

    def stage(self, stage: IndexedKernel, refs: dict[UOp, Ref]) -> list[Planned]:
        """The launch of one kernel; none for a carry that goes on where it is."""
        for u in stage.operands:
            if u not in refs:
                refs[u] = self._room(u)
        operands = tuple(refs[u] for u in stage.operands)
        if len({*operands}) < len(operands) == 2 and copies(stage.body):
            self.touch(*operands)
            return []
        return [self._launch(stage.body, operands, stage.written, stage)]

    def _launch(
        self, body: UOp, operands: tuple[Ref, ...], written: int, stage: IndexedKernel | None = None
    ) -> Planned:
        self.touch(*operands)
        self.now += 1
        return Planned(self.now - 1, stage, self.kernel(body, self.target), operands, written)

    def copy(self, like: UOp, source: Ref, target: Ref) -> list[Planned]:
        """A copy of a value, as a kernel like any other."""
        size = count(like.shape)
        if size == 0 or source == target:
            return []
        i = UOp(Op.RANGE, (), Range(0, size)) if size > 1 else const(0, INT64)
        to, from_ = (UOp(Op.PARAM, (), Param(k, (size,), like.dtype)) for k in (0, 1))
        store = UOp(Op.STORE, (to, i, UOp(Op.LOAD, (from_, i))))
        return [self._launch(UOp(Op.SINK, (store,)), (target, source), 1)]

    def fill(self, u: UOp, refs: dict[UOp, Ref]) -> list[Planned]:
        """A constant that a loop of kernels begins with, put into a room."""
        if u.op is not Op.CONST:
            return []
        refs[u] = self._room(u)
        size = count(u.shape)
        i = UOp(Op.RANGE, (), Range(0, size)) if size > 1 else const(0, INT64)
        to = UOp(Op.PARAM, (), Param(0, (size,), u.dtype))
        store = UOp(Op.STORE, (to, i, reshaped(u, ())))
        return [self._launch(UOp(Op.SINK, (store,)), (refs[u],), 1)]

    # Loops and branches.

    def region(self, region: Region, refs: dict[UOp, Ref]) -> list[Planned]:
        """The steps of a SCAN, WHILE or COND."""
        node = region.node
        out = {b.src[0].arg: b for b in region.barriers}
        places: list[Ref] = []
        for i, (shape, dtype) in enumerate(results(node)):
            whole = i in out or node.op is not Op.SCAN or i < node.arg.carries
            ref = refs.get(out[i]) if i in out else None
            ref = ref or self.room(shape if whole else shape[1:], dtype)
            places.append(ref)
            if i in out:
                refs[out[i]] = ref
        for s in node.src:
            if count(s.shape) == 0:  # no kernel makes it, and none reads it
                refs.setdefault(s, self._room(s))
        made = [step for s in node.src if s not in refs for step in self.fill(s, refs)]
        operands = [refs[s] if s.op is not Op.FUNCTION else None for s in node.src]
        steps = [*made, *REGIONS[node.op](self, node, operands, places, out.keys())]
        for step in steps:
            if step.kernel is None:  # not one of the copies before it
                step.stage = region
        return steps

    def _start(
        self, node: UOp, first: int, operands: Sequence[Ref | None], places: Sequence[Ref]
    ) -> list[Planned]:
        """Carries in the places where they will stay."""
        steps: list[Planned] = []
        for s, source, target in zip(node.src[first:], operands[first:], places):
            assert source is not None
            steps += self.copy(s, source, target)
        return steps

    def scan(
        self, node: UOp, operands: Sequence[Any], places: Sequence[Ref], wanted: Any
    ) -> list[Planned]:
        """A loop with a fixed number of iterations."""
        arg = node.arg
        first = 1 + arg.consts
        steps = self._start(node, first, operands, places[: arg.carries])
        if arg.length == 0:
            return steps
        self.loops += 1
        number, since = self.loops, self.now

        def slice_of(ref: Ref, shape: Shape, dtype: DType) -> Ref:
            size = count(shape[1:]) * dtype.itemsize
            start, each = ((arg.length - 1) * size, -size) if arg.reverse else (0, size)
            return Ref(ref.room, ref.offset + start, (*ref.steps, (number, each)))

        types = results(node)
        arrays = node.src[first + arg.carries :]
        slices = [
            slice_of(ref, s.shape, s.dtype)
            for s, ref in zip(arrays, operands[first + arg.carries :], strict=True)
        ]
        targets = list(places[: arg.carries])
        for i in range(arg.carries, len(types)):
            targets.append(slice_of(places[i], *types[i]) if i in wanted else places[i])
        self.touch(*places)
        params = [*operands[1:first], *places[: arg.carries], *slices]
        body = self.function(node.src[0], params, targets, carried=arg.carries)
        self.touch(*places)
        self.keep(since)
        self.now += 1
        loop = Loop(number, arg.length, (), None, (), False)
        return [*steps, Planned(self.now - 1, loop=loop, body=body)]

    def repeat(
        self, node: UOp, operands: Sequence[Any], places: Sequence[Ref], wanted: Any
    ) -> list[Planned]:
        """A loop while a condition holds."""
        arg = node.arg
        first = 2 + arg.cond_consts + arg.body_consts
        steps = self._start(node, first, operands, places)
        self.loops += 1
        number, since = self.loops, self.now
        self.touch(*places)
        cond, body = node.src[:2]
        head = self.function(cond, [*operands[2 : 2 + arg.cond_consts], *places], [None])
        held = head.refs[head.function.src[0]]
        inside = self.function(
            body, [*operands[2 + arg.cond_consts : first], *places], places, carried=len(places)
        )
        self.touch(*places, held)
        self.keep(since)
        self.now += 1
        loop = Loop(number, None, (), None, (), False)
        return [*steps, Planned(self.now - 1, loop=loop, condition=held, head=head, body=inside)]

    def choose(
        self, node: UOp, operands: Sequence[Any], places: Sequence[Ref], wanted: Any
    ) -> list[Planned]:
        """A branch."""
        branches = node.src[1 : 1 + node.arg.branches]
        params = operands[1 + node.arg.branches :]
        since = self.now
        self.touch(operands[0], *places)
        ways = [self.function(f, params, places) for f in branches]
        self.touch(*places)
        self.keep(since)
        self.now += 1
        return [Planned(self.now - 1, index=operands[0], ways=ways)]

    def host(
        self, node: UOp, operands: Sequence[Any], places: Sequence[Ref], wanted: Any
    ) -> list[Planned]:
        """A call of the host; a result that nobody wants has memory all the same."""
        refs = (*places, *operands)
        types = (*results(node), *((s.shape, s.dtype) for s in node.src))
        self.touch(*refs)
        self.now += 1
        call = HostCall(node.arg, (), types, False)
        return [Planned(self.now - 1, operands=refs, written=len(places), host=call)]

    def call(
        self, node: UOp, operands: Sequence[Any], places: Sequence[Ref], wanted: Any
    ) -> list[Planned]:
        """A call of a routine, which gets a part of the arena for itself."""
        found = called(node.src[0], self.target, self.kernel)
        arena = Ref(Room(Space.ARENA, 0, rounded(found.routine.arena_bytes)))
        refs = (*operands[1:], *places, arena)
        self.touch(*refs)
        self.now += 1
        return [Planned(self.now - 1, operands=refs, called=found)]


REGIONS: dict[Op, Callable[..., list[Planned]]] = {
    Op.SCAN: Scheduler.scan,
    Op.WHILE: Scheduler.repeat,
    Op.COND: Scheduler.choose,
    Op.CALL: Scheduler.call,
    Op.HOST: Scheduler.host,
}


def in_place(
    found: Sequence[IndexedKernel | Region],
    function: UOp,
    output: int,
    refs: dict[UOp, Ref],
    target: Ref | None,
) -> bool:
    """Whether an output may be written over the parameter that lives in the same place."""
    value = function.src[output]
    old = next((u for u, ref in refs.items() if u.op is Op.PARAM and ref == target), None)
    if old is None:
        return True
    if old in function.src or list(function.src).count(value) > 1:
        return False
    readers = [i for i, stage in enumerate(found) if old in _reads(stage)]
    writer = next((i for i, stage in enumerate(found) if value in _writes(stage)), None)
    if writer is None:  # without elements, it is not written at all
        return True
    if any(i > writer for i in readers):
        return False
    stage = found[writer]
    if writer not in readers:
        return True
    if isinstance(stage, Region):
        return False
    return elementwise(stage.body, stage.operands.index(value), [stage.operands.index(old)])


def _reads(stage: IndexedKernel | Region) -> Sequence[UOp]:
    return stage.node.src if isinstance(stage, Region) else stage.operands[stage.written :]


def _writes(stage: IndexedKernel | Region) -> Sequence[UOp]:
    return stage.barriers if isinstance(stage, Region) else stage.operands[: stage.written]


# Places and barriers.


class Placer:
    """Rooms become slots, and steps get their barriers."""

    def __init__(self, offsets: dict[Room, int]) -> None:
        self.offsets = offsets

    def slot(self, ref: Ref) -> Slot:
        """Where a reference is."""
        room = ref.room
        if room.space is Space.ARENA:
            return Slot(Space.ARENA, self.offsets[room] + ref.offset, 0, ref.steps)
        return Slot(room.space, room.at, ref.offset, ref.steps)

    def steps(self, frame: Frame | None, memory: planner.Memory) -> tuple[Step, ...]:
        """Steps in order; `memory` knows what has happened since the last barrier."""
        return tuple(self._step(p, memory) for p in frame.steps) if frame else ()

    def _step(self, p: Planned, memory: planner.Memory) -> Step:
        if p.kernel is not None:
            slots = tuple(map(self.slot, p.operands))
            rooms = [self._extent(ref) for ref in p.operands]
            return Launch(p.kernel, slots, memory.must_wait(rooms, p.written))
        if p.host is not None:
            slots = tuple(map(self.slot, p.operands))
            wait = memory.must_wait([self._extent(ref) for ref in p.operands], p.written)
            memory.clear()
            return replace(p.host, operands=slots, barrier=wait)
        barrier = memory.clear()
        if p.called is not None:
            *buffers, arena = map(self.slot, p.operands)
            return Call(p.called.routine, tuple(buffers), arena, barrier)
        if p.loop is not None:
            head = self.steps(p.head, planner.Memory())
            body = self.steps(p.body, planner.Memory())
            condition = None if p.condition is None else self.slot(p.condition)
            if p.condition is not None:  # read by each thread after the last barrier
                memory.must_wait([self._extent(p.condition)], 0)
            return replace(p.loop, head=head, condition=condition, body=body, barrier=barrier)
        assert p.index is not None
        ways = tuple(self.steps(way, planner.Memory()) for way in p.ways)
        return Branch(self.slot(p.index), ways, barrier)

    def _extent(self, ref: Ref) -> planner.Extent:
        """The memory of a whole room: slices are not told apart."""
        room = ref.room
        if room.space is Space.ARENA:
            at = self.offsets[room]
            return room.space, at, at + room.size_bytes
        return room.space, room.at, room.at + 1


def schedule(
    function: UOp, target: Target, kernel: Callable[[UOp, Target], Kernel], outputs: Sequence[bool]
) -> Schedule:
    """A whole function, in steps, with places.

    `outputs` says which outputs are written; the others are inputs or other outputs.
    """
    scheduler = Scheduler(target, kernel)
    params = [Ref(Room(Space.INPUT, i, 0)) for i in range(len(function.arg.params))]
    targets = [Ref(Room(Space.OUTPUT, i, 0)) if own else None for i, own in enumerate(outputs)]
    frame = scheduler.function(function, params, targets)
    offsets, arena_bytes = planner.arena(scheduler.lives)
    steps = Placer(offsets).steps(frame, planner.Memory())
    routine = Routine(steps, len(params), arena_bytes, work(frame), spent(steps))
    return Schedule(routine, frame, scheduler.lives, offsets)


@lru_cache(maxsize=256)
def called(function: UOp, target: Target, kernel: Callable[[UOp, Target], Kernel]) -> Schedule:
    """A function that is called, scheduled once for all its calls in all programs."""
    return schedule(function, target, kernel, [True] * len(function.src))


def work(frame: Frame | None) -> int:
    """Nanoseconds: loops by their trips, an unknown number of them taken for a hundred."""
    total = 0
    for p in frame.steps if frame else ():
        if p.kernel is not None:
            total += p.kernel.work
        elif p.host is not None:
            total += HOST_NS
        elif p.called is not None:
            total += p.called.routine.work
        elif p.loop is not None:
            total += (p.loop.trips or ESTIMATED_LOOP_TRIPS) * (work(p.head) + work(p.body))
        else:
            total += max(work(way) for way in p.ways)
    return total
