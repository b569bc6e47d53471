"""Worker threads: started and ended by Python, but native code between.

A worker is a Python thread, because that is portable; it enters native code once, where it waits
for jobs without the interpreter's lock.  `thread_pool.ll` says what it does there.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from tfn.config import config
from tfn.hw.cpu import thread_pool
from tfn.hw.cpu.loader import Code

_EXIT_PATIENCE_SECONDS = 2.0  # an ending process waits this long for programs that still run
_RESIZE_PATIENCE_SECONDS = 3600.0  # a change of `config.threads` waits for them, however long
_JOIN_SECONDS = 1.0  # a worker that was told to stop needs far less, unless its process is stopped
_CACHE_LINE_BYTES = 64
_POOLS: list[ctypes.Array[ctypes.c_char]] = []
"""The memory of every pool, never freed: a daemon thread may read its pool one last time."""


@cache
def _cores() -> int:
    """Asked for once: each call of a program needs it."""
    return thread_pool.cores()


def of_process() -> int:
    """The number of threads of this process, as configured."""
    return int(config.threads or _cores())


def share(number: int) -> int:
    """The threads of one of the devices of this process: an equal share, and at least one.

    Example:
        >>> share(0) == of_process() or config.devices > 1
        True
    """
    each, more = divmod(of_process(), config.devices)
    return max(each + (number < more), 1)


class Threads:
    """Workers, started when a parallel program first runs.

    Args:
        code: of the thread pool.
        count: gives the number of threads to have, with the caller.
    """

    def __init__(self, code: Code, count: Callable[[], int] = of_process) -> None:
        self._wanted = count
        self._code = code
        self._work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses["work"])
        self._stop = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(code.addresses["stop"])
        self._lock = threading.Lock()
        self._count, self._pool = 1, 0  # threads with the caller; address of the pool or 0
        self._workers: list[threading.Thread] = []
        self._closed = False
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._after_fork)

    def pool(self) -> int:
        """The address to run with, as many threads behind it as configured; 0 for none."""
        count = self._wanted()
        if count != self._count:
            self._resize(count)
        return self._pool

    def close(self) -> None:
        """End the workers; programs that come later run on their caller."""
        self._closed = True
        with self._lock:
            self._end(time.monotonic() + _EXIT_PATIENCE_SECONDS)

    def _resize(self, count: int) -> None:
        with self._lock:
            if count == self._count or self._closed:
                return
            self._end(time.monotonic() + _RESIZE_PATIENCE_SECONDS)
            if count > 1:
                self._start(count - 1)
            self._count = count

    def _start(self, workers: int) -> None:
        memory = ctypes.create_string_buffer(thread_pool.POOL_BYTES + _CACHE_LINE_BYTES)
        _POOLS.append(memory)
        pool = -(-ctypes.addressof(memory) // _CACHE_LINE_BYTES) * _CACHE_LINE_BYTES
        for number in range(1, workers + 1):
            thread = threading.Thread(
                target=self._work, args=(pool,), name=f"tfn-worker-{number}", daemon=True
            )
            with suppress(RuntimeError):  # the system has no more threads: fewer do the same work
                thread.start()
                self._workers.append(thread)
        ctypes.c_int64.from_address(pool + thread_pool.POOL["workers"]).value = len(self._workers)
        self._pool = pool

    def _end(self, deadline: float) -> None:
        """End the workers, unless a program is still running at the deadline."""
        pool, workers = self._pool, self._workers
        self._count, self._pool, self._workers = 1, 0, []
        while pool and not self._stop(pool):
            if time.monotonic() > deadline:
                return
            time.sleep(0.001)
        for thread in workers:
            thread.join(_JOIN_SECONDS)

    def _after_fork(self) -> None:
        """A child has none of its parent's threads: it starts its own."""
        self._lock = threading.Lock()
        self._count, self._pool, self._workers = 1, 0, []
