"""That the operands of every step lie within inputs, outputs and the arena.

A slot is a position with an offset, moved by the loops around it: its extent is the hull over all
their iterations.  A routine is called with slots for its inputs and outputs: what it needs of them
is found once, and asked of the slots of each call.

    for i in range(10):  k(x[offset 0 + 40 i: 40 bytes])        needs x[0: 400]
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
Extent = tuple[int, int]
"""From a byte to another, exclusive."""
ARENA = Space.ARENA, 0


@dataclass(slots=True)
class Needs:
    """What steps touch of each buffer.

    Attributes:
        extents: the hull of all that is touched, by buffer.
        who: the step that goes furthest to either side, in words.
    """

    extents: dict[Buffer, Extent] = field(default_factory=dict)
    who: dict[tuple[Buffer, bool], str] = field(default_factory=dict)

    def touch(self, slot: Slot, size_bytes: int, trips: Mapping[int, int], who: str) -> None:
        """Note an operand of so many bytes."""
        if size_bytes == 0:
            return
        arena = slot.space is Space.ARENA
        start = slot.offset + (slot.at if arena else 0)
        moves = [step * (trips[number] - 1) for number, step in slot.steps]
        low = start + sum(min(move, 0) for move in moves)
        high = start + sum(max(move, 0) for move in moves) + size_bytes
        buffer = ARENA if arena else (slot.space, slot.at)
        least, most = self.extents.get(buffer, (low, high))
        if low <= least:
            self.who[buffer, False] = who
        if high >= most:
            self.who[buffer, True] = who
        self.extents[buffer] = min(low, least), max(high, most)


Operands = Mapping[Kernel, Mapping[int, int]]
"""How many bytes kernels take their operands to have, by number."""


def needs(steps: Iterable[Step], operands: Operands, found: dict[Routine, Needs]) -> Needs:
    """What steps touch; `found` keeps what routines do."""
    total = Needs()
    _steps(steps, {}, total, operands, found)
    return total


def _steps(
    steps: Iterable[Step],
    trips: Mapping[int, int],
    total: Needs,
    operands: Operands,
    found: dict[Routine, Needs],
) -> None:
    for step in steps:
        if isinstance(step, Launch):
            sizes = operands[step.kernel]
            for i, slot in enumerate(step.operands):
                total.touch(slot, sizes.get(i, 0), trips, f"operand {i} of {step.kernel.name}")
        elif isinstance(step, HostCall):
            for i, (slot, (shape, dtype)) in enumerate(zip(step.operands, step.types, strict=True)):
                size = count(shape) * dtype.itemsize
                total.touch(slot, size, trips, f"operand {i} of a call of the host")
        elif isinstance(step, Loop):
            if step.condition is not None:
                total.touch(step.condition, 1, trips, "the condition of a loop")
            inside = trips if step.trips is None else {**trips, step.number: step.trips}
            _steps((*step.head, *step.body), inside, total, operands, found)
        elif isinstance(step, Branch):
            total.touch(step.index, 4, trips, "the index of a branch")
            for way in step.ways:
                _steps(way, trips, total, operands, found)
        else:
            _called(step, trips, total, operands, found)


def _called(
    step: Call,
    trips: Mapping[int, int],
    total: Needs,
    operands: Operands,
    found: dict[Routine, Needs],
) -> None:
    """The slots of a call, as far as the routine goes in them."""
    inner = found.get(step.routine)
    if inner is None:
        inner = found[step.routine] = needs(step.routine.steps, operands, found)
    for (space, at), (low, high) in inner.extents.items():
        if space is Space.ARENA:
            slot = step.arena
        else:
            slot = step.operands[at + (step.routine.inputs if space is Space.OUTPUT else 0)]
        for end in (low, high - 1):
            moved = Slot(slot.space, slot.at, slot.offset + end, slot.steps)
            total.touch(moved, 1, trips, inner.who[(space, at), end != low])


def misplaced(program: Program, operands: Operands) -> Iterator[str]:
    """Operands that leave the memory they are in, in words."""
    sizes: dict[Buffer, int] = {ARENA: program.arena_bytes}
    for space, types in ((Space.INPUT, program.inputs), (Space.OUTPUT, program.outputs)):
        for i, (shape, dtype) in enumerate(types):
            sizes[space, i] = count(shape) * dtype.itemsize
    found: dict[Routine, Needs] = {}
    yield from _outside(needs(program.steps, operands, found), sizes)
    for routine, inner in found.items():
        yield from _outside(inner, {ARENA: routine.arena_bytes})


def _outside(found: Needs, sizes: Mapping[Buffer, int]) -> Iterator[str]:
    for buffer, (low, high) in found.extents.items():
        space, at = buffer
        size = sizes.get(buffer)
        name = space.value if space is Space.ARENA else f"{space.value} {at}"
        if size is not None and low < 0:
            yield f"{found.who[buffer, False]} begins at byte {low} of the {name}"
        if size is not None and high > size:
            who = found.who[buffer, True]
            yield f"{who} ends at byte {high:,} of the {name}, which has {size:,}"
