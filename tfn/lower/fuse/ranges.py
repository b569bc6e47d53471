"""Every axis becomes a RANGE, and movement becomes arithmetic on indices.

Before -> after, for the kernel ``c = barrier[0] (reduce[add, (1,)] (transpose a))``, a: f32[5, 3]::

    r0 = range 3;  r1 = range 5
    store out[r0], fold[add] (load a[r1 * 3 + r0]) over r1

A function becomes its kernels over ranges, in an order in which they can run.  Scatters and sorts
have forms of their own; loops and branches are regions, which are no kernels, unless they are
small enough to be a loop in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tfn._support.frozen import frozen
from tfn.dtypes import INT64
from tfn.lower.codegen.sort.sort import scratch
from tfn.lower.fuse import kernel_order
from tfn.lower.fuse.indexing import Index, Stage, Walker, both, flat, within
from tfn.lower.fuse.inner_loops import recurrence
from tfn.lower.index.laws import simplify
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.op import LOOPS, Op
from tfn.trace.uop import UOp, const, walk

__all__ = ["Region", "Stage", "stages"]


REGIONS = LOOPS | {Op.HOST}
"""What is no kernel."""


@frozen
class Region:
    """A loop, a branch, a call of the host: the node, and barriers on the results that are used."""

    node: UOp
    barriers: tuple[UOp, ...]

    @property
    def operands(self) -> tuple[UOp, ...]:
        """What it writes and reads."""
        return (*self.barriers, *(s for s in self.node.src if s.op is not Op.FUNCTION))


@lru_cache(maxsize=64)
def stages(function: UOp) -> tuple[Stage | Region, ...]:
    """The kernels of a function with barriers, in an order in which they can run."""
    members: dict[int, list[UOp]] = {}
    for node in walk(function.src):
        if node.op is Op.GBARRIER:
            members.setdefault(node.arg, []).append(node)
    made = {number: _stages(barriers) for number, barriers in members.items()}
    running = kernel_order.running(members, made, function.src)
    return tuple([stage for number in running for stage in made[number]])


def _stages(barriers: Sequence[UOp]) -> Sequence[Stage | Region]:
    first = barriers[0].src[0]
    if first.op is Op.GET and first.src[0].op in REGIONS:
        small = recurrence(first.src[0], barriers)
        return [Region(first.src[0], tuple(barriers)) if small is None else small]
    if build.count(first.shape) == 0:
        return []
    if first.op is Op.GET:
        return _handmade(barriers) if first.src[0].op is Op.KERNEL else [_sorted(barriers)]
    if first.op is Op.SCATTER:
        return _scattered(barriers[0])
    walker = Walker(barriers)
    index = walker.axes(first.shape)
    return [walker.finish([(b, walker.value(b.src[0], index, None), index) for b in barriers])]


def _scattered(barrier: UOp) -> list[Stage]:
    """A scatter is two kernels: its buffer gets the operand, then the updates, in order.

    ``for p in points: out[start[p] + w] = op(out[start[p] + w], update[p, w])``; the window's
    axes and the batch are outer loops, so each thread owns its elements and no order is lost.  An
    axis along which windows may overlap is not: its loop runs inside of that over points.
    """
    node = barrier.src[0]
    operand, indices, updates = node.src
    walker = Walker([barrier])
    index = walker.axes(node.shape)
    copied = walker.finish([(barrier, walker.value(operand, index, None), index)])
    if 0 in updates.shape:
        return [copied]
    walker = Walker([barrier])
    batch, points = node.arg.batch, indices.ndim - 1
    at = walker.axes(updates.shape)
    inside: UOp | None = None
    place, ordered = list(at[points:]), list(at[batch:points])
    moving = {r for r in ordered if r.op is Op.RANGE}
    for axis in range(indices.shape[-1]):
        start = walker.value(indices, (*at[:points], const(axis, INT64)), None)
        start = build.cast(start, INT64)
        room = node.shape[batch + axis] - updates.shape[points + axis]
        if room and not moving.isdisjoint(walk([start])):
            ordered.append(at[points + axis])
        inside = both(inside, within(start, 0, room + 1))
        place[axis] = simplify(start + place[axis])
    position = flat(node.shape, (*at[:batch], *place))
    value = walker.value(updates, at, None)
    inside = _every_time(inside, at[batch:points], (position, value))
    buffer = walker.buffer(barrier)
    if node.arg.op is not Op.WHERE:
        old = UOp(Op.LOAD, (buffer, position) if inside is None else (buffer, position, inside))
        value = UOp(node.arg.op, (old, value))
    src = (buffer, position, value)
    store = UOp(Op.STORE, src if inside is None else (*src, inside), _in_order(ordered))
    return [copied, Stage(UOp(Op.SINK, (store,)), tuple(walker.operands), 1)]


def _every_time(gate: UOp | None, index: Index, used: Sequence[UOp]) -> UOp | None:
    """A gate that holds on to ranges on which nothing else depends: equal updates count each."""
    found = set(walk([*used, *([] if gate is None else [gate])]))
    for r in index:
        if r.op is Op.RANGE and r not in found:
            always = r < r.arg.size
            gate = always if gate is None else gate & always
    return gate


def _in_order(index: Sequence[UOp]) -> tuple[int, ...]:
    """The numbers of ranges whose iterations must happen in order, on one thread."""
    return tuple(i.arg.number for i in index if i.op is Op.RANGE)


def _handmade(barriers: Sequence[UOp]) -> list[Stage]:
    """A kernel written by hand: a stage for each group of its stores that have the same loops.

    Results that nobody wants are written to scratch.  A text keeps its node, over parameters.
    """
    node = barriers[0].src[0].src[0]
    wanted = {b.src[0].arg: b for b in barriers}
    written = [
        wanted.get(i) or UOp(Op.GBARRIER, (const(0, dtype, shape),), barriers[0].arg)
        for i, (shape, dtype) in enumerate(node.arg.results)
    ]
    operands, n = (*written, *node.src), len(written)
    if node.arg.body is None:
        src = [UOp(Op.PARAM, (), Param(n + i, s.shape, s.dtype)) for i, s in enumerate(node.src)]
        kernel = UOp(Op.KERNEL, tuple(src), node.arg)
        return [Stage(UOp(Op.TUPLE, tuple(build.several(kernel))), operands, n)]
    groups: dict[frozenset[UOp], list[UOp]] = {}
    for store in node.arg.body.src:
        nodes = list(walk([store]))
        inner = {r for u in nodes if u.op is Op.FOLD for r in u.src[1:]}
        loops = frozenset(u for u in nodes if u.op is Op.RANGE and u not in inner)
        groups.setdefault(loops, []).append(store)
    return [Stage(UOp(Op.SINK, tuple(stores)), operands, n) for stores in groups.values()]


def _sorted(barriers: Sequence[UOp]) -> Stage:
    """A sort keeps its node, over parameters, and gets scratch."""
    node, wanted = barriers[0].src[0].src[0], [b.src[0].arg for b in barriers]
    operands = (*barriers, UOp(Op.GBARRIER, (scratch(node, wanted),), barriers[0].arg), *node.src)
    first = len(barriers) + 1
    params = [UOp(Op.PARAM, (), Param(first + i, s.shape, s.dtype)) for i, s in enumerate(node.src)]
    sort = UOp(Op.SORT, tuple(params), node.arg)
    outputs = tuple(UOp(Op.GET, (sort,), b.src[0].arg) for b in barriers)
    return Stage(UOp(Op.TUPLE, outputs), operands, first)
