"""Program cache: a second process schedules nothing; damaged or old files are ignored."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.lower.memory.test_program_rows import PROGRAMS, floats
from tfn import profiler
from tfn.config import config
from tfn.eager import program_cache, run
from tfn.hw.compile import kernel_cache, object_cache
from tfn.hw.cpu.target import host
from tfn.lower import pipeline
from tfn.lower.graph import constants
from tfn.lower.program import Program
from tfn.profiler import tables
from tfn.trace.inline import runnable


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    monkeypatch.setattr(config, "disk_cache", True)
    monkeypatch.setattr(program_cache, "MIN_KERNELS", 1)
    return tmp_path / program_cache.PART


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_second_process_schedules_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were another: nothing is remembered but what is on disk."""
    found: list[Program | None] = []
    find = program_cache.find

    def spy(*args: Any) -> Program | None:
        found.append(find(*args))
        return found[-1]

    monkeypatch.setattr(program_cache, "find", spy)
    f, args = PROGRAMS[name]
    run.clear_caches()
    first = [np.asarray(x) for x in tfn.jit(f)(*args)]
    assert found[0] is None
    del found[:]
    run.clear_caches()
    again = [np.asarray(x) for x in tfn.jit(f)(*args)]
    assert found[0] is not None
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_profiles_of_found_programs_have_figures() -> None:
    f, args = PROGRAMS["training"]
    tfn.jit(f)(*args)
    run.clear_caches()
    step = tfn.jit(f)
    step(*args)
    with profiler.trace() as block:
        for _ in range(3):
            step(*args)[0].block_until_ready()
    assert block.profile is not None
    row = next(row for row in tables.rows(block.profile.events) if row.kind == "program")
    assert row.calls == 3 and row.flops > 0 and row.traffic_bytes > 0


def test_damaged_files_and_other_versions_are_ignored(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, args = PROGRAMS["training"]
    jaxpr = tfn.jit(f).trace(*args).jaxpr
    program_cache.keep(pipeline.lower(jaxpr, host(), hoist=True), host(), True)
    assert program_cache.find(jaxpr, host(), True) is not None
    with monkeypatch.context() as patch:
        patch.setattr(kernel_cache, "version", lambda: "newer")
        assert program_cache.find(jaxpr, host(), True) is None
    assert program_cache.find(jaxpr, replace(host(), vector_registers=7), True) is None
    assert program_cache.find(jaxpr, host(), False) is None
    damaged = [b"", b"{}", b"[1]", b'{"tables": false, "kernels": [[1]]}']
    damaged += map(zlib.compress, damaged[:])
    monkeypatch.setattr(object_cache, "fetch", lambda *_: damaged.pop())
    while damaged:
        assert program_cache.find(jaxpr, host(), True) is None


def test_programs_of_other_tables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their kernels would read inputs that nobody passes."""

    def f(x: Any) -> Any:
        return tnp.cumsum(x * tnp.sin(tnp.arange(4096.0)))

    jaxpr = tfn.jit(f).trace(floats(4096)).jaxpr
    program = pipeline.lower(jaxpr, host(), hoist=True)
    assert program.tables is not None
    program_cache.keep(program, host(), True)
    assert program_cache.find(jaxpr, host(), True) is not None
    monkeypatch.setattr(constants, "MAX_TABLE_BYTES", 0)
    assert program_cache.find(jaxpr, host(), True) is None


def test_programs_that_call_the_host_are_not_stored(folder: Path) -> None:
    def f(x: Any) -> Any:
        y = tfn.pure_callback(np.cumsum, tfn.ShapeDtypeStruct(x.shape, x.dtype), x)
        return tnp.tanh(y).sum(), y @ y, tnp.sort(y)

    jaxpr = runnable(tfn.jit(f).trace(floats(5)).jaxpr.function)[0]
    program = pipeline.lower(run.Jaxpr(jaxpr), host(), hoist=True)
    assert program.host_calls
    program_cache.keep(program, host(), True)
    assert not folder.exists()
