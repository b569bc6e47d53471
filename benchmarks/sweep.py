"""Sweep: hundreds of cases drawn from a seed, and whole programs, beside the fastest peer.

    python benchmarks/sweep.py --record sweep.json --seconds 0    run all once: compile, compare
    python benchmarks/sweep.py --record sweep.json --within 90    time for 90 s; call it again
    python benchmarks/sweep.py --only stencils,ising --seed 7     some operations and programs
    python benchmarks/sweep.py --record sweep.json --report       the tables alone

A case is an operation with drawn shapes, dtypes, layouts and options (`operations.py`), or a small
program (`sciences.py`).  Peers are JAX, PyTorch, NumPy with SciPy, and loops of numba where a loop
is the natural way; each in a process of its own, on one core (or two, by --cores 2, and tfn then on
one thread as well), one after the other.  A time is the least of some samples (of CPU
time on one core, as in the race), ratios are to the fastest peer.  Values are compared
before anything is timed: one that differs is a finding, and listed.  What is in the record is not
timed again, so that a sweep can be made in short quiet stretches.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from facades import Facade
from operations import OPERATIONS, Drawn
from rich.console import Console
from rich.table import Table
from rows import leaves
from run import Contestant, environment, limits, machine, pretty
from sciences import PROGRAMS

ALONE = "tfn, one thread"
"""The time of tfn on one thread beside that on all: in the same process, by the same clock."""

PEERS = ("jax", "torch", "numpy", "numba")
SAMPLES = 3
WORST = 40
SAMPLE_SIZE = 256
"""Elements of each result that are compared."""

TOLERANCE = {"bfloat16": 0.05, "complex64": 3e-3, "float64": 1e-6}
"""Of results, relative and absolute, where an argument has the dtype; 2e-3 for others."""

Record = dict[str, Any]


def names(only: str, share: float) -> list[str]:
    """The cases of some operations or programs: ``scans/3``, ``ising/0``."""
    words = set(only.split(",")) - {"all"}
    unknown = {w.split("/")[0] for w in words} - OPERATIONS.keys() - PROGRAMS.keys()
    if unknown - {"programs", "operations"}:
        raise SystemExit(f"there is no operation or program {', '.join(sorted(unknown))}")

    def wanted(name: str, group: str) -> bool:
        return not words or bool({name, name.split("/")[0], group} & words)

    found = [
        (f"{operation}/{i}", "operations")
        for operation, (count, _) in OPERATIONS.items()
        for i in range(math.ceil(count * share))
    ]
    found += [(f"{program}/0", "programs") for program in PROGRAMS]
    return [name for name, group in found if wanted(name, group)]


def case(name: str, seed: int) -> tuple[Drawn, np.random.Generator]:
    """The case of a name, and the generator of its values."""
    kind, number = name.split("/")
    random = np.random.default_rng([seed, *kind.encode(), int(number)])
    draw = PROGRAMS[kind] if kind in PROGRAMS else OPERATIONS[kind][1]
    return draw(random), random


# A contestant.


def serve(contestant: str) -> None:
    """Answer lines of JSON: prepare a case, time it, or say what it costs."""
    if os.environ["SWEEP_CORES"] == "1":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not stand among the answers
    warnings.simplefilter("ignore")
    f = Facade("numpy" if contestant == "numba" else contestant)
    if contestant == "torch":
        f.own.set_num_threads(int(os.environ["SWEEP_CORES"]))
    print("[]", file=answers, flush=True)
    step: Callable[[], Any] = lambda: None
    what: Callable[[], Any] = dict
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "case" in request:
                step = what = dict  # before the arrays of the next one are made
                step, what = prepared(f, contestant, *case(request["case"], request["seed"]))
                began = time.perf_counter()
                answer: Any = {"values": [sampled(x) for x in leaves(step())]}
                answer["first_s"] = time.perf_counter() - began
            elif "seconds" in request:
                if contestant == "tfn":
                    f.own.config.threads = request["threads"]
                answer = least(step, request["seconds"])
            else:
                answer = what()
        except NotImplementedError:
            answer = {"none": True}
        except Exception as error:
            text = str(error).strip().splitlines() or [""]
            answer = {"error": f"{type(error).__name__}: {text[0][:200]}"}
        print(json.dumps(answer), file=answers, flush=True)


def prepared(
    f: Facade, contestant: str, drawn: Drawn, random: np.random.Generator
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A case as a function without arguments, and one that says what it costs."""
    values = [argument.make(random) for argument in drawn.arguments]
    function = drawn.function
    if contestant in drawn.instead:
        other = drawn.instead[contestant]
        if other is None:
            raise NotImplementedError
        if contestant == "numba":
            return lambda: other(*values), dict
        function = other
    elif contestant == "numba":
        raise NotImplementedError
    if contestant == "jax":
        wide = any(a.dtype in ("float64", "int64", "complex128") for a in drawn.arguments)
        f.own.config.update("jax_enable_x64", wide or "int64" in drawn.about)
    if contestant == "numpy" and any(a.dtype == "bfloat16" for a in drawn.arguments):
        raise NotImplementedError
    arrays = [f.array(v) for v in values]
    run = f.compiled(lambda *arrays: function(f, *arrays))
    what = (lambda: costs(f, function, arrays)) if contestant == "tfn" else dict
    return lambda: run(*arrays), what


