"""The test suites of libraries written for JAX, run on tfn and on JAX.

    python benchmarks/libraries.py --suite equinox=/path/of/equinox/tests --side tfn
    python benchmarks/libraries.py --suite equinox=/path/of/equinox/tests --side jax --out jax.json
    python benchmarks/libraries.py --compare jax.json tfn.json
    python benchmarks/libraries.py --suite diffrax=... --every 4 --out jax.json --side jax
    python benchmarks/libraries.py --suite diffrax=... --like jax.json --out tfn.json --resume

A suite is run by the library's own pytest configuration, in a process for each file, or with
`--together` in one for all, from the folder above the tests; with ``--side tfn`` this process calls
``install_as_jax()`` first. Each result is recorded by the name of the test. `--compare` counts, of
the tests that pass on JAX, those that pass on tfn. With `--resume` the tests whose results `--out`
has are not run again, so that a long suite is run in pieces: a file that is stopped goes on with
the test after the one that it was stopped in, or with that one, if it began late in its piece.
`--every` takes a sample of a suite, by a hash of the names; `--like` the tests that passed in
another run. Suites are not part of this repository: take them at a tag of the library's own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

CHILD = """
import json, signal, sys, time, zlib
out, side, choice, seconds, *arguments = sys.argv[1:]
known, wanted, every = json.load(open(choice))
known = set(known)
if side == "tfn":
    from tfn.compat import install_as_jax
    install_as_jax()
import pytest

def write(row):
    with open(out, "a") as file:
        file.write(json.dumps(row) + "\\n")

def chosen(name):
    asked = zlib.crc32(name.encode()) % every == 0 if wanted is None else name in wanted
    return asked and name not in known

def stop(signum, frame):
    raise TimeoutError(f"the test took {seconds} s of processor time")

signal.signal(signal.SIGPROF, stop)

class Record:
    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        signal.setitimer(signal.ITIMER_PROF, float(seconds))
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_collection_modifyitems(self, config, items):
        items[:] = [item for item in items if chosen(item.nodeid)]

    def pytest_runtest_logstart(self, nodeid, location):
        write([nodeid, "stopped", time.time(), "the file was stopped in this test"])

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            text = str(report.longrepr)[-4000:] if report.failed else ""
            write([report.nodeid, report.outcome, report.duration, text])

    def pytest_collectreport(self, report):
        if report.failed:
            write([report.nodeid, "failed", 0.0, str(report.longrepr)[-4000:]])

sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *arguments], plugins=[Record()]))
"""


LEAST_SECONDS = 20
"""Time below which no file is begun: importing a library takes up to ten seconds."""


LATE_SHARE = 0.7
"""Part of the time of a piece: a test that had less of it when it was stopped is run again."""


def files_of(tests: Path) -> list[Path]:
    """The files with tests, by pytest's names."""
    if tests.is_file():
        return [tests]
    return sorted({*tests.rglob("test_*.py"), *tests.rglob("*_test.py")})


