"""Emulator of RDNA3: machine code of whole kernels as functions of the host.

In reading order:
    table: the instructions, one row each.
    meaning: what they compute, as UOps; `floats` has that of floats.
    encodings: words of machine code to instructions.
    blocks: their flow; the waits for loads are checked.
    values: registers as UOps while a kernel is read.
    accesses: loads and stores.
    instructions: reads each, by its meaning or what it does with several lanes.
    write: the blocks of a kernel as LLVM IR for the host.
    translate: from instructions to that text.
    memory.ll: accesses of waves, with bounds checked; the groups of a launch.
    machine: compiles and launches kernels.
    gpu: the machine as a GPU.
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.hw.amd.emulator import machine as machine
