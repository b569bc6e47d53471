"""The reference device: the oracle evaluates programs op by op on NumPy.  Slow and right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfn.hw.buffer import Buffer
from tfn.hw.device import Device, Executable, Learn, no_entry, no_share
from tfn.hw.memory import HostMemory
from tfn.lower.program import Program
from tfn.lower.target.target import Target
from tfn.trace import oracle
from tfn.trace.argument import filled
from tfn.trace.build import several
from tfn.trace.inline import unfold
from tfn.trace.op import Op
from tfn.trace.uop import UOp


class OracleExecutable:
    """Evaluates the graph of a function."""

    def __init__(self, function: UOp) -> None:
        self.function = function

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Run it once."""
        params = self.function.arg.params
        # The view of the class: memory of another device refuses to tell its address.
        values = [Buffer.view(b, p.shape, p.dtype) for b, p in zip(inputs, params, strict=True)]
        results = oracle.call(self.function, values)
        for out, value in zip(outputs, results, strict=True):
            out.view(value.shape, value.dtype)[...] = value

    def with_callbacks(self, functions: Sequence[Any]) -> OracleExecutable:
        """The same function with functions of the host in its slots."""

        def filling(u: UOp) -> Sequence[UOp]:
            return several(UOp(u.op, u.src, replace(u.arg, run=filled(u.arg.run, functions))))

        outputs = unfold(self.function.src, {Op.HOST: filling})
        return OracleExecutable(UOp(Op.FUNCTION, tuple(outputs), self.function.arg))

    entry, on_share = no_entry, no_share


class OracleQueue:
    """Evaluates the function that a program was lowered from."""

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> Executable:
        """An executable of the function itself; there are no objects."""
        return OracleExecutable(program.function)

    def synchronize(self) -> None:
        """Nothing: every call has finished when it returns."""


def python() -> Device:
    """Makes the device."""
    return Device("python", Target("", "", ""), None, HostMemory(), OracleQueue())
