"""Rows in another process, which is replaced when one of them takes it down.

    parent   names: a, b, c   ->  worker: a done, b ...   it hangs, or its GPU is lost
             b failed, and why ->  worker: c done

A kernel that fails takes the context of its GPU with it, for all libraries of the process; one that
never ends would end the run.  Each row has a time limit, and its result is known as soon as it is
there.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

START_LIMIT_S = 300.0
"""To import what is measured, and to start the driver: seconds, except on a busy machine."""


class Report:
    """The worker's end: a line of JSON for each row, through a descriptor of its own."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "w")

    def send(self, name: str, **data: Any) -> None:
        """Tell the parent."""
        print(json.dumps({"name": name, **data}), file=self._file, flush=True)


Row = tuple[str, dict[str, Any]]


def supervised(
    command: Sequence[str],
    names: Sequence[str],
    limit_s: float,
    hello: Callable[[dict[str, Any]], None] = lambda data: None,
) -> Iterator[Row]:
    """Each row with what the worker says about it; ``{"failed": why}`` if it says nothing.

    Args:
        command: of a worker, which gets the names that are left, by commas, and a descriptor; it
            first sends a row without a name.  It may end after any row, to be replaced.
        limit_s: seconds for a row.
        hello: gets that first row.
    """
    left, starts = list(names), 0
    while left or not starts:
        before, why, starts = len(left), "", starts + 1
        for name, data in _lines(command, left, limit_s):
            if "died" in data:
                why = str(data["died"])
            elif not name:
                hello(data)
            else:
                assert name == left[0], "a worker does its rows in order"
                yield left.pop(0), data
        if why.startswith("at its start"):
            yield from ((name, {"failed": why}) for name in left)
            return
        if left and (why or len(left) == before):
            yield left.pop(0), {"failed": why or "the process ended, and said nothing"}


def _lines(command: Sequence[str], names: Sequence[str], limit_s: float) -> Iterator[Row]:
    """What one worker says; last, if it did not end by itself, how it died."""
    read, write = os.pipe()
    worker = subprocess.Popen(
        [*command, ",".join(names), str(write)], pass_fds=(write,), start_new_session=True
    )
    os.close(write)
    begun, died = False, ""
    try:
        for line in _until_silent(read, limit_s):
            if line is None:
                died = f"it said nothing for {limit_s if begun else START_LIMIT_S:.0f} s"
                os.killpg(worker.pid, signal.SIGKILL)
                break
            data = json.loads(line)
            begun = True
            yield data.pop("name"), data
    finally:
        os.close(read)
        _end(worker)
    code = worker.returncode
    if not died and code:
        died = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    if died:
        yield "", {"died": died if begun else f"at its start: {died}"}


def _until_silent(descriptor: int, limit_s: float) -> Iterator[bytes | None]:
    """Lines; None, at last, if none came for too long."""
    rest = b""
    for limit in chain([START_LIMIT_S], repeat(limit_s)):
        end = time.monotonic() + limit
        while b"\n" not in rest:
            if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                yield None
                return
            more = os.read(descriptor, 1 << 16)
            if not more:
                return
            rest += more
        line, _, rest = rest.partition(b"\n")
        yield line


def _end(worker: subprocess.Popen[bytes]) -> None:
    """Wait for a worker that is about to end, or end it and what it has started."""
    try:
        worker.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
