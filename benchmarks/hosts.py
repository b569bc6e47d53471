"""Many processes: the time of all-reduces, beside bare mpi4py, and jax and torch over gloo.

    mpirun -n 2 --bind-to none python benchmarks/hosts.py
    python benchmarks/hosts.py --faults 20        kill and stop processes; every job has to end

A row is one size of a float32 value that lies in each process.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tfn
from tfn import lax
from tfn.distributed.supervisor import processes_with
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

SIZES = (1, 256, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)
ROUNDS = 5
JOB = Path(__file__).parents[1] / "tests" / "distributed" / "job_fault.py"
LIMIT_S = 60


def best_us(
    calls: dict[str, Callable[[], Any]], size: int, barrier: Callable[[], Any]
) -> dict[str, float]:
    """Microseconds of each call: the median of some calls in a row, in the best of several rounds.

    Libraries take turns, so that what else the machine does meets all of them.
    """
    repeats = 200 if size <= 16 * 1024 else 20 if size < 1 << 20 else 3
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(ROUNDS + 1):  # the first one warms up
        for name, call in calls.items():
            barrier()
            times = []
            for _ in range(repeats):
                begin = time.perf_counter_ns()
                call()
                times.append(time.perf_counter_ns() - begin)
            if turn:
                found[name].append(float(np.median(times)) / 1e3)
    return {name: min(medians) for name, medians in found.items()}


def peers(rank: int, size: int) -> dict[str, Callable[[np.ndarray], Callable[[], Any]]]:
    """All-reduces of libraries that are installed, each made for an array."""
    found: dict[str, Callable[[np.ndarray], Callable[[], Any]]] = {}
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29531")
    try:
        import torch
        from torch import distributed

        torch.set_num_threads(1)
        distributed.init_process_group("gloo", rank=rank, world_size=size)

        def of_torch(x: np.ndarray) -> Callable[[], Any]:
            t = torch.from_numpy(x.copy())
            return lambda: distributed.all_reduce(t.zero_())

        found["torch, gloo"] = of_torch
    except ImportError:
        pass
    try:
        import jax

        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize("127.0.0.1:29532", size, rank)
        mesh = jax.make_mesh((size,), ("d",))
        over = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))

        def of_jax(x: np.ndarray) -> Callable[[], Any]:
            spec = jax.sharding.PartitionSpec
            body = jax.shard_map(
                lambda v: jax.lax.psum(v, "d"), mesh=mesh, in_specs=spec("d"), out_specs=spec()
            )
            value = jax.make_array_from_process_local_data(over, x)
            call = jax.jit(body)
            return lambda: call(value).block_until_ready()

        found["jax, gloo"] = of_jax
    except ImportError:
        pass
    return found


def measure(with_peers: bool) -> None:
    """Print a row for each size."""
    from mpi4py import MPI

    tfn.distributed.initialize(deadline_s=60)
    world, rank, size = MPI.COMM_WORLD, tfn.process_index(), tfn.process_count()
    mesh = tfn.make_mesh((len(tfn.devices()),), ("d",), tfn.sharding.AxisType.Auto)
    over = NamedSharding(mesh, P("d"))
    body = tfn.shard_map(lambda v: lax.psum(v, "d"), mesh=mesh, in_specs=P("d"), out_specs=P())
    others = peers(rank, size) if with_peers else {}
    for n in SIZES:
        x = np.ones(n, "float32")
        out = np.empty_like(x)
        call, value = tfn.jit(body), tfn.make_array_from_process_local_data(over, x)
        calls: dict[str, Callable[[], Any]] = {
            "mpi4py": partial(world.Allreduce, x, out),
            "tfn": partial(lambda call, value: call(value).block_until_ready(), call, value),
        }
        calls |= {name: make(x) for name, make in others.items()}
        row = best_us(calls, n, world.Barrier)
        if rank == 0:
            listed = "   ".join(f"{name} {us:,.1f} us" for name, us in row.items())
            more = 100 * (row["tfn"] / row["mpi4py"] - 1)
            print(f"{4 * n:>11,} bytes   {listed}   ({more:+.0f}%)", flush=True)
    tfn.distributed.shutdown()


def faults(times: int) -> int:
    """Kill and stop processes so many times; the number of jobs that did not end as they should."""
    wrong = 0
    ulfm = ["--with-ft", "ulfm", "--mca", "pml", "ob1"]
    for how, options, want in (
        ("killed", ulfm, "WorkerLostError"),
        ("killed", [], "Killed"),
        ("stopped", [], "CollectiveTimeoutError"),
        ("stopped", ulfm, "CollectiveTimeoutError"),
        ("leaves", [], "CollectiveTimeoutError"),
    ):
        seconds, ended = [], 0
        for _ in range(times):
            with tempfile.TemporaryDirectory() as folder:
                seconds_one, text = one_fault(how, options, folder)
            seconds.append(seconds_one)
            ended += want in text
        wrong += times - ended
        print(
            f"{how}{' with ULFM' if options else ''}: {ended} of {times} ended in {want}; the job "
            f"took {np.median(seconds):.1f} s, at most {max(seconds):.1f} s",
            flush=True,
        )
    return wrong


def one_fault(how: str, options: list[str], folder: str) -> tuple[float, str]:
    """The seconds that a job took, and its text; empty if it did not end, or left a process."""
    begin, as_root = time.time(), {}
    for name in ("OMPI", "PRTE"):
        as_root |= {f"{name}_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    job = subprocess.Popen(
        ["mpirun", "-n", "3", "--oversubscribe", "--bind-to", "none", "--mca",
         "mpi_yield_when_idle", "1", *options, sys.executable, str(JOB), how, "1"],
        env={**os.environ, **as_root, "TFN_DEVICES": "1", "TFN_THREADS": "1", "DEADLINE_S": "2",
             "TFN_FAULT_JOB": folder},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        start_new_session=True,
    )  # fmt: skip
    try:
        text = job.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        return time.time() - begin, ""
    seconds = time.time() - begin
    for _ in range(50):
        if not processes_with(folder):
            return seconds, text
        time.sleep(0.1)
    return seconds, ""


def main() -> int:
    """Measure, or provoke faults."""
    parser = argparse.ArgumentParser(description="Time all-reduces between processes.")
    parser.add_argument("--faults", type=int, default=0, help="times for each kind of fault")
    parser.add_argument("--alone", action="store_true", help="without jax and torch")
    options = parser.parse_args()
    if options.faults:
        return min(faults(options.faults), 1)
    measure(not options.alone)
    return 0


if __name__ == "__main__":
    sys.exit(main())
