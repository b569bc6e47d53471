"""Exchanges over shared memory: the loop that runs a table of steps, and the words of a step.

`exchange.ll` says what a step is; `tfn.distributed.shared` makes the tables.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from tfn.hw.cpu import thread_pool
from tfn.hw.cpu.ir import read_ir
from tfn.hw.cpu.queue import CpuQueue
from tfn.hw.cpu.target import host

STEP = {"copy": 0, "post": 1, "wait": 2, "add": 3, "call": 4}
"""Codes of the kinds of steps."""
PAUSES = 2000
"""Pauses before a wait yields to other processes between two questions: some 50 us, for which a
process that shares its core with the one that it waits for is in the way."""

Advance = Callable[[int, int, int, int], int]


def text() -> str:
    """LLVM IR of `advance`, for this machine."""
    values: dict[str, object] = {f"STEP.{name}": code for name, code in STEP.items()}
    values["PAUSES"] = PAUSES
    return read_ir("exchange", values, thread_pool.conditions())


def load(queue: CpuQueue) -> Advance:
    """``advance(steps, first, end, turns)``, which runs without the interpreter's lock.

    Args:
        queue: of the CPU, whose programs steps call.

    Returns:
        A function of the address of a table, the number of the step to begin with, that after the
        last, and how often a wait asks before it gives up; its result is where it stopped.
    """
    compiler = queue.loader.compiler
    data = compiler.compile(text(), host(), level=0)
    code = queue.loader.load(data, ("advance",), {"run": queue.runtime})
    word = ctypes.c_int64
    advance = ctypes.CFUNCTYPE(word, ctypes.c_void_p, word, word, word)(code.addresses["advance"])
    advance.code = code  # type: ignore[attr-defined]  # it stays loaded with the function
    return advance
