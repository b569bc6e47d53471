"""The WebGPU compiler: texts as they are."""

from __future__ import annotations

from tests.hw.webgpu.test_wgsl import LIMITS
from tfn.hw.webgpu.compiler import WebGpuCompiler
from tfn.hw.webgpu.driver import target_of


def test_texts_are_kept_as_they_are() -> None:
    compiler, target = WebGpuCompiler(), target_of("a GPU", LIMITS, wide=True, fuses=True)
    assert compiler.compile_all(["// é", "b"], target) == ["// é".encode(), b"b"]
    assert compiler.counts.compiled == 2
