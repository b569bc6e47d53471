"""The CPU: five parts together."""

from __future__ import annotations

from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu import native
from tfn.hw.cpu.dispatch import SYMBOLS, Dispatch, supported
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.queue import CpuQueue
from tfn.hw.cpu.target import host
from tfn.hw.device import Device
from tfn.hw.memory import HostMemory


def cpu() -> Device:
    """This machine's cores as a device."""
    compiler = LlvmCompiler()
    loader = Loader(compiler)
    if supported():
        code = loader.load(compiler.compile(native.text(), host()), SYMBOLS)
        dispatch = Dispatch(code)
        memory = HostMemory(dispatch.pool, dispatch.adopt)
        return Device("cpu", host(), compiler, memory, CpuQueue(loader, memory, dispatch))
    memory = HostMemory()
    return Device("cpu", host(), compiler, memory, CpuQueue(loader, memory))
