"""The DSP as a device: five parts together."""

from __future__ import annotations

from collections.abc import Callable

from tfn.extend import Device, LlvmCompiler, memory
from tfn.hw.compile.server import CompileServer
from tfn.hw.cpu.target import named
from tfn.hw.dsp import monitor
from tfn.hw.dsp.emulator import Emulator
from tfn.hw.dsp.fastrpc import transport as fastrpc
from tfn.hw.dsp.fastrpc.node import shared_file
from tfn.hw.dsp.fastrpc.transport import FastRpc
from tfn.hw.dsp.memory import SharedMemory, SharedPool
from tfn.hw.dsp.queue import DspQueue
from tfn.hw.dsp.transport import Transport

FASTRPC_BYTES = 1 << 30
"""Memory shared with a DSP: more than code and stack take, and it is the machine's, not virtual."""


def dsp() -> Device:
    """Makes the device: a Hexagon processor with HVX, emulated by qemu-hexagon.

    Raises:
        DeviceError: if the emulator is not installed.
    """
    shared = SharedMemory()
    return _device("dsp", shared, lambda monitor: Emulator(shared, monitor))


def dsp_fastrpc() -> Device:
    """Makes the device: the Hexagon processor of this machine, by the kernel's driver.

    Raises:
        DeviceError: if there is no node of the driver, or no memory to share.
    """
    interface = fastrpc.present()
    shared = SharedMemory(shared_file(FASTRPC_BYTES), FASTRPC_BYTES)
    return _device("dsp-fastrpc", shared, lambda monitor: FastRpc(shared, monitor, interface))


def _device(name: str, shared: SharedMemory, transport: Callable[[bytes], Transport]) -> Device:
    # LLVM's back end for Hexagon aborts the process at times.
    target, compiler = named("hexagon"), LlvmCompiler(translate=CompileServer().translate)
    pool, library = SharedPool(shared), monitor.library(compiler, target)
    queue = DspQueue(shared, pool, transport(monitor.program(compiler, target)), library)
    return Device(name, target, compiler, memory.HostMemory(pool), queue)
