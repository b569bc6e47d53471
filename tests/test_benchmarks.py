"""The race runs beside NumPy, agrees with it, and has every row; kernels are searched."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import tfn
from tests.covering import in_turn
from tests.hw.opencl.devices import needs_opencl, quick
from tfn.config import config
from tfn.hw.cuda import driver

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"


def run(*options: str, script: str = "run.py", **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / script), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | more)


def test_rows_are_run_compared_and_written(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    rows = ["disp_tiny", "eager20", "mm256", "hess_rosen50"]
    options = ("--only", ",".join(rows), "--seconds", "0.001", "--repeats", "2")
    done = run(*options, "--contestants", "tfn,numpy", "--json", str(path))
    assert done.returncode == 0, done.stderr
    assert "something else" not in done.stdout and "Error" not in done.stdout
    record = json.loads(path.read_text())
    found, limits = record["rows"], record["limits"]
    assert list(found) == rows
    assert limits["rows"]["mm256"]["flops"] == 2 * 256**3
    assert limits["rows"]["mm256"]["bytes_in"] == 2 * 4 * 256**2
    assert limits["rows"]["eager20"] is None
    assert limits["machine"]["peaks"]["float32"] > limits["machine"]["peaks"]["float64"] > 1e8
    assert all(min(speeds) > 1e8 for speeds in limits["machine"]["bandwidths"].values())
    again = run("--from", str(path))
    assert "of the machine" in again.stdout and "% FMA" in again.stdout
    assert all(result["tfn"]["cpu_s"] > 0 for result in found.values())
    assert "numpy" in found["eager20"] and "numpy" not in found["hess_rosen50"]


def test_unknown_rows_are_named() -> None:
    done = run("--only", "mm512,mm3")
    assert done.returncode != 0 and "mm3" in done.stderr


def test_every_row_has_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    from run import CONTESTANTS, ROWS

    assert CONTESTANTS["tfn"]("tfn").keys() == ROWS.keys()


MACHINE = {
    "peaks": {"float32": 100.0},
    "sizes": [10, 1000],
    "bandwidths": {"read": [40.0, 10.0], "write": [20.0, 5.0], "copy": [30.0, 8.0]},
}


@pytest.mark.parametrize(
    ("flops", "taken", "given", "said"),
    [
        (500, 0, 4, "50% FMA"),  # in no cache that was measured
        (500, 400, 20, "108% bandwidth"),  # the small cache: 40 copied, 380 read
        (500, 8000, 400, "8600% bandwidth"),
        (0, 16, 64, "35% bandwidth"),  # 32 copied, 48 written
        (9, 0, 0, ""),
    ],
)
def test_the_nearest_limit_counts(
    flops: float, taken: float, given: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    from limits import share

    row = {"dtype": "float32", "flops": flops, "bytes_in": taken, "bytes_out": given}
    assert share(MACHINE, row, 10.0) == said


def test_rows_without_a_limit_show_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    from limits import share

    assert share(MACHINE, None, 1.0) == share(MACHINE, {"error": "it failed"}, 1.0) == ""


def test_kernels_are_searched_and_nothing_is_kept(tmp_path: Path) -> None:
    path, cache = tmp_path / "found.json", tmp_path / "cache"
    options = ("--only", "pool_sum", "--seconds", "0.3", "--quiet", "--json", str(path))
    done = run(*options, script="kernels.py", TFN_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())["kernels"]["pool_sum"]
    assert 0 < found["after_ns"] <= found["before_ns"] and found["tried"] > 0
    assert "pool_sum" in done.stdout and not (cache / "plans").exists()


def test_cases_are_swept_compared_and_resumed(tmp_path: Path) -> None:
    path = tmp_path / "sweep.json"
    options = ("--only", "ising,reductions/3,pairs/0", "--peers", "numpy", "--record", str(path))
    done = run(*options, "--seconds", "0.001", script="sweep.py")
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())["cases"]
    assert found.keys() == {"ising/0", "reductions/3", "pairs/0"}
    for case in found.values():
        assert not case["errors"] and not case["differs"]
        assert case["cores_1"].keys() == {"tfn", "numpy"}
        assert case["costs"]["launches"] > 0
    again = run(*options, "--seconds", "0.001", script="sweep.py")
    assert "the worst" in again.stdout and json.loads(path.read_text())["cases"] == found
    assert "there is no" in run("--only", "magic", script="sweep.py").stderr
    two = run(*options, "--only", "ising", "--cores", "2", "--seconds", "0.001", script="sweep.py")
    assert two.returncode == 0, two.stderr
    times = json.loads(path.read_text())["cases"]["ising/0"]["cores_2"]
    assert times.keys() == {"tfn", "tfn, one thread", "numpy"}


def test_unknown_kernels_are_named() -> None:
    done = run("--only", "softmax,mm3", script="kernels.py")
    assert done.returncode != 0 and "mm3" in done.stderr and "softmax" not in done.stderr


def test_a_kernel_that_fails_is_a_row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    from kernels import table, tuned

    failed = tuned("there is no such kernel", 0.1)
    assert "KeyError" in failed["error"]
    text = io.StringIO()
    found = {"mm256": failed, "mm512": {"error": "[1, 2]"}}
    Console(file=text, width=120).print(table(found, "title"))
    assert "KeyError" in text.getvalue() and "[1, 2]" in text.getvalue()


def test_steps_keep_nothing() -> None:
    done = run("--only", "grad,vmap", "--steps", "300", script="leaks.py")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == ["grad", "vmap"] and all(row[2] == "0" for row in rows)


def test_a_step_that_keeps_an_array_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import leaks

    kept: list[object] = []
    leaky = lambda: lambda i: kept.append(leaks.matrix() + 1)
    monkeypatch.setitem(leaks.KINDS, "leaky", leaky)
    monkeypatch.setattr(leaks, "WARM_STEPS", 5)
    found = leaks.measure("leaky", 20)
    assert found["array_bytes"] == pytest.approx(4 * leaks.SIDE**2, rel=1e-3)


def test_unknown_kinds_of_steps_are_named() -> None:
    done = run("--only", "grad,love", script="leaks.py")
    assert done.returncode != 0 and "love" in done.stderr


def test_a_soak_does_all_its_rounds_again_to_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import soak

    monkeypatch.setattr(soak, "TRAINING_STEPS", 5)
    monkeypatch.setattr(soak, "REQUESTS", 32)
    with ThreadPoolExecutor(2) as pool:
        work = soak.Work(tmp_path, pool)
        first, second = dict(work.round()), dict(work.round())
    assert first == second and len(first) == 7
    assert first["errors"].startswith("ShapeError,TracerBoolConversionError")
    assert len(set(first["fork"].split())) == 4  # the child answered by four functions


def test_a_soak_tells_what_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import soak

    def readings(growth: float, descriptors: int) -> list[object]:
        return [
            soak.Reading(60.0 * n, n, int(2e8 * (1 + growth * n / 60)), 6 + descriptors * n, 6, 0)
            for n in range(60)
        ]

    assert not list(soak.faults(readings(0.005, 0), {}, 60))
    found = list(soak.faults(readings(0.05, 1), {"training": 3}, 60))
    assert found == [
        "resident memory is not flat",
        "descriptors grew from 21 to 65",
        "training gave other bits in 3 rounds",
    ]
    assert "give it more minutes" in next(soak.faults([], {}, 60))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module gpu; the default device is what it was afterwards."""
    monkeypatch.syspath_prepend(FOLDER)
    import gpu

    before = config.device
    yield gpu
    config.device = before


