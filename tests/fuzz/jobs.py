"""Jobs: processes that check programs, and are replaced when they crash, hang or eat memory.

A job says in shared memory which program it is at, so what ended it is known, and is a failure like
any other; its successor begins with the next program.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from tests.fuzz.batches import CHECK_SECONDS, Failure, Report, run
from tests.fuzz.checks import CHECKS
from tests.fuzz.programs import drawn, program
from tfn.config import config

PROGRAMS_PER_REPORT = 10

MEMORY_BYTES = 8 << 30
"""The address space of a process; more is a MemoryError, and so a failure.  Jobs take 1 to 2 GB."""

PATIENCE_SECONDS = 10 * CHECK_SECONDS
"""A check that takes so long is in native code, where its time limit cannot end it."""

STAGES = ("line", *CHECKS)
"""What a job may be doing with a program; the first is to draw it."""

_CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Plan:
    """Programs that the jobs share: each takes every `jobs`-th.

    Attributes:
        deadline: when to stop, by `time.monotonic`.
        programs: the numbers of the programs are below this.
        only: the one check to run, instead of some of all.
    """

    seed: int
    deadline: float
    programs: int
    jobs: int
    only: str = ""


def work(plan: Plan, first: int, status: Any, reports: Any) -> None:
    """The process of a job: its programs from the first on; each report is sent with the next."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    config.disk_cache = False  # no program comes twice
    gc.freeze()
    # Programs leave little garbage, and modules much to look through: 6% of the time.
    gc.set_threshold(100_000, 50, 100)

    def begin(number: int, stage: str) -> None:
        status[:] = number, STAGES.index(stage), time.monotonic()

    step = PROGRAMS_PER_REPORT * plan.jobs
    for number in range(first, plan.programs, step):
        if time.monotonic() > plan.deadline:
            break
        numbers = range(number, min(number + step, plan.programs), plan.jobs)
        report = run(plan.seed, numbers, plan.only, begin)
        usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        reports.send((report, usage))
    reports.send(None)


class Job:
    """A process, and the program that it is at."""

    def __init__(self, plan: Plan, first: int) -> None:
        self.plan = plan
        self.status = _CONTEXT.RawArray("d", [first, 0, time.monotonic()])
        self.reports, sender = _CONTEXT.Pipe(duplex=False)
        self.process = _CONTEXT.Process(
            target=work, args=(plan, first, self.status, sender), daemon=True
        )
        self.process.start()
        sender.close()  # so that its end shows when the process ends

    def hangs(self) -> bool:
        """Whether it has been at one check for too long."""
        return time.monotonic() - self.status[2] > PATIENCE_SECONDS

    def end(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.join()

    def failure(self, hung: bool) -> Failure:
        """The program that the process was at when it ended."""
        number, stage = int(self.status[0]), STAGES[int(self.status[1])]
        how = "did not end" if hung else f"ended the process, code {self.process.exitcode}"
        message = f"program {number} of seed {self.plan.seed} {how}"
        choices = drawn(self.plan.seed, number)
        # What cannot be drawn is known by its number only.
        return Failure(stage, None if stage == "line" else program(choices), message, "crash")


def follow(plan: Plan, tick: Callable[[], None]) -> Iterator[tuple[Report, int]]:
    """Reports of all jobs until all have ended, with the largest memory that the job took.

    Args:
        tick: called every second.
    """
    jobs = {job.reports: job for job in [Job(plan, first) for first in range(plan.jobs)]}
    try:
        while jobs:
            ready: list[Any] = wait(list(jobs), timeout=1)
            tick()
            for reports in ready:
                try:
                    message = reports.recv()
                except EOFError:
                    yield from _replaced(jobs, reports, hung=False)
                    continue
                if message is None:
                    jobs.pop(reports).process.join()
                else:
                    yield message
            for reports, job in list(jobs.items()):
                if job.hangs():
                    job.end()
                    yield from _replaced(jobs, reports, hung=True)
    finally:
        for job in jobs.values():
            job.end()


def _replaced(jobs: dict[Any, Job], reports: Any, hung: bool) -> Iterator[tuple[Report, int]]:
    """The failure of a job, whose place another takes."""
    job = jobs.pop(reports)
    job.process.join()
    yield Report(failures=[job.failure(hung)]), 0
    following = Job(job.plan, int(job.status[0]) + job.plan.jobs)
    jobs[following.reports] = following