def sampled(x: Any) -> list[Any]:
    """A few numbers of a result, complex ones as pairs, and its size."""
    if hasattr(x, "detach"):
        x = x.detach()
        x = x.float() if str(x.dtype) == "torch.bfloat16" else x
    x = np.asarray(x)
    x = np.atleast_1d(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)).reshape(-1)
    some = x[:: max(1, x.size // SAMPLE_SIZE)][:SAMPLE_SIZE]
    if x.dtype.kind == "c":
        some = np.stack([some.real, some.imag]).reshape(-1)
    return [x.size, *map(float, some)]


def least(step: Callable[[], Any], seconds: float) -> float:
    """Seconds of one run, the least of a few samples: CPU time on one core, else by the clock."""
    clock = time.process_time if os.environ["SWEEP_CORES"] == "1" else time.perf_counter
    began = clock()
    step()
    once = max(clock() - began, 1e-7)
    count = max(1, min(int(seconds / SAMPLES / once), 100_000))
    found = once
    for _ in range(SAMPLES if once < seconds else 1):
        began = clock()
        for _ in range(count):
            step()
        found = min(found, (clock() - began) / count)
    return found


def costs(f: Facade, function: Callable[..., Any], arrays: list[Any]) -> Record:
    """What tfn's program for a case does: its operations, bytes, kernels, and their text."""
    from tfn.hw.cpu.target import host
    from tfn.lower import pipeline

    run = f.own.jit(lambda *arrays: function(f, *arrays))
    lowered = run.lower(*arrays)
    cost = lowered.cost_analysis()
    program = pipeline.lower(lowered.traced.jaxpr, host())
    dtypes = [a.dtype.name for a in arrays]
    wide = next((d for d in ("float64", "bfloat16") if d in dtypes), "float32")
    return {
        "dtype": wide,
        "flops": cost["flops"],
        "bytes_in": cost["bytes in"],
        "bytes_out": cost["bytes out"],
        "launches": len(program.launches),
        "kernels": len(program.kernels),
        "host_calls": len(program.host_calls),
        "text_bytes": sum(len(kernel.text) for kernel in program.kernels),
        "arena_bytes": program.arena_bytes,
    }


# The sweep.


def swept(options: argparse.Namespace, record: Record, screen: Console) -> Iterator[None]:
    """Run the cases that the record lacks, one after the other."""
    wanted = ["tfn", *(p for p in PEERS if importlib.util.find_spec(p))]
    wanted = [n for n in wanted if n in ("tfn", *options.peers.split(","))]
    more = environment(SWEEP_CORES=str(options.cores))
    more |= {"JAX_PLATFORMS": "cpu", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    if options.cores > 1:
        more |= dict.fromkeys(("TFN_THREADS", "OMP_NUM_THREADS"), str(options.cores))
        more["OPENBLAS_NUM_THREADS"], more["XLA_FLAGS"] = str(options.cores), ""
    contestants = {name: Contestant(name, __file__, more) for name in wanted}
    began = time.monotonic()
    try:
        for name in names(options.only, options.share):
            found = record["cases"].setdefault(name, {})
            field = f"cores_{options.cores}"
            known = field in found if options.seconds else "differs" in found
            if known and not options.again:
                continue
            if time.monotonic() - began > options.within:
                screen.log("time is over; call it again for the rest")
                return
            one(name, found, field, contestants, options, screen)
            yield
    finally:
        for contestant in contestants.values():
            contestant.stop()


def one(
    name: str,
    found: Record,
    field: str,
    contestants: dict[str, Contestant],
    options: argparse.Namespace,
    screen: Console,
) -> None:
    """Compare and time one case, into its record."""
    drawn, _ = case(name, options.seed)
    ready = {n: c.ask(case=name, seed=options.seed) for n, c in contestants.items()}
    found["about"] = described(drawn)
    found["errors"] = {n: a["error"] for n, a in ready.items() if "error" in a}
    for n, message in found["errors"].items():
        screen.log(f"{name}: {n}: {message} ({found['about']})")
    able = [n for n, a in ready.items() if "values" in a]
    found["differs"] = []
    if "tfn" in able:
        found["first_s"] = ready["tfn"]["first_s"]
        for n in able[1:]:
            if not drawn.loose and not alike(drawn, ready["tfn"]["values"], ready[n]["values"]):
                found["differs"].append(n)
                screen.log(f"{name}: {n} computes something else ({found['about']})")
    if options.seconds:
        asked = {n: (n, options.cores) for n in able}
        if options.cores > 1 and "tfn" in able:
            asked[ALONE] = "tfn", 1
        times: dict[str, list[float]] = {n: [] for n in asked}
        for _ in range(2):
            for n, (contestant, threads) in asked.items():
                t = contestants[contestant].ask(seconds=options.seconds, threads=threads)
                times[n] += [t] if isinstance(t, float) else []
        found[field] = {n: min(t) for n, t in times.items() if t}
        found["costs"] = contestants["tfn"].ask() if "tfn" in able else {}


def described(drawn: Drawn) -> str:
    """Options, dtypes and shapes in a line."""
    many = len(drawn.arguments) > 6
    given = [f"{a.dtype}{list(a.shape)}".replace(" ", "") for a in drawn.arguments]
    return f"{drawn.about} {' '.join(given[:1] if many else given)}".strip()


def alike(drawn: Drawn, want: list[list[float]], got: list[list[float]]) -> bool:
    """Whether two libraries computed the same, up to rounding."""
    dtypes = {a.dtype for a in drawn.arguments}
    bound = max([TOLERANCE.get(d, 2e-3) for d in dtypes], default=2e-3)
    for x, y in zip(want, got, strict=len(want) == len(got)):
        if len(x) != len(y):
            return False
        finite = [abs(v) for v in x if math.isfinite(v)]
        if not np.allclose(x, y, rtol=bound, atol=bound * max([1.0, *finite]), equal_nan=True):
            return False
    return len(want) == len(got)


# What was found.


def ratio(found: Record, field: str) -> float | None:
    """tfn's time over that of the fastest peer."""
    times = found.get(field, {})
    peers = [t for n, t in times.items() if n not in ("tfn", ALONE)]
    return times["tfn"] / min(peers) if peers and "tfn" in times else None


def report(record: Record, screen: Console, cores: int) -> None:
    """Means, shares and the worst."""
    field = f"cores_{cores}"
    ratios = {n: r for n, c in record["cases"].items() if (r := ratio(c, field)) is not None}
    groups: dict[str, list[float]] = {}
    for name, value in ratios.items():
        kind = name.split("/")[0]
        group = "all programs" if kind in PROGRAMS else "all operations"
        for key in (group, *(() if kind in PROGRAMS else (kind,))):
            groups.setdefault(key, []).append(value)
    made = Table(title=f"{record['machine']}, {cores} core(s), seed {record['seed']}")
    for column in ("", "cases", "geometric mean", "<= 1.0", "<= 1.2", "> 1.5", "worst"):
        made.add_column(column, justify="right" if column else "left")
    for name, values in sorted(groups.items(), key=lambda g: (not g[0].startswith("all"), g[0])):
        v = np.array(values)
        shares = [np.mean(v <= 1.0), np.mean(v <= 1.2), np.mean(v > 1.5)]
        mean = float(np.exp(np.log(v).mean()))
        cells = [str(len(v)), f"{mean:.2f}", *(f"{s:.0%}" for s in shares), f"{v.max():.1f}"]
        made.add_row(name, *cells)
    screen.print(made)
    text = Table(title=f"the worst {WORST}")
    for column in ("case", "ratio", "tfn", "best peer", "kernels", "GFLOP/s", "of the machine", ""):
        text.add_column(column, no_wrap=True)
    bounds = record.get("limits")
    for name in sorted(ratios, key=lambda n: -ratios[n])[:WORST]:
        found = record["cases"][name]
        times, cost = found[field], found.get("costs", {})
        peer = min((n for n in times if n not in ("tfn", ALONE)), key=times.__getitem__)
        known = "flops" in cost
        text.add_row(
            name,
            f"{ratios[name]:.2f}",
            pretty(times["tfn"]),
            f"{peer} {pretty(times[peer])}",
            f"{cost['launches']}+{cost['host_calls']}" if known else "",
            f"{cost['flops'] / times['tfn'] / 1e9:.2f}" if known else "",
            limits().share(bounds, cost, times["tfn"]) if bounds and known else "",
            found["about"],
        )
    screen.print(text)
    compared(record, screen)
    kept = [c["costs"] for c in record["cases"].values() if "text_bytes" in c.get("costs", {})]
    if kept:
        sizes = [c["text_bytes"] for c in kept]
        screen.print(
            f"text of kernels: {np.median(sizes):.0f} bytes in the median, {max(sizes)} at most; "
            f"kernels: {np.median([c['kernels'] for c in kept]):.0f}, "
            f"{max(c['kernels'] for c in kept)} at most"
        )


def compared(record: Record, screen: Console) -> None:
    """Values that differ, errors of tfn, and cases that two cores make slower."""
    for name, found in record["cases"].items():
        if found.get("differs"):
            screen.print(f"{name}: differs from {', '.join(found['differs'])}: {found['about']}")
        if "tfn" in found.get("errors", {}):
            screen.print(f"{name}: {found['errors']['tfn']}: {found['about']}")
        for times in (value for field, value in found.items() if field.startswith("cores_")):
            one, every = times.get(ALONE, math.inf), times.get("tfn", 0.0)
            if every > 1.1 * one:
                screen.print(f"{name}: {pretty(one)} on one thread, {pretty(every)} on all")


def main() -> None:
    """Sweep, keep what was found, and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="all", help="operations, programs, or cases, with commas")
    parser.add_argument("--seed", type=int, default=0, help="of the cases")
    parser.add_argument("--share", type=float, default=1.0, help="of the cases of each operation")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--seconds", type=float, default=0.02, help="of each sample; 0 for none")
    parser.add_argument("--within", type=float, default=math.inf, help="seconds for the whole")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--record", type=Path, help="a file for what was found")
    parser.add_argument("--again", action="store_true", help="time what is in the record, too")
    parser.add_argument("--limits", action="store_true", help="measure the machine's limits, too")
    parser.add_argument("--report", action="store_true", help="print what the record has")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    screen = Console(width=None if sys.stdout.isatty() else 170)
    record: Record = {"machine": machine(), "seed": options.seed, "cases": {}}
    if options.record and options.record.exists():
        record = json.loads(options.record.read_text())
        if record["seed"] != options.seed:
            raise SystemExit(f"the record is of seed {record['seed']}")
    if options.limits:
        record["limits"] = limits().measured(environment(), 0.005)
    for _ in () if options.report else swept(options, record, screen):
        if options.record:
            options.record.write_text(json.dumps(record, indent=1) + "\n")
    if options.record:
        options.record.write_text(json.dumps(record, indent=1) + "\n")
    if options.seconds or options.report:
        report(record, screen, options.cores)


if __name__ == "__main__":
    main()
