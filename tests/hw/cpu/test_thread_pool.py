"""The native part of the thread pool, and its text for other systems."""

from __future__ import annotations

import ctypes
import os
import struct

import pytest

from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu import thread_pool
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.target import host
from tfn.lower.target.target import Target

COUNT = """
define void @count(i64 %thread, i64 %threads, ptr %buffers, ptr %arena, ptr %sync) {
  %seen = load i64, ptr %sync
  %more = add i64 %seen, 1
  store i64 %more, ptr %sync
  store i64 %more, ptr %arena
  ret void
}
"""


def test_sync_is_zero_whenever_a_program_starts():
    compiler = LlvmCompiler()
    loader = Loader(compiler)
    count = loader.load(compiler.compile(COUNT, host()), ("count",))
    native = loader.load(compiler.compile(thread_pool.text(), host()), ("run",))
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_char_p] * 2)(native.addresses["run"])
    work = ctypes.create_string_buffer(b"x" * 128, 128)
    call = struct.pack("7Q", count.addresses["count"], 64, 32, 0, 0, 0, 0)
    for _ in range(3):
        run(None, call, b"", work)
        assert struct.unpack("Q", work.raw[:8]) == (1,)
    assert work.raw[96:] == b"x" * 32  # beyond sync


def test_cores_are_within_the_affinity_mask():
    assert 1 <= thread_pool.cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    "system, machine, target, has, lacks",
    [
        ("darwin", "arm64", Target("arm64-apple-macosx14", "apple-m1", ""), "usleep", "syscall"),
        ("linux", "aarch64", Target("aarch64-unknown-linux-gnu", "", ""), "i64 98", "mxcsr"),
        ("linux", "x86_64", Target("x86_64-unknown-linux-gnu", "", ""), "i64 202", "usleep"),
        ("linux", "riscv64", Target("riscv64-unknown-linux-gnu", "", "+a,+d"), "i64 98", "isb"),
        ("freebsd", "x86_64", Target("x86_64-unknown-freebsd", "", ""), "mxcsr", "syscall"),
    ],
)
def test_text_compiles_for_other_systems(monkeypatch, system, machine, target, has, lacks):
    monkeypatch.setattr(thread_pool.sys, "platform", system)
    monkeypatch.setattr(thread_pool.platform, "machine", lambda: machine)
    text = thread_pool.text()
    assert has in text and lacks not in text
    assert LlvmCompiler(verify=True).compile(text, target)
