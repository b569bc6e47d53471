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
    call = struct.pack("9Q", count.addresses["count"], 64, 32, *[0] * 6)
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


# The choice between one thread and all.


@pytest.fixture(scope="module")
def native():
    compiler = LlvmCompiler()
    names = ("choose", "learn", "miss")
    return Loader(compiler).load(compiler.compile(thread_pool.text(), host()), names)


class Program:
    """A program that takes as long as it is told, and a pool that holds no threads."""

    def __init__(self, native, alone_ns, shared_ns, estimate_ns=20_000):
        signatures = {
            "choose": (ctypes.c_bool, [ctypes.c_void_p] * 2 + [ctypes.c_bool, ctypes.c_int64]),
            "learn": (None, [ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool, ctypes.c_int64]),
            "miss": (None, [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2),
        }
        for name, (result, arguments) in signatures.items():
            setattr(self, name, ctypes.CFUNCTYPE(result, *arguments)(native.addresses[name]))
        self.alone_ns, self.shared_ns, self.estimate_ns = alone_ns, shared_ns, estimate_ns
        self.pool = ctypes.create_string_buffer(thread_pool.POOL_BYTES)
        self.times = ctypes.create_string_buffer(thread_pool.TIMES_BYTES)

    def calls(self, count, asleep=False):
        """Which of some calls are shared."""
        found = []
        for _ in range(count):
            pool, times = ctypes.addressof(self.pool), ctypes.addressof(self.times)
            shared = self.choose(pool, times, asleep, self.estimate_ns)
            self.learn(times, asleep, shared, self.shared_ns if shared else self.alone_ns)
            found.append(shared)
        return found

    def missed(self, count, pause_ns):
        """How often workers are woken by calls on one thread, with a pause between them."""
        now = 10**9
        for _ in range(count):
            now += pause_ns
            pool, times = ctypes.addressof(self.pool), ctypes.addressof(self.times)
            self.miss(pool, times, now, now + self.alone_ns)
            now += self.alone_ns
        return struct.unpack("Q", self.pool.raw[:8])[0] >> 32


@pytest.mark.parametrize("alone, shared, better", [(8_000, 12_000, 0), (12_000, 8_000, 1)])
def test_the_faster_way_is_found_and_the_other_tried_now_and_then(native, alone, shared, better):
    program = Program(native, alone, shared)
    first = program.calls(18)
    assert True in first and False in first
    later = program.calls(2048)
    assert later.count(bool(better)) == 2048 - 8


def test_a_small_gain_is_not_worth_a_core(native):
    program = Program(native, 10_000, 9_500)
    program.calls(18)
    assert program.calls(2048).count(True) == 8


def test_a_choice_follows_a_machine_that_becomes_busy(native):
    program = Program(native, 12_000, 8_000)
    program.calls(100)
    program.shared_ns = 40_000
    program.calls(600)
    assert program.calls(100).count(True) <= 2


def test_a_long_program_is_not_tried_on_one_thread(native):
    program = Program(native, 10**9, thread_pool.TRIED_ALONE_NS)
    assert program.calls(2000).count(False) == 0


def test_a_short_program_does_not_wait_for_workers_that_sleep(native):
    assert Program(native, 8_000, 40_000).calls(1000, asleep=True).count(True) == 0
    long = Program(native, 400_000, 250_000, thread_pool.WORTH_WAKING_NS)
    assert long.calls(1000, asleep=True)[18:].count(True) > 970


def test_an_estimate_that_is_wrong_wakes_workers_in_vain_a_few_times(native):
    program = Program(native, 8_000, 40_000, estimate_ns=10**6)
    assert program.calls(1000, asleep=True).count(True) == 1


def test_workers_are_woken_for_calls_that_follow_each_other_closely(native):
    for alone_ns in (10_000, 90_000):
        assert Program(native, alone_ns, 6_000).missed(100, 3 * thread_pool.IDLE_NS) == 0
    untried = Program(native, 10_000, 6_000)  # half of its time is what it may miss
    assert untried.missed(100, 1_000) == 99 // (thread_pool.WAKING_NS // 5_039 + 1)
    slower = Program(native, 10_000, 20_000)
    slower.calls(20)
    assert slower.missed(100, 1_000) == 0
    assert slower.missed(10_000, 1_000) == 10_000 * 39 // thread_pool.WAKING_NS, "for a trial"


def test_another_pool_is_another_choice(native):
    program = Program(native, 8_000, 12_000)
    program.calls(100)
    other = program.pool = ctypes.create_string_buffer(thread_pool.POOL_BYTES)
    assert program.calls(1) == [True] and other
