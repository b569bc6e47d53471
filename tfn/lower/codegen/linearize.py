"""Linearisation: a loop nest becomes a list of instructions, with its loops opened and closed.

    parallel r0 in 8:                      loop i1 in begin..end:
      lane r1 in 16:               ->        v0 = load a[i1*16 + lane]
        b[r0*16 + r1] = sin a[...]           store b[i1*16 + lane] = ...

A value is placed in the innermost loop that it depends on, and nowhere deeper (`loop_scopes`):
loop-invariant code moves out by construction, and the statistics of a row are at the row's level.
A loop whose last block may be partial is emitted twice: whole blocks as a loop, then the rest with
fewer coordinates and a constant mask.  Accumulators are values that a loop carries (`reductions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tfn.dtypes import INT64
from tfn.lower.codegen.amx import emit_reduction, unrolled
from tfn.lower.codegen.deinterleave import deinterleave
from tfn.lower.codegen.emitter import Emitter
from tfn.lower.codegen.reductions import Recurrence
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


def linearize(
    n: Nest, fma: bool = True, rounds_products: bool = False, branches: bool = False
) -> tuple[UOp, ...]:
    """The instructions of a kernel in order: the stage LINEAR.

    Args:
        n: the nest, its ranges bound to loops, registers and lanes.
        fma: whether products are added to sums without rounding them.
        rounds_products: whether those under a sum that is no contraction are rounded all the same.
        branches: whether values that are rarely used are computed under a branch.
    """
    linearizer = Linearizer(n, fma, rounds_products, branches)
    linearizer.loops(0)
    return deinterleave(linearizer.code.scope.items)


class Linearizer:
    """The loops around a kernel's stores.

    Attributes:
        outer: ranges that run as loops, outermost first.
        inner: ranges in registers and lanes, inside of all loops.
    """

    def __init__(self, n: Nest, fma: bool, rounds_products: bool, branches: bool) -> None:
        self.body = n.body
        self.outer = [r for r in n.loops if r.arg.place in (Place.LOOP, Place.PARALLEL)]
        self.inner = [r for r in n.loops if r not in self.outer]
        self.emitter = Emitter(n, fma, emit_reduction, None, rounds_products, branches)
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
        if trips:
            with self._loop(r, const(0, INT64), const(trips, INT64)):
                self.loops(level + 1)
        for i in peeled:
            with self.at.constant(r, i):
                self.loops(level + 1)

    def _parallel(self, r: UOp, level: int) -> None:
        """The tiles of one call; a partial last tile is a loop of its own, of one iteration."""
        full = self.at.full_trips(r)
        if full == r.arg.size:
            with self._loop(r, BEGIN, END):
                self.loops(level + 1)
            return
        limit = const(full, INT64)
        if full:
            with self._loop(r, BEGIN, self.code.place(build.minimum(END, limit))):
                self.loops(level + 1)
        self.at.fixed[r] = full  # the counter can have no other value
        with self._loop(r, self.code.place(build.maximum(BEGIN, limit)), END):
            self.loops(level + 1)
        del self.at.fixed[r]

    @contextmanager
    def _loop(self, r: UOp, begin: UOp, end: UOp) -> Iterator[None]:
        counter = self.code.open(begin, end)
        with self.at.looping(r, counter):
            yield
        self.code.close(counter, [], [])

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
