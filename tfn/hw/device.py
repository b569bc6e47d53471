"""A Device is five parts, instantiated: name, target, compiler, memory, queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tfn.dtypes import DType
from tfn.frozen import frozen
from tfn.hw.buffer import Buffer
from tfn.hw.compile.cache import Counts
from tfn.lower.kernel import Program, Target
from tfn.trace.op import Shape


class Compiler(Protocol):
    """Text to bytes, offline, for any target; `counts` says where objects came from."""

    counts: Counts

    def compile(self, text: str, target: Target) -> bytes:
        """An object file from LLVM IR.  Raises CompileError."""


class Memory(Protocol):
    """Where buffers live."""

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory.  Raises OutOfMemoryError."""

    def check_room(self, size_bytes: int) -> None:
        """Raise OutOfMemoryError if so much more would pass the limit."""

    def adopt(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The contents of a NumPy array, shared where possible."""

    def read(self, buffer: Buffer, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """A read-only NumPy array of the contents.  Raises DeviceError if data cannot leave."""


class Executable(Protocol):
    """A program made ready to run on one device."""

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Run it once."""


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
        """Compile the texts of a program and make it ready to run."""
        if self.compiler is None:
            return self.queue.load(program, {})
        texts = {kernel.name: kernel.text for kernel in program.kernels}
        texts[program.name] = program.text
        objects = {name: self.compiler.compile(text, self.target) for name, text in texts.items()}
        return self.queue.load(program, objects)
