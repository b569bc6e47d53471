"""A long run of everything at once: memory, descriptors, threads and bits stay what they are.

    python benchmarks/soak.py --minutes 60

Rounds follow one another in one process.  A round trains a network from the same weights, serves
requests by threads, compiles functions for shapes that are new, calls back to Python, saves and
loads a checkpoint, raises errors while tracing and while running, and forks a process that
computes.  Each result is compared with that of the first round, bit by bit, or with NumPy where it
is exact.

Programs of new shapes are dropped when all of them take `LIMIT_BYTES`.  A reading is taken when
that has just been done.  What is dropped differs from time to time, so readings go up and down by
2%, and it is their peaks that are compared.  Readings of the first quarter are the warm-up.  The
exit status is 1 if the peak of the last third of the others is more than 1% above that of the first
third, if descriptors or threads become more, or if a bit differs.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import hashlib
import os
import resource
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import tfn
import tfn.numpy as jnp
from tfn import config, lax, nn, random
from tfn.eager import run
from tfn.nn import optim, state

LIMIT_BYTES = 32 << 20
"""For programs, kernels and traces: new shapes fill it about twice a minute."""

SERVING_THREADS = 4
REQUESTS = 200
TRAINING_STEPS = 100
NEW_SHAPES = 12
LARGEST_SHAPE = 97, 1021
"""Two primes, so that no shape comes twice, and large ones come at the beginning, too."""

MAX_GROWTH = 0.01
WARM_UP_SHARE = 0.25
MIN_SECONDS_BETWEEN_READINGS = 15.0
FORK_SECONDS = 60.0
"""A child that has not answered by then hangs."""


def digest(tree: Any) -> str:
    """The bits of all arrays of a tree."""
    total = hashlib.blake2b(digest_size=8)
    for leaf in tfn.tree.leaves(tree):
        total.update(np.asarray(leaf).tobytes())
    return total.hexdigest()


class Work:
    """What a round does: each method is an activity, and returns the bits of its results."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.folder, self.pool = folder, pool
        self.shapes = 0
        random_numbers = np.random.default_rng(0)
        self.x = jnp.asarray(random_numbers.standard_normal((64, 32)).astype(np.float32))
        self.labels = jnp.asarray(random_numbers.integers(0, 10, 64))
        keys = random.split(random.key(0), 3)
        self.weights = {
            f"w{i}": random.normal(keys[i], shape) * 0.1
            for i, shape in enumerate(((32, 128), (128, 64), (64, 10)))
        }
        self.optimizer = optim.adam(1e-3)
        self.step = tfn.jit(self._step, donate_argnums=(0, 1))
        self.functions: list[Callable[..., Any]] = [
            tfn.jit(lambda x: nn.softmax(x @ x.T)),
            tfn.jit(lambda x: jnp.cumsum(jnp.sort(x, axis=0), axis=0)),
            tfn.jit(lambda x: lax.scan(lambda c, r: (jnp.tanh(c + r), c), x[0], x)[1]),
            tfn.jit(tfn.grad(lambda x: nn.gelu(x).sum())),
            tfn.jit(tfn.vmap(lambda r: r[::-1] * r.mean())),
            tfn.jit(lambda x: jnp.fft.rfft(x).real),
            lambda x: (x * 3 + 1).max(0),
        ]

    def _step(self, weights: Any, moments: Any, x: Any, labels: Any) -> Any:
        def loss(weights: Any) -> Any:
            hidden = nn.gelu(nn.gelu(x @ weights["w0"]) @ weights["w1"])
            return -(nn.log_softmax(hidden @ weights["w2"]) * nn.one_hot(labels, 10)).mean()

        updates, moments = self.optimizer.update(tfn.grad(loss)(weights), moments, weights)
        return optim.apply_updates(weights, updates), moments

    def training(self) -> str:
        """Steps of Adam whose arguments are given away, from the same weights each time."""
        weights = tfn.tree.map(lambda w: w + 0, self.weights)
        moments = self.optimizer.init(weights)
        for _ in range(TRAINING_STEPS):
            weights, moments = self.step(weights, moments, self.x, self.labels)
        return digest((weights, moments))

    def serving(self) -> str:
        """Threads call many functions, each of which always answers the same."""
        answers = self.pool.map(self.answer, range(REQUESTS))
        return hashlib.blake2b("".join(answers).encode(), digest_size=8).hexdigest()

    def answer(self, request: int) -> str:
        """The result of one of the functions; one request in 16 is wrong."""
        if request % 16 == 7:
            with contextlib.suppress(tfn.errors.TfnError):
                self.x @ self.functions[0](self.x[:3])
        return digest(self.functions[request % len(self.functions)](self.x))

    def new_shapes(self) -> str:
        """Whole numbers, whose sums and products are exact, in shapes that there were not yet."""
        for _ in range(NEW_SHAPES):
            self.shapes += 1
            number = self.shapes * 7919 % (LARGEST_SHAPE[0] * LARGEST_SHAPE[1])
            rows, columns = 1 + number % LARGEST_SHAPE[0], 1 + number // LARGEST_SHAPE[0]
            x = (np.arange(rows * columns) % 7).reshape(rows, columns).astype(np.float32)
            total, product = tfn.jit(lambda x: ((x * 2 + 1).sum(), x @ x.T))(jnp.asarray(x))
            if float(total) != (x * 2 + 1).sum() or not np.array_equal(product, x @ x.T):
                raise AssertionError(f"the result for {x.shape} differs from NumPy's")
        return "exact"

    def callbacks(self) -> str:
        """Python functions in compiled ones, new each time, that keep what they are given."""
        noted: list[Any] = []
        same = tfn.ShapeDtypeStruct(self.x.shape, "float32")

        def called(x: Any) -> Any:
            tfn.io_callback(noted.append, None, x[0])
            return tfn.pure_callback(lambda a: np.sin(a) + len(noted) * 0, same, x)

        return digest((tfn.jit(called)(self.x), noted))

    def checkpoint(self) -> str:
        """A file that is written, read again and verified."""
        path = self.folder / "weights.safetensors"
        state.save(path, self.weights)
        state.verify(path)
        return digest(state.load(path, self.weights))

    def errors(self) -> str:
        """Mistakes while tracing, in loops, in callbacks and in compiled functions."""

        def fails(x: Any) -> Any:
            raise ZeroDivisionError("in a callback")

        same = tfn.ShapeDtypeStruct(self.x.shape, "float32")
        wrong: tuple[Callable[[], Any], ...] = (
            lambda: tfn.jit(lambda x: x @ x)(self.x),
            lambda: tfn.jit(lambda x: x if x.sum() > 0 else -x)(self.x),
            lambda: lax.scan(lambda c, r: (c @ r @ r, None), self.x[0], self.x),
            lambda: tfn.grad(lambda x: x * 2)(self.x),
            lambda: np.asarray(tfn.jit(lambda x: tfn.pure_callback(fails, same, x))(self.x)),
            lambda: tfn.vmap(lambda x, y: x + y)(self.x, self.labels[:3]),
            lambda: jnp.zeros(2**62),
        )
        names = []
        for call in wrong:
            try:
                call()
            except Exception as error:
                names.append(type(error).__name__)
            else:
                raise AssertionError("a wrong call gave a result")
        return ",".join(names)

    def fork(self) -> str:
        """A child computes, by a compiled function and by a new one, and says what it has."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                fresh = tfn.jit(lambda x: (x * 2).sum(1))
                answers = [digest(f(self.x)) for f in (*self.functions[:3], fresh)]
                os.write(writer, " ".join(answers).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        try:
            if not select.select([reader], [], [], FORK_SECONDS)[0]:
                os.kill(child, 9)
                raise AssertionError(f"a child has not answered for {FORK_SECONDS:.0f} s")
            answer = os.read(reader, 4096).decode()
        finally:
            os.close(reader)
            os.waitpid(child, 0)
        return answer or "the child failed"

    def round(self) -> Iterator[tuple[str, str]]:
        """All activities, with their bits."""
        for activity in (
            *(self.training, self.serving, self.new_shapes, self.callbacks, self.checkpoint),
            *(self.errors, self.fork),
        ):
            yield activity.__name__, activity()


@dataclass(frozen=True)
class Reading:
    """The state of the process after some rounds."""

    seconds: float
    rounds: int
    resident_bytes: int
    descriptors: int
    threads: int
    array_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.seconds / 60:8.1f}{self.rounds:9}{self.resident_bytes / 1e6:13.2f}"
            f"{self.descriptors:13}{self.threads:9}{self.array_bytes / 1e6:12.3f}"
        )


HEAD = (
    f"{'minutes':>8}{'rounds':>9}{'resident MB':>13}{'descriptors':>13}"
    f"{'threads':>9}{'arrays MB':>12}"
)


def read(seconds: float, rounds: int) -> Reading:
    """Reads the state of this process, without the free memory that the C library keeps."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # not in every C library
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Reading(
        seconds,
        rounds,
        pages * resource.getpagesize(),
        len(os.listdir("/proc/self/fd")),
        len(os.listdir("/proc/self/task")),
        run.device().memory.pool.live_bytes,  # type: ignore[attr-defined]
    )


