"""Many devices of one process: the time of calls, exchanges and training steps.

    python benchmarks/devices.py

A row is the best of several runs, beside the same work on one device with all threads, or beside
what memory allows.  `make bench-devices` does the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import sharded_gpt
from char_gpt import GPT

import tfn
from tfn import lax, nn, random
from tfn.config import config
from tfn.nn import optim
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

REDUCED_BYTES = 64 << 20  # of each device
BATCH, WIDTHS = 128, (784, 512, 10)


def best_s(run: Callable[[], Any], repeats: int) -> float:
    """Seconds of the fastest of several runs, the first one not counted."""
    tfn.block_until_ready(run())
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        tfn.block_until_ready(run())
        times.append(time.perf_counter() - begin)
    return min(times)


def calls() -> None:
    """A tiny jitted call, on one device and on eight."""
    mesh = tfn.make_mesh((8,), ("x",))
    double = tfn.jit(lambda x: x + x)
    total = tfn.jit(
        tfn.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    )
    x = tfn.numpy.ones(64)
    parts = tfn.device_put(x, NamedSharding(mesh, P("x")))
    for name, run, argument in (
        ("call, one device", double, x),
        ("call, 8 devices", double, parts),
        ("psum, 8 devices", total, parts),
    ):
        many = lambda run=run, argument=argument: [run(argument) for _ in range(1000)]
        print(f"{name:34} {best_s(many, 7) * 1e6 / 1000:10.3f} us")


def reductions() -> None:
    """`psum` of 64 MiB on each device, beside a copy, which moves as much memory as it can."""
    source = np.ones(REDUCED_BYTES // 4, np.float32)
    target = np.empty_like(source)
    copied = 2 * REDUCED_BYTES / best_s(lambda: np.copyto(target, source), 9)
    print(f"{'copy of 64 MiB by NumPy':34} {copied / 1e9:10.2f} GB/s")
    for n in (2, 4, 8):
        mesh = tfn.make_mesh((n,), ("x",))
        run = tfn.jit(
            tfn.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
        )
        x = tfn.device_put(np.ones((n, source.size), np.float32), NamedSharding(mesh, P("x")))
        moved = (n + 1) * REDUCED_BYTES  # each part is read, the sum is written, once
        speed = moved / best_s(lambda run=run, x=x: run(x), 5)
        print(f"{f'psum of 64 MiB over {n}':34} {speed / 1e9:10.2f} GB/s")


def mlp_step(devices: int) -> Callable[[], Any]:
    """A training step of an MLP, its batch over some devices."""
    mesh = tfn.make_mesh((devices,), ("data",))
    network = nn.MLP.init(random.key(0), WIDTHS)
    optimizer = optim.adam(1e-3)
    state = tfn.device_put((network, optimizer.init(network)), NamedSharding(mesh, P()))
    x = np.random.default_rng(0).normal(size=(BATCH, WIDTHS[0])).astype(np.float32)
    y = np.arange(BATCH) % WIDTHS[-1]
    data = tfn.device_put((x, y.astype(np.int32)), NamedSharding(mesh, P("data")))

    def loss(network: Any, x: Any, y: Any) -> Any:
        return nn.softmax_cross_entropy_with_integer_labels(network(x), y).mean()

    @tfn.jit
    def step(network: Any, state: Any, x: Any, y: Any) -> Any:
        slopes = tfn.grad(loss)(network, x, y)
        updates, state = optimizer.update(slopes, state, network)
        return optim.apply_updates(network, updates), state

    return lambda: step(*state, *data)


def gpt_step(mesh_text: str) -> Callable[[], Any]:
    """A training step of the GPT of examples/sharded_gpt.py."""
    mesh = sharded_gpt.make_mesh(mesh_text)
    network = GPT.init(random.key(0), 80, layers=4, width=128, heads=4)
    optimizer = optim.adamw(1e-3)
    step = tfn.jit(sharded_gpt.make_step(sharded_gpt.make_loss(mesh, 4), optimizer).function)
    state = sharded_gpt.place(optimizer.init(network), mesh)
    network = sharded_gpt.place(network, mesh)
    texts = np.random.default_rng(0).integers(0, 80, (16, 129)).astype(np.uint8)
    data = tfn.device_put(texts, NamedSharding(mesh, P(sharded_gpt.BATCH)))
    return lambda: step(network, state, data)


def steps() -> None:
    """Training steps, beside those of one device."""
    one = best_s(mlp_step(1), 30)
    print(f"{'MLP step, one device':34} {one * 1e3:10.3f} ms")
    for n in (2, 8):
        time_s = best_s(mlp_step(n), 30)
        print(f"{f'MLP step, data={n}':34} {time_s * 1e3:10.3f} ms  {time_s / one:5.2f} of one")
    one = best_s(gpt_step("data=1"), 5)
    print(f"{'GPT step, one device':34} {one * 1e3:10.1f} ms")
    for text in ("data=2", "fsdp=2", "model=2", "pipe=2", "data=2,fsdp=2,model=2"):
        time_s = best_s(gpt_step(text), 5)
        print(f"{f'GPT step, {text}':34} {time_s * 1e3:10.1f} ms  {time_s / one:5.2f} of one")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; the exit status."""
    parser = argparse.ArgumentParser(description="Time the devices of one process.")
    parser.add_argument("rows", nargs="*", default=["calls", "reductions", "steps"])
    config.devices = 8
    for row in parser.parse_args(arguments).rows:
        {"calls": calls, "reductions": reductions, "steps": steps}[row]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
