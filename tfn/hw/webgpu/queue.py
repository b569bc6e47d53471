"""WebGPU queue: a program's commands as dispatches of one command buffer; a call returns at once.

The offsets of the operands of all launches are written into one buffer of uniforms before the
command buffer is submitted.  The host waits where it has to know a value.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfn.errors import CompileError
from tfn.extend import Learn, Program, commands, driven, frozen
from tfn.hw.webgpu.binding import Operand, bound, described
from tfn.hw.webgpu.driver import Driver
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


class _Launches:
    """Launches that are not submitted yet: pipeline, buffers, uniforms and number of groups."""

    def __init__(self, queue: WebGpuQueue, kernels: Mapping[str, _Kernel]) -> None:
        self.queue, self.kernels = queue, kernels
        self.waiting: list[tuple[Any, list[Any], np.ndarray[Any, Any], int]] = []

    def enqueue(self, run: driven.DriverRun, command: commands.Launch) -> None:
        """Add a kernel to the command buffer."""
        kernel = self.kernels[command.kernel]
        buffers: list[Any] = []
        places: list[int] = []
        offsets: list[int] = []
        for address, operand in zip(command.operands, kernel.operands):
            memory, offset = run.place(address)
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
        self.waiting.append((pipeline, buffers, uniforms, command.groups))
        if len(self.waiting) == MAX_LAUNCHES:
            self.submit()

    def submit(self) -> None:
        """Hand the launches so far to the device."""
        if not self.waiting:
            return
        device, usage = self.queue.driver.device, self.queue.driver.wgpu.BufferUsage
        numbers = np.concatenate([uniforms for _, _, uniforms, _ in self.waiting])
        uniform = device.create_buffer_with_data(data=numbers, usage=usage.UNIFORM)
        encoder = device.create_command_encoder()
        work = encoder.begin_compute_pass()
        at = 0
        for pipeline, buffers, uniforms, groups in self.waiting:
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
        self.waiting = []


class WebGpuQueue:
    """Runs programs in the order in which they are called."""

    def __init__(self, driver: Driver, memory: driven.DriverMemory) -> None:
        self.driver, self.memory = driver, memory
        self.lock = threading.RLock()  # a function of the host may call programs itself
        self._pipelines: dict[tuple[str, tuple[int, ...]], Any] = {}

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> driven.DriverExecutable:
        """The program, with its kernels."""
        texts = {k.name: objects[k.name].decode() for k in program.kernels}
        kernels = {name: _Kernel(text, described(text)[1]) for name, text in texts.items()}

        def begin() -> tuple[driven.Enqueue, Callable[[], None]]:
            launches = _Launches(self, kernels)
            return launches.enqueue, launches.submit

        return driven.DriverExecutable(program, self.memory, self.lock, begin)

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
        self.driver.device.queue.read_buffer(self.memory.of(probe))
