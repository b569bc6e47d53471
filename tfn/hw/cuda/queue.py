"""CUDA queue: launches the graphs of a program; a call returns before they have run.

What needs the host, its functions and the loops around them, the host steps through; the rest is
graphs.  On the device ``cuda-debug`` there are none: each kernel is launched by itself and waited
for, so that a fault has a name.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tfn._support.sections import cached_property
from tfn.dtypes import DType
from tfn.errors import CompileError, DeviceError
from tfn.extend import (
    Buffer,
    Entry,
    EntryForm,
    Kernel,
    Learn,
    Message,
    Program,
    Shape,
    argument,
    frozen,
    no_share,
)
from tfn.extend import commands as records
from tfn.hw.cpu.dispatch import Dispatch
from tfn.hw.cuda import compiler, control, solver
from tfn.hw.cuda.compiler import CudaCompiler
from tfn.hw.cuda.driver import Driver
from tfn.hw.cuda.graph import Function, parameters, recorded
from tfn.hw.cuda.launch import Call
from tfn.hw.cuda.library import CudaError
from tfn.hw.cuda.memory import CudaMemory
from tfn.hw.cuda.nccl_processes import Between, connected
from tfn.hw.cuda.solver import Solver
from tfn.hw.cuda.table import WORD_BYTES
from tfn.lower.target.grid import bytes_at_launch

NOTES = logging.getLogger("tfn.cuda")
"""Notes for users; ``logging.basicConfig(level="INFO")`` shows them."""

ARENA_SLACK_BYTES = 64
"""Beyond the arena: a load that is not taken reads the first element, of an empty array too."""

# fmt: off
FUNCTION_ATTRIBUTES = {"threads": 0, "shared_bytes": 1, "registers": 4}  # CUfunction_attribute
MAX_DYNAMIC_SHARED_BYTES = 8  # CUfunction_attribute that is set, where launches ask for memory
# fmt: on


class CudaExecutable:
    """The commands of a program, with its kernels and graphs.

    Attributes:
        commands: those that need no host are graphs, unless the queue launches kernels alone.
        functions: its kernels by name.
    """

    def __init__(
        self,
        queue: CudaQueue,
        program: Program,
        functions: Mapping[str, Function],
        callbacks: Sequence[Any] = (),
    ) -> None:
        self.queue, self.program, self.functions = queue, program, functions
        self.callbacks = callbacks
        commands = records.record(program)
        self.commands = commands if queue.waits else records.divided(commands)
        self._calls: dict[records.Recorded, tuple[Call, Any]] = {}
        self.kernels = queue.memory.launcher.named([kernel.name for kernel in program.kernels])

    def with_callbacks(self, functions: Sequence[object]) -> CudaExecutable:
        """The same program with functions of the host in its slots."""
        other = CudaExecutable(self.queue, self.program, self.functions, functions)
        other._calls, other.kernels = self._calls, self.kernels
        return other

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Enqueue it once.

        Raises:
            OutOfMemoryError: before anything runs.
            DeviceError: if a buffer is of another device, or a program before it has failed.
            Exception: what a function of the host raised.
        """
        with self.queue.memory.lock:
            run = self.begin(inputs, outputs)
            try:
                run.run(self.commands)
            except CudaError as error:
                raise self.queue.failed(error, self.program, run.kernel) from None

    def begin(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Run:
        """A run on these buffers, whose commands are to be enqueued at once.

        Raises:
            OutOfMemoryError: before anything runs.
            DeviceError: if a buffer is of another device, or a program before it has failed.
        """
        memory = self.queue.memory
        with memory.lock:
            memory.check()
            bases = [memory.pointer(buffer) for buffer in (*inputs, *outputs)]
            arena = memory.allocate(self.work_bytes)
            try:
                self.queue.driver.enter()
            except CudaError as error:
                raise self.queue.failed(error, self.program, "") from None
            memory.launcher.note(self.kernels)
            return Run(self, [*bases, memory.pointer(arena)], arena)

    @property
    def work_bytes(self) -> int:
        """Bytes of the arena."""
        return self.program.arena_bytes + ARENA_SLACK_BYTES

    def entry(self, form: EntryForm) -> Entry | None:
        """A builtin that launches the program; see `tfn.hw.device.Executable.entry`.

        There is none for programs with functions of the host, nor where kernels are waited for.
        """
        queue = self.queue
        whole = self.commands[0] if len(self.commands) == 1 else None
        if queue.dispatch is None or (self.commands and not isinstance(whole, records.Recorded)):
            return None
        if isinstance(whole, records.Recorded):
            try:
                call = self.call(whole)
            except CudaError as error:
                raise queue.failed(error, self.program, "") from None
        else:
            buffers = len(self.program.inputs) + len(self.program.outputs)
            call = queue.memory.launcher.call(self.kernels, buffers, None)
        words = {
            "run": queue.memory.launcher.run,
            "call": call.address,
            "pool": 0,
            "work_bytes": self.work_bytes,
            "unlocked": False,
            "number": form.number,
        }
        return queue.dispatch.entry(words, (self, call), form)

    def call(self, command: records.Recorded) -> Call:
        """The call of a graph of commands, which is recorded at its first use."""
        with self.queue.memory.lock:
            return self._call(command)

    def _call(self, command: records.Recorded) -> Call:
        if command not in self._calls:
            memory, buffers = self.queue.memory, list[Buffer]()

            def allocate(size_bytes: int) -> int:
                buffers.append(memory.allocate(size_bytes))
                return memory.pointer(buffers[-1])

            driver = self.queue.driver
            driver.enter()
            controls = any(
                isinstance(c, (records.Repeat, records.Choose)) for c in records.every([command])
            )
            functions = {**(self.queue.control() if controls else {}), **self.functions}
            graph = recorded(driver, functions, command.commands, allocate, memory.write)
            count = len(self.program.inputs) + len(self.program.outputs)
            call = memory.launcher.call(self.kernels, count, graph)
            self._calls[command] = call, buffers  # these live as long as the graph
        return self._calls[command][0]

    on_share = no_share


class Run:
    """One run of a program.

    Attributes:
        bases: the addresses of inputs, outputs and arena.
        loops: the iteration of each loop that the host runs.
        kernel: the one that was launched last, where kernels are waited for.
    """

    def __init__(self, executable: CudaExecutable, bases: Sequence[int], arena: Buffer) -> None:
        self.executable, self.bases = executable, bases
        self._arena = arena  # it lives as long
        self.queue, self.memory = executable.queue, executable.queue.memory
        self.driver = self.queue.driver
        self.loops: dict[int, int] = {}
        self.kernel = ""

    def run(self, commands: Sequence[records.Command]) -> None:
        """Enqueue commands in order."""
        for command in commands:
            RUN[type(command)](self, command)

    def address(self, address: records.Address) -> int:
        """The address of an operand, in the present iteration of the loops that move it."""
        moved = sum(self.loops[number] * step for number, step in address.strides)
        return self.bases[address.base] + address.offset + moved

    def graph(self, command: records.Recorded) -> None:
        """Launch a graph on the present addresses."""
        call, (*buffers, arena) = self.executable.call(command), self.bases
        assert call.graph is not None
        addresses = (ctypes.c_uint64 * len(buffers))(*buffers)
        moves = call.graph.table.moves(self.loops)
        code = self.memory.launcher.launch(call, addresses, arena, moves)
        if code:
            raise self.driver.library.error(code, "cuGraphLaunch")

    def launch(self, command: records.Launch) -> None:
        """Launch a kernel by itself, and wait for it."""
        if not command.groups:
            return
        function, library = self.executable.functions[command.kernel], self.driver.library
        self.kernel = command.kernel
        addresses = np.array([self.address(a) for a in command.operands], np.uint64)
        table = self.memory.allocate(max(len(addresses), 1) * WORD_BYTES)
        self.memory.write(self.memory.pointer(table), addresses)
        library(
            "cuLaunchKernel",
            *(function.handle, command.groups, 1, 1, command.threads, 1, 1),
            *(function.shared_bytes, self.driver.stream),
            *(parameters(ctypes.c_uint64(self.memory.pointer(table))), None),
        )
        library("cuStreamSynchronize", self.driver.stream)

    def number(self, address: records.Address, dtype: DType) -> int:
        """A number that the commands so far have written."""
        return int(self.fetch(address, (), dtype))

    def fetch(self, address: records.Address, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """Copy an operand to the host, and wait."""
        return self.memory.fetch(self.address(address), shape, dtype)

    def write(self, address: records.Address, x: np.ndarray[Any, Any]) -> None:
        """Copy a value to an operand."""
        self.memory.write(self.address(address), x)

    def host(self, command: records.Host) -> None:
        """Call a function of the host on copies of its operands, and copy its results back.

        A routine of LAPACK runs on the device where cuSOLVER has it, and an exchange with other
        processes where these have NCCL.
        """
        call, memory = command.call, self.memory
        function = argument.filled(call.host.run, self.executable.callbacks)
        results = len(call.host.results)
        pointers = [self.address(address) for address in command.operands]
        between = self.queue.between if isinstance(function, Message) else None
        if between and between.exchange(function, pointers, call.types, results):
            return
        library = self.queue.solver if call.types else None
        step = library and library.step(function, pointers, call.types, results)
        if library and step:
            shape, dtype = call.types[-1]
            library.run(step, memory, pointers[-1], prod(shape[:-2]), dtype)
            return
        self.queue.note_host(getattr(function, "name", ""), library is not None)
        records.call_host(command, function, self.fetch, self.write)


RUN: dict[type, Callable[[Run, Any], None]] = {
    records.Recorded: Run.graph,
    records.Launch: Run.launch,
    records.Repeat: records.repeat,
    records.Choose: records.choose,
    records.Host: Run.host,
}
"""The method that runs each command."""


@frozen
class Resources:
    """Limits and needs of a kernel, as the driver says.

    Attributes:
        threads: the most of a group.
        shared_bytes: of a group, static ones.
        registers: of a thread.
    """

    threads: int
    shared_bytes: int
    registers: int


class CudaQueue:
    """Runs programs in the order in which they are called.

    Attributes:
        waits: whether each kernel is launched by itself and waited for.
        dispatch: makes native entries; None where there are none.
        others: the queues of the other GPUs, if this is that of the first.
    """

    def __init__(
        self,
        driver: Driver,
        compiler: CudaCompiler,
        memory: CudaMemory,
        waits: bool = False,
        dispatch: Dispatch | None = None,
    ) -> None:
        self.driver, self.compiler, self.memory, self.waits = driver, compiler, memory, waits
        self.dispatch, self.others = dispatch, list[CudaQueue]()
        if dispatch:
            memory.use(dispatch.pool, dispatch.buffers)
            memory.launcher.serve(dispatch.state)
        self._control: dict[str, Function] = {}
        self._modules: dict[bytes, Any] = {}
        self._noted: set[str] = set()

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """See `tfn.hw.device.Queue.serve`."""
        if self.dispatch:
            self.dispatch.serve(array, learn)

    def load(self, program: Program, objects: Mapping[str, bytes]) -> CudaExecutable:
        """The program, with its kernels.

        Raises:
            CompileError: if the driver refuses a kernel, or a group of it needs more than there is.
        """
        self.driver.enter()
        functions = {
            kernel.name: self._checked(kernel, objects[kernel.name]) for kernel in program.kernels
        }
        return CudaExecutable(self, program, functions)

    @cached_property
    def solver(self) -> Solver | None:
        """cuSOLVER on this GPU, opened at its first use; None where it is not installed."""
        functions = solver.library()
        return None if functions is None else Solver(self.driver, functions)

    def note_host(self, routine: str, has_library: bool) -> None:
        """Log once that a routine of LAPACK runs on the host, and why."""
        if routine and routine not in self._noted:
            self._noted.add(routine)
            why = "does not have it for these" if has_library else "is not installed"
            NOTES.info("%s runs on the host, with copies there and back: cuSOLVER %s", routine, why)

    @cached_property
    def between(self) -> Between | None:
        """Exchanges with the GPUs of other processes; None for a process alone."""
        return connected(self.driver)

    def control(self) -> dict[str, Function]:
        """The kernels of loops and branches, loaded at their first use."""
        if not self._control:
            ptx = self.compiler.compile(control.TEXT, self.driver.target)
            for name in ("tfn_loop", "tfn_test", "tfn_choose"):
                self._control[name] = Function(self._function(name, ptx))
        return self._control

    def _function(self, name: str, ptx: bytes) -> Any:
        if ptx not in self._modules:
            data = compiler.image(self.driver, ptx)
            self._modules[ptx] = compiler.load_module(self.driver, data)
        module = self._modules[ptx]
        return self.driver.library.handle("cuModuleGetFunction", module, name.encode())

    def resources(self, function: Any) -> Resources:
        """Limits and needs of a kernel."""
        found = {
            name: self.driver.library.integer("cuFuncGetAttribute", row, function)
            for name, row in FUNCTION_ATTRIBUTES.items()
        }
        return Resources(**found)

    def _checked(self, kernel: Kernel, ptx: bytes) -> Function:
        function = self._function(kernel.name, ptx)
        needs, grid = self.resources(function), self.driver.target.grid
        assert grid is not None, "GPUs run groups of threads"
        at_launch = bytes_at_launch(kernel.local_bytes)
        shared_bytes = needs.shared_bytes + at_launch
        if shared_bytes > grid.local_bytes:
            raise CompileError(
                f"the kernel {kernel.name} needs more shared memory than a group can have",
                got=f"{shared_bytes:,} bytes of {grid.local_bytes:,}",
                hint="its tiles are too large for this device",
            )
        if at_launch:
            self.driver.library("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED_BYTES, at_launch)
        if kernel.threads > needs.threads:
            of_thread = f"with {needs.registers} registers each"
            raise CompileError(
                f"the kernel {kernel.name} has larger groups than the device can run",
                got=f"{kernel.threads} threads of {needs.threads}, {of_thread}",
                hint="its threads need too many registers for this device",
            )
        return Function(function, at_launch)

    def failed(self, error: CudaError, program: Program, kernel: str) -> DeviceError:
        """The error of a program whose launch, or whose kernel, has failed."""
        names = [k.name for k in program.kernels]
        where = f"the kernel {kernel}" if kernel else f"a program of {len(names)} kernels"
        lost = "; the context of the GPU is lost: start the process again"
        hint = "" if kernel else "TFN_DEVICE=cuda-debug names the kernel"
        return DeviceError(
            f"{where} has failed on {self.driver.name}{lost if error.is_lost else ''}",
            got=str(error),
            hint=hint or "this is a fault of tfn, or of a kernel written by hand",
        )

    def synchronize(self) -> None:
        """Wait until all programs have run, on the other GPUs of the process too.

        Raises:
            DeviceError: if one of them has failed.
        """
        self.memory.synchronize()
        for other in self.others:
            other.synchronize()
