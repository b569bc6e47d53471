"""Compilation ahead: a thread makes the objects that programs load; its failures are repeated."""

from __future__ import annotations

import os
import pathlib
import threading
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.config import config
from tfn.eager import registry, run
from tfn.errors import CompileError
from tfn.hw.compile.ahead import Ahead
from tfn.hw.compile.llvm import LlvmCompiler, merged
from tfn.hw.cpu.target import host
from tfn.lower.target.target import Target

TEXT = """define double @NAME(double %x) #0 {
  %y = call double @llvm.fabs.f64(double %x)
  ret double %y
}
declare double @llvm.fabs.f64(double)
attributes #0 = { nounwind "no-builtins" }
"""
TEXTS = [TEXT.replace("NAME", f"ahead{i}") for i in range(12)]


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> LlvmCompiler:
    monkeypatch.setattr(config, "disk_cache", False)
    return LlvmCompiler()


def end(ahead: Ahead) -> None:
    """Wait for the thread."""
    assert ahead._thread is not None
    ahead._thread.join()


def test_texts_are_compiled_when_they_are_asked_for(compiler: LlvmCompiler) -> None:
    ahead = Ahead(compiler)
    for text in TEXTS:
        ahead.begin(text, host())
    end(ahead)
    assert compiler.counts.compiled == len(TEXTS)
    compiler.compile_all(TEXTS, host())
    assert compiler.counts.compiled == len(TEXTS)


def test_the_thread_touches_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """Objects are stored by who asks for them: until then, there is no folder."""
    monkeypatch.setattr(config, "disk_cache", True)
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")
    compiler = LlvmCompiler()
    ahead = Ahead(compiler)
    for text in TEXTS:
        ahead.begin(text, host())
    end(ahead)
    assert compiler.counts.compiled == len(TEXTS)
    assert not (tmp_path / "cache").exists()
    compiler.compile_all(TEXTS[:1], host())
    other = LlvmCompiler()
    other.compile_all(TEXTS, host())
    assert (other.counts.compiled, other.counts.from_disk) == (0, len(TEXTS))
    ahead = Ahead(LlvmCompiler())
    ahead.begin(TEXTS[0], host())
    assert ahead._thread is None, "what the disk has is not compiled"


def test_one_thread_at_a_time_which_ends(compiler: LlvmCompiler) -> None:
    ahead, names = Ahead(compiler), set()
    for text in TEXTS:
        ahead.begin(text, host())
        names |= {t.name for t in threading.enumerate() if t.name.startswith("tfn-compile")}
        assert sum(t.name == "tfn-compile" for t in threading.enumerate()) <= 1
    end(ahead)
    assert names <= {"tfn-compile"}
    ahead.begin(TEXT.replace("NAME", "later"), host())
    end(ahead)
    assert compiler.counts.compiled == len(TEXTS) + 1


def test_targets_are_not_mixed(compiler: LlvmCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(host(), vector_registers=7)
    seen: list[tuple[int, Target]] = []

    def make(texts: Mapping[str, str], target: Target, level: int = 2) -> bytes:
        seen.append((len(texts), target))
        return b""

    monkeypatch.setattr(compiler, "make", make)
    ahead = Ahead(compiler)
    targets = host(), host(), other
    ahead._texts.extend([(str(i), TEXTS[i], target) for i, target in enumerate(targets)])
    ahead.begin(TEXTS[3], host())
    end(ahead)
    assert seen == [(2, host()), (1, other), (1, host())]


def test_a_failure_is_reported_to_who_needs_the_object(compiler: LlvmCompiler) -> None:
    ahead = Ahead(compiler)
    ahead.begin("define void @broken() { nonsense }", host())
    end(ahead)
    with pytest.raises(CompileError, match="does not accept"):
        compiler.compile("define void @broken() { nonsense }", host())
    ahead.begin(TEXTS[0], host())  # and others go on
    end(ahead)
    assert compiler.counts.compiled == 1


def test_a_forked_child_has_a_thread_of_its_own(compiler: LlvmCompiler) -> None:
    ahead = Ahead(compiler)
    ahead.begin(TEXTS[0], host())
    child = os.fork()
    if not child:
        code = 1
        try:
            ahead.begin(TEXTS[1], host())
            end(ahead)
            compiler.compile(TEXTS[1], host())
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    end(ahead)


def test_long_kernels_of_a_program_are_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    device = replace(run.device("cpu"), begin=lambda text, target: begun.append(text))
    monkeypatch.setitem(registry.DEVICES, "cpu", device)
    monkeypatch.setattr(config, "disk_cache", False)
    run.clear_caches()
    x = np.ones((300, 300), np.float32)
    loaded = run.load(tfn.jit(lambda x: (tnp.exp(x) @ x, x[0] + 3)).trace(x).jaxpr)
    texts = {k.text: k.work_ns for k in loaded.program.kernels}
    assert begun and all(texts[text] > 10_000 for text in begun)
    assert len(begun) < len(texts)


def test_merged_texts_become_the_object_of_linked_ones(
    compiler: LlvmCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = compiler.translate(TEXTS, host(), 2)
    assert len(merged(TEXTS)) == 1
    monkeypatch.setattr("tfn.hw.compile.llvm.merged", list)
    assert compiler.translate(TEXTS, host(), 2) == one


def test_texts_with_data_are_linked(compiler: LlvmCompiler) -> None:
    table = '@table = internal constant [2 x i8] c"ab"\ndefine ptr @of() {\n  ret ptr @table\n}\n'
    assert merged([TEXTS[0], table, TEXTS[1]])[1:] == [table]
    compiler.translate([TEXTS[0], table, TEXTS[1]], host(), 2)
