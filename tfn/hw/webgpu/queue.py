"""WebGPU queue: a program's commands as dispatches of one command buffer; a call returns at once.

The offsets of the operands of all launches are written into one buffer of uniforms before the
command buffer is submitted.  The host waits where it has to know a value.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tfn.errors import CompileError
from tfn.extend import Learn, Program, commands, driven, events, frozen
from tfn.hw.webgpu.binding import Operand, bindings, bound, described
from tfn.hw.webgpu.driver import Driver, reached
from tfn.hw.webgpu.kernel_log import KernelLog
from tfn.hw.webgpu.wgsl import MAX_GROUPS, shared_bytes

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
        launch: its first place among the launches of the program.
    """

    text: str
    operands: tuple[Operand | None, ...]
    launch: int


@frozen
class _Waiting:
    """A launch that is not submitted yet.

    Attributes:
        pipeline: of its kernel.
        layout: of its bindings.
        buffers: that it binds.
        uniforms: the number of groups, and the offsets of operands.
        groups: their number.
        before, after: copies of buffers: from, offset, to, offset, bytes.
        launch: of its kernel.
    """

    pipeline: Any
    layout: Any
    buffers: Sequence[Any]
    uniforms: np.ndarray[Any, Any]
    groups: int
    before: Sequence[tuple[Any, int, Any, int, int]]
    after: Sequence[tuple[Any, int, Any, int, int]]
    launch: int


