"""Time that a call costs the host beside the driver: its functions do nothing here.

python -m tests.hw.cuda.overhead
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import tfn
import tfn.numpy as tnp
from tests.hw.cuda.devices import default, device_of
from tests.hw.cuda.simulator import NATIVE, SimulatedCuda
from tfn.config import config
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.target import host
from tfn.hw.cuda.library import Library

ROUNDS, CALLS = 15, 2000
NOTHING = "define i32 @nothing() { ret i32 0 }"


def without_driver() -> SimulatedCuda:
    """A GPU whose functions that calls use return at once, and do nothing."""
    compiler, simulated = LlvmCompiler(), SimulatedCuda()
    code = Loader(compiler).load(compiler.compile(NOTHING, host()), ["nothing"])
    functions = {**simulated.library().functions, "code": code}
    for name, kinds in NATIVE.items():
        functions[name] = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(code.addresses["nothing"])
    simulated.library = lambda: Library(functions)  # type: ignore[method-assign]
    return simulated


def microseconds(call: Callable[[], Any]) -> float:
    """The time of a call: the least mean of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - begin) / CALLS)
    return 1e6 * best


def overheads(native: bool) -> dict[str, float]:
    """Microseconds of calls, by what they are."""
    with default(device_of(without_driver(), native=native)):
        x = tnp.arange(8.0)
        add, update = tfn.jit(lambda x: x + 1), tfn.jit(lambda w, m: (w - 0.1 * m, 0.9 * m))
        state = [x, x]

        def step() -> None:
            state[:] = update(*state)

        return {
            "jitted x + 1": microseconds(lambda: add(x)),
            "jitted update of two arrays, fed back": microseconds(step),
            "eager x + x": microseconds(lambda: x + x),
        }


if __name__ == "__main__":
    config.disk_cache = False
    slow, fast = overheads(False), overheads(True)
    print("us of a call beside the driver: by Python, by its native entry")
    for name, time_us in fast.items():
        print(f"  {name:40} {slow[name]:8.2f} {time_us:8.2f}")
