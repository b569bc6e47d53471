"""Recurrences: loops that carry values from one iteration to the next, RECUR.

The loop is emitted once for all unrolled coordinates around it, with an accumulator for each carry.
It may take several iterations at a time.  Where these are as many as vectors have lanes, and go
along memory while lanes step over it, squares of elements are loaded by rows, transposed in
registers, and stored likewise::

    for r in 1024 / 4, lanes j:    x0 x1 x2 x3 = transpose of rows j of x at 4 r
                                   c0 = c + x0; c1 = c0 + x1; c2 = c1 + x2; c = c2 + x3
                                   rows j of y at 4 r = transpose of c0 c1 c2 c

Iterations that are left follow the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from tfn.dtypes import BOOL, INT64
from tfn.lower.codegen.coordinates import Key
from tfn.lower.codegen.emitter import Emitter
from tfn.lower.codegen.reductions import ZERO
from tfn.lower.codegen.register_transpose import transpose
from tfn.trace import build
from tfn.trace.argument import Access, Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

Square = tuple[UOp, Access, int]
"""A base, the first row, and how many rows there are: lanes step from row to row."""


class Recurrence:
    """One RECUR: a loop in order, with an accumulator for each carry and unrolled coordinate.

    Carries that do not depend on an unrolled range share one accumulator.
    """

    def __init__(self, emitter: Emitter, node: UOp) -> None:
        self.emitter, self.at = emitter, emitter.at
        arg = node.arg
        n, self.range, self.elements = arg.carried, node.src[0], arg.elements
        self.first, self.next = node.src[1 : 1 + n], node.src[1 + n : 1 + 2 * n]
        rest = node.src[1 + 2 * n :]
        self.condition = rest[0] if arg.conditional else None
        rest = rest[1:] if arg.conditional else rest
        self.stores, self.last_stores = rest[: arg.stores], rest[arg.stores :]
        self.carries: dict[int, UOp] = {
            u.arg.number: u for u in self.at.depends if u.op is Op.CARRY
        }
        loads = (u for u in self.at.depends if u.op is Op.LOAD and len(u.src) == 2)
        self.square_loads = [u for u in loads if self._is_square(u)] if self.elements > 1 else []

    def run(self, around: Sequence[UOp]) -> None:
        """Emit the loop, for all coordinates of the unrolled ranges around it."""
        at, code, r = self.at, self.emitter.code, self.range
        points: list[list[UOp]] = []  # the first carries of each
        for _ in at.unrolled(around):
            values = (self.emitter.emit(self.first[i]) for i in self.carries)
            points.append([*map(self._along_lanes, self.carries.values(), values)])
        trips = r.arg.size // self.elements
        loop = code.open(ZERO, *([const(trips, INT64)] if self.condition is None else []))
        first: dict[Key, UOp] = {}
        with at.looping(r, loop):
            for (key, _), value in zip(self._carried(around), (v for p in points for v in p)):
                first.setdefault(key, value)
        accumulators = [
            code.append(UOp(Op.ACCUMULATOR, (loop, u), i)) for i, u in enumerate(first.values())
        ]
        following = self._iterations(around, loop, accumulators)
        code.close(loop, accumulators, following)
        last: Sequence[UOp] = accumulators
        for i in range(trips * self.elements, r.arg.size if self.condition is None else 0):
            with at.constant(r, i):
                last = self._iteration(around, last, self.stores)
        with at.looping(r, const(r.arg.size, INT64)):
            self._provide(around, last)
            for _ in at.unrolled(around):
                for store in self.last_stores:
                    self.emitter.store(store)

    def _carried(self, around: Sequence[UOp]) -> Iterator[tuple[Key, UOp]]:
        """The carries at all unrolled coordinates, of which several may be one."""
        for _ in self.at.unrolled(around):
            for carry in self.carries.values():
                yield self.at.key(carry), carry

    def _provide(self, around: Sequence[UOp], present: Sequence[UOp]) -> list[Key]:
        """Make values those of the carries in the present iteration; the keys of these."""
        keys = list(dict.fromkeys(key for key, _ in self._carried(around)))
        self.emitter.values.update(zip(keys, present, strict=True))
        return keys

    def _iterations(
        self, around: Sequence[UOp], loop: UOp, present: Sequence[UOp]
    ) -> Sequence[UOp]:
        """The carries after one turn of the loop."""
        if self.elements == 1:
            with self.at.looping(self.range, loop):
                return self._iteration(around, present, self.stores)
        place = self.emitter.place
        start = place(loop * self.elements)
        steps = [start, *(place(start + i) for i in range(1, self.elements))]
        for _ in self.at.unrolled(around):
            for load in self.square_loads:
                self._load_square(load, steps)
        squares = [s for s in self.stores if len(s.src) == 3 and self._is_square(s)]
        others = [s for s in self.stores if s not in squares]
        columns: list[list[UOp]] = []
        for step in steps:
            with self.at.looping(self.range, step):
                present = self._iteration(around, present, others)
                columns.append([self._value(s) for _ in self.at.unrolled(around) for s in squares])
        whole = iter(zip(*columns, strict=True))
        for _ in self.at.unrolled(around):
            for store in squares:
                self._store_square(store, next(whole), start)
        return present

    def _iteration(
        self, around: Sequence[UOp], present: Sequence[UOp], stores: Sequence[UOp]
    ) -> list[UOp]:
        """The carries after one iteration, whose range has its value already."""
        emitter, at, code = self.emitter, self.at, self.emitter.code
        keys = self._provide(around, present)
        if self.condition is not None:
            conditions: dict[UOp, None] = {}
            for _ in at.unrolled(around):
                lanes = build.count(emitter.emit(self.condition).shape)
                alive = emitter.predicate(self.condition, self.condition, lanes)
                assert alive is not None
                conditions[alive] = None
            some = reduce(lambda x, y: code.place(x | y), conditions)
            if some.shape:
                some = code.place(UOp(Op.ACROSS, (some,), Op.MAX))
            code.append(UOp(Op.LEAVE, (self.at.env[self.range], some)))
        following: dict[Key, UOp] = {}
        for _ in at.unrolled(around):
            for i, carry in self.carries.items():
                value = self._along_lanes(carry, emitter.emit(self.next[i]))
                following[at.key(carry)] = value
            for store in stores:
                emitter.store(store)
        return [following[key] for key in keys]

    def _along_lanes(self, carry: UOp, value: UOp) -> UOp:
        """The value of a carry, as a vector where the carry varies along lanes."""
        lanes = [r for r in self.at.depends[carry] if r.arg.place is Place.LANE]
        return self.emitter.splat(value, lanes[0].arg.size) if lanes else value

    # Squares.

    def _is_square(self, access: UOp) -> bool:
        """Whether iterations step along memory, and lanes, as many, from row to row."""
        terms, _ = self.emitter.affine(access.src[1])
        steps = dict(terms)
        lane = next((r for r in steps if r.op is Op.RANGE and r.arg.place is Place.LANE), None)
        beside = [u for u in steps if u is not self.range]
        return (
            abs(steps.get(self.range, 0)) == 1
            and lane is not None
            and lane.arg.size == self.elements
            and abs(steps[lane]) > 1
            and not any(self.range in self.at.depends.get(u, ()) for u in beside)
            and all(u.op is Op.RANGE for u in beside)
            and (access.src[0] if access.op is Op.LOAD else access.src[2]).dtype != BOOL
        )

    def _square(self, access: UOp, start: UOp) -> Square:
        """The square of an access whose first iteration is `start`; the last may come first."""
        terms = dict(self.emitter.affine(access.src[1])[0])
        with self.at.looping(self.range, start):
            base, offset, lanes, stride = self.emitter.address(access.src[1])
            lane = next(self.at.env[r] for r in terms if r.arg.place is Place.LANE)
        if terms[self.range] < 0:
            offset -= lanes - 1
        rows = int(lane.src[0].arg.value) if lane.src else lanes
        return base, Access(offset, lanes, stride), rows

    def _load_square(self, load: UOp, steps: Sequence[UOp]) -> None:
        """Load rows, and make their columns the values of a load in the iterations."""
        emitter = self.emitter
        base, first, count = self._square(load, steps[0])
        none = const(0, load.dtype, (first.lanes,))
        rows = [
            emitter.append(UOp(Op.LOAD, (load.src[0], base), self._row(first, i)))
            if i < count
            else none
            for i in range(first.lanes)
        ]
        columns = transpose(rows, emitter.place)
        for step, column in zip(steps, self._in_order(load, columns), strict=True):
            with self.at.looping(self.range, step):
                emitter.values[self.at.key(load)] = column

    def _store_square(self, store: UOp, columns: Sequence[UOp], start: UOp) -> None:
        """Store the values of the iterations by rows."""
        base, first, count = self._square(store, start)
        rows = transpose(self._in_order(store, columns), self.emitter.place)
        for i, row in enumerate(rows[:count]):
            access = self._row(first, i)
            self.emitter.append(UOp(Op.STORE, (store.src[0], base, row), access))

    def _row(self, first: Access, i: int) -> Access:
        return Access(first.offset + i * first.stride, first.lanes, 1)

    def _in_order(self, access: UOp, columns: Sequence[UOp]) -> Sequence[UOp]:
        """Columns in the order of iterations, or of memory."""
        backwards = dict(self.emitter.affine(access.src[1])[0])[self.range] < 0
        return columns[::-1] if backwards else columns

    def _value(self, store: UOp) -> UOp:
        """The vector that a store writes in the present iteration."""
        return self.emitter.splat(self.emitter.emit(store.src[2]), self.elements)
