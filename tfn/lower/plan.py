"""Memory: every value between kernels gets its place in one arena, by lifetime.

A value lives from the launch that first writes it to the last that reads it.  Places are given
largest first, each at the lowest offset that is free for its whole life; the arena is as large as
the highest end, and is known before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfn.lower.kernel import Slot, Space
from tfn.lower.ranges import Stage
from tfn.trace.build import count
from tfn.trace.op import Op
from tfn.trace.uop import UOp

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Life:
    """From the launch that makes a value to the last that uses it, inclusive."""

    size_bytes: int
    first: int
    last: int


def size_bytes(node: UOp) -> int:
    """Bytes of a value, rounded up to whole cache lines."""
    return -(-count(node.shape) * node.dtype.itemsize // ALIGNMENT) * ALIGNMENT


def lives(stages: Sequence[Stage], kept: set[UOp]) -> dict[UOp, Life]:
    """The lifetime of each intermediate value; those in `kept` have places of their own."""
    out: dict[UOp, Life] = {}
    for i, stage in enumerate(stages):
        for node in stage.operands:
            if node.op is Op.PARAM or node in kept:
                continue
            first = out[node].first if node in out else i
            out[node] = Life(size_bytes(node), first, i)
    return out


def arena(values: Mapping[UOp, Life]) -> tuple[dict[UOp, int], int]:
    """The offset of each value, and the size of the arena in bytes."""
    placed: list[tuple[int, int, Life]] = []
    offsets: dict[UOp, int] = {}
    for node, life in sorted(values.items(), key=lambda item: (-item[1].size_bytes, item[1].first)):
        busy = sorted(
            (start, end) for start, end, other in placed
            if other.first <= life.last and life.first <= other.last
        )  # fmt: skip
        at = 0
        for start, end in busy:
            if start - at >= life.size_bytes:
                break
            at = max(at, end)
        offsets[node] = at
        placed.append((at, at + life.size_bytes, life))
    return offsets, max((end for _, end, _ in placed), default=0)


class Memory:
    """What the launches since the last barrier have read and written."""

    def __init__(self) -> None:
        self.touched: list[tuple[Space, int, int, bool]] = []

    def must_wait(self, slots: Sequence[Slot], sizes: Sequence[int], written: int) -> bool:
        """Note a launch whose first operands are written; whether a barrier must come before it.

        Two launches must not run at once if one writes what the other touches.
        """
        new = []
        for i, (slot, size) in enumerate(zip(slots, sizes, strict=True)):
            end = slot.at + (size if slot.space is Space.ARENA else 1)
            new.append((slot.space, slot.at, end, i < written))
        conflict = any(
            space is other and start < stop and begin < end and (writes or wrote)
            for space, start, end, writes in new
            for other, begin, stop, wrote in self.touched
        )
        self.touched = new if conflict else self.touched + new
        return conflict
