"""Memory planner: live ranges of all intermediates packed into one arena; hazards and barriers.

A value is live from the launch that first writes it to the last that reads it.  Values are placed
largest first, each at the lowest offset that is free for its whole live range; the arena is as
large as the highest end, and is known before anything runs::

    a |####    |   256 bytes at   0
    b |   #### |   128 bytes at 256
    c |     ###|   128 bytes at   0      a is dead
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from tfn._support.frozen import frozen
from tfn.lower.program import Space

Key = TypeVar("Key", bound=Hashable)
Extent = tuple[Space, int, int]
"""Memory between two positions: bytes of the arena, or whole inputs and outputs."""


@frozen
class LiveRange:
    """A value's size, and the first and last position that uses it, inclusive."""

    size_bytes: int
    first: int
    last: int


def plan_arena(values: Mapping[Key, LiveRange]) -> tuple[dict[Key, int], int]:
    """The offset of each value, and the size of the arena in bytes."""
    largest_first = sorted(values.items(), key=lambda item: (-item[1].size_bytes, item[1].first))
    first, last = (
        np.array([getattr(live, end) for _, live in largest_first]) for end in ("first", "last")
    )
    starts, ends = np.zeros((2, len(largest_first)), np.int64)
    for i, (_, live) in enumerate(largest_first):
        overlapping = np.flatnonzero((first[:i] <= live.last) & (live.first <= last[:i]))
        overlapping = overlapping[starts[overlapping].argsort()]
        # Where memory is free: before all overlapping values, and after each and those before it.
        free = np.zeros(len(overlapping) + 1, np.int64)
        np.maximum.accumulate(ends[overlapping], out=free[1:])
        gaps = np.flatnonzero(starts[overlapping] - free[:-1] >= live.size_bytes)
        # The lowest gap that is large enough, or else the end of all of them.
        starts[i] = free[gaps[0] if len(gaps) else -1]
        ends[i] = starts[i] + live.size_bytes
    offsets = {key: start for (key, _), start in zip(largest_first, starts.tolist(), strict=True)}
    return offsets, int(ends.max(initial=0))


class Intervals:
    """Disjoint intervals in order: whether another overlaps one is found by bisection."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def overlap(self, start: int, end: int) -> bool:
        """Whether one of them and the interval from start to end share a position."""
        i = bisect.bisect_right(self.ends, start)
        return i < len(self.ends) and self.starts[i] < end

    def add(self, start: int, end: int) -> None:
        """Add an interval: those that it overlaps or touches become one with it."""
        if start == end:
            return
        i, j = bisect.bisect_left(self.ends, start), bisect.bisect_right(self.starts, end)
        if i < j:
            start, end = min(start, self.starts[i]), max(end, self.ends[j - 1])
        self.starts[i:j], self.ends[i:j] = [start], [end]


class Hazards:
    """Reads and writes since the last barrier, and the launches that conflict with them.

    Args:
        read: what is read already.
    """

    def __init__(self, read: Sequence[Extent] = ()) -> None:
        self.accessed: dict[Space, Intervals] = defaultdict(Intervals)
        self.written: dict[Space, Intervals] = defaultdict(Intervals)
        self.needs_barrier(read, 0)

    def clear(self) -> bool:
        """Forget all accesses, as after a barrier; returns whether there were any."""
        any_access = any(intervals.starts for intervals in self.accessed.values())
        self.accessed.clear()
        self.written.clear()
        return any_access

    def needs_barrier(self, extents: Sequence[Extent], written: int) -> bool:
        """Add a launch whose first `written` operands are written; whether a barrier precedes it.

        Two launches must not run at once if one writes memory that the other accesses.
        """
        conflict = any(
            (self.accessed if i < written else self.written)[space].overlap(start, end)
            for i, (space, start, end) in enumerate(extents)
        )
        if conflict:
            self.clear()
        for i, (space, start, end) in enumerate(extents):
            self.accessed[space].add(start, end)
            if i < written:
                self.written[space].add(start, end)
        return conflict
