"""All that a WebGPU adapter of this machine can show, in one command, and a report to send.

    make webgpu                     values, training, times
    python -m tests.hw.webgpu       the same with the packages of this Python
    ... --times                     times alone

The report, build/webgpu/report.txt, says the adapter and its limits, the tests that passed and
failed, and how long some programs take on the adapter and on the processor.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tfn
from tfn import nn
from tfn import numpy as jnp
from tfn.hw.webgpu import driver
from tfn.version import __version__

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "build" / "webgpu"
TESTS = ("tests/hw/webgpu", "-p", "no:xdist", "--no-proofs")
REPEATS = 3


def rows(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "2 x + y, of 1 million": (lambda x, y: 2 * x + y, (rows(1 << 20), rows(1 << 20))),
    "sum of 1 million": (jnp.sum, (rows(1 << 20),)),
    "softmax of 256 by 1,024": (nn.softmax, (rows(256, 1024),)),
    "product of 256 by 256": (jnp.matmul, (rows(256, 256), rows(256, 256))),
    "sine of 65,536": (jnp.sin, (rows(1 << 16),)),
}


def times(device: str) -> dict[str, float]:
    """The shortest of some calls of each program, in milliseconds, with the wait for its end."""
    tfn.config.device = device
    found = {}
    for name, (f, args) in PROGRAMS.items():
        compiled, arrays = tfn.jit(f), [jnp.asarray(x) for x in args]
        tfn.block_until_ready(compiled(*arrays))
        spent = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            tfn.block_until_ready(compiled(*arrays))
            spent.append(time.perf_counter() - start)
        found[name] = 1e3 * min(spent)
    return found


def adapter() -> Iterator[str]:
    """The machine, the adapter and its limits."""
    found = driver.driver(True)
    yield f"tfn {__version__}, wgpu {found.wgpu.__version__}, Python {platform.python_version()}"
    yield f"{platform.platform()}, {os.cpu_count()} processors"
    yield f"{found.name}: {found.target.triple}"
    yield from (f"  {name}: {size:,}" for name, size in found.limits.items())


def report(only_times: bool) -> Iterator[str]:
    """The lines of the report; the last one says whether all is well."""
    yield from adapter()
    bad = 0
    if not only_times:
        command = [sys.executable, "-m", "pytest", *TESTS]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        bad = ran.returncode
        yield from ("", "tests:", *ran.stdout.splitlines()[-20:])
    there, here = times("webgpu"), times("cpu")
    yield from ("", f"{'milliseconds':28}{'webgpu':>10}{'cpu':>10}")
    yield from (f"{name:28}{there[name]:10.2f}{here[name]:10.2f}" for name in PROGRAMS)
    yield "some tests failed" if bad else "all is well"


def main() -> int:
    """Print the report and write it; the exit status."""
    parser = argparse.ArgumentParser(description="Show what a WebGPU adapter computes.")
    parser.add_argument("--times", action="store_true", help="no tests")
    parser.add_argument("--to", type=Path, default=FOLDER / "report.txt", help="the report")
    options = parser.parse_args()
    missing = driver.available()
    if missing:
        print(f"WebGPU is NOT TESTED: {missing}")
        return 1
    options.to.parent.mkdir(parents=True, exist_ok=True)
    last = ""
    with options.to.open("w") as file:
        for last in report(options.times):
            print(last)
            print(last, file=file, flush=True)
    print(f"report: {options.to}")
    return int(last != "all is well")


if __name__ == "__main__":
    sys.exit(main())
