"""The OpenCL compiler: binaries of several texts, kept in memory and on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hw.opencl.devices import needs_opencl
from tests.lower.graphs import jaxpr, p
from tfn.config import config
from tfn.errors import CompileError
from tfn.hw.opencl import driver
from tfn.hw.opencl.compiler import OpenClCompiler, joined
from tfn.lower import pipeline
from tfn.trace import build


def test_common_parts_of_texts_come_once() -> None:
    assert joined(["a\n\nb\n\nc\n", "a\n\nd\n"]) == "a\n\nb\n\nc\n\nd\n"


def texts() -> list[str]:
    target = driver.driver().target
    program = pipeline.lower(jaxpr([p(0, 5) * 2.0, build.flip(p(1, 7), (0,))]), target)
    return [k.text for k in program.kernels]


@needs_opencl
def test_binaries_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    target = driver.driver().target
    first, again, later = (OpenClCompiler(driver.driver()) for _ in range(3))
    both = first.compile_all(texts(), target)
    assert both[0] == both[1] and first.counts.compiled == 2
    assert first.compile_all(texts(), target) == both and first.counts.from_memory == 2
    assert again.compile_all(texts(), target) == both
    assert (again.counts.compiled, again.counts.from_disk) == (0, 2)
    assert again.program(both[0]).num_kernels == 2
    monkeypatch.setattr(config, "disk_cache", False)
    assert later.compile_all(texts(), target) != both and later.counts.compiled == 2
    assert later.program(later.compile(texts()[0], target)).num_kernels == 2


@needs_opencl
def test_the_message_of_the_driver_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)
    compiler = OpenClCompiler(driver.driver())
    with pytest.raises(CompileError, match="does not accept a kernel") as raised:
        compiler.compile("__kernel void k() { nothing; }\n", driver.driver().target)
    assert "nothing" in str(raised.value)


@needs_opencl
def test_keys_hold_all_that_determines_a_binary() -> None:
    first = driver.driver()
    keys = {OpenClCompiler(first).key("a"), OpenClCompiler(first).key("b")}
    assert len(keys | {OpenClCompiler(first, ()).key("a")}) == 3
