"""All that a GPU can show, in one command; without one, what a simulated driver can.

    make gpu                          every step, and a table of what passed, failed and never ran
    make gpu ARGS="--only values"     some, by the beginning of their names
    make gpu ARGS=--list              the steps alone, and what each needs
    python -m tests.hw.cuda           the same with the packages of this Python, and no installation

A step that cannot run says why; one that fails, or takes too long, does not stop the next.  What
each says is written to a folder, build/gpu if no other is given, and so is the table, after each
step.  The command fails if a step fails, and says in its last lines which targets were met, and
whether a GPU has run anything.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.hw.cuda.ptxas import ptxas, tool
from tfn.hw.cuda import nccl, solver

ROOT = Path(__file__).parents[3]
PYTEST = ("{python}", "-m", "pytest")
ON_GPU = (*PYTEST, "-p", "no:xdist", "--no-proofs", "tests/hw/cuda/test_device.py",
          "tests/hw/cuda/test_driver.py", "-m", "gpu")  # fmt: skip
"""All operations with derivatives and batches, random programs and networks, on the GPU."""
SANITIZER = ("{sanitizer}", "--error-exitcode", "9", "--target-processes", "all")
USER_TESTS = ("numpy", "lax", "nn", "random", "scipy", "transforms")
"""Tests of what users call: their arrays are on the GPU where the device is cuda."""
OF_A_PROCESSOR = "not alike_everywhere"
"""Leaves out what compares the devices of a processor with each other, arrays of one in another."""
LIMIT_S, LONG_S = 900, 3600
"""Seconds of a step, and of one under a tool that runs kernels a hundred times slower, or of a
whole suite."""


@dataclass(frozen=True)
class Step:
    """A command.

    Attributes:
        what: it shows.
        device: the value of TFN_DEVICE; empty for the tests' own choice.
        needs: the names of `missing` without which it does not run.
        limit_s: seconds after which it is ended.
    """

    what: str
    command: tuple[str, ...]
    device: str = ""
    needs: tuple[str, ...] = ()
    limit_s: int = LIMIT_S


class Outcome(NamedTuple):
    """How a step went: in a word, and what its last line says."""

    word: str
    said: str
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether it went well."""
        return self.word == "passed"


# fmt: off
STEPS: dict[str, Step] = {
    "values": Step("all operations, random programs and training on the GPU",
        ON_GPU, needs=("gpu",)),
    "mnist": Step("a convolutional network trains: 99 % of the test images",
        ("{python}", "-m", "tests.hw.training", "mnist"), "cuda", ("gpu",)),
    "gpt": Step("a GPT trains: its losses are those of the CPU",
        ("{python}", "-m", "tests.hw.training", "gpt"), "cuda", ("gpu",)),
    "meshes": Step("exchanges between the GPUs of this machine, by NCCL where it is installed",
        (*PYTEST, "tests/hw/cuda/test_peers.py", "-m", "gpu"), needs=("gpu", "several")),
    "times": Step("times beside those of jax, torch and torch.compile, and which targets are met",
        ("{python}", "benchmarks/gpu.py", "--json", "{folder}/times.json"), needs=("gpu",),
        limit_s=LONG_S),
    **{
        tool: Step(f"no fault found by {tool}", (*SANITIZER, "--tool", tool, *ON_GPU),
                   needs=("gpu", "sanitizer"), limit_s=LONG_S)
        for tool in ("memcheck", "racecheck", "initcheck", "synccheck")
    },
    "suite": Step("tests of what users call, with arrays on the GPU",
        (*PYTEST, "--no-proofs", *(f"tests/{name}" for name in USER_TESTS), "-k", OF_A_PROCESSOR),
        "cuda", ("gpu",),
        LONG_S),
    "assembled": Step("PTX of the suite's kernels: spills, registers, products not serialised",
        (*PYTEST, "tests/hw/cuda/test_compiler.py", "tests/lower/codegen"), needs=("ptxas",)),
    "simulated": Step("values, order of calls, faults, meshes of four GPUs, on a simulated driver",
        (*PYTEST, "tests/hw/cuda", "-m", "not gpu")),
    "dispatch": Step("what a call costs the host beside the driver",
        ("{python}", "-m", "tests.hw.cuda.overhead")),
    "opencl": Step("values and races of groups of threads, by a driver of OpenCL (pocl)",
        (*PYTEST, "tests/hw/opencl"), needs=("opencl",)),
}
# fmt: on


def sanitizer() -> str:
    """The path of compute-sanitizer; empty if there is none."""
    return tool("compute-sanitizer", "nvidia/**")


FIND = """
import json
from tfn.hw.cuda import driver
from tfn.errors import DeviceError
try:
    d = driver.driver()
    version = f"CUDA {d.version // 1000}.{d.version % 1000 // 10}"
    gib, count = d.total_bytes >> 30, d.library.integer("cuDeviceGetCount")
    said = f"{d.name}, {d.target.cpu}, {gib} GiB, driver of {version}, {count} of them"
    print(json.dumps({"gpu": "", "count": count, "said": said}))
except DeviceError as error:
    print(json.dumps({"gpu": str(error).replace("\\n", " "), "count": 0, "said": "none"}))
"""


