"""Kernel log: the ring into which the threads of a program write the times of its kernels.

A driver logs if `sync` tells it where (see `lower.program.LOG_OFFSET`).  Two words say whether it
shall, and a program is bound to one of them: programs of long kernels are logged always, others
while a trace asks for every call.
"""

from __future__ import annotations

import ctypes
from array import array

from tfn._support import events
from tfn.hw.cpu.clock import Clock
from tfn.hw.cpu.interpreter import keep_forever
from tfn.hw.cpu.loader import Code
from tfn.lower.program import (
    LOG_HEAD_BYTES,
    LOG_ROW,
    LOG_ROW_BYTES,
    LOG_ROWS,
    MAX_TIMED_LAUNCHES,
    Program,
    launch_count,
)

MIN_ALWAYS_TIMED_NS = 2_000
"""The mean estimated time of a launch above which a program is logged always: two readings of the
counter, one where there is no barrier, take 10 to 20 ns."""


class KernelLog:
    """The ring of one device."""

    def __init__(self, code: Code, clock: Clock) -> None:
        self._clock = clock
        rows = LOG_ROWS + MAX_TIMED_LAUNCHES
        self._ring = (ctypes.c_int64 * ((LOG_HEAD_BYTES + LOG_ROW_BYTES * rows) // 8))()
        self._switches = (ctypes.c_int64 * 2)()
        keep_forever(code, self._ring, self._switches)  # a program on another thread may write
        events.KERNELS.append(self.rows)
        events.SWITCHES.append(self.switch)
        self.switch()

    def switch(self) -> None:
        """Lets programs write into the ring, or not."""
        address = ctypes.addressof(self._ring)
        self._switches[0] = address if events.enabled() else 0
        self._switches[1] = address if events.enabled() and events.every_call() else 0

    def switch_of(self, program: Program) -> int:
        """The address of the word that a program is bound to; 0 if it has one kernel or none."""
        if len(program.launches) < 2 or not program.sync_bytes:
            return 0
        always = program.work_ns >= MIN_ALWAYS_TIMED_NS * launch_count(program.steps)
        return ctypes.addressof(self._switches) + (0 if always else 8)

    def rows(self) -> list[events.KernelRow]:
        """All rows that are kept, in no order."""
        reserved, at = self._ring[0], LOG_HEAD_BYTES // 8
        words = len(LOG_ROW)
        kept = min(reserved, LOG_ROWS + MAX_TIMED_LAUNCHES)
        data = array("q", bytes(memoryview(self._ring).cast("B")))[at : at + words * kept]
        ns = self._clock.reader()
        listed = []
        for i in range(0, len(data), words):
            number, launch, thread, begin, busy, waiting, count = data[i : i + words]
            if number and count:
                begin_ns, end_ns = ns(begin), ns(begin + busy)
                waiting_ns = ns(begin + busy + waiting) - end_ns
                row = number, launch, thread, begin_ns, end_ns - begin_ns, waiting_ns, count
                listed.append(events.KernelRow(*row))
        return listed
