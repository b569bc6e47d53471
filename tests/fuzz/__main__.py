"""The command: fuzz for some minutes, keep what fails as tests, and print what was covered.

    python -m tests.fuzz --minutes 2 --seed 7 --jobs 2
    python -m tests.fuzz --only sanitize --programs 1000 --minutes 60    exported C under sanitizers

The exit status is 1 if a program failed.  Ctrl-C ends it early, with the counts so far.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import queue
import re
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tests.fuzz import coverage
from tests.fuzz.batches import work
from tests.fuzz.checks import CHECKS
from tests.fuzz.keep import FOUND, kept
from tests.fuzz.programs import Program


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--programs", type=int, default=1 << 62, help="end after so many")
    parser.add_argument("--only", choices=CHECKS, default="", help="run this check and no other")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quiet", action="store_true", help="no bar and no table")
    parser.add_argument("--found", type=Path, default=FOUND, help="folder of the kept tests")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(f"seed {options.seed}")
    start = time.monotonic()
    context = multiprocessing.get_context("spawn")
    reports = context.Queue()
    deadline = start + 60 * options.minutes
    total = Totals(options.found, console)
    with TemporaryDirectory() as folder:
        running = Path(folder)
        processes = [
            context.Process(
                target=work,
                args=(options, job, deadline, running, reports),
                daemon=True,
            )
            for job in range(options.jobs)
        ]
        for process in processes:
            process.start()
        with contextlib.suppress(KeyboardInterrupt):
            total.follow(processes, reports, start, deadline, options.quiet)
        total.crashes(processes, running)
        for process in processes:
            process.terminate()
            process.join()
    total.print(time.monotonic() - start, options.quiet)
    return 1 if total.failures or total.crashed else 0


def signature(check: str, program: Program, message: str) -> str:
    """A failure without its numbers: the check, the error, and the functions that are called."""
    functions = sorted(set(re.findall(r"\b(?:xp|lax|tfn|nn)\.\w+", program.source())))
    error = re.sub(r"\W?\d\S*", "", message.splitlines()[0].split(" at ")[0])
    return f"{check}: {error} {functions}"


class Totals:
    """Reports of all processes, added up."""

    def __init__(self, found: Path, console: Console) -> None:
        self.found = found
        self.console = console
        self.programs = 0
        self.lines = 0
        self.counts: coverage.Counts = Counter()
        self.seconds: Counter[str] = Counter()
        self.failures: dict[str, int] = {}
        self.crashed = False

    def follow(
        self, processes: list[Any], reports: Any, start: float, deadline: float, quiet: bool
    ) -> None:
        """Takes reports until all processes have ended."""
        bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
            console=self.console, disable=quiet or not self.console.is_terminal,
        )  # fmt: skip
        running = len(processes)
        with bar:
            task = bar.add_task("", total=deadline - start)
            while running:
                try:
                    report = reports.get(timeout=1)
                except queue.Empty:
                    report = ()
                    if not any(process.is_alive() for process in processes):
                        return
                if report is None:
                    running -= 1
                elif report:
                    self.add(*report)
                bar.update(
                    task,
                    completed=min(time.monotonic(), deadline) - start,
                    description=f"{self.programs} programs, {len(self.failures)} failures",
                )

    def crashes(self, processes: list[Any], running: Path) -> None:
        """Keeps the programs of processes that did not end by themselves."""
        codes = [process.exitcode for process in processes if process.exitcode]
        self.crashed = bool(codes)
        if codes and not any(process.is_alive() for process in processes):
            for path in running.glob("test_*.py"):
                self.console.print(f"[red]ended by {codes}[/red]: {self.found / path.name}")
                shutil.copy(path, self.found / path.name)

    def add(
        self,
        programs: int,
        lines: int,
        counts: coverage.Counts,
        seconds: Counter[str],
        failure: tuple[str, Program, str] | None,
        batch: int,
    ) -> None:
        """One more batch; a failure is written down as a test."""
        self.programs += programs
        self.lines += lines
        self.counts += counts
        self.seconds += seconds
        if failure is not None:
            name, program, message = failure
            kind = signature(name, program, message)
            if kind not in self.failures:
                path = kept(self.found, name, program, message)
                self.console.print(f"[red]failed[/red] {name}: {path}", highlight=False)
                self.console.print(f"{message}\n{program.source()}", markup=False, highlight=False)
            self.failures[kind] = self.failures.get(kind, 0) + 1

    def print(self, elapsed: float, quiet: bool) -> None:
        """The counts and the times."""
        if not quiet:
            self.console.print(coverage.table(self.counts))
            blank = coverage.empty(self.counts)
            self.console.print(f"{len(blank)} cells are empty without a reason", highlight=False)
        parts = ", ".join(f"{name} {s:.1f} s" for name, s in self.seconds.most_common())
        self.console.print(f"time: {parts}", highlight=False)
        self.console.print(
            f"{self.programs} programs of {self.lines} lines in {elapsed:.0f} s, "
            f"{self.programs / max(elapsed, 1e-9):.1f} a second; {len(self.failures)} failures",
            highlight=False,
        )


if __name__ == "__main__":
    sys.exit(main())
