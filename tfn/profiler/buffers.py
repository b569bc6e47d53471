"""Buffers of a trace: which program made each, which read it last, and when it was freed.

    allocate x   write x by mul   read x by add   free x   ->   32 MB made by mul, last read by add

A buffer that a donated argument hands on to a result begins anew, as does memory that is allocated
again.  Arrays that share a buffer, such as reshaped ones, are one.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from tfn.extend import events, frozen, mutable
from tfn.inspect import plots
from tfn.profiler.units import duration, size

MAX_ROWS = 12
"""Rows of the table of a peak, those of most bytes."""


@mutable
class BufferLife:
    """A buffer from the program that made it until it is freed, or handed on to a result.

    Attributes:
        size_bytes: of its contents.
        made_by: the name of a program; ``host`` for data of Python; "" if it was made before the
            trace began.
        made_ns: when it was allocated, by the clock of `time.perf_counter_ns`; 0 as above.
        is_work: whether it is the working memory of that program, and no array.
        last_read_by: the name of a program; ``host`` if Python read it; "" if nothing did.
        last_read_ns: when that program ended; 0 as above.
        reads: how often it was read.
        freed_ns: when it was freed or handed on; 0 if it was alive as the trace ended.
    """

    size_bytes: int
    made_by: str = ""
    made_ns: int = 0
    is_work: bool = False
    last_read_by: str = ""
    last_read_ns: int = 0
    reads: int = 0
    freed_ns: int = 0

    @property
    def maker(self) -> str:
        """``mul``, ``working memory of mul``, or ``before the trace``."""
        if self.is_work:
            return f"working memory of {self.made_by}" if self.made_by else "working memory"
        return self.made_by or "before the trace"

    @property
    def reader(self) -> str:
        """``add``, or ``nothing``; working memory has none."""
        return "" if self.is_work else self.last_read_by or "nothing"


def lives(logs: Iterable[Sequence[events.Use]]) -> list[BufferLife]:
    """The lives of the buffers of some logs, in the order of their begin.

    Args:
        logs: each with all uses of its buffers, in order.
    """
    listed: list[BufferLife] = []
    for log in logs:
        alive: dict[int, BufferLife] = {}
        for use in log:
            life = alive.get(use.buffer)
            if use.what == "free":
                if life:  # nothing is known of others: they were made before, and not read since
                    life.freed_ns = use.at_ns
                    del alive[use.buffer]
                continue
            handed_on = life and use.what == "write" and (life.made_by or not life.made_ns)
            if life is None or handed_on or use.what == "allocate":
                if life:
                    life.freed_ns = use.at_ns
                begin_ns = 0 if use.what == "read" else use.at_ns
                life = alive[use.buffer] = BufferLife(use.size_bytes, made_ns=begin_ns)
                listed.append(life)
            if use.what == "read":
                life.last_read_by, life.last_read_ns = use.name, use.at_ns
                life.reads += 1
            elif use.what != "allocate":
                life.made_by = use.name
                life.is_work = use.what == "work"
    return sorted(listed, key=lambda life: life.made_ns)


@frozen
class Peak:
    """The moment at which known buffers take most memory.

    Attributes:
        at_ns: when, by the clock of `time.perf_counter_ns`.
        size_bytes: of all together.
        alive: the buffers, the largest first.
    """

    at_ns: int
    size_bytes: int
    alive: tuple[BufferLife, ...]


def peak(listed: Sequence[BufferLife]) -> Peak:
    """The peak of some buffers."""
    changes = [(life.made_ns, 1, life.size_bytes) for life in listed]
    changes += [(life.freed_ns, 0, -life.size_bytes) for life in listed if life.freed_ns]
    live_bytes, best = 0, (0, 0)
    for at_ns, _, size_bytes in sorted(changes):
        live_bytes += size_bytes
        best = max(best, (live_bytes, -at_ns))
    size_bytes, at_ns = best[0], -best[1]
    alive = [x for x in listed if x.made_ns <= at_ns and not 0 < x.freed_ns <= at_ns]
    return Peak(at_ns, size_bytes, tuple(sorted(alive, key=lambda life: -life.size_bytes)))


def as_text(listed: Sequence[BufferLife], begin_ns: int, width: int) -> str:
    """A table of the buffers that are alive at the peak; those of one maker and reader are a row.

    Args:
        listed: the buffers.
        begin_ns: the zero of the clock of the table.
        width: of the table in characters.
    """
    if not listed:
        return ""
    at = peak(listed)
    groups: dict[tuple[str, str], list[BufferLife]] = {}
    for life in at.alive:
        groups.setdefault((life.maker, life.reader), []).append(life)
    table = Table(box=None, pad_edge=False)
    for head in HEADS:
        justify = "left" if head in ("made by", "last read by") else "right"
        table.add_column(head, justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    rows = sorted(groups.items(), key=lambda row: -sum(life.size_bytes for life in row[1]))
    for (maker, reader), group in rows[:MAX_ROWS]:
        first = min(life.made_ns for life in group)
        read = max(life.last_read_ns for life in group)
        freed = max(life.freed_ns for life in group) if all(x.freed_ns for x in group) else 0
        moments = [duration(ns - begin_ns) if ns else "" for ns in (first, read, freed)]
        total = size(sum(life.size_bytes for life in group))
        moments[2] = moments[2] or "alive"
        table.add_row(total, str(len(group)), maker, moments[0], reader, *moments[1:])
    text = io.StringIO()
    moment = duration(max(0, at.at_ns - begin_ns))
    print(f"buffers at the peak, {size(at.size_bytes)} at {moment}:", file=text)
    Console(width=width, file=text).print(table)
    if len(rows) > MAX_ROWS:
        print(f"and {len(rows) - MAX_ROWS} more", file=text)
    return text.getvalue()


HEADS = ("size", "buffers", "made by", "at", "last read by", "at", "freed at")


def bars(listed: Iterable[BufferLife], begin_ns: int, end_ns: int) -> list[plots.Bar]:
    """The buffers as bars of `plots.lifetimes`."""
    return [
        plots.Bar(
            life.size_bytes,
            max(begin_ns, life.made_ns),
            max(begin_ns, life.last_read_ns, life.made_ns) if not life.is_work else life.freed_ns,
            life.freed_ns or end_ns,
            life.maker,
            f"{size(life.size_bytes)}, {described(life, begin_ns)}",
        )
        for life in listed
    ]


def described(life: BufferLife, begin_ns: int) -> str:
    """A life in words.

    Args:
        life: that of a buffer.
        begin_ns: the zero of the clock.

    Example:
        >>> described(BufferLife(64, "mul", 2_000, False, "add", 5_000, 1, 0), 1_000)
        'made by mul at 1.00 us, last read by add at 4.00 us, alive at the end'
    """
    made = f"made by {life.maker}" if life.made_by and not life.is_work else life.maker
    said = [f"{made} at {duration(life.made_ns - begin_ns)}" if life.made_ns else "made before"]
    if life.last_read_ns:
        said.append(f"last read by {life.reader} at {duration(life.last_read_ns - begin_ns)}")
    elif not life.is_work:
        said.append("not read")
    freed = f"freed at {duration(life.freed_ns - begin_ns)}" if life.freed_ns else ""
    return ", ".join([*said, freed or "alive at the end"])
