"""LLVM compiler: targets, caching of objects, errors, threads."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hw.programs import SCALE
from tfn._support import events
from tfn.config import config
from tfn.errors import CompileError
from tfn.hw.compile import llvm
from tfn.hw.compile.llvm import Counts, LlvmCompiler
from tfn.lower.target.target import Target

HEXAGON = Target("hexagon-unknown-linux-musl", "hexagonv68", "+hvxv68,+hvx-length128b")
# Each target and how its objects begin: ELF with its machine's number, WebAssembly, Mach-O, PTX.
TARGETS = [
    (Target("x86_64-unknown-linux-gnu", "x86-64-v3", ""), b"\x7fELF\x02\x01", 62),
    (Target("x86_64-unknown-linux-gnu", "znver4", "+avx512f"), b"\x7fELF\x02\x01", 62),
    (Target("aarch64-unknown-linux-gnu", "neoverse-v2", ""), b"\x7fELF\x02\x01", 183),
    (Target("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+f,+d,+v"), b"\x7fELF\x02\x01", 243),
    (
        Target("hexagon-unknown-linux-musl", "hexagonv68", "+hvxv68,+hvx-length128b"),
        b"\x7fELF\x01\x01",
        164,
    ),
    (Target("wasm32-unknown-unknown", "", "+simd128"), b"\0asm\x01", None),
    (Target("arm64-apple-macosx14", "apple-m1", ""), b"\xcf\xfa\xed\xfe", None),
    (Target("nvptx64-nvidia-cuda", "sm_90", "+ptx83"), b"//", None),
]
HOST_FREE = TARGETS[0][0]


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    monkeypatch.setattr(config, "disk_cache", True)
    return LlvmCompiler(verify=True)


@pytest.mark.parametrize("target, start, machine", TARGETS, ids=lambda t: getattr(t, "cpu", ""))
def test_every_target_compiles_offline(compiler, target, start, machine):
    data = compiler.compile(SCALE, target)
    assert data.startswith(start)
    if machine is not None:
        assert int.from_bytes(data[18:20], "little") == machine
    assert b"scale" in data
    assert compiler.compile(SCALE, target) == data


def test_a_text_is_compiled_once(compiler, tmp_path):
    data = compiler.compile(SCALE, HOST_FREE)
    assert compiler.compile(SCALE, HOST_FREE) == data
    assert compiler.counts == Counts(compiled=1, from_memory=1)
    other = LlvmCompiler()
    assert other.compile(SCALE, HOST_FREE) == data
    assert other.counts == Counts(from_disk=1)


def test_the_key_covers_everything_that_determines_the_object(compiler, monkeypatch):
    keys = {
        compiler.key(SCALE, HOST_FREE),
        compiler.key(SCALE + " ", HOST_FREE),
        compiler.key(SCALE, HOST_FREE, 1),
        compiler.key(SCALE, replace(HOST_FREE, cpu="znver4")),
        compiler.key(SCALE, replace(HOST_FREE, features="+avx512f")),
        compiler.key(SCALE, replace(HOST_FREE, triple="aarch64-unknown-linux-gnu")),
    }
    monkeypatch.setattr("tfn.hw.compile.llvm.llvmlite_version", lambda: "0.99")
    keys.add(compiler.key(SCALE, HOST_FREE))
    assert len(keys) == 7
    # What only the lowering reads does not: the text already differs where it matters.
    assert compiler.key(SCALE, HOST_FREE) == compiler.key(SCALE, replace(HOST_FREE, l1_bytes=1))


def numbered(i):
    return SCALE.replace("@scale", f"@scale{i}")


def test_missing_texts_are_compiled_as_one_module(compiler):
    first = compiler.compile(numbered(0), HOST_FREE)
    found = compiler.compile_all([numbered(i) for i in (0, 1, 2, 1)], HOST_FREE)
    assert found[0] == first and found[1] is found[2] is found[3] is not first
    assert b"scale1" in found[1] and b"scale2" in found[1] and b"scale0" not in found[1]
    assert compiler.counts == Counts(compiled=3, from_memory=1)
    assert compiler.compile(numbered(2), HOST_FREE) is found[1]
    assert compiler.compile_all([], HOST_FREE) == []


def test_each_text_of_a_module_is_found_on_disk(compiler):
    found = compiler.compile_all([numbered(i) for i in range(3)], HOST_FREE)
    other = LlvmCompiler()
    assert other.compile(numbered(1), HOST_FREE) == found[1]
    again = other.compile_all([numbered(3), numbered(2)], HOST_FREE)
    assert again[1] == found[2] and b"scale3" in again[0] and b"scale2" not in again[0]
    assert other.counts == Counts(compiled=1, from_disk=2)


def test_hits_and_misses_of_the_disk_are_events(compiler):
    def told():
        listed = [e for e in events.events()[0] if e.kind == "cache" and e.begin_ns >= begin_ns]
        return [(event.name, event.detail.split(",")[0]) for event in listed]

    begin_ns = time.perf_counter_ns()
    compiler.compile(SCALE, HOST_FREE)
    compiler.compile(SCALE, HOST_FREE)  # from memory, which is not worth an event
    LlvmCompiler().compile(SCALE, HOST_FREE)
    assert told() == [("disk miss", "1 texts compiled"), ("disk hit", "1 objects")]


def test_a_missing_object_is_compiled_again(compiler, tmp_path):
    """As when the cache was pruned, or is damaged: what names it is not believed."""
    texts = [numbered(i) for i in range(3)]
    whole = compiler.compile_all(texts, HOST_FREE)[0]
    largest = max(tmp_path.rglob("*.bin"), key=lambda path: path.stat().st_size)
    assert largest.read_bytes().endswith(whole)
    largest.unlink()
    other = LlvmCompiler()
    (alone,) = other.compile_all(texts[:1], HOST_FREE)
    assert b"scale0" in alone and b"scale1" not in alone
    assert LlvmCompiler().compile_all(texts[:1], HOST_FREE) == [alone]


def test_a_wrong_text_among_others_is_an_error_and_nothing_is_kept(compiler):
    wrong = "define void @f() { %x = fadd float 1.0, i32 2 ret void }"
    with pytest.raises(CompileError, match="does not accept"):
        compiler.compile_all([numbered(0), wrong], HOST_FREE)
    assert compiler.counts == Counts()
    assert b"scale0" in compiler.compile_all([numbered(0)], HOST_FREE)[0]


def test_without_the_disk_cache_nothing_is_written(compiler, tmp_path, monkeypatch):
    monkeypatch.setattr(config, "disk_cache", False)
    compiler.compile(SCALE, HOST_FREE)
    assert not list(tmp_path.iterdir())
    assert LlvmCompiler().compile(SCALE, HOST_FREE)


def test_objects_in_memory_are_bounded(compiler, monkeypatch):
    monkeypatch.setattr(config, "cache_limit_bytes", 6000)
    texts = [SCALE.replace("@scale", f"@scale{i}") for i in range(20)]
    for text in texts:
        compiler.compile(text, HOST_FREE)
    compiler.compile(texts[-1], HOST_FREE)
    compiler.compile(texts[0], HOST_FREE)
    assert compiler.counts == Counts(compiled=20, from_memory=1, from_disk=1)


@pytest.mark.parametrize(
    "text, says",
    [
        ("define void @f() {", "found end of file"),
        ("define void @f() { %x = fadd float 1.0, i32 2 ret void }", "error"),
        ("define void @f() { %x = add i32 %y, 1 ret void }", "undefined value"),
        ("define i32 @f() { ret void }", "value doesn't match function result type"),
    ],
)
def test_errors_have_the_message_of_llvm(compiler, text, says):
    with pytest.raises(CompileError, match=says) as caught:
        compiler.compile(text, HOST_FREE)
    assert "x86_64-unknown-linux-gnu" in str(caught.value)
    assert compiler.counts == Counts()


def test_verifier_refuses_ill_formed_text(compiler):
    text = """
    define void @f(i1 %c) {
      br i1 %c, label %a, label %b
    a:
      %x = add i32 1, 1
      br label %b
    b:
      %y = add i32 %x, 1
      ret void
    }"""
    with pytest.raises(CompileError, match="does not dominate"):
        compiler.compile(text, HOST_FREE)


def test_an_unknown_triple_is_an_error_with_a_hint(compiler):
    with pytest.raises(CompileError, match=r"LLVM cannot make code for 'abacus'[\s\S]*hint"):
        compiler.compile(SCALE, Target("abacus", "", ""))


def test_threads_compile_at_once(compiler):
    texts = [SCALE.replace("@scale", f"@scale{i % 5}") for i in range(20)]
    found: dict[int, bytes] = {}

    def work(i: int) -> None:
        found[i] = compiler.compile(texts[i], HOST_FREE)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[i] == found[i % 5] for i in range(20))
    assert compiler.counts == Counts(compiled=5, from_memory=15)


def test_importing_the_compiler_does_not_import_llvmlite():
    code = "import sys, tfn, tfn.hw.cpu.device; sys.exit('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


INTERRUPTED = """
from types import SimpleNamespace