def soak(minutes: float) -> tuple[list[Reading], dict[str, int], int]:
    """Readings, how many rounds of each activity had other bits than the first, and new shapes."""
    config.cache_limit_bytes = LIMIT_BYTES
    readings: list[Reading] = []
    first: dict[str, str] = {}
    differing: dict[str, int] = {}
    start = time.monotonic()
    rounds, turns = 0, 0
    with TemporaryDirectory() as folder, ThreadPoolExecutor(SERVING_THREADS) as pool:
        barrier = threading.Barrier(SERVING_THREADS)
        list(pool.map(lambda _: barrier.wait(), range(SERVING_THREADS)))  # all threads exist
        work = Work(Path(folder), pool)
        while (seconds := time.monotonic() - start) < 60 * minutes:
            for name, bits in work.round():
                if first.setdefault(name, bits) != bits:
                    differing[name] = differing.get(name, 0) + 1
                    print(f"{name}: {bits} and not {first[name]} in round {rounds}", flush=True)
            rounds += 1
            last = readings[-1].seconds if readings else 0.0
            if run.cache_info().turns > turns and seconds - last > MIN_SECONDS_BETWEEN_READINGS:
                turns = run.cache_info().turns
                readings.append(read(seconds, rounds))
                print(readings[-1], flush=True)
        return readings, differing, work.shapes


