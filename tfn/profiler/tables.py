"""Profiles as tables: for terminals with rich, and as HTML for notebooks.

kind     name     calls    total   share     mean      min      max  GFLOP/s   GB/s
program  step       100  1.21 s    88%    12.1 ms  11.8 ms  13.0 ms     91.2   14.1
compile  p1f3...      1  0.31 s    ...
"""

from __future__ import annotations

import html
import io
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table

from tfn.extend import Program, events, frozen, pipeline, run
from tfn.inspect import plots
from tfn.lower.report import cost
from tfn.profiler import buffers, export
from tfn.profiler.buffers import BufferLife
from tfn.profiler.kernel_events import work_of
from tfn.profiler.units import UNITS, duration

MIN_NAME_CHARACTERS = 12
"""The width of names for which a table gives up the extremes of times."""

GAP = 2
"""Spaces between columns."""

HTML_WIDTH = 130
"""Characters of a line of the table of buffers in HTML."""

MAX_ROWS = 40
"""Rows of a table, those that took most: a training step has hundreds of kernels."""

MAX_REASONS = 8
"""Reasons of the latest compilations below a table."""


@frozen
class Row:
    """The events of one kind and name.

    The total of a kernel is that of all its threads, and its rates are those of each: they compare
    with what one core can do.  Its other times are of the thread that took longest.

    Attributes:
        calls: how many there were; native calls that were not timed count too.
        total_ns: of all calls, those that were not timed taken to be like those that were.
        mean_ns, least_ns, most_ns: of one call.
        flops, traffic_bytes: of one call, where the program is still loaded.
    """

    kind: str
    name: str
    calls: int
    total_ns: float
    mean_ns: float
    least_ns: int
    most_ns: int
    flops: float = 0.0
    traffic_bytes: float = 0.0


def rows(listed: Iterable[events.Event]) -> list[Row]:
    """The events by kind and name, in the order of the time they took together.

    All programs that were lowered are one row, as are all that were compiled.
    """
    groups: dict[tuple[str, str], list[events.Event]] = {}
    listed = list(listed)
    begins = sorted(event.begin_ns for event in listed if event.kind == "program")
    for event in listed:
        # Programs are lowered and compiled under digests, which say nothing in a table.
        name = "" if event.kind in ("lower", "compile") else event.name
        groups.setdefault((event.kind, name), []).append(event)
    table = []
    for (kind, name), group in groups.items():
        times_ns = _times_ns(group, begins) if kind == "kernel" else list(map(_duration_ns, group))
        total_ns = float(sum(event.duration_ns * event.calls for event in group))
        calls = sum(event.calls for event in group if event.worker == 0 or kind == "wait") or 1
        work = _work(group)
        mean_ns = sum(times_ns) / len(times_ns) if kind == "kernel" else total_ns / calls
        times = total_ns, mean_ns, min(times_ns), max(times_ns)
        table.append(Row(kind, name, max(1, calls), *times, *work))
    return sorted(table, key=lambda row: -row.total_ns)


def _duration_ns(event: events.Event) -> int:
    return event.duration_ns


def _times_ns(group: Sequence[events.Event], begins: Sequence[int]) -> list[int]:
    """The time of each run of a kernel: that of the thread that took longest, for each call."""
    times_ns: dict[int, int] = {}
    for event in group:
        call = bisect_right(begins, event.begin_ns)
        times_ns[call] = max(event.duration_ns, times_ns.get(call, 0))
    return list(times_ns.values())


def _work(group: Sequence[events.Event]) -> tuple[float, float]:
    """Floating operations and bytes of one call, if all are calls of one program."""
    if group[0].kind == "collective":  # one that is fused takes no time of its own
        moved = sum(event.moved_bytes * event.calls for event in group)
        return 0.0, moved / max(1, sum(event.calls for event in group))
    if group[0].kind != "program":
        kernel = work_of(group[0]) if group[0].kind == "kernel" else None
        return (kernel.flops, float(kernel.traffic_bytes)) if kernel else (0.0, 0.0)
    numbers = [event.number for event in group]
    # A program may have several entry points; a first call, which compiles, has no number yet.
    loaded = {events.named(number).program() for number in set(numbers) - {0}} - {None}
    if len(loaded) != 1:
        return 0.0, 0.0
    program: Program = loaded.pop().program
    lowered = pipeline.with_bodies(program, run.device("cpu").target)
    return cost.work(program.function).flops, cost.traffic_bytes(lowered.steps)


