"""The null device: programs are lowered and compiled for it, but not run; their results are NaN.

With it, everything before the hardware can be tested and timed on any machine.  Outputs of floats
are filled with NaN and all others with 0xAB, never with zeros, which would look like results; and
no data can be read back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from tfn.dtypes import INEXACT, WITHOUT_NAN, DType
from tfn.errors import DeviceError
from tfn.hw.buffer import Buffer
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.device import Device, Executable, Learn, no_entry, no_share
from tfn.hw.memory import HostMemory
from tfn.lower.program import Program
from tfn.lower.target.target import Target
from tfn.trace.op import Shape

NULL_TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 32, 16)


def fill(buffer: Buffer, shape: Shape, dtype: DType) -> None:
    """Fill with NaN, or with bytes of 0xAB where the dtype has none."""
    if dtype in INEXACT - WITHOUT_NAN:
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
        """Check the limit of memory before `size_bytes` more are allocated.

        Raises:
            OutOfMemoryError: if they would pass it.
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
        """Refuse: there is no data.

        Raises:
            DeviceError: always.
        """
        raise DeviceError(
            "the null device has no data: it compiles programs but runs none",
            got=f"an array of shape {shape}",
            hint="set TFN_DEVICE or config.device to cpu",
        )


class NullExecutable:
    """Fills outputs with values that do not look like results."""

    def __init__(self, program: Program) -> None:
        aliased = dict(program.aliases)
        self._written = [(i, *of) for i, of in enumerate(program.outputs) if i not in aliased]

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Fill the outputs that share no buffer."""
        for i, shape, dtype in self._written:
            fill(outputs[i], shape, dtype)

    def with_callbacks(self, functions: Sequence[object]) -> NullExecutable:
        """The same: nothing is called."""
        return self

    entry, on_share = no_entry, no_share


class NullQueue:
    """Loads programs, and runs none."""

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> Executable:
        """An executable that fills the outputs."""
        return NullExecutable(program)

    def synchronize(self) -> None:
        """Nothing: every call has finished when it returns."""


def null() -> Device:
    """Makes the device."""
    return Device("null", NULL_TARGET, LlvmCompiler(), NullMemory(), NullQueue())
