"""A nest becomes a list: loops opened and closed, scalars and vectors, in order.

Nothing is unrolled in the graph.  The body is walked once for each coordinate that matters: the
value of a node is remembered under the coordinates of the ranges that it depends on, and of those
only, so what does not depend on an unrolled range is emitted once.  What depends on the vector
axis is a vector; an address of stride 1 along it is a vector load, of stride 0 a scalar, anything
else a gather.

A value is placed in the innermost loop that it depends on, and nowhere deeper: loop-invariant code
moves out by construction, and the statistics of a row sit at the row's level.

A loop whose last block is not full is emitted twice: whole blocks first, then the rest with fewer
coordinates and a constant mask.  Accumulators are values that a loop carries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from operator import itemgetter
from typing import Any, cast

from tfn.dtypes import FLOATS, INT32, INT64
from tfn.lower.codegen.amx import coordinates, fold
from tfn.lower.codegen.deinterleave import interleave
from tfn.lower.codegen.loop_scopes import Scopes
from tfn.lower.codegen.masked_tiles import wanted
from tfn.lower.codegen.reductions import Recurring
from tfn.lower.codegen.register_transpose import transpose
from tfn.lower.index.affine import affine
from tfn.lower.index.dependence import dependences
from tfn.lower.index.intervals import integer
from tfn.lower.loops.loop_nest import Nest
from tfn.trace import build, oracle
from tfn.trace.argument import Access, Param, Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, reshaped, walk

BEGIN = UOp(Op.PARAM, (), Param(-2, (), INT64))
END = UOp(Op.PARAM, (), Param(-1, (), INT64))
"""The tiles that one call of a kernel runs: parameters beside the buffers."""

NEAR = 64
"""Elements that a load under a closed gate may be away from the beginning of its buffer."""


def linearize(n: Nest, fuses: bool = True) -> tuple[UOp, ...]:
    """The instructions of a kernel in order: the stage LINEAR; `fuses` is said of `Emitter`."""
    emitter = Emitter(n, fuses)
    emitter.loops(0)
    return interleave(emitter.code.scope.items)


class Emitter:
    """The state of one kernel's emission.

    Attributes:
        code: the instructions so far, loop by loop.
        env: the value of each range at present: a loop counter, a constant, or lanes.
        fixed: ranges whose value is a known integer at present, for bounds.
        reads: for each range those that bound it.
        bounds: for each range those that it bounds.
        wanted: the masks outside of which nobody looks at a reduction.
        values: what has been emitted, by node and the coordinates it depends on.
        stands: for a node that depends on ranges, where they stand in `env`.
        fuses: whether products are added to sums without rounding them.
    """

    def __init__(self, n: Nest, fuses: bool) -> None:
        self.body, self.fuses = n.body, fuses
        outer = [r for r in n.loops if r.arg.place in (Place.LOOP, Place.PARALLEL)]
        self.outer = outer
        self.inner = [r for r in n.loops if r not in outer]
        self.code = Scopes()
        self.add, self.here = self.code.add, self.code.here
        self.env: dict[UOp, UOp] = {}
        self.fixed: dict[UOp, int] = {}
        self.values: dict[tuple[Any, ...], UOp] = {}
        self.sums: dict[UOp, tuple[list[tuple[UOp, int]], int]] = {}
        self.depends = dependences(n.body)
        self.wanted = wanted(n.body)
        stands = {ranges: itemgetter(*ranges) for ranges in self.depends.values() if ranges}
        self.stands = {u: stands[ranges] for u, ranges in self.depends.items() if ranges}
        self.written = {s.src[0] for s in n.body.src if s.op is Op.STORE and s.arg is not None}
        ranges = {*n.loops, *(u for u in self.depends if u.op is Op.RANGE)}
        self.reads = {b: ranges.intersection(walk(b.src)) for b in ranges}
        self.bounds = {r: [b for b in ranges if r in self.reads[b]] for r in ranges}
        self.trips_at: dict[tuple[Any, ...], int] = {}

    # Loops.

    def full(self, r: UOp) -> int:
        """Of how many iterations it is certain that the ranges bounded by `r` are full."""
        size: int = r.arg.size
        return size - 1 if self.bounds[r] else size

    def trips(self, r: UOp) -> int:
        """How many iterations a range has, where the ranges that bound it are known."""
        size: int = r.arg.size
        if not r.src:
            return size
        place = (r, *[self.fixed.get(other) for other in self.reads[r]])
        if None in place:  # a running loop, whose blocks are full
            return size
        found = self.trips_at.get(place)
        if found is None:
            found = self.trips_at[place] = max(0, min(size, self._integer(r.src[0])))
        return found

    def _integer(self, u: UOp) -> int:
        """The value of a bound."""
        values: dict[UOp, int] = {}
        for node in walk([u]):
            if node.op is Op.CONST:
                values[node] = integer(node)
            elif node.op is Op.RANGE:
                values[node] = self.fixed[node]
            else:
                values[node] = ARITHMETIC[node.op](*(values[s] for s in node.src))
        return values[u]

    def loops(self, level: int) -> None:
        """Open the loops around the stores from `level` inwards, and store in the innermost."""
        if level == len(self.outer):
            self._stores()
            return
        r = self.outer[level]
        inside: Callable[[], None] = lambda: self.loops(level + 1)
        if r.arg.place is Place.PARALLEL:
            self._parallel(r, inside)
            return
        full = self.full(r)
        if full > 1 or (full == 1 and not self.bounds[r] and r.arg.size > 1):
            self._loop(r, const(0, INT64), const(full, INT64), inside)
        elif full == 1:
            self._at(r, 0, inside)
        if full < r.arg.size:
            self._at(r, full, inside)

    def _parallel(self, r: UOp, inside: Callable[[], None]) -> None:
        full = self.full(r)
        if full == r.arg.size:
            self._loop(r, BEGIN, END, inside)
            return
        limit = const(full, INT64)
        if full:
            self._loop(r, BEGIN, self.add(build.minimum(END, limit)), inside)
        self.fixed[r] = full
        self._loop(r, self.add(build.maximum(BEGIN, limit)), END, inside)
        del self.fixed[r]

    def _at(self, r: UOp, value: int, inside: Callable[[], None]) -> None:
        self.env[r], self.fixed[r] = const(value, INT64), value
        inside()
        del self.env[r], self.fixed[r]

    def _loop(self, r: UOp, begin: UOp, end: UOp, inside: Callable[[], None]) -> None:
        opened = self.code.open(begin, end)
        self.env[r] = opened
        inside()
        del self.env[r]
        self.code.close(opened, [], [])

    # Instructions.

    def widen(self, u: UOp, lanes: int) -> UOp:
        """A scalar in every lane; a vector as it is."""
        if u.shape:
            return u
        if u.op is Op.CONST:
            return reshaped(u, (lanes,))
        return self.add(UOp(Op.SPLAT, (u,), lanes))

    def alike(self, values: Sequence[UOp]) -> list[UOp]:
        """Scalars widened if any value is a vector."""
        shape = max([v.shape for v in values], default=())
        return [v if v.shape == shape else self.widen(v, shape[0]) for v in values]

    # Values.

    def key(self, u: UOp) -> tuple[Any, ...]:
        """The node and where the ranges that it depends on stand."""
        stands = self.stands.get(u)
        return (u, stands(self.env)) if stands else (u,)

    def emit(self, u: UOp) -> UOp:
        """The value of a node of the body, at the present coordinates."""
        held = self.held(u)
        if held is not None:
            return held
        stack = [u]
        while stack:
            node = stack[-1]
            key = self.key(node)
            if key in self.values:  # another way has led to it meanwhile
                stack.pop()
                continue
            if node.op is Op.FOLD:
                fold(self, node)
                stack.pop()
                continue
            sources = self._sources(node)
            found = [self.held(s) for s in sources]
            if None in found:
                stack += [s for s, value in zip(sources, found) if value is None][::-1]
                continue
            stack.pop()
            self.values[key] = self._emit(node, cast("list[UOp]", found))
        return self.value(u)

    def held(self, u: UOp) -> UOp | None:
        """What has been emitted for a node, None if nothing has."""
        if u.op is Op.CONST or u.op is Op.PARAM:
            return u
        return self.env[u] if u.op is Op.RANGE else self.values.get(self.key(u))

    def value(self, u: UOp) -> UOp:
        """What has been emitted for a node."""
        found = self.held(u)
        assert found is not None, f"{u} is used before it is emitted"
        return found

    def _sources(self, node: UOp) -> Sequence[UOp]:
        if node.op is Op.LOAD:
            return [*self._terms(node.src[1]), *node.src[2:]]
        if node.op is Op.WHERE:
            condition = self.held(node.src[0])
            if condition is None:
                return node.src[:1]
            chosen = known(condition)
            return node.src if chosen is None else (node.src[1] if chosen else node.src[2],)
        return node.src

    def _terms(self, index: UOp) -> list[UOp]:
        """What an address is the sum of, beside ranges."""
        return [term for term, _ in self.sum(index)[0] if term.op is not Op.RANGE]

    def _emit(self, node: UOp, src: list[UOp]) -> UOp:
        """The value of a node, given those of its `_sources`."""
        if node.op is Op.LOAD:
            return self._load(node)
        if node.op is Op.WHERE and len(src) == 1:
            return src[0]
        if node.op is Op.LT and node.src[0].dtype == INT64:
            found = self._bounded(node)
            if found is not None:
                return found
        if node.dtype not in FLOATS and all(s.op is Op.CONST and not s.shape for s in src):
            return const(oracle.apply(node.op, node.arg, *(s.arg.value for s in src)), node.dtype)
        return self.add(UOp(node.op, tuple(self.alike(src)), node.arg))

    def _bounded(self, node: UOp) -> UOp | None:
        """A bound of an address as one of the lanes: a comparison of narrow integers::

        base + lane < bound   ->   lane < bound - base
        """
        terms, constant = affine(node.src[0] - node.src[1])
        scalars: list[tuple[UOp, int]] = []
        lane, sign = node, 0
        for term, k in terms.items():
            at = self.held(term)
            if at is None or (at.shape and at.op is not Op.LANES):
                return None
            if at.op is Op.CONST:
                constant += k * integer(at)
            elif at.op is Op.LANES:
                if sign or abs(k) != 1:
                    return None
                lane, sign = at, k
            else:
                scalars.append((at, k))
        if not sign or not scalars:
            return None
        width = lane.arg
        scalars.sort(key=lambda pair: self.code.of(pair[0]).depth)
        rest = self._total([(at, -sign * k) for at, k in scalars])
        bound = self.add(rest + const(-sign * constant, INT64))
        bound = self.add(build.minimum(bound, const(width, INT64)))
        bound = self.add(build.maximum(bound, const(-1, INT64)))
        narrow = self.widen(self.add(UOp(Op.CAST, (bound,), INT32)), width)
        numbers = self.add(UOp(Op.CAST, (UOp(Op.LANES, (), width),), INT32))
        return self.add(numbers < narrow if sign > 0 else narrow < numbers)

    def sum(self, index: UOp) -> tuple[list[tuple[UOp, int]], int]:
        """An address as terms and coefficients, once per node."""
        found = self.sums.get(index)
        if found is None:
            terms, constant = affine(index)
            found = self.sums[index] = list(terms.items()), constant
        return found

    def address(self, index: UOp) -> tuple[UOp, int, int, int]:
        """Base (a scalar, or a vector to gather at), constant offset, lanes, stride."""
        terms, offset = self.sum(index)
        stride, lanes = 0, 1
        scalars: list[tuple[UOp, int]] = []
        vectors: list[tuple[UOp, int]] = []
        for term, k in terms:
            at = self.env[term] if term.op is Op.RANGE else self.value(term)
            if at.op is Op.CONST:
                offset += k * integer(at)
            elif at.op is Op.LANES:
                stride, lanes = k, at.arg
            elif at.shape:
                vectors.append((at, k))
                lanes = at.shape[0]
            else:
                scalars.append((at, k))
        scalars.sort(key=lambda pair: self.code.of(pair[0]).depth)
        base = self._total(scalars)
        if not vectors:
            return base, offset, lanes, stride
        if stride:
            vectors.append((UOp(Op.LANES, (), lanes), stride))
        wide = self.add(self.widen(base, lanes) + self._total(vectors))
        return wide, offset, lanes, 0

    def _total(self, terms: Sequence[tuple[UOp, int]]) -> UOp:
        total: UOp | None = None
        for at, k in terms:
            part = at if k == 1 else self.add(at * k)
            total = part if total is None else self.add(total + part)
        return const(0, INT64) if total is None else total

    def mask(self, node: UOp) -> UOp | None:
        """Which lanes exist, if the node depends on lanes that do not all exist."""
        for r in self.depends[node]:
            lanes = self.env[r]
            if lanes.op is Op.LANES and lanes.src:
                return self.add(UOp(Op.LANES, (), lanes.arg) < self.widen(lanes.src[0], lanes.arg))
        return None

    def gate(self, node: UOp, given: UOp | None, lanes: int) -> UOp | None:
        """The user's gate and the lanes that exist, as one."""
        mask = self.mask(node) if lanes > 1 else None
        if given is None:
            return mask
        gate = self.value(given)
        if lanes > 1:
            gate = self.widen(gate, lanes)
            return gate if mask is None else self.add(gate & mask)
        return gate

    def _load(self, node: UOp) -> UOp:
        given = node.src[2] if len(node.src) == 3 else None
        allowed = None if given is None else known(self.value(given))
        if allowed is False:
            return const(0, node.dtype)
        given = None if allowed else given
        base, offset, lanes, stride = self.address(node.src[1])
        if given is not None and self.value(given).shape and lanes == 1 and not base.shape:
            return self._one_for_all(node.src[0], base, offset, self.value(given))
        gate = self.gate(node, given, lanes)
        if gate is None and not base.shape and abs(stride) > 1:
            across = self._crossing(node, lanes)
            if across is not None:
                return self._transposed(node, across, base, offset, stride)
        access = Access(offset, 1 if base.shape else lanes, stride)
        if given is not None and lanes > 1 and not base.shape and abs(stride) == 1:
            base = self._inside(given, base, access)
        src = (node.src[0], base) if gate is None else (node.src[0], base, gate)
        load = UOp(Op.LOAD, src, access)
        return self.here(load) if node.src[0] in self.written else self.add(load)

    def _one_for_all(self, buffer: UOp, base: UOp, offset: int, gate: UOp) -> UOp:
        """The same element under a vector of gates: it is loaded, or its neighbour, in any case."""
        count = build.count(buffer.shape)
        if count == 0:
            return const(0, buffer.dtype)
        at = self.add(base + offset) if offset else base
        at = self.add(build.minimum(at, const(count - 1, INT64)))
        at = self.add(build.maximum(at, const(0, INT64)))
        load = UOp(Op.LOAD, (buffer, at), Access(0, 1, 0))
        one = self.here(load) if buffer in self.written else self.add(load)
        return self.add(build.where(gate, *self.alike([one, const(0, one.dtype, gate.shape)])))

    def _inside(self, given: UOp, base: UOp, access: Access) -> UOp:
        """An address near the beginning of the buffer, wherever no lane is loaded.

        Where there is no memory at all, a processor needs a thousand cycles to load nothing.
        """
        parts = [u for u in map(self.value, _conjuncts(given)) if not u.shape and known(u) is None]
        if not parts:
            return base
        opened = reduce(lambda x, y: self.add(x & y), parts)
        near = NEAR if access.stride < 0 else 0
        return self.add(
            build.where(opened, base, const(near - access.offset // NEAR * NEAR, INT64))
        )

    def neighbours(self, load: UOp, lanes: int) -> UOp:
        """A loaded element and the next, in every lane: pair after pair."""
        for u in self._sources(load):
            self.emit(u)
        base, offset, width, stride = self.address(load.src[1])
        buffer = load.src[0]
        if width == 1:
            pair = self.add(UOp(Op.LOAD, (buffer, base), Access(offset, 2, 1)))
            return self.add(UOp(Op.SHUFFLE, (pair, pair), (0, 1) * lanes))
        assert stride == 2, "pairs follow each other"
        mask = self.gate(load, None, width)
        if mask is None:
            return self.add(UOp(Op.LOAD, (buffer, base), Access(offset, 2 * width, 1)))
        each = tuple(i // 2 for i in range(2 * width))
        gate = self.add(UOp(Op.SHUFFLE, (mask, mask), each))
        return self.add(UOp(Op.LOAD, (buffer, base, gate), Access(offset, 2 * width, 1)))

    def _crossing(self, node: UOp, lanes: int) -> UOp | None:
        """An unrolled range that steps by one where the lanes do not: then blocks are square."""
        terms, _ = self.sum(node.src[1])
        for r, k in terms:
            square = r.op is Op.RANGE and r.arg.place is Place.UPCAST and r.arg.size == lanes
            if square and k == 1 and self.trips(r) == lanes:
                return r
        return None

    def _transposed(self, node: UOp, across: UOp, base: UOp, offset: int, stride: int) -> UOp:
        """All coordinates of `across` at once: vectors along it, turned in registers."""
        here, lanes = self.env[across], across.arg.size
        start = offset - int(here.arg.value)
        rows = [
            self.add(UOp(Op.LOAD, (node.src[0], base), Access(start + i * stride, lanes, 1)))
            for i in range(lanes)
        ]
        for i, column in enumerate(transpose(rows, self.add)):
            self.env[across] = const(i, INT64)
            self.values[self.key(node)] = column
        self.env[across] = here
        return self.values[self.key(node)]

    # Stores.

    def _stores(self) -> None:
        plain = [u for u in self.body.src if u.op is Op.STORE]
        for _ in coordinates(self, self.inner):
            for store in plain:
                self.store(store)
        for u in self.body.src:
            if u.op is Op.RECUR:
                Recurring(self, u).run(self.inner)

    def coordinates(self, ranges: Sequence[UOp]) -> Any:
        """Set each combination of unrolled coordinates in turn, and the lanes that go with it."""
        upcasts = [r for r in ranges if r.arg.place is Place.UPCAST]
        lanes = [r for r in ranges if r.arg.place is Place.LANE]
        for place in product(*(range(self.trips(r)) for r in upcasts)):
            self.set(upcasts, place, lanes)
            yield place
        for r in (*upcasts, *lanes):
            self.env.pop(r, None)
            self.fixed.pop(r, None)

    def set(self, upcasts: Sequence[UOp], place: Sequence[int], lanes: Sequence[UOp]) -> None:
        """Fix unrolled ranges; the lanes that exist may depend on them."""
        for r, i in zip(upcasts, place, strict=True):
            self.env[r], self.fixed[r] = const(i, INT64), i
        for r in lanes:
            trips = self.trips(r)
            src = () if trips == r.arg.size else (const(trips, INT64),)
            self.env[r] = UOp(Op.LANES, src, r.arg.size)

    def store(self, store: UOp) -> None:
        """Emit a store at the end of the open loop."""
        buffer, index, value = store.src[:3]
        given = store.src[3] if len(store.src) == 4 else None
        for u in (value, *self._terms(index), *store.src[3:]):
            self.emit(u)
        base, offset, lanes, stride = self.address(index)
        found = self.value(value)
        allowed = None if given is None else known(self.value(given))
        if allowed is False:
            return
        gate = self.gate(store, None if allowed else given, lanes)
        if lanes > 1:
            found = self.widen(found, lanes)
        src = (buffer, base, found) if gate is None else (buffer, base, found, gate)
        self.here(UOp(Op.STORE, src, Access(offset, 1 if base.shape else lanes, stride)))


def _conjuncts(gate: UOp) -> list[UOp]:
    """Of what a gate consists."""
    return [v for u in gate.src for v in _conjuncts(u)] if gate.op is Op.AND else [gate]


def known(u: UOp) -> bool | None:
    """The truth of a condition that unrolled ranges decide, None if it is not known."""
    return bool(u.arg.value) if u.op is Op.CONST else None


ARITHMETIC: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: lambda x, y: x + y,
    Op.SUB: lambda x, y: x - y,
    Op.MUL: lambda x, y: x * y,
    Op.FLOORDIV: lambda x, y: x // y,
}
