"""Race tfn against JAX, PyTorch and NumPy, where they are installed.

    python benchmarks/run.py                     all rows, one core, a table
    python benchmarks/run.py --only mm512,calls  some rows, or groups of them
    python benchmarks/run.py --json out.json --chart out.png

Each row is one program, given to all contestants with the same inputs.  Every contestant runs in
its own process, on one core.  They take turns, so that a busy machine hits all alike.  What counts
is CPU time, the median over repeats, and the ratio to the fastest peer.  Results are compared
before anything is timed.  Beside the ratio stands how near tfn is to what the core can do at all,
in arithmetic or in bandwidth, whichever is the limit of the row; see `limits.py`.  The cold starts,
at the end, are fresh processes, of those who compile.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import models
import numpy as np
import rows
from functional import programs
from imperative import numpy, pytorch
from rich.console import Console
from rich.table import Table
from rows import Inputs, Step, leaves

ROWS = rows.ROWS | models.ROWS
CONTESTANTS: dict[str, Callable[[str], dict[str, Callable[[Inputs], Step]]]] = {
    "tfn": lambda name: programs(name) | models.examples(),
    "jax": lambda name: programs(name) | models.functional(name),
    "torch": lambda name: pytorch(name) | models.imperative(name),
    "numpy": numpy,
}

IMPORTS = {
    "tfn": "import tfn, tfn.numpy as xp",
    "jax": "import jax, jax.numpy as xp",
    "torch": "import torch",
}
FIRST = {
    name: f"run = {name}.jit(lambda x: x + 1); run(xp.ones(8)).block_until_ready()"
    for name in ("tfn", "jax")
}
TRAIN = "step = run.CONTESTANTS['{0}']('{0}')['mlp_train'](run.ROWS['mlp_train'].inputs())"
COLD = {
    "import": "the import alone",
    "first_jit": "from the start of Python to the first jitted result",
    "first_mlp": "the first mlp_train: traced, lowered, compiled, run",
    "first_mlp_disk": "the same, when the disk has what was compiled",
}

Result = dict[str, dict[str, float]]
"""Of one row: for each contestant its seconds of CPU time, and those of its first run."""


def environment(**more: str) -> dict[str, str]:
    """One thread for everyone."""
    threads = dict.fromkeys(("TFN_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return {**os.environ, **threads, "XLA_FLAGS": flags, **more}


def serve(contestant: str) -> None:
    """Answer lines of JSON: prepare a row, or run it for so many seconds of CPU time."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not stand among the answers
    own = CONTESTANTS[contestant](contestant)
    step: Step = lambda: None
    print(json.dumps(list(own)), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "needs" in request:
                answer: Any = limits().needs(step)
            elif "row" in request:
                del step
                step = own[request["row"]](ROWS[request["row"]].inputs())
                began = time.process_time()
                results = leaves(step())
                answer = {"first_s": time.process_time() - began, "values": sample(results)}
                del results
                step()  # once more, so that no sample meets memory that was never touched
            else:
                answer = measure(step, request["seconds"])
        except Exception as error:
            step = lambda: None
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
        print(json.dumps(answer), file=answers, flush=True)


def limits() -> Any:
    """What knows the limits of the machine, by means of tfn."""
    return importlib.import_module("limits")


def sample(results: list[Any]) -> list[list[float]]:
    """A few numbers of each result."""
    flat = [np.asarray(x.detach() if hasattr(x, "detach") else x).reshape(-1) for x in results]
    return [[float(v) for v in x[:: max(1, x.size // 64)][:64]] for x in flat[:8]]


def measure(step: Step, seconds: float) -> float:
    """Seconds of CPU time for one run."""
    count = 1
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

    def __init__(
        self, name: str, script: str = __file__, environ: dict[str, str] | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, script, "--serve", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ or environment(),
        )
        self.rows = self.answer()

    def answer(self) -> Any:
        """What it says next, or why it says nothing."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the process has ended"}

    def ask(self, **request: Any) -> Any:
        """One request, one answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except OSError:
            return {"error": "the process has ended"}
        return self.answer()

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def race(
    row: str,
    contestants: dict[str, Contestant],
    seconds: float,
    repeats: int,
    say: Callable[[str], None],
) -> Result:
    """One row, by all who have it."""
    ready = {name: c.ask(row=row) for name, c in contestants.items() if row in c.rows}
    for name, answer in ready.items():
        if "error" in answer:
            say(f"{row}: {name}: {answer['error']}")
    names = [name for name, answer in ready.items() if "error" not in answer]
    for name in names[1:]:
        want, got = ready[names[0]]["values"], ready[name]["values"]
        if not alike(want, got):
            say(f"{row}: {name} computes something else than {names[0]}")
    samples: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repeats):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            samples[name].append(contestants[name].ask(seconds=seconds))
    return {
        name: {"cpu_s": statistics.median(samples[name]), "first_s": ready[name]["first_s"]}
        for name in names
    }


def alike(want: list[list[float]], got: list[list[float]]) -> bool:
    """Whether two contestants computed the same, up to rounding."""
    return len(want) == len(got) and all(
        len(x) == len(y) and np.allclose(x, y, rtol=2e-3, atol=2e-3 * max(1.0, np.abs(x).max()))
        for x, y in zip(want, got)
    )


def cold(names: list[str], repeats: int) -> Iterator[tuple[str, Result]]:
    """Seconds of CPU time of what happens once, in fresh processes."""
    found: dict[str, dict[str, list[float]]] = {row: {} for row in COLD}

    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])

    def spent(name: str, row: str, code: str, cache: str) -> None:
        clock = "import time; began = time.process_time()"
        result = subprocess.run(
            [sys.executable, "-c", f"{clock}\n{code}\nprint(time.process_time() - began)"],
            env=environment(TFN_CACHE_DIR=cache, PYTHONPATH=path),
            capture_output=True,
            text=True,
            check=True,
        )
        found[row].setdefault(name, []).append(float(result.stdout.split()[-1]))

    for _ in range(repeats):
        for name in (n for n in names if n in IMPORTS):
            with tempfile.TemporaryDirectory() as cache:
                spent(name, "import", IMPORTS[name], cache)
            with tempfile.TemporaryDirectory() as cache:
                if name in FIRST:
                    code = f"began = 0.0; {IMPORTS[name]}; {FIRST[name]}"
                    spent(name, "first_jit", code, cache)
                if name in FIRST:
                    train = f"import run; {TRAIN.format(name)}; began = time.process_time(); step()"
                    spent(name, "first_mlp", train, cache)
                    if name == "tfn":
                        spent(name, "first_mlp_disk", train, cache)
    for row, times in found.items():
        yield row, {name: {"cpu_s": statistics.median(s)} for name, s in times.items()}


def pretty(seconds: float) -> str:
    """A time with its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def ratio(result: Result) -> float | None:
    """tfn's time over that of the fastest peer."""
    peers = [r["cpu_s"] for name, r in result.items() if name != "tfn"]
    return result["tfn"]["cpu_s"] / min(peers) if peers and "tfn" in result else None


def table(record: dict[str, Any]) -> Table:
    """All rows, by group."""
    results, names, limit = record["rows"], record["contestants"], record.get("limits")
    made = Table(title=f"CPU time on one core of {record['machine']}")
    if limit:
        made.caption = limits().described(limit["machine"])
    made.add_column("")
    for name in names:
        made.add_column(name, justify="right")
    made.add_column("to the best", justify="right")
    if limit:
        made.add_column("of the machine", justify="right", min_width=13)
    made.add_column("what it is", style="dim", no_wrap=True)
    before = ""
    for row, result in results.items():
        group, about = (ROWS[row].group, ROWS[row].about) if row in ROWS else ("cold", COLD[row])
        if group != before and before:
            made.add_section()
        before, value = group, ratio(result)
        cells = [pretty(result[n]["cpu_s"]) if n in result else "" for n in names]
        cells += ["" if value is None else f"[{'green' if value <= 1 else 'red'}]{value:.2f}[/]"]
        if limit:
            needs = limit["rows"].get(row)
            mine = result["tfn"]["cpu_s"] if needs else 0.0
            cells.append(limits().share(limit["machine"], needs, mine))
        made.add_row(row, *cells, about)
    return made


def machine() -> str:
    """The processor, as it calls itself."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def chosen(only: str) -> list[str]:
    """Rows, by their names or by those of groups."""
    words = only.split(",")
    unknown = set(words) - ROWS.keys() - {row.group for row in ROWS.values()} - {"all", "cold"}
    if unknown:
        raise SystemExit(f"there is no row or group {', '.join(sorted(unknown))}")
    return [n for n, row in ROWS.items() if "all" in words or {n, row.group} & set(words)]


def raced(names: list[str], options: argparse.Namespace, screen: Console) -> dict[str, Any]:
    """The limits of the machine, the rows that were asked for, and the cold starts."""
    record: dict[str, Any] = {"machine": machine(), "contestants": names, "rows": {}}
    contestants: dict[str, Contestant] = {}
    rows = chosen(options.only)
    try:
        with screen.status("the machine") as status:
            if "tfn" in names and rows:
                record["limits"] = {
                    "machine": limits().measured(environment(), options.seconds / 20),
                    "rows": {},
                }
            contestants |= {name: Contestant(name) for name in names}
            for row in rows:
                status.update(row)
                record["rows"][row] = race(
                    row, contestants, options.seconds, options.repeats, screen.log
                )
                if "tfn" in record["rows"][row]:
                    record["limits"]["rows"][row] = contestants["tfn"].ask(needs=True)
    finally:
        for contestant in contestants.values():
            contestant.stop()
    if {"all", "cold"} & set(options.only.split(",")):
        record["rows"] |= cold(names, options.repeats)
    return record


def main() -> None:
    """Race, print the table, write the JSON and the chart."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="all", help="rows or groups, separated by commas")
    parser.add_argument("--contestants", default=",".join(CONTESTANTS))
    parser.add_argument("--seconds", type=float, default=0.3, help="of each sample")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="a file for the results")
    parser.add_argument("--chart", type=Path, help="a PNG for the ratios; needs matplotlib")
    parser.add_argument("--from", type=Path, dest="source", help="results that are there already")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    screen = Console(width=None if sys.stdout.isatty() else 140)
    names = [n for n in options.contestants.split(",") if importlib.util.find_spec(n)]
    if options.source:
        record = json.loads(options.source.read_text())
    else:
        record = raced(names, options, screen)
    screen.print(table(record))
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    if options.chart:
        importlib.import_module("chart").draw(
            {row: value for row, r in record["rows"].items() if (value := ratio(r))},
            record["machine"],
            options.chart,
        )


if __name__ == "__main__":
    main()
