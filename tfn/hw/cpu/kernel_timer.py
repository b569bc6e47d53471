"""Kernel timer: runs kernels in a child process, which they may crash or hang.

For each kernel one line of JSON goes to the child, with the text and the sizes of its buffers, and
one comes back, with the nanoseconds of its fastest run.  They are of CPU time, which other
processes on the core do not lengthen.  A child that does not answer in time is killed, and the next
kernel has a new one.
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

MIN_SAMPLES = 5
"""The fastest sample counts: others have met interrupts and cold caches."""
MIN_SAMPLE_NS = 20_000
"""A sample repeats the kernel for this long, so that reading the clock does not distort it."""
MIN_TOTAL_NS = 20_000_000
"""All samples of a kernel together."""


class ChildTimer:
    """A child process that times kernels.  A context, whose end ends the child.

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
        """Nanoseconds of all tiles on one core; inf if the kernel fails or takes too long."""
        target = {
            "triple": self.target.triple,
            "cpu": self.target.cpu,
            "features": self.target.features,
        }
        request = {
            "name": kernel.name,
            "text": kernel.text,
            "tiles": kernel.tiles,
            "target": target,
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
    best_ns, repeats, samples, total_ns = inf, 1, 0, 0
    run(0, request["tiles"], operands)
    while samples < MIN_SAMPLES or total_ns < MIN_TOTAL_NS:
        begin_ns = time.thread_time_ns()
        for _ in range(repeats):
            run(0, request["tiles"], operands)
        sample_ns = time.thread_time_ns() - begin_ns
        best_ns, samples, total_ns = (
            min(best_ns, sample_ns / repeats),
            samples + 1,
            total_ns + sample_ns,
        )
        repeats = max(repeats, int(MIN_SAMPLE_NS / max(best_ns, 1)))
    return best_ns


def _filled(size: int, dtype: DType) -> np.ndarray[Any, Any]:
    """Operands of ordinary magnitude; integers, which may be indices, are 0."""
    start = np.zeros(size + 64 // dtype.itemsize, dtype)
    offset = -start.ctypes.data % 64 // dtype.itemsize
    out = start[offset : offset + size]
    if dtype.kind not in "iub":
        out[...] = (np.arange(size) % 7 + 1).astype(np.float32) / 8
    return out


def main() -> None:
    """The child: one answer for each line, until there are no more."""
    host()  # has a side effect: Linux must be asked for the matrix registers, once a process
    for line in sys.stdin:
        sys.stdout.write(json.dumps(timed(json.loads(line))) + "\n")
        sys.stdout.flush()
