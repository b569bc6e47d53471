"""OpenCL as a device: five parts together."""

from __future__ import annotations

from tfn.extend import Device
from tfn.hw.opencl.compiler import OpenClCompiler
from tfn.hw.opencl.driver import driver
from tfn.hw.opencl.memory import memory_of
from tfn.hw.opencl.queue import OpenClQueue


def opencl() -> Device:
    """Makes the device: the first that an OpenCL driver of this machine has.

    Raises:
        DeviceError: if there is no driver, or no device.
    """
    first = driver()
    compiler, memory = OpenClCompiler(first), memory_of(first)
    return Device("opencl", first.target, compiler, memory, OpenClQueue(first, compiler, memory))
