"""The command: fuzz for some minutes, keep what fails as tests, and print what was covered.

    python -m tests.fuzz --minutes 2 --seed 7 --jobs 2
    python -m tests.fuzz --only sanitize --programs 1000 --minutes 60    exported C under sanitizers
    python -m tests.fuzz --minutes 60 --ledger LEDGER    add to what other runs have counted
    python -m tests.fuzz --ledger LEDGER --summary       print that, for each version of tfn

The exit status is 1 if a program failed.  Ctrl-C ends it early, with the counts so far.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import time
from pathlib import Path

from rich.columns import Columns
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tests.fuzz import coverage, ledger
from tests.fuzz.batches import Failure, Report
from tests.fuzz.checks import CHECKS
from tests.fuzz.jobs import Plan, follow
from tests.fuzz.keep import FOUND, kept

SECONDS_BETWEEN_WRITES = 20.0
"""A run that is ended loses so much of its counts in the ledger."""


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000_000)
    parser.add_argument("--programs", type=int, default=1 << 62, help="end after so many")
    parser.add_argument("--only", choices=CHECKS, default="", help="run this check and no other")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quiet", action="store_true", help="no bar and no table")
    parser.add_argument("--found", type=Path, default=FOUND, help="folder of the kept tests")
    parser.add_argument("--ledger", type=Path, help="file that adds up runs")
    parser.add_argument("--summary", action="store_true", help="print the ledger, run nothing")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 200)
    if options.summary:
        if options.ledger is None:
            parser.error("--summary is of a --ledger")
        for version in ledger.versions(options.ledger):
            summary(console, options.ledger, version, options.quiet)
        return 0
    console.print(f"seed {options.seed}, version {ledger.version()} of tfn", highlight=False)
    if options.ledger is not None:
        ledger.check_fresh(options.ledger, options.seed)
    start = time.monotonic()
    plan = Plan(
        options.seed, start + 60 * options.minutes, options.programs, options.jobs, options.only
    )
    total = Totals(options.found, options.ledger, options.seed, console)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
        console=console, disable=options.quiet or not console.is_terminal,
    )  # fmt: skip
    with bar, contextlib.suppress(KeyboardInterrupt):
        task = bar.add_task("", total=plan.deadline - start)

        def tick() -> None:
            done = min(time.monotonic(), plan.deadline) - start
            bar.update(task, completed=done, description=total.state())

        for report, largest_bytes in follow(plan, tick):
            total.add(report, largest_bytes)
    total.write()
    total.print(time.monotonic() - start, options.quiet)
    return 1 if total.failures else 0


def signature(failure: Failure) -> str:
    """A failure without its numbers: the check, the error, and the functions that are called."""
    source = failure.program.source() if failure.program else ""
    functions = sorted(set(re.findall(r"\b(?:xp|lax|tfn|nn)\.\w+", source)))
    error = re.sub(r"\W?\d\S*", "", failure.message.splitlines()[0].split(" at ")[0])
    return f"{failure.check}: {error} {functions}"


class Totals:
    """Reports of all jobs, added up."""

    def __init__(self, found: Path, file: Path | None, seed: int, console: Console) -> None:
        self.found = found
        self.file = file
        self.seed = seed
        self.console = console
        self.report = Report()
        self.largest_bytes = 0
        self.failures: dict[str, int] = {}
        self.written = time.monotonic()

    def state(self) -> str:
        """The counts in a few words."""
        return f"{self.report.programs} programs, {len(self.failures)} failures"

    def add(self, report: Report, largest_bytes: int) -> None:
        """One more report; a failure of a new kind is written down as a test."""
        self.report.add(report)
        self.largest_bytes = max(self.largest_bytes, largest_bytes)
        for failure in report.failures:
            kind = signature(failure)
            if kind not in self.failures:
                self._keep(failure)
            self.failures[kind] = self.failures.get(kind, 0) + 1
        if report.failures or time.monotonic() > self.written + SECONDS_BETWEEN_WRITES:
            self.write()

    def _keep(self, failure: Failure) -> None:
        name, message = failure.check, failure.message
        if failure.program is None:
            self.console.print(f"[red]failed[/red] to draw: {message}", highlight=False)
            return
        path = kept(self.found, name, failure.program, message)
        self.console.print(f"[red]failed[/red] {name}: {path}", highlight=False)
        self.console.print(f"{message}\n{failure.program.source()}", markup=False, highlight=False)

    def write(self) -> None:
        """Writes the counts so far into the ledger."""
        self.written = time.monotonic()
        if self.file is not None:
            ledger.write(self.file, self.seed, self.report, self.largest_bytes)

    def print(self, elapsed: float, quiet: bool) -> None:
        """The counts and the times."""
        report = self.report
        if not quiet:
            counts(self.console, report)
        parts = ", ".join(f"{name} {s:.1f} s" for name, s in report.seconds.most_common())
        self.console.print(f"time: {parts}", highlight=False)
        self.console.print(
            f"{report.programs} programs of {report.lines} lines in {elapsed:.0f} s, "
            f"{report.programs / max(elapsed, 1e-9):.1f} a second; {len(self.failures)} failures; "
            f"at most {self.largest_bytes >> 20} MiB a job",
            highlight=False,
        )


def counts(console: Console, report: Report) -> None:
    """The tables of a report."""
    console.print(coverage.table(report.counts))
    blank = coverage.empty(report.counts)
    console.print(f"{len(blank)} cells are empty without a reason", highlight=False)
    console.print(Columns(ledger.tables(report)))


def summary(console: Console, file: Path, version: str, quiet: bool) -> None:
    """All runs of a version of tfn."""
    report, runs, failures, largest_bytes = ledger.read(file, version)
    console.rule(f"version {version} of tfn")
    if not quiet:
        counts(console, report)
    for failure in failures:
        console.print(f"failed {failure}", markup=False, highlight=False)
    console.print(
        f"{report.programs:,} programs of {report.lines:,} lines in {runs} runs, "
        f"{sum(report.seconds.values()):,.0f} s of a core; {len(failures)} failures; "
        f"at most {largest_bytes >> 20} MiB a job",
        highlight=False,
    )


if __name__ == "__main__":
    sys.exit(main())
