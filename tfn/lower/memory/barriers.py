"""Barriers: where threads wait for each other, which steps one thread runs, and final addresses.

A step waits for the steps since the last barrier if one of both writes memory that the other reads
or writes, a hazard.  Launches that may run at once are a phase.  Two threads save at most half of
it, and wait for each other once more; a phase that saves less is serial: the calling thread runs
all of it.  Serial steps follow each other without a barrier, whole loops of them too::

    phase    a 0.2 us    b 0.1 us    c 8 us     d 0.3 us
    before   a | b | c | d |         every launch waits for the last
    after    a   b | c | d           a and b are serial
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tfn.lower.memory.planner import (
    Allocation,
    LiveRange,
    PlannedStep,
    ScheduledFunction,
    View,
)
from tfn.lower.program import (
    BARRIER_NS,
    Branch,
    Call,
    Launch,
    Slot,
    Space,
    Step,
    align_up,
    is_serial,
)

Extent = tuple[Space, int, int]
"""Memory between two positions: bytes of the arena, or whole inputs and outputs."""


class Intervals:
    """Disjoint intervals in order: whether another overlaps one is found by bisection."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def overlap(self, start: int, end: int) -> bool:
        """Whether one of them and the interval from start to end share a position."""
        i = bisect.bisect_right(self.ends, start)
        return i < len(self.ends) and self.starts[i] < end

    def add(self, start: int, end: int) -> None:
        """Add an interval: those that it overlaps or touches become one with it."""
        if start == end:
            return
        i, j = bisect.bisect_left(self.ends, start), bisect.bisect_right(self.starts, end)
        if i < j:
            start, end = min(start, self.starts[i]), max(end, self.ends[j - 1])
        self.starts[i:j], self.ends[i:j] = [start], [end]


class Hazards:
    """Reads and writes since the last barrier, and the launches that conflict with them.

    Serial launches run on one thread, in order: they conflict only with those that threads share.

    Args:
        read: what all threads read already.
    """

    def __init__(self, read: Sequence[Extent] = ()) -> None:
        self.accessed: dict[tuple[bool, Space], Intervals] = defaultdict(Intervals)
        self.written: dict[tuple[bool, Space], Intervals] = defaultdict(Intervals)
        self.needs_barrier(read, 0)

    def clear(self, serial: bool = False) -> bool:
        """Forget all accesses, as after a barrier; returns whether one is needed.

        A barrier is needed if there were any accesses; before a `serial` step, any of threads that
        share a launch, and else nothing is forgotten.
        """
        kinds = (False,) if serial else (False, True)
        conflict = any(self.accessed[kind, space].starts for kind in kinds for space in Space)
        if conflict:
            self.accessed.clear()
            self.written.clear()
        return conflict

    def needs_barrier(self, extents: Sequence[Extent], written: int, serial: bool = False) -> bool:
        """Add a launch whose first `written` operands are written; whether a barrier precedes it.

        Two launches must not run at once if one writes memory that the other accesses.
        """
        kinds = (False,) if serial else (False, True)
        conflict = any(
            (self.accessed if i < written else self.written)[kind, space].overlap(start, end)
            for i, (space, start, end) in enumerate(extents)
            for kind in kinds
        )
        if conflict:
            self.clear()
        for i, (space, start, end) in enumerate(extents):
            self.accessed[serial, space].add(start, end)
            if i < written:
                self.written[serial, space].add(start, end)
        return conflict


