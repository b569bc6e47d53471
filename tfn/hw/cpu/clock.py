"""Clock: ticks of the processor's counter as nanoseconds of `time.perf_counter_ns`.

Native code reads the counter, which costs less than a clock of the system.  Two readings of both,
one when the clock was made and one when it is asked, turn ticks into nanoseconds.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

READINGS = 8
"""Readings of both clocks, of which the one that took least counts: others met an interrupt."""

_TICKS = ctypes.PYFUNCTYPE(ctypes.c_int64)


class Clock:
    """The counter that a native function reads."""

    def __init__(self, read_counter: int) -> None:
        self._ticks = _TICKS(read_counter)
        self._first = self._both()

    def _both(self) -> tuple[int, int]:
        """The counter and the clock at one moment."""
        best, shortest_ns = (0, 0), 1 << 62
        for _ in range(READINGS):
            begin_ns = time.perf_counter_ns()
            ticks = self._ticks()
            took_ns = time.perf_counter_ns() - begin_ns
            if took_ns < shortest_ns:
                best, shortest_ns = (ticks, begin_ns + took_ns // 2), took_ns
        return best

    def reader(self) -> Callable[[int], int]:
        """A function from ticks to nanoseconds, by the rate of the counter until now."""
        (first_ticks, first_ns), (last_ticks, last_ns) = self._first, self._both()
        scale = (last_ns - first_ns) / max(1, last_ticks - first_ticks)

        def ns(ticks: int) -> int:
            return first_ns + round((ticks - first_ticks) * scale)

        return ns
