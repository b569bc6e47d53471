"""CUDA as a device: five parts together."""

from __future__ import annotations

from tfn.hw.cuda.compiler import CudaCompiler
from tfn.hw.cuda.driver import Driver, driver
from tfn.hw.cuda.memory import CudaMemory
from tfn.hw.cuda.queue import CudaQueue
from tfn.hw.device import Device

DEBUG = "cuda-debug"


def cuda(name: str = "cuda") -> Device:
    """Makes the device: the first GPU that the process sees.

    Args:
        name: ``cuda``, or ``cuda-debug``, which waits for each kernel and names what fails.

    Raises:
        DeviceError: if there is no driver, or no GPU.
    """
    return device_of(driver(), name)


def device_of(gpu: Driver, name: str = "cuda") -> Device:
    """The device of a GPU whose driver is known."""
    compiler, memory = CudaCompiler(), CudaMemory(gpu)
    queue = CudaQueue(gpu, compiler, memory, waits=name == DEBUG)
    return Device(name, gpu.target, compiler, memory, queue)
