"""Compiler in a child process: equal objects, aborts, timeouts."""

from __future__ import annotations

import os
import sys

import pytest

from tests.hw.programs import SCALE
from tfn.errors import CompileError
from tfn.hw.compile.child import ChildCompiler
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.lower.target.target import Target

BASELINE = Target("x86_64-unknown-linux-gnu", "x86-64", "")
ABORTS = """
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
define <16 x float> @f(<16 x float> %c, <32 x bfloat> %a) {
  %y = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(
      <16 x float> %c, <32 x bfloat> %a, <32 x bfloat> %a)
  ret <16 x float> %y
}
"""


def test_the_child_makes_the_same_object():
    assert ChildCompiler().compile(SCALE, BASELINE) == LlvmCompiler().compile(SCALE, BASELINE)


def test_the_child_imports_nothing_from_the_working_folder(tmp_path, monkeypatch):
    for name in ("json", "llvmlite", "tfn"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')")
    monkeypatch.setattr(sys, "path", [os.path.abspath(path) for path in sys.path])
    monkeypatch.chdir(tmp_path)
    assert ChildCompiler().compile(SCALE, BASELINE)


def test_an_abort_of_llvm_is_an_error():
    with pytest.raises(CompileError, match="LLVM ERROR") as caught:
        ChildCompiler().compile(ABORTS, BASELINE)
    assert "feature that the target lacks" in str(caught.value)


def test_a_wrong_text_is_an_error():
    with pytest.raises(CompileError, match="expected type"):
        ChildCompiler().compile("define foo", BASELINE)


def test_a_deadline_ends_the_child():
    with pytest.raises(CompileError, match=r"took more than 0.01 seconds"):
        ChildCompiler(timeout_seconds=0.01).compile(SCALE, BASELINE)
