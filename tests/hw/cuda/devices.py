"""Simulated GPUs, and the mark of tests that need a real one."""

from __future__ import annotations

import pytest

from tests.hw.cuda.simulator import SimulatedCuda, translate
from tfn.hw.cuda import driver
from tfn.hw.cuda.compiler import CudaCompiler
from tfn.hw.cuda.driver import Driver, opened
from tfn.hw.cuda.library import checked
from tfn.hw.cuda.memory import CudaMemory
from tfn.hw.cuda.queue import CudaQueue
from tfn.hw.device import Device

needs_gpu = pytest.mark.skipif(bool(driver.available()), reason=f"no GPU: {driver.available()}")


def gpu(simulated: SimulatedCuda) -> Driver:
    """The driver of a simulated GPU."""
    return opened(checked(simulated.library()))


def device_of(simulated: SimulatedCuda, waits: bool = False) -> Device:
    """A device whose kernels run on this processor."""
    first, compiler = gpu(simulated), CudaCompiler(translate)
    memory = CudaMemory(first)
    queue = CudaQueue(first, compiler, memory, waits)
    return Device("cuda", first.target, compiler, memory, queue)


def simulated_device(waits: bool = False, major: int = 9) -> Device:
    """A device of a new simulated GPU, of compute capability `major`.0."""
    simulated = SimulatedCuda()
    simulated.attributes["major"] = major
    return device_of(simulated, waits)
