"""Programs written for JAX by others, run on JAX and on tfn; what they print and leave is compared.

    python benchmarks/programs.py --sources FOLDER --side jax --out results
    python benchmarks/programs.py --sources FOLDER --side tfn --out results
    python benchmarks/programs.py --sources FOLDER --side spread --out results
    python benchmarks/programs.py --out results --table
    python benchmarks/programs.py --sources FOLDER --side tfn --out results --published
    python benchmarks/programs.py --sources FOLDER --draw courses --out results --jobs 2

`programs.json` lists the repositories in order, and the programs drawn from them by commit, path
and SHA-256; their text is not here. FOLDER has a clone of each repository, under `owner+name`; one
that is not there is left out. A program is run as it is, by `program_run.py`, in a fresh copy of
its repository and without a display.

How they were drawn: repositories come from a search of public repositories by name, in the order of
the answer; `courses` are names that contain jax-tutorial, jax_tutorial, jax-example, learn-jax,
learning-jax, jax-intro, intro-to-jax, jax-demo, jax-playground, jax-experiments, where jax is a
word; `papers` are names that contain -in-jax, with-jax, numpyro, diffrax. In a repository the files
.py and .ipynb of the newest commit are ordered by the SHA-256 of their path. Asked are those that
import jax, or a library on it, and otherwise only what is installed or lies beside them, and that
do something when they are run. At most six are tried of a repository, and at most two count: those
that end well within 15 seconds of processors on JAX, on a CPU and without a network, and print a
number or leave an array. Copies of a file, and in `papers` repositories of the same name, are left
out. All `courses` that could be had were asked, and as many `papers` as 100 programs took.

A number is JAX's if it differs by at most 1e-3 of itself, in an array of the largest, or one unit
of the last decimal that is printed, or, with the results of `--side spread`, ten times as far as
JAX is from JAX with fewer optimizations (`JAX_DISABLE_MOST_OPTIMIZATIONS`): so sensitive are
programs that train for long. Lines and names that tell of time are left out, and lines that print a
trace, a jaxpr or a device, which tfn writes in its own way: after the first results had been seen,
the rule was loosened by these names and lines, and by comparing numbers in order where a line
breaks elsewhere. Since one program shuffles by PyTorch, unseeded, its generator has a seed too.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from program_run import cells_of
from published import PUBLISHED

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(os.environ.get("PROGRAMS_LIST", Path(__file__).with_name("programs.json")))

DRAWN_SECONDS = 15
"""Seconds of processors in which a program ends on JAX when it is drawn."""
MOST_SECONDS = 90
"""Those after which a drawn program is stopped: the first run on tfn compiles every kernel."""
WAIT_SECONDS = 600
"""Seconds after which a program that waits for something is stopped."""
PROGRAMS = 100
"""Programs that are drawn in all."""
MOST_TRIED, MOST_COUNTED = 6, 2
"""Programs of one repository: no author's style may decide."""
RELATIVE = 1e-3
"""Part of the largest number that float32 may be off after hundreds of steps."""
NOISE = 1e-6
"""Part of the largest number of a line that all may be off: what rounding leaves of zeros."""
SPREAD = 10.0
"""Times the distance of JAX from itself, of which one sample is known."""

INTERNALS = re.compile(
    r"Tracer|\bTraced<|CpuDevice|\bcpu:\d|\{ ?lambda|^\s*let\b|\bin \(.*\) ?\}"
    r"|^\s*[a-z_]+:[a-z]+\d*\[[\d,]*\].* = |^\s+[a-z_]+="
)
"""Lines that show a trace, an equation of a jaxpr, or a device."""

OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "UV_OFFLINE": "1"}
"""Environment of a program: one that installs packages would change those of all others."""

CHANGES = ("edits", "stand_ins", "after", "part", "steps")
"""What `published.py` says of a program, and `program_run.py` does."""

LIBRARIES = {
    *("jax", "flax", "equinox", "optax", "haiku", "numpyro", "diffrax", "blackjax", "jaxopt"),
    *("lineax", "optimistix", "chex", "jraph", "einops", "distrax"),
}
PLACES = re.compile(r"/\S*/site-packages/|(?<=')/(?:root|home/\w+)(?=/)")
"""Folders of one machine in the messages of errors."""
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)(?![\w])")
TIMES = re.compile(
    r"\b(time[sd]?|timing|took|elapsed|seconds?|secs?|ms|us|µs|it/s|s/it|speed-?up|faster|slower"
    r"|duration|runtime|compil\w*|throughput|fps|sps|date|0x[0-9a-f]+)\b|\d ?(s|ms|µs|us|ns)\b",
    re.IGNORECASE,
)


