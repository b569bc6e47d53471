"""The compiler for AMD's GPUs: objects without a device, found again on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hw.amd.devices import TARGET, needs_llvm, output
from tests.lower.graphs import jaxpr, p
from tfn.config import config
from tfn.errors import CompileError
from tfn.hw.amd import compiler
from tfn.hw.amd.compiler import AmdCompiler
from tfn.lower import pipeline


def text() -> str:
    (kernel,) = pipeline.lower(jaxpr([p(0, 300) * 2.0]), TARGET).kernels
    return kernel.text


def test_objects_need_no_device_and_are_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    first, again = AmdCompiler(), AmdCompiler()
    data = first.compile(text(), TARGET, 0)
    assert data[:4] == b"\x7fELF" and first.counts.compiled == 1
    assert again.compile(text(), TARGET, compiler.MIN_LEVEL) == data
    assert (again.counts.compiled, again.counts.from_disk) == (0, 1)


def test_a_text_that_llvm_does_not_take_is_refused() -> None:
    with pytest.raises(CompileError, match="LLVM does not accept a text for amdgcn"):
        AmdCompiler().compile("define void @f(", TARGET)


@needs_llvm
def test_kernels_access_the_memory_of_their_buffers_by_its_own_instructions() -> None:
    data = AmdCompiler().compile(text(), TARGET)
    found = output("llvm-objdump", "-d", "-", given=data)
    assert "global_load_b32" in found and "global_store_b32" in found and "flat_" not in found
