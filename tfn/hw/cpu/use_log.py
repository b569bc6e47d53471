"""Use log: the ring into which native code writes the uses of buffers while a trace records.

    allocate x   write x by mul   read x by add   free x

Blocks are allocated and freed in `buffers.ll`; entries log what a program read and wrote as they
log the call, in `entry.ll`; Python adds what it does itself.  While no trace records, the address
of the ring is 0, and to compare it is all that the log costs.
"""

from __future__ import annotations

import ctypes
from array import array
from typing import Any

from tfn._support import events
from tfn._support.events import Use
from tfn.hw.cpu import native
from tfn.hw.cpu.clock import Clock
from tfn.hw.cpu.interpreter import bind, keep_forever, method
from tfn.hw.cpu.loader import Code

_NAMES = list(native.USE)


class UseLog:
    """The ring of one device, made when a trace first asks for it."""

    def __init__(self, state: native.State, code: Code, clock: Clock, buffers: type) -> None:
        self._state, self._code, self._clock = state, code, clock
        self._ring: ctypes.Array[ctypes.c_int64] | None = None
        self._numbers: dict[str, tuple[int, events.Named]] = {}
        self._add = bind(method("add_use", code.addresses["add_use"]), None)
        events.USES.append(self.uses)
        events.ADD_USE[buffers] = self.add
        events.SWITCHES.append(self.switch)
        self.switch()

    def switch(self) -> None:
        """Begins to log, or ends."""
        if not events.uses_kept():
            self._state["use_ring"] = 0
        elif not self._state["use_ring"]:
            if self._ring is None:
                self._ring = (ctypes.c_int64 * (native.USE_ROWS * native.USE_WORDS))()
                keep_forever(self._code, self._ring)  # a call on another thread may write into it
            self._numbers.clear()
            self._state["use_count"] = 0
            self._state["use_ring"] = ctypes.addressof(self._ring)

    def add(self, what: str, name: str, buffer: Any) -> None:
        """Adds a row, if a trace records; `buffer` is one of the device."""
        if name not in self._numbers:
            self._numbers[name] = events.number_of(name, lambda: None)
        self._add(native.USE[what], self._numbers[name][0], buffer)

    def uses(self) -> tuple[list[Use], int]:
        """The latest rows, the oldest first, and how many older ones have been dropped."""
        count, words = self._state["use_count"], native.USE_WORDS
        older = max(0, count - native.USE_ROWS)
        if self._ring is None or not count:
            return [], 0
        kept = min(count, native.USE_ROWS)
        data = array("q", bytes(memoryview(self._ring).cast("B")[: 8 * words * kept]))
        ns, rows = self._clock.reader(), []
        for i in range(older, count):
            at = words * (i % native.USE_ROWS)
            what, number, buffer, size_bytes, ticks = data[at : at + words]
            name = events.named(number).name if number else ""
            rows.append(Use(_NAMES[what], name, buffer, size_bytes, ns(ticks)))
        return rows, older
