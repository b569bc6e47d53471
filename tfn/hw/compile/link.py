"""Objects to files that a system can load: shared libraries, and modules of WebAssembly.

LLVM links nothing by itself; a linker is a program that the machine has or has not: the system's
compiler driver for its own processor, LLD for all of them, also that in the package ``ziglang``.
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
_VERSIONS = range(24, 10, -1)
_EMULATIONS = {"x86_64": "elf_x86_64", "aarch64": "aarch64linux", "riscv64": "elf64lriscv"}
STACK_BYTES = 1 << 16
_MESSAGE_LINES = 5


def lld(form: str) -> list[str] | None:
    """The command of LLD for "elf" or "wasm"; None if the machine has none."""
    name = _LLD[form]
    for candidate in (name, *(f"{name}-{version}" for version in _VERSIONS)):
        found = shutil.which(candidate)
        if found:
            return [found]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-P", "-m", "ziglang", name]  # -P: not one in the working folder
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
    """A shared library, or a module of WebAssembly, of one object.

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
        source, made = Path(folder, "in.o"), Path(folder, "out")
        source.write_bytes(data)
        done = subprocess.run(
            [*command, str(source), "-o", str(made)], capture_output=True, check=False
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise CompileError(
                f"{Path(command[0]).name} cannot link for {target.triple}",
                got="\n       ".join(said[:_MESSAGE_LINES]),
                hint="install the libraries of the target, or take kind='obj'",
            )
        return made.read_bytes()
