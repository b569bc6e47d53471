"""Kernels timed in another process, which they may end or keep waiting.

Each trial is one line of JSON to the child and one back: the text, the sizes of its buffers; the
nanoseconds of its fastest run, of CPU time, since others may want the core, too.  A child that does
not answer in time is ended, and the next trial has a new one.
"""

from __future__ import annotations

import ctypes
import json
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from tfn.dtypes import DType
from tfn.errors import CompileError
from tfn.hw.compile.child import command
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.target import host
from tfn.lower.program import Kernel
from tfn.lower.target.target import Target

SAMPLES, SAMPLE_NS, ALL_NS = 5, 20_000, 20_000_000
"""At least so many samples, each so long that reading the clock is nothing; so long in all."""


class ChildTimer:
    """A child that times kernels.  A context: at its end there is no child.

    Attributes:
        timeout_seconds: for compiling and timing one kernel.
    """

    def __init__(self, target: Target, timeout_seconds: float = 5.0) -> None:
        self.target, self.timeout_seconds = target, timeout_seconds
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ChildTimer:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the child, if there is one."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def measure(self, kernel: Kernel, buffers: Sequence[tuple[int, DType]]) -> float:
        """The nanoseconds of all tiles on one core; inf if the kernel fails or takes too long."""
        asked = {
            "triple": self.target.triple,
            "cpu": self.target.cpu,
            "features": self.target.features,
        }
        request = {
            "name": kernel.name,
            "text": kernel.text,
            "tiles": kernel.tiles,
            "target": asked,
            "buffers": [(n, dtype.name) for n, dtype in buffers],
        }
        if self._child is None:
            self._child = subprocess.Popen(
                command(__name__),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        child = self._child
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
            ready, _, _ = select.select([child.stdout], [], [], self.timeout_seconds)
            answer = child.stdout.readline() if ready else b""
        except BrokenPipeError:
            answer = b""
        if not answer.strip():
            self.end()
            return inf
        return float(json.loads(answer))


def timed(request: dict[str, Any]) -> float:
    """In the child: compile, load and run."""
    compiler = LlvmCompiler(verify=True)
    try:
        data = compiler.compile(request["text"], Target(**request["target"]))
        code = Loader(compiler).load(data, (request["name"],))
    except CompileError:
        return inf
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
        code.addresses[request["name"]]
    )
    buffers = [_filled(n, np.dtype(name)) for n, name in request["buffers"]]
    operands = (ctypes.c_void_p * len(buffers))(*(b.ctypes.data for b in buffers))
    best, count, samples, spent = inf, 1, 0, 0
    run(0, request["tiles"], operands)
    while samples < SAMPLES or spent < ALL_NS:
        before = time.thread_time_ns()
        for _ in range(count):
            run(0, request["tiles"], operands)
        took = time.thread_time_ns() - before
        best, samples, spent = min(best, took / count), samples + 1, spent + took
        count = max(count, int(SAMPLE_NS / max(best, 1)))
    return best


def _filled(size: int, dtype: DType) -> np.ndarray[Any, Any]:
    """Numbers that are neither huge nor tiny; integers, which may be indices, are 0."""
    start = np.zeros(size + 64 // dtype.itemsize, dtype)
    offset = -start.ctypes.data % 64 // dtype.itemsize
    out = start[offset : offset + size]
    if dtype.kind not in "iub":
        out[...] = (np.arange(size) % 7 + 1).astype(np.float32) / 8
    return out


def main() -> None:
    """The child: one answer for each line, until there are no more."""
    host()  # which asks for the registers that this process may use
    for line in sys.stdin:
        sys.stdout.write(json.dumps(timed(json.loads(line))) + "\n")
        sys.stdout.flush()
