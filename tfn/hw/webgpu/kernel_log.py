"""Kernel log: the times of launches by the clock of the adapter, while a trace runs.

Each launch is then a pass of its own, which writes the time at its begin and at its end.  Adapters
without the feature `timestamp-query` log nothing: their traces have the calls of programs alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tfn.errors import DeviceError
from tfn.extend import events
from tfn.hw.webgpu.driver import Driver, reached

MAX_ROWS = 1 << 14
"""Launches that are kept, the latest ones."""
MAX_UNREAD = 64
"""Command buffers whose times are left on the device: to read them waits."""

Launched = tuple[int, int]
"""The number of a program in the event log, and the place of a launch among those of its text."""


class KernelLog:
    """The times of the launches of one queue."""

    def __init__(self, driver: Driver, launches: int) -> None:
        """A log that is empty.

        Args:
            driver: of the queue.
            launches: of a command buffer, at most.
        """
        self.driver, self._launches = driver, launches
        self._queries: Any = None
        self._unread: list[tuple[Any, Sequence[Launched], int]] = []
        self._rows = deque[events.KernelRow](maxlen=MAX_ROWS)

    def running(self) -> bool:
        """Whether launches shall be timed."""
        if not (self.driver.tick_ns and events.uses_kept()):
            return False
        if self._queries is None:
            device, count = self.driver.device, 2 * self._launches
            self._queries = device.create_query_set(type="timestamp", count=count)
            events.KERNELS.append(self.rows)
        return True

    def timed(self, encoder: Any, number: int) -> Any:
        """A pass that writes its begin and end as those of a launch of the command buffer."""
        return encoder.begin_compute_pass(
            timestamp_writes={
                "query_set": self._queries,
                "beginning_of_pass_write_index": 2 * number,
                "end_of_pass_write_index": 2 * number + 1,
            }
        )

    def resolved(self, encoder: Any, count: int) -> Any:
        """The memory that gets the times of as many launches, when all have run."""
        usage = self.driver.wgpu.BufferUsage
        memory = self.driver.device.create_buffer(
            size=16 * count, usage=usage.QUERY_RESOLVE | usage.COPY_SRC
        )
        encoder.resolve_query_set(self._queries, 0, 2 * count, memory, 0)
        return memory

    def add(self, memory: Any, launched: Sequence[Launched], asked_ns: int) -> None:
        """Keep the times of launches that were submitted, and when they were."""
        self._unread.append((memory, launched, asked_ns))
        if len(self._unread) >= MAX_UNREAD:
            self._read()

    def rows(self) -> list[events.KernelRow]:
        """All rows that are kept, in the order of the launches; waits for those that run."""
        with suppress(DeviceError):  # of a lost device, what was read before
            self._read()
        return list(self._rows)

    def _read(self) -> None:
        unread, self._unread = self._unread, []
        if not unread:
            return
        tick, at_ns = self._zero()
        for memory, launched, asked_ns in unread:
            ns = at_ns + (self._ticks(memory) - tick) * self.driver.tick_ns
            for (number, launch), (begin, end) in zip(launched, ns.reshape(-1, 2), strict=True):
                busy_ns = max(int(end - begin), 0)
                row = number, launch, 0, int(begin), busy_ns, 0, 1, asked_ns
                self._rows.append(events.KernelRow(*row))

    def _zero(self) -> tuple[int, int]:
        """A time of the adapter, and the same by the clock of the host.

        It lies within a round trip.  If it does so as it is, both have one clock, as on Linux.
        """
        trips = []
        for _ in range(3):
            begin_ns = time.perf_counter_ns()
            with reached(self.driver):
                encoder = self.driver.device.create_command_encoder()
                self.timed(encoder, 0).end()
                memory = self.resolved(encoder, 1)
                self.driver.device.queue.submit([encoder.finish()])
            tick = int(self._ticks(memory)[0])
            trips.append((time.perf_counter_ns() - begin_ns, begin_ns, tick))
        trip_ns, begin_ns, tick = min(trips)
        own_ns = int(tick * self.driver.tick_ns)
        return tick, own_ns if 0 <= own_ns - begin_ns <= trip_ns else begin_ns + trip_ns // 2

    def _ticks(self, memory: Any) -> np.ndarray[Any, Any]:
        """The numbers that passes have written."""
        with reached(self.driver):
            read = self.driver.device.queue.read_buffer(memory)
        return np.frombuffer(read, np.uint64).astype(np.int64)
