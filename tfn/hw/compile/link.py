"""Linker: object files become shared libraries and modules of WebAssembly.

LLVM's libraries do not link.  The linker is a program that a machine may lack: the compiler driver
of the system for its own processor, or LLD for all, also as part of the package ``ziglang``.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tfn.errors import CompileError
from tfn.lower.target.target import Target

_LLD = {"elf": "ld.lld", "wasm": "wasm-ld"}
_LLD_VERSIONS = range(24, 10, -1)
_EMULATIONS = {"x86_64": "elf_x86_64", "aarch64": "aarch64linux", "riscv64": "elf64lriscv"}
STACK_BYTES = 1 << 16
"""The stack of a module of WebAssembly."""
_MAX_MESSAGE_LINES = 5


def lld(form: str) -> list[str] | None:
    """The command of LLD for "elf" or "wasm"; None if the machine has none."""
    name = _LLD[form]
    for candidate in (name, *(f"{name}-{version}" for version in _LLD_VERSIONS)):
        path = shutil.which(candidate)
        if path:
            return [path]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-P", "-m", "ziglang", name]  # -P: never one in the working folder
    return None


def linker(target: Target, threads: bool = False) -> list[str] | None:
    """The command that links for a target, without inputs and output; None if there is none."""
    architecture = target.triple.split("-")[0]
    if architecture.startswith("wasm"):
        command = lld("wasm")
        return command and [
            *command,
            "--no-entry",
            "--gc-sections",
            "-z",
            f"stack-size={STACK_BYTES}",
        ]
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler and architecture == platform.machine():
        libraries = ["-pthread"] if threads else ["-nostdlib"]
        return [compiler, "-shared", "-Wl,-z,defs", "-Wl,-z,noexecstack", *libraries]
    command = lld("elf")
    if command is None or threads or architecture not in _EMULATIONS:
        return None
    return [*command, "-shared", "-z", "defs", "-m", _EMULATIONS[architecture]]


def link(data: bytes, target: Target, exports: Sequence[str], threads: bool = False) -> bytes:
    """Link one object file to a shared library, or to a module of WebAssembly.

    Raises:
        CompileError: if there is no linker, or it refuses: a symbol may be missing.
    """
    command = linker(target, threads)
    if command is None:
        raise CompileError(
            f"there is no linker for {target.triple}",
            hint="install lld, or pip install ziglang; or export an object or C, and link it there",
        )
    if target.triple.startswith("wasm"):
        command += [f"--export={name}" for name in (*exports, "__heap_base")]
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder, "in.o"), Path(folder, "out")
        source.write_bytes(data)
        process = subprocess.run(
            [*command, str(source), "-o", str(output)], capture_output=True, check=False
        )
        if process.returncode:
            lines = process.stderr.decode(errors="replace").strip().splitlines()
            raise CompileError(
                f"{Path(command[0]).name} cannot link for {target.triple}",
                got="\n       ".join(lines[:_MAX_MESSAGE_LINES]),
                hint="install the libraries of the target, or take kind='obj'",
            )
        return output.read_bytes()
