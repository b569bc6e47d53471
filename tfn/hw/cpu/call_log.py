"""Call log: the ring into which native entry points write the program, the begin and the end.

Its times are ticks of the processor's counter, which costs less than a clock of the system.  Two
readings of both, one when the log was made and one when it is read, turn ticks into nanoseconds.
The interpreter's lock guards the ring: a call writes its row when it has it again.
"""

from __future__ import annotations

import ctypes
import time

from tfn._support import events
from tfn.hw.cpu import native
from tfn.hw.cpu.interpreter import keep_forever
from tfn.hw.cpu.loader import Code

READINGS = 8
"""Readings of both clocks, of which the one that took least counts: others met an interrupt."""

TIMED_PERIOD = 4
"""One of so many calls of a short program is timed: two readings of the counter take 20 ns, and a
call of such a program 100.  A power of two."""

_TICKS = ctypes.PYFUNCTYPE(ctypes.c_int64)


class CallLog:
    """The ring of one device."""

    def __init__(self, state: native.State, code: Code) -> None:
        self._state = state
        self._ticks = _TICKS(code.addresses["read_counter"])
        self._ring = (ctypes.c_int64 * (native.RING_ROWS * native.RING_WORDS))()
        keep_forever(code, self._ring)  # a call on another thread may write into it at any time
        self._first = self._both()
        events.NATIVE.append(self.calls)
        events.SWITCHES.append(self.switch)
        self.switch()

    def switch(self) -> None:
        """Lets calls write into the ring, or not; all of them, or some of short programs."""
        self._state["ring"] = ctypes.addressof(self._ring) if events.enabled() else 0
        self._state["sample_mask"] = 0 if events.every_call() else TIMED_PERIOD - 1

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

    def calls(self) -> tuple[list[tuple[int, int, int, int]], int]:
        """The latest rows, the oldest first; see `events.Native`."""
        (first_ticks, first_ns), (last_ticks, last_ns) = self._first, self._both()
        scale = (last_ns - first_ns) / max(1, last_ticks - first_ticks)

        def ns(ticks: int) -> int:
            return first_ns + round((ticks - first_ticks) * scale)

        rows, before = [], dict[int, int]()
        count, words = self._state["row_count"], native.RING_WORDS
        older = max(0, count - native.RING_ROWS)
        for i in range(older, count):
            at = words * (i % native.RING_ROWS)
            number, begin, end, calls = self._ring[at : at + words]
            # The first row of a program whose earlier ones are gone stands for itself.
            since = calls - before.get(number, calls - 1 if older else 0)
            rows.append((number, ns(begin), ns(end), since))
            before[number] = calls
        return rows, older
