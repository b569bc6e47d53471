"""Bounds verifier: a proof for every load and store of a kernel's instructions.

    loop i1 in 0..8:
      v1 = load a[i1*64 + 3 + lane]        0 <= i1*64 + 3 + lane < 512 for all i1 and lanes: proved

The proof is about the instructions themselves, after all passes, with the predicates that they
carry.  Interval analysis decides nearly all accesses; z3 is asked about the rest.  A loaded value
may be anything, so a gather is proved by its clamp and a scatter by its predicate.  Integers that a
loop carries are bounded by induction: an interval holds the first value, and the next value if it
holds the present one.

An access whose predicate is false touches nothing; nor does a PREFETCH.  One whose index is chosen
by a condition is two, each under its side of the condition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, INT64, INTEGERS
from tfn.lower.codegen.linearize import BEGIN, END
from tfn.lower.index import solver
from tfn.lower.index.intervals import Facts, Interval, limits
from tfn.lower.index.predicates import implied
from tfn.lower.report.verify.kernels import Violation, show
from tfn.trace.argument import Param, Range
from tfn.trace.build import count
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, reshaped, walk

_MAX_TRIPS = 1 << 62
"""More iterations than any loop has: the bound of a loop without a trip count."""

_MAX_WIDENINGS = 4
"""Rounds in search of an invariant interval; after the first, bounds jump to 0 or a dtype's limits.

Each bound can jump twice, so few carried values need more rounds; for others nothing is known.
"""

_ACCESSES = frozenset({Op.LOAD, Op.STORE, Op.TILE})

_SHOWN = frozenset({Op.LOOP, Op.ACCUMULATOR, Op.LOAD})
"""Values that a counterexample shows."""

_METHODS = ("by_intervals", "by_solver", "assumed")
"""Proofs of an access, the strongest first: the fields of `Outcome` that count them."""

_OPAQUE = 1 << 20
"""First number of parameters that replace lanes of values of which nothing is known."""


@frozen
class Unproved:
    """An access that leaves its buffer, or cannot be proved to stay within.

    Attributes:
        store: whether it writes.
        buffer: the number of the operand.
        size: of the operand, in elements.
        index, predicate: as text; the predicate may be empty.
        violation: where it leaves the buffer, as far as that is known.
    """

    store: bool
    buffer: int
    size: int
    index: str
    predicate: str
    violation: Violation

    def __str__(self) -> str:
        return self.text(buffer_name(self.buffer))

    def text(self, buffer: str) -> str:
        """The access and its violation, with a name for the buffer."""
        predicate = f" if {self.predicate}" if self.predicate else ""
        access = "store" if self.store else "load"
        return (
            f"{access} at [{self.index}]{predicate} of {buffer}, "
            f"which has {self.size:,} elements: {self.violation}"
        )


def buffer_name(number: int) -> str:
    """The name of a kernel's operand, or of its local memory, whose numbers are negative."""
    return f"operand {number}" if number >= 0 else f"local memory {-1 - number}"


@dataclass(slots=True)
class Outcome:
    """The result of checking a kernel.

    Attributes:
        by_intervals, by_solver: the number of accesses proved so.
        assumed: the number proved under an assumption.
        unproved: the accesses that were not.
        operands: the bytes that each operand must have.
    """

    by_intervals: int = 0
    by_solver: int = 0
    assumed: int = 0
    unproved: list[Unproved] = field(default_factory=list)
    operands: dict[int, int] = field(default_factory=dict)

    @property
    def accesses(self) -> int:
        """The number of loads and stores."""
        return self.by_intervals + self.by_solver + self.assumed + len(self.unproved)


def check(
    items: Sequence[UOp],
    tiles: int,
    assumed: Mapping[UOp, Interval] | None = None,
    on_grid: bool = False,
) -> Outcome:
    """Check all accesses of the instructions of a kernel.

    Args:
        items: the instructions in order.
        tiles: the number of tiles, of which a call may run any.
        assumed: intervals of values that are used only where a proof fails without them.
        on_grid: whether a call runs one tile, as a group of threads does.

    Raises:
        MissingPackageError: if intervals are not enough, and z3 is not installed.

    Example:
        >>> from tfn.trace.argument import Access
        >>> i, x = UOp(Op.LOOP, (BEGIN, END), 1), UOp(Op.PARAM, (), Param(0, (8,), INT64))
        >>> load = UOp(Op.LOAD, (x, i), Access(1, 1, 0))
        >>> [str(u) for u in check([i, load, UOp(Op.END, (i,))], tiles=8).unproved]
        ['load at [i1 + 1] of operand 0, which has 8 elements: at i1 = 7 it is 8']
    """
    return Checker(items, tiles, assumed or {}, on_grid).run()


