"""Compile server: equal objects, aborts, timeouts, many requests to one child."""

from __future__ import annotations

import pytest

from tests.hw.compile.test_child import ABORTS, BASELINE
from tests.hw.programs import SCALE
from tfn.config import config
from tfn.errors import CompileError
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.compile.server import CompileServer


def test_one_child_makes_all_objects() -> None:
    server, here = CompileServer(), LlvmCompiler()
    texts = [SCALE, SCALE.replace("@scale", "@other")]
    expected = here.translate(texts, BASELINE, 2)
    assert server.translate(texts, BASELINE, 2) == expected
    child = server._child
    assert server.translate(texts, BASELINE, 2) == expected
    assert server._child is child


def test_an_abort_is_an_error_and_the_next_text_compiles() -> None:
    server = CompileServer()
    with pytest.raises(CompileError, match="LLVM ERROR"):
        server.translate([ABORTS], BASELINE, 2)
    assert server.translate([SCALE], BASELINE, 2)


def test_a_wrong_text_is_an_error_of_the_same_child() -> None:
    server = CompileServer()
    with pytest.raises(CompileError, match="expected type"):
        server.translate(["define foo"], BASELINE, 2)
    assert server.translate([SCALE], BASELINE, 2)


def test_a_deadline_ends_the_child() -> None:
    server = CompileServer(timeout_seconds=0.01)
    with pytest.raises(CompileError, match=r"took more than 0.01 seconds"):
        server.translate([SCALE], BASELINE, 2)
    server.timeout_seconds = 60.0
    assert server.translate([SCALE], BASELINE, 2)


def test_caches_come_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)
    server = CompileServer()
    compiler = LlvmCompiler(translate=server.translate)
    first = compiler.compile(SCALE, BASELINE)
    server._end()
    assert compiler.compile(SCALE, BASELINE) == first
    assert compiler.counts.from_memory == 1
