"""JIT linker: object files become addresses of functions in this process.

Each kernel is loaded once, into a library with those that were compiled with it; a driver is
linked against the addresses of its kernels.  Code is unloaded when the last `Code` that refers to
it is freed.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfn._support.sections import cached_property
from tfn.errors import CompileError
from tfn.hw.compile.llvm import LOCK, binding
from tfn.hw.cpu import compiler_rt
from tfn.hw.cpu.target import host
from tfn.hw.device import Compiler

_NUMBERS = itertools.count()  # a library's name cannot be used twice
_LINKER: list[Any] = []
LINKER_LIBRARIES = 32
"""Libraries per linker of LLVM.  A linker takes 120 KB and a millisecond to make; and it keeps 9 KB
of each library that was unloaded until it is freed itself, with its last library."""


def _linker(number: int) -> Any:
    """LLVM's linker for the library of this number; only the holder of LOCK may call it."""
    if number % LINKER_LIBRARIES == 0:
        _LINKER[:] = [binding().create_lljit_compiler(use_jit_link=True)]
    return _LINKER[0]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Code:
    """Loaded functions.

    Attributes:
        addresses: of the first byte of each.
        keeps: code and libraries that they call, which stay loaded with them.
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
        return self.load(self.compiler.compile(compiler_rt.text(), host()), compiler_rt.NAMES)

    def load(
        self,
        data: bytes,
        names: Sequence[str],
        imports: Mapping[str, Code] | None = None,
        more: Sequence[bytes] = (),
    ) -> Code:
        """Link functions of `data` and `more`; they may call `imports` and the C library.

        Raises:
            CompileError: if a symbol is missing, or defined twice.
        """
        imported = dict(imports or {})
        for symbol in compiler_rt.NAMES:
            used = any(symbol.encode() in part for part in (data, *more))
            if used and symbol not in names:
                imported[symbol] = self.support
        with LOCK:
            builder = binding().JITLibraryBuilder().add_current_process()
            for part in (data, *more):
                builder.add_object_img(part)
            for symbol, code in imported.items():
                builder.import_symbol(symbol, code.addresses[symbol])
            for name in names:
                builder.export_symbol(name)
            number = next(_NUMBERS)
            try:
                tracker = builder.link(_linker(number), f"{names[0]}.{number}")
            except RuntimeError as error:
                raise CompileError(
                    f"{names[0]} cannot be linked",
                    got=str(error).strip(),
                    hint="a text may call what LLVM itself provides",
                ) from None
        return Code({name: tracker[name] for name in names}, (tracker, *imported.values()))

    def load_once(self, objects: Mapping[str, bytes]) -> dict[str, Code]:
        """Functions by name, linked object by object unless they are loaded already.

        Args:
            objects: for each name the object that defines it; one may define several.

        Raises:
            CompileError: if a symbol is missing.
        """
        with LOCK:
            loaded, missing = self._loaded_and_missing(objects)
            for data, names in missing.items():
                loaded |= self._remember(self.load(data, names), data, names)
            return loaded

    def load_with(self, name: str, data: bytes, objects: Mapping[str, bytes]) -> Code:
        """Link a function and the functions of `objects` that it calls.

        They become one library where possible, since each library takes 40 KB beside its code.

        Raises:
            CompileError: if a symbol is missing.
        """
        with LOCK:
            loaded, missing = self._loaded_and_missing(objects)
            symbols = [name, *itertools.chain(*missing.values())]
            try:
                code = self.load(data, symbols, loaded, list(missing))
            except CompileError:  # two objects may define the same function
                return self.load(data, [name], self.load_once(objects))
            for part, names in missing.items():
                self._remember(code, part, names)
            return code

    def _loaded_and_missing(
        self, objects: Mapping[str, bytes]
    ) -> tuple[dict[str, Code], dict[bytes, list[str]]]:
        """The functions that are loaded, and the objects of the others with their names."""
        loaded: dict[str, Code] = {}
        missing: dict[bytes, list[str]] = {}
        for name, data in objects.items():
            code = self._loaded.get((name, data))
            if code is None:
                missing.setdefault(data, []).append(name)
            else:
                loaded[name] = code
        return loaded, missing

    def _remember(self, code: Code, data: bytes, names: Sequence[str]) -> dict[str, Code]:
        """Remember that these functions of an object are loaded."""
        for name in names:
            self._loaded[name, data] = code
        return dict.fromkeys(names, code)
