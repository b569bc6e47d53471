"""Iteration state: the present value of each range, trip counts, peeling of partial blocks.

Code is emitted for one point of the iteration space at a time.  A range is a loop counter, a
constant (unrolled, or peeled off a loop), or the lanes of a vector::

    for r0 in 3 (loop)  for r1 in 4 (upcast)  for r2 in 16 (lane)
    env = {r0: LOOP, r1: 2, r2: LANES 16}

A range may be bounded by others, where a split leaves a rest: its trip count is then a constant
only at coordinates that fix those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from operator import itemgetter
from typing import Any

from tfn.dtypes import INT64
from tfn.lower.index.dependence import dependences
from tfn.lower.loops.loop_nest import Nest
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, const_value, walk

Key = tuple[Any, ...]


class Coordinates:
    """The values of a nest's ranges at the point that code is emitted for.

    Attributes:
        env: the value of each range: a loop counter, a constant, or lanes.
        fixed: ranges whose value is a known integer, from which trip counts follow.
        depends: the ranges that each node of the body depends on.
        bounded_by: for each range those that its bound reads.
        divided: what the body has quotients of.
        bounds: for each range those whose bound reads it.
    """

    def __init__(self, n: Nest) -> None:
        self.env: dict[UOp, UOp] = {}
        self.fixed: dict[UOp, int] = {}
        self.depends = dependences(n.body)
        self.divided = {u.src[0] for u in self.depends if u.op is Op.FLOORDIV}
        getters = {ranges: itemgetter(*ranges) for ranges in self.depends.values() if ranges}
        self._values = {u: getters[ranges] for u, ranges in self.depends.items() if ranges}
        ranges = {*n.loops, *(u for u in self.depends if u.op is Op.RANGE)}
        self.bounded_by = {r: ranges.intersection(walk(r.src)) for r in ranges}
        self.bounds = {r: [b for b in ranges if r in self.bounded_by[b]] for r in ranges}
        self._trip_counts: dict[Key, int] = {}

    def key(self, u: UOp) -> Key:
        """A node and the values of the ranges that it depends on: equal keys, equal values."""
        values = self._values.get(u)
        return (u, values(self.env)) if values else (u,)

    # Trip counts.

    def trips(self, r: UOp) -> int:
        """The trip count of a range, where the ranges that bound it are fixed."""
        size: int = r.arg.size
        if not r.src:
            return size
        key = (r, *[self.fixed.get(other) for other in self.bounded_by[r]])
        if None in key:  # inside a loop over whole blocks
            return size
        trips = self._trip_counts.get(key)
        if trips is None:
            trips = self._trip_counts[key] = max(0, min(size, self._evaluate(r.src[0])))
        return trips

    def _evaluate(self, bound: UOp) -> int:
        """The value of a bound over fixed ranges."""
        values: dict[UOp, int] = {}
        for node in walk([bound]):
            if node.op is Op.CONST:
                values[node] = const_value(node)
            elif node.op is Op.RANGE:
                values[node] = self.fixed[node]
            else:
                values[node] = _ARITHMETIC[node.op](*(values[s] for s in node.src))
        return values[bound]

    def full_trips(self, r: UOp) -> int:
        """The number of iterations in which every range that `r` bounds is certainly full.

        Only the last block of a split may be partial.
        """
        size: int = r.arg.size
        # The threads of a group that are beyond a bound are idle: no block is special for them.
        partial = any(b.arg.place is not Place.LOCAL for b in self.bounds[r])
        return size - 1 if partial else size

    def peeled(self, r: UOp) -> tuple[int, range]:
        """The trip count of the loop over whole blocks, and the iterations peeled off its end.

        A single whole block is peeled too: it needs no loop.
        """
        full = self.full_trips(r)
        loop = full if full > 1 else 0
        return loop, range(loop, r.arg.size)

    # Coordinates.

    @contextmanager
    def looping(self, r: UOp, counter: UOp) -> Iterator[None]:
        """Give a range the counter of an open loop."""
        self.env[r] = counter
        yield
        del self.env[r]

    @contextmanager
    def constant(self, r: UOp, index: int) -> Iterator[None]:
        """Fix a range at one iteration."""
        self.env[r], self.fixed[r] = const(index, INT64), index
        yield
        del self.env[r], self.fixed[r]

    @contextmanager
    def restoring(self, ranges: Iterable[UOp]) -> Iterator[None]:
        """Give ranges their present values again at the end."""
        before = {r: (self.env.get(r), self.fixed.get(r)) for r in ranges}
        yield
        for r, (value, index) in before.items():
            _restore(self.env, r, value)
            _restore(self.fixed, r, index)

    def unrolled(self, ranges: Sequence[UOp]) -> Iterator[Key]:
        """Fix each combination of unrolled ranges in turn, with the lanes that go with it."""
        upcasts = [r for r in ranges if r.arg.place is Place.UPCAST]
        lanes = [r for r in ranges if r.arg.place is Place.LANE]
        for indices in product(*(range(self.trips(r)) for r in upcasts)):
            self.set(upcasts, indices, lanes)
            yield indices
        for r in (*upcasts, *lanes):
            self.env.pop(r, None)
            self.fixed.pop(r, None)

    def set(self, upcasts: Sequence[UOp], indices: Sequence[int], lanes: Sequence[UOp]) -> None:
        """Fix unrolled ranges; how many lanes exist may depend on them."""
        for r, i in zip(upcasts, indices, strict=True):
            self.env[r], self.fixed[r] = const(i, INT64), i
        for r in lanes:
            trips = self.trips(r)
            src = () if trips == r.arg.size else (const(trips, INT64),)
            self.env[r] = UOp(Op.LANES, src, r.arg.size)


def _restore(table: dict[UOp, Any], r: UOp, value: object) -> None:
    if value is None:
        table.pop(r, None)
    else:
        table[r] = value


_ARITHMETIC: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: lambda x, y: x + y,
    Op.SUB: lambda x, y: x - y,
    Op.MUL: lambda x, y: x * y,
    Op.FLOORDIV: lambda x, y: x // y,
}