class _Launches:
    """Launches that are not submitted yet."""

    def __init__(self, queue: WebGpuQueue, kernels: Mapping[str, _Kernel], number: int) -> None:
        self.queue, self.kernels, self.number = queue, kernels, number
        self.waiting: list[_Waiting] = []

    def enqueue(self, run: driven.DriverRun, command: commands.Launch) -> None:
        """Add a kernel to the command buffer."""
        kernel = self.kernels[command.kernel]
        operands = list(zip(kernel.operands, map(run.place, command.operands)))
        used = {id(memory): memory for x, (memory, _) in operands if x is not None}
        packed, before, after = self.packed(
            list(used.values()), {id(m) for x, (m, _) in operands if x is not None and x.writes}
        )
        homes = {key: packed.get(key, (memory, 0)) for key, memory in used.items()}
        buffers = list({id(memory): memory for memory, _ in homes.values()}.values())
        numbers = {id(memory): i for i, memory in enumerate(buffers)}
        offsets, places = [], []
        for x, (memory, offset) in operands:
            home, begin = homes[id(memory)] if x is not None else (None, 0)
            offsets.append(begin + offset)
            places.append(numbers.get(id(home), -1))
        uniforms = np.zeros(UNIFORM_BYTES * -(-(16 + 4 * len(offsets)) // UNIFORM_BYTES) // 4, "u4")
        uniforms[1] = command.groups
        uniforms[4 : 4 + len(offsets)] = offsets
        pipeline, layout = self.queue.pipeline(kernel.text, tuple(places))
        groups, launch = command.groups, kernel.launch
        self.waiting.append(
            _Waiting(pipeline, layout, buffers, uniforms, groups, before, after, launch)
        )
        if len(self.waiting) == MAX_LAUNCHES:
            self.submit()

    def packed(
        self, buffers: Sequence[Any], written: Collection[int]
    ) -> tuple[dict[int, tuple[Any, int]], list[Any], list[Any]]:
        """The places of buffers that are copied into one, and copies there and back.

        They are the smallest, and as few as leave no more than an adapter binds.

        Args:
            buffers: that a kernel uses.
            written: those that it writes, by `id`.
        """
        most = self.queue.driver.limits["max-storage-buffers-per-shader-stage"]
        moved = sorted(buffers, key=lambda b: int(b.size))[: max(len(buffers) - most + 1, 0)]
        if len(buffers) <= most:
            return {}, [], []
        memory = self.queue.memory
        together = memory.of(memory.allocate(sum(int(b.size) for b in moved)))
        homes, before, after, at = dict[int, tuple[Any, int]](), [], [], 0
        for b in moved:
            homes[id(b)] = (together, at)
            before.append((b, 0, together, at, b.size))
            if id(b) in written:
                after.append((together, at, b, 0, b.size))
            at += b.size
        return homes, before, after

    def submit(self) -> None:
        """Hand the launches so far to the device."""
        if self.waiting:
            with reached(self.queue.driver):
                self._submit()

    def _submit(self) -> None:
        device, usage = self.queue.driver.device, self.queue.driver.wgpu.BufferUsage
        numbers = np.concatenate([launch.uniforms for launch in self.waiting])
        uniform = device.create_buffer_with_data(data=numbers, usage=usage.UNIFORM)
        encoder = device.create_command_encoder()
        work, at = encoder.begin_compute_pass(), 0
        made = dict[tuple[int, ...], Any]()  # most launches bind the arena alone
        log = self.queue.log if self.queue.log.running() else None
        for number, launch in enumerate(self.waiting):
            size = launch.uniforms.nbytes
            key = (id(launch.layout), size, *map(id, launch.buffers))
            if key not in made:
                parts = [(uniform, size), *((b, b.size) for b in launch.buffers)]
                entries = [
                    {"binding": i, "resource": {"buffer": b, "offset": 0, "size": n}}
                    for i, (b, n) in enumerate(parts)
                ]
                made[key] = device.create_bind_group(layout=launch.layout, entries=entries)
            if launch.before:
                work = _copied(encoder, work, launch.before)
            if log:
                work.end()
                work = log.timed(encoder, number)
            work.set_pipeline(launch.pipeline)
            work.set_bind_group(0, made[key], [at])
            at += size
            groups = launch.groups
            work.dispatch_workgroups(min(groups, MAX_GROUPS), -(-groups // MAX_GROUPS))
            if launch.after:
                work = _copied(encoder, work, launch.after)
        work.end()
        times = log and log.resolved(encoder, len(self.waiting))
        asked_ns = time.perf_counter_ns()
        device.queue.submit([encoder.finish()])
        if log:
            log.add(times, [(self.number, launch.launch) for launch in self.waiting], asked_ns)
        self.waiting = []


def _copied(encoder: Any, work: Any, copies: Sequence[tuple[Any, int, Any, int, int]]) -> Any:
    """A new pass, after copies that follow the pass so far."""
    work.end()
    for copy in copies:
        encoder.copy_buffer_to_buffer(*copy)
    return encoder.begin_compute_pass()


class WebGpuQueue:
    """Runs programs in the order in which they are called."""

    def __init__(self, driver: Driver, memory: driven.DriverMemory) -> None:
        self.driver, self.memory = driver, memory
        self.log = KernelLog(driver, MAX_LAUNCHES)
        self.lock = threading.RLock()  # a function of the host may call programs itself
        self._pipelines: dict[tuple[str, tuple[int, ...]], tuple[Any, Any]] = {}
        self._layouts: dict[tuple[bool, ...], Any] = {}

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> driven.DriverExecutable:
        """The program, with its kernels."""
        texts = {k.name: objects[k.name].decode() for k in program.kernels}
        places = {x.kernel.name: i for i, x in reversed([*enumerate(program.launches)])}
        kernels = {name: _Kernel(x, described(x)[1], places[name]) for name, x in texts.items()}
        number, known = events.number_of(program.name, lambda: program, self.driver.target)

        def begin(keep: object = known) -> tuple[driven.Enqueue, Callable[[], None]]:
            launches = _Launches(self, kernels, number)
            return launches.enqueue, launches.submit

        return driven.DriverExecutable(program, self.memory, self.lock, begin)

    def layout(self, writes: tuple[bool, ...]) -> Any:
        """The bindings of kernels that write some of their buffers: uniforms, and each buffer."""
        if writes not in self._layouts:
            kinds = ("storage" if write else "read-only-storage" for write in writes)
            buffers = [
                {"type": "uniform", "has_dynamic_offset": True},
                *({"type": k} for k in kinds),
            ]
            stage = self.driver.wgpu.ShaderStage.COMPUTE
            self._layouts[writes] = self.driver.device.create_bind_group_layout(
                entries=[
                    {"binding": i, "visibility": stage, "buffer": b} for i, b in enumerate(buffers)
                ]
            )
        return self._layouts[writes]

    def pipeline(self, text: str, places: tuple[int, ...]) -> tuple[Any, Any]:
        """A kernel for operands in buffers of these numbers, compiled once, and its bindings.

        Raises:
            CompileError: with the driver's message, or if a group has too little memory.
        """
        found = self._pipelines.get((text, places))
        if found is not None:
            return found
        device, most = self.driver.device, self.driver.limits["max-compute-workgroup-storage-size"]
        if shared_bytes(text) > most:  # which the package does not check
            raise CompileError(
                f"a kernel needs more memory of a group than {self.driver.name} has",
                got=f"{shared_bytes(text):,} bytes of {most:,}",
                hint="run it on the device cpu",
            )
        try:
            with reached(self.driver):
                shader = device.create_shader_module(code=bound(text, places))
                layout = self.layout(tuple(bindings(text, places).values()))
                pipeline = device.create_compute_pipeline(
                    layout=device.create_pipeline_layout(bind_group_layouts=[layout]),
                    compute={"module": shader, "entry_point": "main"},
                )
        except self.driver.wgpu.GPUError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise CompileError(
                f"the WebGPU driver of {self.driver.name} does not accept a kernel",
                got="\n       ".join(lines[:12]),
                hint="this is a fault of tfn, or of the driver",
            ) from None
        self._pipelines[text, places] = found = pipeline, layout
        return found

    def synchronize(self) -> None:
        """Wait until all commands have run."""
        probe = self.memory.allocate(4)
        self.driver.device.queue.read_buffer(self.memory.of(probe))
