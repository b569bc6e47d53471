"""Loops that carry values: reductions, and recurrences.

Both emit their loop once for all unrolled coordinates around it, with an accumulator for each, so
that independent sums run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from itertools import chain, count, product
from typing import Any, Protocol

from tfn.dtypes import FLOATS, INT64, DType
from tfn.lower.codegen.loop_scopes import Scopes
from tfn.lower.codegen.masked_tiles import FAR, Mask
from tfn.lower.index.affine import affine
from tfn.trace import build
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const


class Emitter(Protocol):
    """What is used of `linearize.Emitter`; see there."""

    code: Scopes
    env: dict[UOp, UOp]
    fixed: dict[UOp, int]
    values: dict[tuple[Any, ...], UOp]
    depends: Mapping[UOp, tuple[UOp, ...]]
    reads: dict[UOp, set[UOp]]
    bounds: dict[UOp, list[UOp]]
    wanted: Mapping[UOp, tuple[Mask, ...]]
    fuses: bool

    def emit(self, u: UOp) -> UOp:
        """The value of a node, emitted if it has not been."""

    def held(self, u: UOp) -> UOp | None:
        """What has been emitted for a node, None if nothing has."""

    def value(self, u: UOp) -> UOp:
        """What has been emitted for a node."""

    def sum(self, index: UOp) -> tuple[list[tuple[UOp, int]], int]:
        """An address as terms and coefficients."""

    def address(self, index: UOp) -> tuple[UOp, int, int, int]:
        """Base, constant offset, lanes, stride."""

    def key(self, u: UOp) -> tuple[Any, ...]:
        """The node and where the ranges that it depends on stand."""

    def mask(self, node: UOp) -> UOp | None:
        """Which lanes exist."""

    def full(self, r: UOp) -> int:
        """Iterations in which all that `r` bounds is full."""

    def trips(self, r: UOp) -> int:
        """Iterations of a range at present."""

    def widen(self, u: UOp, lanes: int) -> UOp:
        """A scalar in every lane."""

    def alike(self, values: Sequence[UOp]) -> list[UOp]:
        """Scalars widened if any value is a vector."""

    def neighbours(self, load: UOp, lanes: int) -> UOp:
        """A loaded element and the next, in every lane."""

    def store(self, store: UOp) -> None:
        """Emit a store."""

    def coordinates(self, ranges: Sequence[UOp]) -> Iterable[Any]:
        """Set each combination of unrolled coordinates in turn."""

    def set(self, upcasts: Sequence[UOp], place: Sequence[int], lanes: Sequence[UOp]) -> None:
        """Fix unrolled ranges."""


Total = tuple[UOp, ...]
"""What a reduction carries: a value; or the best one, and where it was met first."""


Inside = Callable[[UOp, dict[Any, Total]], dict[Any, Total]]
"""What is done in a loop, of which there is the counter: the next totals, by the present ones."""


class Folding:
    """One reduction, for all unrolled coordinates of the ranges around it at once.

    Each coordinate has an accumulator, and each unrolled coordinate of the reduction's own ranges
    another; these are combined as a tree when the loops have ended, and then the lanes.

    Where the index of an extreme is wanted there is a second one, for what the loops alone add to
    the index: that is the same for all coordinates, so it is one instruction beside them.  What
    coordinates and lanes add follows when the loops have ended; the least index with the best
    value is then the first.

    On a unit that multiplies whole matrices, of `rows`, an accumulator is one, and `multiply` adds
    a product to it.
    """

    def __init__(
        self,
        emitter: Emitter,
        node: UOp,
        rows: UOp | None = None,
        multiply: Callable[[Folding, UOp], UOp] | None = None,
    ) -> None:
        self.e, self.node, self.multiply = emitter, node, multiply
        self.op: Op = node.arg.op
        self.index: DType | None = node.arg.index
        self.body, ranges = node.src[0], node.src[1:]
        if self.index is not None:
            self.body, place = node.src[0].src
            self.steps, _ = affine(place)
        self.loops = [r for r in ranges if r.arg.place is Place.LOOP]
        self.unit = [r for r in ranges if r.arg.place is Place.UNIT]
        self.own = [r for r in ranges if r.arg.place in (Place.UPCAST, Place.LANE)]
        around = emitter.depends[node]
        self.upcasts = [r for r in around if r.arg.place is Place.UPCAST]
        self.lanes = [r for r in around if r.arg.place is Place.LANE]
        lanes = self.lanes + [r for r in self.own if r.arg.place is Place.LANE]
        self.width = lanes[0].arg.size if lanes else 0
        self.shape: tuple[int, ...] = (self.width,) if self.width else ()
        if rows is not None:
            self.shape = (rows.arg.size, self.width)

    def run(self) -> None:
        """Emit the reduction in the loop it belongs to, and remember its value everywhere."""
        e = self.e
        scope = e.code.scope
        counters = [e.code.of(e.env[r]) for r in e.depends[self.node] if r in e.env]
        e.code.scope = max(counters, key=lambda s: s.depth, default=e.code.root)
        here = {r: (e.env.get(r), e.fixed.get(r)) for r in (*self.upcasts, *self.lanes)}
        places = list(product(*(range(e.trips(r)) for r in self.upcasts)))
        dtype = self.body.dtype
        self.start = const(build.identity(self.op, dtype), dtype, self.shape)
        start: Total = (self.start,)
        if self.index is not None:
            start = (self.start, const(0, self.index, self.shape))
        sums: dict[tuple[Any, ...], Total] = {}
        for place in places:
            e.set(self.upcasts, place, self.lanes)
            most = [range(r.arg.size) for r in self.own if r.arg.place is Place.UPCAST]
            sums.update({(place, i): start for i in product(*most)})
        sums = self._wanted(sums)
        for place in places:
            e.set(self.upcasts, place, self.lanes)
            parts = {i: total for (at, i), total in sums.items() if at == place}
            e.values[e.key(self.node)] = self._across(parts)
        for r, (env, fixed) in here.items():
            _restore(e.env, r, env)
            _restore(e.fixed, r, fixed)
        e.code.scope = scope

    def _wanted(self, sums: dict[Any, Total]) -> dict[Any, Total]:
        """The sums after all loops, which do not run for a tile that a mask hides."""
        masks = self.e.wanted.get(self.node, ()) if self.loops else ()
        if not masks:
            return self._level(0, sums)
        seen = reduce(lambda x, y: self.e.code.add(x & y), map(self._seen, masks))
        once = self.e.code.add(build.cast(seen, INT64))

        def inside(loop: UOp, sums: dict[Any, Total]) -> dict[Any, Total]:
            self.e.code.here(UOp(Op.LEAVE, (loop, self.e.code.add(loop < once))))
            return self._level(0, sums)

        return self._carried(sums, inside)

    def _seen(self, mask: Mask) -> UOp:
        """Whether a mask shows anything of the tile."""
        e, add = self.e, self.e.code.add
        total = const(-mask.most, INT64)
        for u, k in mask.terms:
            at = add(build.cast(e.emit(u), INT64))
            total = self._sum(total, at if k == 1 else add(at * k))
        seen = add(total <= const(0, INT64))
        for u in mask.read:
            at = add(build.cast(e.emit(u), INT64))
            for far in (at < const(-FAR, INT64), const(FAR, INT64) < at):
                seen = add(seen | add(far))
        return seen

    def _carried(self, sums: dict[Any, Total], inside: Inside, *times: UOp) -> dict[Any, Total]:
        """The sums after a loop that carries them; without a number of times, until it is left."""
        e, number = self.e, count()
        loop = e.code.open(const(0, INT64), *times)
        carried = {
            key: tuple(e.code.here(UOp(Op.ACCUMULATOR, (loop, u), next(number))) for u in total)
            for key, total in sums.items()
        }
        following = inside(loop, dict(carried))
        e.code.close(loop, *([*chain(*totals.values())] for totals in (carried, following)))
        return carried

    def _level(self, level: int, sums: dict[Any, Total]) -> dict[Any, Total]:
        """The sums after the loops from `level` inwards."""
        e = self.e
        if level == len(self.loops):
            return self._accumulate(sums)
        r = self.loops[level]
        full = e.full(r)
        if full > 1 or (full == 1 and not e.bounds[r] and r.arg.size > 1):
            sums = self._carried(sums, partial(self._running, r, level), const(full, INT64))
        elif full == 1:
            sums = self._fixed(r, 0, level, sums)
        if full < r.arg.size:
            sums = self._fixed(r, full, level, sums)
        return sums

    def _running(self, r: UOp, level: int, loop: UOp, sums: dict[Any, Total]) -> dict[Any, Total]:
        self.e.env[r] = loop
        sums = self._level(level + 1, sums)
        del self.e.env[r]
        return sums

    def _fixed(self, r: UOp, value: int, level: int, sums: dict[Any, Total]) -> dict[Any, Total]:
        e = self.e
        e.env[r], e.fixed[r] = const(value, INT64), value
        sums = self._level(level + 1, sums)
        del e.env[r], e.fixed[r]
        return sums

    def _accumulate(self, sums: dict[Any, Total]) -> dict[Any, Total]:
        e = self.e
        out = dict(sums)
        for place in dict.fromkeys(at for at, _ in sums):
            e.set(self.upcasts, place, self.lanes)
            for i in e.coordinates(self.own):
                step = self._add if self.index is None else self._better
                out[place, i] = step(*out[place, i])
        return out

    def _mask(self) -> UOp | None:
        own_lane = next((r for r in self.own if r.arg.place is Place.LANE), None)
        return self.e.mask(own_lane) if own_lane is not None else None

    def _value(self, total: UOp) -> list[UOp]:
        """The body as wide as a total, where there is no lane what changes nothing; the total."""
        e, mask = self.e, self._mask()
        value, total = e.alike([e.emit(self.body), total])
        if mask is not None:
            value = e.code.add(build.where(mask, value, self.start))
        return [value, total]

    def _add(self, total: UOp) -> Total:
        e = self.e
        if self.unit:
            return ((self.multiply or Folding._on_unit)(self, total),)
        product_ = self.body.op is Op.MUL and self.body.dtype in FLOATS
        if self.op is Op.ADD and product_ and self._mask() is None and e.fuses:
            x, y = (e.emit(s) for s in self.body.src)
            x, y, total = e.alike([x, y, total])
            return (e.code.add(UOp(Op.FMA, (x, y, total))),)
        value, total = self._value(total)
        return (e.code.add(UOp(self.op, (total, value))),)

    def _better(self, best: UOp, place: UOp) -> Total:
        """The value and where it is, if it is better: a NaN is, unless there was one."""
        add = self.e.code.add
        value, best = self._value(best)
        low, high = (best, value) if self.op is Op.MAX else (value, best)
        if self.body.dtype in FLOATS:
            number = add(build.eq(best, best))
            better = add(add(~add(high <= low)) & number)
        else:
            better = add(low < high)
        now, place = self.e.alike([self._number(self.loops), place])
        return add(build.where(better, value, best)), add(build.where(better, now, place))

    def _number(self, ranges: Sequence[UOp]) -> UOp:
        """What some of the ranges add to the index."""
        assert self.index is not None
        add = self.e.code.add
        known, total = 0, const(0, self.index)
        for r, step in self.steps.items():
            at = self.e.env[r] if r in ranges else const(0, INT64)
            if at.op is Op.CONST:
                known += step * int(at.arg.value)
                continue
            at = add(build.cast(UOp(Op.LANES, (), at.arg) if at.op is Op.LANES else at, self.index))
            total = self._sum(total, at if step == 1 else add(at * step))
        return self._sum(total, const(known, self.index))

    def _sum(self, a: UOp, b: UOp) -> UOp:
        nothing = const(0, a.dtype)
        if nothing in (a, b):
            return b if a is nothing else a
        return self.e.code.add(UOp(Op.ADD, tuple(self.e.alike([a, b]))))

    def _on_unit(self, total: UOp) -> UOp:
        """Two iterations at once, by the matrix unit."""
        e, r = self.e, self.unit[0]
        e.env[r], e.fixed[r] = const(0, INT64), 0
        a, b = (e.neighbours(s.src[0] if s.op is Op.CAST else s, self.width) for s in self.body.src)
        del e.env[r], e.fixed[r]
        return e.code.add(UOp(Op.DOT2, (e.widen(total, self.width), a, b)))

    def _across(self, parts: Mapping[Any, Total]) -> UOp:
        """What all accumulators of one coordinate have come to."""
        e, add = self.e, self.e.code.add
        best = self._together(self.op, [total[0] for total in parts.values()])
        if self.multiply is not None:
            return add(UOp(Op.SPILL, (best,)))
        if self.index is None:
            return best
        best = e.widen(best, self.width) if self.width else best
        none = const(build.identity(Op.MIN, self.index), self.index, self.shape)
        places = []
        for i in e.coordinates(self.own):
            value, place = parts[i]
            hit = add(build.eq(value, best))
            if self.body.dtype in FLOATS:
                hit = add(hit | add(build.ne(value, value)))
            places.append(add(build.where(hit, self._sum(place, self._number(self.own)), none)))
        return self._together(Op.MIN, places)

    def _together(self, op: Op, parts: list[UOp]) -> UOp:
        """Accumulators as a tree, then the lanes."""
        e = self.e
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2])
            odd = parts[len(parts) // 2 * 2 :]
            parts = [e.code.add(UOp(op, pair)) for pair in pairs] + odd
        if self.width and not self.lanes:
            return e.code.add(UOp(Op.ACROSS, (parts[0],), op))
        return parts[0]


class Recurring:
    """A recurrence: one loop, whose accumulators are the carries at every unrolled coordinate."""

    def __init__(self, emitter: Emitter, node: UOp) -> None:
        self.e = emitter
        arg = node.arg
        n, self.range = arg.carries, node.src[0]
        self.first, self.next = node.src[1 : 1 + n], node.src[1 + n : 1 + 2 * n]
        rest = node.src[1 + 2 * n :]
        self.condition = rest[0] if arg.conditional else None
        rest = rest[1:] if arg.conditional else rest
        self.stores, self.last = rest[: arg.stores], rest[arg.stores :]
        self.carries: dict[int, UOp] = {
            u.arg.number: u for u in emitter.depends if u.op is Op.CARRY
        }

    def run(self, around: Sequence[UOp]) -> None:
        """Emit it, for all coordinates of the unrolled ranges around."""
        e, r = self.e, self.range
        starts: dict[int, list[UOp]] = {}
        for _ in e.coordinates(around):
            for i, carry in self.carries.items():
                starts.setdefault(i, []).append(self._wide(carry, e.emit(self.first[i])))
        ends = () if self.condition is not None else (const(r.arg.size, INT64),)
        loop = e.code.open(const(0, INT64), *ends)
        e.env[r] = loop
        carried: dict[tuple[Any, ...], UOp] = {}
        for at, _ in enumerate(e.coordinates(around)):
            for i, carry in self.carries.items():
                key = e.key(carry)
                if key not in carried:
                    u = UOp(Op.ACCUMULATOR, (loop, starts[i][at]), len(carried))
                    carried[key] = e.values[key] = e.code.here(u)
        if self.condition is not None:
            for _ in e.coordinates(around):
                going = e.emit(self.condition)
            e.code.here(UOp(Op.LEAVE, (loop, going)))
        following: dict[tuple[Any, ...], UOp] = {}
        for _ in e.coordinates(around):
            for i, carry in self.carries.items():
                following[e.key(carry)] = self._wide(carry, e.emit(self.next[i]))
            for store in self.stores:
                e.store(store)
        e.code.close(loop, list(carried.values()), [following[key] for key in carried])
        for _ in e.coordinates(around):
            for store in self.last:
                e.store(store)
        del e.env[r]

    def _wide(self, carry: UOp, value: UOp) -> UOp:
        """A value of a carry, as a vector where that varies along the lanes."""
        lanes = [r for r in self.e.depends[carry] if r.arg.place is Place.LANE]
        return self.e.widen(value, lanes[0].arg.size) if lanes else value


def _restore(table: dict[UOp, Any], r: UOp, old: Any) -> None:
    if old is None:
        table.pop(r, None)
    else:
        table[r] = old
