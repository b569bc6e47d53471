"""How much memory each kind of step keeps, in a process that takes it again and again.

    python benchmarks/leaks.py --steps 10000
    python benchmarks/leaks.py --only grad,scan --steps 500

Each kind runs in a process of its own.  After a warm-up its resident memory is read `READINGS`
times at equal distances, garbage collected before; what it grows by from one to the next is the
median, since allocators ask for more now and then.  Arrays that are alive are counted exactly.
Where each step is of another shape, programs are dropped when all of them take `LIMIT_BYTES`: then
each reading is taken when that has just been done, and half as many steps again come first, for the
tables of lowering to be full.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

import tfn
import tfn.numpy as jnp
from tfn import config, lax, nn
from tfn.eager import run

SIDE = 128
"""Of the matrix that each step is about: 64 KB, which are seen where they are kept."""

WARM_STEPS = 1100
"""More than a thousand: so many different numbers are kept as operands."""

LIMIT_BYTES = 32 << 20
READINGS = 9
NOISE_BYTES = 64 << 10
"""Between two readings: less is what allocators do with what they have."""

Step = Callable[[int], Any]


def matrix() -> Any:
    """What steps begin with."""
    return jnp.ones((SIDE, SIDE))


SAME = tfn.ShapeDtypeStruct((SIDE, SIDE), "float32")


def grad() -> Step:
    """A training loop without `jit`."""
    w = [matrix()]

    def step(i: int) -> None:
        w[0] = w[0] - 0.1 * tfn.grad(lambda w: (w * w).sum())(w[0])

    return step


def vjp() -> Step:
    """A pullback over residuals of its own."""
    w = [matrix()]

    def step(i: int) -> None:
        y, pullback = tfn.vjp(lambda x: jnp.sin(x) * w[0], w[0])
        (w[0],) = pullback(y)

    return step


def linearize() -> Step:
    """The derivative as a function."""
    w = [matrix()]

    def step(i: int) -> None:
        y, slope = tfn.linearize(lambda x: jnp.sin(x) * w[0], w[0])
        w[0] = slope(y)

    return step


def jit_closures() -> Step:
    """A new function each time, which closes over a new array."""
    x = matrix()

    def step(i: int) -> None:
        c = x + i
        tfn.jit(lambda y: y * c)(x)

    return step


def vmap() -> Step:
    """Rows, with what is the same for all of them."""
    x = matrix()

    def step(i: int) -> None:
        c = x + i
        tfn.vmap(lambda row: row * c[0])(x + 0)

    return step


def scan() -> Step:
    """A new body each time, which closes over a new array; and its derivative."""
    x = matrix()

    def step(i: int) -> None:
        c = x + i
        lax.scan(lambda total, row: (total + (row * c[0]).sum(), None), 0.0, x)
        tfn.grad(lambda x: lax.scan(lambda a, row: (a + (row * c[0]).sum(), None), 0.0, x)[0])(x)

    return step


def branches() -> Step:
    """New branches each time."""
    x = matrix()

    def step(i: int) -> None:
        c = x + i
        lax.cond(i % 2 == 0, lambda y: y * c, lambda y: y - c, x)
        lax.while_loop(lambda y: y[0, 0] < 0, lambda y: y + c, x)

    return step


def errors() -> Step:
    """Functions that cannot be traced."""
    x = matrix()

    def step(i: int) -> None:
        c = x + i

        def wrong(y: Any) -> Any:
            return y * c if (y > 0).all() else y @ jnp.ones(3)

        for transform in (tfn.jit, tfn.vmap):
            try:
                transform(wrong)(x)
            except tfn.errors.TfnError:
                continue
            raise AssertionError("it can be traced")

    return step


def custom_rules() -> Step:
    """Functions with derivatives of their own, new each time."""
    x = matrix()

    def step(i: int) -> None:
        c = x + i

        @tfn.custom_vjp
        def f(y: Any) -> Any:
            return y * c

        @tfn.custom_jvp
        def g(y: Any) -> Any:
            return y * c

        f.defvjp(lambda y: (f(y), y), lambda y, ct: (ct * c,))
        g.defjvp(lambda primals, tangents: (g(*primals), tangents[0] * c))
        tfn.grad(lambda y: (f(y) + g(y)).sum())(x)

    return step


def remat() -> Step:
    """Functions that are computed twice."""
    x = matrix()

    def step(i: int) -> None:
        c = x + i
        layer = tfn.checkpoint(lambda y: jnp.sin(jnp.sin(y) * c))
        tfn.grad(lambda y: layer(y).sum())(x)

    return step


def calls() -> Step:
    """Functions that stay one operation, new each time."""
    x = matrix()

    def step(i: int) -> None:
        c = x + i
        layer = tfn.call(lambda y: jnp.sin(y) * c)
        tfn.grad(lambda y: layer(layer(y)).sum())(x)

    return step


def callbacks() -> Step:
    """Functions of Python, new each time, which close over new arrays."""
    x = matrix()

    def step(i: int) -> None:
        c, noted = np.asarray(x + i), []
        tfn.jit(lambda y: tfn.pure_callback(lambda a: a + c, SAME, y))(x)
        tfn.grad(lambda y: (tfn.io_callback(lambda a: noted.append(a), None, y), y.sum())[1])(x)

    return step


def training() -> Step:
    """A compiled step of Adam whose arguments are given away."""
    batch = matrix()

    @tfn.jit
    def loss(w: Any, x: Any) -> Any:
        return ((nn.gelu(x @ w) - x) ** 2).mean()

    def update(w: Any, m: Any, v: Any, x: Any) -> Any:
        g = tfn.grad(loss)(w, x)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v

    compiled = tfn.jit(update, donate_argnums=(0, 1, 2))
    state = [(matrix(), matrix() * 0, matrix())]

    def step(i: int) -> None:
        state[0] = compiled(*state[0], batch)

    return step


def eager() -> Step:
    """Operations one by one, with other numbers each time."""
    x = matrix()

    def step(i: int) -> None:
        y = x * (i + 0.5) + x
        y[i % SIDE].sum().item()
        jnp.asarray(np.asarray(y)).T @ y

    return step


def jit_shapes() -> Step:
    """One compiled function, each time of another size."""
    f = tfn.jit(lambda x: (x * 2 + 1).sum())
    return lambda i: f(np.ones(i + 1, np.float32))


def grad_shapes() -> Step:
    """A gradient, each time of another size."""
    return lambda i: tfn.grad(lambda x: (x * x).sum())(np.ones(i + 1, np.float32))


def eager_shapes() -> Step:
    """Operations, each time of another size."""
    return lambda i: jnp.ones(i + 1) + 1.0


SHAPES = (jit_shapes, grad_shapes, eager_shapes)
KINDS: dict[str, Callable[[], Step]] = {
    kind.__name__: kind
    for kind in (
        *(grad, vjp, linearize, jit_closures, vmap, scan, branches, errors, custom_rules, remat),
        *(calls, callbacks, training, eager, *SHAPES),
    )
}


def resident_bytes() -> int:
    """Memory of this process; the most that it ever was, where the system says no more."""
    gc.collect()
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Run:
    """Steps of a kind, numbered on."""

    def __init__(self, kind: Callable[[], Step]) -> None:
        self.step, self.taken = kind(), 0

    def take(self, steps: int) -> None:
        """So many more."""
        for i in range(self.taken, self.taken + steps):
            self.step(i)
        self.taken += steps

    def take_until_a_turn(self, least: int) -> None:
        """So many at least, and until programs have been dropped."""
        self.take(least)
        turns = run.cache_info().turns
        while run.cache_info().turns == turns:
            self.take(1)


def measure(name: str, steps: int) -> dict[str, float]:
    """What one step keeps, and what the tables hold in the end."""
    kind, pool = KINDS[name], run.device().memory.pool  # type: ignore[attr-defined]
    begun = Run(kind)
    if kind in SHAPES:
        config.cache_limit_bytes = LIMIT_BYTES
        begun.take_until_a_turn(max(steps // 2, 500))
    else:
        begun.take(WARM_STEPS)
    first, live_bytes = begun.taken, pool.live_bytes
    readings, start = [(first, resident_bytes())], time.perf_counter()
    for _ in range(READINGS):
        (begun.take_until_a_turn if kind in SHAPES else begun.take)(steps // READINGS)
        readings.append((begun.taken, resident_bytes()))
    seconds = time.perf_counter() - start
    grown = [(b - a) / (n - m) for (m, a), (n, b) in pairwise(readings)]
    return {
        "bytes": median(grown),
        "array_bytes": (pool.live_bytes - live_bytes) / (begun.taken - first),
        "us": seconds / (begun.taken - first) * 1e6,
        "entries": sum(run.cache_info().entries.values()),
        "kept_bytes": run.cache_info().size_bytes,
        "resident_bytes": readings[-1][1],
    }


def main() -> int:
    """Print a table; 1 if a kind keeps something."""
    parser = argparse.ArgumentParser(description="What each kind of step keeps.")
    parser.add_argument("--steps", type=int, default=2000, help="how many are measured")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds, with commas between")
    parser.add_argument("--measure", action="store_true", help="one kind, in this process")
    options = parser.parse_args()
    names = options.only.split(",")
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; kinds are {', '.join(KINDS)}")
    if options.measure:
        print(json.dumps(measure(names[0], options.steps)))
        return 0
    print(
        f"{'kind':14}{'bytes a step':>14}{'of arrays':>12}{'us a step':>12}{'resident MB':>14}"
        f"{'entries':>10}{'MB of them':>12}"
    )
    leaks = []
    for name in names:
        command = [
            sys.executable,
            __file__,
            "--measure",
            "--only",
            name,
            "--steps",
            str(options.steps),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        if done.returncode:
            print(f"{name:14}  {done.stderr.strip().splitlines()[-1]}")
            leaks.append(name)
            continue
        row = json.loads(done.stdout)
        print(
            f"{name:14}{row['bytes']:14.0f}{row['array_bytes']:12.0f}{row['us']:12.0f}"
            f"{row['resident_bytes'] / 1e6:14.0f}{row['entries']:10}"
            f"{row['kept_bytes'] / 1e6:12.1f}",
            flush=True,
        )
        if row["array_bytes"] > 0 or row["bytes"] > NOISE_BYTES / (options.steps // READINGS):
            leaks.append(name)
    if leaks:
        print(f"\nmemory is kept by: {', '.join(leaks)}")
    return int(bool(leaks))


if __name__ == "__main__":
    sys.exit(main())
