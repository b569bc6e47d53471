"""OpenCL queue: enqueues the commands of a program in order; a call returns before they ran."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfn.dtypes import DType
from tfn.errors import CompileError, DeviceError
from tfn.extend import Buffer, Learn, Program, Shape, argument, frozen, no_entry, no_share
from tfn.extend import commands as records
from tfn.hw.opencl.compiler import OpenClCompiler
from tfn.hw.opencl.driver import Driver
from tfn.hw.opencl.memory import OpenClMemory, memory_of


@frozen
class _Kernel:
    """A kernel as pyopencl knows it, and the number of its operands."""

    handle: Any
    operands: int


class OpenClExecutable:
    """The commands of a program, with its kernels."""

    def __init__(
        self,
        queue: OpenClQueue,
        program: Program,
        kernels: Mapping[str, _Kernel],
        functions: Sequence[Any] = (),
    ) -> None:
        self.queue, self.program, self.kernels = queue, program, kernels
        self.commands, self.functions = records.record(program), functions

    def with_callbacks(self, functions: Sequence[object]) -> OpenClExecutable:
        """The same program with functions of the host in its slots."""
        return OpenClExecutable(self.queue, self.program, self.kernels, functions)

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Enqueue it once.

        Raises:
            OutOfMemoryError: before anything runs.
            DeviceError: if a buffer is of another device, or the driver refuses a command.
            Exception: what a function of the host raised.
        """
        arena = self.queue.memory.allocate(self.program.arena_bytes)
        bases = [memory_of(buffer) for buffer in (*inputs, *outputs, arena)]
        with self.queue.lock:  # the arguments of a kernel belong to the kernel, not to a launch
            _Run(self, bases).run(self.commands)
        self.queue.driver.queue.flush()

    entry, on_share = no_entry, no_share


class _Run:
    """One run of a program.

    Attributes:
        bases: inputs, outputs and the arena, as pyopencl knows them.
        loops: the iteration of each open loop.
    """

    def __init__(self, executable: OpenClExecutable, bases: Sequence[Any]) -> None:
        self.kernels, self.functions = executable.kernels, executable.functions
        self.driver, self.memory = executable.queue.driver, executable.queue.memory
        self.bases, self.loops = bases, dict[int, int]()

    def run(self, commands: Sequence[records.Command]) -> None:
        """Enqueue commands in order."""
        for command in commands:
            RUN[type(command)](self, command)

    def place(self, address: records.Address) -> tuple[Any, int]:
        """The buffer of an operand and the offset there, in the present iteration of loops."""
        moved = sum(self.loops[number] * step for number, step in address.strides)
        return self.bases[address.base], address.offset + moved

    def number(self, address: records.Address, dtype: DType) -> int:
        """A number that the commands so far have written."""
        return int(self.fetch(address, (), dtype))

    def fetch(self, address: records.Address, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """Copy an operand to the host, and wait."""
        return self.memory.fetch(*self.place(address), shape, dtype)

    def write(self, address: records.Address, x: np.ndarray[Any, Any]) -> None:
        """Copy a value to an operand."""
        self.memory.write(*self.place(address), x)

    def launch(self, command: records.Launch) -> None:
        """Enqueue a kernel."""
        kernel, cl = self.kernels[command.kernel], self.driver.cl
        arguments: list[Any] = []
        for operand in command.operands[: kernel.operands]:
            memory, offset = self.place(operand)
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

    def host(self, command: records.Host) -> None:
        """Call a function of the host."""
        function = argument.filled(command.call.host.run, self.functions)
        records.call_host(command, function, self.fetch, self.write)


RUN: dict[type, Callable[[_Run, Any], None]] = {
    records.Launch: _Run.launch,
    records.Repeat: records.repeat,
    records.Choose: records.choose,
    records.Host: _Run.host,
}
"""The function that enqueues each command."""


class OpenClQueue:
    """Runs programs in the order in which they are called."""

    def __init__(self, driver: Driver, compiler: OpenClCompiler, memory: OpenClMemory) -> None:
        self.driver, self.compiler, self.memory = driver, compiler, memory
        self.lock = threading.RLock()  # a function of the host may call programs itself

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> OpenClExecutable:
        """The program, with its kernels.

        Raises:
            CompileError: if a kernel needs more local memory, or larger groups, than there are.
        """
        kernels = {k.name: self._kernel(k.name, k.threads, objects) for k in program.kernels}
        return OpenClExecutable(self, program, kernels)

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