def test_without_a_gpu_nothing_is_measured_but_compilation(
    gpu: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    if driver.available():
        assert gpu.main(["--only", "tiny,compile_simple"]) == 1
        said = capsys.readouterr().out
        assert "no CUDA driver" in said and "compile_simple" in said and "tiny" not in said


def test_times_stand_beside_targets_and_missing_peers_are_named(
    gpu: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "out.json"
    options = ["--device", "cpu", "--only", "tiny,process_first_result", "--json", str(path)]
    assert gpu.main([*options, "--peers", "jax"]) == 0
    said, found = capsys.readouterr().out, json.loads(path.read_text())
    assert "jax is missing: jax" in said and "<= 5 us" in said
    assert " of 2\n" in said and "of the time" in found["tiny"]["verdict"]
    assert [*found] == ["tiny", "process_first_result"] and found["tiny"]["seconds"]["tfn"] > 0
    assert found["process_first_result"]["seconds"]["tfn"] > 0.05
    for wrong in (["--only", "tiny,magic"], ["--peers", "matlab"]):
        with pytest.raises(SystemExit):
            gpu.main(wrong)


def test_a_summary_names_what_is_met_what_is_not_and_what_failed(gpu: Any) -> None:
    times = {
        "copy": ({"tfn": 1.0, "torch": 0.98}, {}),
        "gelu": ({"tfn": 1.0, "torch": 0.5, "jax": 2.0}, {}),
        "sort": ({"tfn": 1.0, "torch": 3.0, "jax": 2.0}, {}),
        "softmax": ({"tfn": 1.0}, {}),
        "tiny": ({}, {"tfn": "DeviceError: lost"}),
        "nbody": ({}, {"all": "signal SIGSEGV"}),
    }
    rows = {k: gpu.Found(gpu.ROWS[k].target, *both) for k, both in times.items()}
    assert [gpu.verdict(row) for row in rows.values()] == [
        "met: 0.98 x torch",
        "NOT MET: 0.50 x torch",
        "met: 2.00 x jax",
        "no peer",
        "failed",
        "failed",
    ]
    assert [*gpu.summary(rows)] == [
        "met: 2 of 6",
        "not met: gelu",
        "not known, for lack of a peer: softmax",
        "failed: tiny (tfn): DeviceError: lost",
        "failed: nbody (all): signal SIGSEGV",
    ]


def test_a_row_calls_no_more_often_than_a_round_is_long(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However fast calls return, what they have enqueued has to run."""
    now, calls, enqueued = [0.0], [0], [0]

    def step() -> None:
        calls[0], enqueued[0], now[0] = calls[0] + 1, enqueued[0] + 1, now[0] + 1e-6

    def wait(_: Any) -> None:
        now[0], enqueued[0] = now[0] + 0.01 * enqueued[0], 0

    monkeypatch.setattr(gpu.time, "perf_counter", lambda: now[0])
    assert abs(gpu.seconds(step, wait) - 0.01) < 1e-4
    assert calls[0] == 2 + gpu.ROUNDS


WORKER = """
import json, os, signal, sys, time
names, descriptor = sys.argv[1:]
report = os.fdopen(int(descriptor), "w")
def say(**data): print(json.dumps(data), file=report, flush=True)
if names.startswith("never"): sys.exit(3)
say(name="", left=names)
for name in names.split(","):
    if name == "dies": os.kill(os.getpid(), signal.SIGKILL)
    if name == "hangs": time.sleep(60)
    say(name=name, fine=True)
    if name == "last": break
"""


@pytest.mark.usefixtures("gpu")
def test_a_row_that_takes_its_process_down_loses_no_other(tmp_path: Path) -> None:
    from supervised import supervised

    script, started = tmp_path / "worker.py", list[Any]()
    script.write_text(WORKER)
    command = [sys.executable, str(script)]
    names = ["a", "dies", "b", "hangs", "last", "c"]
    rows = [*supervised(command, names, 1.0, lambda data: started.append(data["left"]))]
    fine = {"fine": True}
    assert rows == [
        ("a", fine),
        ("dies", {"failed": "signal SIGKILL"}),
        ("b", fine),
        ("hangs", {"failed": "it said nothing for 1 s"}),
        ("last", fine),
        ("c", fine),
    ]
    assert started == ["a,dies,b,hangs,last,c", "b,hangs,last,c", "last,c", "c"]
    none = {"failed": "at its start: exit status 3"}
    assert [*supervised(command, ["never", "b"], 1.0)] == [("never", none), ("b", none)]


def test_targets_of_gpu_rows(gpu: Any) -> None:
    even, ahead = gpu.gpu_rows.EVEN, gpu.gpu_rows.AHEAD
    assert even.met(1.0, {"torch": 0.97, "jax": 0.1}) and not even.met(1.0, {"torch": 0.9})
    assert even.met(1.0, {"jax": 1.0}) is None and ahead.met(1.0, {}) is None
    assert ahead.met(1.0, {"torch": 1.1, "jax": 2.0}) and not ahead.met(1.0, {"jax": 1.0})
    assert (
        gpu.Target(seconds=5e-6).met(4e-6, {}) and str(gpu.Target(2.5, "torch")) == ">= 2.5 x torch"
    )
    by_library = gpu.functional("tfn")
    assert by_library.keys() == gpu.ROWS.keys()


@needs_opencl
def test_gpu_rows_have_the_values_of_a_processor(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At small sizes, by groups of threads."""
    monkeypatch.setitem(tfn.eager.registry.DEVICES, "opencl", quick())
    monkeypatch.setattr(config, "disk_cache", False)
    config.device = "opencl"
    for name in in_turn(12, gpu.ROWS):
        found = gpu.compared(name, gpu.ROWS[name], {"tfn": gpu.own()})
        assert not found.errors, (name, found.errors)


def test_values_that_differ_are_told(gpu: Any) -> None:
    def wrong(row: Any, inputs: Any) -> Any:
        return lambda: inputs["x"] + 2

    contestants = {"wrong": gpu.Contestant({"tiny": wrong}, lambda x: x)}
    found = gpu.compared("tiny", gpu.ROWS["tiny"], contestants)
    assert found.errors["wrong"].startswith("differs by")


# Programs of others.

NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# title"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip install x\n", "a = 2"]},
        {
            "cell_type": "code",
            "source": "%%time\n%timeit -n 3 a + 1\nfor i in range(2):\n    a += 1\na",
        },
        {"cell_type": "code", "source": "1 / 0", "outputs": [{"output_type": "error"}]},
        {"cell_type": "code", "source": "a + 1;"},
        {"cell_type": "code", "source": "%%bash\nls"},
        {"cell_type": "code", "source": "b = (a,\n     3)\nsum(\n    b\n)"},
    ]
}


def test_notebooks_are_run_cell_by_cell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    from program_run import cells_of, run_cell, show

    path = tmp_path / "book.ipynb"
    path.write_text(json.dumps(NOTEBOOK))
    names = {"__show__": show}
    for source, stops in cells_of(path):
        run_cell(source, str(path), names, stops)
    assert capsys.readouterr().out == "4\nZeroDivisionError\n7\n"
    with pytest.raises(ZeroDivisionError):
        run_cell("1 / 0", "text", {}, stops=True)


def test_pages_are_run_by_their_doctests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    from program_run import cells_of, edited

    path = tmp_path / "page.md"
    path.write_text(
        "```python\n>>> x = 1\n```\nHere\n```python\n>>> y = [\n...   10]\n10\n```\nend"
    )
    assert [text for text, _ in cells_of(path, ("Here", "end"))] == ["y = [\n  10]\n"]
    assert edited("n = 10", {"edits": [["10", "STEPS"]], "steps": 3}) == "n = 3"


def left(folder: Path, text: str, **arrays: Any) -> Path:
    """A folder with what a program printed and left."""
    folder.mkdir()
    (folder / "stdout").write_text(text)
    np.savez(folder / "arrays.npz", **arrays)
    return folder


def test_what_programs_print_and_leave_is_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    from programs import differences, has_numbers

    text = "loss 0.1234 at [1. 2.]\ntook 3.2 s\nshape (3, 4)\n"
    good = {"x": np.float32([1, 2, np.nan]), "n": np.int32(3)}
    jax = left(tmp_path / "jax", text, **good)
    near = text.replace("0.1234", "0.1235").replace("3.2 s", "9 s").replace("[1. 2.]", "[1.  2.]")
    same = left(tmp_path / "same", near, **good | {"x": np.float32([1.0005, 2, np.nan])})
    assert has_numbers(jax) and not has_numbers(left(tmp_path / "none", "it took 2 s\n"))
    assert all(got <= allowed for got, allowed in differences(jax, same).values())
    assert len(differences(jax, same)) == 4  # two arrays and two lines
    for number, (words, arrays) in enumerate(
        [
            (text.replace("0.1234", "0.1254"), good),
            (text.replace("(3, 4)", "(3, 5)"), good),
            (text.replace("shape (3, 4)\n", ""), good),
            (text, good | {"x": np.float32([1.01, 2, np.nan])}),
            (text, good | {"x": np.float32([1, 2, 3])}),
            (text, good | {"n": np.int64(3)}),
            (text, {"n": good["n"]}),
        ]
    ):
        found = differences(jax, left(tmp_path / str(number), words, **arrays))
        assert sum(got > allowed for got, allowed in found.values()) == 1, (words, found)


def test_a_program_is_run_as_it_is_in_a_copy_of_its_repository(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    from programs import candidates, does_something, git, run

    clone = tmp_path / "a+b"
    (clone / "part").mkdir(parents=True)
    (clone / "part" / "own.py").write_text("scale = 2.0\n")
    text = (
        "import jax.numpy as jnp\nfrom own import scale\nx = scale * jnp.arange(3)\nprint(x[7])\n"
    )
    (clone / "part" / "run.py").write_text(text)
    (clone / "test_x.py").write_text(text)
    for command in ("init -q", "add .", "-c user.name=a -c user.email=a commit -qm x"):
        subprocess.run(["git", *command.split()], cwd=clone, check=True)
    paths = candidates(clone / ".git", "HEAD")
    assert sorted(paths) == ["part/own.py", "part/run.py"]
    acts = [path for path in paths if does_something(clone / path, clone)]
    assert acts == ["part/run.py"] and git(clone / ".git", "show", "HEAD:part/run.py")
    row = {"kind": "x", "repository": "a/b", "path": "part/run.py", "commit": "HEAD"}
    result = run("tfn", tmp_path, row, tmp_path / "out", 60)
    place = tmp_path / "out" / "tfn" / "a+b+part+run.py"
    assert result["ended"] == "well", result["error"]
    assert (place / "stdout").read_text() == "4.0\n"
    assert np.load(place / "arrays.npz")["x/0"].tolist() == [0, 2, 4]