def run_files(
    files: list[str], arguments: argparse.Namespace, root: Path, known: list[str]
) -> dict[str, tuple[str, float, str]]:
    """The outcome, duration and error of each test of files; a process that ends early says so.

    Args:
        files: the files with tests, from `root`.
        arguments: those of the command line.
        root: the folder to run in.
        known: the names of tests that are left out.
    """
    wanted, seconds = None, min(arguments.seconds, arguments.end - time.monotonic())
    if arguments.like:
        before = json.loads(arguments.like.read_text())["results"]
        wanted = [test for test, row in before.items() if row[0] == "passed"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.jsonl"
        choice = Path(folder) / "choice.json"
        choice.write_text(json.dumps([known, wanted, arguments.every]))
        which = [str(out), arguments.side, str(choice), str(arguments.test_seconds), *files]
        which += ["--continue-on-collection-errors", *arguments.pytest]
        command = [sys.executable, "-c", CHILD, *which]
        begin, cut = time.monotonic(), False
        try:
            done = subprocess.run(
                command, cwd=root, capture_output=True, text=True, timeout=seconds, check=False
            )
            ended = "" if done.returncode in (0, 1, 5) else (done.stdout + done.stderr)[-4000:]
        except subprocess.TimeoutExpired:
            cut, ended = True, f"stopped after {seconds:.0f} s"
        rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    results = {name: (outcome, taken, text) for name, outcome, taken, text in rows}
    if ended:
        results[f"{files[0]}::end"] = "failed", time.monotonic() - begin, ended
        last, (outcome, started, _) = list(results.items())[-2] if rows else ("", ("", 0.0, ""))
        if cut and outcome == "stopped" and time.time() - started < LATE_SHARE * seconds:
            del results[last]  # it runs again with --resume
    return {
        name: (row[0], 0.0, row[2]) if row[0] == "stopped" else row for name, row in results.items()
    }


def version(package: str) -> str:
    """The version of a package; empty if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def run_suite(name: str, tests: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """The results of a library's suite, with versions."""
    results: dict[str, tuple[str, float, str]] = {}
    if arguments.resume and arguments.out.exists():
        results = json.loads(arguments.out.read_text())["results"]
    root = arguments.root or tests.parent
    places = [str(f.relative_to(root)) for f in files_of(tests) if arguments.only in str(f)]
    for files in [places] if arguments.together else [[place] for place in places]:
        if arguments.end - time.monotonic() < LEAST_SECONDS:
            break
        place = files[0]
        known = [row for row in results if row.partition("::")[0] in files]
        if f"{place}::done" in known:
            continue
        results.pop(f"{place}::end", None)
        found = run_files(files, arguments, root, known)
        results |= found
        if f"{place}::end" not in found:
            results[f"{place}::done"] = "done", 0.0, ""
        counts = Counter(outcome for outcome, *_ in found.values())
        print(f"{name} {place}: {dict(counts)}", flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(record(name, arguments.side, results)))
    return record(name, arguments.side, results)


def record(name: str, side: str, results: dict[str, tuple[str, float, str]]) -> dict[str, Any]:
    """Results with the versions that they are of."""
    versions = {"version": version(name), "jax": version("jax")}
    return {"library": name, "side": side, **versions, "results": results}


def compare(jax: dict[str, Any], tfn: dict[str, Any]) -> str:
    """The row of a table: of the tests that pass on JAX, those that pass on tfn."""
    good = [name for name, row in jax["results"].items() if row[0] == "passed"]
    both = sum(tfn["results"].get(name, ("absent",))[0] == "passed" for name in good)
    share = 100 * both / max(len(good), 1)
    return f"| {jax['library']} | {jax['version']} | {len(good)} | {both} | {share:.1f} % |"


def main() -> None:
    """Run suites, or compare two runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--side", choices=("tfn", "jax"), default="tfn")
    parser.add_argument("--only", default="", help="run the files whose path has this text")
    parser.add_argument("--root", type=Path, help="the folder to run in: that above the tests")
    parser.add_argument("--seconds", type=int, default=1200, help="the most time for a file")
    parser.add_argument("--together", action="store_true", help="run all files in one process")
    parser.add_argument(
        "--test-seconds", type=int, default=0, help="the most processor time for a test"
    )
    parser.add_argument("--every", type=int, default=1, help="run one test in so many")
    parser.add_argument("--like", type=Path, help="run the tests that passed in these results")
    parser.add_argument("--resume", action="store_true", help="go on from the results of --out")
    parser.add_argument("--out", type=Path, help="the file to write results to")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("JAX", "TFN"))
    parser.add_argument("--total", type=int, default=86400, help="the most time for all files")
    arguments, arguments.pytest = parser.parse_known_args()
    arguments.end = time.monotonic() + arguments.total
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if arguments.compare:
        print("| library | version | pass on jax | of those, on tfn | share |")
        print("|---|---|---|---|---|")
        print(compare(*(json.loads(path.read_text()) for path in arguments.compare)))
        return
    for suite in arguments.suite:
        name, _, folder = suite.partition("=")
        run = run_suite(name, Path(folder).resolve(), arguments)
        counts = Counter(row[0] for row in run["results"].values())
        print(f"{name} {run['version']} on {arguments.side}: {dict(counts)}")


if __name__ == "__main__":
    main()
