"""A Device is five parts, instantiated: name, target, compiler, memory, queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tfn._support.frozen import frozen
from tfn.dtypes import DType
from tfn.hw.buffer import Buffer
from tfn.hw.compile.object_cache import Counts
from tfn.lower.program import Program, kernel_times_ns
from tfn.lower.target.target import Target
from tfn.trace.op import Shape

NO_TIME = 10_000
"""A kernel that takes less than this part of a program's time takes none."""


class Compiler(Protocol):
    """Text to bytes, offline, for any target; `counts` says where objects came from."""

    counts: Counts

    def compile(self, text: str, target: Target, level: int = ...) -> bytes:
        """An object file from LLVM IR; level 0 is quick, 2 careful.  Raises CompileError."""

    def compile_all(self, texts: Sequence[str], target: Target, level: int = ...) -> list[bytes]:
        """For each text an object that holds it, and others perhaps.  Raises CompileError."""


class Memory(Protocol):
    """Where buffers live."""

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory.  Raises OutOfMemoryError."""

    def check_room(self, size_bytes: int) -> None:
        """Raise OutOfMemoryError if so much more would pass the limit."""

    def copy(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The elements of a NumPy array.  Raises OutOfMemoryError."""

    def adopt(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The memory of a NumPy array itself.  Raises ArgumentError if it cannot be shared."""

    def read(self, buffer: Buffer, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """A read-only NumPy array of the contents.  Raises DeviceError if data cannot leave."""


class Executable(Protocol):
    """A program made ready to run on one device."""

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Run it once."""

    def given(self, functions: Sequence[Any]) -> Executable:
        """The same program with functions of the host in its slots."""


class Queue(Protocol):
    """What runs programs."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> Executable:
        """Make a program ready; `objects` holds the compiled text by symbol name."""

    def synchronize(self) -> None:
        """Wait until all that was started has finished."""


@frozen
class Device:
    """The five parts.

    Attributes:
        name: ``cpu``, ``python``, ``null``, ...
        target: what code is generated for.
        compiler: None for devices that run no code.
    """

    name: str
    target: Target
    compiler: Compiler | None
    memory: Memory
    queue: Queue

    def load(self, program: Program) -> Executable:
        """Compile the texts of a program and make it ready to run.

        Careful code takes four times as long to make: where no time is spent, it is made quickly.
        """
        if self.compiler is None:
            return self.queue.load(program, {})
        times = kernel_times_ns(program.steps)
        least = times.total() / NO_TIME
        objects: dict[str, bytes] = {}
        for level, careful in ((2, True), (0, False)):
            kernels = [k for k in program.kernels if (times[k.name] >= least) is careful]
            made = self.compiler.compile_all([k.text for k in kernels], self.target, level)
            objects |= zip([k.name for k in kernels], made, strict=True)
        objects[program.name] = self.compiler.compile(program.text, self.target, 0)
        return self.queue.load(program, objects)
