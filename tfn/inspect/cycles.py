"""Cycles of kernels by modulo schedules: for `tfn.show` a table, for `tfn.tune` an estimate.

A processor whose slots, units and latencies are known (`tfn.lower.pack.machine`) need not be there:
LLVM makes assembly code in a child process, and what its loops take is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from tfn.dtypes import DType
from tfn.errors import ArgumentError, CompileError
from tfn.extend import Kernel, Target
from tfn.hw import compile
from tfn.lower import pack

SHOWN_SECONDS = 5.0
"""For the schedule of each loop of a picture."""


def architecture(target: Target) -> str:
    """The architecture of a target.

    Raises:
        ArgumentError: if there is no table of its processors.
    """
    name = target.triple.split("-")[0]
    if target.grid is not None or name not in pack.MACHINES:
        raise ArgumentError(
            f"the slots and latencies of {name} are not known",
            got=f"the target {target.triple}",
            hint="there are tables for " + ", ".join(pack.MACHINES),
        )
    return name


class CycleModel:
    """Estimates of kernels: a `tfn.hw.device.KernelTimer` whose nanoseconds are cycles."""

    def __init__(self, target: Target) -> None:
        self._target, self._architecture = target, architecture(target)
        self._machine = pack.MACHINES[self._architecture]
        self._server = compile.server.CompileServer()

    def __enter__(self) -> CycleModel:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def measure(self, kernel: Kernel, buffers: Sequence[tuple[int, DType]]) -> float:
        """Cycles of one launch on one core; inf if LLVM cannot compile it."""
        try:
            text = self._server.assembly(kernel.text, self._target)
        except CompileError:
            return inf
        return pack.kernel_cycles(
            text, kernel.text, kernel.tiles, self._architecture, self._machine
        )


def schedules(kernels: Sequence[Kernel], target: Target) -> str:
    """The modulo schedules of the innermost loops of kernels, as tables.

    Raises:
        ArgumentError: if there is no table of the processor.
    """
    name = architecture(target)
    machine, server = pack.MACHINES[name], compile.server.CompileServer()
    lines = []
    for kernel in kernels:
        counts = pack.assembly.executions(kernel.text, kernel.tiles)
        lines.append(f"{kernel.name} on {machine.name}")
        for loop in pack.assembly.divided(server.assembly(kernel.text, target), name).loops:
            found = pack.optimal.schedule(loop, machine, SHOWN_SECONDS)
            lines.append(pack.table.heading(loop, machine, found))
            lines.append(f"runs {counts.get(loop.name, 1.0):,.0f} times in a launch")
            if found is not None:
                lines.append(pack.table.table(loop, machine, found))
    server.close()
    return "\n".join(lines)
