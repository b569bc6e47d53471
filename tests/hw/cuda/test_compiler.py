"""The CUDA compiler: PTX without a device, machine code by the driver, and both on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hw.cuda.devices import device_of, gpu
from tests.hw.cuda.simulator import SimulatedCuda, translate
from tests.lower.graphs import inputs, jaxpr, p, run_on
from tfn.config import config
from tfn.errors import CompileError
from tfn.hw.cuda import compiler
from tfn.hw.cuda.compiler import CudaCompiler, image, load_module
from tfn.hw.cuda.target import TARGETS
from tfn.lower import pipeline

TARGET = TARGETS["sm_90"]


def text() -> str:
    (kernel,) = pipeline.lower(jaxpr([p(0, 300) * 2.0]), TARGET).kernels
    return kernel.text


def test_ptx_needs_no_device_and_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    first, again = CudaCompiler(), CudaCompiler()
    ptx = first.compile(text(), TARGET, 0)
    assert b".target sm_90a" in ptx and b"ld.global" in ptx and first.counts.compiled == 1
    assert again.compile(text(), TARGET, 0) == ptx
    assert (again.counts.compiled, again.counts.from_disk) == (0, 1)


def test_no_level_leaves_address_spaces_open() -> None:
    quick = CudaCompiler().compile(text(), TARGET, 0)
    assert quick == CudaCompiler().compile(text(), TARGET, compiler.MIN_LEVEL)


def test_machine_code_is_kept_by_gpu_and_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    ptx = translate([text()], TARGET, 2)
    for version, linked in ((13000, 1), (13000, 0), (13010, 1)):
        simulated = SimulatedCuda(version=version)
        assert image(gpu(simulated), ptx) == ptx
        assert simulated.calls["cuLinkComplete"] == linked
        assert simulated.calls["cuLinkDestroy"] == linked


def test_texts_that_the_linker_spoils_are_loaded_as_they_are() -> None:
    simulated = SimulatedCuda()
    for word in compiler.DIRECT:
        assert image(gpu(simulated), b"// " + word) == b"// " + word
    assert not simulated.calls["cuLinkCreate"]


def test_the_message_of_the_driver_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    first = gpu(SimulatedCuda())
    for load in (image, load_module):
        with pytest.raises(CompileError, match="does not accept a kernel") as raised:
            load(first, b"nothing")
        assert "INVALID_PTX" in str(raised.value) and "line 1: no kernel" in str(raised.value)


def test_a_module_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)
    simulated = SimulatedCuda()
    device, outputs = device_of(simulated), [p(0, 300) * 2.0, p(1, 7) + 1.0]
    for _ in range(2):
        run_on(device, jaxpr(outputs), inputs(outputs))
    assert simulated.calls["cuModuleLoadDataEx"] == 1
