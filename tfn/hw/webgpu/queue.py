"""WebGPU queue: a program's commands as dispatches of one command buffer; a call returns at once.

The offsets of the operands of all launches are written into one buffer of uniforms before the
command buffer is submitted.  The host waits where it has to know a value.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfn.dtypes import DType
from tfn.errors import CompileError
from tfn.extend import Buffer, Learn, Program, Shape, argument, frozen, no_entry, no_share
from tfn.extend import commands as records
from tfn.hw.webgpu.binding import Operand, bound, described
from tfn.hw.webgpu.driver import Driver
from tfn.hw.webgpu.memory import WebGpuMemory, memory_of
from tfn.hw.webgpu.wgsl import MAX_GROUPS

UNIFORM_BYTES = 256
"""Offsets of uniforms are multiples of this on every device."""
MAX_LAUNCHES = 256
"""Launches of a command buffer: the device begins while the next ones are written."""


@frozen
class _Kernel:
    """A kernel before it knows its buffers.

    Attributes:
        text: of `wgsl.kernel_text`.
        operands: as the text describes them.
    """

    text: str
    operands: tuple[Operand | None, ...]


class WebGpuExecutable:
    """The commands of a program, with its kernels."""

    def __init__(
        self,
        queue: WebGpuQueue,
        program: Program,
        kernels: Mapping[str, _Kernel],
        functions: Sequence[Any] = (),
    ) -> None:
        self.queue, self.program, self.kernels = queue, program, kernels
        self.commands, self.functions = records.record(program), functions

    def with_callbacks(self, functions: Sequence[object]) -> WebGpuExecutable:
        """The same program with functions of the host in its slots."""
        return WebGpuExecutable(self.queue, self.program, self.kernels, functions)

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Enqueue it once.

        Raises:
            OutOfMemoryError: before anything runs.
            DeviceError: if a buffer is of another device.
            Exception: what a function of the host raised.
        """
        arena = self.queue.memory.allocate(self.program.arena_bytes)
        bases = [memory_of(buffer) for buffer in (*inputs, *outputs, arena)]
        with self.queue.lock:
            run = _Run(self, bases)
            run.run(self.commands)
            run.submit()

    entry, on_share = no_entry, no_share


