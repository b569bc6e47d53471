"""Many devices of one process: the time of calls, exchanges and training steps.

    python benchmarks/devices.py

A row is the best of several runs, beside the same work on one device with all threads, or beside
what memory allows, and beside that of JAX in a process of its own before, if it is installed.
`make bench-devices` does the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import itertools

import sharded_gpt
from char_gpt import GPT

import tfn
from tfn import lax, nn, random
from tfn.config import config
from tfn.eager import placement, run
from tfn.lower import pipeline
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


JAX_S: dict[str, float] = {}
"""Seconds of JAX, by the name of the row."""


def ask_jax(rows: Sequence[str]) -> None:
    """Measure the rows in JAX with as many host devices."""
    more = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(Path(__file__).with_name("devices_jax.py")), *rows]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | more, check=False
    )
    if done.returncode == 0:
        JAX_S.update(json.loads(done.stdout.splitlines()[-1]))
    else:
        print("without JAX:", (done.stderr.splitlines() or ["no message"])[-1])


def show(name: str, time_s: float, note: str = "") -> None:
    """Print a row: the time, that of JAX in times of it, and a note."""
    unit, scale = ("us", 1e6) if time_s < 1e-4 else ("ms", 1e3)
    beside = ""
    if name in JAX_S:
        beside = f"JAX {JAX_S[name] * scale:8.2f} {unit}, x{JAX_S[name] / time_s:6.1f}"
    print(f"{name:34} {time_s * scale:9.2f} {unit}  {beside:30} {note}", flush=True)


def calls() -> None:
    """A tiny jitted call, on one device and on eight."""
    mesh = tfn.make_mesh((8,), ("x",), tfn.sharding.AxisType.Auto)
    double = tfn.jit(lambda x: x + x)
    total = tfn.jit(
        tfn.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    )
    x = tfn.numpy.ones(64)
    parts = tfn.device_put(x, NamedSharding(mesh, P("x")))
    for name, function, argument in (
        ("call, one device", double, x),
        ("call, 8 devices", double, parts),
        ("psum, 8 devices", total, parts),
    ):
        many = lambda f=function, x=argument: [f(x) for _ in range(1000)]
        show(name, best_s(many, 7) / 1000)


def reductions() -> None:
    """`psum` of 64 MiB on each device, beside a copy, which moves as much memory as it can."""
    source = tfn.numpy.ones(REDUCED_BYTES // 4)
    copied = 2 * REDUCED_BYTES / best_s(lambda: source.copy(), 9)
    print(f"{'copy of 64 MiB':34} {copied / 1e9:9.2f} GB/s")
    for n in (2, 4, 8):
        mesh = tfn.make_mesh((n,), ("x",), tfn.sharding.AxisType.Auto)
        run = tfn.jit(
            tfn.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
        )
        x = tfn.device_put(np.ones((n, source.size), np.float32), NamedSharding(mesh, P("x")))
        moved = (n + 1) * REDUCED_BYTES  # each part is read, the sum is written, once
        time_s = best_s(lambda run=run, x=x: run(x), 7)
        speed = moved / time_s
        note = f"{speed / 1e9:.1f} GB/s, {speed / copied:.2f} of a copy"
        show(f"psum of 64 MiB over {n}", time_s, note)


def mlp_step(devices: int) -> Callable[[], Any]:
    """A training step of an MLP, its batch over some devices."""
    mesh = tfn.make_mesh((devices,), ("data",), tfn.sharding.AxisType.Auto)
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


def gpt_program(mesh_text: str) -> tuple[Any, tuple[Any, ...]]:
    """The compiled training step of the GPT of examples/sharded_gpt.py, and its arguments."""
    mesh = sharded_gpt.make_mesh(mesh_text)
    network = GPT.init(random.key(0), 80, layers=4, width=128, heads=4)
    optimizer = optim.adamw(1e-3)
    step = tfn.jit(sharded_gpt.make_step(sharded_gpt.make_loss(mesh, 4), optimizer).function)
    state = sharded_gpt.place(optimizer.init(network), mesh)
    network = sharded_gpt.place(network, mesh)
    texts = np.random.default_rng(0).integers(0, 80, (16, 129)).astype(np.uint8)
    data = tfn.device_put(texts, NamedSharding(mesh, P(sharded_gpt.BATCH)))
    return step, (network, state, data)


def gpt_step(mesh_text: str) -> Callable[[], Any]:
    """A call of it."""
    step, arguments = gpt_program(mesh_text)
    return lambda: step(*arguments)


def steps() -> None:
    """Training steps, beside those of one device."""
    one = best_s(mlp_step(1), 30)
    show("MLP step, one device", one)
    for n in (2, 8):
        time_s = best_s(mlp_step(n), 30)
        show(f"MLP step, data={n}", time_s, f"{time_s / one:.2f} of one")
    one = best_s(gpt_step("data=1"), 7)
    show("GPT step, one device", one)
    for text in MESHES:
        time_s = best_s(gpt_step(text), 7)
        show(f"GPT step, {text}", time_s, f"{time_s / one:.2f} of one")


MESHES = ("data=2", "fsdp=2", "model=2", "pipe=2", "data=2,fsdp=2,model=2")


def partition(mesh_text: str) -> None:
    """The time that partitioning takes of a training step, beside tracing and lowering it."""
    mlp_step(8)()  # loads what is loaded at first use
    step, arguments = gpt_program(mesh_text)
    times = [time.perf_counter()]
    traced = step.trace(*arguments)
    times.append(time.perf_counter())
    kinds = [x.kind for x in tfn.tree.leaves(arguments)]
    program = placement.placed(traced.jaxpr, kinds).jaxpr
    times.append(time.perf_counter())
    pipeline.lower(program, run.device().target)
    times.append(time.perf_counter())
    trace_s, divide_s, lower_s = (b - a for a, b in itertools.pairwise(times))
    note = f"{divide_s / (trace_s + lower_s):.2f} of trace {trace_s * 1e3:.0f} ms "
    show(f"partition, {mesh_text}", divide_s, note + f"+ lowering {lower_s * 1e3:.0f} ms")


def partitioning() -> None:
    """`partition`, each in a process of its own without kernels of earlier ones."""
    for text in MESHES:
        with TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--partition", text]
            subprocess.run(command, env=os.environ | {"TFN_CACHE_DIR": folder}, check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; the exit status."""
    rows = {
        "calls": calls,
        "reductions": reductions,
        "steps": steps,
        "partitioning": partitioning,
    }
    parser = argparse.ArgumentParser(description="Time the devices of one process.")
    parser.add_argument("rows", nargs="*", default=list(rows), help=", ".join(rows))
    parser.add_argument("--alone", action="store_true", help="without JAX")
    parser.add_argument("--partition", metavar="MESH", help="the row of one mesh, in this process")
    options = parser.parse_args(arguments)
    config.devices = 8
    if options.partition:
        partition(options.partition)
        return 0
    if not options.alone:
        ask_jax(options.rows)
    for row in options.rows:
        rows[row]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
