"""The WebGPU device of the tests, and the mark of tests that need one."""

from __future__ import annotations

from functools import cache

import pytest

from tfn.hw.device import Device
from tfn.hw.webgpu import driver
from tfn.hw.webgpu.device import webgpu

refused = " ".join(driver.available().split())

needs_webgpu = pytest.mark.skipif(bool(refused), reason=f"WebGPU is NOT TESTED: {refused}")


@cache
def shared(wide: bool = True) -> Device:
    """One device for all tests: its pipelines are kept.  Without numbers of 64 bits, another."""
    return webgpu(wide)
