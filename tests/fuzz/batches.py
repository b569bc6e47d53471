"""Batches: programs drawn by hypothesis from one seed, up to the first that fails."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.fuzz import coverage
from tests.fuzz.checks import CHECKS, Inapplicable, check
from tests.fuzz.keep import kept
from tests.fuzz.programs import Broken, Program, programs
from tfn.config import config

PROGRAMS_PER_BATCH = 50
"""Hypothesis forgets what it has seen between batches, and shrinks at most once a batch."""

SHRINK_SECONDS = 60.0
"""A failing program is shrunk for so long; then the smallest so far is kept."""


class OutOfTime(KeyboardInterrupt):
    """The end of the time, for all or for shrinking; hypothesis lets interrupts pass."""


class Batch:
    """Programs drawn from one seed, up to the first that fails, which is shrunk.

    While a check runs, its program is a test in the folder `running`, for the case that it ends the
    process.

    Args:
        deadline: when to stop, by `time.monotonic`.
        only: the one check to run, instead of some of all.
        most: so many programs at most.
    """

    def __init__(
        self, deadline: float, running: Path, only: str = "", most: int = PROGRAMS_PER_BATCH
    ) -> None:
        self.deadline = deadline
        self.running = running
        self.only = only
        self.most = most
        self.programs = 0
        self.lines = 0
        self.counts: coverage.Counts = Counter()
        self.seconds: Counter[str] = Counter()
        self.failure: tuple[str, Program, str] | None = None
        self.failed_at = 0.0

    def run(self, seed: int) -> None:
        """Draws and checks programs; what failed is in `failure`."""

        @hypothesis.seed(seed)
        @settings(
            max_examples=self.most,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )
        @hypothesis.given(st.data())
        def test(data: st.DataObject) -> None:
            self.one(data)

        with contextlib.suppress(OutOfTime), contextlib.redirect_stdout(None):
            try:
                test()
            except Exception as error:
                if self.failure is None:
                    raise RuntimeError("the fuzzer itself failed") from error
        if self.failure is not None:
            name, program, message = self.failure
            self.failure = name, smallest_slice(name, program), message

    def one(self, data: st.DataObject) -> None:
        """Draws a program and runs the checks that it draws."""
        now = time.monotonic()
        if self.failure is None and now > self.deadline:
            raise OutOfTime
        if self.failure is not None and now > self.failed_at + SHRINK_SECONDS:
            raise OutOfTime
        try:
            program = data.draw(programs())
        except Broken as error:
            self.fail("line", error.program, error)
            raise
        self.seconds["draw"] += time.monotonic() - now  # type: ignore[assignment]
        chosen = (
            (self.only,)
            if self.only
            else tuple(
                name
                for name, check in CHECKS.items()
                if check.share == 100
                or (check.share and data.draw(st.integers(0, 99)) < check.share)
            )
        )
        if self.failure is not None:  # a smaller program has to fail in the same way
            chosen = tuple(name for name in chosen if name == self.failure[0])
        for name in chosen:
            start = time.monotonic()
            path = kept(self.running, name, program, "The process ended.")
            try:
                CHECKS[name].run(program)
            except Inapplicable:
                chosen = tuple(other for other in chosen if other != name)
            except Exception as error:
                self.fail(name, program, error)
                raise
            finally:
                path.unlink(missing_ok=True)
                self.seconds[name] += time.monotonic() - start  # type: ignore[assignment]
        if self.failure is None and chosen:
            self.programs += 1
            self.lines += len(program.lines)
            self.counts += coverage.counted(program, chosen)

    def fail(self, name: str, program: Program, error: Exception) -> None:
        """Notes a failure, if it is smaller than the one before."""
        if self.failure is None:
            self.failed_at = time.monotonic()
        if self.failure is None or len(program.source()) <= len(self.failure[1].source()):
            self.failure = name, program, f"{type(error).__name__}: {error}"


def smallest_slice(name: str, program: Program) -> Program:
    """The lines for one output, if that alone fails too."""
    if name == "line":
        return program
    slices = [program.slice((output,)) for output in program.outputs]
    for part in sorted(slices, key=lambda part: len(part.source())):
        try:
            check(name, part)
        except Exception:
            return part
    return program


def work(options: Any, job: int, deadline: float, running: Path, reports: Any) -> None:
    """Batches of one process until the time or the number of programs is over; each is a report."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    config.disk_cache = False  # no program comes twice
    number, programs = job, 0
    share = -(-options.programs // options.jobs)
    while time.monotonic() < deadline and programs < share:
        batch = Batch(deadline, running, options.only, min(PROGRAMS_PER_BATCH, share - programs))
        batch.run(options.seed * 1_000_003 + number)
        programs += batch.programs
        reports.put(
            (batch.programs, batch.lines, batch.counts, batch.seconds, batch.failure, number)
        )
        number += options.jobs
    reports.put(None)
