"""AMD compiler: LLVM IR to object files, which the linker of `code_object` links."""

from __future__ import annotations

from collections.abc import Sequence

from tfn.extend import LlvmCompiler, Target, object_cache

MIN_LEVEL = 1
"""LLVM's level for all kernels: below, every value of a kernel goes through memory."""


class AmdCompiler:
    """Compiles kernels once; no device is needed.

    Attributes:
        counts: of texts compiled, and of objects from either cache.
    """

    def __init__(self) -> None:
        self._llvm = LlvmCompiler()
        self.counts: object_cache.Counts = self._llvm.counts

    def compile(self, text: str, target: Target, level: int = 2) -> bytes:
        """An object file from LLVM IR.

        Raises:
            CompileError: with LLVM's message.
        """
        return self.compile_all([text], target, level)[0]

    def compile_all(self, texts: Sequence[str], target: Target, level: int = 2) -> list[bytes]:
        """For each text an object that holds its kernel, and others perhaps.

        Raises:
            CompileError: with LLVM's message.
        """
        return self._llvm.compile_all(texts, target, max(level, MIN_LEVEL))
