"""Batches: programs of successive numbers, each checked, and shrunk if it fails.

A program, and the checks that it goes through, are functions of a seed and its number alone, so any
process makes the same ones again.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random

from tests.fuzz import coverage
from tests.fuzz.checks import CHECKS, Inapplicable, check
from tests.fuzz.choices import Choices, smallest
from tests.fuzz.programs import Broken, Program, drawn, program

SHRINK_SECONDS = 60.0
"""A failing program is shrunk for so long; then the smallest so far is kept."""

CHECK_SECONDS = 60.0
"""Time of the processor that one check of a program may take; the slowest took 4 (2 cores)."""


class TooLong(AssertionError):
    """A program that does not end."""


class OutOfTime(Exception):
    """The end of the time for shrinking."""


@dataclass
class Failure:
    """A program that failed a check, and with which message."""

    check: str
    program: Program | None
    """None if the program ended the process that drew it."""
    message: str
    kind: str = ""
    """The class of the error: a smaller program has to fail with the same."""


@dataclass
class Report:
    """Counts of some programs, which are added to those of others."""

    programs: int = 0
    lines: int = 0
    counts: coverage.Counts = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    """Programs by each check that they went through."""
    totals: Counter[str] = field(default_factory=Counter)
    """Programs by each dtype and each transform that is in them."""
    seconds: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Adds the counts of another report."""
        self.programs += other.programs
        self.lines += other.lines
        self.failures += other.failures
        for name in ("counts", "checks", "totals", "seconds"):
            getattr(self, name).update(getattr(other, name))


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TooLong after so much time of the processor, in the code of Python."""

    def end(*_: object) -> None:
        raise TooLong(f"no end after {seconds:.0f} s")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def chosen(seed: int, number: int) -> tuple[str, ...]:
    """The checks of a program."""
    random = Random(f"{seed}/{number}/checks")
    return tuple(name for name, row in CHECKS.items() if 100 * random.random() < row.share)


def run(
    seed: int,
    numbers: range,
    only: str = "",
    begin: Callable[[int, str], None] = lambda number, name: None,
) -> Report:
    """Draws and checks the programs of some numbers.

    Args:
        only: the one check to run, instead of some of all.
        begin: told the number of a program and what is about to be done with it.
    """
    report = Report()
    for number in numbers:
        choices = drawn(seed, number)
        names = (only,) if only else chosen(seed, number)
        failure = one(choices, names, report, partial(begin, number))
        if failure is not None:
            report.failures.append(shrunk(choices, failure, partial(begin, number)))
    return report


def one(
    choices: Choices, names: tuple[str, ...], report: Report, begin: Callable[[str], None]
) -> Failure | None:
    """Draws a program, runs checks of it, and counts it, or returns the first failure."""
    begin("line")
    start = time.process_time()
    try:
        with time_limit(CHECK_SECONDS):
            drawn = program(choices)
    except Broken as error:
        return Failure("line", error.program, str(error), type(error.__cause__).__name__)
    report.seconds["draw"] += time.process_time() - start  # type: ignore[assignment]
    done = []
    for name in names:
        begin(name)
        start = time.process_time()
        try:
            with time_limit(CHECK_SECONDS):
                CHECKS[name].run(drawn)
            done.append(name)
        except Inapplicable:
            pass
        except Exception as error:
            kind = type(error).__name__
            return Failure(name, drawn, f"{kind}: {error}", kind)
        finally:
            report.seconds[name] += time.process_time() - start  # type: ignore[assignment]
    if done:
        report.programs += 1
        report.lines += len(drawn.lines)
        report.checks.update(done)
        report.totals.update(coverage.kinds(drawn))
        report.counts.update(coverage.counted(drawn, tuple(done)))
    return None


def shrunk(choices: Choices, failure: Failure, begin: Callable[[str], None]) -> Failure:
    """The smallest program that is found in some time to fail a check with the same error."""
    best, deadline = failure, time.monotonic() + SHRINK_SECONDS
    names = () if failure.check == "line" else (failure.check,)

    def failing(other: Choices) -> bool:
        nonlocal best
        if time.monotonic() > deadline:
            raise OutOfTime
        found = one(other, names, Report(), lambda name: begin(failure.check))
        if found is None or (found.check, found.kind) != (failure.check, failure.kind):
            return False
        if _length(found) <= _length(best):
            best = found
        return True

    with suppress(OutOfTime):
        smallest(choices, failing)
    if best.program is not None:
        best.program = smallest_slice(best.check, best.program)
    return best


def _length(failure: Failure) -> int:
    return len(failure.program.source()) if failure.program else 0


def smallest_slice(name: str, program: Program) -> Program:
    """The lines for one output, if that alone fails too."""
    if name == "line":
        return program
    slices = [program.slice((output,)) for output in program.outputs]
    for part in sorted(slices, key=lambda part: len(part.source())):
        try:
            with time_limit(CHECK_SECONDS):
                check(name, part)
        except Exception:
            return part
    return program
