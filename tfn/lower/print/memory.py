"""The launches of a program and the plan of its memory, as two tables.

    launch  waits  kernel  writes      reads
    0              0       c:f32[4,8]  a:f32[4,8]
    1       yes    1       d:f32[]     c:f32[4,8]

    value       bytes  place    launches
    c:f32[4,8]  128    arena 0  0-1

``waits``: all threads finish what came before first.  Values of the arena share bytes if no launch
uses both.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.lower.kernel import Program, Slot
from tfn.lower.plan import size_bytes
from tfn.lower.print.graph import Graph
from tfn.lower.ranges import Stage
from tfn.trace.build import count
from tfn.trace.uop import UOp

FEW = 4
"""Names in one cell of a table."""


def memory(program: Program, stages: Sequence[Stage], graph: Graph) -> str:
    """The tables of a program; `stages` are its launches before they were lowered."""
    launches, slots = [], dict[UOp, Slot]()
    lives: dict[UOp, list[int]] = {}
    for i, (launch, stage) in enumerate(zip(program.launches, stages, strict=True)):
        slots.update(zip(stage.operands, launch.operands, strict=True))
        for u in stage.operands:
            lives.setdefault(u, []).append(i)
        names = [graph.typed(u) for u in stage.operands]
        launches.append((
            str(i), "yes" if launch.barrier else "", str(stage.operands[0].arg),
            few(names[: stage.written]), few(names[stage.written :]),
        ))  # fmt: skip
    values = [
        (
            graph.typed(u),
            str(count(u.shape) * u.dtype.itemsize),
            f"{slot.space.value} {slot.at}",
            span(lives[u]),
        )
        for u, slot in slots.items()
    ]
    apart = sum(size_bytes(u) for u, slot in slots.items() if slot.space.value == "arena")
    return "\n\n".join([
        table(("launch", "waits", "kernel", "writes", "reads"), launches),
        table(("value", "bytes", "place", "launches"), values),
        f"arena: {program.arena_bytes} bytes ({apart} if nothing were shared); "
        f"barriers and counters: {program.sync_bytes} bytes",
    ])  # fmt: skip


def few(names: Sequence[str]) -> str:
    """A list that fits a table; the other table names every value."""
    rest = f", and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + rest


def span(launches: Sequence[int]) -> str:
    """From the first to the last: ``0-3``."""
    first, last = min(launches), max(launches)
    return str(first) if first == last else f"{first}-{last}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as what is in them."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths)) for row in (head, *rows))
    return "\n".join(line.rstrip() for line in lines)
