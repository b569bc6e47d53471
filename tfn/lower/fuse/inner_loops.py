"""Inner loops: a pointwise scan or while loop fused into one kernel, its carries in registers.

A SCAN or WHILE whose body is pointwise, on values of one shape and on scalars, needs no loop around
kernels: each element runs through all iterations by itself.  Loop-invariant operands may be read
at any index. ::

    scan (c, x) -> (c * w + x, c)       for e in elements:              # shared, in vectors
                                            c = first[e]
                                            for i in range(length):     # carries c in a register
                                                out[i, e] = c
                                                c = c * w[e] + xs[i, e]
                                            last[e] = c

A while loop under `vmap` ends when no element is alive; those that are not stay as they are.  So
each vector of elements may leave as soon as none of its own is alive.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.dtypes import BOOL, INT64
from tfn.lower.fuse.indexing import Index, IndexedKernel, Indexer, flat
from tfn.lower.math.decompose import INSTRUCTIONS
from tfn.trace.argument import Carry, Recur
from tfn.trace.op import ELEMENTWISE, Op, Shape
from tfn.trace.regions import Form, form, results
from tfn.trace.uop import UOp, const, walk

POINTWISE_OPS = ELEMENTWISE | {Op.CONST, Op.PARAM, Op.RESHAPE, Op.EXPAND, Op.GATHER}
"""Ops that a fused body may have; reshapes and gathers may move loop-invariant values only."""

MAX_BODY_INSTRUCTIONS = 400
"""Instructions of a body up to which it is fused: its values and carries share the registers.

A larger body has work enough for kernels of its own, in a loop around them.
"""

WHILE_RANGE_SIZE = 1000
"""Size of the range of a WHILE, by which heuristics and cost model see a long inner loop.

