"""Simulated GPUs, and the mark of tests that need a real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.hw.cuda.simulator import SimulatedCuda, translate
from tfn.array import Array
from tfn.config import config
from tfn.eager import operands, operators, registry, run
from tfn.hw.cuda import device, driver
from tfn.hw.cuda.compiler import CudaCompiler
from tfn.hw.cuda.driver import Driver, opened
from tfn.hw.cuda.library import checked, library
from tfn.hw.device import Device
from tfn.numpy import indexing

ON_GPU = (
    pytest.mark.gpu,
    pytest.mark.skipif(bool(driver.available()), reason=f"no GPU: {driver.available()}"),
)
"""The marks of a parameter that stands for a real GPU."""


def needs_gpu(test: Any) -> Any:
    """A test that needs a real GPU."""
    for mark in ON_GPU:
        test = mark(test)
    return test


def real_gpus() -> int:
    """The number of GPUs of this machine."""
    return 0 if driver.available() else library().integer("cuDeviceGetCount")


def gpu(simulated: SimulatedCuda) -> Driver:
    """The driver of a simulated GPU."""
    return opened(checked(simulated.library()))


def device_of(simulated: SimulatedCuda, waits: bool = False, native: bool = False) -> Device:
    """A device whose kernels run on this processor."""
    name = device.DEBUG if waits else "cuda"
    return device.device_of(gpu(simulated), name, CudaCompiler(translate), native)


def simulated_device(waits: bool = False, major: int = 9, native: bool = False) -> Device:
    """A device of a new simulated GPU, of compute capability `major`.0."""
    simulated = SimulatedCuda()
    simulated.attributes["major"] = major
    return device_of(simulated, waits, native)


@contextmanager
def default(device: Device) -> Iterator[None]:
    """Make a device the default one, as ``TFN_DEVICE=cuda`` does."""
    before = config.device
    mine = {
        name: registry.DEVICES.pop(name) for name in [*registry.DEVICES] if name.startswith("cuda")
    }
    registry.DEVICES["cuda"] = device
    device.queue.serve(Array, operators.learn)
    operands._scalar.cache_clear()  # they may be on another simulated GPU
    indexing.starts_operand.cache_clear()
    config.device = "cuda"
    try:
        yield
    finally:
        config.device = before
        for name in [*registry.DEVICES]:
            if name.startswith("cuda"):
                del registry.DEVICES[name]
        registry.DEVICES.update(mine)
        run.clear_caches()
