"""Values too large to be kept: which they are, and how they hang together.

Large values are made of small ones by contractions and in the end only lead to small ones, as the
scores of an attention do::

    s = dot q k; m = max s; e = exp (s - m); n = sum e; p = e / n; o = dot p v

Here s, e and p are large, and m and n are between them: results of reductions that lead back to
large values.  What leaves them through a contraction, as o does, may come back from elsewhere, as a
cotangent of o does.  How often the way to a value has come back is its level.  The values of one
level can be made together; a large one of an earlier level is made again in each that wants it,
from the small values that are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field

from tfn._support.frozen import mutable
from tfn.trace.op import ELEMENTWISE, MOVEMENT, Op
from tfn.trace.uop import UOp, walk

WORTH = 1.0
"""How many times the small values around a large one it has to be, to be made again instead."""

PLAIN = ELEMENTWISE | MOVEMENT
THROUGH = PLAIN | {Op.REDUCE, Op.DOT}
"""What large values may be made by."""

ALONG = ELEMENTWISE | {Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.REDUCE}
"""What small values between large ones may be made by."""


def size_bytes(u: UOp) -> int:
    """Memory of a value, where what is narrower counts as a number of 32 bits."""
    return u.size * max(u.dtype.itemsize, 4)


def sizes(outputs: Sequence[UOp], limit: int) -> set[int]:
    """How large values are that contractions make of small ones, or small ones of them."""
    found: set[int] = set()
    for u in walk(outputs):
        if u.op is Op.DOT:
            *small, large = sorted(map(size_bytes, (u, *u.src)))
            if large >= max(limit, WORTH * sum(small)):
                found.add(large)
    return found


@mutable
class Level:
    """Large values that are made in one loop.

    Attributes:
        inside: what is made strip by strip, sources first.
        ends: what it is made for: small values, which alone exist in the end.
        numbers: what needs no memory to be made: it is made anew where it is wanted.
        again: whether contractions inside are made a second time.
    """

    inside: dict[UOp, None] = field(default_factory=dict)
    ends: dict[UOp, None] = field(default_factory=dict)
    numbers: Collection[UOp] = ()
    again: list[UOp] = field(default_factory=list)

    def computed(self, u: UOp) -> bool:
        """Whether it is made in the strip, not read."""
        return u in self.inside or u in self.ends or u in self.numbers

    def around(self) -> dict[UOp, None]:
        """What is read."""
        nodes = (*self.inside, *self.ends)
        return {s: None for u in nodes for s in u.src if not self.computed(s)}


class Landscape:
    """The large values of a function, and the small ones between them."""

    def __init__(self, outputs: Sequence[UOp], order: Sequence[UOp], limit: int) -> None:
        self.order, self.outputs = order, set(outputs)
        self.users: dict[UOp, list[UOp]] = {}
        self.numbers: set[UOp] = set()
        for u in order:
            for s in u.src:
                self.users.setdefault(s, []).append(u)
            made = u.src and u.op in PLAIN and not _regroups(u)
            if (made or u.op in (Op.IOTA, Op.CONST)) and self.numbers.issuperset(u.src):
                self.numbers.add(u)
        self.large = self._large(limit)
        self.between = self._between()
        members = self.large | self.between
        self.ends = {u for u in order if u not in members and not self.large.isdisjoint(u.src)}
        self.level = self._levels(members)

    def _large(self, limit: int) -> set[UOp]:
        """Without those that somebody wants whole."""
        found = {
            u
            for u in self.order
            if u.op in THROUGH and size_bytes(u) >= limit and u not in self.numbers
        } - self.outputs
        for u in reversed(self.order):
            if u in found and not all(
                user in found or (user.op in (Op.REDUCE, Op.DOT) and size_bytes(user) < limit)
                for user in self.users[u]
            ):
                found.discard(u)
        return found

    def _between(self) -> set[UOp]:
        """Small values that come from large ones and lead to large ones, not by a contraction."""
        after: set[UOp] = set()
        for u in self.order:
            if (
                u.op in ALONG
                and u not in self.large
                and (
                    not after.isdisjoint(u.src)
                    or (u.op is Op.REDUCE and not self.large.isdisjoint(u.src))
                )
            ):
                after.add(u)
        found: set[UOp] = set()
        for u in reversed(self.order):
            if u in after and any(v in found or v in self.large for v in self.users.get(u, ())):
                found.add(u)
        return found

    def _levels(self, members: set[UOp]) -> dict[UOp, int]:
        """How often a way to a value has left the large ones and come back."""
        level: dict[UOp, int] = {}
        beyond: dict[UOp, int] = {}  # the level of what is made of this value elsewhere
        for u in self.order:
            if u in members or u in self.ends:
                sources = (level[s] if s in members else beyond.get(s, 0) for s in u.src)
                level[u] = max(sources, default=0)
                beyond[u] = level[u] + 1
            else:
                beyond[u] = max((beyond.get(s, 0) for s in u.src), default=0)
        return level

    def clusters(self) -> list[list[Level]]:
        """Large values that hang together, in levels."""
        root: dict[UOp, UOp] = {}

        def find(u: UOp) -> UOp:
            while root.setdefault(u, u) is not u:
                root[u] = root[root[u]]
                u = root[u]
            return u

        for u in self.level:
            for s in u.src:
                if s in self.large or s in self.between:
                    root[find(u)] = find(s)
        groups: dict[UOp, dict[int, Level]] = {}
        for u in reversed(self.order):  # users first
            if u in self.level:
                levels = groups.setdefault(find(u), {})
                outside = u in self.outputs or any(v not in self.level for v in self.users[u])
                if u in self.ends or (u in self.between and outside):
                    levels.setdefault(self.level[u], Level()).ends[u] = None
        return [self._filled(levels) for levels in groups.values()]

    def _filled(self, levels: dict[int, Level]) -> list[Level]:
        """Each level with what its ends are made of, down to small values of levels before it."""
        for number in range(max(levels, default=-1), -1, -1):
            if number not in levels:
                continue
            level = levels[number]
            level.numbers = self.numbers
            inside: set[UOp] = set()
            waiting = list(level.ends)
            while waiting:
                for s in waiting.pop().src:
                    if s in self.between and self.level[s] < number:
                        levels.setdefault(self.level[s], Level()).ends[s] = None
                    elif (s in self.large or s in self.between) and s not in inside:
                        inside.add(s)
                        waiting.append(s)
            level.inside = {u: None for u in self.order if u in inside and u not in level.ends}
            level.again = [u for u in inside if u.op is Op.DOT and self.level[u] < number]
        return [levels[number] for number in sorted(levels)]


def _regroups(u: UOp) -> bool:
    """Whether axes become others, so that rows are no longer rows."""
    return (
        u.op is Op.RESHAPE
        and u.src[0].op is not Op.IOTA
        and ([n for n in u.shape if n != 1] != [n for n in u.src[0].shape if n != 1])
    )
