"""Small loops inside of one kernel: their carries stay in registers.

A SCAN or WHILE whose body is elementwise, on values of one shape and on scalars, needs no loop
around kernels: each element goes through all iterations by itself.  It may look up elements of
what stays the same. ::

    scan (c, x) -> (c * w + x, c)       for e in elements:              # shared, in vectors
                                            c = first[e]
                                            for i in range(length):     # carries c in a register
                                                out[i, e] = c
                                                c = c * w[e] + xs[i, e]
                                            last[e] = c
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.dtypes import BOOL, INT64
from tfn.lower.fuse.indexing import Index, Stage, Walker, flat
from tfn.lower.math.decompose import weight
from tfn.trace.argument import Carry, Range, Recur
from tfn.trace.op import ELEMENTWISE, Op, Shape
from tfn.trace.regions import results
from tfn.trace.uop import UOp, const, walk

LOCAL = ELEMENTWISE | {Op.CONST, Op.PARAM, Op.RESHAPE, Op.EXPAND, Op.GATHER}
SMALL = 400
"""Instructions of a body up to which it is a loop in a kernel."""

UNKNOWN_TRIPS = 1000


class NotLocal(Exception):
    """A value is wanted at another place than its own: signals within lowering, not for users."""


def recurrence(node: UOp, barriers: Sequence[UOp]) -> Stage | None:
    """The kernel of a SCAN or WHILE on some of its results, None if it needs a loop of kernels."""
    if node.op is Op.SCAN and node.arg.length > 1:
        functions, consts = node.src[:1], node.arg.consts
    elif node.op is Op.WHILE:
        functions, consts = node.src[:2], node.arg.cond_consts + node.arg.body_consts
    else:
        return None
    nodes = [u for f in functions for u in walk(f.src)]
    if any(u.op not in LOCAL for u in nodes) or sum(map(weight, nodes)) > SMALL:
        return None
    try:
        return _Local(node, functions, consts, barriers).stage()
    except NotLocal:
        return None


class _Local:
    """The walk of one recurrence."""

    def __init__(
        self, node: UOp, functions: Sequence[UOp], consts: int, barriers: Sequence[UOp]
    ) -> None:
        self.node, self.functions, self.barriers = node, functions, barriers
        self.walker = Walker(barriers)
        operands = node.src[len(functions) :]
        self.consts = operands[:consts]
        body = functions[-1]
        scan = node.op is Op.SCAN
        carries = node.arg.carries if scan else len(body.src)
        self.first = operands[consts : consts + carries]
        self.slices = operands[consts + carries :]
        shapes = {u.shape for u in (*body.src, *self.first)} - {()}
        if len(shapes) > 1:
            raise NotLocal
        self.shape: Shape = shapes.pop() if shapes else ()
        if 0 in self.shape:
            raise NotLocal
        self.index = self.walker.axes(self.shape)
        size = node.arg.length if scan else UNKNOWN_TRIPS
        self.walker.count += 1
        self.range = UOp(Op.RANGE, (), Range(self.walker.count - 1, size))

    def at(self, shape: Shape) -> Index:
        """Where a value of a shape is wanted: everywhere, or, a scalar, once."""
        if shape not in (self.shape, ()):
            raise NotLocal
        return self.index if shape else ()

    def stage(self) -> Stage:
        """The sink of the recurrence."""
        walker, r = self.walker, self.range
        body = self.functions[-1]
        carries: list[UOp] = []
        for i, u in enumerate(self.first):
            axes = tuple(x for x in self.at(u.shape) if x.op is Op.RANGE)
            carries.append(UOp(Op.CARRY, (r, *axes), Carry(i, u.dtype)))
        place: UOp = r
        if self.node.op is Op.SCAN and self.node.arg.reverse:
            place = const(self.node.arg.length - 1, INT64) - r
        slices = [walker.value(u, (place, *self.at(u.shape[1:])), None) for u in self.slices]
        first = [walker.value(u, self.at(u.shape), None) for u in self.first]
        condition: list[UOp] = []
        if self.node.op is Op.WHILE:
            known = self.node.arg.cond_consts
            condition = self._apply(self.functions[0], self.consts[:known], carries)
            if condition[0].dtype != BOOL or any(u.shape for u in self.functions[0].src):
                raise NotLocal
            self.consts = self.consts[known:]
        found = self._apply(body, self.consts, [*carries, *slices])
        n = len(carries)
        inner, last = [], []
        for barrier in self.barriers:
            i = barrier.src[0].arg
            shape, _ = results(self.node)[i]
            if i < n:
                position = flat(shape, self.at(shape))
                last.append(UOp(Op.STORE, (walker.buffer(barrier), position, carries[i])))
            else:
                position = flat(shape, (place, *self.at(shape[1:])))
                inner.append(UOp(Op.STORE, (walker.buffer(barrier), position, found[i])))
        arg = Recur(n, len(inner), bool(condition))
        src = (r, *first, *found[:n], *condition, *inner, *last)
        sink = UOp(Op.SINK, (UOp(Op.RECUR, src, arg),))
        return Stage(sink, tuple(walker.operands), len(self.barriers))

    def _apply(self, function: UOp, consts: Sequence[UOp], values: Sequence[UOp]) -> list[UOp]:
        """The outputs of a body, with its parameters replaced by values over ranges.

        What stays the same is read wherever it is wanted.
        """
        params = [UOp(Op.PARAM, (), p) for p in function.arg.params]
        whole = dict(zip(params, consts))

        def given(param: UOp, index: Index, gate: UOp | None) -> UOp:
            if param not in whole:
                raise NotLocal
            return self.walker.value(whole[param], index, gate)

        inner = Walker((), given=given)
        for param, value in zip(params[len(consts) :], values, strict=True):
            inner.answers[param, self.at(param.shape), None] = value
        return [inner.value(u, self.at(u.shape), None) for u in function.src]
