"""ptxas, NVIDIA's assembler: it checks PTX without a GPU, and counts registers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SERIALIZED = re.compile(r"C75(10|13|14)")
"""Advisories that products of matrices are serialised: ptxas exits with 0 all the same."""

_FUNCTION = re.compile(
    r"Compiling entry function '(\w+)'.*?"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
    r"Used (\d+) registers(.*?)\n",
    re.DOTALL,
)


def tool(name: str, folders: str) -> str:
    """The path of a tool, from PATH or a package of PyPI; empty if there is none.

    Args:
        folders: a pattern of folders below those of packages.
    """
    packaged = (path for root in map(Path, sys.path) for path in root.glob(f"{folders}/{name}"))
    return shutil.which(name) or str(next(packaged, ""))


@cache
def ptxas() -> str:
    """The path of ptxas; empty if there is none."""
    return tool("ptxas", "nvidia/*/bin")


needs_ptxas = pytest.mark.skipif(
    not ptxas(), reason="no ptxas: pip install nvidia-cuda-nvcc, a package of 47 MB, brings it"
)


@dataclass(frozen=True)
class Assembled:
    """A kernel as ptxas reports it."""

    registers: int
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int


def assemble(ptx: bytes, architecture: str, *options: str) -> dict[str, Assembled]:
    """The kernels of a text by name.

    Raises:
        AssertionError: if ptxas does not take the text, or serialises products of matrices.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernels.ptx")
        source.write_bytes(ptx)
        files = ["--output-file", str(Path(folder, "kernels.cubin")), str(source)]
        command = [ptxas(), "-v", f"--gpu-name={architecture}", *options, *files]
        ran = subprocess.run(command, capture_output=True, text=True)
    report = ran.stdout + ran.stderr
    assert ran.returncode == 0, report[:4000]
    assert not SERIALIZED.search(report), report[:4000]
    found = {}
    for name, stack, stores, loads, registers, rest in _FUNCTION.findall(report):
        shared = re.search(r"(\d+) bytes smem", rest)
        found[name] = Assembled(
            int(registers), int(stores) + int(loads), int(stack), int(shared[1]) if shared else 0
        )
    return found
