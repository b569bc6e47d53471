"""Race tfn against JAX and PyTorch, where they are installed.

    python benchmarks/run.py                     a table, one core
    python benchmarks/run.py --only mm512 --seconds 2 --json out.json

Each row is one program, given to all contestants with the same inputs.  Every contestant runs in
its own process, on one core.  They take turns, so that a busy machine hits all alike.  What counts
is CPU time, the median over repeats, and the ratio to the fastest peer.  Results are compared
before anything is timed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

CONTESTANTS = ("tfn", "jax", "torch")
SIZES = (784, 512, 512, 10)
CONVOLUTIONS = ((5, 5, 1, 32), (5, 5, 32, 32), (3, 3, 32, 64), (3, 3, 64, 64))

Step = Callable[[], Any]
"""One run of a program: it returns its result as NumPy arrays can read it, computed."""


def normal(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """Inputs that are the same for all."""
    random = np.random.default_rng(seed)
    return random.standard_normal(shape, dtype=np.float32) * np.float32(scale)


def dense(seed: int, *sizes: int) -> list[Any]:
    """Weights and biases."""
    pairs = enumerate(itertools.pairwise(sizes))
    return [
        (normal(seed + i, a, b, scale=(2 / a) ** 0.5), np.zeros(b, np.float32))
        for i, (a, b) in pairs
    ]


def kernels(seed: int) -> list[Any]:
    """Windows (height, width, channels, features) and biases."""
    return [
        (normal(seed + i, *s, scale=(2 / (s[0] * s[1] * s[2])) ** 0.5), np.zeros(s[3], np.float32))
        for i, s in enumerate(CONVOLUTIONS)
    ]


def digits() -> tuple[Any, Any]:
    """A batch like MNIST's."""
    random = np.random.default_rng(5)
    return random.random((128, 784), dtype=np.float32), random.integers(0, 10, 128).astype(np.int32)


def functional(name: str) -> dict[str, Callable[[], Step]]:
    """The rows for a library with JAX's names."""
    library = importlib.import_module(name)
    xp = importlib.import_module(f"{name}.numpy")
    lax, nn, tree = library.lax, library.nn, library.tree

    def wait(result: Any) -> Any:
        for leaf in tree.leaves(result):
            leaf.block_until_ready()
        return result

    def program(f: Callable[..., Any], *inputs: Any, jitted: bool = True) -> Step:
        run = library.jit(f) if jitted else f
        arrays = [xp.asarray(x) for x in inputs]
        return lambda: wait(run(*arrays))

    def eager(x: Any) -> Any:
        for _ in range(5):
            x = xp.tanh(x * 1.01 + 0.1) - 0.2
        return x

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    def cross_entropy(logits: Any, y: Any) -> Any:
        chosen = xp.take_along_axis(nn.log_softmax(logits, axis=-1), y[..., None], axis=-1)
        return -xp.mean(chosen)

    def mlp(layers: Any, x: Any) -> Any:
        for w, b in layers[:-1]:
            x = nn.relu(x @ w + b)
        return x @ layers[-1][0] + layers[-1][1]

    def cnn(layers: Any, x: Any) -> Any:
        convolutions, out = layers
        x = x.reshape(-1, 28, 28, 1)
        layout = ("NHWC", "HWIO", "NHWC")
        for i, (w, b) in enumerate(convolutions):
            x = nn.relu(
                lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=layout) + b
            )
            if i % 2:
                window = (1, 2, 2, 1)
                x = lax.reduce_window(x, -xp.inf, lax.max, window, window, "VALID")
        return x.reshape(x.shape[0], -1) @ out[0] + out[1]

    def training(network: Callable[..., Any], layers: Any) -> Step:
        def step(state: Any, x: Any, y: Any) -> Any:
            p, m, v, t = state
            loss, g = library.value_and_grad(lambda p: cross_entropy(network(p, x), y))(p)
            t = t + 1.0
            m = tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
            v = tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
            c, d = 1 - 0.9**t, 1 - 0.999**t
            p = tree.map(lambda p, m, v: p - 1e-3 * (m / c) / (xp.sqrt(v / d) + 1e-8), p, m, v)
            return (p, m, v, t), loss

        run = library.jit(step, donate_argnums=0)
        p = tree.map(xp.asarray, layers)
        state = [(p, tree.map(xp.zeros_like, p), tree.map(xp.zeros_like, p), xp.float32(0))]
        x, y = map(xp.asarray, digits())

        def once() -> Any:
            state[0], loss = wait(run(state[0], x, y))
            return loss

        return once

    return {
        "disp_tiny": lambda: program(lambda x: x + 1, normal(0, 8)),
        "eager20": lambda: program(eager, normal(0, 8), jitted=False),
        "mm512": lambda: program(lambda a, b: a @ b, normal(0, 512, 512), normal(1, 512, 512)),
        "mlp_train": lambda: training(mlp, dense(10, *SIZES)),
        "cnn_train": lambda: training(cnn, (kernels(20), dense(30, 576, 10)[0])),
        "softmax4096": lambda: program(lambda x: nn.softmax(x, axis=-1), normal(0, 4096, 4096)),
        "gelu16M": lambda: program(gelu, normal(0, 1 << 24)),
    }