def repository(sources: Path, name: str) -> Path:
    """The git directory of a repository in the folder of clones."""
    folder = sources / name.replace("/", "+")
    for place in (folder / ".git", folder / "repo" / ".git", folder / "repo", folder):
        if (place / "HEAD").exists():
            return place
    raise FileNotFoundError(f"{name} is not in {sources}")


def git(directory: Path, *arguments: str) -> bytes:
    """The output of git."""
    command = ["git", "--git-dir", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout


def checkout(directory: Path, commit: str, folder: Path) -> None:
    """Copies the files of a commit; those that the clone lacks are left out."""
    names = git(directory, "ls-tree", "-r", "-z", commit).split(b"\0")
    entries = [entry.partition(b"\t") for entry in names if entry.split(b" ")[:2][1:] == [b"blob"]]
    wanted = b"\n".join(entry.split(b" ")[2] for entry, _, _ in entries) + b"\n"
    command = ["git", "--git-dir", str(directory), "cat-file", "--batch"]
    text = subprocess.run(command, input=wanted, capture_output=True, check=True).stdout
    at = 0
    for _, _, name in entries:
        end = text.index(b"\n", at)
        *_, size = text[at:end].split(b" ")
        at = end + 1
        if size == b"missing":
            continue
        place = folder / os.fsdecode(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text[at : at + int(size)])
        at += int(size) + 1


def does_something(path: Path, root: Path) -> bool:
    """Whether a file imports JAX, finds what it imports, and is more than definitions."""
    try:
        tree = ast.parse("\n".join(text for text, _ in cells_of(path)))
    except (SyntaxError, ValueError, KeyError, OSError):
        return False
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add("." if node.level else (node.module or "").partition(".")[0])
    acts = path.suffix == ".ipynb" or any(
        isinstance(node, ast.For | ast.While | ast.With | ast.If)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
        for node in tree.body
    )
    return bool(modules & LIBRARIES) and acts and all(found(m, path, root) for m in modules)


def found(module: str, path: Path, root: Path) -> bool:
    """Whether a module is installed, or lies in the program's folder or that of its repository.

    JAX is there: one of the sides needs it.
    """
    if module in sys.stdlib_module_names or module == "jax":
        return True
    beside = ((folder / module, folder / f"{module}.py") for folder in (path.parent, root))
    if any(place.exists() for places in beside for place in places):
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except (ValueError, ModuleNotFoundError):
        return False


NO_PROGRAMS = re.compile(r"(^|/)(tests?/|test_|conftest|setup\.py|\.)|_test\.py$")


def candidates(directory: Path, commit: str) -> list[str]:
    """The paths of a repository that may be programs, in the order in which they are tried."""
    names = git(directory, "ls-tree", "-r", "-z", "--name-only", commit).decode().split("\0")
    files = [
        name for name in names if name.endswith((".py", ".ipynb")) and not NO_PROGRAMS.search(name)
    ]
    return sorted(files, key=lambda name: hashlib.sha256(name.encode()).hexdigest())


def run(side: str, sources: Path, row: dict[str, str], out: Path, seconds: int) -> dict[str, Any]:
    """Runs a program on one side, and keeps what it prints and leaves.

    Args:
        side: `jax`, `tfn`, or `spread`, which is JAX with fewer optimizations.
        sources: the folder of clones.
        row: the row of the list.
        out: the folder for results.
        seconds: those of processors after which it is stopped.

    Returns:
        How it ended, after how many seconds.
    """
    place = out / side / name_of(row)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    more = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"} if side == "spread" else {}
    environment = os.environ | {"PYTHONHASHSEED": "0", "JAX_PLATFORMS": "cpu", **more}
    environment |= {"PYTHONPATH": str(ROOT), **OFFLINE}
    with tempfile.TemporaryDirectory() as folder:
        checkout(repository(sources, row["repository"]), row["commit"], Path(folder))
        runner = str(ROOT / "benchmarks" / "program_run.py")
        program = str(Path(folder) / row["path"])
        which = "tfn" if side == "tfn" else "jax"
        changes = json.dumps({key: row[key] for key in CHANGES if key in row})
        limit = ["prlimit", f"--cpu={seconds}"]
        begin = time.monotonic()
        with (place / "stdout").open("wb") as stdout, (place / "stderr").open("wb") as stderr:
            try:
                code = subprocess.run(
                    [*limit, sys.executable, runner, which, program, folder, str(place), changes],
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    env=environment,
                    timeout=WAIT_SECONDS,
                    check=False,
                ).returncode
                ended = "well" if code == 0 else f"with {code}"
                if code in (-signal.SIGXCPU, -signal.SIGKILL):
                    ended = f"stopped after {seconds} s"
            except subprocess.TimeoutExpired:
                ended = f"waited for {WAIT_SECONDS} s"
        taken = round(time.monotonic() - begin, 1)
    if ended == "well" and not (place / "arrays.npz").exists():
        ended = "before its end"
    error = "" if ended == "well" else tail(place)
    jax = metadata.version("jax") if importlib.util.find_spec("jax") else ""  # tfn needs none
    result = {"ended": ended, "seconds": taken, "jax": jax, "error": error}
    (place / "result.json").write_text(json.dumps(result))
    return result


def name_of(row: dict[str, str]) -> str:
    """The name of a program's results."""
    return f"{row['repository']}/{row['path']}".replace("/", "+")


def tail(place: Path) -> str:
    """The last lines that a program wrote before it failed."""
    return (place / "stderr").read_text(errors="replace")[-1500:]


def lines_of(place: Path) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Each line that was printed: its words, its numbers, and how far each may be off."""
    text = (place / "stdout").read_text(errors="replace").replace("\r", "\n")
    text = re.sub(r"\n\s+dtype=", " dtype=", text)  # the end of an array, on a line of its own
    lines = []
    for line in text.splitlines():
        if not line.strip() or TIMES.search(line) or INTERNALS.search(line):
            continue
        texts = NUMBER.findall(line)
        words = re.sub(r"[\s\[\]()]+", "", NUMBER.sub("#", line))
        numbers = np.asarray([float(text) for text in texts])
        sizes = np.where(np.isfinite(numbers), abs(numbers), 0)
        noise = NOISE * sizes.max(initial=0)
        units = np.asarray([unit_of(text) for text in texts])
        lines.append((words, numbers, np.maximum(np.maximum(RELATIVE * sizes, units), noise)))
    return lines


def arrays_in(place: Path) -> dict[str, np.ndarray]:
    """The arrays that a program left, by name."""
    with np.load(place / "arrays.npz") as file:
        return dict(file)


def unit_of(number: str) -> float:
    """One in the last decimal of a number; 0 if it has none."""
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 1.01 * 10.0 ** (int(exponent or 0) - decimals) if decimals else 0.0


def off(x: float, y: float, allowed: float) -> float:
    """The distance of two printed numbers, in parts of the one that is allowed."""
    if x == y or (x != x and y != y):
        return 0.0
    return abs(x - y) / allowed if np.isfinite(x - y) and allowed else float("inf")


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, in parts of the largest number; infinite where only one is finite."""
    if a.size == 0:
        return 0.0
    a, b = a.astype(np.complex128), b.astype(np.complex128)
    good = np.isfinite(a)
    if (good != np.isfinite(b)).any() or ((np.isnan(a) != np.isnan(b)).any()):
        return float("inf")
    if (a[~good & ~np.isnan(a)] != b[~good & ~np.isnan(a)]).any():
        return float("inf")
    if not good.any():
        return 0.0
    return float(abs(a - b)[good].max() / max(abs(a[good]).max(), 1e-8))


def differences(jax: Path, other: Path) -> dict[str, tuple[float, float]]:
    """Of each array and printed line the distance, and that which is allowed."""
    found: dict[str, tuple[float, float]] = {}
    one, two = arrays_in(jax), arrays_in(other)
    for name in one:
        if TIMES.search(name.replace("_", " ")):
            continue
        if name not in two or one[name].shape != two[name].shape:
            found[name] = float("inf"), RELATIVE
        elif one[name].dtype != two[name].dtype:
            found[f"dtype of {name}"] = float("inf"), RELATIVE
        else:
            found[name] = distance(one[name], two[name]), RELATIVE
    a, b = lines_of(jax), lines_of(other)
    if sum(len(numbers) for _, numbers, _ in a) != sum(len(numbers) for _, numbers, _ in b):
        matcher = difflib.SequenceMatcher(None, [w for w, *_ in a], [w for w, *_ in b], False)
        pairs = [
            (i + n, j + n) for i, j, size in matcher.get_matching_blocks() for n in range(size)
        ]
        matched = {i for i, _ in pairs}
        for i, (words, numbers, _) in enumerate(a):
            if i not in matched and numbers.size:
                found[f"line {i}: {words[:60]}"] = float("inf"), RELATIVE
    else:  # the same numbers in lines that may be broken elsewhere
        numbers = [np.concatenate([n for _, n, _ in rows] or [np.zeros(0)]) for rows in (a, b)]
        ends = np.cumsum([len(n) for _, n, _ in a])
        b = [("", part, part) for part in np.split(numbers[1], ends)]
        pairs = [(i, i) for i in range(len(a))]
    for i, j in pairs:
        words, one_line, allowed = a[i]
        far = float("inf")
        if one_line.size == b[j][1].size:
            far = max((off(x, y, by) for x, y, by in zip(one_line, b[j][1], allowed)), default=0.0)
        if one_line.size:
            found[f"line {i}: {words[:60]}"] = far, 1.0
    return found


def judged(out: Path, row: dict[str, str]) -> dict[str, Any]:
    """How a program ended on tfn, with what differs from JAX by more than is allowed."""
    jax, tfn, spread = (out / side / name_of(row) for side in ("jax", "tfn", "spread"))
    if not (tfn / "result.json").exists():
        return {"verdict": "not run", "why": ""}
    result = json.loads((tfn / "result.json").read_text())
    taken = [json.loads((side / "result.json").read_text())["seconds"] for side in (jax, tfn)]
    if result["ended"] != "well":
        last = result["error"].strip().splitlines()
        return {"verdict": result["ended"], "seconds": taken, "why": " ".join(last[-1:])}
    found = differences(jax, tfn)
    worse = {name: pair for name, pair in found.items() if pair[0] > pair[1]}
    own: dict[str, tuple[float, float]] = {}
    if worse and (spread / "arrays.npz").exists():
        own = differences(jax, spread)
        worse = {
            name: pair
            for name, pair in worse.items()
            if not pair[0] <= SPREAD * own.get(name, (0.0, 0.0))[0]
        }
    verdict = "differs" if worse else "same"
    steps = [side / "step_seconds" for side in (jax, tfn)]
    if steps[0].exists():
        taken = [float(file.read_text()) for file in steps]
    return {
        "verdict": verdict,
        "seconds": taken,
        "compared": len(found),
        "sensitive": int(sum(pair[0] > pair[1] for pair in found.values())) - len(worse),
        "why": sorted(worse.items(), key=lambda item: -item[1][0])[:8],
    }


def draw(sources: Path, kind: str, names: list[str], out: Path, jobs: int, end: float) -> None:
    """Adds programs of repositories to the list, those of several repositories at a time.

    Args:
        sources: the folder of clones.
        kind: the kind that rows get.
        names: repositories, in order.
        out: the folder for results.
        jobs: how many programs run at a time.
        end: the time after which no program begins.
    """
    record = json.loads(LIST.read_text())
    tried = {(row["repository"], row["path"]) for row in record["tried"]}
    lock = threading.Lock()

    def draw_from(name: str) -> None:
        counted = sum(row["repository"] == name for row in record["programs"])
        try:
            directory = repository(sources, name)
        except FileNotFoundError:
            print(f"{name}: no clone")
            return
        commit = git(directory, "rev-parse", "HEAD").decode().strip()
        with tempfile.TemporaryDirectory() as folder:
            checkout(directory, commit, Path(folder))
            programs = [
                path
                for path in candidates(directory, commit)
                if does_something(Path(folder) / path, Path(folder))
            ]
        for path in programs[:MOST_TRIED]:
            enough = len(record["programs"]) >= PROGRAMS or counted == MOST_COUNTED
            if time.monotonic() > end or enough:
                return
            row = {"kind": kind, "repository": name, "path": path, "commit": commit}
            text = git(directory, "show", f"{commit}:{path}")
            row["sha256"] = hashlib.sha256(text).hexdigest()
            if (name, path) in tried or row["sha256"] in {r["sha256"] for r in record["programs"]}:
                continue
            result = run("jax", sources, row, out, DRAWN_SECONDS)
            good = result["ended"] == "well" and has_numbers(out / "jax" / name_of(row))
            why = "" if good else (result["error"].strip().splitlines() or ["no numbers"])[-1]
            why = PLACES.sub("", why)
            print(f"{name} {path}: {result['ended']} {result['seconds']} {why[:150]}", flush=True)
            counted += good
            with lock:
                record["programs"] += [row] * good
                record["tried"].append({"repository": name, "path": path, "why": why[:200]})
                LIST.write_text(json.dumps(record, indent=1) + "\n")
            if good:
                run("tfn", sources, row, out, MOST_SECONDS)
                print(f"{name_of(row)}: {json.dumps(judged(out, row))[:600]}", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(draw_from, names))


def has_numbers(place: Path) -> bool:
    """Whether a run printed a number or left one."""
    return bool(arrays_in(place)) or any(numbers.size for _, numbers, _ in lines_of(place))


def table(rows: list[dict[str, Any]], out: Path) -> str:
    """How each program ended, as a table, and how many did so."""
    lines = ["| program | on tfn | seconds on JAX, tfn | note |", "| --- | --- | --- | --- |"]
    counts: Counter[str] = Counter()
    for row in rows:
        said = judged(out, row)
        counts[said["verdict"]] += 1
        taken = ", ".join(f"{number:.3g}" for number in said.get("seconds", ()))
        note = row.get("note") or (said["why"] if said["verdict"] != "same" else "")
        name = f"{row['repository']} `{row['path']}`"
        lines.append(f"| {name} | {said['verdict']} | {taken} | {str(note)[:300]} |")
    return "\n".join([*lines, "", str(dict(counts))])


def main() -> None:
    """Draws programs, runs them, or prints how they ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=Path, help="the folder with clones of repositories")
    parser.add_argument("--side", choices=("jax", "tfn", "spread"))
    parser.add_argument("--out", type=Path, required=True, help="the folder for results")
    parser.add_argument("--only", default="", help="run the programs whose name has this text")
    parser.add_argument("--again", action="store_true", help="run those too that have a result")
    parser.add_argument("--failed", action="store_true", help="run those that are not the same")
    parser.add_argument("--published", action="store_true", help="run the rows of published.py")
    parser.add_argument("--draw", metavar="KIND", help="add programs of the repositories of a kind")
    parser.add_argument("--jobs", type=int, default=1, help="programs that run at a time")
    parser.add_argument("--total", type=int, default=86400, help="seconds after which none begins")
    parser.add_argument("--table", action="store_true", help="print how each program ended")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.total
    if arguments.draw:
        names = json.loads(LIST.read_text())["repositories"][arguments.draw]
        draw(arguments.sources, arguments.draw, names, arguments.out, arguments.jobs, end)
        return
    rows = (
        [{"commit": "HEAD"} | row for row in PUBLISHED]
        if arguments.published
        else json.loads(LIST.read_text())["programs"]
    )
    rows = [row for row in rows if arguments.only in name_of(row)]

    def run_row(row: dict[str, Any]) -> None:
        done = (arguments.out / arguments.side / name_of(row) / "result.json").exists()
        wanted = not done or arguments.again
        if arguments.failed:
            wanted = judged(arguments.out, row)["verdict"] != "same"
        if arguments.side == "spread":
            wanted = wanted and judged(arguments.out, row)["verdict"] == "differs"
        if wanted and time.monotonic() < end:
            where = arguments.sources, row, arguments.out
            result = run(arguments.side, *where, MOST_SECONDS)
            said = judged(arguments.out, row) if arguments.side == "tfn" else result
            print(f"{name_of(row)}: {json.dumps(said)[:400]}", flush=True)

    if arguments.side:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(run_row, rows))
    if arguments.table:
        print(table(rows, arguments.out))


if __name__ == "__main__":
    main()
