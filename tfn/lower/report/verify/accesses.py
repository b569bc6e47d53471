"""That every load and store of a kernel's instructions is in bounds, by proof.

    loop i1 in 0..8:
      v1 = load a[i1*64 + 3 + lane]        0 <= i1*64 + 3 + lane < 512 for all i1 and lanes: proved

What is proved are the instructions themselves, after all passes, with the gates that they carry.
Intervals decide nearly everything; z3 is asked about the rest.  A value that was loaded may be
anything, so a gather is proved by its clamp and a scatter by its gate.  The integers that a loop
carries lie in an interval that the first ones lie in, and each next one if the last one does.

A lane, or an instruction, at which a gate is false touches nothing; nor does a PREFETCH.
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
from tfn.lower.report.verify.kernels import Outside, show
from tfn.trace.argument import Param, Range
from tfn.trace.build import count
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, reshaped, walk

_ENDLESS = 1 << 62
"""More iterations than any loop has."""
_TRIES = 4
_ACCESSES = frozenset({Op.LOAD, Op.STORE, Op.TILE})
_SHOWN = frozenset({Op.LOOP, Op.ACCUMULATOR, Op.LOAD})
"""What a counterexample tells the values of."""
_OPAQUE = 1 << 20
"""Numbers of parameters that stand for values of which nothing is known."""


@frozen
class Unproved:
    """An access that leaves its buffer, or that nobody can prove to stay within.

    Attributes:
        store: whether it writes.
        buffer: the number of the operand.
        size: of that, in elements.
        index, gate: as a person would write them; there may be no gate.
        outside: where it leaves the buffer, if that is known.
    """

    store: bool
    buffer: int
    size: int
    index: str
    gate: str
    outside: Outside

    def __str__(self) -> str:
        return self.text(f"operand {self.buffer}")

    def text(self, buffer: str) -> str:
        """What is wrong, in words, with a name for the buffer."""
        gate = f" if {self.gate}" if self.gate else ""
        what = "store" if self.store else "load"
        return (
            f"{what} at [{self.index}]{gate} of {buffer}, "
            f"which has {self.size:,} elements: {self.outside}"
        )


@dataclass(slots=True)
class Outcome:
    """What has been found out about a kernel.

    Attributes:
        by_intervals, by_solver: how many accesses were proved so.
        assumed: how many were proved under an assumption.
        unproved: those that were not.
        operands: how many bytes each operand must have.
    """

    by_intervals: int = 0
    by_solver: int = 0
    assumed: int = 0
    unproved: list[Unproved] = field(default_factory=list)
    operands: dict[int, int] = field(default_factory=dict)

    @property
    def accesses(self) -> int:
        """How many loads and stores there are."""
        return self.by_intervals + self.by_solver + self.assumed + len(self.unproved)


def check(
    items: Sequence[UOp], tiles: int, assumed: Mapping[UOp, Interval] | None = None
) -> Outcome:
    """All accesses of the instructions of a kernel.

    Args:
        tiles: that it is run on, any of them.
        assumed: intervals of values that are believed where nothing else helps.

    Raises:
        MissingPackageError: if intervals are not enough, and z3 is not installed.

    Example:
        >>> from tfn.trace.argument import Access
        >>> i, x = UOp(Op.LOOP, (BEGIN, END), 1), UOp(Op.PARAM, (), Param(0, (8,), INT64))
        >>> load = UOp(Op.LOAD, (x, i), Access(1, 1, 0))
        >>> [str(u) for u in check([i, load, UOp(Op.END, (i,))], tiles=8).unproved]
        ['load at [i1 + 1] of operand 0, which has 8 elements: at i1 = 7 it is 8']
    """
    return Checker(items, tiles, assumed or {}).run()


class Checker:
    """The state of one kernel's proof.

    Attributes:
        given: what is known of counters, carried integers and tiles.
        facts: what follows.
        again: instructions that are there twice: they may have another value the second time, so
            that nothing which is said of one may be said of the other.
    """

    def __init__(self, items: Sequence[UOp], tiles: int, assumed: Mapping[UOp, Interval]) -> None:
        self.items, self.assumed = items, assumed
        self.given: dict[UOp, Interval] = {BEGIN: (0, tiles), END: (0, tiles)}
        self.facts = Facts(self.given)
        self.again = {u for u, times in Counter(items).items() if times > 1}
        self.ends = {u.src[0]: u for u in items if u.op is Op.END}
        self.outcome = Outcome()
        self.lanes: dict[tuple[UOp, int | UOp], UOp] = {}
        self.known: dict[tuple[object, ...], tuple[str, Outside | None]] = {}

    def run(self) -> Outcome:
        """Go through the instructions in order, past loops that never run."""
        asked = [s for u in self.accesses() for s in (u.src[1], *_gate(u))]
        carried = {u for u in walk(asked) if u.op is Op.ACCUMULATOR}
        left: UOp | None = None
        for u in self.items:
            if left is not None:
                left = None if u is self.ends[left] else left
            elif u.op is Op.LOOP:
                if not self.opened(u, carried):
                    left = u
            elif u.op in _ACCESSES:
                self.access(u)
        return self.outcome

    def accesses(self) -> Iterator[UOp]:
        """Loads and stores."""
        return (u for u in self.items if u.op in _ACCESSES)

    # Loops.

    def opened(self, loop: UOp, carried: set[UOp]) -> bool:
        """Note what is known inside of a loop; whether it may run at all."""
        low = self.facts.interval(loop.src[0])[0]
        high = self.facts.interval(loop.src[1])[1] - 1 if len(loop.src) == 2 else _ENDLESS
        if high < low:
            return False
        self.given[loop] = low, high
        end = self.ends[loop].src
        half = len(end) // 2
        pairs = [
            (u, following)
            for u, following in zip(end[1 : 1 + half], end[1 + half :], strict=True)
            if u in carried and u.dtype in INTEGERS | {BOOL} and not u.shape
        ]
        if pairs:
            self.given |= self.invariant(pairs)
        return True

    def invariant(self, pairs: Sequence[tuple[UOp, UOp]]) -> dict[UOp, Interval]:
        """Intervals of carried integers that hold at first, and from each iteration to the next."""
        found = {u: self.facts.interval(u.src[1]) for u, _ in pairs}
        for attempt in range(_TRIES):
            facts = Facts(self.given | found)
            grown = {}
            for u, following in pairs:
                low, high = facts.interval(following)
                before = found[u]
                grown[u] = min(low, before[0]), max(high, before[1])
            if grown == found:
                return found
            if attempt:  # what still grows may grow as far as a round number, or any
                for u, (low, high) in grown.items():
                    least, most = limits(u.dtype)
                    before = found[u]
                    floor = 0 if low >= 0 else least
                    grown[u] = (
                        low if low == before[0] else floor,
                        high if high == before[1] else most,
                    )
            found = grown
        return {u: limits(u.dtype) for u, _ in pairs}

    # Accesses.

    def access(self, u: UOp) -> None:
        """Prove one access, and count it."""
        buffer, operands = u.src[0], self.outcome.operands
        size_bytes = count(buffer.shape) * buffer.dtype.itemsize
        operands[buffer.arg.index] = max(size_bytes, operands.get(buffer.arg.index, 0))
        key = (u.src[0], u.src[1], *_gate(u), u.arg)
        if key not in self.known:
            self.known[key] = self.proof(u)
        how, outside = self.known[key]
        if outside is None:
            setattr(self.outcome, how, getattr(self.outcome, how) + 1)
            return
        index = (
            show(u.src[1] + const(u.arg.offset, INT64, u.src[1].shape))
            if u.arg.offset
            else (show(u.src[1]))
        )
        if u.op is Op.TILE:
            index += f" + {u.arg.pitch} * row + lane"
        elif u.arg.lanes > 1 and u.arg.stride:
            index += " + lane" if u.arg.stride == 1 else f" + {u.arg.stride} * lane"
        self.outcome.unproved.append(
            Unproved(
                u.op is Op.STORE,
                u.src[0].arg.index,
                count(u.src[0].shape),
                index,
                ", ".join(show(gate) for gate in _gate(u)),
                outside,
            )
        )

    def proof(self, u: UOp) -> tuple[str, Outside | None]:
        """How an access was proved, or else where it is outside."""
        if self.surely(u, self.facts):
            return "by_intervals", None
        outside = self.asked(u, self.facts)
        if outside is None:
            return "by_solver", None
        if self.assumed:
            facts = Facts(self.given | dict(self.assumed))
            if self.surely(u, facts) or self.asked(u, facts) is None:
                return "assumed", None
        return "", outside

    def places(self, u: UOp) -> Iterator[tuple[int, UOp, UOp | None, int]]:
        """A lane, the base of its index, its gate, an offset: for each lane that may go too far."""
        base, access, gate = u.src[1], u.arg, next(iter(_gate(u)), None)
        if u.op is Op.TILE:  # it goes too far at a corner, or nowhere
            for row in (0, access.rows - 1):
                for lane in (0, access.lanes - 1):
                    yield lane, base, None, access.offset + access.pitch * row + lane
            return
        lanes = base.shape[0] if base.shape else access.lanes
        alike = not base.shape and (gate is None or not gate.shape)
        for lane in sorted({0, lanes - 1}) if alike else range(lanes):
            at = access.offset + (0 if base.shape else access.stride * lane)
            yield lane, self.lane(base, lane), gate if gate is None else self.lane(gate, lane), at

    def surely(self, u: UOp, facts: Facts) -> bool:
        """Whether intervals are enough."""
        size = count(u.src[0].shape)
        for _, base, gate, at in self.places(u):
            low, high = facts.interval(base)
            inside = low + at >= 0 and high + at < size
            if not inside and (gate is None or facts.interval(gate)[1]):
                return False
        return True

    def asked(self, u: UOp, facts: Facts) -> Outside | None:
        """None if z3 proves it, else where it is outside, as far as that is known."""
        size = count(u.src[0].shape)
        if not self.again.isdisjoint(walk([u.src[1], *_gate(u)])):
            return Outside({}, None)
        if self.at_once(u, facts):
            return None
        for lane, base, gate, at in self.places(u):
            found = _question(base, at, size, gate, facts)
            if not found.never:
                known = {v: i for v, i in (found.at or {}).items() if v.op in _SHOWN}
                if u.arg.lanes > 1 or base is not u.src[1]:
                    known[UOp(Op.LANES, (), max(u.arg.lanes, 1))] = lane
                return Outside(known, found.values[0] + at if found.values else None)
        return None

    def at_once(self, u: UOp, facts: Facts) -> bool:
        """Whether z3 proves it for all lanes at once, as if the lane were a loop."""
        base, access, gates = u.src[1], u.arg, _gate(u)
        vectors = [v for v in walk([base, *gates], lambda v: bool(v.shape)) if v.shape]
        if not vectors or any(v.op is Op.SHUFFLE for v in vectors):
            return False
        lane = UOp(Op.RANGE, (), Range(_OPAQUE, vectors[0].shape[0]))
        index = self.lane(base, lane) + (0 if base.shape else lane * access.stride)
        gate = self.lane(gates[0], lane) if gates else None
        return _question(index, access.offset, count(u.src[0].shape), gate, facts).never

    def lane(self, root: UOp, lane: int | UOp) -> UOp:
        """One lane of a value, as a scalar; a range stands for any of them."""
        if not root.shape:
            return root
        for u in walk([root], lambda u: bool(u.shape)):
            if u.shape and (u, lane) not in self.lanes:
                self.lanes[u, lane] = self._lane(u, lane)
        return self.lanes[root, lane]

    def _lane(self, u: UOp, lane: int | UOp) -> UOp:
        if u.op is Op.CONST:
            return reshaped(u, ())
        if u.op is Op.LANES:
            return const(lane, INT64) if isinstance(lane, int) else lane
        if u.op is Op.SPLAT:
            return u.src[0]
        if u.op is Op.SHUFFLE and isinstance(lane, int):
            at, width = u.arg[lane], u.src[0].shape[0]
            return self.lane(u.src[at // width], at % width)
        if u.op in (Op.LOAD, Op.ACCUMULATOR, Op.DOT2, Op.ROW):
            opaque = UOp(Op.PARAM, (), Param(_OPAQUE + len(self.lanes), (), u.dtype))
            if u.dtype in INTEGERS | {BOOL}:
                self.given[opaque] = limits(u.dtype)
            return opaque
        return UOp(u.op, tuple([self.lane(s, lane) for s in u.src]), u.arg)


def _question(base: UOp, at: int, size: int, gate: UOp | None, facts: Facts) -> solver.Answer:
    """Whether ``base + at`` can be outside while the gate holds, and what the base is there."""
    wrong = (base < -at) | (const(size - 1 - at, INT64) < base)
    return solver.holds([wrong] if gate is None else [wrong, gate], facts, [base])


def _gate(u: UOp) -> tuple[UOp, ...]:
    return u.src[2:] if u.op is Op.LOAD else u.src[3:]
