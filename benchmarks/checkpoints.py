"""How fast checkpoints are written and read, beside the bare disk; and how long a step waits.

    python benchmarks/checkpoints.py --megabytes 256
    python benchmarks/checkpoints.py --folder /mnt/shared --devices 8

Rates are of the bytes of the tree.  The disk writes and reads a file of as many bytes, in parts of
1 MiB, synced, and read again after its pages were dropped; a checkpoint is written, read back and
compared, with digests.  The step is a training step of a network whose parameters and moments are
the tree: its median is taken alone, and while a thread writes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import tfn
from tfn import nn, random, tree
from tfn import numpy as jnp
from tfn.config import config
from tfn.nn import optim
from tfn.nn.checkpoint import Checkpoints, load, verify
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

CHUNK_BYTES = 1 << 20
LAYERS = 4
ROWS = 32  # of a batch
COPIES = 3  # of each parameter in the tree: itself and two moments
OPTIMIZER = optim.adamw(1e-3)
Row = tuple[str, float, float | None]


def seconds(work: Callable[[], Any], times: int = 3) -> float:
    """The time of the fastest of some runs."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def dropped(folder: Path) -> None:
    """Drops the pages of all files of a folder from memory, so that they are read from the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def of_disk(folder: Path, size_bytes: int) -> list[Row]:
    """The bare disk."""
    chunk = np.random.default_rng(0).bytes(CHUNK_BYTES)
    path = folder / "raw"

    def write() -> None:
        with open(path, "wb", buffering=0) as file:
            for _ in range(size_bytes // CHUNK_BYTES):
                file.write(chunk)
            os.fsync(file.fileno())

    def read() -> None:
        dropped(folder)
        memory = bytearray(CHUNK_BYTES)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(memory):
                pass

    rows: list[Row] = [("disk: write", seconds(write), None), ("disk: read", seconds(read), None)]
    path.unlink()
    return rows


def network_of(size_bytes: int) -> nn.MLP:
    """A network whose parameters and moments have so many bytes."""
    width = int((size_bytes / COPIES / 4 / LAYERS) ** 0.5) // 64 * 64
    return nn.MLP.init(random.key(0), (width,) * (LAYERS + 1))


def placed(values: Any, mesh: Any, spec: P) -> Any:
    """Matrices divided as a spec says; all else on each device."""

    def put(x: Any) -> Any:
        return tfn.device_put(x, NamedSharding(mesh, spec if x.ndim == 2 else P()))

    return tree.map(put, values)


def of_checkpoints(folder: Path, values: Any, devices: int) -> list[Row]:
    """Saving, and loading onto the same mesh and others."""
    mesh = tfn.make_mesh((devices,), ("x",), (tfn.sharding.AxisType.Auto,))
    rows_of, columns_of = placed(values, mesh, P("x")), placed(values, mesh, P(None, "x"))
    path = Checkpoints(folder).path(1)
    rows: list[Row] = []
    rows.append(("save", seconds(lambda: Checkpoints(folder).save(1, rows_of)), None))
    for name, template in (
        ("load, the same parts", rows_of),
        ("load, other parts", columns_of),
        ("load, one device", values),
    ):

        def read(template: Any = template) -> None:
            dropped(folder)
            load(path, template)

        rows.append((name, seconds(read), None))

    def check() -> None:
        dropped(folder)
        verify(path)

    rows.append(("verify", seconds(check, 1), None))
    return rows


def of_steps(folder: Path, network: nn.MLP, steps: int) -> list[tuple[str, float]]:
    """Times of a step: alone, while a thread writes, and with its save."""

    def loss_of(network: nn.MLP, x: tfn.Array) -> tfn.Array:
        return jnp.square(network(x)).mean()

    def step(network: nn.MLP, state: Any, x: tfn.Array) -> Any:
        updates, state = OPTIMIZER.update(tfn.grad(loss_of)(network, x), state, network)
        return optim.apply_updates(network, updates), state

    run = tfn.jit(step, donate_argnums=(0, 1))
    x = random.normal(random.key(1), (ROWS, network.layers[0].weight.shape[0]))
    now = tree.map(jnp.copy, (network, OPTIMIZER.init(network)))

    def timed() -> float:
        nonlocal now
        begin = time.perf_counter()
        now = run(*now, x)
        tfn.block_until_ready(now)
        return time.perf_counter() - begin

    for _ in range(3):
        timed()
    alone = median(timed() for _ in range(steps))
    calls, first, during, written = [], [], [], []
    checkpoints = Checkpoints(folder, keep=1, asynchronous=True)
    for number in range(3):
        checkpoints.wait()
        begin = time.perf_counter()
        checkpoints.save(number, now)
        calls.append(time.perf_counter() - begin)
        first.append(timed())
        while checkpoints._writer.busy:
            during.append(timed())
        written.append(time.perf_counter() - begin)
    checkpoints.wait()
    begin = time.perf_counter()
    Checkpoints(folder, keep=1).save(9, now)
    return [
        ("step, alone", alone),
        ("save, asynchronous: the call", median(calls)),
        ("step after it", median(first)),
        ("step while a thread writes", median(during or first)),
        ("until all is written", median(written)),
        ("save at once", time.perf_counter() - begin),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, and prints tables; returns the exit status."""
    parser = argparse.ArgumentParser(description="Measure checkpoints beside the bare disk.")
    parser.add_argument("--megabytes", type=int, default=256, help="of the tree; %(default)s")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=0, help="of the step; 0 for all cores")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args(arguments)
    config.devices, config.threads = max(config.devices, options.devices), options.threads
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    console = Console(highlight=False)
    try:
        network = network_of(options.megabytes << 20)
        values = (network, OPTIMIZER.init(network))
        size_bytes = sum(x.nbytes for x in tree.leaves(values) if isinstance(x, tfn.Array))
        table = Table(title=f"{size_bytes / 1e6:.0f} MB, {options.devices} devices")
        for name in ("", "ms", "GB/s"):
            table.add_column(name, justify="right" if name else "left")
        for name, time_s, _ in [
            *of_disk(folder, size_bytes),
            *of_checkpoints(folder / "run", values, options.devices),
        ]:
            table.add_row(name, f"{time_s * 1e3:.0f}", f"{size_bytes / time_s / 1e9:.2f}")
        console.print(table)
        shutil.rmtree(folder / "run")
        table = Table(title="a training step")
        for name in ("", "ms"):
            table.add_column(name, justify="right" if name else "left")
        for name, time_s in of_steps(folder / "run", network, options.steps):
            table.add_row(name, f"{time_s * 1e3:.1f}")
        console.print(table)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
