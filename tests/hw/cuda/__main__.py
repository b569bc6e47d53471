"""All that a GPU can show, in one command; without one, what a simulated driver can.

    make gpu                          every step, and a table of what passed, failed and never ran
    make gpu ARGS="--only values"     some, by the beginning of their names
    make gpu ARGS=--list              the steps alone, and what each needs

A step that cannot run says why.  The command fails if one fails, and says in its last line whether
a GPU has run anything.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.hw.cuda.ptxas import ptxas, tool
from tfn.hw.cuda import driver, nccl, solver

ROOT = Path(__file__).parents[3]
PYTEST = ("{python}", "-m", "pytest", "-q")
ON_GPU = (*PYTEST, "-p", "no:xdist", "tests/hw/cuda/test_device.py", "-k", "gpu")
"""All operations with derivatives and batches, random programs and a network, on the GPU."""
SANITIZER = ("{sanitizer}", "--error-exitcode", "9", "--target-processes", "all")
USER_TESTS = ("numpy", "lax", "nn", "random", "scipy", "transforms")
"""Tests of what users call: their arrays are on the GPU where the device is cuda."""


@dataclass(frozen=True)
class Step:
    """A command.

    Attributes:
        what: it shows.
        device: the value of TFN_DEVICE; empty for the tests' own choice.
        needs: the names of `FOUND` without which it does not run.
    """

    what: str
    command: tuple[str, ...]
    device: str = ""
    needs: tuple[str, ...] = ()


# fmt: off
STEPS: dict[str, Step] = {
    "assembled": Step("PTX of the suite's kernels: spills, registers, products not serialised",
        (*PYTEST, "tests/hw/cuda/test_compiler.py", "tests/lower/codegen"), needs=("ptxas",)),
    "simulated": Step("values, order of calls, faults, meshes of four GPUs, on a simulated driver",
        (*PYTEST, "tests/hw/cuda")),
    "dispatch": Step("what a call costs the host beside the driver",
        ("{python}", "-m", "tests.hw.cuda.overhead")),
    "opencl": Step("values and races of groups of threads, by a driver of OpenCL (pocl)",
        (*PYTEST, "tests/hw/opencl"), needs=("opencl",)),
    "values": Step("all operations, random programs and training on the GPU",
        ON_GPU, needs=("gpu",)),
    "suite": Step("tests of what users call, with arrays on the GPU",
        (*PYTEST, *(f"tests/{name}" for name in USER_TESTS)), "cuda", ("gpu",)),
    "mnist": Step("a convolutional network trains: 99 % of the test images",
        ("{python}", "examples/mnist.py", "--model", "cnn"), "cuda", ("gpu",)),
    "gpt": Step("a GPT trains: its loss beside that of the CPU",
        ("{python}", "examples/char_gpt.py", "--steps", "200"), "cuda", ("gpu",)),
    **{
        tool: Step(f"no fault found by {tool}", (*SANITIZER, "--tool", tool, *ON_GPU),
                   needs=("gpu", "sanitizer"))
        for tool in ("memcheck", "racecheck", "initcheck", "synccheck")
    },
    "times": Step("times beside those of jax, torch and torch.compile, and which targets are met",
        ("{python}", "benchmarks/gpu.py"), needs=("gpu",)),
}
# fmt: on


def sanitizer() -> str:
    """The path of compute-sanitizer; empty if there is none."""
    return tool("compute-sanitizer", "nvidia/**")


def missing() -> dict[str, str]:
    """The reason why each thing that steps need is not there; empty if it is."""
    try:
        import pyopencl

        opencl = "" if pyopencl.get_platforms() else "pyopencl finds no driver"
    except Exception as error:  # a loader without drivers raises one of its own
        opencl = f"{type(error).__name__}: {error}"
    return {
        "gpu": driver.available().replace("\n", " "),
        "ptxas": "" if ptxas() else "no ptxas: pip install nvidia-cuda-nvcc",
        "sanitizer": "" if sanitizer() else "no compute-sanitizer, which CUDA's toolkit has",
        "opencl": opencl,
        "cusolver": "" if solver.library() else "not installed: the host computes",
        "nccl": "" if nccl.library() else "not installed: the driver copies",
    }


def run(step: Step) -> tuple[bool, float]:
    """Whether a step passes, and its seconds."""
    values = {"python": sys.executable, "sanitizer": sanitizer()}
    command = [word.format(**values) for word in step.command]
    environment = {**os.environ, **({"TFN_DEVICE": step.device} if step.device else {})}
    begin = time.perf_counter()
    code = subprocess.run(command, cwd=ROOT, env=environment).returncode
    return code == 0, time.perf_counter() - begin


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps; 1 if one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="names of steps, or their beginnings")
    parser.add_argument("--list", action="store_true", help="run nothing")
    options = parser.parse_args(arguments)
    why, names = missing(), [name for name in options.only.split(",") if name]
    print("found: " + ", ".join(name for name, reason in why.items() if not reason))
    for name, reason in why.items():
        if reason:
            print(f"  no {name}: {reason}")
    rows, failed, on_gpu = [], False, False
    for name, step in STEPS.items():
        if names and not any(name.startswith(begin) for begin in names):
            continue
        lacks = [need for need in step.needs if why[need]]
        if lacks or options.list:
            needs = f"needs {', '.join(step.needs) or 'nothing'}"
            rows.append((name, f"never ran: no {', '.join(lacks)}" if lacks else needs, step.what))
            continue
        print(f"\n== {name}: {step.what}", flush=True)
        passed, seconds = run(step)
        failed = failed or not passed
        on_gpu = on_gpu or (passed and "gpu" in step.needs)
        rows.append((name, f"{'passed' if passed else 'FAILED'} in {seconds:.0f} s", step.what))
    print()
    for row in rows:
        print(f"{row[0]:10} {row[1]:28} {row[2]}")
    if why["gpu"]:
        print("\nNO GPU: nothing above has run on one, and no time of one is known.")
    elif not on_gpu and not options.list:
        print("\nNo step has passed on the GPU.")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
