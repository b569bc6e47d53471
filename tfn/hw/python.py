"""The oracle as a device: programs are evaluated on NumPy, op by op.  Slow, and always right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfn.hw.buffer import Buffer
from tfn.hw.device import Device, Executable
from tfn.hw.memory import HostMemory
from tfn.lower.program import Program
from tfn.lower.target.target import Target
from tfn.trace import oracle
from tfn.trace.op import Op
from tfn.trace.uop import UOp


class OracleQueue:
    """Evaluates the function that a program was lowered from."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> Executable:
        """A closure over the program."""
        params = [UOp(Op.PARAM, (), p) for p in program.function.arg.params]

        def run(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
            values = [b.view(p.shape, p.dtype) for b, p in zip(inputs, params, strict=True)]
            results = oracle.evaluate(program.function.src, dict(zip(params, values)))
            for out, value in zip(outputs, results, strict=True):
                out.view(value.shape, value.dtype)[...] = value

        return run

    def synchronize(self) -> None:
        """Nothing is ever under way."""


def python() -> Device:
    """The device."""
    return Device("python", Target("", "", ""), None, HostMemory(), OracleQueue())
