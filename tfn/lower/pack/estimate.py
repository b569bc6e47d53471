"""Cycles of a kernel, by what its loops take: no machine is needed, and nothing is timed.

    cycles = sum over basic blocks of (cycles of the block) * (how often it runs)

An innermost loop takes the cycles of its packets as LLVM has ordered them, on a processor that runs
packets in order; on one that orders instructions itself it takes the interval of a modulo schedule.
"""

from __future__ import annotations

from math import inf

from tfn.lower.pack import assembly, modulo, optimal
from tfn.lower.pack.machine import Machine

ISSUED_PER_CYCLE = 6
"""Instructions that a processor without packets begins in a cycle, outside of loops."""

LOOP_SECONDS = 1.0
"""For the schedule of one loop: a search estimates some dozens of kernels."""


def kernel_cycles(
    text: str, llvm_ir: str, tiles: int, architecture: str, machine: Machine
) -> float:
    """Cycles of one launch on one core.

    Args:
        text: the assembly code, with comments that name basic blocks.
        llvm_ir: what it was made from.
        tiles: iterations of the parallel loop.
        architecture: of the triple.
        machine: the processor.

    Returns:
        inf if an instruction of an innermost loop has no row.
    """
    code = assembly.divided(text, architecture)
    counts = assembly.executions(llvm_ir, tiles)
    per_cycle = 1 if machine.in_order else ISSUED_PER_CYCLE
    total = sum(n * counts.get(name, 0.0) for name, n in code.others.items()) / per_cycle
    for loop in code.loops:
        if loop.unknown:
            return inf
        if machine.in_order:
            cycles = modulo.emitted_cycles(loop, machine)
        else:
            found = optimal.schedule(loop, machine, LOOP_SECONDS)
            cycles = found.interval if found else len(loop.body)
        total += cycles * counts.get(loop.name, 1.0)
    return total
