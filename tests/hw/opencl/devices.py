"""The OpenCL device of the tests, and the mark of tests that need one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tfn.hw.device import Device
from tfn.hw.opencl import driver
from tfn.hw.opencl.compiler import OPTIONS, OpenClCompiler
from tfn.hw.opencl.device import opencl
from tfn.hw.opencl.queue import OpenClQueue

refused = " ".join(driver.available().split())

needs_opencl = pytest.mark.skipif(bool(refused), reason=f"OpenCL is NOT TESTED: {refused}")


@cache
def quick() -> Device:
    """The device, with kernels that are not optimised: for most tests compilation takes longest."""
    device = opencl()
    compiler = OpenClCompiler(driver.driver(), (*OPTIONS, "-cl-opt-disable"))
    queue = OpenClQueue(driver.driver(), compiler, device.memory)  # type: ignore[arg-type]
    return replace(device, compiler=compiler, queue=queue)