def faults(readings: list[Reading], differing: dict[str, int], minutes: float) -> Iterator[str]:
    """Each thing that did not stay as it was, after the warm-up."""
    steady = [r for r in readings if r.seconds >= WARM_UP_SHARE * 60 * minutes]
    if len(steady) < 3:
        yield f"there are {len(steady)} readings after the warm-up: give it more minutes"
        return
    third = len(steady) // 3
    parts = [[r.resident_bytes for r in part] for part in (steady[:third], steady[-third:])]
    for name, statistic in (("peak", max), ("median", median)):
        before, after = map(statistic, parts)
        print(
            f"resident memory, {name}: {before / 1e6:.2f} MB in the first third, "
            f"{after / 1e6:.2f} MB in the last, {after / before - 1:+.2%}"
        )
    if max(parts[1]) / max(parts[0]) - 1 > MAX_GROWTH:
        yield "resident memory is not flat"
    for kind in ("descriptors", "threads", "array_bytes"):
        numbers = [getattr(r, kind) for r in steady]
        print(f"{kind.replace('_', ' ')}: {min(numbers)} to {max(numbers)}")
        if max(numbers) > numbers[0]:
            yield f"{kind} grew from {numbers[0]} to {max(numbers)}"
    for name, rounds in differing.items():
        yield f"{name} gave other bits in {rounds} rounds"


def main() -> int:
    """Prints a table of readings; 1 if anything did not stay as it was."""
    parser = argparse.ArgumentParser(description="Everything at once, for a long time.")
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    if not os.path.isdir("/proc/self/fd"):
        parser.error("the figures are read from /proc, which this system does not have")
    print(HEAD)
    readings, differing, shapes = soak(options.minutes)
    rounds = readings[-1].rounds if readings else 0
    print(
        f"{rounds} rounds: {rounds * TRAINING_STEPS} steps of training, {rounds * REQUESTS} "
        f"requests, {shapes} new shapes, {rounds} forks"
    )
    wrong = list(faults(readings, differing, options.minutes))
    print("\n".join(wrong) if wrong else "all results had the same bits; nothing grew")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
