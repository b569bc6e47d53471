"""Oversized intermediates: values too large to materialise, as a component graph of segments.

Contractions compute large values of small ones, and later ones reduce them to small values, as an
attention does with its scores::

    s = dot q k; m = max s; e = exp (s - m); n = sum e; p = e / n; o = dot p v

Here s, e and p are *oversized*; m and n are *reduced*: small, but between oversized values, to
which they lead back by elementwise work alone.  The value o leaves through a contraction.

A path that leaves the oversized values and comes back to them, as the cotangent of o does in the
backward pass, begins a new *segment*.  The values of one segment can be computed in one loop.  An
oversized value of an earlier segment is recomputed in each segment that reads it, from the small
values that are stored.  Segments connected by oversized or reduced values are a *component*.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field
from math import prod

from tfn._support.frozen import mutable
from tfn.trace.op import ELEMENTWISE, MOVEMENT, Op
from tfn.trace.uop import UOp, walk

MIN_LARGE_TO_SMALL_RATIO = 1.0
"""Bytes of an oversized value for each byte of the small values around it, at least.

Recomputing reads the small values again, so it saves memory traffic only where they are smaller.
Attention pays from the length at which its scores are as large as queries, keys and values.
"""

PLAIN = ELEMENTWISE | MOVEMENT
OVERSIZED_OPS = PLAIN | {Op.REDUCE, Op.DOT}
"""Ops whose results may be oversized values: flash attention can run them in blocks."""

REDUCED_OPS = ELEMENTWISE | {Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.REDUCE}
"""Ops whose results may be reduced values: no contraction, nothing that mixes rows."""


def working_bytes(u: UOp) -> int:
    """Bytes of a value in computation, where narrower numbers are widened to 32 bits."""
    return u.size * max(u.dtype.itemsize, 4)


def read_again(u: UOp) -> list[UOp]:
    """The operands of a contraction of which it reads each element more than once.

    A matrix that is multiplied by a vector is not one: it is computed where it is read.
    """
    if u.op is not Op.DOT:
        return [*u.src]
    return [s for s, times in zip(u.src, reversed(free_sizes(u)), strict=True) if times > 1]


def free_sizes(u: UOp) -> list[int]:
    """The rows and the columns of each matrix that a DOT computes."""
    sides = (u.arg.batch_a, u.arg.contract_a), (u.arg.batch_b, u.arg.contract_b)
    return [
        prod(n for i, n in enumerate(s.shape) if i not in (*batch, *sums))
        for s, (batch, sums) in zip(u.src, sides, strict=True)
    ]


def oversized_bytes(outputs: Sequence[UOp], limit: int) -> set[int]:
    """The sizes, from `limit` bytes on, of values that contractions make of small ones or reduce.

    A contraction counts if its largest operand or result outweighs the two others.
    """
    sizes: set[int] = set()
    for u in walk(outputs):
        if u.op is Op.DOT:
            *small, large = sorted(map(working_bytes, (u, *u.src)))
            once = not any(working_bytes(s) == large for s in (u, *read_again(u)))
            if not once and large >= max(limit, MIN_LARGE_TO_SMALL_RATIO * sum(small)):
                sizes.add(large)
    return sizes


@mutable
class Segment:
    """Oversized values that are computed in one loop.

    Attributes:
        interior: the values computed block by block, sources first, and never materialised.
        results: the small values computed of them, which are materialised.
        generated: values that need no memory to be computed; each reader computes its own.
        recomputed: contractions of the interior that an earlier segment computes, too.
    """

    interior: dict[UOp, None] = field(default_factory=dict)
    results: dict[UOp, None] = field(default_factory=dict)
    generated: Collection[UOp] = ()
    recomputed: list[UOp] = field(default_factory=list)

    def computes(self, u: UOp) -> bool:
        """Whether a value is computed in the loop, not read from memory."""
        return u in self.interior or u in self.results or u in self.generated

    def inputs(self) -> dict[UOp, None]:
        """The values read from memory."""
        nodes = (*self.interior, *self.results)
        return {s: None for u in nodes for s in u.src if not self.computes(s)}


class Intermediates:
    """The oversized values of a function, and the reduced ones between them."""

    def __init__(self, outputs: Sequence[UOp], order: Sequence[UOp], limit: int) -> None:
        self.order, self.outputs = order, set(outputs)
        self.position = {u: i for i, u in enumerate(order)}
        self.users: dict[UOp, list[UOp]] = {}
        self.generated: set[UOp] = set()
        for u in order:
            for s in u.src:
                self.users.setdefault(s, []).append(u)
            # Masks and positions: computed of iotas and constants alone.
            plain = u.src and u.op in PLAIN and not _regroups(u)
            if (plain or u.op in (Op.IOTA, Op.CONST)) and self.generated.issuperset(u.src):
                self.generated.add(u)
        self.oversized = self._oversized(limit)
        self.reduced = self._reduced()
        members = self.oversized | self.reduced
        self.results = {
            u for u in order if u not in members and not self.oversized.isdisjoint(u.src)
        }
        self.segment_index = self._segment_indices(members)

    def _oversized(self, limit: int) -> set[UOp]:
        """Large values, except those that some reader needs as a whole."""
        oversized = {
            u
            for u in self.order
            if u.op in OVERSIZED_OPS and working_bytes(u) >= limit and u not in self.generated
        } - self.outputs
        # Users first: a value that must exist makes all that it reads element by element exist.
        for u in reversed(self.order):
            if u in oversized and not all(
                user in oversized
                or (user.op in (Op.REDUCE, Op.DOT) and working_bytes(user) < limit)
                for user in self.users[u]
            ):
                oversized.discard(u)
        return oversized

    def _reduced(self) -> set[UOp]:
        """Small values that come from oversized ones and lead back to them, without a contraction.

        ::

            m = max s; e = exp (s - expand m)      m and expand m
        """
        after: set[UOp] = set()
        for u in self.order:
            if (
                u.op in REDUCED_OPS
                and u not in self.oversized
                and (
                    not after.isdisjoint(u.src)
                    or (u.op is Op.REDUCE and not self.oversized.isdisjoint(u.src))
                )
            ):
                after.add(u)
        reduced: set[UOp] = set()
        for u in reversed(self.order):
            users = self.users.get(u, ())
            if u in after and any(v in reduced or v in self.oversized for v in users):
                reduced.add(u)
        return reduced

    def _segment_indices(self, members: set[UOp]) -> dict[UOp, int]:
        """The segment of each value: how often a path to it has left `members` before, at most."""
        index: dict[UOp, int] = {}
        outside: dict[UOp, int] = {}  # the segment of members that read this value from outside
        for u in self.order:
            if u in members or u in self.results:
                sources = (index[s] if s in members else outside.get(s, 0) for s in u.src)
                index[u] = max(sources, default=0)
                outside[u] = index[u] + 1
            elif not outside.keys().isdisjoint(u.src):
                outside[u] = max(outside.get(s, 0) for s in u.src)
        return index

    def components(self) -> list[list[Segment]]:
        """The connected components of oversized and reduced values, each as its segments."""
        parent: dict[UOp, UOp] = {}

        def find(u: UOp) -> UOp:
            # Union-find with path halving.
            while parent.setdefault(u, u) is not u:
                parent[u] = parent[parent[u]]
                u = parent[u]
            return u

        for u in self.segment_index:
            for s in u.src:
                if s in self.oversized or s in self.reduced:
                    parent[find(u)] = find(s)
        groups: dict[UOp, dict[int, Segment]] = {}
        for u in reversed(self.order):  # users first
            if u in self.segment_index:
                segments = groups.setdefault(find(u), {})
                users = self.users.get(u, ())
                outside = u in self.outputs or any(v not in self.segment_index for v in users)
                if u in self.results or (u in self.reduced and outside):
                    segments.setdefault(self.segment_index[u], Segment()).results[u] = None
        return [self._fill(segments) for segments in groups.values()]

    def _fill(self, segments: dict[int, Segment]) -> list[Segment]:
        """Adds the interior of each segment, down to reduced values of segments before it.

        Last segment first, since a reduced value that it reads becomes a result of an earlier one.
        """
        for number in range(max(segments, default=-1), -1, -1):
            if number not in segments:
                continue
            segment = segments[number]
            segment.generated = self.generated
            interior: set[UOp] = set()
            stack = list(segment.results)
            while stack:
                for s in stack.pop().src:
                    if s in self.reduced and self.segment_index[s] < number:
                        earlier = segments.setdefault(self.segment_index[s], Segment())
                        earlier.results[s] = None
                    elif (s in self.oversized or s in self.reduced) and s not in interior:
                        interior.add(s)
                        stack.append(s)
            inside = sorted(interior - segment.results.keys(), key=self.position.__getitem__)
            segment.interior = dict.fromkeys(inside)
            segment.recomputed = [
                u for u in interior if u.op is Op.DOT and self.segment_index[u] < number
            ]
        return [segments[number] for number in sorted(segments)]


def _regroups(u: UOp) -> bool:
    """Whether a reshape merges or splits axes, so that rows are no longer rows."""
    return (
        u.op is Op.RESHAPE
        and u.src[0].op is not Op.IOTA
        and ([n for n in u.shape if n != 1] != [n for n in u.src[0].shape if n != 1])
    )
