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
"""How many libraries one linker of LLVM makes.  It takes 120 KB and a millisecond to make, and of
each library that has left memory it keeps 9 KB until it goes itself: with its last library."""


def _linker(number: int) -> Any:
    """LLVM's linker for the library of this number; for the holder of LOCK."""
    if number % LINKER_LIBRARIES == 0:
        _LINKER[:] = [binding().create_lljit_compiler(use_jit_link=True)]
    return _LINKER[0]


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
        return self.load(self.compiler.compile(compiler_rt.text(), host()), compiler_rt.NAMES)

    def load(
        self,
        data: bytes,
        names: Sequence[str],
        imports: Mapping[str, Code] | None = None,
        more: Sequence[bytes] = (),
    ) -> Code:
        """Functions of an object and some more, which may call `imports` and the C library.

        Raises:
            CompileError: if a symbol is missing, or two of them have one function.
        """
        needs = dict(imports or {})
        for symbol in compiler_rt.NAMES:
            used = any(symbol.encode() in part for part in (data, *more))
            if used and symbol not in names:
                needs[symbol] = self.support
        with LOCK:
            builder = binding().JITLibraryBuilder().add_current_process()
            for part in (data, *more):
                builder.add_object_img(part)
            for symbol, code in needs.items():
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
        return Code({name: tracker[name] for name in names}, (tracker, *needs.values()))

    def load_once(self, objects: Mapping[str, bytes]) -> dict[str, Code]:
        """Functions by their names, each from an object, which may hold several: those that are
        not loaded yet are linked object by object.

        Raises:
            CompileError: if a symbol is missing.
        """
        with LOCK:
            found, missing = self._sorted(objects)
            for data, names in missing.items():
                found |= self._note(self.load(data, names), data, names)
            return found

    def load_with(self, name: str, data: bytes, objects: Mapping[str, bytes]) -> Code:
        """A function that calls others: as if they were loaded once, and then it.

        They become one library where that can be, since each takes 40 KB beside its code.

        Raises:
            CompileError: if a symbol is missing.
        """
        with LOCK:
            found, missing = self._sorted(objects)
            together = [name, *itertools.chain(*missing.values())]
            try:
                code = self.load(data, together, found, list(missing))
            except CompileError:  # objects of several functions may have some of them in common
                return self.load(data, [name], self.load_once(objects))
            for part, names in missing.items():
                self._note(code, part, names)
            return code

    def _sorted(
        self, objects: Mapping[str, bytes]
    ) -> tuple[dict[str, Code], dict[bytes, list[str]]]:
        """The functions that are loaded, and the objects of the others, with their names."""
        found: dict[str, Code] = {}
        missing: dict[bytes, list[str]] = {}
        for name, data in objects.items():
            code = self._loaded.get((name, data))
            if code is None:
                missing.setdefault(data, []).append(name)
            else:
                found[name] = code
        return found, missing

    def _note(self, code: Code, data: bytes, names: Sequence[str]) -> dict[str, Code]:
        """Find these functions of an object there from now on."""
        for name in names:
            self._loaded[name, data] = code
        return dict.fromkeys(names, code)