def imperative(name: str) -> dict[str, Callable[[], Step]]:
    """The rows for PyTorch, as its users write them: not compiled."""
    torch = importlib.import_module(name)
    torch.set_num_threads(1)
    functions = torch.nn.functional

    def program(f: Callable[..., Any], *inputs: Any) -> Step:
        arrays = [torch.from_numpy(x) for x in inputs]
        return lambda: f(*arrays)

    def eager(x: Any) -> Any:
        for _ in range(5):
            x = torch.tanh(x * 1.01 + 0.1) - 0.2
        return x

    def mlp(layers: Any, x: Any) -> Any:
        for w, b in layers[:-1]:
            x = functions.relu(x @ w + b)
        return x @ layers[-1][0] + layers[-1][1]

    def cnn(layers: Any, x: Any) -> Any:
        x = x.reshape(-1, 1, 28, 28)
        for i, (w, b) in enumerate(layers[:-1]):
            x = functions.relu(functions.conv2d(x, w, b))
            x = functions.max_pool2d(x, 2) if i % 2 else x
        return x.permute(0, 2, 3, 1).reshape(len(x), -1) @ layers[-1][0] + layers[-1][1]

    def training(network: Callable[..., Any], layers: Any) -> Step:
        p = [tuple(torch.tensor(u).requires_grad_() for u in pair) for pair in layers]
        optimizer = torch.optim.Adam([u for pair in p for u in pair], lr=1e-3)
        x, y = map(torch.from_numpy, digits())

        def once() -> Any:
            optimizer.zero_grad()
            loss = functions.cross_entropy(network(p, x), y.long())
            loss.backward()
            optimizer.step()
            return loss.detach()

        return once

    moved = [(np.ascontiguousarray(w.transpose(3, 2, 0, 1)), b) for w, b in kernels(20)]
    return {
        "disp_tiny": lambda: program(lambda x: x + 1, normal(0, 8)),
        "eager20": lambda: program(eager, normal(0, 8)),
        "mm512": lambda: program(torch.matmul, normal(0, 512, 512), normal(1, 512, 512)),
        "mlp_train": lambda: training(mlp, dense(10, *SIZES)),
        "cnn_train": lambda: training(cnn, [*moved, dense(30, 576, 10)[0]]),
        "softmax4096": lambda: program(lambda x: torch.softmax(x, -1), normal(0, 4096, 4096)),
        "gelu16M": lambda: program(
            lambda x: functions.gelu(x, approximate="tanh"), normal(0, 1 << 24)
        ),
    }


ROWS: dict[str, Callable[[str], dict[str, Callable[[], Step]]]] = {
    "tfn": functional, "jax": functional, "torch": imperative,
}  # fmt: skip
NAMES = ("disp_tiny", "eager20", "mm512", "mlp_train", "cnn_train", "softmax4096", "gelu16M")


