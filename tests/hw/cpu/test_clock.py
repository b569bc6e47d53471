"""Clock: ticks on the clock of Python."""

from __future__ import annotations

import time

from tests.hw.entries import device
from tfn.hw.cpu.clock import Clock


def test_ticks_follow_the_clock_of_python() -> None:
    dispatch = device().queue.dispatch  # type: ignore[attr-defined]
    clock: Clock = dispatch.kernels._clock
    before_ns = time.perf_counter_ns()
    ticks = clock._ticks()
    after_ns = time.perf_counter_ns()
    time.sleep(0.01)
    ns = clock.reader()
    slack_ns = 50_000  # of two readings of both clocks
    assert before_ns - slack_ns < ns(ticks) < after_ns + slack_ns
    assert ns(ticks) <= ns(ticks + 1000)
