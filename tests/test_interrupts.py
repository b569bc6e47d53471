"""Interrupts (SIGINT) at random moments of everything that a program does with tfn.

A child process is interrupted 64 times: while it traces, compiles, runs, differentiates, calls
back, saves and loads.  After each interrupt all results are those of before, no array is kept, the
checkpoint is whole, and no unfinished file is left.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tfn
import tfn.numpy as tnp
from tfn import lax, nn
from tfn.config import config
from tfn.eager import run
from tfn.nn import state

INTERRUPTS = 64

HANGS_AFTER_SECONDS = 280
"""Of which the child needs 15 on a core of its own; then it says where it is."""

X = np.random.default_rng(0).standard_normal((96, 96)).astype(np.float32)


class Program:
    """What is interrupted, and what has to stay right."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "a.safetensors"
        self.x = tnp.asarray(X)
        self.long = tfn.jit(
            lambda x: lax.fori_loop(0, 300, lambda _, y: tnp.tanh(y @ x * 0.1), x),
        )
        self.short = tfn.jit(lambda x: (nn.softmax(x @ x).sum(0), tnp.sort(x, axis=0)))
        self.weights = {"w": tnp.zeros((512, 512)), "n": 0}
        self.turn = 0

    def network(self, x: Any) -> Any:
        """A function that is new each time: its numbers are part of its code."""
        for layer in range(4):
            x = nn.gelu(x @ x.T * 0.01 + self.turn) + layer
        return x.sum()

    def trace(self) -> None:
        def steps(x: Any) -> Any:
            for n in range(300):
                x = tnp.sin(x) + n
            return x

        tfn.make_jaxpr(steps)(self.x)

    def compile(self) -> None:
        tfn.jit(self.network)(self.x)

    def differentiate(self) -> None:
        tfn.jit(tfn.grad(self.network))(self.x)
        tfn.grad(lambda x: lax.scan(lambda c, r: (c * r + self.turn, None), x[0], x)[0].sum())(
            self.x
        )

    def run(self) -> None:
        np.asarray(self.long(self.x))

    def run_operations(self) -> None:
        x = self.x
        for n in range(200):
            x = tnp.sin(x) + n

    def call_back(self) -> None:
        def slow(x: Any) -> Any:
            time.sleep(0.002)
            return np.sin(x)

        same = tfn.ShapeDtypeStruct(X.shape, "float32")
        called = tfn.jit(lambda x: tfn.pure_callback(slow, same, tfn.pure_callback(slow, same, x)))
        np.asarray(called(self.x))

    def save(self) -> None:
        state.save(self.path, {**self.weights, "n": self.turn})

    def load(self) -> None:
        state.load(self.path, self.weights)

    def results(self) -> list[Any]:
        """What has to be the same at all times."""
        fresh = tfn.jit(lambda x: (x * 2).sum() + x.T[0])(self.x)
        outputs = [*self.short(self.x), fresh, self.long(self.x), self.x * 3]
        return [np.asarray(y).tobytes() for y in outputs]

    def live_bytes(self) -> int:
        """Memory of arrays, without those that only cycles of Python keep."""
        gc.collect()
        return run.device().memory.pool.live_bytes  # type: ignore[attr-defined, no-any-return]


ACTIVITIES: tuple[Callable[[Program], None], ...] = (
    *(Program.trace, Program.compile, Program.differentiate, Program.run, Program.run_operations),
    *(Program.call_back, Program.save, Program.load),
)


def interrupted(seed: int, folder: Path) -> None:
    """Interrupts each activity at random moments, and looks at all results after each."""
    faulthandler.dump_traceback_later(HANGS_AFTER_SECONDS, exit=True)
    config.disk_cache = False
    random.seed(seed)
    program = Program(folder)
    program.save()
    expected = program.results()
    seconds: dict[str, float] = {}
    for activity in ACTIVITIES:
        program.turn -= 1
        activity(program)  # what is made at the first use only
        start = time.perf_counter()
        program.turn -= 1
        activity(program)
        seconds[activity.__name__] = time.perf_counter() - start
    live_bytes = program.live_bytes()
    main = threading.get_ident()
    counts: Counter[str] = Counter()
    while counts.total() < INTERRUPTS:
        program.turn += 1
        activity = ACTIVITIES[program.turn % len(ACTIVITIES)]
        delay = random.uniform(0, seconds[activity.__name__])
        timer = threading.Timer(delay, signal.pthread_kill, (main, signal.SIGINT))
        try:
            timer.start()
            activity(program)
            timer.join()
            time.sleep(0.001)  # so that a signal that has come is handled
        except KeyboardInterrupt:
            counts[activity.__name__] += 1
        timer.join()
        assert program.results() == expected, (activity, program.turn)
        assert program.live_bytes() <= live_bytes, (activity, program.turn)
        state.verify(program.path)
        assert os.listdir(folder) == [program.path.name]
    print(dict(counts))


def test_interrupts_leave_everything_usable(tmp_path: Path) -> None:
    seed = time.time_ns() % 1_000_000
    code = (
        "import sys, pathlib; from tests.test_interrupts import interrupted; "
        f"interrupted({seed}, pathlib.Path(sys.argv[1]))"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    print(f"seed {seed}", child.stdout)
    assert child.returncode == 0, f"seed {seed}\n{child.stdout}{child.stderr}"
