"""Analytical cost model of a loop nest: strides, trip counts, and estimated nanoseconds.

For each load and store the model knows its stride along each loop and how often it runs; for each
candidate vector axis it adds up what memory accesses, arithmetic and reductions across lanes take::

    for i in range(N): for j in range(M): y[i * M + j] = x[j * N + i]

    stride along i:  y M, x 1        vector axis i:  x a vector at a time, y scattered
    stride along j:  y 1, x N        vector axis j:  y a vector at a time, x gathered

`heuristics` asks it which axis is cheapest, and how many registers a tile may use; schedulers ask
for the estimate of the whole kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from tfn.dtypes import DType
from tfn.lower.index.affine import Terms, affine
from tfn.lower.index.dependence import dependences
from tfn.lower.loops import loop_nest, sum_order
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.target.register_tile import accumulators
from tfn.lower.target.target import Target
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp, walk

_HOLDS = frozenset({Op.LOAD, Op.FOLD, Op.STORE, Op.CAST, Op.BITCAST})
"""Operations by which values of a dtype come into a kernel, or leave it."""

GATHER_NS = 1.0
"""Nanoseconds to load one element that is not beside that of the next lane.

Less than a scattered store: squares of such loads are transposed in registers.
"""

SCATTER_NS = 1.5
"""Nanoseconds to store one element that is not beside that of the next lane: one by one."""

VECTOR_ACCESS_NS = 0.4
"""Nanoseconds to load or store a contiguous vector, or a lone scalar."""

ARITHMETIC_NS = 0.15
"""Nanoseconds of one operation on a vector: half a cycle, since processors issue two at once."""

HORIZONTAL_REDUCE_NS = 4.0
"""Nanoseconds to combine the lanes of a vector: log2(lanes) dependent shuffles and operations."""

ASSUMED_TILE_ROWS = 8
"""Rows of a register tile that share one load, as long as the tile has not been chosen."""

MAX_PERIOD = 4
"""Iterations after which conditions repeat, for a loop to be unrolled by them.

The gradient of 2 x 2 max pooling took 640 us with conditions, 227 without; code grows with it.
"""

WORD_BYTES = 4
"""Bytes of elements from which on lanes are theirs, though arithmetic between may be wider."""

COMPARISONS = frozenset({Op.EQ, Op.NE, Op.LT})

MAX_STRIDE = 4
"""The most parts that are taken apart by shuffles: each part takes one less than there are.

Points of three coordinates took 533 us to turn by quaternions of four numbers; by shuffles 52.
"""

STRIDES = frozenset(range(2, MAX_STRIDE + 1))
"""Strides of accesses that become whole vectors and shuffles, if there are all parts."""

UNKNOWN_STRIDE = 1 << 30
"""The stride of an access through a division or a loaded index: larger than any real one, so that
it counts as a gather."""

MAX_OPS_TO_INTERLEAVE = 24
"""Operations of a body up to which several vectors are computed side by side.

