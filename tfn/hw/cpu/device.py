"""The CPU: five parts together; ``cpu-debug`` differs in one, its memory."""

from __future__ import annotations

from tfn.config import config
from tfn.hw import cpu as package
from tfn.hw.compile import ahead
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu import native
from tfn.hw.cpu.dispatch import SYMBOLS, Dispatch
from tfn.hw.cpu.interpreter import supported
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.queue import CpuQueue
from tfn.hw.cpu.target import host
from tfn.hw.device import Device, KernelTimer
from tfn.hw.guards import DEBUG
from tfn.hw.memory import HostMemory
from tfn.lower.target.target import Target


def cpu() -> Device:
    """This machine's cores as a device, under the name that the configuration gives it."""
    guarded = config.device == DEBUG
    name = DEBUG if guarded else "cpu"
    compiler = LlvmCompiler()
    loader = Loader(compiler)
    dispatch: Dispatch | None = None
    if supported():
        code = loader.load(compiler.compile(native.text(guarded), host()), SYMBOLS)
        dispatch = Dispatch(code, name)
        memory = HostMemory(dispatch.pool, dispatch.adopt)
    else:
        memory = HostMemory()
    queue = CpuQueue(loader, memory, dispatch)
    begin = ahead.Ahead(compiler).begin if ahead.pays() else None
    return Device(name, host(), compiler, memory, queue, _kernel_timer, begin)


def _kernel_timer(target: Target) -> KernelTimer:
    """Loads its file only now: programs that tune nothing need no subprocesses."""
    return package.kernel_timer.ChildTimer(target)
