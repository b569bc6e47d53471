"""Kernel timing: the text of timed drivers, for each machine, and what it costs others."""

from __future__ import annotations

import pytest

import tfn
from tests.lower.codegen.render.test_driver import COUNT, OUT, kernel
from tfn.hw.compile.llvm import LlvmCompiler, assembly
from tfn.hw.cpu.target import host, named
from tfn.lower.codegen.render.driver import COUNTERS_OFFSET, driver_text
from tfn.lower.languages import language_of
from tfn.lower.program import LOG_OFFSET, MAX_TIMED_LAUNCHES, NUMBER_OFFSET, Launch

STEPS = [Launch(kernel(f"count{i}", COUNT, i + 1), (OUT, OUT), i > 0) for i in range(3)]


def test_timed_drivers_are_well_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfn.config.config.disk_cache", False)
    assert LlvmCompiler(verify=True).compile(driver_text("entry", STEPS, 0, timed=True), host())


def test_a_timed_driver_notes_each_launch_and_each_barrier() -> None:
    text = driver_text("entry", STEPS, 0, timed=True)
    assert [f"@ran(ptr %clock, i64 {i})" in text for i in range(4)] == [True] * 3 + [False]
    assert text.count("call void @meet") == 2


def test_drivers_of_one_kernel_or_of_too_many_are_not_timed() -> None:
    for steps in (STEPS[:1], STEPS[:1] * (MAX_TIMED_LAUNCHES + 1)):
        assert driver_text("entry", steps, 0, timed=True) == driver_text("entry", steps, 0)


def test_words_of_sync_are_apart() -> None:
    assert {LOG_OFFSET, NUMBER_OFFSET}.isdisjoint({0, 8, 16, 24, 64})
    assert NUMBER_OFFSET + 8 <= 64 < COUNTERS_OFFSET


@pytest.mark.parametrize("name, instruction", [("x86-64-v3", "rdtsc"), ("aarch64", "cntvct_el0")])
def test_each_machine_reads_a_counter_that_users_may_read(name: str, instruction: str) -> None:
    text = driver_text("entry", STEPS, 0, timed=True)
    assert instruction in assembly(text, named(name)).lower()


def test_machines_without_such_a_counter_are_not_timed() -> None:
    for triple, timed in {
        "x86_64-unknown-linux-gnu": True,
        "riscv64-unknown-linux-gnu": False,
        "hexagon": False,
    }.items():
        language = language_of(tfn.Target(triple, "", "", 16, 32))
        assert ("@ran(" in language.driver("entry", STEPS, 0)) is timed
