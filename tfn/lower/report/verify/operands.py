"""Operand extents: the operands of every step lie within inputs, outputs and the arena.

A slot is a position with an offset, moved by the loops around it: its extent is the hull over all
their iterations.  A routine is called with slots for its inputs and outputs: the extents of its
steps are computed once, and translated into the slots of each call.

    for i in range(10):  k(x[offset 0 + 40 i: 40 bytes])        touches x[0: 400]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tfn.lower.program import (
    Branch,
    Call,
    HostCall,
    Kernel,
    Launch,
    Loop,
    Program,
    Routine,
    Slot,
    Space,
    Step,
)
from tfn.trace.build import count

Buffer = tuple[Space, int]
"""An input or output by its index, or the arena."""

Extent = tuple[int, int]
"""The first byte, and the end."""

ARENA = Space.ARENA, 0

OperandBytes = Mapping[Kernel, Mapping[int, int]]
"""The size that each kernel takes each of its operands to have, by number."""


@dataclass(slots=True)
class Extents:
    """The bytes of each buffer that steps touch.

    Attributes:
        hulls: of all that is touched, by buffer.
        extremes: the operand that goes furthest to either side, as text; True is the end.
    """

    hulls: dict[Buffer, Extent] = field(default_factory=dict)
    extremes: dict[tuple[Buffer, bool], str] = field(default_factory=dict)

    def touch(self, slot: Slot, size_bytes: int, trips: Mapping[int, int], name: str) -> None:
        """Add an operand, in all iterations of the loops that move it."""
        if size_bytes == 0:
            return
        arena = slot.space is Space.ARENA
        start = slot.offset + (slot.at if arena else 0)
        moves = [step * (trips[number] - 1) for number, step in slot.strides]
        low = start + sum(min(move, 0) for move in moves)
        high = start + sum(max(move, 0) for move in moves) + size_bytes
        buffer = ARENA if arena else (slot.space, slot.at)
        least, most = self.hulls.get(buffer, (low, high))
        if low <= least:
            self.extremes[buffer, False] = name
        if high >= most:
            self.extremes[buffer, True] = name
        self.hulls[buffer] = min(low, least), max(high, most)


class _Walk:
    """A walk over steps.

    Attributes:
        operands: sizes of the operands of kernels.
        routines: extents of routines, each computed once.
    """

    def __init__(self, operands: OperandBytes) -> None:
        self.operands = operands
        self.routines: dict[Routine, Extents] = {}

    def extents(self, steps: Iterable[Step]) -> Extents:
        """The extents of a program or a routine."""
        total = Extents()
        self._steps(steps, {}, total)
        return total

    def _steps(self, steps: Iterable[Step], trips: Mapping[int, int], total: Extents) -> None:
        for step in steps:
            if isinstance(step, Launch):
                sizes, name = self.operands[step.kernel], step.kernel.name
                for i, slot in enumerate(step.operands):
                    total.touch(slot, sizes.get(i, 0), trips, f"operand {i} of {name}")
            elif isinstance(step, HostCall):
                pairs = zip(step.operands, step.types, strict=True)
                for i, (slot, (shape, dtype)) in enumerate(pairs):
                    size_bytes = count(shape) * dtype.itemsize
                    total.touch(slot, size_bytes, trips, f"operand {i} of a call of the host")
            elif isinstance(step, Loop):
                if step.condition is not None:
                    total.touch(step.condition, 1, trips, "the condition of a loop")
                # Slots are not moved by a loop without a trip count: it has no slices.
                inside = trips if step.trips is None else {**trips, step.number: step.trips}
                self._steps((*step.head, *step.body), inside, total)
            elif isinstance(step, Branch):
                total.touch(step.index, 4, trips, "the index of a branch")
                for branch in step.branches:
                    self._steps(branch, trips, total)
            else:
                self._call(step, trips, total)

    def _call(self, step: Call, trips: Mapping[int, int], total: Extents) -> None:
        """Add the slots of a call, as far as the routine touches them."""
        routine = step.routine
        if routine not in self.routines:
            self.routines[routine] = self.extents(routine.steps)
        inner = self.routines[routine]
        for (space, at), (low, high) in inner.hulls.items():
            if space is Space.ARENA:
                slot = step.arena
            else:
                slot = step.operands[at + (routine.inputs if space is Space.OUTPUT else 0)]
            # The first and the last byte: the hull between them is touched by the callee.
            for byte in (low, high - 1):
                moved = Slot(slot.space, slot.at, slot.offset + byte, slot.strides)
                total.touch(moved, 1, trips, inner.extremes[(space, at), byte != low])


def out_of_bounds(program: Program, operands: OperandBytes) -> Iterator[str]:
    """Operands that leave the memory they are in, as messages."""
    sizes: dict[Buffer, int] = {ARENA: program.arena_bytes}
    for space, types in ((Space.INPUT, program.inputs), (Space.OUTPUT, program.outputs)):
        for i, (shape, dtype) in enumerate(types):
            sizes[space, i] = count(shape) * dtype.itemsize
    walk = _Walk(operands)
    yield from _violations(walk.extents(program.steps), sizes)
    for routine, extents in walk.routines.items():
        yield from _violations(extents, {ARENA: routine.arena_bytes})


def _violations(extents: Extents, sizes: Mapping[Buffer, int]) -> Iterator[str]:
    for buffer, (low, high) in extents.hulls.items():
        space, at = buffer
        size = sizes.get(buffer)
        name = space.value if space is Space.ARENA else f"{space.value} {at}"
        if size is not None and low < 0:
            yield f"{extents.extremes[buffer, False]} begins at byte {low} of the {name}"
        if size is not None and high > size:
            operand = extents.extremes[buffer, True]
            yield f"{operand} ends at byte {high:,} of the {name}, which has {size:,}"
