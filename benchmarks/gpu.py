"""Speed on a GPU: plain array code on the device cuda, beside the peers that are installed.

    python benchmarks/gpu.py                      all rows, a table, which targets are met
    python benchmarks/gpu.py --only softmax,mlp   some rows, by the beginning of their names
    python benchmarks/gpu.py --peers jax          some of jax, torch, torch.compile; none: ""
    python benchmarks/gpu.py --json out.json      the same as data
    python benchmarks/gpu.py --device opencl --small
                                                  all rows at small sizes: values, not speed

The rows, their sizes and targets are in `gpu_rows.py`.  A time is the least of several rounds; a
round enqueues calls for 20 ms, and waits once at its end.  Cold rows are fresh processes; compile
rows need no GPU.  Without a GPU it says so, and measures those alone.

With `--small` values are compared with those of the device cpu, and with those of the peers on a
processor, and no target is looked at.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gpu_rows
import numpy as np
from gpu_programs import Program, functional, pytorch
from gpu_rows import COLD, COMPILE, ROWS, Row, Target, spelled
from rich.console import Console
from rich.table import Table
from rows import Step, leaves

import tfn
from tfn.config import config
from tfn.errors import DeviceError
from tfn.hw.cuda.compiler import CudaCompiler
from tfn.hw.cuda.target import TARGETS
from tfn.lower import pipeline

ROUNDS = 5
ROUND_SECONDS = 0.02
CHECKED_STEPS = 3  # of rows that carry a state: the later ones see what the first one wrote
PEERS = "jax", "torch", "torch.compile"
CHIP = "sm_90"


@dataclass(frozen=True)
class Contestant:
    """A library: its programs by row, and how to wait for what it has enqueued."""

    programs: dict[str, Program]
    wait: Callable[[Any], Any]


@dataclass
class Found:
    """Seconds of a row by contestant; a word on how its values compare, in the small size."""

    target: Target
    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    work: float = 0.0
    unit: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if that is not known."""
        own = self.seconds.get("tfn")
        peers = {name: seconds for name, seconds in self.seconds.items() if name != "tfn"}
        return None if own is None else self.target.met(own, peers)


# Contestants.


def own() -> Contestant:
    """tfn on the default device."""
    return Contestant(functional("tfn"), tfn.block_until_ready)


def absent(name: str) -> str:
    """The reason why a peer is not measured; empty if it is."""
    package = name.split(".")[0]
    return "" if importlib.util.find_spec(package) else f"{package} is not installed"


def peer(name: str, on_gpu: bool) -> Contestant | str:
    """A peer on the GPU, or on a processor; or the reason why there is none."""
    if why := absent(name):
        return why
    if name == "jax":
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU is shared
        import jax

        if on_gpu and jax.default_backend() != "gpu":
            return "jax finds no GPU"
        options = {"implementation": "cudnn"} if on_gpu else {}
        return Contestant(functional("jax", **options), jax.block_until_ready)
    import torch

    if on_gpu and not torch.cuda.is_available():
        return "torch finds no GPU"
    device = "cuda" if on_gpu else "cpu"
    wait: Callable[[Any], Any] = lambda _: torch.cuda.synchronize() if on_gpu else None
    return Contestant(pytorch(device, compiled=name == "torch.compile"), wait)


# Times.


def seconds(step: Step, wait: Callable[[Any], Any]) -> float:
    """The time of a call: the least mean of several rounds."""
    wait(step())
    best = math.inf
    for _ in range(ROUNDS):
        begin, calls = time.perf_counter(), 0
        while time.perf_counter() - begin < ROUND_SECONDS:
            result, calls = step(), calls + 1
        wait(result)
        best = min(best, (time.perf_counter() - begin) / calls)
    return best


def measured(name: str, row: Row, contestants: dict[str, Contestant]) -> Found:
    """The times of a row by all who have it; one that fails does not stop the others."""
    found = Found(row.target, work=row.work, unit=row.unit)
    inputs = row.inputs(gpu_rows.full)
    for who, contestant in contestants.items():
        if name not in contestant.programs:
            continue
        try:
            step = contestant.programs[name](row, inputs)
            found.seconds[who] = seconds(step, contestant.wait)
        except Exception as error:
            found.errors[who] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return found


