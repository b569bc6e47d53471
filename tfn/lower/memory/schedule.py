"""Program schedule: kernels in order, loops around them, branches between them, and their memory.

A function becomes a list of steps.  SCAN, WHILE and COND are not kernels: their bodies are
functions, so they are cut and scheduled like any other, with their parameters bound to views of
memory instead of values.

    scan body (c, x) -> (c', y)      for i in range(n):  kernels of the body on
                                       c   the carry's memory, the same in every iteration
                                       x   slice i of the array
                                       y   slice i of the result

A new carry is written straight over the present one if nothing needs that any more: every other
reader has run before, and the kernel that writes it reads it only where it writes.  Otherwise it
is written to memory of its own, and copied at the end of the iteration.  Values between the two
that are updates of each other are in the same memory: see `coalescing`.

Offsets in the arena, and barriers, are decided when all live ranges are known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import INT64, DType
from tfn.lower.fuse import ranges
from tfn.lower.fuse.analysis import output_in_memory, part_in_memory
from tfn.lower.fuse.ranges import IndexedKernel, Region
from tfn.lower.memory import barriers, overlap, planner
from tfn.lower.memory.coalescing import coalesced
from tfn.lower.memory.in_place import accesses_of, is_in_place
from tfn.lower.memory.planner import Allocation, PlannedStep, Schedule, ScheduledFunction, View
from tfn.lower.program import (
    ESTIMATED_LOOP_TRIPS,
    SMALL_BYTES,
    HostCall,
    HostPart,
    Kernel,
    Loop,
    Routine,
    Space,
    align_up,
    is_copy,
    kernel_times_ns,
)
from tfn.lower.target.target import Target
from tfn.trace.argument import Param, Range
from tfn.trace.build import count
from tfn.trace.op import Op, Shape
from tfn.trace.regions import form, results
from tfn.trace.uop import UOp, const, reshaped

HOST_CALL_NS = 5_000
"""Estimated time of a call of the host, beside its own work: Python enters and leaves."""


@frozen
class Lowering:
    """The parts of the compiler that a schedule calls.

    Attributes:
        cut: gives a function its barriers.
        kernel: lowers the body of a kernel.
        is_driven: whether the processor runs the steps itself, on its threads; else the host does,
            one after the other, and copies what it needs at once.
    """

    cut: Callable[[UOp, Target], UOp]
    kernel: Callable[[UOp, Target], Kernel]
    is_driven: bool


class Scheduler:
    """The state of one program's scheduling.

    Attributes:
        live_ranges: of each allocation in the arena, by position in the text.
        position: the present position.
        loops: the number of loops so far.
    """

    def __init__(self, target: Target, lowering: Lowering) -> None:
        self.target, self.lowering = target, lowering
        self.live_ranges: dict[Allocation, planner.LiveRange] = {}
        self.position = self.loops = 0

    # Allocations.

    def allocate(self, shape: Shape, dtype: DType) -> View:
        """A new part of the arena."""
        return View(Allocation(Space.ARENA, 0, count(shape) * dtype.itemsize))

    def allocate_like(self, u: UOp) -> View:
        """A new part of the arena, for a value."""
        return self.allocate(u.shape, u.dtype)

    def use(self, *views: View) -> None:
        """Extend the live ranges of views to the present position."""
        for view in views:
            allocation = view.allocation
            if allocation.space is Space.ARENA:
                live = self.live_ranges.get(allocation)
                first = self.position if live is None else live.first
                size_bytes = align_up(allocation.size_bytes)
                self.live_ranges[allocation] = planner.LiveRange(size_bytes, first, self.position)

    def extend_over_loop(self, since: int) -> None:
        """Extend live ranges that enter a loop, and are used in it, to its end.

        Every iteration reads the value again.
        """
        for allocation, live in self.live_ranges.items():
            if live.first < since <= live.last:
                self.live_ranges[allocation] = replace(live, last=self.position)

    def keep_small_apart(self, since: int) -> None:
        """Give each small value of a loop, or made for it, memory of its own until the loop's end.

        So it can be in a register there.
        """
        for allocation, live in self.live_ranges.items():
            if live.first >= since and allocation.size_bytes <= SMALL_BYTES:
                last = max(live.last, self.position - 1)
                self.live_ranges[allocation] = replace(live, last=last)

    # Functions.

    def function(
        self,
        function: UOp,
        params: Sequence[View],
        targets: Sequence[View | None],
        is_cut: bool = False,
    ) -> ScheduledFunction:
        """The steps of a function, which has its barriers already if it `is_cut`.

        An output with a target is written there.  A target may be the memory of a parameter, as
        that of a carry: it is written in place where that is safe, and copied to otherwise.
        """
        cut = function if is_cut else self.lowering.cut(function, self.target)
        kernels = overlap.overlapped(ranges.indexed_kernels(cut))
        views = {UOp(Op.PARAM, (), p): view for p, view in zip(function.arg.params, params)}
        results = [*map(output_in_memory, cut.src)]
        written = {target.allocation for target in targets if target is not None}
        kept = [u for u, view in views.items() if view.allocation not in written]
        kernels, old_of = coalesced(kernels, [*results, *kept])
        owners: dict[Allocation, list[UOp]] = {}
        for u, view in views.items():
            owners.setdefault(view.allocation, []).append(u)
        copied: list[int] = []
        for i, (value, target) in enumerate(zip(results, targets, strict=True)):
            if target is None or value in views:
                direct = target is None or views[value] == target
            else:
                carries = owners.get(target.allocation, [])
                same = list(_older(value, old_of, carries))
                direct = carry_in_place(kernels, results, value, same[-1], carries, views, target)
                views |= dict.fromkeys(same, target) if direct else {}
            if not direct:
                copied.append(i)
        steps: list[PlannedStep] = []
        begun: list[PlannedStep] = []
        for kernel in kernels:
            self.end_messages(steps, begun, kernel.reads)
            for u in kernel.writes:
                if u not in views and old_of.get(u) in views and old_of[u].op is not Op.PARAM:
                    views[u] = views[old_of[u]]
            if not isinstance(kernel, Region):
                steps += self.launch_kernel(kernel, views)
                continue
            region = self.region(kernel, views)
            steps += region
            host = region[-1].host if overlap.defers(kernel) else None
            if host is not None and self._may_defer(kernel, region[-1]):
                region[-1].host = replace(host, part=HostPart.BEGIN)
                begun.append(region[-1])
        self.end_messages(steps, begun, None)
        for i in copied:
            views.setdefault(results[i], self.allocate_like(results[i]))
        # Carries may be permuted: all are read before any is written.
        carried = {i for i in copied if (t := targets[i]) and t.allocation in owners}
        saved: dict[int, View] = {}
        for i in copied:
            if i in carried and results[i].op is Op.PARAM:
                saved[i] = self.allocate_like(results[i])
                steps += self.copy(results[i], views[results[i]], saved[i])
        # Slices are copied before carries: they may be of the old ones.
        for i in sorted(copied, key=lambda i: i in carried):
            target = targets[i]
            assert target is not None
            steps += self.copy(results[i], saved.get(i, views[results[i]]), target)
        return ScheduledFunction(cut, steps, views)

    def _may_defer(self, kernel: Region, step: PlannedStep) -> bool:
        """Whether memory stays as it is until the end of a message: that of values made here."""
        if not self.lowering.is_driven or any(s.op is Op.PARAM for s in kernel.node.src):
            return False
        return all(view.allocation.space is Space.ARENA for view in step.operands[step.written :])

    def end_messages(
        self, steps: list[PlannedStep], begun: list[PlannedStep], read: Sequence[UOp] | None
    ) -> None:
        """Add the ends of messages whose results are read; of all for None."""
        for step in begun[::-1]:
            assert isinstance(step.origin, Region) and step.host is not None
            if read is None or any(u in read for u in step.origin.barriers):
                begun.remove(step)
                if step is steps[-1]:  # nothing comes between
                    step.host = replace(step.host, part=HostPart.WHOLE)
                    continue
                end = replace(step.host, part=HostPart.END)
                fields = {"operands": step.operands, "written": step.written, "host": end}
                steps.append(self.step(step.operands, origin=step.origin, **fields))

    def launch_kernel(self, kernel: IndexedKernel, views: dict[UOp, View]) -> list[PlannedStep]:
        """The launch of one kernel; none for a carry that stays where it is."""
        for u in kernel.operands:
            if u not in views:
                views[u] = self.allocate_like(u)
        operands = tuple(views[u] for u in kernel.operands)
        if len({*operands}) < len(operands) == 2 and is_copy(kernel.body):
            self.use(*operands)
            return []
        return [self.launch(kernel.body, operands, kernel.written, kernel)]

    def launch(
        self,
        body: UOp,
        operands: tuple[View, ...],
        written: int,
        origin: IndexedKernel | None = None,
    ) -> PlannedStep:
        """A launch of the kernel of a body."""
        kernel = self.lowering.kernel(body, self.target)
        return self.step(operands, origin=origin, kernel=kernel, operands=operands, written=written)

    def step(self, used: Sequence[View], **fields: Any) -> PlannedStep:
        """A step at the present position, which uses some views."""
        self.use(*used)
        self.position += 1
        return PlannedStep(self.position - 1, **fields)

    def copy(self, like: UOp, source: View, target: View) -> list[PlannedStep]:
        """A copy of a value, as a kernel like any other; none if there is nothing to copy."""
        if count(like.shape) == 0 or source == target:
            return []
        size, i = _flat_index(like)
        to, from_ = (UOp(Op.PARAM, (), Param(k, (size,), like.dtype)) for k in (0, 1))
        store = UOp(Op.STORE, (to, i, UOp(Op.LOAD, (from_, i))))
        return [self.launch(UOp(Op.SINK, (store,)), (target, source), 1)]

    def fill(self, u: UOp, views: dict[UOp, View]) -> list[PlannedStep]:
        """Write a constant that a region reads to memory."""
        if u.op is not Op.CONST:
            return []
        views[u] = self.allocate_like(u)
        return self.write(u, views[u])

    def write(self, u: UOp, view: View) -> list[PlannedStep]:
        """Write a constant to a place; nothing if it has no elements."""
        size, i = _flat_index(u)
        to = UOp(Op.PARAM, (), Param(0, (size,), u.dtype))
        store = UOp(Op.STORE, (to, i, reshaped(u, ())))
        return [self.launch(UOp(Op.SINK, (store,)), (view,), 1)] if size else []

    # Loops, branches and calls.

    def region(self, region: Region, views: dict[UOp, View]) -> list[PlannedStep]:
        """The steps of a SCAN, WHILE, COND, CALL or HOST."""
        node, since = region.node, self.position
        used = {b.src[0].arg: b for b in region.barriers}
        outputs: list[View] = []
        for i, (shape, dtype) in enumerate(results(node)):
            # Of an unused array of slices one slice is enough.
            whole = i in used or node.op is not Op.SCAN or i < len(form(node).carries)
            view = views.get(used[i]) if i in used else None
            view = view or self.allocate(shape if whole else shape[1:], dtype)
            outputs.append(view)
            if i in used:
                views[used[i]] = view
        read = region.reads
        for s in read:
            if count(s.shape) == 0:  # no kernel makes it, and none reads it
                views.setdefault(s, self.allocate_like(s))
        # A constant first carry is written where the carry stays.
        looped = node.op in (Op.SCAN, Op.WHILE)
        firsts = form(node, range(len(node.src))).carries if looped else ()
        others = [s for i, s in enumerate(node.src) if i not in firsts]
        needed = [s for s in read if s not in views and (s.op is not Op.CONST or s in others)]
        fills = [step for s in needed for step in self.fill(s, views)]
        direct = [s.op is Op.FUNCTION or (s.op is Op.CONST and s not in views) for s in node.src]
        operands = [None if d else part_view(s, views) for s, d in zip(node.src, direct)]
        overwritten = {view.allocation for view in outputs}
        for i, (s, part) in enumerate(zip(node.src, operands, strict=True)):
            if part and part.allocation in overwritten and s.size < part_in_memory(s)[0].size:
                operands[i] = own = self.allocate_like(s)
                fills += self.copy(s, part, own)
        steps = [*fills, *REGIONS[node.op](self, node, operands, outputs, used.keys())]
        if node.op in (Op.SCAN, Op.WHILE):
            self.keep_small_apart(since)
        for step in steps:
            if step.kernel is None:  # not one of the copies before it
                step.origin = region
        return steps

    def _initialize(
        self, sources: Sequence[UOp], firsts: Sequence[View | None], carries: Sequence[View]
    ) -> list[PlannedStep]:
        """Copy first carries to the memory where carries stay; write constant ones."""
        steps: list[PlannedStep] = []
        for s, source, target in zip(sources, firsts, carries, strict=True):
            steps += self.write(s, target) if source is None else self.copy(s, source, target)
        return steps

    def scan(
        self, node: UOp, operands: Sequence[Any], outputs: Sequence[View], used: Collection[int]
    ) -> list[PlannedStep]:
        """A loop with a trip count."""
        arg, nodes, views = node.arg, form(node), form(node, operands)
        n = len(nodes.carries)
        steps = self._initialize(nodes.carries, views.carries, outputs[:n])
        if arg.length == 0:
            return steps
        self.loops += 1
        number, since = self.loops, self.position

        def slice_of(view: View, shape: Shape, dtype: DType) -> View:
            size = count(shape[1:]) * dtype.itemsize
            start, stride = ((arg.length - 1) * size, -size) if arg.reverse else (0, size)
            return View(view.allocation, view.offset + start, (*view.strides, (number, stride)))

        types = results(node)
        slices = [
            slice_of(view, s.shape, s.dtype)
            for s, view in zip(nodes.arrays, views.arrays, strict=True)
        ]
        targets = list(outputs[:n])
        for i in range(n, len(types)):
            targets.append(slice_of(outputs[i], *types[i]) if i in used else outputs[i])
        self.use(*outputs)
        params = [*views.own(0), *outputs[:n], *slices]
        body = self.function(nodes.functions[0], params, targets)
        self.use(*outputs)
        self.extend_over_loop(since)
        loop = Loop(number, arg.length, (), None, (), False)
        return [*steps, self.step((), loop=loop, body=body)]

    def while_loop(
        self, node: UOp, operands: Sequence[Any], outputs: Sequence[View], used: Collection[int]
    ) -> list[PlannedStep]:
        """A loop while a condition holds."""
        nodes, views = form(node), form(node, operands)
        steps = self._initialize(nodes.carries, views.carries, outputs)
        self.loops += 1
        number, since = self.loops, self.position
        self.use(*outputs)
        cond, body = nodes.functions
        head = self.function(cond, [*views.own(0), *outputs], [None])
        condition = head.views[output_in_memory(head.function.src[0])]
        inside = self.function(body, [*views.own(1), *outputs], outputs)
        # Threads read the condition after the last barrier of the loop: it is live until its end.
        self.use(*outputs, condition)
        self.extend_over_loop(since)
        loop = Loop(number, None, (), None, (), False)
        return [*steps, self.step((), loop=loop, condition=condition, head=head, body=inside)]

    def branch(
        self, node: UOp, operands: Sequence[Any], outputs: Sequence[View], used: Collection[int]
    ) -> list[PlannedStep]:
        """A branch by an index."""
        views = form(node, operands)
        (index,), params = views.selector, views.operands
        since = self.position
        self.use(index, *outputs)
        branches = [self.function(f, params, outputs) for f in form(node).functions]
        self.use(*outputs)
        self.extend_over_loop(since)
        return [self.step((), index=index, branches=branches)]

    def host_call(
        self, node: UOp, operands: Sequence[Any], outputs: Sequence[View], used: Collection[int]
    ) -> list[PlannedStep]:
        """A call of the host; an unused result has memory too, since the host writes it."""
        views = (*outputs, *operands)
        types = (*results(node), *((s.shape, s.dtype) for s in node.src))
        call = HostCall(node.arg, (), types, False)
        return [self.step(views, operands=views, written=len(outputs), host=call)]

    def call(
        self, node: UOp, operands: Sequence[Any], outputs: Sequence[View], used: Collection[int]
    ) -> list[PlannedStep]:
        """A call of a routine, which gets a part of the arena as its own."""
        callee = routine_schedule(node.src[0], self.target, self.lowering)
        arena = View(Allocation(Space.ARENA, 0, align_up(callee.routine.arena_bytes)))
        views = (*operands[1:], *outputs, arena)
        return [self.step(views, operands=views, callee=callee)]


REGIONS: dict[Op, Callable[..., list[PlannedStep]]] = {
    Op.SCAN: Scheduler.scan,
    Op.WHILE: Scheduler.while_loop,
    Op.COND: Scheduler.branch,
    Op.CALL: Scheduler.call,
    Op.HOST: Scheduler.host_call,
}
"""The steps of each region, from its node, operands, outputs, and the outputs that are used."""


def part_view(operand: UOp, views: dict[UOp, View]) -> View:
    """The memory of an operand of a region: of a value, or of elements of one in a row."""
    value, first = part_in_memory(operand)
    view = views[value]
    return replace(view, offset=view.offset + first * value.dtype.itemsize) if first else view


def _flat_index(u: UOp) -> tuple[int, UOp]:
    """The number of elements of a value, and a range over them."""
    size = count(u.shape)
    return size, UOp(Op.RANGE, (), Range(0, size)) if size > 1 else const(0, INT64)


def _older(value: UOp, old_of: Mapping[UOp, UOp], carries: Sequence[UOp]) -> Iterator[UOp]:
    """A value and the older ones in its memory; of parameters only the one whose memory that is."""
    old: UOp | None = value
    while old is not None and (old.op is not Op.PARAM or carries == [old]):
        yield old
        old = old_of.get(old)


def carry_in_place(
    kernels: Sequence[IndexedKernel | Region],
    results: Sequence[UOp],
    value: UOp,
    first: UOp,
    carries: Sequence[UOp],
    views: dict[UOp, View],
    target: View,
) -> bool:
    """Whether a result may be written over the parameters that are in its memory.

    Args:
        kernels: in the order in which they run.
        results: the results of the function.
        value: one of them.
        first: the first value in its memory; `value`, or an older one that it is an update of.
        carries: the parameters in the memory.
        views: of the parameters.
        target: the memory.
    """
    if not carries or carries == [first]:
        return True
    # The old carry, or a second output of the value, would be overwritten or lost.
    (carry, *others) = carries
    if others or views[carry] != target or carry in results or list(results).count(value) > 1:
        return False
    readers = [i for i, kernel in enumerate(kernels) if carry in kernel.reads]
    writer = next((i for i, kernel in enumerate(kernels) if first in kernel.writes), None)
    if writer is None:  # without elements, it is not written at all
        return True
    if any(i > writer for i in readers):
        return False
    kernel = kernels[writer]
    if writer not in readers:
        return True
    if isinstance(kernel, Region):  # a loop reads its operands in every iteration
        return False
    written, read = (kernel.operands.index(u) for u in (first, carry))
    return is_in_place(accesses_of(kernel.body), written, [read])


def schedule(
    function: UOp,
    target: Target,
    lowering: Lowering,
    outputs: Sequence[bool],
    is_cut: bool = False,
) -> Schedule:
    """A whole function, in steps, with addresses.

    Args:
        function: a FUNCTION without complex values.
        target: the machine that kernels are made for.
        lowering: makes the kernels.
        outputs: which outputs are written; the others are inputs or other outputs.
        is_cut: whether the function has its barriers already.
    """
    scheduler = Scheduler(target, lowering)
    params = [View(Allocation(Space.INPUT, i, 0)) for i in range(len(function.arg.params))]
    targets = [
        View(Allocation(Space.OUTPUT, i, count(u.shape) * u.dtype.itemsize)) if written else None
        for i, (u, written) in enumerate(zip(function.src, outputs, strict=True))
    ]
    scheduled = scheduler.function(function, params, targets, is_cut)
    offsets, arena_bytes = planner.plan_arena(scheduler.live_ranges)
    live, threads = scheduler.live_ranges, lowering.is_driven
    steps = barriers.Finalizer(offsets, threads, live).all_steps(scheduled)
    routine = Routine(steps, len(params), arena_bytes, work_ns(scheduled), kernel_times_ns(steps))
    return Schedule(routine, scheduled, scheduler.live_ranges, offsets)


@lru_cache(maxsize=256)
def routine_schedule(function: UOp, target: Target, lowering: Lowering) -> Schedule:
    """A function that is called, scheduled once for all its calls in all programs."""
    return schedule(function, target, lowering, [True] * len(function.src))


def work_ns(scheduled: ScheduledFunction | None) -> int:
    """Estimated time on one core: an unknown trip count is `ESTIMATED_LOOP_TRIPS`."""
    total = 0
    for p in scheduled.steps if scheduled else ():
        if p.kernel is not None:
            total += p.kernel.work_ns
        elif p.host is not None:
            total += HOST_CALL_NS
        elif p.callee is not None:
            total += p.callee.routine.work_ns
        elif p.loop is not None:
            total += (p.loop.trips or ESTIMATED_LOOP_TRIPS) * (work_ns(p.head) + work_ns(p.body))
        else:
            total += max(work_ns(branch) for branch in p.branches)
    return total
