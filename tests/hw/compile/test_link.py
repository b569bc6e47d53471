"""Linker: libraries, missing symbols, a missing linker."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tfn.errors import CompileError
from tfn.hw.compile import link as linking
from tfn.hw.compile.link import link, linker
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.target import TARGETS, host

ADD = "define i32 @add(i32 %x, i32 %y) {\n  %z = add i32 %x, %y\n  ret i32 %z\n}\n"
OPEN = """declare i32 @nowhere_to_be_found()
define i32 @f() {
  %x = call i32 @nowhere_to_be_found()
  ret i32 %x
}
"""
needs_linker = pytest.mark.skipif(linker(host()) is None, reason="there is no linker")


@needs_linker
def test_a_library_can_be_loaded(tmp_path: Path) -> None:
    data = link(LlvmCompiler().compile(ADD, host()), host(), ["add"])
    (tmp_path / "add.so").write_bytes(data)
    assert ctypes.CDLL(str(tmp_path / "add.so")).add(2, 40) == 42


@needs_linker
def test_a_symbol_that_is_missing_is_named() -> None:
    with pytest.raises(CompileError, match="nowhere_to_be_found"):
        link(LlvmCompiler().compile(OPEN, host()), host(), ["f"])


@pytest.mark.parametrize("target", ["wasm32", "riscv64", "host"])
def test_a_missing_linker_is_an_error_with_a_hint(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linking.shutil, "which", lambda name: None)
    monkeypatch.setattr(linking.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match="pip install ziglang; or export an object or C"):
        link(b"", host() if target == "host" else TARGETS[target], ["f"])
