"""Call log: the ring into which native entry points write the program, the begin and the end.

Its times are ticks of the processor's counter; see `clock.py`.  The interpreter's lock guards the
ring: a call writes its row when it has it again.
"""

from __future__ import annotations

import ctypes

from tfn._support import events
from tfn.hw.cpu import native
from tfn.hw.cpu.clock import Clock
from tfn.hw.cpu.interpreter import keep_forever
from tfn.hw.cpu.loader import Code

TIMED_PERIOD = 4
"""One of so many calls of a short program is timed: two readings of the counter take 20 ns, and a
call of such a program 100.  A power of two."""


class CallLog:
    """The ring of one device."""

    def __init__(self, state: native.State, code: Code, clock: Clock) -> None:
        self._state, self._clock = state, clock
        self._ring = (ctypes.c_int64 * (native.RING_ROWS * native.RING_WORDS))()
        keep_forever(code, self._ring)  # a call on another thread may write into it at any time
        events.NATIVE.append(self.calls)
        events.SWITCHES.append(self.switch)
        self.switch()

    def switch(self) -> None:
        """Lets calls write into the ring, or not; all of them, or some of short programs."""
        self._state["ring"] = ctypes.addressof(self._ring) if events.enabled() else 0
        self._state["sample_mask"] = 0 if events.every_call() else TIMED_PERIOD - 1

    def calls(self) -> tuple[list[events.CallRow], int]:
        """The latest rows, the oldest first, and how many older ones have been dropped."""
        ns = self._clock.reader()
        rows, before = [], dict[int, int]()
        count, words = self._state["row_count"], native.RING_WORDS
        older = max(0, count - native.RING_ROWS)
        for i in range(older, count):
            at = words * (i % native.RING_ROWS)
            number, begin, end, calls, live_bytes = self._ring[at : at + words]
            # The first row of a program whose earlier ones are gone stands for itself.
            since = calls - before.get(number, calls - 1 if older else 0)
            rows.append(events.CallRow(number, ns(begin), ns(end), since, live_bytes))
            before[number] = calls
        return rows, older
