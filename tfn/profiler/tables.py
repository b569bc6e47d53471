"""Profiles as tables: for terminals with rich, and as HTML for notebooks.

kind     name     calls    total   share     mean      min      max  GFLOP/s   GB/s
program  step       100  1.21 s    88%    12.1 ms  11.8 ms  13.0 ms     91.2   14.1
compile  p1f3...      1  0.31 s    ...
"""

from __future__ import annotations

import html
import io
from collections.abc import Iterable, Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table

from tfn._support import events
from tfn._support.events import Event
from tfn._support.frozen import frozen
from tfn.lower.program import Program
from tfn.lower.report import cost

MAX_NAME_CHARACTERS = 24
"""The width of a name in a table: the figures need the rest of the line."""

MAX_REASONS = 8
"""Reasons of the latest compilations below a table."""


@frozen
class Row:
    """The events of one kind and name.

    Attributes:
        calls: how many there were; native calls that were not timed count too.
        total_ns: of all calls, those that were not timed taken to be like those that were.
        least_ns, most_ns: of one call.
        flops, traffic_bytes: of one call, where the program is still loaded.
    """

    kind: str
    name: str
    calls: int
    total_ns: float
    least_ns: int
    most_ns: int
    flops: float = 0.0
    traffic_bytes: float = 0.0

    @property
    def mean_ns(self) -> float:
        """The time of one call."""
        return self.total_ns / self.calls


def rows(listed: Iterable[Event]) -> list[Row]:
    """The events by kind and name, in the order of the time they took together.

    All programs that were lowered are one row, as are all that were compiled.
    """
    groups: dict[tuple[str, str], list[Event]] = {}
    for event in listed:
        # Programs are lowered and compiled under digests, which say nothing in a table.
        name = "" if event.kind in ("lower", "compile") else event.name
        groups.setdefault((event.kind, name), []).append(event)
    table = []
    for (kind, name), group in groups.items():
        times_ns = [event.duration_ns for event in group]
        total_ns = float(sum(event.duration_ns * event.calls for event in group))
        calls = sum(event.calls for event in group)
        work = _work([event.number for event in group])
        table.append(Row(kind, name, calls, total_ns, min(times_ns), max(times_ns), *work))
    return sorted(table, key=lambda row: -row.total_ns)


def _work(numbers: Sequence[int]) -> tuple[float, float]:
    """Floating operations and bytes of one call, if all are calls of one program."""
    # A program may have several entry points; a first call, which compiles, has no number yet.
    loaded = {events.named(number).program() for number in set(numbers) - {0}} - {None}
    if len(loaded) != 1:
        return 0.0, 0.0
    program: Program = loaded.pop().program
    return cost.work(program.function).flops, cost.traffic_bytes(program.steps)


def as_text(listed: Sequence[Event], begin_ns: int, end_ns: int, dropped: int, width: int) -> str:
    """The table of some events, the reasons of compilations, and what is missing.

    Args:
        listed: the events.
        begin_ns, end_ns: of the time of the profile.
        dropped: the number of earlier events that are gone.
        width: of the table in characters.
    """
    text = io.StringIO()
    console = Console(width=width, file=text)
    console.print(table(listed, begin_ns, end_ns))
    reasons = [f"{event.name}: {event.detail}" for event in listed if event.kind == "trace"]
    for reason in reasons[-MAX_REASONS:]:
        console.print(f"compiled {reason}", markup=False, highlight=False)
    if dropped:
        console.print(f"{dropped:,} earlier events have been dropped", highlight=False)
    return text.getvalue()


def table(listed: Iterable[Event], begin_ns: int, end_ns: int) -> Table:
    """The table for rich."""
    grid = Table(box=None, pad_edge=False)
    for head in HEADS:
        justify: Literal["left", "right"] = "left" if head in ("kind", "name") else "right"
        widest = MAX_NAME_CHARACTERS if head == "name" else None
        grid.add_column(head, justify=justify, no_wrap=True, overflow="ellipsis", max_width=widest)
    for row in rows(listed):
        grid.add_row(*_cells(row, end_ns - begin_ns))
    return grid


HEADS = ("kind", "name", "calls", "total", "share", "mean", "least", "most", "GFLOP/s", "GB/s")


def _cells(row: Row, all_ns: int) -> tuple[str, ...]:
    rates = [
        f"{amount * row.calls / row.total_ns:.1f}" if amount and row.total_ns else ""
        for amount in (row.flops, row.traffic_bytes)
    ]
    share = f"{100 * row.total_ns / max(1, all_ns):.1f}%"
    times = map(duration, (row.mean_ns, row.least_ns, row.most_ns))
    return row.kind, row.name, f"{row.calls:,}", duration(row.total_ns), share, *times, *rates


def duration(ns: float) -> str:
    """A time in the unit that people read it in.

    Example:
        >>> duration(950), duration(12_345), duration(2.5e6), duration(3e9)
        ('950 ns', '12.3 us', '2.50 ms', '3.00 s')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            value = ns / size
            return f"{value:.2f} {unit}" if value < 10 else f"{value:.1f} {unit}"
    return f"{ns:.0f} ns"


def as_html(listed: Iterable[Event], begin_ns: int, end_ns: int) -> str:
    """The table as HTML, with bars for the shares."""
    head = "".join(f"<th>{name}</th>" for name in HEADS)
    body = []
    for row in rows(listed):
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row, end_ns - begin_ns))
        share = 100 * min(1.0, row.total_ns / max(1, end_ns - begin_ns))
        bar = f"linear-gradient(90deg, #8ab4f855 {share:.1f}%, transparent {share:.1f}%)"
        body.append(f'<tr style="background:{bar}">{cells}</tr>')
    return f"<table><tr>{head}</tr>{''.join(body)}</table>"
