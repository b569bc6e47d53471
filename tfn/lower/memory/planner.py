"""Memory: every value between kernels gets its place in one arena, by lifetime.

A value lives from the launch that first writes it to the last that reads it.  Places are given
largest first, each at the lowest offset that is free for its whole life; the arena is as large as
the highest end, and is known before anything runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from tfn._support.frozen import frozen
from tfn.lower.program import Space

Key = TypeVar("Key", bound=Hashable)
Extent = tuple[Space, int, int]
"""Memory from a position to another: bytes of the arena, or whole inputs and outputs."""


@frozen
class Life:
    """From the position that makes a value to the last that uses it, inclusive."""

    size_bytes: int
    first: int
    last: int


def arena(values: Mapping[Key, Life]) -> tuple[dict[Key, int], int]:
    """The offset of each value, and the size of the arena in bytes."""
    lives = sorted(values.items(), key=lambda item: (-item[1].size_bytes, item[1].first))
    first, last = (np.array([getattr(life, end) for _, life in lives]) for end in ("first", "last"))
    starts, ends = np.zeros((2, len(lives)), np.int64)
    for i, (_, life) in enumerate(lives):
        busy = np.flatnonzero((first[:i] <= life.last) & (life.first <= last[:i]))
        busy = busy[starts[busy].argsort()]
        free = np.zeros(len(busy) + 1, np.int64)  # before all of them, and after each
        np.maximum.accumulate(ends[busy], out=free[1:])
        gaps = np.flatnonzero(starts[busy] - free[:-1] >= life.size_bytes)
        starts[i] = free[gaps[0] if len(gaps) else -1]
        ends[i] = starts[i] + life.size_bytes
    offsets = {node: start for (node, _), start in zip(lives, starts.tolist(), strict=True)}
    return offsets, int(ends.max(initial=0))


class Memory:
    """What the launches since the last barrier have read and written."""

    def __init__(self) -> None:
        self.touched: list[tuple[Extent, bool]] = []

    def clear(self) -> bool:
        """A barrier: forget what has been touched; whether there was anything."""
        some = bool(self.touched)
        self.touched = []
        return some

    def must_wait(self, extents: Sequence[Extent], written: int) -> bool:
        """Note a launch whose first operands are written; whether a barrier must come before it.

        Two launches must not run at once if one writes what the other touches.
        """
        new = [(extent, i < written) for i, extent in enumerate(extents)]
        conflict = any(
            space is other and start < stop and begin < end and (writes or wrote)
            for (space, start, end), writes in new
            for (other, begin, stop), wrote in self.touched
        )
        self.touched = new if conflict else self.touched + new
        return conflict
