"""Linearisation: a loop nest becomes a list of instructions, with its loops opened and closed.

    parallel r0 in 8:                      loop i1 in begin..end:
      lane r1 in 16:               ->        v0 = load a[i1*16 + lane]
        b[r0*16 + r1] = sin a[...]           store b[i1*16 + lane] = ...

A value is placed in the innermost loop that it depends on, and nowhere deeper (`loop_scopes`):
loop-invariant code moves out by construction, and the statistics of a row are at the row's level.
A loop whose last block may be partial is emitted twice: whole blocks as a loop, then the rest with
fewer coordinates and a constant mask.  The innermost loop is cut where conditions of lanes begin or
cease to hold, as at the ends of rows that are rolled or padded; what is between has no masks::

    loop i in 0..40: where(i*8 + lane < 1, a, b)   ->   loop i in 0..1: where(..., a, b)
                                                        loop i in 1..40: b

Accumulators are values that a loop carries (`reductions`, `recurrence`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from tfn.dtypes import INT64
from tfn.lower.codegen.amx import emit_reduction, unrolled
from tfn.lower.codegen.deinterleave import deinterleave
from tfn.lower.codegen.emitter import Emitter
from tfn.lower.codegen.recurrence import Recurrence
from tfn.lower.index.affine import affine, sum_interval
from tfn.lower.index.intervals import Facts
from tfn.lower.loops.loop_nest import Nest, in_order
from tfn.trace import build
from tfn.trace.argument import Param, Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, nodes

BEGIN = UOp(Op.PARAM, (), Param(-2, (), INT64))
END = UOp(Op.PARAM, (), Param(-1, (), INT64))
"""The first tile that one call of a kernel runs, and the end of its tiles.

