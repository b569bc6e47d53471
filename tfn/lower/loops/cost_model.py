"""What a nest costs: how its loads and stores step along each loop, and what it does how often.

`choose` asks it which loop to vectorise, and what a register tile may use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import prod
from typing import Any

from tfn.lower.index.affine import Terms, affine
from tfn.lower.index.dependence import dependences
from tfn.lower.loops import loop_nest
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.target.register_tile import accumulators
from tfn.lower.target.target import Target
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp, walk

GATHER_COST, SCATTER_COST = 1.0, 1.5
"""Nanoseconds for one element that is not next to its neighbour, loaded or stored.  What is loaded
so may be turned in registers; what is stored so goes one by one."""

VECTOR_COST = 0.4
"""Nanoseconds for a contiguous vector, or for a scalar alone."""

ACROSS_COST = 4.0
"""Nanoseconds to combine the lanes of a vector."""

REUSE = 8
"""Rows of a register tile that share one load, before the tile is known."""

FAR = 1 << 30
"""A step along a vector axis that goes through a division or a loaded index: a gather."""

SMALL_BODY = 24
"""A body of at most so many operations is unrolled by four vectors, a longer one not."""


@lru_cache(maxsize=8)
def model_of(n: Nest, target: Target) -> Model:
    """What is known of a nest, once for all who ask."""
    return Model(n, target)


class Model:
    """What is known of a nest before it is split.

    Attributes:
        lanes: elements of the widest dtype in a vector register.
        accumulators: how many a register tile may use.
        registers: vector registers.
        cache_bytes: of the cache that panels of a contraction are kept in.
    """

    def __init__(self, n: Nest, target: Target) -> None:
        self.nest, self.loops = n, frozenset(n.loops)
        self.depends = dependences(n.body)
        self.nodes = list(self.depends)
        widths = [u.dtype.itemsize for u in self.nodes if u.op in (Op.LOAD, Op.FOLD)]
        widths += [u.src[2].dtype.itemsize for u in self.nodes if u.op is Op.STORE]
        self.lanes = max(1, target.vector_bytes // max(4, *widths))
        self.accumulators = accumulators(target)
        self.registers = target.vector_registers
        self.cache_bytes = target.l2_bytes
        addresses = {u: affine(u.src[1]) for u in self.nodes if u.op in (Op.LOAD, Op.STORE)}
        self.paired = _paired(addresses)
        self.access = [(u, terms, self._around(u)) for u, (terms, _) in addresses.items()]
        self.folds = [(u, self._around(u)) for u in self.nodes if u.op is Op.FOLD]
        # What depends on the same ranges costs the same.
        first: dict[tuple[UOp, ...], UOp] = {}
        computed = [u for u in self.nodes if u.op in ELEMENTWISE or u.op is Op.FOLD]
        counts = Counter([first.setdefault(self.depends[u], u) for u in computed])
        self.arithmetic = [(u, n * self._around(u)) for u, n in counts.items()]

    def _around(self, u: UOp) -> float:
        """How many times a node is computed.

        A value goes into every loop it depends on.  What is loaded for a reduction comes again
        for each register tile, which is taken to be of eight rows.
        """
        found = self.depends[u]
        if u.op is Op.STORE:
            return float(prod(r.arg.size for r in self.loops.union(found)))
        times = prod([r.arg.size for r in found])
        if u.op is Op.LOAD and not self.loops.issuperset(found):
            times = max(times, prod(r.arg.size for r in self.loops.union(found)) / REUSE)
        return float(times)

    @property
    def small(self) -> bool:
        """Whether the body leaves registers for several vectors side by side."""
        return few_operations(self.nodes)

    def contracts(self, fold: UOp) -> bool:
        """Whether a fold is a contraction: a sum of products of two values of unlike axes."""
        body = fold.src[0]
        if fold.arg.op is not Op.ADD or body.op is not Op.MUL:
            return False
        a, b = (set(self.depends[s]) for s in body.src)
        inner = set(fold.src[1:])
        return bool(inner & a & b) and bool(a - b - inner or b - a - inner)

    def reuses(self, fold: UOp, lane: UOp | None) -> bool:
        """Whether what a contraction loads is used again by a register tile.

        A product with a vector, along lines that lie in memory as they are summed, is a plain sum.
        """
        a, b = (set(self.depends[s]) - set(fold.src[1:]) for s in fold.src[0].src)
        return lane not in fold.src[1:] or bool(a - b and b - a)

    def cost(self, lane: UOp | None) -> float:
        """Nanoseconds of loads, stores and arithmetic if `lane` is the vector axis."""
        total = 0.0
        for u, terms, times in self.access:
            lane_here = lane if lane in self.depends[u] or (u.op is Op.STORE) else None
            lane_here = lane_here or self.own_lane(u)
            stride = self.stride(u, terms, lane_here)
            if lane_here is None:
                total += times * VECTOR_COST
            elif abs(stride) <= 1:
                total += times * VECTOR_COST / self._filled(lane_here)
            elif stride == 2 and u in self.paired:
                total += times * 2 * VECTOR_COST / self._filled(lane_here)
            else:
                total += times * (SCATTER_COST if u.op is Op.STORE else GATHER_COST)
        for u, outs in self.arithmetic:
            lane_here = lane if lane in self.depends[u] else self.own_lane(u)
            per = self._filled(lane_here) if lane_here is not None else 1.0
            total += outs * 0.15 / per
        for u, outs in self.folds:
            if lane in u.src[1:] or (lane not in self.depends[u] and self.own_lane(u.src[0])):
                times = outs * prod(r.arg.size for r in u.src[1:])
                total += outs * ACROSS_COST + times * 0.15 / self.lanes
        return total

    def _filled(self, lane: UOp) -> float:
        """Elements per vector that are not waste."""
        size: int = lane.arg.size
        return max(size / -(-size // self.lanes), 1.0)

    def stride(self, u: UOp, terms: dict[UOp, int], lane: UOp | None) -> int:
        """How many elements apart neighbours along a range lie; FAR if that varies."""
        if lane is None:
            return 0
        within = terms.get(lane, 0)
        for t, k in terms.items():
            if t is not lane and lane in self.depends.get(t, ()):
                block = t.op in (Op.MOD, Op.FLOORDIV) and t.src[0] is lane
                if not block or t.src[1].op is not Op.CONST or t.src[1].arg.value % self.lanes:
                    return FAR  # through a division or a loaded index
                within += k if t.op is Op.MOD else 0  # in panels, of whole vectors
        return within

    def own_lane(self, u: UOp) -> UOp | None:
        """The innermost reduced range among those that a node depends on."""
        return next((r for r in reversed(self.depends[u]) if r not in self.loops), None)

    def vector_axis(self, in_order: frozenset[int]) -> UOp | None:
        """The loop to vectorise, or a reduced range; None if each fold has its own."""
        loops = [r for r in self.nest.loops if r.arg.number not in in_order]
        folds = [f for f in loop_nest.folds(self.nest.body) if set(loops) <= set(self.depends[f])]
        inner = {r for f in folds for r in f.src[1:]}
        candidates: list[UOp] = [*loops, *sorted(inner, key=lambda r: r.arg.number)]
        if not candidates:
            return None
        return min(reversed(candidates), key=self.cost)

    def total(self) -> float:
        """The cost with the best vector axis."""
        return self.cost(self.vector_axis(loop_nest.in_order(self.nest.body)))


def _paired(addresses: Mapping[UOp, tuple[Terms, int]]) -> frozenset[UOp]:
    """Accesses whose neighbours in memory are accessed too: `interleave` does both at once.

    Gates must be decided by ranges of two, which are unrolled.
    """
    groups: dict[tuple[Any, ...], dict[int, list[UOp]]] = {}
    found: set[UOp] = set()
    for u, (terms, offset) in addresses.items():
        gates = u.src[2:] if u.op is Op.LOAD else u.src[3:]
        if all(r.arg.size == 2 for r in walk(gates) if r.op is Op.RANGE):
            if any(k == 1 and r.op is Op.RANGE and r.arg.size == 2 for r, k in terms.items()):
                found.add(u)
            key = u.op, u.src[0], frozenset(terms.items())
            groups.setdefault(key, {}).setdefault(offset, []).append(u)
    for group in groups.values():
        for offset, some in group.items():
            if offset - 1 in group or offset + 1 in group:
                found.update(some)
    return frozenset(found)


def few_operations(nodes: Iterable[UOp]) -> bool:
    """Whether a body leaves registers for several vectors side by side."""
    return sum(u.op in ELEMENTWISE for u in nodes) <= SMALL_BODY


def inside(fold: UOp) -> set[UOp]:
    """What is computed in each step of a reduction."""
    around = {*fold.src[1:]}
    found: set[UOp] = set()
    for u in walk(fold.src[:1]):
        if u in around or (u.op is not Op.FOLD and not found.isdisjoint(u.src)):
            found.add(u)
    return found - around
