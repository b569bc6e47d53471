"""Profiles: the events of the last while, or those of a block; annotations.

The process keeps its latest events at all times: calls of programs, traces, compilations and
callbacks.  A trace is those that fall into a block, in which each call of a short program is timed;
outside of traces one of four is, and stands for the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from tfn._support.events import Event
from tfn.errors import ArgumentError
from tfn.extend import events, frozen, mutable, processes
from tfn.profiler import buffers, export, tables
from tfn.profiler.buffers import BufferLife, lives
from tfn.profiler.kernel_events import named
from tfn.profiler.pprof import pprof

P = ParamSpec("P")
R = TypeVar("R")


@frozen
class Profile:
    """Events in the order of their begin.

    Attributes:
        events: of the time of the profile.
        begin_ns, end_ns: of that time, by the clock of `time.perf_counter_ns`.
        dropped: how many earlier events the process has dropped, since it keeps the latest only.
        buffers: what is known of each buffer that was alive, if every call was timed: its maker,
            its last reader, and when it was freed.
    """

    events: tuple[Event, ...]
    begin_ns: int
    end_ns: int
    dropped: int = 0
    buffers: tuple[BufferLife, ...] = ()

    def as_text(self, width: int = 120) -> str:
        """A table of all kinds of events by name, for a terminal of a width in characters.

        Of a trace, it goes on with the buffers that were alive at the peak.
        """
        text = tables.as_text(self.events, self.begin_ns, self.end_ns, self.dropped, width)
        return text + buffers.as_text(self.buffers, self.begin_ns, width)

    def save(self, path: str | Path) -> Path:
        """Writes the events to a file, in the format that its name tells, and returns its path.

        ``.json`` is read by ui.perfetto.dev and chrome://tracing, ``.speedscope.json`` by
        speedscope.app, ``.pb.gz`` by pprof, ``.csv`` by spreadsheets, ``.html`` by browsers.  A
        path without such a suffix is a folder, as in JAX, which gets a ``trace.json``; of several
        processes each writes one of its own, ``trace.0.json`` and so on, for `merge`.

        Example:
            >>> import tempfile
            >>> latest().save(tempfile.mkdtemp()).name
            'trace.json'
        """
        path = Path(path)
        suffix = next(filter(path.name.endswith, FORMATS), None)
        if suffix is None:
            path.mkdir(parents=True, exist_ok=True)
            number = f".{processes.index}" if processes.count > 1 else ""
            path, suffix = path / f"trace{number}.json", ".json"
        data = FORMATS[suffix](self)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def __str__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        """In a notebook: the timeline, the memory of arrays, and the table."""
        return _html(self)


def _html(of: Profile) -> str:
    return tables.as_html(of.events, of.begin_ns, of.end_ns, of.buffers)


FORMATS: dict[str, Callable[[Profile], str | bytes]] = {
    ".speedscope.json": lambda p: export.speedscope_text(p.events, p.begin_ns),
    ".json": lambda p: export.chrome_text(p.events, p.begin_ns, p.end_ns, p.buffers),
    ".csv": lambda p: export.csv_text(p.events, p.begin_ns, p.end_ns, p.buffers),
    ".pb.gz": lambda p: pprof(p.events, p.begin_ns, p.end_ns),
    ".html": lambda p: tables.PAGE + _html(p),
}
"""The formats of files, by the ends of their names."""


def latest() -> Profile:
    """The latest events of the process, as many as it keeps.

    Example:
        >>> import tfn
        >>> double = tfn.jit(lambda x: 2 * x)
        >>> double(3.0).item(), double(4.0).item()
        (6.0, 8.0)
        >>> {event.kind for event in latest().events} >= {"trace", "compile", "program"}
        True
    """
    end_ns = time.perf_counter_ns()
    listed, dropped = events.events()
    begin_ns = listed[0].begin_ns if listed else end_ns
    known = lives(events.uses()[0]) if events.uses_kept() else ()
    return Profile(tuple(named(listed)), begin_ns, end_ns, dropped, tuple(known))


@mutable
class Trace:
    """A trace that runs, or has ended.

    Attributes:
        path: of the file that is written at its end, if any.
        begin_ns: of its block.
        profile: its events, from its end on.
    """

    path: str | Path | None
    begin_ns: int
    profile: Profile | None = None

    def __str__(self) -> str:
        return "a trace that runs" if self.profile is None else str(self.profile)

    def _repr_html_(self) -> str:
        """In a notebook: that of its profile."""
        return str(self) if self.profile is None else self.profile._repr_html_()


@contextmanager
def trace(path: str | Path | None = None) -> Iterator[Trace]:
    """Collects the events of a block, with every call of short programs.

    Args:
        path: of a file that is written at the end; see `Profile.save` for the formats.

    Example:
        >>> import tfn
        >>> x = tfn.numpy.ones(3)
        >>> with trace() as block:
        ...     y = x + 1
        >>> any(event.name == "add" for event in block.profile.events)
        True
    """
    before = events.enabled(), events.every_call()
    running = Trace(path, time.perf_counter_ns())
    events.enable(True, every=True)
    try:
        yield running
    finally:
        events.enable(*before)
        _finish(running)


def _finish(running: Trace) -> None:
    end_ns = time.perf_counter_ns()
    listed, dropped = events.events()
    inside = named(event for event in listed if event.begin_ns >= running.begin_ns)
    # What was dropped is older than what is kept: it matters if nothing older is left.
    lost = dropped if len(inside) == len(listed) else 0
    logs, lost_uses = events.uses()
    known = [x for x in lives(logs) if not 0 < x.freed_ns < running.begin_ns]
    lost += lost_uses
    running.profile = Profile(tuple(inside), running.begin_ns, end_ns, lost, tuple(known))
    if running.path is not None:
        running.profile.save(running.path)


_RUNNING: list[Any] = []


def start_trace(log_dir: str | Path) -> None:
    """Begins a trace, which `stop_trace` ends and writes.

    Args:
        log_dir: a folder, or the path of a file.

    Raises:
        ArgumentError: if a trace runs already.
    """
    if _RUNNING:
        raise ArgumentError("a trace runs already", hint="call tfn.profiler.stop_trace() first")
    block = trace(log_dir)
    block.__enter__()
    _RUNNING.append(block)


def stop_trace() -> None:
    """Ends the trace that `start_trace` has begun, and writes its file.

    Raises:
        ArgumentError: if none runs.
    """
    if not _RUNNING:
        raise ArgumentError("no trace runs", hint="call tfn.profiler.start_trace(path) first")
    _RUNNING.pop().__exit__(None, None, None)


@contextmanager
def annotate(name: str, **details: object) -> Iterator[None]:
    """Names a block, or as a decorator a function, in profiles.

    Args:
        name: of the block.
        details: shown with the block: ``annotate("step", number=3)``.

    Example:
        >>> with annotate("load a batch"):
        ...     pass
        >>> latest().events[-1].name
        'load a batch'
    """
    begin_ns = time.perf_counter_ns()
    try:
        yield
    finally:
        shown = ", ".join(f"{key}={value}" for key, value in details.items())
        events.add("annotation", name, begin_ns, shown)


TraceAnnotation = annotate
"""JAX's name of `annotate`."""

StepTraceAnnotation = annotate
"""JAX's name of `annotate` for a step of training: ``StepTraceAnnotation("train", step_num=3)``."""


def annotate_function(function: Callable[P, R], name: str | None = None) -> Callable[P, R]:
    """A function whose calls are annotated.

    Args:
        function: any function.
        name: in profiles; that of the function if None.
    """

    @wraps(function)
    def annotated(*args: P.args, **kwargs: P.kwargs) -> R:
        with annotate(name or function.__qualname__):
            return function(*args, **kwargs)

    return annotated
