"""Reductions: accumulators of FOLD.

A loop is emitted once for all unrolled coordinates around it, with an accumulator for each, so that
independent sums run side by side and hide the latency of additions::

    for u in 4 (upcast): sum(a[u, k] for k in 100)    ->    loop k: s0 += a[0, k]; ... s3 += a[3, k]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from itertools import chain, count, product
from typing import Any

from tfn.dtypes import FLOATS, INT32, INT64, DType, int8, int16, uint8
from tfn.lower.codegen.coordinates import Key
from tfn.lower.codegen.emitter import Emitter
from tfn.lower.codegen.masked_tiles import LOADED_BOUND, TileMask
from tfn.lower.codegen.pairs import neighbours, repeated
from tfn.lower.index.affine import affine
from tfn.lower.loops.byte_products import byte_products, fits_int16
from tfn.lower.loops.tensorize import terms_of, unwidened
from tfn.trace import build
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

ZERO = const(0, INT64)

Total = tuple[UOp, ...]
"""The state of a reduction: a value; or the best value, and where it was first."""

Totals = dict[Any, Total]
"""Totals by (unrolled coordinates around the reduction, unrolled coordinates of its own ranges)."""

LoopBody = Callable[[UOp, Totals], Totals]
"""The body of a loop, from its counter and present totals to the next totals."""


class Reduction:
    """One FOLD, for all unrolled coordinates of the ranges around it at once.

    Each coordinate has an accumulator, and each unrolled coordinate of the reduction's own ranges
    another; these are combined as a tree after the loops, and then the lanes.

    An argmax or argmin has a second accumulator, for what the loops alone add to the index: that is
    the same for all coordinates, so it is one instruction beside them.  What coordinates and lanes
    add follows after the loops; the least index with the best value is then the first.  In vectors
    of 64-bit values it has 64 bits meanwhile: masks then fit both.

    Args:
        emitter: of the kernel.
        node: the FOLD.
        rows: on a matrix unit, the range of its rows; an accumulator is then a matrix.
        multiply: on a matrix unit, adds a product of matrices to an accumulator.
        accumulate: on the matrix unit of a warp, adds to all accumulators.
        finish: makes the totals after the loops from the accumulators.
    """

    def __init__(
        self,
        emitter: Emitter,
        node: UOp,
        rows: UOp | None = None,
        multiply: Callable[[Reduction, UOp], UOp] | None = None,
        accumulate: Callable[[Reduction, Totals], Totals] | None = None,
        finish: Callable[[Reduction, Totals], Totals] | None = None,
    ) -> None:
        self.emitter, self.at, self.place = emitter, emitter.at, emitter.place
        self.node, self.multiply, self.accumulate = node, multiply, accumulate
        self.finish = finish
        self.op: Op = node.arg.op
        self.index: DType | None = node.arg.index
        self.body, ranges = node.src[0], node.src[1:]
        if self.index is not None:
            self.body, index = node.src[0].src
            self.index_steps, _ = affine(index)
        self.loops = [r for r in ranges if r.arg.place in (Place.LOOP, Place.LOCAL)]
        self.fma = emitter.fma and (node.arg.product or not emitter.rounds_products)
        self.is_shared = any(r.arg.place is Place.LOCAL for r in self.loops)
        self.unit = [r for r in ranges if r.arg.place is Place.UNIT]
        self.own = [r for r in ranges if r.arg.place in (Place.UPCAST, Place.LANE)]
        around = self.at.depends[node]
        self.upcasts = [r for r in around if r.arg.place is Place.UPCAST]
        self.lanes = [r for r in around if r.arg.place is Place.LANE]
        lanes = self.lanes + [r for r in self.own if r.arg.place is Place.LANE]
        self.width = lanes[0].arg.size if lanes else 0
        self.shape: tuple[int, ...] = (self.width,) if self.width else ()
        if self.index is not None and self.width and self.body.dtype.itemsize == INT64.itemsize:
            self.index = INT64
        if rows is not None:
            self.shape = (rows.arg.size, self.width)
        self.bytes = byte_products(node) if self.unit and rows is None else ()
        self.in_pairs = bool(self.bytes) and not emitter.adds_bytes and fits_int16(node)

    def run(self) -> None:
        """Emit the reduction in the loop it belongs to, and memoise its value everywhere."""
        code, at = self.emitter.code, self.at
        present = code.scope
        scopes = [code.scope_of(at.env[r]) for r in at.depends[self.node] if r in at.env]
        # The caller may be in a deeper loop: the reduction is hoisted out of it.
        code.scope = max(scopes, key=lambda s: s.depth, default=code.root)
        with at.restoring((*self.upcasts, *self.lanes)):
            points = list(product(*(range(at.trips(r)) for r in self.upcasts)))
            totals = self._guarded(self._start(points))
            if self.finish is not None:
                totals = self.finish(self, totals)
            for point in points:
                at.set(self.upcasts, point, self.lanes)
                parts = {own: total for (p, own), total in totals.items() if p == point}
                self.emitter.values[at.key(self.node)] = self._combine(parts)
        code.scope = present

    def _start(self, points: Sequence[Key]) -> Totals:
        """The identity of the reduction, for every point around it and of its own ranges."""
        dtype = int16.dtype if self.in_pairs else self.body.dtype
        shape = (2 * self.width,) if self.in_pairs else self.shape
        self.identity = const(build.identity(self.op, dtype), dtype, shape)
        start: Total = (self.identity,)
        if self.index is not None:
            start = (self.identity, const(0, self.index, self.shape))
        sizes = [range(r.arg.size) for r in self.own if r.arg.place is Place.UPCAST]
        return {(point, own): start for point in points for own in product(*sizes)}

    # Loops.

    def _guarded(self, totals: Totals) -> Totals:
        """The totals after all loops, which are not run for a tile that a mask hides."""
        masks = self.emitter.masks.get(self.node, ()) if self.loops else ()
        if not masks:
            return self._loops(0, totals)
        visible = reduce(lambda x, y: self.place(x & y), map(self._is_visible, masks))
        trips = self.place(build.cast(visible, INT64))  # one, or none

        def body(loop: UOp, totals: Totals) -> Totals:
            self.emitter.append(UOp(Op.LEAVE, (loop, self.place(loop < trips))))
            return self._loops(0, totals)

        return self._carried(totals, body)

    def _is_visible(self, mask: TileMask) -> UOp:
        """Whether a mask is true anywhere in the tile, as far as its terms tell."""
        place = self.place
        total = const(-mask.bound, INT64)
        for u, k in mask.terms:
            value = place(build.cast(self.emitter.emit(u), INT64))
            total = self._add(total, value if k == 1 else place(value * k))
        visible = place(total <= ZERO)
        for u in mask.loaded:
            value = place(build.cast(self.emitter.emit(u), INT64))
            low, high = const(-LOADED_BOUND, INT64), const(LOADED_BOUND, INT64)
            for beyond in (value < low, high < value):
                visible = place(visible | place(beyond))
        return visible

    def _carried(self, totals: Totals, body: LoopBody, *trips: UOp, begin: UOp = ZERO) -> Totals:
        """The totals after a loop that carries them; without a trip count, until it is left."""
        code, numbers = self.emitter.code, count()
        loop = code.open(begin, *trips)
        carried = {
            point: tuple(code.append(UOp(Op.ACCUMULATOR, (loop, u), next(numbers))) for u in total)
            for point, total in totals.items()
        }
        following = body(loop, dict(carried))
        code.close(loop, *([*chain(*side.values())] for side in (carried, following)))
        return carried

    def _loops(self, level: int, totals: Totals) -> Totals:
        """The totals after the loops from `level` inwards."""
        threads = self.emitter.threads
        if threads is not None and level:
            threads.enter(self.emitter, self.loops[level - 1])
        if level == len(self.loops):
            return self._accumulate(totals)
        r = self.loops[level]
        if threads is not None and r.arg.place is Place.LOCAL:
            begin, end = threads.iterations(self.emitter, r)
            if end is None:
                return self._inside(r, level, begin, totals)
            return self._carried(totals, partial(self._inside, r, level), end, begin=begin)
        if threads is not None:
            threads.before(self.emitter, r)
        trips, peeled = self.at.peeled(r)
        if trips:
            totals = self._carried(totals, partial(self._inside, r, level), const(trips, INT64))
        for i in peeled:
            with self.at.constant(r, i):
                totals = self._loops(level + 1, totals)
        return totals

    def _inside(self, r: UOp, level: int, loop: UOp, totals: Totals) -> Totals:
        with self.at.looping(r, loop):
            return self._loops(level + 1, totals)

    # One iteration.

    def _accumulate(self, totals: Totals) -> Totals:
        if self.accumulate is not None:
            return self.accumulate(self, totals)
        following = dict(totals)
        step = self._accumulate_value if self.index is None else self._accumulate_extreme
        for point in dict.fromkeys(point for point, _ in totals):
            self.at.set(self.upcasts, point, self.lanes)
            for own in self.at.unrolled(self.own):
                following[point, own] = step(*following[point, own])
        return following

    def _own_mask(self) -> UOp | None:
        """The lanes and threads that have an element of the reduction; None if all have."""
        own_lane = next((r for r in self.own if r.arg.place is Place.LANE), None)
        mask = self.emitter.lane_mask(own_lane) if own_lane is not None else None
        if self.is_shared and self.emitter.threads is not None:
            shared = [r for r in self.loops if r.arg.place is Place.LOCAL]
            working = self.emitter.threads.working(self.emitter, shared)
            if mask is None or working is None:
                return working if mask is None else mask
            return self.place(mask & working)
        return mask

    def _operands(self, total: UOp) -> list[UOp]:
        """The body, the identity where there is no element; and a total of the same width."""
        mask = self._own_mask()
        value, total = self.emitter.broadcast([self.emitter.emit(self.body), total])
        if mask is not None:
            value = self.place(build.where(mask, value, self.identity))
        return [value, total]

    def _accumulate_value(self, total: UOp) -> Total:
        emitter = self.emitter
        if self.unit:
            return ((self.multiply or Reduction._dot)(self, total),)
        is_product = self.body.op is Op.MUL and self.body.dtype in FLOATS
        if self.op is Op.ADD and is_product and self.fma:
            x, y = (emitter.emit(s) for s in self.body.src)
            x, y, total = emitter.broadcast([x, y, total])
            new = self.place(UOp(Op.FMA, (x, y, total)))
            mask = self._own_mask()
            return (new if mask is None else self.place(build.where(mask, new, total)),)
        value, total = self._operands(total)
        return (self.place(UOp(self.op, (total, value))),)

    def _accumulate_extreme(self, best: UOp, index: UOp) -> Total:
        """A value and its index if it is better: a NaN is, unless the best is NaN already."""
        place = self.place
        value, best = self._operands(best)
        low, high = (best, value) if self.op is Op.MAX else (value, best)
        if self.body.dtype in FLOATS:
            best_is_number = place(build.eq(best, best))
            better = place(place(~place(high <= low)) & best_is_number)
        else:
            better = place(low < high)
        present, index = self.emitter.broadcast([self._index_along(self.loops), index])
        return place(build.where(better, value, best)), place(build.where(better, present, index))

    def _index_along(self, ranges: Sequence[UOp]) -> UOp:
        """The sum of what some of the ranges add to the index."""
        assert self.index is not None
        constant, total = 0, const(0, self.index)
        for r, step in self.index_steps.items():
            value = self.at.env[r] if r in ranges else ZERO
            if value.op is Op.CONST:
                constant += step * int(value.arg.value)
                continue
            # Lanes that do not exist have an index too: it is masked with their value.
            lanes = UOp(Op.LANES, (), value.arg) if value.op is Op.LANES else value
            value = self.place(build.cast(lanes, self.index))
            total = self._add(total, value if step == 1 else self.place(value * step))
        return self._add(total, const(constant, self.index))

    def _add(self, a: UOp, b: UOp) -> UOp:
        """A sum; a zero is left out."""
        zero = const(0, a.dtype)
        if zero in (a, b):
            return b if a is zero else a
        return self.place(UOp(Op.ADD, tuple(self.emitter.broadcast([a, b]))))

    def _dot(self, total: UOp) -> UOp:
        """The iterations of a unit at once, by instructions that add products in each lane."""
        if not self.bytes:
            total = self.emitter.splat(total, self.width)
            for term in terms_of(self.body):
                a, b = (self._neighbours(unwidened(s)) for s in term.src)
                total = self.place(UOp(Op.DOT2, (total, a, b)))
            return total
        dtype = INT32 if self.emitter.adds_bytes else int16.dtype
        width = self.width * INT32.itemsize // dtype.itemsize
        zero = const(0, dtype, (width,))
        for one in self.bytes:
            part = total if total.dtype == dtype else zero
            a, b = (self._neighbours(u) for u in (one.moved, one.other))
            a, b = (self.place(build.bitcast(v, d)) for v, d in ((a, uint8.dtype), (b, int8.dtype)))
            if one.low:  # a * b = (a - low) * b + low * b, of which other rows have the latter
                low = const(-one.low, a.dtype, a.shape)
                a = self.place(a + low)
                part = self.place(part - self.place(UOp(Op.DOT2, (zero, low, b))))
            part = self.place(UOp(Op.DOT2, (part, a, b)))
            total = part if total.dtype == dtype else self._add_pairs(total, part)
        return total

    def _add_pairs(self, total: UOp, pairs: UOp) -> UOp:
        """A sum in 32 bits, and pairs of 16 bits."""
        return self.place(UOp(Op.DOT2, (total, pairs, const(1, pairs.dtype, pairs.shape))))

    def _neighbours(self, u: UOp) -> UOp:
        """The values of the iterations of a unit, side by side in each lane; of pairs, widened."""
        values, mask = neighbours(self.emitter, u, self.unit[0], self.width), self._own_mask()
        if values.dtype.itemsize == 1 and not self.bytes:
            values = self.place(UOp(Op.CAST, (values,), int16.dtype))
        if mask is None:
            return values
        mask = repeated(self.emitter, mask, self.width, self.unit[0].arg.size)
        return self.place(build.where(mask, values, const(0, values.dtype, values.shape)))

    # After the loops.

    def _combine(self, parts: Mapping[Any, Total]) -> UOp:
        """The result of one coordinate, from all its accumulators."""
        best = self._tree(self.op, [total[0] for total in parts.values()])
        if self.multiply is not None:
            return self.place(UOp(Op.SPILL, (best,)))
        if self.index is None:
            return best
        best = self.emitter.splat(best, self.width) if self.width else best
        # The least index among lanes that hold the best value; others give the identity of MIN.
        none = const(build.identity(Op.MIN, self.index), self.index, self.shape)
        indices = []
        for own in self.at.unrolled(self.own):
            value, index = parts[own]
            if value is best:  # the only one
                return self.place(build.cast(index, self.node.arg.index))
            equal = self.place(build.eq(value, best))
            if self.body.dtype in FLOATS:  # a NaN equals nothing, and is the best if there is one
                equal = self.place(equal | self.place(build.ne(value, value)))
            index = self._add(index, self._index_along(self.own))
            indices.append(self.place(build.where(equal, index, none)))
        return self.place(build.cast(self._tree(Op.MIN, indices), self.node.arg.index))

    def _tree(self, op: Op, parts: list[UOp]) -> UOp:
        """Accumulators combined as a balanced tree, then their lanes, then those of all threads.

        The upper half is combined with the lower, as the lanes are: four vectors of four lanes, and
        sixteen accumulators, give the same bits.
        """
        while len(parts) > 1:
            half = len(parts) // 2
            pairs = zip(parts[:half], parts[half : 2 * half])
            odd = parts[2 * half :]
            parts = [self.place(UOp(op, pair)) for pair in pairs] + odd
        if self.in_pairs:
            parts = [self._add_pairs(const(0, INT32, self.shape), parts[0])]
        if self.width and not self.lanes:
            return self.place(UOp(Op.ACROSS, (parts[0],), op))
        if self.is_shared and self.emitter.threads is not None:
            return self.emitter.threads.combine(self.emitter, op, parts[0])
        return parts[0]
