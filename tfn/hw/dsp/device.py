"""The DSP as a device: five parts together."""

from __future__ import annotations

from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.compile.server import CompileServer
from tfn.hw.cpu.target import named
from tfn.hw.device import Device
from tfn.hw.dsp import monitor
from tfn.hw.dsp.emulator import Emulator
from tfn.hw.dsp.memory import SharedMemory, SharedPool
from tfn.hw.dsp.queue import DspQueue
from tfn.hw.memory import HostMemory


def dsp() -> Device:
    """Makes the device: a Hexagon processor with HVX, emulated by qemu-hexagon.

    Raises:
        DeviceError: if the emulator is not installed.
    """
    # LLVM's back end for Hexagon aborts the process at times.
    target, compiler = named("hexagon"), LlvmCompiler(translate=CompileServer().translate)
    shared = SharedMemory()
    pool = SharedPool(shared)
    transport = Emulator(shared, monitor.program(compiler, target))
    queue = DspQueue(shared, pool, transport, monitor.library(compiler, target))
    return Device("dsp", target, compiler, HostMemory(pool), queue)
