"""OpenCL kernel renderer: the instructions of one thread as a ``__kernel`` function.

Each operand is a buffer and an offset in bytes, since an operand may be a slice of the arena::

    __kernel void NAME(__global char *m0, u64 o0, __global char *m1, u64 o1)

The number of threads is part of the text, so that a driver compiles for it, and keeps the result.

The rows of ops are those of the C renderer; its own are local memory, barriers, and what a thread
is called.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.lower.codegen.linearize import BEGIN, END
from tfn.lower.codegen.render.c import kernel as c
from tfn.lower.codegen.render.c.names import stored
from tfn.lower.codegen.render.c.writer import EFFECTS, CWriter
from tfn.lower.codegen.render.opencl.prelude import with_words
from tfn.trace.op import Op
from tfn.trace.uop import UOp

LACKS = c.LACKS
"""Ops without a row: those of C."""


def kernel_text(name: str, items: Sequence[UOp]) -> str:
    """An OpenCL kernel from the instructions of a thread in order."""
    w = CWriter(items)
    w.names |= {BEGIN: "begin", END: "end"}
    w.line("const u64 begin = get_group_id(0), end = begin + 1, thread = get_local_id(0);")
    operands = [s for u in items for s in u.src]
    threads = 1
    for thread in {u for u in operands if u.op is Op.RANGE}:
        w.names[thread], threads = "thread", thread.arg.size
    buffers = {u for u in operands if u.op is Op.PARAM and u.arg.index >= 0}
    for buffer in sorted(buffers, key=lambda u: u.arg.index):
        at, kind = buffer.arg.index, f"__global {stored(buffer.dtype)} *"
        w.names[buffer] = f"b{at}"
        w.line(f"{kind}const b{at} = ({kind})(m{at} + o{at});")
    for memory in dict.fromkeys(u for u in operands if u.op is Op.LOCAL_MEMORY):
        w.names[memory] = f"t{memory.arg.number}"
        w.line(f"__local {stored(memory.dtype)} t{memory.arg.number}[{memory.size}];")
    for u in items:
        if u.op is Op.BARRIER:
            w.line("barrier(CLK_LOCAL_MEM_FENCE);")
        elif u.op in EFFECTS or u in w.used:
            c.RENDER[u.op](w, u)
    count = 1 + max((u.arg.index for u in buffers), default=-1)
    parameters = ", ".join(f"__global char *m{i}, const u64 o{i}" for i in range(count))
    body = "\n".join(w.lines)
    size = f"__attribute__((reqd_work_group_size({threads}, 1, 1)))"
    return with_words(f"__kernel {size} void {name}({parameters}) {{\n{body}\n}}\n")
