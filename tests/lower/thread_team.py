"""Programs run by a fixed number of threads, however small they are."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

import numpy as np

from tests.lower.graphs import Value, jaxpr
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.target import host
from tfn.lower.codegen.render.driver import driver_text, sync_bytes
from tfn.lower.memory import barriers, schedule
from tfn.lower.pipeline import lower
from tfn.lower.program import Space, Step, all_launches
from tfn.trace.uop import UOp


@contextmanager
def all_shared(barrier_ns: int = -1) -> Iterator[None]:
    """Programs that are lowered in it have no serial steps but those that save less than this."""
    with patch.object(barriers, "BARRIER_NS", barrier_ns):
        schedule.routine_schedule.cache_clear()
        yield
    schedule.routine_schedule.cache_clear()


@cache
def loader() -> Loader:
    return Loader(LlvmCompiler())


def run(
    steps: Sequence[Step], buffers: Sequence[Value], arena: Value, threads: int, inputs: int = 0
) -> None:
    """Runs the driver of some steps on `threads` threads at once."""
    launches = list(all_launches(steps))
    compiler, texts = loader().compiler, {k.kernel.name: k.kernel.text for k in launches}
    objects = compiler.compile_all([*texts.values()], host())
    code = loader().load_once(dict(zip(texts, objects, strict=True)))
    text = driver_text("entry", steps, inputs)
    entry = loader().load(compiler.compile(text, host()), ("entry",), code)
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 3)(
        entry.addresses["entry"]
    )
    pointers = (ctypes.c_void_p * max(len(buffers), 1))(*[b.ctypes.data for b in buffers])
    sync = np.zeros(sync_bytes(launches) // 8 + 8, np.int64)
    start = sync[(-sync.ctypes.data // 8) % 8 :]  # on a cache line of its own
    workers = [
        threading.Thread(
            target=call, args=(i, threads, pointers, arena.ctypes.data, start.ctypes.data)
        )
        for i in range(threads)
    ]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join(60)
        assert not thread.is_alive(), "a thread waits at a barrier for ever"


def run_on_threads(threads: int, outputs: Sequence[UOp], values: Sequence[Value]) -> list[Value]:
    """Compiles graphs, runs them on `threads` threads, and returns their values."""
    program = lower(jaxpr(outputs), host())
    results = [np.zeros(u.shape, u.dtype) for u in outputs]
    arena = np.zeros(program.arena_bytes + 64, np.uint8)
    run(program.steps, [*values, *results], arena, threads, inputs=len(values))
    for i, slot in program.aliases:
        results[i] = values[slot.at] if slot.space is Space.INPUT else results[slot.at]
    return results