FIRST_RESULT = (
    "import time, tfn; x = tfn.numpy.ones(8);"
    "tfn.jit(lambda x: x + 1)(x).block_until_ready(); print(time.time())"
)
FIRST_STEP = (
    f"import sys, time; sys.path.insert(0, {str(Path(__file__).parent)!r}); import gpu;"
    "step = gpu.own().programs['mlp_step'](gpu.ROWS['mlp_step'],"
    "gpu.ROWS['mlp_step'].inputs(gpu.gpu_rows.{size}));"
    "gpu.tfn.block_until_ready(step()); print(time.time())"
)


def fresh(code: str, device: str, cache: str) -> float:
    """Seconds from the start of a process to the end of its first call."""
    environment = {**os.environ, "TFN_DEVICE": device, "TFN_CACHE_DIR": cache}
    root = str(Path(__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    begin = time.time()
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    if ran.returncode:
        raise RuntimeError((ran.stderr.strip().splitlines() or ["it says nothing"])[-1])
    return float(ran.stdout.split()[-1]) - begin


def cold(names: Sequence[str], device: str, size: str) -> Iterator[tuple[str, Found]]:
    """The rows of fresh processes: the last finds on disk what the one before it compiled."""
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as cache:
        codes = [(FIRST_RESULT, empty), *[(FIRST_STEP.format(size=size), cache)] * 2]
        for (name, target), (code, folder) in zip(COLD.items(), codes, strict=True):
            if chosen(name, names) or (folder == cache and chosen([*COLD][-1], names)):
                found = Found(target)
                try:
                    found.seconds["tfn"] = fresh(code, device, folder)
                except (RuntimeError, ValueError, IndexError) as error:
                    found.errors["tfn"] = str(error)
                yield name, found


def compiled(names: Sequence[str]) -> Iterator[tuple[str, Found]]:
    """The rows of kernels that are compiled: from LLVM IR to PTX, by the slowest kernel."""
    kept, config.disk_cache = config.disk_cache, False
    functions: dict[str, Callable[..., Any]] = {
        "compile_simple": lambda x, y: tfn.nn.gelu(x) + y,
        "compile_matmul": lambda x, y: x @ y,
    }
    try:
        for name, function in functions.items():
            if chosen(name, names):
                kind = tfn.ShapeDtypeStruct((4096, 4096), "bfloat16")
                program = pipeline.lower(tfn.make_jaxpr(function)(kind, kind), TARGETS[CHIP])
                found = Found(COMPILE[name])
                found.seconds["tfn"] = max(ptx_seconds(k.text) for k in program.kernels)
                yield name, found
    finally:
        config.disk_cache = kept


def ptx_seconds(text: str) -> float:
    """The least time in which a kernel becomes PTX."""
    best = math.inf
    for _ in range(ROUNDS):
        compiler = CudaCompiler()  # each keeps what it has compiled
        begin = time.perf_counter()
        compiler.compile(text, TARGETS[CHIP])
        best = min(best, time.perf_counter() - begin)
    return best


# Values.


def values(name: str, row: Row, contestant: Contestant) -> list[np.ndarray[Any, Any]]:
    """The results of a row in the small size, of several steps if it carries a state."""
    step = contestant.programs[name](row, row.inputs(gpu_rows.small))
    results = [step() for _ in range(CHECKED_STEPS if row.carried else 1)]
    return [host(x) for x in leaves(results)]


def host(x: Any) -> np.ndarray[Any, Any]:
    """An array of any library in NumPy: floats in float32, integers in int64."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = (x.float() if x.is_floating_point() else x.long()).numpy()
    array = np.asarray(x)
    return array.astype(np.int64 if array.dtype.kind in "iu" else np.float32)


def difference(
    want: list[np.ndarray[Any, Any]], got: list[np.ndarray[Any, Any]], tolerance: float
) -> str:
    """The largest difference, over the largest value; or empty if it is within the tolerance."""
    if [x.shape for x in want] != [x.shape for x in got]:
        return f"shapes {[x.shape for x in got]} instead of {[x.shape for x in want]}"
    worst = max(
        float(np.abs(x - y).max(initial=0)) / max(1.0, float(np.abs(x).max(initial=0)))
        for x, y in zip(want, got, strict=True)
    )
    return "" if worst <= tolerance else f"differs by {worst:.2g}, not {tolerance:g}"


def compared(name: str, row: Row, contestants: dict[str, Contestant]) -> Found:
    """A row in the small size, by all, beside tfn on a processor."""
    found = Found(row.target)
    with tfn.default_device("cpu"):
        want = values(name, row, own())
    for who, contestant in contestants.items():
        if name in contestant.programs:
            try:
                wrong = difference(want, values(name, row, contestant), row.tolerance)
            except Exception as error:
                wrong = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            found.errors.update({who: wrong} if wrong else {})
            found.seconds[who] = 0.0
    return found


# Reports.


def chosen(name: str, names: Sequence[str]) -> bool:
    """Whether a row is among those that were asked for."""
    return not names or any(name.startswith(begin) for begin in names)


def rows(
    names: Sequence[str], device: str, contestants: dict[str, Contestant], is_small: bool
) -> Iterator[tuple[str, Found]]:
    """All rows that can be measured, in their order; without contestants those of no device."""
    if contestants:
        ask = compared if is_small else measured
        for name, row in ROWS.items():
            if chosen(name, names):
                yield name, ask(name, row, contestants)
        yield from cold(names, device, "small" if is_small else "full")
    yield from compiled(names)


def cells(name: str, found: Found, peers: Sequence[str], is_small: bool) -> list[str]:
    """A row of the table."""

    def cell(who: str) -> str:
        seconds = found.seconds.get(who)
        said = "-" if seconds is None else spelled(seconds) if seconds else "agrees"
        return found.errors.get(who, said)

    times = [name, *map(cell, ("tfn", *peers))]
    if is_small:
        return times
    own = found.seconds.get("tfn")
    rate = f"{found.work / own:,.1f} {found.unit}" if own and found.work else "-"
    verdict = {True: "met", False: "NOT MET", None: "not known"}[found.met]
    return [*times, rate, str(found.target), verdict]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print; 1 if there is no device, or a row fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="names of rows, or their beginnings")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--peers", default=",".join(PEERS), help="some of these, or none")
    parser.add_argument("--small", action="store_true", help="compare values at small sizes")
    parser.add_argument("--json", type=Path, help="a file for the same as data")
    options = parser.parse_args(arguments)
    names = [name for name in options.only.split(",") if name]
    every = [*ROWS, *COLD, *COMPILE]
    if unknown := [n for n in names if not any(row.startswith(n) for row in every)]:
        parser.error(f"no row begins with {', '.join(unknown)}; there are {', '.join(every)}")
    peers = [name for name in options.peers.split(",") if name]
    if unknown := [name for name in peers if name not in PEERS]:
        parser.error(f"there is no peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    console, has_device, config.device = Console(), True, options.device
    try:
        tfn.devices(options.device)
    except DeviceError as error:
        console.print(f"Nothing is measured on a device.\n{error}", markup=False)
        has_device, config.device = False, "cpu"
    contestants = {"tfn": own()} if has_device else {}
    for name in peers if has_device else ():
        there = peer(name, not options.small)
        if isinstance(there, Contestant):
            contestants[name] = there
        else:
            console.print(f"{name} is missing: {there}", markup=False)
    present = [name for name in contestants if name != "tfn"]
    head = () if options.small else ("per second", "target", "")
    table, record, failed, verdicts = Table("row", "tfn", *present, *head), {}, [], []
    for name, found in rows(names, options.device, contestants, options.small):
        table.add_row(*cells(name, found, present, options.small))
        record[name] = {
            "seconds": found.seconds,
            "errors": found.errors,
            "target": str(found.target),
            "met": found.met,
        }
        failed += [f"{name} ({who})" for who in found.errors]
        verdicts.append(found.met)
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps(record, indent=1))
    if not options.small:
        met, of = verdicts.count(True), len(verdicts) - verdicts.count(None)
        console.print(f"met: {met} of {of}; {verdicts.count(None)} lack a peer, or failed")
    if failed:
        console.print(f"failed: {', '.join(failed)}", markup=False)
    return int(bool(failed) or not has_device)


if __name__ == "__main__":
    raise SystemExit(main())
