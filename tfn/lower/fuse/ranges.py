"""Kernels over ranges: every axis becomes a RANGE, movement becomes arithmetic on indices.

Before -> after, for the kernel ``c = barrier[0] (reduce[add, (1,)] (transpose a))``, a: f32[5, 3]::

    r0 = range 3;  r1 = range 5
    store out[r0], fold[add] (load a[r1 * 3 + r0]) over r1

A function becomes its kernels over ranges, in the order in which they run.  Scatters, sorts and the
user's kernels have forms of their own.  Loops, branches and calls of the host are *regions*: steps
that are no kernels.  A loop that can be fused into one kernel is that kernel: see `inner_loops`.
Kernels of equal graphs on other operands, as equal layers have, are indexed once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tfn._support.frozen import frozen
from tfn.dtypes import INT64
from tfn.lower.codegen.sort.plan import scratch
from tfn.lower.fuse.analysis import in_memory, loop_shape, part_in_memory, stored_parts
from tfn.lower.fuse.indexing import Index, IndexedKernel, Indexer, conjunction, flat, within
from tfn.lower.fuse.inner_loops import fused_loop
from tfn.lower.fuse.kept_rows import keep_rows
from tfn.lower.fuse.kernel_order import memory_aware_order
from tfn.lower.fuse.shared_constants import share_constants
from tfn.lower.index.simplify import simplify
from tfn.trace import build, records, source_lines
from tfn.trace.argument import Param
from tfn.trace.op import LOOPS, Op
from tfn.trace.records import cached
from tfn.trace.uop import Key, UOp, const, walk

__all__ = ["IndexedKernel", "Region", "indexed_kernels"]


REGIONS = LOOPS | {Op.HOST}
"""Ops that run other steps, or the host, and so are no kernels."""

Known = dict[Key, tuple[IndexedKernel, list[int]]]
"""The kernels so far by their graphs, with the positions of their operands among its nodes."""


@frozen
class Region:
    """A loop, a branch, a call of the host: the node, and barriers on the results that are used."""

    node: UOp
    barriers: tuple[UOp, ...]

    @property
    def writes(self) -> tuple[UOp, ...]:
        """The values that it writes."""
        return self.barriers

    @property
    def reads(self) -> tuple[UOp, ...]:
        """The values that it reads, and its functions."""
        return tuple([part_in_memory(s)[0] for s in self.node.src])

    @property
    def operands(self) -> tuple[UOp, ...]:
        """The values that it writes and reads."""
        return (*self.barriers, *(s for s in self.reads if s.op is not Op.FUNCTION))


@cached(maxsize=64)
def indexed_kernels(function: UOp) -> tuple[IndexedKernel | Region, ...]:
    """Returns the kernels and regions of a function with barriers, in the order they run in."""
    members: dict[int, list[UOp]] = {}
    for node in walk(function.src):
        if node.op is Op.GBARRIER:
            members.setdefault(node.arg, []).append(node)
    # Records, and lines of the user, are those of each kernel.
    known: Known | None = {} if records.sink() is None and not source_lines.enabled() else None
    kernels = {number: _group_kernels(barriers, known) for number, barriers in members.items()}
    order = memory_aware_order(members, kernels, function.src)
    in_order = [kernel for number in order for kernel in kernels[number]]
    return tuple(share_constants(in_order, len(members)))


def _group_kernels(
    barriers: Sequence[UOp], known: Known | None
) -> Sequence[IndexedKernel | Region]:
    """The kernels of barriers with one number, mostly one."""
    first = barriers[0].src[0]
    if first.op is Op.GET and first.src[0].op in REGIONS:
        fused = fused_loop(first.src[0], barriers)
        return [Region(first.src[0], tuple(barriers)) if fused is None else fused]
    # After the test for regions, which may have effects; nothing else is needed for no elements.
    if build.count(first.shape) == 0:
        return []
    if first.op is Op.GET:
        return _user_kernel(barriers) if first.src[0].op is Op.KERNEL else [_sort(barriers)]
    if first.op is Op.SCATTER:
        return _scatter(barriers[0])
    if known is None:
        return [_inlined(barriers)]
    structure, order = _structure(barriers)
    if structure not in known:
        kernel = _inlined(barriers)
        position = {u: i for i, u in enumerate(order)}
        known[structure] = kernel, [position[u] for u in kernel.operands]
        return [kernel]
    kernel, operands = known[structure]
    return [IndexedKernel(kernel.body, tuple([order[i] for i in operands]), kernel.written)]


def _inlined(barriers: Sequence[UOp]) -> IndexedKernel:
    """The kernel of values that are computed in the same loops."""
    indexer = Indexer(barriers)
    index = indexer.axes(loop_shape(barriers[0].src[0]))
    stores = []
    for b in barriers:
        value = b.src[0]
        for i, part in enumerate(stored_parts(value) or (value,)):
            at = list(index)
            if part is not value:
                at[value.arg] = simplify(at[value.arg] + i * part.shape[value.arg])
            stores.append((b, indexer.value(part, index, None), tuple(at)))
    return indexer.finish(keep_rows(indexer, stores))


def _structure(barriers: Sequence[UOp]) -> tuple[Key, list[UOp]]:
    """The graph of a kernel but for which values in memory it reads, and its nodes in order.

    Kernels whose graphs are equal have equal bodies.  Their operands are at the same positions.
    """
    own = set(barriers)
    order = list(walk(barriers, lambda u: u.op is not Op.GBARRIER or u in own))
    position = {u: i for i, u in enumerate(order)}
    rows: list[Hashable] = []
    for u in order:
        if u.op is Op.PARAM or (u.op is Op.GBARRIER and u not in own):
            rows.append((u.shape, u.dtype))
        elif u.op is Op.FUNCTION:
            rows.append(u)
        else:
            arg = None if u.op is Op.GBARRIER else u.arg
            rows.append((u.op, tuple([position[s] for s in u.src]), arg))
    return (*rows, *[position[b] for b in barriers]), order


def _scatter(barrier: UOp) -> list[IndexedKernel]:
    """A scatter is two kernels: its buffer gets the operand, then the updates, in order.

    ``for p in points: out[start[p] + w] = op(out[start[p] + w], update[p, w])``.  The axes of the
    window and the batch are parallel loops outside of that over points, so that each thread owns
    its elements and updates of an element keep their order.  An axis along which windows may
    overlap is no parallel loop: it runs in order, inside of that over points.  Points that are all
    different have no order.
    """
    node = barrier.src[0]
    operand, indices, updates = node.src
    indexer = Indexer([barrier])
    index = indexer.axes(node.shape)
    copied = [indexer.finish([(barrier, indexer.value(operand, index, None), index)])]
    if 0 in updates.shape:
        return copied
    indexer = Indexer([barrier])
    batch, points = node.arg.batch, indices.ndim - 1
    at = indexer.axes(updates.shape)
    inside: UOp | None = None
    element, ordered = list(at[points:]), list(at[batch:points])
    point_ranges = {r for r in ordered if r.op is Op.RANGE}
    for axis in range(indices.shape[-1]):
        start = indexer.value(indices, (*at[:points], const(axis, INT64)), None)
        start = build.cast(start, INT64)
        room = node.shape[batch + axis] - updates.shape[points + axis]
        # Windows at different starts overlap: one thread has to put them all.
        if room and not point_ranges.isdisjoint(walk([start])):
            ordered.append(at[points + axis])
        inside = conjunction(inside, within(start, 0, room + 1))
        element[axis] = simplify(start + element[axis])
    position = flat(node.shape, (*at[:batch], *element))
    # Updates are read at every point, in bounds or not: only the store has a predicate.
    value = indexer.value(updates, at, None)
    inside = _use_all_ranges(inside, at[batch:points], (position, value))
    buffer = indexer.buffer(barrier)
    if node.arg.op is not Op.WHERE:
        old = UOp(Op.LOAD, (buffer, position) if inside is None else (buffer, position, inside))
        value = UOp(node.arg.op, (old, value))
    src = (buffer, position, value)
    numbers = () if node.arg.distinct else _range_numbers(ordered)
    store = UOp(Op.STORE, src if inside is None else (*src, inside), numbers)
    if node.arg.whole:
        copied = []  # all of it is written anew
    return [*copied, IndexedKernel(UOp(Op.SINK, (store,)), tuple(indexer.operands), 1)]


def _use_all_ranges(predicate: UOp | None, index: Index, used: Sequence[UOp]) -> UOp | None:
    """A predicate that mentions the ranges which nothing else uses, and is always true of them.

    Without it such a loop would disappear, and of equal updates only one would be added.
    """
    nodes = set(walk([*used, *([] if predicate is None else [predicate])]))
    for r in index:
        if r.op is Op.RANGE and r not in nodes:
            always = r < r.arg.size
            predicate = always if predicate is None else predicate & always
    return predicate


def _range_numbers(index: Sequence[UOp]) -> tuple[int, ...]:
    """The numbers of ranges whose iterations must happen in order, on one thread."""
    return tuple(i.arg.number for i in index if i.op is Op.RANGE)


def _user_kernel(barriers: Sequence[UOp]) -> list[IndexedKernel]:
    """A user's kernel: one kernel over ranges for each group of its stores with the same loops.

    Results that are not used are written to scratch.  A kernel given as text keeps its node, over
    parameters.
    """
    node = barriers[0].src[0].src[0]
    used = {b.src[0].arg: b for b in barriers}
    results = [
        used.get(i) or UOp(Op.GBARRIER, (const(0, dtype, shape),), barriers[0].arg)
        for i, (shape, dtype) in enumerate(node.arg.results)
    ]
    operands, n = (*results, *node.src), len(results)
    if node.arg.body is None:
        src = [UOp(Op.PARAM, (), Param(n + i, s.shape, s.dtype)) for i, s in enumerate(node.src)]
        kernel = UOp(Op.KERNEL, tuple(src), node.arg)
        return [IndexedKernel(UOp(Op.TUPLE, tuple(build.several(kernel))), operands, n)]
    groups: dict[frozenset[UOp], list[UOp]] = {}
    for store in node.arg.body.src:
        nodes = list(walk([store]))
        # Ranges of reductions are no loops of the store.
        inner = {r for u in nodes if u.op is Op.FOLD for r in u.src[1:]}
        loops = frozenset(u for u in nodes if u.op is Op.RANGE and u not in inner)
        groups.setdefault(loops, []).append(store)
    return [IndexedKernel(UOp(Op.SINK, tuple(stores)), operands, n) for stores in groups.values()]


def _sort(barriers: Sequence[UOp]) -> IndexedKernel:
    """A sort keeps its node, over parameters, and gets scratch: it has no form over ranges.

    Of one that groups of threads share, local memory is the scratch.
    """
    node, used = barriers[0].src[0].src[0], [b.src[0].arg for b in barriers]
    written = list(barriers)
    if not node.arg.shared:
        written.append(UOp(Op.GBARRIER, (scratch(node, used),), barriers[0].arg))
    operands, first = (*written, *map(in_memory, node.src)), len(written)
    params = [UOp(Op.PARAM, (), Param(first + i, s.shape, s.dtype)) for i, s in enumerate(node.src)]
    sort = UOp(Op.SORT, tuple(params), node.arg)
    outputs = tuple(UOp(Op.GET, (sort,), b.src[0].arg) for b in barriers)
    return IndexedKernel(UOp(Op.TUPLE, outputs), operands, first)
