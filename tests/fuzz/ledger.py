"""The ledger: one file that adds up the runs of the fuzzer, by the version of tfn that they ran.

    {"7c1e0a93": {"runs": {"1234": {"programs": 5000, "lines": 23000, "failures": [], ...}}}}

The version is a digest of tfn's sources, so a change of documentation makes no other one.  A run
is named by its seed, and writes itself anew every few seconds, under a lock: several may go on at
once, and one that is ended keeps what it had counted.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rich.table import Table

from tests.fuzz.batches import Report
from tests.fuzz.checks import CHECKS
from tests.fuzz.transforms import TRANSFORMS
from tests.fuzz.values import DTYPES

ROOT = Path(__file__).parents[2]
COUNTERS = ("counts", "checks", "totals", "seconds")
_BETWEEN = "\t"
"""Between a step and a column, in the names of cells."""

Runs = dict[str, Any]


@cache
def version() -> str:
    """A digest of the sources of tfn."""
    digest = blake2b(digest_size=4)
    for path in sorted((ROOT / "tfn").rglob("*")):
        if path.suffix in (".py", ".ll", ".c", ".h"):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@contextmanager
def _opened(path: Path) -> Iterator[dict[str, Any]]:
    """The content of a ledger, which is written back at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        content = json.loads(path.read_text()) if path.exists() else {}
        yield content
        new = path.with_suffix(".new")
        new.write_text(json.dumps(content))
        os.replace(new, path)


def write(path: Path, seed: int, report: Report, largest_bytes: int = 0) -> None:
    """Writes what a run has counted so far, in the place of what it wrote before."""
    entry: dict[str, Any] = {
        "programs": report.programs,
        "lines": report.lines,
        "largest_bytes": largest_bytes,
        "failures": [f"{failure.check}: {failure.message}" for failure in report.failures],
        "checks": dict(report.checks),
        "totals": dict(report.totals),
        "seconds": dict(report.seconds),
        "counts": {_BETWEEN.join(cell): n for cell, n in report.counts.items()},
    }
    with _opened(path) as content:
        content.setdefault(version(), {"runs": {}})["runs"][str(seed)] = entry


def _runs(path: Path, of: str) -> Runs:
    runs: Runs = json.loads(path.read_text()).get(of, {"runs": {}})["runs"]
    return runs


def check_fresh(path: Path, seed: int) -> None:
    """Refuses a seed whose programs the ledger has counted for this version."""
    if path.exists() and str(seed) in _runs(path, version()):
        raise SystemExit(f"{path} has counted the programs of seed {seed}: take another seed")


def read(path: Path, of: str) -> tuple[Report, int, list[str], int]:
    """All runs of a version: counts, the number of runs, failures, and the largest memory."""
    runs = _runs(path, of)
    total, failures, largest = Report(), [], 0
    for run in runs.values():
        counts = {tuple(cell.split(_BETWEEN)): n for cell, n in run["counts"].items()}
        total.add(
            Report(
                run["programs"],
                run["lines"],
                Counter(counts),  # type: ignore[arg-type]
                *(Counter(run[name]) for name in COUNTERS[1:]),
            )
        )
        failures += run["failures"]
        largest = max(largest, run["largest_bytes"])
    return total, len(runs), failures, largest


def versions(path: Path) -> list[str]:
    """The versions that a ledger has runs of."""
    return list(json.loads(path.read_text()))


def tables(report: Report) -> list[Table]:
    """Programs by dtype, by transform inside the program, and by check of the whole program."""
    rows = {
        "programs with a dtype": {name: report.totals[name] for name in DTYPES},
        "programs with a transform": {name: report.totals[name] for name in TRANSFORMS},
        "programs by check": {name: report.checks[name] for name in CHECKS},
    }
    grids = []
    for title, counts in rows.items():
        grid = Table(title=title, show_header=False)
        for name, n in counts.items():
            grid.add_row(name, f"{n:,}")
        grids.append(grid)
    return grids
