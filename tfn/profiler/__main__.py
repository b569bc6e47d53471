"""Command of the profiler: runs a script, and prints what its programs spent.

python -m tfn.profiler run train.py --steps 100
python -m tfn.profiler run --save step.json --no-live train.py
python -m tfn.profiler merge all.json trace.0.json trace.1.json
"""

from __future__ import annotations

import argparse
import runpy
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live

from tfn.profiler import tables
from tfn.profiler.clocks import merge
from tfn.profiler.profile import Profile, latest

REFRESH_SECONDS = 1.0
"""The time between two pictures of the live table."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status.

    Args:
        arguments: of the command line; those of the process if None.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tfn.profiler", description="Profile a script that uses tfn."
    )
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("run", help="run a script, then print the table of its events")
    formats = "write the events, too: .json, .speedscope.json, .pb.gz, .csv or .html"
    command.add_argument("--save", metavar="FILE", help=formats)
    command.add_argument(
        "--live",
        action=argparse.BooleanOptionalAction,
        help="show the table while the script runs; by default on terminals",
    )
    command.add_argument("script", help="the path of the script")
    command.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    command.set_defaults(act=_run)
    command = commands.add_parser("merge", help="write the traces of several processes as one")
    command.add_argument("path", help="of the file to write")
    command.add_argument("paths", nargs="+", help="of .json traces")
    command.set_defaults(act=_merge)
    options = parser.parse_args(arguments)
    status: int = options.act(options, Console(stderr=True))
    return status


def _merge(options: argparse.Namespace, console: Console) -> int:
    """Merges traces; returns the exit status."""
    console.print(f"written to {merge(options.paths, options.path)}", highlight=False)
    return 0


def _run(options: argparse.Namespace, console: Console) -> int:
    """Runs a script; returns its exit status."""
    begin_ns = time.perf_counter_ns()
    before = sys.argv, sys.path[:]
    sys.argv = [options.script, *options.arguments]
    sys.path[:1] = [str(Path(options.script).resolve().parent)]
    status = 0
    try:
        live = console.is_terminal if options.live is None else options.live
        with _Shown(console) if live else _Hidden():
            runpy.run_path(options.script, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv, sys.path[:] = before
        profile = latest()
        profile = Profile(profile.events, begin_ns, profile.end_ns, profile.dropped)
        console.print(profile.as_text(console.width), markup=False, highlight=False)
        if options.save:
            console.print(f"written to {profile.save(options.save)}", highlight=False)
    return status


class _Hidden:
    """No live table."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class _Shown:
    """A live table on a thread of its own, until the block ends."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._console = console
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._refresh, daemon=True)

    def __enter__(self) -> None:
        self._live.start()
        self._thread.start()

    def _refresh(self) -> None:
        while not self._ended.wait(REFRESH_SECONDS):
            profile = latest()
            events, width = profile.events, self._console.width
            table = tables.table(events, profile.begin_ns, profile.end_ns, width)
            self._live.update(table, refresh=True)

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._live.stop()


if __name__ == "__main__":
    sys.exit(main())
