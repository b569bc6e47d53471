"""The CPU: five parts together."""

from __future__ import annotations

from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.queue import CpuQueue
from tfn.hw.cpu.target import host
from tfn.hw.device import Device
from tfn.hw.memory import HostMemory


def cpu() -> Device:
    """This machine's cores as a device."""
    compiler, memory = LlvmCompiler(), HostMemory()
    return Device("cpu", host(), compiler, memory, CpuQueue(compiler, memory))
