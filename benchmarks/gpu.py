"""Speed on a GPU: plain array code on the device cuda, beside the peers that are installed.

    python benchmarks/gpu.py                      all rows, a table, which targets are met
    python benchmarks/gpu.py --only softmax,mlp   some rows, by the beginning of their names
    python benchmarks/gpu.py --peers jax          some of jax, torch, torch.compile; none: ""
    python benchmarks/gpu.py --json out.json      the same as data
    python benchmarks/gpu.py --device opencl --small
                                                  all rows at small sizes: values, not speed

The rows, their sizes and targets are in `gpu_rows.py`.  A time is the least of several rounds; a
round enqueues as many calls as take 20 ms, and waits once at its end.  Cold rows are fresh
processes; compile rows need no GPU.  Without a GPU it says so, and measures those alone.

Rows run in a process of their own, all in one while they go well: one that hangs, dies or loses its
GPU is replaced, and goes on with the next row.  A row is printed, and written to the file, when it
is there.

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
from supervised import Report, supervised

import tfn
from tfn.config import config
from tfn.eager import registry
from tfn.errors import DeviceError
from tfn.hw.cuda.compiler import CudaCompiler
from tfn.hw.cuda.target import TARGETS
from tfn.lower import pipeline

ROUNDS = 5
ROUND_SECONDS = 0.02
MOST_CALLS = 5000  # of a round; a queue of the driver takes about 1,000 launches before it waits
FRESH_S = 120.0  # of a process for one call
ROW_LIMIT_S = 300.0  # of all libraries together; torch.compile takes a minute for GPT-2
CHECKED_STEPS = 3  # of rows that carry a state: the later ones see what the first one wrote
PEERS = "jax", "torch", "torch.compile"
CHIP = "sm_90"
LOG_COLUMNS = 150


@dataclass(frozen=True)
class Contestant:
    """A library: its programs by row, how to wait for what it has enqueued, and to free memory."""

    programs: dict[str, Program]
    wait: Callable[[Any], Any]
    release: Callable[[], Any] = lambda: None


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

    def release() -> None:
        trim = getattr(registry.device().memory, "trim", None)
        if trim is not None:
            trim()

    return Contestant(functional("tfn"), tfn.block_until_ready, release)


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
    release = torch.cuda.empty_cache if on_gpu else lambda: None
    return Contestant(pytorch(device, compiled=name == "torch.compile"), wait, release)


# Times.


def seconds(step: Step, wait: Callable[[Any], Any]) -> float:
    """The time of a call: the least mean of several rounds."""
    wait(step())
    begin = time.perf_counter()
    wait(step())
    calls = int(ROUND_SECONDS / max(time.perf_counter() - begin, 1e-9))
    calls, best = min(max(calls, 1), MOST_CALLS), math.inf
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(calls):
            result = step()
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
            found.errors[who] = told(error)
        step = None
        try:
            contestant.release()  # the GPU is shared
        except Exception as error:
            found.errors.setdefault(who, told(error))
    return found


def told(error: Exception) -> str:
    """An error in a line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


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
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=FRESH_S)
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
                except (RuntimeError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
                    found.errors["tfn"] = told(error)
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
                wrong = told(error)
            found.errors.update({who: wrong} if wrong else {})
            found.seconds[who] = 0.0
    return found


# Reports.


def chosen(name: str, names: Sequence[str]) -> bool:
    """Whether a row is among those that were asked for."""
    return not names or any(name.startswith(begin) for begin in names)


def work(names: Sequence[str], options: argparse.Namespace, report: Report) -> int:
    """Measure rows one after the other, and tell each; stop after one that took the GPU along."""
    config.device = options.device
    try:
        tfn.devices(options.device)
    except DeviceError as error:
        report.send("", device=str(error))
        return 0
    contestants, missing = {"tfn": own()}, {}
    for name in chosen_peers(options):
        there = peer(name, not options.small)
        if isinstance(there, Contestant):
            contestants[name] = there
        else:
            missing[name] = there
    report.send("", device="", present=[*contestants], missing=missing)
    ask = compared if options.small else measured
    for name in names:
        found = ask(name, ROWS[name], contestants)
        report.send(name, seconds=found.seconds, errors=found.errors)
        if found.errors and not is_well():
            return 0
    return 0


def is_well() -> bool:
    """Whether the device still computes."""
    try:
        return float((tfn.numpy.ones(3) + 1).sum()) == 6
    except Exception:
        return False


def rows(
    names: Sequence[str], options: argparse.Namespace, hello: Callable[[dict[str, Any]], None]
) -> Iterator[tuple[str, Found]]:
    """All rows that can be measured, in their order; without a device those that need none."""
    asked, there = [name for name in ROWS if chosen(name, names)], [True]

    def greet(data: dict[str, Any]) -> None:
        there[0] = not data["device"]
        hello(data)

    given = [f"--device={options.device}", f"--peers={options.peers}"]
    given += ["--small"] if options.small else []
    command = [sys.executable, str(Path(__file__)), *given, "--worker"]
    wanted = bool(asked) or any(chosen(name, names) for name in COLD)
    for name, data in supervised(command, asked, options.row_limit_s, greet) if wanted else ():
        if there[0]:
            row = ROWS[name]
            found = Found(row.target, work=row.work, unit=row.unit)
            found.seconds, found.errors = data.get("seconds", {}), data.get("errors", {})
            if "failed" in data:
                found.errors["all"] = data["failed"]
            yield name, found
    if there[0]:
        yield from cold(names, options.device, "small" if options.small else "full")
    yield from compiled(names)


def cells(name: str, found: Found, peers: Sequence[str], is_small: bool) -> list[str]:
    """A row of the table."""

    def cell(who: str) -> str:
        seconds = found.seconds.get(who)
        said = "-" if seconds is None else spelled(seconds) if seconds else "agrees"
        return "failed" if who in found.errors or "all" in found.errors else said

    times = [name, *map(cell, ("tfn", *peers))]
    if is_small:
        return times
    own = found.seconds.get("tfn")
    rate = f"{found.work / own:,.1f} {found.unit}" if own and found.work else "-"
    return [*times, rate, str(found.target), verdict(found)]


def verdict(found: Found) -> str:
    """Whether the target is met, and by how much it is missed."""
    if found.met is None:
        return "failed" if {"tfn", "all"} & {*found.errors} else "no peer"
    own, target = found.seconds["tfn"], found.target
    if target.seconds:
        said = f"{own / target.seconds:.2f} of the time"
    else:
        others = {k: v for k, v in found.seconds.items() if k != "tfn" and v}
        name = target.versus if target.versus in others else min(others, key=lambda k: others[k])
        said = f"{others[name] / own:.2f} x {name}"
    return f"met: {said}" if found.met else f"NOT MET: {said}"


def summary(found: dict[str, Found]) -> Iterator[str]:
    """What was shown, in lines: targets met and not, what has no peer here, what failed."""
    kinds: dict[str, list[str]] = {}
    for name, row in found.items():
        kinds.setdefault(verdict(row).partition(":")[0], []).append(name)
    yield f"met: {len(kinds.get('met', ()))} of {len(found)}"
    for kind, title in (("NOT MET", "not met"), ("no peer", "not known, for lack of a peer")):
        if kind in kinds:
            yield f"{title}: {', '.join(kinds[kind])}"
    for name, row in found.items():
        for who, why in row.errors.items():
            yield f"failed: {name} ({who}): {why}"


def chosen_peers(options: argparse.Namespace) -> list[str]:
    """The peers that were asked for."""
    return [name for name in options.peers.split(",") if name]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="names of rows, or their beginnings")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--peers", default=",".join(PEERS), help="some of these, or none")
    parser.add_argument("--small", action="store_true", help="compare values at small sizes")
    parser.add_argument("--json", type=Path, help="a file for the same as data")
    parser.add_argument(
        "--row-limit-s", type=float, default=ROW_LIMIT_S, help="seconds of a row, of all together"
    )
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)  # names, a descriptor
    options = parser.parse_args(arguments)
    every = [*ROWS, *COLD, *COMPILE]
    names = [name for name in options.only.split(",") if name]
    if unknown := [n for n in names if not any(row.startswith(n) for row in every)]:
        parser.error(f"no row begins with {', '.join(unknown)}; there are {', '.join(every)}")
    if unknown := [name for name in chosen_peers(options) if name not in PEERS]:
        parser.error(f"there is no peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print; 1 if there is no device, or a row fails."""
    options = parsed(arguments)
    if options.worker:
        return work(
            [n for n in options.worker[0].split(",") if n], options, Report(int(options.worker[1]))
        )
    names = [name for name in options.only.split(",") if name]
    console = Console(width=None if sys.stdout.isatty() else LOG_COLUMNS)
    present, has_device = list[str](), True

    def hello(data: dict[str, Any]) -> None:
        nonlocal has_device
        if data["device"]:
            has_device = False
            console.print(f"Nothing is measured on a device.\n{data['device']}", markup=False)
        elif not present:
            present.extend(data["present"][1:])
            for name, why in data["missing"].items():
                console.print(f"{name} is missing: {why}", markup=False)

    found: dict[str, Found] = {}
    for name, row in rows(names, options, hello):
        found[name] = row
        console.print("  ".join(cells(name, row, present, options.small)), markup=False)
        if options.json:
            options.json.write_text(json.dumps({k: asdict(k, v) for k, v in found.items()}))
    head = () if options.small else ("per second", "target", "")
    table = Table("row", "tfn", *present, *head)
    for name, row in found.items():
        table.add_row(*cells(name, row, present, options.small))
    console.print(table)
    if options.small:
        lines = [line for line in summary(found) if line.startswith("failed")]
    else:
        lines = [*summary(found)]
    console.print("\n".join(lines), markup=False)
    return int(any(row.errors for row in found.values()) or not has_device)


def asdict(name: str, found: Found) -> dict[str, Any]:
    """A row as data."""
    return {
        "seconds": found.seconds,
        "errors": found.errors,
        "target": str(found.target),
        "met": found.met,
        "verdict": verdict(found),
    }


if __name__ == "__main__":
    raise SystemExit(main())
