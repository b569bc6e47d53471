"""Compilers of microcontrollers: what they make of a program, where they are installed.

The program is compiled for size in a temporary folder, and looked at: bytes of code by function,
and frames of the stack.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tfn.exporting.microcontrollers import core_of
from tfn.extend import Target, frozen

OPTIONS = ("-Os", "-std=c99", "-ffreestanding", "-ffp-contract=off", "-fstack-usage")
SECONDS = 120
"""The most that a compiler may take."""


@frozen
class Built:
    """A program as a compiler makes it.

    Attributes:
        functions: bytes of code by name; parts that a compiler cuts off count for their function.
        code_bytes: of all functions and what they need besides the constants.
        stack_bytes: of the deepest call.
        compiler: its name and version.
    """

    functions: Mapping[str, int]
    code_bytes: int
    stack_bytes: int
    compiler: str


def built(name: str, text: str, header: str, target: Target) -> Built | None:
    """The program compiled for its core; None if there is no compiler, or it does not know it."""
    core = core_of(target)
    tool = shutil.which(f"{core.tools}gcc") if core else None
    if core is None or tool is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.c").write_text(text)
        (Path(folder) / f"{name}.h").write_text(header)
        command = [tool, *core.flags, *OPTIONS, "-c", f"{name}.c", "-o", f"{name}.o"]
        if _output(command, folder) is None:
            return None
        sizes = _output([f"{core.tools}nm", "-S", f"{name}.o"], folder) or ""
        version = (_output([tool, "-dumpfullversion"], folder) or "").strip()
        usage = (Path(folder) / f"{name}.su").read_text()
    functions: dict[str, int] = {}
    for size, symbol in re.findall(r"^[0-9a-f]+ ([0-9a-f]+) [tTW] (\S+)$", sizes, re.MULTILINE):
        whole = symbol.partition(".")[0]
        functions[whole] = functions.get(whole, 0) + int(size, 16)
    return Built(
        functions, sum(functions.values()), stack_bytes(usage), f"{Path(tool).name} {version} -Os"
    )


def stack_bytes(usage: str) -> int:
    """The deepest stack by a file of `-fstack-usage`: one kernel at a time, and all others."""
    rows = re.findall(r"^[^\t]*:([\w.]+)\t(\d+)\t", usage, re.MULTILINE)
    frames = [(name.partition(".")[0], int(size)) for name, size in rows]
    kernels = [size for name, size in frames if re.fullmatch(r"k[0-9a-f]{20}", name)]
    return max(kernels, default=0) + sum(size for _, size in frames) - sum(kernels)


def _output(command: list[str], folder: str) -> str | None:
    """The output of a tool; None if it fails or takes too long."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, timeout=SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