The loop itself ends by its condition.  A loop around kernels is estimated at fewer iterations:
`program.ESTIMATED_LOOP_TRIPS`.
"""


class NotPointwise(Exception):
    """A value is read at another index than its own: signals within lowering, not for users."""


def fused_loop(node: UOp, barriers: Sequence[UOp]) -> IndexedKernel | None:
    """Returns the kernel of a SCAN or WHILE, or None if it needs a loop around kernels.

    Args:
        node: the loop.
        barriers: on those of its results that are used.
    """
    # A scan of one iteration, or of none, is no loop: the region around kernels handles both.
    if node.op is not Op.WHILE and not (node.op is Op.SCAN and node.arg.length > 1):
        return None
    parts = form(node)
    alive = _alive(node) if node.op is Op.WHILE else None
    evaluated = parts.functions if alive is None else parts.functions[-1:]
    nodes = [u for f in evaluated for u in walk(f.src)]
    if (
        any(u.op not in POINTWISE_OPS for u in nodes)
        or sum(INSTRUCTIONS[u.op] for u in nodes) > MAX_BODY_INSTRUCTIONS
    ):
        return None
    try:
        return _FusedLoop(node, parts, barriers, alive).kernel()
    except NotPointwise:
        return None


def _alive(node: UOp) -> int | None:
    """The carry of a WHILE that says which elements go on; None if there is none.

    The loop goes on if any does, and an element that does not keeps all its carries.
    """
    parts = form(node)
    condition, body = parts.functions
    (some,) = condition.src
    if some.op is not Op.REDUCE or some.arg.op is not Op.MAX or some.dtype != BOOL:
        return None
    if some.shape or some.src[0].op is not Op.PARAM or not some.src[0].shape:
        return None
    number = some.src[0].arg.index - len(parts.own(0))
    carries = [UOp(Op.PARAM, (), p) for p in body.arg.params][len(parts.own(1)) :]
    if number < 0:
        return None
    flags = carries[number]

    def stays(i: int, following: UOp) -> bool:
        if following is carries[i] or (i == number and following.op is Op.AND):
            return following is carries[i] or flags in following.src
        chosen = following.op is Op.WHERE and following.src[0] is flags
        return chosen and following.src[2] is carries[i]

    return number if all(stays(i, u) for i, u in enumerate(body.src)) else None


class _FusedLoop:
    """A loop that is being fused: its operands by role, the index of an element, its range."""

    def __init__(
        self, node: UOp, parts: Form[UOp], barriers: Sequence[UOp], alive: int | None
    ) -> None:
        self.node, self.parts, self.barriers = node, parts, barriers
        self.alive = alive
        self.indexer = Indexer(barriers)
        shapes = {u.shape for u in (*parts.functions[-1].src, *parts.carries)} - {()}
        if len(shapes) > 1:
            raise NotPointwise
        self.shape: Shape = shapes.pop() if shapes else ()
        # Without elements there is no loop nest to put the kernel's stores into.
        if 0 in self.shape:
            raise NotPointwise
        self.index = self.indexer.axes(self.shape)
        size = node.arg.length if node.op is Op.SCAN else WHILE_RANGE_SIZE
        self.range = self.indexer.range(size)

    def at(self, shape: Shape) -> Index:
        """Returns the index of the present element in a value of a shape; a scalar has none."""
        if shape not in (self.shape, ()):
            raise NotPointwise
        return self.index if shape else ()

    def kernel(self) -> IndexedKernel:
        """Returns the kernel, whose only statement is the loop with its stores."""
        indexer, r = self.indexer, self.range
        body = self.parts.functions[-1]
        carries: list[UOp] = []
        for i, u in enumerate(self.parts.carries):
            axes = tuple(x for x in self.at(u.shape) if x.op is Op.RANGE)
            carries.append(UOp(Op.CARRY, (r, *axes), Carry(i, u.dtype)))
        iteration: UOp = r
        if self.node.op is Op.SCAN and self.node.arg.reverse:
            iteration = const(self.node.arg.length - 1, INT64) - r
        slices = [
            indexer.value(u, (iteration, *self.at(u.shape[1:])), None) for u in self.parts.arrays
        ]
        first = [indexer.value(u, self.at(u.shape), None) for u in self.parts.carries]
        condition: list[UOp] = []
        if self.node.op is Op.WHILE:
            if self.alive is not None:
                condition = [carries[self.alive]]
            else:
                test = self.parts.functions[0]
                condition = self._apply(test, self.parts.own(0), carries)
                # It has to be a scalar: the iterations of all elements end together.
                if condition[0].dtype != BOOL or any(u.shape for u in test.src):
                    raise NotPointwise
        next_values = self._apply(body, self.parts.own(-1), [*carries, *slices])
        n = len(carries)
        inner, last = [], []
        for barrier in self.barriers:
            i = barrier.src[0].arg
            shape, _ = results(self.node)[i]
            if i < n:
                position = flat(shape, self.at(shape))
                last.append(UOp(Op.STORE, (indexer.buffer(barrier), position, carries[i])))
            else:
                position = flat(shape, (iteration, *self.at(shape[1:])))
                inner.append(UOp(Op.STORE, (indexer.buffer(barrier), position, next_values[i])))
        arg = Recur(n, len(inner), bool(condition))
        src = (r, *first, *next_values[:n], *condition, *inner, *last)
        sink = UOp(Op.SINK, (UOp(Op.RECUR, src, arg),))
        return IndexedKernel(sink, tuple(indexer.operands), len(self.barriers))

    def _apply(self, function: UOp, consts: Sequence[UOp], values: Sequence[UOp]) -> list[UOp]:
        """The outputs of a body, with its parameters replaced by values over ranges.

        Loop-invariant parameters are inlined at any index; carries and slices have one element.
        """
        params = [UOp(Op.PARAM, (), p) for p in function.arg.params]
        invariant = dict(zip(params, consts))

        def bound(param: UOp, index: Index, predicate: UOp | None) -> UOp:
            if param not in invariant:
                raise NotPointwise
            return self.indexer.value(invariant[param], index, predicate)

        inner = Indexer((), bound=bound)
        # Carries and slices are known at the present element alone: put there, they are found by
        # the memo, and a request at any other index is refused by `bound`.
        for param, value in zip(params[len(consts) :], values, strict=True):
            inner.memo[param, self.at(param.shape), None] = value
        return [inner.value(u, self.at(u.shape), None) for u in function.src]
