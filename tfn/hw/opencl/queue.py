"""OpenCL queue: enqueues the commands of a program in order; a call returns before they ran."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, INT32
from tfn.errors import CompileError, DeviceError
from tfn.hw.buffer import Buffer
from tfn.hw.device import Learn, no_entry, no_share
from tfn.hw.opencl import commands as records
from tfn.hw.opencl.commands import Command, record
from tfn.hw.opencl.compiler import OpenClCompiler
from tfn.hw.opencl.driver import Driver
from tfn.hw.opencl.memory import OpenClMemory, memory_of
from tfn.lower.program import Program, Slot, Space
from tfn.trace.argument import filled

Place = tuple[Any, int]
"""A buffer as pyopencl knows it, and an offset in bytes."""


@frozen
class Frame:
    """The memory that commands refer to: that of the program, or of a routine.

    Attributes:
        inputs: the number of buffers before those of the outputs.
        loops: the iteration of each open loop.
    """

    buffers: Sequence[Place]
    inputs: int
    arena: Place
    loops: dict[int, int]

    def place(self, slot: Slot) -> Place:
        """The address of a slot, in the present iteration of the loops that move it."""
        offset = slot.offset + sum(self.loops[number] * step for number, step in slot.strides)
        if slot.space is Space.ARENA:
            memory, start = self.arena
            return memory, start + slot.at + offset
        memory, start = self.buffers[slot.at + (self.inputs if slot.space is Space.OUTPUT else 0)]
        return memory, start + offset


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
        self.commands, self.functions = record(program.steps), functions

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
        places = [(memory_of(b), 0) for b in (*inputs, *outputs)]
        frame = Frame(places, len(inputs), (memory_of(arena), 0), {})
        with self.queue.lock:  # the arguments of a kernel belong to the kernel, not to a launch
            _Run(self).run(self.commands, frame)
        self.queue.driver.queue.flush()

    entry, on_share = no_entry, no_share


class _Run:
    """One run of a program."""

    def __init__(self, executable: OpenClExecutable) -> None:
        self.kernels, self.functions = executable.kernels, executable.functions
        self.queue, self.memory = executable.queue, executable.queue.memory
        self.driver = self.queue.driver
        self.events: dict[int, Any] = {}

    def run(self, commands: Sequence[Command], frame: Frame) -> None:
        """Enqueue commands in order."""
        for command in commands:
            RUN[type(command)](self, command, frame)

    def launch(self, command: records.Launch, frame: Frame) -> None:
        """Enqueue a kernel."""
        kernel, cl = self.kernels[command.kernel], self.driver.cl
        arguments: list[Any] = []
        for slot in command.operands[: kernel.operands]:
            memory, offset = frame.place(slot)
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

    def copy(self, command: records.Copy, frame: Frame) -> None:
        """Enqueue a copy."""
        (target, at), (source, start) = map(frame.place, (command.target, command.source))
        if (target, at) != (source, start) and command.size_bytes:
            self.driver.cl.enqueue_copy(
                self.driver.queue,
                target,
                source,
                byte_count=command.size_bytes,
                src_offset=start,
                dst_offset=at,
            )

    def signal(self, command: records.Signal, frame: Frame) -> None:
        """Enqueue an event."""
        self.events[command.number] = self.driver.cl.enqueue_marker(self.driver.queue)

    def wait(self, command: records.Wait, frame: Frame) -> None:
        """Wait for an event."""
        self.events.pop(command.number).wait()

    def repeat(self, command: records.Repeat, frame: Frame) -> None:
        """Enqueue a loop; the host tests its condition, if it has one."""
        for i in range(command.trips) if command.trips is not None else count():
            frame.loops[command.number] = i
            if command.condition is not None:
                self.run(command.head, frame)
                if not self.memory.fetch(*frame.place(command.condition), (), BOOL):
                    return
            self.run(command.body, frame)

    def choose(self, command: records.Choose, frame: Frame) -> None:
        """Enqueue the branch of an index."""
        index = int(self.memory.fetch(*frame.place(command.index), (), INT32))
        last = len(command.branches) - 1
        self.run(command.branches[min(max(index, 0), last)], frame)

    def routine(self, command: records.Routine, frame: Frame) -> None:
        """Enqueue the commands of a routine."""
        buffers = [frame.place(slot) for slot in command.operands]
        arena = frame.place(command.arena)
        self.run(command.commands, Frame(buffers, command.inputs, arena, {}))

    def host(self, command: records.Host, frame: Frame) -> None:
        """Call a function of the host on copies of its operands, and copy its results back."""
        call = command.call
        results = len(call.host.results)
        places = [frame.place(slot) for slot in call.operands]
        arrays = [
            self.memory.fetch(*place, *kind) for place, kind in zip(places, call.types, strict=True)
        ]
        for x in arrays[results:]:
            x.flags.writeable = False
        filled(call.host.run, self.functions)(arrays[:results], arrays[results:])
        for (memory, at), x in zip(places[:results], arrays, strict=False):
            self.memory.write(memory, at, x)


RUN: dict[type, Callable[[_Run, Any, Frame], None]] = {
    records.Launch: _Run.launch,
    records.Copy: _Run.copy,
    records.Signal: _Run.signal,
    records.Wait: _Run.wait,
    records.Repeat: _Run.repeat,
    records.Choose: _Run.choose,
    records.Routine: _Run.routine,
    records.Host: _Run.host,
}
"""The method that enqueues each command."""


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