A longer body has enough independent instructions of its own, and would spill.
"""


@lru_cache(maxsize=8)
def model_of(n: Nest, target: Target) -> Model:
    """The model of a nest, cached for the last few: several decisions ask for the same one."""
    return Model(n, target)


def _has_scalars(nodes: Sequence[UOp], scalars: frozenset[DType]) -> bool:
    """Whether a value is of a dtype that has no vectors; arithmetic of indices does not count."""
    held = [u.src[2] if u.op is Op.STORE else u for u in nodes if u.op in _HOLDS]
    return any(u.dtype in scalars for u in held)


def _widest_bytes(body: UOp) -> int:
    """Bytes of the widest value that is computed; addresses and conditions do not count."""
    seen: set[UOp] = set()
    stack = [u.src[2] for u in walk([body]) if u.op is Op.STORE]
    while stack:
        u = stack.pop()
        if u not in seen:
            seen.add(u)
            stack.extend(() if u.op is Op.LOAD else u.src[:1] if u.op is Op.FOLD else u.src)
    values = [u.dtype.itemsize for u in seen if u.op not in (Op.CONST, Op.RANGE)]
    return max(values, default=1)


class Model:
    """The accesses, the arithmetic and the reductions of a nest, for a target.

    Attributes:
        nest: the nest, and `loops`, its loops as a set.
        target: the machine.
        depends: the ranges that each node depends on.
        lanes: elements of the widest dtype in a vector register.
        accumulators: vector registers that a register tile may use for sums.
        registers: vector registers.
        cache_bytes: size of the L2 cache, which panels of a contraction are kept in.
        interleaved: the strides at which all other parts are accessed, too, by access.
        accesses: each load and store, the coefficients of its address, and how often it runs.
        reductions: each FOLD, and how often it runs.
        arithmetic: operations, one for all of the same ranges, and how often these run.
    """

    def __init__(self, n: Nest, target: Target) -> None:
        self.nest, self.target, self.loops = n, target, frozenset(n.loops)
        self.depends = dependences(n.body)
        self.nodes = list(self.depends)
        widths = [u.dtype.itemsize for u in self.nodes if u.op in (Op.LOAD, Op.FOLD)]
        widths += [u.src[2].dtype.itemsize for u in self.nodes if u.op is Op.STORE]
        is_scalar = bool(target.scalars) and _has_scalars(self.nodes, target.scalars)
        if target.lane_bytes < min(widths, default=1) < WORD_BYTES:
            widths.append(_widest_bytes(n.body))
        widest = max(target.lane_bytes, *widths, 1)
        self.lanes = 1 if is_scalar else max(1, target.vector_bytes // widest)
        self.accumulators = accumulators(target)
        self.registers = target.vector_registers
        self.cache_bytes = target.l2_bytes
        self.moving = _moving(self.nodes)
        compared = {r for u in self.nodes if u.op in COMPARISONS for r in u.src}
        self.unrolled = {r for r in self.loops & compared if r.arg.size <= MAX_PERIOD}
        addresses = {u: affine(u.src[1]) for u in self.nodes if u.op in (Op.LOAD, Op.STORE)}
        self.interleaved = _interleaved(addresses)
        self.accesses = [(u, terms, self._trip_count(u)) for u, (terms, _) in addresses.items()]
        self.addresses = {
            u: (u.src[0], offset, frozenset(terms.items()))
            for u, (terms, offset) in addresses.items()
        }
        self.reductions = [(u, self._trip_count(u)) for u in self.nodes if u.op is Op.FOLD]
        # Operations of the same ranges cost the same: one entry stands for all, to save time.
        first: dict[object, UOp] = {}
        computed = [u for u in self.nodes if u.op in ELEMENTWISE or u.op is Op.FOLD]
        counts = Counter([first.setdefault((self.depends[u], self.moving[u]), u) for u in computed])
        self.arithmetic = [(u, n * self._trip_count(u)) for u, n in counts.items()]

    def _trip_count(self, u: UOp) -> float:
        """The number of times that a node is computed.

        A value is computed inside the loops that it depends on.  A load of a reduction is repeated
        for each register tile, which is assumed to be of `ASSUMED_TILE_ROWS` rows.
        """
        ranges = self.depends[u]
        if u.op is Op.STORE:
            return float(prod(r.arg.size for r in self.loops.union(ranges)))
        count = prod([r.arg.size for r in ranges])
        if u.op is Op.LOAD and not self.loops.issuperset(ranges):
            all_trips = prod(r.arg.size for r in self.loops.union(ranges))
            count = max(count, all_trips / ASSUMED_TILE_ROWS)
        return float(count)

    @property
    def is_small(self) -> bool:
        """Whether the body leaves registers for several vectors side by side."""
        return few_operations(self.nodes)

    def is_contraction(self, fold: UOp) -> bool:
        """Whether a FOLD sums products of two values, one of which has an axis of its own."""
        body = fold.src[0]
        if fold.arg.op is not Op.ADD or body.op is not Op.MUL:
            return False
        a, b = (set(self.depends[s]) for s in body.src)
        inner = set(fold.src[1:])
        return bool(inner & a & b) and bool(a - b - inner or b - a - inner)

    def reuses_loads(self, fold: UOp, lane: UOp | None) -> bool:
        """Whether a register tile would use each loaded element of a contraction several times.

        Not in a matrix-vector product whose vector axis is the summed one: it is a plain sum.
        """
        a, b = (set(self.depends[s]) - set(fold.src[1:]) for s in fold.src[0].src)
        return lane not in fold.src[1:] or bool(a - b and b - a)

    def cost_ns(self, lane: UOp | None) -> float:
        """Nanoseconds of loads, stores and arithmetic if `lane` is the vector axis."""
        total, seen, inside = 0.0, set(), self._inside(lane)
        for u, terms, count in self.accesses:
            part = self._part(u, lane)
            if part < 1 and self.addresses[u] in seen:
                continue  # other parts load the same
            seen.add(self.addresses[u])
            count *= part
            # A store runs in all loops, so it is scattered if its address lacks the vector axis.
            lane_here = lane if lane in self.depends[u] or (u.op is Op.STORE) else None
            lane_here = lane_here or (None if u in inside else self.reduced_lane(u))
            stride = self.stride(u, terms, lane_here)
            if lane_here is None:  # once for each vector, where others run for each lane
                shared = self._used_lanes(lane) if lane is not None and u in inside else 1.0
                total += count * VECTOR_ACCESS_NS / shared
            elif abs(stride) <= 1:
                total += count * VECTOR_ACCESS_NS / self._used_lanes(lane_here)
            elif stride in self.interleaved[u] or (stride in STRIDES and is_plain_load(u)):
                total += count * stride * VECTOR_ACCESS_NS / self._used_lanes(lane_here)
            else:
                total += count * (SCATTER_NS if u.op is Op.STORE else GATHER_NS)
        for u, count in self.arithmetic:
            count *= self._part(u, lane)
            lane_here = lane if lane in self.depends[u] else self.reduced_lane(u)
            per_vector = self._used_lanes(lane_here) if lane_here is not None else 1.0
            total += count * ARITHMETIC_NS / per_vector
        for u, count in self.reductions:
            # Reduced along the vector axis: the lanes have to be combined at the end.
            if lane in u.src[1:] or (lane not in self.depends[u] and self.reduced_lane(u.src[0])):
                steps = count * prod(r.arg.size for r in u.src[1:])
                total += count * HORIZONTAL_REDUCE_NS + steps * ARITHMETIC_NS / self.lanes
        return total

    def _inside(self, lane: UOp | None) -> set[UOp]:
        """The nodes of reductions that run for each lane, whose own ranges are no vector axes."""
        folds = [f for f, _ in self.reductions if lane is not None and lane in self.depends[f]]
        return set(walk([f.src[0] for f in folds])) if folds else set()

    def _part(self, u: UOp, lane: UOp | None) -> float:
        """The share of iterations that compute a node, if its conditions choose one of several.

        A short loop whose index is compared is unrolled, unless it is the vector axis: then of the
        parts of a concatenation each iteration computes its own, and vectors compute all.
        """
        if not self.unrolled:
            return 1.0
        chosen = self.unrolled.intersection(self.depends[u]) - self.moving[u] - {lane}
        return 1.0 / float(prod([r.arg.size for r in chosen]))

    def _used_lanes(self, lane: UOp) -> float:
        """Elements per vector, the padding of the last vector not counted."""
        size: int = lane.arg.size
        return max(size / -(-size // self.lanes), 1.0)

    def stride(self, u: UOp, terms: dict[UOp, int], lane: UOp | None) -> int:
        """Elements from one iteration of a range to the next; UNKNOWN_STRIDE if that varies."""
        if lane is None:
            return 0
        stride = terms.get(lane, 0)
        for t, k in terms.items():
            if t is not lane and lane in self.depends.get(t, ()):
                block = t.op in (Op.MOD, Op.FLOORDIV) and t.src[0] is lane
                if not block or t.src[1].op is not Op.CONST or t.src[1].arg.value % self.lanes:
                    return UNKNOWN_STRIDE  # through a division or a loaded index
                # In panels of whole vectors, i // W jumps between vectors only, never in one.
                stride += k if t.op is Op.MOD else 0
        return stride

    def reduced_lane(self, u: UOp) -> UOp | None:
        """The innermost reduced range among those that a node depends on."""
        return next((r for r in reversed(self.depends[u]) if r not in self.loops), None)

    def vector_axis(self, in_order: frozenset[int]) -> UOp | None:
        """The loop to vectorise, or a reduced range; None if the nest has neither."""
        # Of axes of equal cost the innermost, along which memory is usually contiguous.
        return min(reversed(self.vector_axes(in_order)), key=self.cost_ns, default=None)

    def vector_axes(self, in_order: frozenset[int]) -> list[UOp]:
        """The candidates for `vector_axis`: loops, then ranges of reductions."""
        loops = [r for r in self.nest.loops if r.arg.number not in in_order]
        # A range of a reduction serves all stores only if the reduction runs in all of the loops.
        folds = [f for f in loop_nest.folds(self.nest.body) if set(loops) <= set(self.depends[f])]
        inner = {r for f in folds for r in sum_order.vector_ranges(f, self.target)}
        return [*loops, *sorted(inner, key=lambda r: r.arg.number)]

    def total_ns(self) -> float:
        """Nanoseconds of the nest with the best vector axis, on one core."""
        return self.cost_ns(self.vector_axis(loop_nest.in_order(self.nest.body)))


def _moving(nodes: Iterable[UOp]) -> dict[UOp, frozenset[UOp]]:
    """The ranges that each node depends on otherwise than by conditions; sources come first."""
    moving: dict[UOp, frozenset[UOp]] = {}
    nothing: frozenset[UOp] = frozenset()
    for u in nodes:
        if u.op is Op.RANGE:
            moving[u] = frozenset({u})
            continue
        src = u.src[1:2] if u.op is Op.LOAD else u.src[1:] if u.op is Op.WHERE else u.src
        moving[u] = nothing.union(*[moving.get(s, nothing) for s in src])
        if u.op is Op.FOLD:
            moving[u] -= {*u.src[1:]}
    return moving


def _interleaved(addresses: Mapping[UOp, tuple[Terms, int]]) -> dict[UOp, set[int]]:
    """The strides at which all parts of what an access steps over are accessed, by access.

    `deinterleave` does them at once.  Predicates may depend on ranges of so many parts only: these
    are unrolled, which decides the predicate.
    """
    groups: dict[tuple[Any, ...], dict[int, list[UOp]]] = {}
    interleaved: dict[UOp, set[int]] = {u: set() for u in addresses}
    for u, (terms, offset) in addresses.items():
        predicate = u.src[2:] if u.op is Op.LOAD else u.src[3:]
        deciding = {r.arg.size for r in walk(predicate) if r.op is Op.RANGE}
        if len(deciding) <= 1 and deciding <= STRIDES:
            for r, k in terms.items():
                if k == 1 and r.op is Op.RANGE and r.arg.size in STRIDES:
                    interleaved[u].add(r.arg.size)
            key = u.op, u.src[0], frozenset(terms.items())
            groups.setdefault(key, {}).setdefault(offset, []).append(u)
    for group in groups.values():
        for offset, accesses in group.items():
            for stride in STRIDES:
                firsts = range(offset - stride + 1, offset + 1)
                if any(all(first + i in group for i in range(stride)) for first in firsts):
                    for u in accesses:
                        interleaved[u].add(stride)
    return interleaved


def is_plain_load(u: UOp) -> bool:
    """Whether an access is a load without a predicate, whose vectors may be taken apart."""
    return u.op is Op.LOAD and len(u.src) == 2


def few_operations(nodes: Iterable[UOp]) -> bool:
    """Whether a body leaves registers for several vectors side by side."""
    return sum(u.op in ELEMENTWISE for u in nodes) <= MAX_OPS_TO_INTERLEAVE


def loop_body(fold: UOp) -> set[UOp]:
    """The nodes that are computed in each iteration of a reduction, those inside others not."""
    ranges = {*fold.src[1:]}
    dependent: set[UOp] = set()
    for u in walk(fold.src[:1]):
        if u in ranges or (u.op is not Op.FOLD and not dependent.isdisjoint(u.src)):
            dependent.add(u)
    return dependent - ranges
