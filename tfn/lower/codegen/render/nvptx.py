"""NVPTX as LLVM IR: kernels of a grid for NVIDIA's GPUs, by the rows of LLVM IR.

What is said otherwise than for a processor::

    begin, the number of a group     llvm.nvvm.read.ptx.sreg.ctaid.x
    the number of a thread           llvm.nvvm.read.ptx.sreg.tid.x
    local memory                     a global of address space 3, .shared in PTX
    a barrier of a group             llvm.nvvm.barrier.cta.sync.aligned.all 0
    operands                         a table of addresses in the memory of the device

A kernel has one parameter, the table of its operands: so a launch that is recorded once works for
any arrays.  Operands are no more than pointers until they are loaded from: LLVM infers their
address spaces, and selects ``ld.global`` and ``ld.shared``.

Functions that PTX lacks (exp, sin, ...) are decomposed before, as for a processor, so no library
of a toolkit is linked.

Source: User Guide for NVPTX Back-end, llvm.org.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.lower.codegen.linearize import BEGIN, END
from tfn.lower.codegen.render import llvm
from tfn.lower.codegen.render.writer import LlvmWriter, stored
from tfn.trace.op import Op
from tfn.trace.uop import UOp

LOCAL_MEMORY_ALIGNMENT = 128
"""Bytes to which local memory is aligned: all banks of it once."""


def kernel_text(name: str, items: Sequence[UOp]) -> str:
    """``ptx_kernel void NAME(ptr addrspace(1) operands)`` from the instructions of a thread."""
    w = LlvmWriter(hides_addresses=False)
    operands = list(dict.fromkeys(s for u in items for s in u.src))
    if BEGIN in operands or END in operands:
        w.names[BEGIN] = w.let(f"zext i32 {_register(w, 'ctaid.x')} to i64")
        w.names[END] = w.let(f"add nuw nsw i64 {w(BEGIN)}, 1")
    threads = 1
    for thread in (u for u in operands if u.op is Op.RANGE):
        threads = thread.arg.size
        w.names[thread] = w.let(f"zext i32 {_register(w, 'tid.x')} to i64")
    buffers = {u for u in operands if u.op is Op.PARAM and u.arg.index >= 0}
    for buffer in sorted(buffers, key=lambda u: u.arg.index):
        slot = w.let(f"getelementptr i64, ptr addrspace(1) %operands, i64 {buffer.arg.index}")
        # No launch writes its own table, so that it is read through the cache for constants.
        pointer = w.let(
            f"load ptr addrspace(1), ptr addrspace(1) {slot}, align 8, !invariant.load !0"
        )
        w.names[buffer] = w.let(f"addrspacecast ptr addrspace(1) {pointer} to ptr")
    memories = []
    for memory in (u for u in operands if u.op is Op.LOCAL_MEMORY):
        at = f"@{name}.t{memory.arg.number}"
        kind = f"[{memory.size} x {stored(memory.dtype)}]"
        memories.append(
            f"{at} = internal addrspace(3) global {kind} undef, align {LOCAL_MEMORY_ALIGNMENT}\n"
        )
        w.names[memory] = w.let(f"addrspacecast ptr addrspace(3) {at} to ptr")
    for u in items:
        if u.op is Op.BARRIER:
            w.call("nvvm.barrier.cta.sync.aligned.all", [("i32", "0")])
            continue
        value = llvm.RENDER[u.op](w, u)
        if value:
            w.names[u] = value
    body = "\n".join([*w.allocas, *w.lines])
    declarations = "\n".join(sorted(w.declared.values()))
    return (
        f"{''.join(memories)}"
        f"define ptx_kernel void @{name}(ptr addrspace(1) noalias readonly align 8 %operands) "
        f'"nvvm.reqntid"="{threads}" #0 {{\n'
        f"entry:\n{body}\n  ret void\n}}\n{declarations}\n"
        'attributes #0 = { nounwind "no-builtins" }\n!0 = !{}\n'
    )


def _register(w: LlvmWriter, name: str) -> str:
    """The value of a special register."""
    return w.let(w.intrinsic(f"nvvm.read.ptx.sreg.{name}", "i32", []))
