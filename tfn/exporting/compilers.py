"""Compilers of microcontrollers: what they make of a program, where they are installed.

The program is compiled in a temporary folder, and looked at: bytes of code by function for size,
and at each level of optimization the deepest stack by the graph of calls, with each FPU.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path

from tfn.exporting.microcontrollers import core_of
from tfn.extend import Target, frozen

OPTIONS = ("-std=c99", "-ffreestanding", "-ffp-contract=off", "-fcallgraph-info=su", "-c", "made.c")
LEVELS = ("-Os", "-Og", "-O1", "-O2", "-O3", "-O0")
"""Levels of optimization: code is counted at the first; the last is none."""
LIBRARY_BYTES = 128
"""More than any function of libgcc takes, with those that it calls: for floats without an FPU."""
SECONDS = 120
"""The most that a compiler may take."""


@frozen
class Built:
    """A program as a compiler makes it.

    Attributes:
        functions: bytes of code by name; parts that a compiler cuts off count for their function.
        code_bytes: of all functions and what they need besides the constants.
        stack_bytes: of the deepest call at any level of optimization.
        plain_stack_bytes: the same without optimization.
        compiler: its name and version.
    """

    functions: Mapping[str, int]
    code_bytes: int
    stack_bytes: int
    plain_stack_bytes: int
    compiler: str


def built(text: str, target: Target) -> Built | None:
    """The program compiled for its core; None if there is no compiler, or it does not know it."""
    core = core_of(target)
    tool = shutil.which(f"{core.tools}gcc") if core else None
    if core is None or tool is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "made.c").write_text(text)

        def compiled(to: int, level: str, unit: tuple[str, ...]) -> int | None:
            command = [tool, *core.flags, *unit, level, *OPTIONS, "-o", f"{to}.o"]
            if _output(command, folder) is None:
                return None
            return stack_bytes((Path(folder) / f"{to}.ci").read_text())

        ways = list(product(LEVELS, dict.fromkeys(((), core.other))))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            stacks = list(pool.map(compiled, range(len(ways)), *zip(*ways, strict=True)))
        if stacks[0] is None:
            return None
        sizes = _output([f"{core.tools}nm", "-S", "0.o"], folder) or ""
        version = (_output([tool, "-dumpfullversion"], folder) or "").strip()
    functions: dict[str, int] = {}
    for size, symbol in re.findall(r"^[0-9a-f]+ ([0-9a-f]+) [tTW] (\S+)$", sizes, re.MULTILINE):
        whole = symbol.partition(".")[0]
        functions[whole] = functions.get(whole, 0) + int(size, 16)
    found = [(x, level) for (level, _), x in zip(ways, stacks, strict=True) if x is not None]
    optimized = max(x for x, level in found if level != "-O0")
    compiler = f"{Path(tool).name} {version}"
    return Built(functions, sum(functions.values()), optimized, max(found)[0], compiler)


_NODE = re.compile(r'^node: \{ title: "([^"]*)" label: "[^"]*?(?:\\n(\d+) bytes[^"]*)?"', re.M)
_EDGE = re.compile(r'^edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"', re.M)


def stack_bytes(graph: str) -> int:
    """The deepest stack by a file of `-fcallgraph-info=su`; no function calls itself."""
    frames = {name: int(size or LIBRARY_BYTES) for name, size in _NODE.findall(graph)}
    callees: dict[str, set[str]] = {}
    for caller, callee in _EDGE.findall(graph):
        callees.setdefault(caller, set()).add(callee)

    @cache
    def depth(name: str) -> int:
        return frames[name] + max(map(depth, callees.get(name, ())), default=0)

    return max(map(depth, frames), default=0)


def _output(command: list[str], folder: str) -> str | None:
    """The output of a tool; None if it fails or takes too long."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, timeout=SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
