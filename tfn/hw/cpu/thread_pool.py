"""The thread pool: its native part, and how many threads it may have.

`thread_pool.ll` says how a job is offered and joined, `thread_choice.ll` whether it is; `threads`
starts and ends the workers.
"""

from __future__ import annotations

import os
import platform
import sys
import time

from tfn.hw.cpu import denormals
from tfn.hw.cpu.ir import read_ir
from tfn.lower.program import LOG_OFFSET, NUMBER_OFFSET

POOL_BYTES = 576
POOL = {
    "done": 64,
    "asleep": 128,
    "busy": 192,
    "stop": 256,
    "workers": 320,
    "job": 384,
    "last_ns": 448,
    "missed_ns": 456,
}
"""Offsets of the words of a pool behind the admission, which is at 0.  Each has a cache line of its
own, so that a thread that writes one does not slow down others that spin on the next; but for the
last two, which callers alone use: the end of the last call, and what calls have missed by running
alone while workers slept."""
CALL = {
    "program": 0,
    "sync_offset": 8,
    "sync_bytes": 16,
    "patience_ns": 24,
    "host": 32,
    "log": 40,
    "number": 48,
    "times": 56,
    "work_ns": 64,
}
"""Offsets of the words of a call, which belongs to one program: its function, the offset of sync in
the working memory and its size, the patience, and the address of the host's entry, 0 for none;
the address of a word that holds that of the log of kernel times, and the program's number there;
the address of its times, and the estimate of its work."""
TIMES = {"pool": 0, "awake": 8, "asleep": 32}
TIMES_BYTES = 56
"""Offsets of the words of a program's times, by which `thread_choice.ll` decides: the pool that
they are of, and for each state of the workers the times on one thread and on all, and the number
of calls that chose by them."""
WAKING_NS = 30_000
"""The time from waking a worker until it runs.  On a virtual machine (AMD EPYC of the third
generation, KVM) the call takes its caller 9.6 us, and the worker runs after 30 us in the median,
after 80 at the 90th percentile when the machine had been idle for 5 ms."""
WORTH_WAKING_NS = 100_000
"""The time of a program above which workers are woken for it alone: half of it, which a second
thread saves, is more than `WAKING_NS` in most cases."""
WAKING_PATIENCE_NS = 60_000
"""The time for which a caller waits for workers that it has woken: twice what they mostly need."""
TRIED_ALONE_NS = 1_000_000
"""The time of a program on all threads above which one thread alone is not tried."""
IDLE_NS = 200_000
"""The time for which a worker spins after a job before it sleeps: long enough that the programs of
a loop find it awake, short enough that an idle process leaves the core to others."""
_FUTEX_CALLS = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
"""The number of the system call `futex`."""
_FUTEX_PRIVATE = 128  # the word belongs to this process alone
_FUTEX_WAIT = 0 | _FUTEX_PRIVATE
_FUTEX_WAKE = 1 | _FUTEX_PRIVATE
_ARCHITECTURES = {"x86_64": ("X86",), "aarch64": ("ARM",), "arm64": ("ARM",)}
"""The condition of `thread_pool.ll` that is true on a machine."""


def text() -> str:
    """LLVM IR of `run`, `work` and `stop` for this machine, and of the word `float_mode`."""
    machine = platform.machine()
    values: dict[str, object] = {
        **{f"POOL.{name}": offset for name, offset in POOL.items()},
        **{f"CALL.{name}": offset for name, offset in CALL.items()},
        "FLOAT_MODE": denormals.mode(),
        "CLOCK_MONOTONIC": time.CLOCK_MONOTONIC,
        "TIMES_BYTES": TIMES_BYTES,
        **{f"TIMES.{name}": offset for name, offset in TIMES.items()},
        "WAKING_NS": WAKING_NS,
        "WORTH_WAKING_NS": WORTH_WAKING_NS,
        "WAKING_PATIENCE_NS": WAKING_PATIENCE_NS,
        "TRIED_ALONE_NS": TRIED_ALONE_NS,
        "IDLE_NS": IDLE_NS,
        "FUTEX_CALL": _FUTEX_CALLS.get(machine, 0),
        "FUTEX_WAIT": _FUTEX_WAIT,
        "FUTEX_WAKE": _FUTEX_WAKE,
        "LOG_OFFSET": LOG_OFFSET,
        "NUMBER_OFFSET": NUMBER_OFFSET,
        "JOB_NUMBER_AT": 4 if sys.byteorder == "little" else 0,
    }
    futexes = sys.platform == "linux" and machine in _FUTEX_CALLS
    files = ("thread_pool", "thread_choice", "sleep_futex" if futexes else "sleep_poll")
    return "".join(read_ir(file, values, conditions()) for file in files)


def conditions() -> tuple[str, ...]:
    """The conditions of `.ll` files that are true on this machine."""
    return _ARCHITECTURES.get(platform.machine(), ())


def cores() -> int:
    """The number of threads that can run at once: cores of this process, or a container's cap."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        count = os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        return max(1, min(count, -(-int(quota) // int(period))))
    except (OSError, ValueError):  # no cap
        return count
