"""OpenCL queue: enqueues the commands of a program in order; a call returns before they ran."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from tfn.errors import CompileError, DeviceError
from tfn.extend import Learn, Program, commands, driven, frozen
from tfn.hw.opencl.compiler import OpenClCompiler
from tfn.hw.opencl.driver import Driver


@frozen
class _Kernel:
    """A kernel as pyopencl knows it, and the number of its operands."""

    handle: Any
    operands: int


class OpenClQueue:
    """Runs programs in the order in which they are called."""

    def __init__(
        self, driver: Driver, compiler: OpenClCompiler, memory: driven.DriverMemory
    ) -> None:
        self.driver, self.compiler, self.memory = driver, compiler, memory
        self.lock = threading.RLock()  # a function of the host may call programs itself

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> driven.DriverExecutable:
        """The program, with its kernels.

        Raises:
            CompileError: if a kernel needs more local memory, or larger groups, than there are.
        """
        kernels = {k.name: self._kernel(k.name, k.threads, objects) for k in program.kernels}
        begun = partial(self._launch, kernels), self.driver.queue.flush
        # The arguments of a kernel belong to the kernel, not to a launch: hence the lock.
        return driven.DriverExecutable(program, self.memory, self.lock, lambda: begun)

    def _launch(
        self, kernels: Mapping[str, _Kernel], run: driven.DriverRun, command: commands.Launch
    ) -> None:
        """Enqueue a kernel."""
        kernel, cl = kernels[command.kernel], self.driver.cl
        arguments: list[Any] = []
        for operand in command.operands[: kernel.operands]:
            memory, offset = run.place(operand)
            arguments += (memory, np.uint64(offset))
        try:
            kernel.handle.set_args(*arguments)
            cl.enqueue_nd_range_kernel(
                self.driver.queue,
                kernel.handle,
                (command.groups * command.threads,),
                (command.threads,),
            )
        except cl.Error as error:
            raise DeviceError(
                f"the OpenCL driver does not run the kernel {command.kernel}",
                got=f"{error}, {command.groups} groups of {command.threads} threads",
                hint="this is a fault of tfn, or of the driver",
            ) from None

    def _kernel(self, name: str, threads: int, objects: Mapping[str, bytes]) -> _Kernel:
        cl, device = self.driver.cl, self.driver.device
        handle = cl.Kernel(self.compiler.program(objects[name]), name)
        info = cl.kernel_work_group_info
        needs = int(handle.get_work_group_info(info.LOCAL_MEM_SIZE, device))
        if needs > device.local_mem_size:
            raise CompileError(
                f"the kernel {name} needs more local memory than a group can have",
                got=f"{needs:,} bytes of {device.local_mem_size:,}",
                hint="its tiles are too large for this device",
            )
        most = int(handle.get_work_group_info(info.WORK_GROUP_SIZE, device))
        if threads > most:
            raise CompileError(
                f"the kernel {name} has larger groups than the device can run",
                got=f"{threads} threads of {most}",
                hint="its threads need too many registers for this device",
            )
        return _Kernel(handle, handle.num_args // 2)

    def synchronize(self) -> None:
        """Wait until all commands have run."""
        self.driver.queue.finish()