class Finalizer:
    """Views become slots with addresses, and steps get their barriers.

    Attributes:
        offsets: of each allocation in the arena.
        threads: whether threads of a processor run the steps.
        live_ranges: of each allocation in the arena.
        serial: the launches that one thread runs, by id.
        loop: the first and the last position of the outermost loop that one thread runs.
    """

    def __init__(
        self,
        offsets: Mapping[Allocation, int],
        threads: bool,
        live_ranges: Mapping[Allocation, LiveRange],
    ) -> None:
        self.offsets, self.threads, self.live_ranges = offsets, threads, live_ranges
        self.serial: set[int] = set()
        self.loop: tuple[int, int] | None = None

    def slot(self, view: View) -> Slot:
        """The address of a view."""
        allocation, inner = view.allocation, False
        at = allocation.at
        if allocation.space is Space.ARENA:
            at = self.offsets[allocation]
            live = self.live_ranges[allocation]
            inner = self.loop is not None and (
                self.loop[0] <= live.first <= live.last <= self.loop[1]
            )
        return Slot(allocation.space, at, view.offset, view.strides, allocation.size_bytes, inner)

    def all_steps(self, scheduled: ScheduledFunction) -> tuple[Step, ...]:
        """The steps of a program or routine."""
        if self.threads:
            self._find_serial(scheduled)
        return self.steps(scheduled, Hazards())

    def steps(self, scheduled: ScheduledFunction | None, hazards: Hazards) -> tuple[Step, ...]:
        """Steps in order; `hazards` are those of the steps before."""
        return tuple(self._step(p, hazards) for p in scheduled.steps) if scheduled else ()

    def _find_serial(self, scheduled: ScheduledFunction | None) -> None:
        """Find the launches between barriers that threads gain too little from sharing."""
        hazards, phase = Hazards(), list[PlannedStep]()
        for p in scheduled.steps if scheduled else ():
            extents = [self._extent(view) for view in p.operands]
            if p.kernel is None or hazards.needs_barrier(extents, p.written):
                self._end_phase(phase)
            if p.kernel is not None:
                phase.append(p)
                continue
            hazards.clear()
            for inner in (p.head, p.body, *p.branches):
                self._find_serial(inner)
        self._end_phase(phase)

    def _end_phase(self, phase: list[PlannedStep]) -> None:
        """Two threads share launches that may run at once, or one runs them all."""
        kernels = [p.kernel for p in phase if p.kernel is not None]
        whole = max((kernel.work_ns for kernel in kernels if kernel.tiles == 1), default=0)
        work = sum(kernel.work_ns for kernel in kernels)
        if work - max(work // 2, whole) <= BARRIER_NS:
            self.serial.update(map(id, phase))
        phase.clear()

    def is_serial(self, p: PlannedStep) -> bool:
        """Whether one thread runs all launches of a step."""
        if p.kernel is not None or p.host is not None:
            return id(p) in self.serial
        if p.callee is not None:
            return all(map(is_serial, p.callee.routine.steps))
        parts = (p.head, p.body, *p.branches)
        return all(self.is_serial(inner) for part in parts if part for inner in part.steps)

    def _step(self, p: PlannedStep, hazards: Hazards) -> Step:
        slots = tuple(map(self.slot, p.operands))
        extents = [self._extent(view) for view in p.operands]
        serial = self.threads and self.is_serial(p)
        if p.kernel is not None:
            return Launch(
                p.kernel, slots, hazards.needs_barrier(extents, p.written, serial), serial
            )
        if p.host is not None:
            barrier = hazards.needs_barrier(extents, p.written)
            hazards.clear()  # a barrier follows
            return replace(p.host, operands=slots, barrier=barrier)
        barrier = hazards.clear(serial)
        if p.callee is not None:
            *buffers, arena = slots
            if serial:
                hazards.needs_barrier(extents, len(extents), serial)
            return Call(p.callee.routine, tuple(buffers), arena, barrier)
        if p.loop is not None:
            # Each thread reads the condition after a barrier: a carry of the loop may be one.
            read = [] if p.condition is None else [self._extent(p.condition)]
            hazards.needs_barrier(read, 0, serial)
            outermost = serial and self.loop is None
            if outermost:
                self.loop = _first_position(p), p.position
            inside = hazards if serial else Hazards(read)
            body = self.steps(p.body, inside)
            head = self.steps(p.head, inside)  # that of the next iteration
            condition = None if p.condition is None else self.slot(p.condition)
            self.loop = None if outermost else self.loop
            return replace(p.loop, head=head, condition=condition, body=body, barrier=barrier)
        assert p.index is not None
        read = [self._extent(p.index)]
        if serial:
            hazards.needs_barrier(read, 0, serial)
        branches = tuple(
            self.steps(branch, hazards if serial else Hazards(read)) for branch in p.branches
        )
        return Branch(self.slot(p.index), branches, barrier)

    def _extent(self, view: View) -> Extent:
        """The memory of a whole allocation: slices of it are taken to overlap."""
        allocation = view.allocation
        if allocation.space is Space.ARENA:
            start = self.offsets[allocation]
            return allocation.space, start, start + align_up(allocation.size_bytes)
        return allocation.space, allocation.at, allocation.at + 1


def _first_position(p: PlannedStep) -> int:
    """The position of the first launch of a step."""
    parts = [part for part in (p.head, p.body, *p.branches) if part]
    return min([p.position, *(_first_position(inner) for part in parts for inner in part.steps)])