They are parameters beside the buffers; negative numbers keep them apart from those.
"""


MIN_TRIPS_TO_CUT = 4
"""Iterations of a loop from which on it is cut: the code of its body is there up to three times."""

Segment = tuple[int, int, dict[UOp, bool]]
"""A part of a loop: its first iteration, its end, and conditions that are decided in it."""


def linearize(
    n: Nest,
    fma: bool = True,
    rounds_products: bool = False,
    branches: bool = False,
    adds_bytes: bool = False,
) -> tuple[UOp, ...]:
    """The instructions of a kernel in order: the stage LINEAR.

    Args:
        n: the nest, its ranges bound to loops, registers and lanes.
        fma: whether products are added to sums without rounding them.
        rounds_products: whether those under a sum that is no contraction are rounded all the same.
        branches: whether values that are rarely used are computed under a branch.
        adds_bytes: whether an instruction adds products of four bytes to a lane.
    """
    emitter = Emitter(n, fma, emit_reduction, None, rounds_products, branches, adds_bytes)
    linearizer = Linearizer(n, emitter)
    linearizer.loops(0)
    return deinterleave(linearizer.code.scope.items)


def cut(conditions: Sequence[tuple[UOp, int, int, int]], trips: int) -> list[Segment]:
    """A loop before, in, and after its longest part in which all conditions are decided.

    Args:
        conditions: each with k and the bounds of e, of k * i + e < 0 in iteration i.
        trips: of the loop.
    """
    edges = {0, trips}
    open_parts: list[tuple[int, int]] = []
    for _, k, low, high in conditions:
        # The condition holds for some e and fails for others from `first` to `last`.
        if k > 0:
            first, last = -(high // k), -(low // k)
        else:
            first, last = low // -k + 1, high // -k + 1
        first, last = (min(max(edge, 0), trips) for edge in (first, last))
        edges |= {first, last}
        open_parts.append((first, last))
    bounds = sorted(edges)
    decided = [
        (a, b)
        for a, b in pairwise(bounds)
        if all(b <= first or last <= a for first, last in open_parts)
    ]
    begin, end = max(decided, key=lambda part: part[1] - part[0], default=(0, 0))
    if end - begin < MIN_TRIPS_TO_CUT - 1:
        return [(0, trips, {})]
    truths = {u: k * begin + high < 0 for u, k, _, high in conditions}
    return [(0, begin, {}), (begin, end, truths), (end, trips, {})]


class Linearizer:
    """The loops around a kernel's stores.

    Attributes:
        outer: ranges that run as loops, outermost first.
        inner: ranges in registers and lanes, inside of all loops.
    """

    def __init__(self, n: Nest, emitter: Emitter) -> None:
        self.body = n.body
        self.outer = [r for r in n.loops if r.arg.place in (Place.LOOP, Place.PARALLEL)]
        self.inner = [r for r in n.loops if r not in self.outer]
        self.emitter = emitter
        self.code, self.at = self.emitter.code, self.emitter.at

    def loops(self, level: int) -> None:
        """Emit the loops from `level` inwards, and the stores in the innermost."""
        if level == len(self.outer):
            self._stores()
            return
        r = self.outer[level]
        if r.arg.place is Place.PARALLEL:
            self._parallel(r, level)
            return
        trips, peeled = self.at.peeled(r)
        for begin, end, truths in self._segments(r, level, trips):
            with self._loop(r, const(begin, INT64), const(end, INT64), truths):
                self.loops(level + 1)
        for i in peeled:
            with self.at.constant(r, i):
                self.loops(level + 1)

    def _parallel(self, r: UOp, level: int) -> None:
        """The tiles of one call; a partial last tile is a loop of its own, of one iteration."""
        full, place = self.at.full_trips(r), self.code.place
        for begin, end, truths in self._segments(r, level, full):
            first = place(build.maximum(BEGIN, const(begin, INT64))) if begin else BEGIN
            last = place(build.minimum(END, const(end, INT64))) if end < r.arg.size else END
            with self._loop(r, first, last, truths):
                self.loops(level + 1)
        if full < r.arg.size:
            self.at.fixed[r] = full  # the counter can have no other value
            with self._loop(r, place(build.maximum(BEGIN, const(full, INT64))), END, {}):
                self.loops(level + 1)
            del self.at.fixed[r]

    @contextmanager
    def _loop(self, r: UOp, begin: UOp, end: UOp, truths: dict[UOp, bool]) -> Iterator[None]:
        counter = self.code.open(begin, end)
        self.emitter.truths = truths
        with self.at.looping(r, counter):
            yield
        self.emitter.truths = {}
        self.code.close(counter, [], [])

    def _segments(self, r: UOp, level: int, trips: int) -> list[Segment]:
        """The loop over whole blocks in up to three parts, the second without conditions."""
        whole: list[Segment] = [(0, trips, {})] if trips else []
        if trips < MIN_TRIPS_TO_CUT or level < len(self.outer) - 1 or in_order(self.body):
            return whole
        undecided = [
            (u, k, low, high)
            for u in self.emitter.at.depends
            if u.op is Op.LT and (found := self._along(u, r)) is not None
            for k, low, high in [found]
        ]
        if not any(low < high for _, _, low, high in undecided):
            return whole
        return [part for part in cut(undecided, trips) if part[0] < part[1]]

    def _along(self, condition: UOp, r: UOp) -> tuple[int, int, int] | None:
        """A comparison as k * r + e < 0: k, and the bounds of e over lanes and unrolled ranges."""
        if r not in self.at.depends[condition] or condition.src[0].dtype != INT64:
            return None
        form, constant = affine(condition.src[0] - condition.src[1])
        terms = dict(form)
        k = terms.pop(r, 0)
        if not k or not terms.keys() <= set(self.inner):
            return None
        return k, *sum_interval(terms, constant, Facts())

    def _stores(self) -> None:
        stores = [u for u in self.body.src if u.op is Op.STORE]
        if any(map(self.emitter.is_branch, nodes(self.body))) and not in_order(self.body):
            self._values_before(stores)
        for _ in unrolled(self.emitter, self.inner):
            for store in stores:
                self.emitter.store(store)
        for u in self.body.src:
            if u.op is Op.RECUR:
                Recurrence(self.emitter, u).run(self.inner)

    def _values_before(self, stores: Sequence[UOp]) -> None:
        """Emit all loads, then all values with their branches, so that the stores come together.

        Accesses of the parts of a complex number are merged where no branch is between them.
        """
        around = {*self.outer, *self.inner}
        loads = [
            u for u in nodes(self.body) if u.op is Op.LOAD and around.issuperset(self.at.depends[u])
        ]
        for chosen in (loads, [store.src[2] for store in stores]):
            for _ in unrolled(self.emitter, self.inner):
                for u in chosen:
                    self.emitter.emit(u)
