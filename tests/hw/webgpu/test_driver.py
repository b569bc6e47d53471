"""WebGPU drivers: how an adapter becomes a target, and errors where there is none."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.hw.webgpu.devices import needs_webgpu, shared
from tests.hw.webgpu.test_wgsl import LIMITS
from tfn.errors import DeviceError
from tfn.hw.webgpu import driver
from tfn.trace.op import Op


def test_an_adapter_is_a_target() -> None:
    target = driver.target_of("a GPU", LIMITS, wide=False, fuses=True)
    grid = target.grid
    assert grid is not None and (target.triple, target.cpu) == ("webgpu", "a GPU")
    assert (grid.group_threads, grid.local_bytes) == (256, 16384)
    assert Op.FMA not in target.lacks
    assert Op.FMA in driver.target_of("a GPU", LIMITS, wide=True, fuses=False).lacks


def test_without_the_package_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wgpu", None)
    driver.package.cache_clear()
    with pytest.raises(DeviceError, match=r"needs the package wgpu(?s:.*)tfn\[webgpu\]"):
        driver.package()
    monkeypatch.undo()
    driver.package.cache_clear()


def test_without_an_adapter_an_error_says_what_brings_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(request_adapter_sync=lambda **options: None)
    none = SimpleNamespace(gpu=gpu, GPUError=ValueError)
    monkeypatch.setattr(driver, "package", lambda: none)
    driver.driver.cache_clear()
    with pytest.raises(
        DeviceError, match=r"no WebGPU adapter opens here(?s:.*)mesa-vulkan-drivers"
    ):
        driver.driver(True)
    driver.driver.cache_clear()


def test_importing_tfn_touches_no_driver() -> None:
    code = "import sys, tfn; tfn.jit(lambda x: x + 1)(1.0); assert 'wgpu' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@needs_webgpu
def test_the_adapter_of_this_machine() -> None:
    device = shared()
    assert device.name == "webgpu" and device.target.triple in driver.TRIPLES
    assert driver.driver(True).limits["max-storage-buffers-per-shader-stage"] >= 8
