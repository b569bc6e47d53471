"""The CPU: five parts together; ``cpu-debug`` differs in one, its memory."""

from __future__ import annotations

from tfn.config import config
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu import native
from tfn.hw.cpu.dispatch import SYMBOLS, Dispatch, supported
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.queue import CpuQueue
from tfn.hw.cpu.target import host
from tfn.hw.device import Device
from tfn.hw.guards import DEBUG
from tfn.hw.memory import HostMemory


def cpu() -> Device:
    """This machine's cores as a device, under the name that the configuration gives it."""
    guarded = config.device == DEBUG
    name = DEBUG if guarded else "cpu"
    compiler = LlvmCompiler()
    loader = Loader(compiler)
    if supported():
        code = loader.load(compiler.compile(native.text(guarded), host()), SYMBOLS)
        dispatch = Dispatch(code, name)
        memory = HostMemory(dispatch.pool, dispatch.adopt)
        return Device(name, host(), compiler, memory, CpuQueue(loader, memory, dispatch))
    memory = HostMemory()
    return Device(name, host(), compiler, memory, CpuQueue(loader, memory))
