"""CUDA as a device: five parts together."""

from __future__ import annotations

from functools import cache

from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu import native
from tfn.hw.cpu.dispatch import SYMBOLS, Dispatch
from tfn.hw.cpu.interpreter import supported
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.target import host
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


@cache
def _native() -> bytes:
    """The native side of programs that run after their calls, as an object."""
    return LlvmCompiler().compile(native.text(queued=True), host())


def device_of(
    gpu: Driver,
    name: str = "cuda",
    compiler: CudaCompiler | None = None,
    native_entries: bool = True,
) -> Device:
    """The device of a GPU whose driver is known.

    Args:
        native_entries: whether calls run without Python, where the interpreter allows it.
    """
    compiler, memory = compiler or CudaCompiler(), CudaMemory(gpu)
    waits, dispatch = name == DEBUG, None
    if native_entries and not waits and supported():
        code = Loader(LlvmCompiler()).load(_native(), SYMBOLS)
        dispatch = Dispatch(code, name, memory)
    queue = CudaQueue(gpu, compiler, memory, waits, dispatch)
    return Device(name, gpu.target, compiler, memory, queue)