class _Run:
    """One run of a program.

    Attributes:
        bases: inputs, outputs and the arena, as wgpu knows them.
        loops: the iteration of each open loop.
        launches: that are not submitted yet: pipeline, buffers, uniforms and number of groups.
    """

    def __init__(self, executable: WebGpuExecutable, bases: Sequence[Any]) -> None:
        self.kernels, self.functions = executable.kernels, executable.functions
        self.queue, self.memory = executable.queue, executable.queue.memory
        self.bases, self.loops = bases, dict[int, int]()
        self.launches: list[tuple[Any, list[Any], np.ndarray[Any, Any], int]] = []

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
        self.submit()
        return self.memory.fetch(*self.place(address), shape, dtype)

    def write(self, address: records.Address, x: np.ndarray[Any, Any]) -> None:
        """Copy a value to an operand."""
        self.submit()
        self.memory.write(*self.place(address), x)

    def launch(self, command: records.Launch) -> None:
        """Add a kernel to the command buffer."""
        kernel = self.kernels[command.kernel]
        buffers: list[Any] = []
        places: list[int] = []
        offsets: list[int] = []
        for address, operand in zip(command.operands, kernel.operands):
            memory, offset = self.place(address)
            offsets.append(offset)
            if operand is None:
                places.append(-1)
                continue
            at = next((i for i, other in enumerate(buffers) if other is memory), len(buffers))
            if at == len(buffers):
                buffers.append(memory)
            places.append(at)
        uniforms = np.zeros(UNIFORM_BYTES * -(-(16 + 4 * len(offsets)) // UNIFORM_BYTES) // 4, "u4")
        uniforms[1] = command.groups
        uniforms[4 : 4 + len(offsets)] = offsets
        pipeline = self.queue.pipeline(kernel.text, tuple(places), len(buffers))
        self.launches.append((pipeline, buffers, uniforms, command.groups))
        if len(self.launches) == MAX_LAUNCHES:
            self.submit()

    def host(self, command: records.Host) -> None:
        """Call a function of the host."""
        function = argument.filled(command.call.host.run, self.functions)
        records.call_host(command, function, self.fetch, self.write)

    def submit(self) -> None:
        """Hand the launches so far to the device."""
        if not self.launches:
            return
        device, usage = self.queue.driver.device, self.queue.driver.wgpu.BufferUsage
        numbers = np.concatenate([uniforms for _, _, uniforms, _ in self.launches])
        uniform = device.create_buffer_with_data(data=numbers, usage=usage.UNIFORM)
        encoder = device.create_command_encoder()
        work = encoder.begin_compute_pass()
        at = 0
        for pipeline, buffers, uniforms, groups in self.launches:
            parts = [(uniform, at, uniforms.nbytes), *((b, 0, b.size) for b in buffers)]
            at += uniforms.nbytes
            entries = [
                {"binding": i, "resource": {"buffer": b, "offset": begin, "size": size}}
                for i, (b, begin, size) in enumerate(parts)
            ]
            group = device.create_bind_group(
                layout=pipeline.get_bind_group_layout(0), entries=entries
            )
            work.set_pipeline(pipeline)
            work.set_bind_group(0, group)
            work.dispatch_workgroups(min(groups, MAX_GROUPS), -(-groups // MAX_GROUPS))
        work.end()
        device.queue.submit([encoder.finish()])
        self.launches = []


RUN: dict[type, Callable[[_Run, Any], None]] = {
    records.Launch: _Run.launch,
    records.Repeat: records.repeat,
    records.Choose: records.choose,
    records.Host: _Run.host,
}
"""The function that enqueues each command."""


class WebGpuQueue:
    """Runs programs in the order in which they are called."""

    def __init__(self, driver: Driver, memory: WebGpuMemory) -> None:
        self.driver, self.memory = driver, memory
        self.lock = threading.RLock()  # a function of the host may call programs itself
        self._pipelines: dict[tuple[str, tuple[int, ...]], Any] = {}

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> WebGpuExecutable:
        """The program, with its kernels."""
        texts = {k.name: objects[k.name].decode() for k in program.kernels}
        kernels = {name: _Kernel(text, described(text)[1]) for name, text in texts.items()}
        return WebGpuExecutable(self, program, kernels)

    def pipeline(self, text: str, places: tuple[int, ...], buffers: int) -> Any:
        """A kernel for operands in buffers of these numbers, compiled once.

        Raises:
            CompileError: with the driver's message, or for more buffers than a kernel can have.
        """
        found = self._pipelines.get((text, places))
        if found is not None:
            return found
        most = self.driver.limits["max-storage-buffers-per-shader-stage"]
        if buffers > most:
            raise CompileError(
                "a kernel has more operands than this adapter has storage buffers",
                got=f"{buffers} buffers of {most}",
                hint="call fewer arrays at once, or stack them",
            )
        device = self.driver.device
        try:
            shader = device.create_shader_module(code=bound(text, places))
            found = device.create_compute_pipeline(
                layout="auto", compute={"module": shader, "entry_point": "main"}
            )
        except self.driver.wgpu.GPUError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise CompileError(
                f"the WebGPU driver of {self.driver.name} does not accept a kernel",
                got="\n       ".join(lines[:12]),
                hint="this is a fault of tfn, or of the driver",
            ) from None
        self._pipelines[text, places] = found
        return found

    def synchronize(self) -> None:
        """Wait until all commands have run."""
        probe = self.memory.allocate(4)
        self.driver.device.queue.read_buffer(memory_of(probe))
