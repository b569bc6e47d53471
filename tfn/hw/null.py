"""A device that runs nothing: programs are lowered and compiled for it, and their results are NaN.

With it, all that happens before the hardware can be tested and timed anywhere.  Float outputs are
filled with NaN and all others with 0xAB, never with zeros, which would look like results; and no
data can be read back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from tfn.dtypes import INEXACT, DType
from tfn.errors import DeviceError
from tfn.hw.buffer import Buffer
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.device import Device, EntryInput, EntryOutput, Executable
from tfn.hw.memory import HostMemory
from tfn.lower.program import Program
from tfn.lower.target.target import Target
from tfn.trace.op import Shape

NULL_TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 32, 16)


def fill(buffer: Buffer, shape: Shape, dtype: DType) -> None:
    """NaN for floats and complex numbers, bytes of 0xAB for all else."""
    if dtype in INEXACT:
        buffer.view(shape, dtype)[...] = np.nan
    else:
        buffer.view((buffer.size_bytes,), np.dtype(np.uint8))[...] = 0xAB


class NullMemory:
    """Memory that can be written but not read."""

    def __init__(self) -> None:
        self._host = HostMemory()

    def allocate(self, size_bytes: int) -> Buffer:
        """Memory of the host.

        Raises:
            OutOfMemoryError: if there is none.
        """
        return self._host.allocate(size_bytes)

    def check_room(self, size_bytes: int) -> None:
        """Whether so much more would pass the limit.

        Raises:
            OutOfMemoryError: if it would.
        """
        self._host.check_room(size_bytes)

    def copy(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The elements of a NumPy array.

        Raises:
            OutOfMemoryError: if there is no memory.
        """
        return self._host.copy(x)

    def adopt(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The memory of a NumPy array itself.

        Raises:
            ArgumentError: if it is not contiguous, or not aligned.
        """
        return self._host.adopt(x)

    def read(self, buffer: Buffer, shape: Shape, dtype: DType) -> NoReturn:
        """Nothing.

        Raises:
            DeviceError: always.
        """
        raise DeviceError(
            "the null device has no data: it compiles programs but runs none",
            got=f"an array of shape {shape}",
            hint="set TFN_DEVICE or config.device to cpu",
        )


class NullExecutable:
    """Fills outputs with what nobody takes for a result."""

    def __init__(self, program: Program) -> None:
        aliased = dict(program.aliases)
        self._written = [(i, *of) for i, of in enumerate(program.outputs) if i not in aliased]

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Run nothing."""
        for i, shape, dtype in self._written:
            fill(outputs[i], shape, dtype)

    def with_callbacks(self, functions: Sequence[Any]) -> NullExecutable:
        """The same: nothing is called."""
        return self

    def entry(
        self,
        inputs: Sequence[EntryInput],
        outputs: Sequence[EntryOutput],
        arguments: Sequence[Any],
        result: Any,
        captured: Sequence[Any] = (),
        keep: object = None,
    ) -> None:
        """None: this device has no native entries."""


class NullQueue:
    """Runs no program."""

    def serve(self, array: type) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> Executable:
        """What fills the outputs."""
        return NullExecutable(program)

    def synchronize(self) -> None:
        """Nothing is ever under way."""


def null() -> Device:
    """The device."""
    return Device("null", NULL_TARGET, LlvmCompiler(), NullMemory(), NullQueue())
