"""Objects to addresses: machine code linked into this process.

Each kernel is loaded once, into a library of its own; a driver is linked against the addresses of
its kernels.  Code leaves memory when the last `Code` that refers to it is gone.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfn.errors import CompileError
from tfn.hw.compile.llvm import LOCK, binding


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

    def __init__(self) -> None:
        self._jit: Any = None
        self._numbers = itertools.count()  # a library's name cannot be used twice
        self._loaded: weakref.WeakValueDictionary[tuple[str, bytes], Code] = (
            weakref.WeakValueDictionary()
        )

    def load(
        self, data: bytes, names: Sequence[str], imports: Mapping[str, Code] | None = None
    ) -> Code:
        """Functions of an object, which may call `imports` and the C library.

        Raises:
            CompileError: if a symbol is missing.
        """
        llvm = binding()
        imports = imports or {}
        with LOCK:
            if self._jit is None:
                self._jit = llvm.create_lljit_compiler(use_jit_link=True)
            builder = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
            for symbol, code in imports.items():
                builder.import_symbol(symbol, code.addresses[symbol])
            for name in names:
                builder.export_symbol(name)
            try:
                tracker = builder.link(self._jit, f"{names[0]}.{next(self._numbers)}")
            except RuntimeError as error:
                raise CompileError(f"{names[0]} cannot be linked", got=str(error).strip()) from None
        return Code({name: tracker[name] for name in names}, (tracker, *imports.values()))

    def load_once(self, name: str, data: bytes) -> Code:
        """As `load`, but the same object is loaded only once."""
        with LOCK:
            found = self._loaded.get((name, data))
            if found is None:
                found = self._loaded[name, data] = self.load(data, (name,))
            return found
