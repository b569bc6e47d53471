"""Worker threads: Python starts them, and they never come back to it.

A worker is a Python thread, because that is portable; it enters native code once, where it waits
for jobs without the interpreter's lock.  See `thread_pool` for what it does there.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from contextlib import suppress

from tfn.config import config
from tfn.hw.cpu import thread_pool
from tfn.hw.cpu.loader import Code

_PATIENCE_SECONDS = 2.0  # how long the end of the process waits for programs that still run
_WORKERS_AT = 320
_POOLS: list[ctypes.Array[ctypes.c_char]] = []  # for ever: a worker may look at one last time


class Threads:
    """The workers of one process, started when a program first wants them."""

    def __init__(self, code: Code) -> None:
        self.cores = thread_pool.cores()
        self._code = code
        self._work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses["work"])
        self._stop = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(code.addresses["stop"])
        self._lock = threading.Lock()
        self._count, self._pool = 1, 0  # threads with the caller; address of the pool if any
        self._crew: list[threading.Thread] = []
        self._closed = False
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._after_fork)

    def pool(self) -> int:
        """The address to run with, as many threads behind it as configured; 0 for none."""
        wanted = config.threads or self.cores
        if wanted != self._count:
            self._resize(wanted)
        return self._pool

    def close(self) -> None:
        """Send the workers home; programs that come later run on their caller."""
        self._closed = True
        with self._lock:
            self._dismiss(time.monotonic() + _PATIENCE_SECONDS)

    def _resize(self, wanted: int) -> None:
        with self._lock:
            if wanted == self._count or self._closed:
                return
            self._dismiss(time.monotonic() + 3600)
            if wanted > 1:
                self._hire(wanted - 1)
            self._count = wanted

    def _hire(self, workers: int) -> None:
        memory = ctypes.create_string_buffer(thread_pool.POOL_BYTES + 64)
        _POOLS.append(memory)
        pool = -(-ctypes.addressof(memory) // 64) * 64
        for number in range(1, workers + 1):
            thread = threading.Thread(
                target=self._work, args=(pool,), name=f"tfn-worker-{number}", daemon=True
            )
            with suppress(RuntimeError):  # the system gives no more: fewer will do
                thread.start()
                self._crew.append(thread)
        ctypes.c_int64.from_address(pool + _WORKERS_AT).value = len(self._crew)
        self._pool = pool

    def _dismiss(self, deadline: float) -> None:
        """End the workers, unless a program is still running at the deadline."""
        pool, crew = self._pool, self._crew
        self._count, self._pool, self._crew = 1, 0, []
        while pool and not self._stop(pool):
            if time.monotonic() > deadline:
                return
            time.sleep(0.001)
        for thread in crew:
            thread.join(1.0)

    def _after_fork(self) -> None:
        """A child has none of its parent's threads: it will hire its own."""
        self._lock = threading.Lock()
        self._count, self._pool, self._crew = 1, 0, []
