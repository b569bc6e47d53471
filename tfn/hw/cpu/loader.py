"""Objects to addresses: machine code linked into this process.

Each kernel is loaded once, into a library with those that were compiled with it; a driver is
linked against the addresses of its kernels.  Code leaves memory when the last `Code` that refers to
it is gone.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache as once
from typing import Any

from tfn._support.sections import cached_property
from tfn.errors import CompileError
from tfn.hw.compile.llvm import LOCK, binding
from tfn.hw.cpu import compiler_rt
from tfn.hw.cpu.target import host
from tfn.hw.device import Compiler

_NUMBERS = itertools.count()  # a library's name cannot be used twice


@once
def _jit() -> Any:
    """LLVM's linker, one for the process: code would vanish with it."""
    return binding().create_lljit_compiler(use_jit_link=True)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Code:
    """Loaded functions.

    Attributes:
        addresses: where each begins.
        keeps: what must stay loaded while they may run.
    """

    addresses: Mapping[str, int]
    keeps: tuple[Any, ...]


class Loader:
    """Links objects into this process, through LLVM's JITLink."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler
        self._loaded: weakref.WeakValueDictionary[tuple[str, bytes], Code] = (
            weakref.WeakValueDictionary()
        )

    @cached_property
    def support(self) -> Code:
        """Conversions that the process may lack, loaded when code first calls one."""
        return self.load(self.compiler.compile(compiler_rt.TEXT, host()), compiler_rt.NAMES)

    def load(
        self, data: bytes, names: Sequence[str], imports: Mapping[str, Code] | None = None
    ) -> Code:
        """Functions of an object, which may call `imports` and the C library.

        Raises:
            CompileError: if a symbol is missing.
        """
        needs = dict(imports or {})
        with LOCK:
            for symbol in compiler_rt.NAMES:
                if symbol.encode() in data and symbol not in names:
                    needs[symbol] = self.support
            builder = binding().JITLibraryBuilder().add_object_img(data).add_current_process()
            for symbol, code in needs.items():
                builder.import_symbol(symbol, code.addresses[symbol])
            for name in names:
                builder.export_symbol(name)
            try:
                tracker = builder.link(_jit(), f"{names[0]}.{next(_NUMBERS)}")
            except RuntimeError as error:
                raise CompileError(f"{names[0]} cannot be linked", got=str(error).strip()) from None
        return Code({name: tracker[name] for name in names}, (tracker, *needs.values()))

    def load_once(self, objects: Mapping[str, bytes]) -> dict[str, Code]:
        """Functions by their names, each from an object, which may hold several: those that are
        not loaded yet are linked object by object.

        Raises:
            CompileError: if a symbol is missing.
        """
        with LOCK:
            found: dict[str, Code] = {}
            missing: dict[bytes, list[str]] = {}
            for name, data in objects.items():
                code = self._loaded.get((name, data))
                if code is None:
                    missing.setdefault(data, []).append(name)
                else:
                    found[name] = code
            for data, names in missing.items():
                code = self.load(data, names)
                for name in names:
                    found[name] = self._loaded[name, data] = code
            return found