from llvmlite.binding import ffi, linker
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.target import host

TEXTS = [f"define i32 @f{i}() {{ ret i32 {i} }}" for i in range(3)]
compiler = LlvmCompiler()

def interrupted(*args):
    ffi.lib.LLVMPY_LinkModules(*args)
    raise KeyboardInterrupt

library = SimpleNamespace(LLVMPY_LinkModules=interrupted)
for _ in range(20):
    linker.ffi = SimpleNamespace(lib=library, OutputString=ffi.OutputString)
    try:
        compiler.translate(TEXTS, host(), 0)
    except KeyboardInterrupt:
        pass
    linker.ffi = ffi
    assert compiler.translate(TEXTS, host(), 0)[:4] == b"\\x7fELF"
"""


def test_an_interrupt_while_modules_are_linked_frees_none_of_them_twice() -> None:
    subprocess.run([sys.executable, "-c", INTERRUPTED], check=True)


INTERRUPTED_TEXTS = """
import threading
from llvmlite.binding import ffi
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.target import host

class Library:
    def __getattr__(self, name):
        return getattr(library, name)

    def LLVMPY_DisposeString(self, text):
        library.LLVMPY_DisposeString(text)
        if text.value and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

library, ffi.lib = ffi.lib, Library()
compiler = LlvmCompiler()
for i in range(20):
    text = f"define i32 @f() {{ ret i32 {i} }}"
    assert compiler.translate([text], host(), 0)[:4] == b"\\x7fELF"
"""


def test_an_interrupt_after_a_text_of_llvm_is_freed_does_not_free_it_again() -> None:
    subprocess.run([sys.executable, "-c", INTERRUPTED_TEXTS], check=True)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system tells no pages")
def test_pages_of_code_that_is_not_run_are_given_back(monkeypatch):
    def resident() -> int:
        code = Path("/proc/self/smaps").read_text().split("libllvmlite.so\n")[1:]
        return sum(int(part.split("Rss:")[1].split()[0]) for part in code)

    monkeypatch.setattr(config, "disk_cache", False)
    before, held = LlvmCompiler().compile(SCALE, TARGETS[0][0]), resident()
    llvm.drop_pages()
    assert resident() < held - 1000, "kilobytes"
    assert LlvmCompiler().compile(SCALE, TARGETS[0][0]) == before
