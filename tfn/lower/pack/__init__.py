"""Software pipelining: modulo schedules of inner loops, and what they decide.

In reading order:
    machine: slots, units, latencies and registers of processors, as data.
    instructions: instructions of an inner loop: what they read, write and access.
    hexagon: instructions of Hexagon's assembly language.
    x86: instructions of x86-64's assembly language, in AT&T syntax.
    assembly: loops of a kernel's assembly code, and how often they run.
    dependences: which instruction waits for which, by how many cycles and iterations.
    modulo: lower bounds of the initiation interval, and a list-scheduling heuristic.
    optimal: the shortest initiation interval, by an SMT solver.
    estimate: cycles of a kernel, by what its loops take.
    table: a schedule as a table of cycles by slots.
    llvm_ir: inner loops before instructions are selected: operations of LLVM IR.
    pipelined: prologue, kernel and epilogue of a loop, as LLVM IR.

LLVM selects instructions; a schedule says in how few cycles a processor can run them, iteration
after iteration.  `tfn.show` prints it at the stage ``cycles``.  `tfn.tune` chooses register tiles
and unrolling by it, and lets iterations overlap where LLVM then makes fewer packets.
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.lower.pack import assembly as assembly
    from tfn.lower.pack import optimal as optimal
    from tfn.lower.pack import pipelined as pipelined
    from tfn.lower.pack import table as table
    from tfn.lower.pack.estimate import kernel_cycles as kernel_cycles
    from tfn.lower.pack.machine import MACHINES as MACHINES
    from tfn.lower.pack.machine import Machine as Machine
