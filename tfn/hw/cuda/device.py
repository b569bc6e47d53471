"""CUDA as a device: five parts together, for one GPU or several."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tfn.errors import DeviceError
from tfn.extend import Device, LlvmCompiler, frozen, host
from tfn.hw.cpu import native
from tfn.hw.cpu.dispatch import SYMBOLS, Dispatch
from tfn.hw.cpu.interpreter import supported
from tfn.hw.cpu.loader import Loader
from tfn.hw.cuda import nccl
from tfn.hw.cuda.compiler import CudaCompiler
from tfn.hw.cuda.driver import Driver, driver, opened
from tfn.hw.cuda.memory import CudaMemory
from tfn.hw.cuda.peers import GroupMemory, GroupQueue
from tfn.hw.cuda.queue import CudaQueue

DEBUG = "cuda-debug"


def cuda(name: str = "cuda") -> Device:
    """Makes the device: the GPUs that the process sees, of which the first is the default one.

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
    """The device of a GPU whose driver is known, and by it of the others beside this one.

    Args:
        native_entries: whether calls run without Python, where the interpreter allows it.
    """
    compiler = compiler or CudaCompiler()
    made: dict[int, _Gpu] = {}

    def one(number: int) -> _Gpu:
        if number not in made:
            driver = gpu if number == gpu.number else opened(gpu.library, number)
            made[number] = _gpu(driver, name, compiler, native_entries)
            if driver is not gpu:
                made[gpu.number].queue.others.append(made[number].queue)
        return made[number]

    def others(numbers: tuple[int, ...]) -> Device:
        found = [one(number) for number in numbers]
        shown, first = f"{name}:{','.join(map(str, numbers))}", found[0]
        target = first.driver.target
        if len(found) == 1:
            return Device(shown, target, compiler, first.memory, first.queue)
        drivers = [each.driver for each in found]
        _check_equal_kinds(drivers)
        queue = GroupQueue([each.queue for each in found], nccl.carrier(drivers))
        return Device(shown, target, compiler, GroupMemory([each.memory for each in found]), queue)

    first, count = one(gpu.number), gpu.library.integer("cuDeviceGetCount")
    return Device(name, gpu.target, compiler, first.memory, first.queue, count=count, others=others)


@frozen
class _Gpu:
    """The parts of one GPU."""

    driver: Driver
    memory: CudaMemory
    queue: CudaQueue


def _gpu(driver: Driver, name: str, compiler: CudaCompiler, native_entries: bool) -> _Gpu:
    memory, dispatch = CudaMemory(driver), None
    waits = name == DEBUG
    if native_entries and not waits and supported():
        code = Loader(LlvmCompiler()).load(_native(), SYMBOLS)
        dispatch = Dispatch(code, name, memory)
    return _Gpu(driver, memory, CudaQueue(driver, compiler, memory, waits, dispatch))


def _check_equal_kinds(drivers: Sequence[Driver]) -> None:
    """Check that one program can run on all GPUs.

    Raises:
        DeviceError: if they are of different kinds.
    """
    for other in drivers:
        if other.target != drivers[0].target:
            raise DeviceError(
                "the GPUs of a mesh are of different kinds",
                got=f"GPU {drivers[0].number} is {drivers[0].name}, {drivers[0].target.cpu}; "
                f"GPU {other.number} is {other.name}, {other.target.cpu}",
                hint="CUDA_VISIBLE_DEVICES, or the devices of the mesh, choose those of one kind",
            )
