"""A modulo schedule as a table: a row for each cycle of the interval, a column for each slot.

A cell is an instruction; the number before it says of which iteration: 0 is the newest.
"""

from __future__ import annotations

from tfn.lower.pack.instructions import Loop
from tfn.lower.pack.machine import Machine
from tfn.lower.pack.modulo import Schedule, emitted_cycles

MAX_CELL = 30
"""Characters of a cell."""


def heading(loop: Loop, machine: Machine, found: Schedule | None) -> str:
    """The loop, what LLVM made of it, and the interval with its proof."""
    if loop.unknown:
        return f"loop {loop.name}: no schedule, for lack of a row for {loop.unknown!r}"
    emitted = (
        f"{loop.packets} packets and {emitted_cycles(loop, machine)} cycles as LLVM orders them"
        if machine.in_order
        else f"{loop.packets} instructions"
    )
    if found is None:
        return f"loop {loop.name}: {emitted}; no schedule was found"
    proofs = {
        "resources": "minimal: the units take as many",
        "recurrence": "minimal: a circle of dependences takes as many",
        "z3": "minimal: z3 finds no shorter one",
        "deadline": f"at least {found.bound}, until the deadline",
    }
    live = ", ".join(
        f"{n} of {machine.registers[file]} {file}" for file, n in found.live.items() if n
    )
    return (
        f"loop {loop.name}: {emitted}\n"
        f"modulo schedule: {found.interval} cycles, {proofs[found.proof]}; registers: {live}"
    )


def table(loop: Loop, machine: Machine, found: Schedule) -> str:
    """The schedule, cycle by slot."""
    cells: dict[tuple[int, str], str] = {}
    stages = max(found.cycles) // found.interval
    for item, cycle, units in zip(loop.body, found.cycles, found.units, strict=True):
        column = next((u for u in units if u in machine.slots), None)
        iteration = stages - cycle // found.interval
        if column is None:
            continue
        text = f"{iteration} {item.text}"
        row = cycle % found.interval
        cells[row, column] = text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"
        for unit in units:
            if unit in machine.slots and unit != column:
                cells.setdefault((row, unit), '"')
    used = [s for s in machine.slots if any(column == s for _, column in cells)]
    widths = {
        s: max(len(s), *(len(cells.get((row, s), "")) for row in range(found.interval)))
        for s in used
    }
    lines = ["cycle  " + "  ".join(s.ljust(widths[s]) for s in used)]
    for row in range(found.interval):
        lines.append(
            f"{row:5}  " + "  ".join(cells.get((row, s), "").ljust(widths[s]) for s in used)
        )
    return "\n".join(line.rstrip() for line in lines)