def as_text(
    listed: Sequence[events.Event], begin_ns: int, end_ns: int, dropped: int, width: int
) -> str:
    """The table of some events, the reasons of compilations, and what is missing.

    Args:
        listed: the events.
        begin_ns, end_ns: of the time of the profile.
        dropped: the number of earlier events that are gone.
        width: of the table in characters.
    """
    text = io.StringIO()
    console = Console(width=width, file=text)
    console.print(table(listed, begin_ns, end_ns, width))
    more = len(rows(listed)) - len(_shown(listed))
    if more > 0:
        console.print(f"and {more} more", highlight=False)
    reasons = [f"{event.name}: {event.detail}" for event in listed if event.kind == "trace"]
    for reason in reasons[-MAX_REASONS:]:
        console.print(f"compiled {reason}", markup=False, highlight=False)
    if dropped:
        console.print(f"{dropped:,} earlier events have been dropped", highlight=False)
    return text.getvalue()


def _shown(listed: Iterable[events.Event]) -> list[Row]:
    """The rows that took most, and all collectives: those that are fused take no time."""
    every = rows(listed)
    return every[:MAX_ROWS] + [row for row in every[MAX_ROWS:] if row.kind == "collective"]


def table(listed: Iterable[events.Event], begin_ns: int, end_ns: int, width: int) -> Table:
    """The table for rich: the figures are whole, and names have what they leave of a line.

    A narrow terminal has no room for the extremes of times.
    """
    grid = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    lines = [_cells(row, end_ns - begin_ns) for row in _shown(listed)]
    widths = [max(map(len, column)) for column in zip(HEADS, *lines)]
    shown, room = list(range(len(HEADS))), 0
    for left_out in ((), ("least", "most")):
        shown = [i for i, head in enumerate(HEADS) if head not in left_out]
        room = width - sum(widths[i] + GAP for i in shown if HEADS[i] != "name")
        if room >= MIN_NAME_CHARACTERS:
            break
    for i in shown:
        justify: Literal["left", "right"] = "left" if HEADS[i] in ("kind", "name") else "right"
        widest = max(room, 1) if HEADS[i] == "name" else None
        grid.add_column(
            HEADS[i], justify=justify, no_wrap=True, overflow="ellipsis", max_width=widest
        )
    for cells in lines:
        grid.add_row(*(cells[i] for i in shown))
    return grid


HEADS = ("kind", "name", "calls", "total", "share", "mean", "least", "most", "GFLOP/s", "GB/s")


def _cells(row: Row, all_ns: int) -> tuple[str, ...]:
    if row.kind == "collective" and not row.total_ns:
        moved = f"{row.traffic_bytes:,.0f} B"
        return row.kind, row.name, f"{row.calls:,}", "fused", "", moved, "", "", "", ""
    rates = [
        f"{amount * row.calls / row.total_ns:.1f}" if amount and row.total_ns else ""
        for amount in (row.flops, row.traffic_bytes)
    ]
    share = f"{100 * row.total_ns / max(1, all_ns):.1f}%"
    times = map(duration, (row.mean_ns, row.least_ns, row.most_ns))
    return row.kind, row.name, f"{row.calls:,}", duration(row.total_ns), share, *times, *rates


def as_html(
    listed: Iterable[events.Event], begin_ns: int, end_ns: int, known: Sequence[BufferLife] = ()
) -> str:
    """The timeline, the memory of arrays, and the table with bars for the shares, as HTML.

    Args:
        listed: the events.
        begin_ns, end_ns: of the time of the profile.
        known: the buffers whose lives are known.
    """
    listed = list(listed)
    head = "".join(f"<th>{name}</th>" for name in HEADS)
    body = []
    for row in _shown(listed):
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row, end_ns - begin_ns))
        share = 100 * min(1.0, row.total_ns / max(1, end_ns - begin_ns))
        bar = f"linear-gradient(90deg, #8ab4f855 {share:.1f}%, transparent {share:.1f}%)"
        body.append(f'<tr style="background:{bar}">{cells}</tr>')
    table = f"<table><tr>{head}</tr>{''.join(body)}</table>"
    unit = next(unit for unit in UNITS if end_ns - begin_ns >= unit[1] or unit[1] == 1e3)
    live = [(event.end_ns, event.live_bytes) for event in listed if event.live_bytes]
    pictures = plots.timeline(export.tracks(listed), begin_ns, end_ns, unit)
    if live:
        pictures += plots.memory(live, begin_ns, end_ns)
    peak = ""
    if known:
        pictures += plots.lifetimes(buffers.bars(known, begin_ns, end_ns), begin_ns, end_ns)
        peak = f"<pre>{html.escape(buffers.as_text(known, begin_ns, HTML_WIDTH))}</pre>"
    return f"<div>{pictures}{table}{peak}</div>"


PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>tfn profile</title><style>
:root { color-scheme: light dark; }
body { font: 13px/1.5 system-ui, sans-serif; margin: 20px auto; max-width: 1000px; }
table { border-collapse: collapse; width: 100%; margin-top: 16px; }
td, th { padding: 3px 10px 3px 0; text-align: right; font-variant-numeric: tabular-nums; }
td:nth-child(-n+2), th:nth-child(-n+2) { text-align: left; }
tr { border-bottom: 1px solid #8884; }
</style>"""