class Checker:
    """The state of one kernel's proof.

    Attributes:
        intervals: of counters, carried integers and tiles.
        facts: intervals that follow from those.
        repeated: instructions that occur twice.  The second may have another value, so a fact about
            one is none about the other.
    """

    def __init__(
        self,
        items: Sequence[UOp],
        tiles: int,
        assumed: Mapping[UOp, Interval],
        on_grid: bool = False,
    ) -> None:
        self.items, self.assumed, self.on_grid = items, dict(assumed), on_grid
        self.intervals: dict[UOp, Interval] = {BEGIN: (0, tiles - on_grid), END: (0, tiles)}
        self.facts = Facts(self.intervals)
        self.repeated = {u for u, times in Counter(items).items() if times > 1}
        self.ends = {u.src[0]: u for u in items if u.op is Op.END}
        self.outcome = Outcome()
        self._lanes: dict[tuple[UOp, int | UOp], UOp] = {}
        self._proofs: dict[tuple[object, ...], tuple[str, Violation | None]] = {}

    def run(self) -> Outcome:
        """Check the instructions in order, without those in loops that never run."""
        accesses = [u for u in self.items if u.op in _ACCESSES]
        used = [s for u in accesses for s in (u.src[1], *_predicate(u))]
        carried = {u for u in walk(used) if u.op is Op.ACCUMULATOR}
        skipped: UOp | None = None
        for u in self.items:
            if skipped is not None:
                skipped = None if u is self.ends[skipped] else skipped
            elif u.op is Op.LOOP:
                if not self.enter(u, carried):
                    skipped = u
            elif u.op in _ACCESSES:
                self.access(u)
        return self.outcome

    # Loops.

    def enter(self, loop: UOp, carried: set[UOp]) -> bool:
        """Add the intervals of a loop's counter and carries; returns whether it may run at all."""
        low = self.facts.interval(loop.src[0])[0]
        high = self.facts.interval(loop.src[1])[1] - 1 if len(loop.src) == 2 else _MAX_TRIPS
        if high < low:
            return False
        self.intervals[loop] = low, high
        end = self.ends[loop].src
        half = len(end) // 2
        pairs = [
            (u, following)
            for u, following in zip(end[1 : 1 + half], end[1 + half :], strict=True)
            if u in carried and u.dtype in INTEGERS | {BOOL} and not u.shape
        ]
        if pairs:
            self.intervals |= self.invariant(pairs)
        return True

    def invariant(self, pairs: Sequence[tuple[UOp, UOp]]) -> dict[UOp, Interval]:
        """Invariant intervals of carried integers, found by widening.

        Args:
            pairs: each carry and its next value.
        """
        intervals = {u: self.facts.interval(u.src[1]) for u, _ in pairs}
        for attempt in range(_MAX_WIDENINGS):
            facts = Facts(self.intervals | intervals)
            wider = {}
            for u, following in pairs:
                low, high = facts.interval(following)
                before = intervals[u]
                wider[u] = min(low, before[0]), max(high, before[1])
            if wider == intervals:
                return intervals
            if attempt:  # a bound that still moves is moved as far as it may ever go
                for u, (low, high) in wider.items():
                    least, most = limits(u.dtype)
                    before = intervals[u]
                    floor = 0 if low >= 0 else least
                    wider[u] = (
                        low if low == before[0] else floor,
                        high if high == before[1] else most,
                    )
            intervals = wider
        return {u: limits(u.dtype) for u, _ in pairs}

    # Accesses.

    def access(self, u: UOp) -> None:
        """Prove one access, and count it."""
        buffer, operands = u.src[0], self.outcome.operands
        # Local memory is no operand: the kernel itself says how large it is.
        number = buffer.arg.index if buffer.op is Op.PARAM else -1 - buffer.arg.number
        if number >= 0:
            size_bytes = count(buffer.shape) * buffer.dtype.itemsize
            operands[number] = max(size_bytes, operands.get(number, 0))
        # Unrolled code repeats accesses: z3 is asked once about each.
        key = (u.src[0], u.src[1], *_predicate(u), u.arg)
        if key not in self._proofs:
            self._proofs[key] = self.proof(u)
        method, violation = self._proofs[key]
        if violation is None:
            setattr(self.outcome, method, getattr(self.outcome, method) + 1)
            return
        self.outcome.unproved.append(
            Unproved(
                u.op is Op.STORE,
                number,
                count(buffer.shape),
                _index_text(u),
                ", ".join(show(predicate) for predicate in _predicate(u)),
                violation,
            )
        )

    def proof(self, u: UOp) -> tuple[str, Violation | None]:
        """The field of `Outcome` that counts an access, or else its violation."""
        if self.proved_by_intervals(u, self.facts):
            return "by_intervals", None
        narrowed = self.narrowed(u)
        facts = Facts(self.intervals | narrowed) if narrowed else self.facts
        if narrowed and self.proved_by_intervals(u, facts):
            return "by_intervals", None
        if (sides := _sides(u)) is not None:
            methods = [self.proof(side) for side in sides]
            if all(violation is None for _, violation in methods):
                return max(methods, key=lambda proof: _METHODS.index(proof[0]))
        violation = self.violation(u, facts)
        if violation is None:
            return "by_solver", None
        if self.assumed:
            facts = Facts(self.intervals | self.assumed)
            if self.proved_by_intervals(u, facts) or self.violation(u, facts) is None:
                return "assumed", None
        return "", violation

    def narrowed(self, u: UOp) -> dict[UOp, Interval]:
        """Intervals of the values that an access's predicate compares with constants.

            store a[x * 7 + lane] if -1 < x and x < 6        x is in [0, 5] where it stores

        Without them ``x * 7`` of a loaded x may wrap around.
        """
        intervals: dict[UOp, Interval] = {}
        if not self.repeated.isdisjoint(walk([u.src[1], *_predicate(u)])):
            return intervals
        for condition in _scalar_conditions(_predicate(u)):
            for x, (low, high) in implied(condition).items():
                least, most = intervals.get(x) or self.facts.interval(x)
                intervals[x] = max(low, least), min(high, most)
        return {x: (low, high) for x, (low, high) in intervals.items() if low <= high}

    def indices(self, u: UOp) -> Iterator[tuple[int, UOp, UOp | None, int]]:
        """A lane, the base of its index, its predicate, an offset: of each lane to be proved."""
        base, access, predicate = u.src[1], u.arg, next(iter(_predicate(u)), None)
        if u.op is Op.TILE:  # linear in row and lane: if any element is outside, a corner is
            for row in (0, access.rows - 1):
                for lane in (0, access.lanes - 1):
                    yield lane, base, None, access.offset + access.pitch * row + lane
            return
        lanes = base.shape[0] if base.shape else access.lanes
        is_linear = not base.shape and (predicate is None or not predicate.shape)
        for lane in sorted({0, lanes - 1}) if is_linear else range(lanes):
            offset = access.offset + (0 if base.shape else access.stride * lane)
            of_lane = predicate if predicate is None else self.lane(predicate, lane)
            yield lane, self.lane(base, lane), of_lane, offset

    def proved_by_intervals(self, u: UOp, facts: Facts) -> bool:
        """Whether interval analysis proves an access."""
        size = count(u.src[0].shape)
        for _, base, predicate, offset in self.indices(u):
            low, high = facts.interval(base)
            inside = low + offset >= 0 and high + offset < size
            if not inside and (predicate is None or facts.interval(predicate)[1]):
                return False
        return True

    def violation(self, u: UOp, facts: Facts) -> Violation | None:
        """None if z3 proves an access, else a counterexample, as far as it is known."""
        size = count(u.src[0].shape)
        if not self.repeated.isdisjoint(walk([u.src[1], *_predicate(u)])):
            return Violation({}, None)
        if self.proved_for_all_lanes(u, facts):
            return None
        for lane, base, predicate, offset in self.indices(u):
            answer = _ask(base, offset, size, predicate, facts, self.entered(u))
            if not answer.unsatisfiable:
                at = {v: i for v, i in (answer.model or {}).items() if v.op in _SHOWN}
                if u.arg.lanes > 1 or base is not u.src[1]:
                    at[UOp(Op.LANES, (), max(u.arg.lanes, 1))] = lane
                return Violation(at, answer.values[0] + offset if answer.values else None)
        return None

    def entered(self, u: UOp) -> list[UOp]:
        """Facts about the counters of the loops of a grid's threads, beside their intervals.

        ``loop i in thread..min(thread + 1, 1000 - begin*256)``: i is below the bound of its group.
        """
        if not self.on_grid:
            return []
        loops = (v for v in walk([u.src[1], *_predicate(u)]) if v.op is Op.LOOP and len(v.src) == 2)
        return [loop < loop.src[1] for loop in loops if loop.src[1].op is not Op.CONST]

    def proved_for_all_lanes(self, u: UOp, facts: Facts) -> bool:
        """Whether z3 proves all lanes at once, as if the lane were a loop: one question, not 16."""
        base, access, predicates = u.src[1], u.arg, _predicate(u)
        vectors = [v for v in walk([base, *predicates], lambda v: bool(v.shape)) if v.shape]
        # A shuffle selects lanes by constant numbers: it has no formula in the lane.
        if not vectors or any(v.op is Op.SHUFFLE for v in vectors):
            return False
        lane = UOp(Op.RANGE, (), Range(_OPAQUE, vectors[0].shape[0]))
        index = self.lane(base, lane) + (0 if base.shape else lane * access.stride)
        predicate = self.lane(predicates[0], lane) if predicates else None
        return _ask(index, access.offset, count(u.src[0].shape), predicate, facts).unsatisfiable

    def lane(self, root: UOp, lane: int | UOp) -> UOp:
        """One lane of a value, as a scalar; a range is any lane."""
        if not root.shape:
            return root
        for u in walk([root], lambda u: bool(u.shape)):
            if u.shape and (u, lane) not in self._lanes:
                self._lanes[u, lane] = self._lane(u, lane)
        return self._lanes[root, lane]

    def _lane(self, u: UOp, lane: int | UOp) -> UOp:
        if u.op is Op.CONST:
            return reshaped(u, ())
        if u.op is Op.LANES:
            return const(lane, INT64) if isinstance(lane, int) else lane
        if u.op is Op.SPLAT:
            return u.src[0]
        if u.op is Op.SHUFFLE and isinstance(lane, int):
            position, width = u.arg[lane], u.src[0].shape[0]
            return self.lane(u.src[position // width], position % width)
        # Contents of memory and sums may be anything of their dtype.
        if u.op in (Op.LOAD, Op.ACCUMULATOR, Op.DOT2, Op.ROW):
            opaque = UOp(Op.PARAM, (), Param(_OPAQUE + len(self._lanes), (), u.dtype))
            if u.dtype in INTEGERS | {BOOL}:
                self.intervals[opaque] = limits(u.dtype)
            return opaque
        scalar = UOp(u.op, tuple([self.lane(s, lane) for s in u.src]), u.arg)
        if u in self.assumed:  # what is assumed of a vector is assumed of each lane
            self.assumed[scalar] = self.assumed[u]
        return scalar


def _ask(
    base: UOp,
    offset: int,
    size: int,
    predicate: UOp | None,
    facts: Facts,
    known: Sequence[UOp] = (),
) -> solver.Answer:
    """Whether ``base + offset`` can be outside where the predicate holds, and the base there."""
    outside = (base < -offset) | (const(size - 1 - offset, base.dtype) < base)
    conditions = [outside, *known] if predicate is None else [outside, predicate, *known]
    return solver.solve(conditions, facts, [base])


def _sides(u: UOp) -> tuple[UOp, UOp] | None:
    """An access whose index a condition chooses, as two accesses; None for any other::

    load a[where(c, i, 0)]   ->   load a[i] if c,  load a[0] if not c
    """
    index = u.src[1]
    if u.op is Op.TILE or index.op is not Op.WHERE or index.shape:
        return None
    values = u.src[2 : 2 if u.op is Op.LOAD else 3]

    def under(condition: UOp, chosen: UOp) -> UOp:
        for predicate in _predicate(u):
            lanes = predicate.shape
            condition = UOp(Op.SPLAT, (condition,), lanes[0]) if lanes else condition
            condition = predicate & condition
        return UOp(u.op, (u.src[0], chosen, *values, condition), u.arg)

    condition, chosen, other = index.src
    return under(condition, chosen), under(UOp(Op.NOT, (condition,)), other)


def _predicate(u: UOp) -> tuple[UOp, ...]:
    """The predicate of an access, or nothing."""
    return u.src[2:] if u.op is Op.LOAD else u.src[3:]


def _scalar_conditions(predicates: Sequence[UOp]) -> Iterator[UOp]:
    """The conditions of predicates that are the same in all lanes."""
    conditions = list(predicates)
    while conditions:
        u = conditions.pop()
        if not u.shape:
            yield u
        elif u.op in (Op.AND, Op.SPLAT):
            conditions += u.src


def _index_text(u: UOp) -> str:
    index = u.src[1]
    text = show(index + const(u.arg.offset, index.dtype, index.shape) if u.arg.offset else index)
    if u.op is Op.TILE:
        return f"{text} + {u.arg.pitch} * row + lane"
    if u.arg.lanes > 1 and u.arg.stride:
        return f"{text} + lane" if u.arg.stride == 1 else f"{text} + {u.arg.stride} * lane"
    return text