def serve(contestant: str) -> None:
    """Answer lines of JSON: prepare a row, or run it for so many seconds of CPU time."""
    rows = ROWS[contestant](contestant)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not stand among the answers
    step: Step = lambda: None
    for line in sys.stdin:
        request = json.loads(line)
        if "row" in request:
            began = time.perf_counter()
            step = rows[request["row"]]()
            first = np.asarray(step())
            answer: Any = {
                "first_s": time.perf_counter() - began,
                "value": [float(v) for v in first.reshape(-1)[:: max(1, first.size // 64)][:64]],
            }
        else:
            answer = measure(step, request["seconds"])
        print(json.dumps(answer), file=answers, flush=True)


def measure(step: Step, seconds: float) -> float:
    """Seconds of CPU time for one run."""
    count, spent = 1, 0.0
    while True:
        began = time.process_time()
        for _ in range(count):
            step()
        spent = time.process_time() - began
        if spent >= seconds / 2:
            return spent / count
        count = max(2 * count, int(count * seconds / max(spent, 1e-4)))


class Contestant:
    """A process that runs rows when it is asked to."""

    def __init__(self, name: str) -> None:
        environment = {**os.environ, "TFN_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment["XLA_FLAGS"] = (
            "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        )
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def ask(self, **request: Any) -> Any:
        """One request, one answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or "null")

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def race(row: str, names: list[str], seconds: float, repeats: int) -> dict[str, dict[str, float]]:
    """Seconds of CPU time of each contestant for one row, and of its first run."""
    contestants = {name: Contestant(name) for name in names}
    try:
        ready = {name: c.ask(row=row) for name, c in contestants.items()}
        for name, answer in ready.items():
            if answer is None:
                print(f"{row}: {name} failed", file=sys.stderr)
        names = [name for name in names if ready[name] is not None]
        for name in names[1:]:
            want, got = ready[names[0]]["value"], ready[name]["value"]
            if not np.allclose(want, got, rtol=2e-3, atol=2e-3):
                print(f"{row}: {name} computes something else than {names[0]}", file=sys.stderr)
        samples: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(repeats):
            for name in names:
                samples[name].append(contestants[name].ask(seconds=seconds))
    finally:
        for contestant in contestants.values():
            contestant.stop()
    return {
        name: {"cpu_s": statistics.median(samples[name]), "first_s": ready[name]["first_s"]}
        for name in names
    }


def pretty(seconds: float) -> str:
    """A time with its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def line(row: str, results: dict[str, dict[str, float]], names: list[str]) -> str:
    """One line of the table; the last column is tfn's time over the best peer's."""
    cells = [pretty(results[n]["cpu_s"]) if n in results else "-" for n in names]
    peers = [r["cpu_s"] for n, r in results.items() if n != "tfn"]
    ratio = f"{results['tfn']['cpu_s'] / min(peers):.2f}" if peers and "tfn" in results else "-"
    first = pretty(results["tfn"]["first_s"]) if "tfn" in results else "-"
    return "  ".join([f"{row:12}", *(f"{c:>10}" for c in cells), f"{first:>10}", f"{ratio:>8}"])


def main() -> None:
    """Race, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description="Race tfn against JAX and PyTorch on one core.")
    parser.add_argument("--only", default=",".join(NAMES), help="rows, separated by commas")
    parser.add_argument("--contestants", default=",".join(CONTESTANTS))
    parser.add_argument("--seconds", type=float, default=0.3, help="of each sample")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", help="a file for the results")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    names = [n for n in options.contestants.split(",") if importlib.util.find_spec(n)]
    print(
        "  ".join(
            [f"{'':12}", *(f"{n:>10}" for n in names), f"{'tfn first':>10}", f"{'to best':>8}"]
        )
    )
    results = {}
    for row in options.only.split(","):
        results[row] = race(row, names, options.seconds, options.repeats)
        print(line(row, results[row], names), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()
