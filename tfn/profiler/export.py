"""Profiles in formats of other tools: Chrome and Perfetto traces, speedscope, CSV.

Sources: the Trace Event Format of Chromium; the file format of speedscope; RFC 4180.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from tfn.extend import events
from tfn.profiler import clocks
from tfn.profiler.buffers import BufferLife, described

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def tracks(listed: Iterable[events.Event]) -> dict[str, list[events.Event]]:
    """The events by thread, in order, such that events of one track nest or follow each other.

    Native calls do not know their thread.  They are those of the only thread that does more than
    look for compiled code, if there is one; or else they get tracks of their own, as many as there
    are calls at the same time.  Kernels are below the call around them; those of the workers of a
    program have a track for each.
    """
    listed = sorted(listed, key=lambda event: (event.begin_ns, -event.end_ns))
    threads = list(dict.fromkeys(event.thread for event in listed if event.thread))
    callers = {event.thread for event in listed if event.thread and event.kind != "cache"}
    by_track: dict[str, list[events.Event]] = {}
    ends: list[int] = []
    for event in listed:
        if event.worker:
            name = f"worker {event.worker}"
        elif event.thread or len(callers) <= 1:
            thread = event.thread or next(iter(callers), 0)
            name = f"thread {threads.index(thread) if thread else 0}"
        else:
            inside = event.launch >= 0
            free = (i for i, end in enumerate(ends) if (end <= event.begin_ns) is not inside)
            lane = next(free, len(ends))
            if not inside:
                ends[lane : lane + 1] = [event.end_ns]
            name = f"programs {lane}"
        by_track.setdefault(name, []).append(event)
    return by_track


def chrome_text(
    listed: Iterable[events.Event],
    begin_ns: int,
    end_ns: int = 0,
    buffers: Iterable[BufferLife] = (),
) -> str:
    """A trace for ui.perfetto.dev and chrome://tracing, as JSON; times are in microseconds.

    Args:
        listed: the events.
        begin_ns, end_ns: of its time; the first is the zero of its clock.
        buffers: those whose lives are known; each has a slice of a track of their own.
    """
    own = clocks.process()
    common: dict[str, Any] = {"pid": own["pid"]}
    rows: list[dict[str, Any]] = [
        common | {"ph": "M", "name": "process_name", "tid": 0, "args": {"name": clocks.name(own)}}
    ]
    for number, (track, inside) in enumerate(tracks(listed).items(), 1):
        here = common | {"tid": number}
        rows.append(here | {"ph": "M", "name": "thread_name", "args": {"name": track}})
        for event in inside:
            args: dict[str, object] = {"detail": event.detail} if event.detail else {}
            if event.calls > 1:
                args["stands for calls"] = event.calls
            if event.moved_bytes:
                args["bytes"] = event.moved_bytes
            rows.append(
                here
                | {
                    "ph": "X",
                    "name": event.name,
                    "cat": event.kind,
                    "ts": (event.begin_ns - begin_ns) / 1000,
                    "dur": event.duration_ns / 1000,
                    "args": args,
                }
            )
            if event.live_bytes:
                memory = common | {"ph": "C", "name": "bytes of arrays"}
                at = {"ts": (event.end_ns - begin_ns) / 1000, "args": {"live": event.live_bytes}}
                rows.append(memory | at)
    for number, life in enumerate(buffers, 1):
        moments = max(begin_ns, life.made_ns), life.freed_ns or end_ns
        known = {"bytes": life.size_bytes, "made by": life.maker, "last read by": life.reader}
        if life.last_read_ns:
            known["last read at us"] = (life.last_read_ns - begin_ns) // 1000
        here = common | {"cat": "buffer", "id2": {"local": number}, "name": life.maker, "tid": 0}
        for phase, at_ns, args in zip("be", moments, (known, {})):
            rows.append(here | {"ph": phase, "ts": (at_ns - begin_ns) / 1000, "args": args})
    about = {"tfn": own | clocks.zero(begin_ns)}
    data = {"traceEvents": rows, "displayTimeUnit": "ns", "otherData": about}
    return json.dumps(data, ensure_ascii=False)  # Perfetto shows escapes as they are


def speedscope_text(listed: Iterable[events.Event], begin_ns: int) -> str:
    """A profile for speedscope.app: what was open when, on each track.

    Args:
        listed: the events.
        begin_ns: the zero of its clock.
    """
    frames: dict[str, int] = {}
    profiles = []
    for track, inside in tracks(listed).items():
        changes = _nested(inside, frames, begin_ns)
        profiles.append(
            {
                "type": "evented",
                "name": track,
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": max((change["at"] for change in changes), default=0),
                "events": changes,
            }
        )
    shared = {"frames": [{"name": name} for name in frames]}
    data = {"$schema": SPEEDSCOPE_SCHEMA, "exporter": "tfn", "name": "tfn", "shared": shared}
    return json.dumps(data | {"profiles": profiles}, ensure_ascii=False)


def _nested(
    inside: Sequence[events.Event], frames: dict[str, int], begin_ns: int
) -> list[dict[str, Any]]:
    """Opening and closing of frames; an event that outlasts the one around it is cut there."""
    changes: list[dict[str, Any]] = []
    stack: list[tuple[int, int]] = []

    def close(until_ns: int) -> None:
        while stack and stack[-1][1] <= until_ns:
            frame, end_ns = stack.pop()
            changes.append({"type": "C", "frame": frame, "at": end_ns - begin_ns})

    for event in inside:
        close(event.begin_ns)
        frame = frames.setdefault(f"{event.kind} {event.name}", len(frames))
        end_ns = min([event.end_ns, *(end for _, end in stack)])
        changes.append({"type": "O", "frame": frame, "at": event.begin_ns - begin_ns})
        stack.append((frame, end_ns))
    close(1 << 63)
    return changes


def csv_text(
    listed: Iterable[events.Event],
    begin_ns: int,
    end_ns: int = 0,
    buffers: Iterable[BufferLife] = (),
) -> str:
    """One line for each event, below a line of heads; then one for each buffer, by its maker.

    Args:
        listed: the events.
        begin_ns, end_ns: of their time; the first is the zero of the clock.
        buffers: those whose lives are known; live_bytes has the size of each.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    heads = "kind", "name", "begin_ns", "duration_ns", "calls", "thread", "detail"
    writer.writerow((*heads, "worker", "live_bytes", "moved_bytes"))
    for event in listed:
        begin = event.begin_ns - begin_ns
        row = (event.kind, event.name, begin, event.duration_ns, event.calls, event.thread)
        more = event.detail, event.worker, event.live_bytes, event.moved_bytes
        writer.writerow((*row, *more))
    for life in buffers:
        made_ns, freed_ns = max(begin_ns, life.made_ns), life.freed_ns or end_ns
        row = "buffer", life.maker, made_ns - begin_ns, freed_ns - made_ns, 1, 0
        writer.writerow((*row, described(life, begin_ns), 0, life.size_bytes, 0))
    return text.getvalue()
