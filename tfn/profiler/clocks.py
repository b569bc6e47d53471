"""Traces of several processes as one, on one clock.

tfn.profiler.merge(["trace.0.json", "trace.1.json"], "job.json")

    rank 0 on a   |---- step ----|---- step ----|
    rank 1 on b     |---- step ----|---- step ----|

A trace says where its zero is by three clocks.  Processes of one machine have one monotonic clock.
Those of one job know by how much theirs is ahead of that of process 0, see
`tfn.distributed.synchronize_clocks`.  What neither can compare goes by the time of day.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tfn.errors import ArgumentError
from tfn.extend import processes

_BOOT = Path("/proc/sys/kernel/random/boot_id")
"""A name that Linux draws when it starts: processes with one have one monotonic clock."""


def process() -> dict[str, Any]:
    """This process in traces: its name, and what its clock can be compared by."""
    boot = ""
    with suppress(OSError):
        boot = _BOOT.read_text().strip()
    clock = processes.clock
    known = {"job": clock.job, "ahead_ns": clock.ahead_ns} if clock else {"job": "", "ahead_ns": 0}
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "process": processes.index,
        "processes": processes.count,
        "boot": boot,
        **known,
    }


def zero(begin_ns: int) -> dict[str, int]:
    """The zero of a trace by the monotonic clock, and by the time of day."""
    unix_ns = time.time_ns() - time.perf_counter_ns() + begin_ns
    return {"begin_ns": begin_ns, "unix_ns": unix_ns}


def name(of: dict[str, Any]) -> str:
    """The name of a process in traces: ``tfn``, or ``tfn 1 on node7`` if there are several."""
    return f"tfn {of['process']} on {of['host']}" if of["processes"] > 1 else "tfn"


CLOCKS: dict[str, tuple[str, Callable[[dict[str, Any]], int]]] = {
    "of the machine": ("boot", lambda of: int(of["begin_ns"])),
    "of process 0": ("job", lambda of: int(of["begin_ns"] - of["ahead_ns"])),
}
"""Clocks that traces may share: the fact that is then the same in all, and the zero of a trace."""

_TIME_OF_DAY = "of the day"


def merge(paths: Iterable[str | Path], path: str | Path) -> Path:
    """Writes the traces of several processes as one, and returns its path.

    The trace says in ``otherData`` which clock it is on: that of the machine if all processes ran
    on one, that of process 0 if they were one job, or else the time of day, which hosts agree on
    to milliseconds at best.

    Args:
        paths: of ``.json`` traces that `trace` or `Profile.save` have written.
        path: of the file to write.

    Raises:
        ArgumentError: for a file that is no such trace.

    Example:
        >>> import tempfile, tfn
        >>> folder = tempfile.mkdtemp()
        >>> for number in range(2):
        ...     with tfn.profiler.trace(f"{folder}/{number}.json"):
        ...         x = tfn.numpy.ones(3) + number
        >>> merge([f"{folder}/0.json", f"{folder}/1.json"], f"{folder}/both.json").name
        'both.json'
    """
    read = [_read(Path(one)) for one in paths]
    if not read:
        raise ArgumentError("merge needs traces", got="none", hint="merge([...], 'all.json')")
    facts = [of for of, _ in read]
    clock = _TIME_OF_DAY
    zero_ns: Callable[[dict[str, Any]], int] = _unix_ns
    for shared, (fact, by) in CLOCKS.items():
        if facts[0][fact] and len({of[fact] for of in facts}) == 1:
            clock, zero_ns = shared, by
            break
    first_ns = min(map(zero_ns, facts))
    rows: list[dict[str, Any]] = []
    for number, (of, events) in enumerate(read):
        shift_us = (zero_ns(of) - first_ns) / 1000
        named = f"{name(of)}, pid {of['pid']}"
        for row in events:
            row["pid"] = number  # those of processes on different hosts may be the same
            if "ts" in row:
                row["ts"] = round(row["ts"] + shift_us, 3)
            if row["name"] == "process_name":
                row["args"] = {"name": named}
            rows.append(row)
    path = Path(path)
    about = {"clock": clock, "processes": facts}
    data = {"traceEvents": rows, "displayTimeUnit": "ns", "otherData": about}
    path.write_text(json.dumps(data, ensure_ascii=False), "utf-8")
    return path


def _unix_ns(of: dict[str, Any]) -> int:
    """The zero of a trace by the time of day."""
    return int(of["unix_ns"])


def _read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The facts of the process of a trace, and its events."""
    hint = "tfn.profiler.trace('name.json') writes one"
    try:
        data = json.loads(path.read_text("utf-8"))
        of = data["otherData"]["tfn"]
    except OSError as error:
        raise ArgumentError("merge cannot read a trace", got=str(error), hint=hint) from None
    except (ValueError, KeyError, TypeError):
        raise ArgumentError(
            "merge got a file that is no trace of tfn", got=str(path), hint=hint
        ) from None
    return of, data["traceEvents"]
