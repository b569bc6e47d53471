"""Memory planner: steps whose values are views, and live ranges packed into one arena.

A value is live from the launch that first writes it to the last that reads it.  Values are placed
largest first, each at the lowest offset that is free for its whole live range; the arena is as
large as the highest end, and is known before anything runs::

    a |####    |   256 bytes at   0
    b |   #### |   128 bytes at 256
    c |     ###|   128 bytes at   0      a is dead
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tfn._support.frozen import frozen, mutable
from tfn.lower.fuse.ranges import IndexedKernel, Region
from tfn.lower.program import HostCall, Kernel, Loop, Routine, Space
from tfn.trace.uop import UOp

Key = TypeVar("Key", bound=Hashable)


@frozen
class LiveRange:
    """A value's size, and the first and last position that uses it, inclusive."""

    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Allocation:
    """Memory of a value: an input or output of the program, or a part of the arena.

    Attributes:
        at: the index of an input or output; 0 in the arena, where the planner decides.
        size_bytes: of a part of the arena.
    """

    space: Space
    at: int
    size_bytes: int


@frozen
class View:
    """A value in an allocation: all of it, or the slice of the present iteration of loops."""

    allocation: Allocation
    offset: int = 0
    strides: tuple[tuple[int, int], ...] = ()


@mutable
class PlannedStep:
    """A step whose operands are still views.  One of kernel, loop, index, host, callee is set.

    Attributes:
        position: in the text; live ranges count in positions.
        origin: the kernel or region it was made from; a copy has none.
        operands, written: views, of which the first `written` are results.
        condition, head, body: of a loop.
        index, branches: of a branch.
        callee: of a call, the schedule of the routine.
    """

    position: int
    origin: IndexedKernel | Region | None = None
    kernel: Kernel | None = None
    operands: tuple[View, ...] = ()
    written: int = 0
    loop: Loop | None = None
    condition: View | None = None
    head: ScheduledFunction | None = None
    body: ScheduledFunction | None = None
    index: View | None = None
    branches: Sequence[ScheduledFunction] = ()
    host: HostCall | None = None
    callee: Schedule | None = None


@frozen
class ScheduledFunction:
    """A function with its barriers, its steps, and the view of each value."""

    function: UOp
    steps: Sequence[PlannedStep]
    views: Mapping[UOp, View]


@frozen
class Schedule:
    """A whole function, scheduled.

    Attributes:
        routine: its steps, with the memory they need beside inputs and outputs.
        scheduled: the same steps with the graph they were made from, for reports.
        live_ranges: of each allocation in the arena, by position.
        offsets: of each allocation in the arena.
    """

    routine: Routine
    scheduled: ScheduledFunction
    live_ranges: Mapping[Allocation, LiveRange]
    offsets: Mapping[Allocation, int]


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