def gpus() -> tuple[str, int, str]:
    """The reason why there is no GPU, the number of them, and what they are.

    Another process asks: a context takes memory that the steps have a use for, and a GPU may be set
    to let one process in.
    """
    ran = subprocess.run([sys.executable, "-c", FIND], cwd=ROOT, capture_output=True, text=True)
    if ran.returncode:
        lines = ran.stderr.strip().splitlines() or ["nothing"]
        return f"to look for one ended with {ran.returncode}: {lines[-1]}", 0, "none"
    found = json.loads(ran.stdout.splitlines()[-1])
    return str(found["gpu"]), int(found["count"]), str(found["said"])


def missing() -> tuple[dict[str, str], str]:
    """The reason why each thing that steps need is not there, or nothing; and what the GPU is."""
    try:
        import pyopencl

        opencl = "" if pyopencl.get_platforms() else "pyopencl finds no driver"
    except Exception as error:  # a loader without drivers raises one of its own
        opencl = f"{type(error).__name__}: {error}"
    why, count, said = gpus()
    return {
        "gpu": why,
        "several": "" if count > 1 else f"{count} of them",
        "ptxas": "" if ptxas() else "no ptxas: pip install nvidia-cuda-nvcc",
        "sanitizer": "" if sanitizer() else "no compute-sanitizer, which CUDA's toolkit has",
        "opencl": opencl,
        "cusolver": "" if solver.library() else "not installed: the host computes",
        "nccl": "" if nccl.library() else "not installed: the driver copies",
    }, said


def run(name: str, step: Step, folder: Path) -> Outcome:
    """Run a step; what it says is printed, and written to a file of the folder."""
    values = {"python": sys.executable, "sanitizer": sanitizer(), "folder": str(folder)}
    command = [word.format(**values) for word in step.command]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    environment |= {"TFN_DEVICE": step.device} if step.device else {}
    paths = [str(ROOT), str(ROOT / "examples"), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    begin, last, ended = time.perf_counter(), "", threading.Event()
    ran = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, errors="replace", start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip

    def end() -> None:
        ended.set()
        os.killpg(ran.pid, signal.SIGKILL)

    timer = threading.Timer(step.limit_s, end)
    timer.start()
    try:
        assert ran.stdout is not None
        with ran.stdout as lines, (folder / f"{name}.log").open("w") as log:
            for line in lines:
                print(line, end="", flush=True)
                log.write(line)
                log.flush()
                last = said_by(line) or last
        code = ran.wait()
    finally:
        timer.cancel()
        if ran.poll() is None:  # this process is interrupted
            os.killpg(ran.pid, signal.SIGKILL)
    word = "TIMED OUT" if ended.is_set() else "FAILED" if code else "passed"
    return Outcome(word, last, time.perf_counter() - begin)


def said_by(line: str) -> str:
    """A line that sums up: the last one of pytest, of the examples, or of the times."""
    found = re.search(r"\d+ (passed|failed|errors?)\b.* in |^(met|mnist|char_gpt): ", line)
    return line.strip(" =\n") if found else ""


def targets(folder: Path) -> Iterator[str]:
    """The targets that were met and not, as the file of times says."""
    path = folder / "times.json"
    if not path.exists():
        return
    rows = json.loads(path.read_text())
    yield f"targets met: {sum(row['met'] is True for row in rows.values())} of {len(rows)}"
    for name, row in rows.items():
        if row["met"] is not True:
            yield f"  {name:34} {row['target']:20} {row['verdict']}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps; 1 if one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="names of steps, or their beginnings")
    parser.add_argument("--list", action="store_true", help="run nothing")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "gpu", help="of what is said"
    )
    options = parser.parse_args(arguments)
    names = [name for name in options.only.split(",") if name]
    unknown = [name for name in names if not any(step.startswith(name) for step in STEPS)]
    if unknown:
        parser.error(f"no step begins with {', '.join(unknown)}; there are {', '.join(STEPS)}")
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "times.json").unlink(missing_ok=True)
    why, gpu = missing()
    print("found: " + ", ".join(name for name, reason in why.items() if not reason))
    print(f"GPU: {gpu}")
    for name, reason in why.items():
        if reason:
            print(f"  no {name}: {reason}")
    rows, outcomes = list[str](), dict[str, Outcome]()
    for name, step in STEPS.items():
        if names and not any(name.startswith(begin) for begin in names):
            continue
        lacks = [need for need in step.needs if why[need]]
        if lacks or options.list:
            needs = f"needs {', '.join(step.needs) or 'nothing'}"
            said = f"never ran: no {', '.join(lacks)}" if lacks else needs
            rows.append(f"{name:10} {said:28} {step.what}")
            continue
        print(f"\n== {name}: {step.what}", flush=True)
        outcome = outcomes[name] = run(name, step, folder)
        said = f"{outcome.word} in {outcome.seconds:.0f} s"
        rows.append(f"{name:10} {said:28} {step.what}" + f" ({outcome.said})" * bool(outcome.said))
        (folder / "summary.txt").write_text("\n".join(rows) + "\n")
    lines = [*rows, *targets(folder)]
    if why["gpu"]:
        lines.append("NO GPU: nothing above has run on one, and no time of one is known.")
    elif not options.list:
        on_gpu = [name for name in outcomes if "gpu" in STEPS[name].needs]
        passed = [name for name in on_gpu if outcomes[name].passed]
        lines.append(f"steps that passed on the GPU: {len(passed)} of {len(on_gpu)}; {gpu}")
    bad = [name for name, outcome in outcomes.items() if not outcome.passed]
    lines.append(f"FAILED: {', '.join(bad)}" if bad else "nothing failed")
    (folder / "summary.txt").write_text("\n".join(lines) + "\n")
    print("\n" + "\n".join(lines))
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
