"""AMDGCN as LLVM IR: kernels of a grid for AMD's GPUs, by the rows of LLVM IR.

What is said otherwise than for a processor::

    begin, the number of a group     llvm.amdgcn.workgroup.id.x
    the number of a thread           llvm.amdgcn.workitem.id.x
    local memory                     one global of address space 3, the LDS
    a barrier of a group             llvm.amdgcn.s.barrier between fences of the group
    a value of another thread        llvm.amdgcn.ds.bpermute, by the address of its lane
    operands                         parameters, which a launch writes into its kernarg segment

Pointers are of the address space of their buffer: LLVM infers none without its passes, and would
select ``flat_load``, which waits for both memories.  The attributes say that no kernel asks for the
hidden arguments of a runtime: its kernarg segment has the addresses of its operands, nothing else.

Source: User Guide for AMDGPU Backend, llvm.org.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.lower.codegen.render import llvm, llvm_grid
from tfn.lower.codegen.render.writer import LlvmWriter
from tfn.trace.op import Op
from tfn.trace.uop import UOp

SPACES = {Op.PARAM: 1, Op.LOCAL_MEMORY: 3}
"""Address spaces: the memory of the device, and that of a group."""

UNUSED = (
    *("dispatch-ptr", "queue-ptr", "implicitarg-ptr", "hostcall-ptr", "heap-ptr", "dispatch-id"),
    *("default-queue", "completion-action", "multigrid-sync-arg", "lds-kernel-id"),
    *(f"{of}-id-{axis}" for of in ("workgroup", "workitem") for axis in "yz"),
)
"""Facts that a runtime could tell a kernel, and no kernel of tfn asks for."""

CODE_OBJECT_VERSION = 600
"""Code objects of version 6, a hundred times."""


def kernel_text(name: str, items: Sequence[UOp]) -> str:
    """``amdgpu_kernel void NAME(ptr addrspace(1) p0, ...)`` from the instructions of a thread."""
    w = LlvmWriter(hides_addresses=False, spaces=SPACES)
    operands = list(dict.fromkeys(s for u in items for s in u.src))
    threads = llvm_grid.numbered(
        w,
        operands,
        lambda: w.let(w.intrinsic("amdgcn.workgroup.id.x", "i32", [])),
        lambda: w.let(w.intrinsic("amdgcn.workitem.id.x", "i32", [])),
    )
    buffers = {u.arg.index: u for u in operands if u.op is Op.PARAM and u.arg.index >= 0}
    w.names |= {buffer: f"%p{index}" for index, buffer in buffers.items()}
    parameters = ", ".join(f"ptr addrspace(1) %p{i}" for i in range(max(buffers, default=-1) + 1))
    local = llvm_grid.local_memory(w, name, operands, lambda size: 0)
    llvm_grid.write(w, items, ROWS)
    body = "\n".join([*w.allocas, *w.lines])
    declarations = "\n".join(sorted(w.declared.values()))
    unused = " ".join(f'"amdgpu-no-{what}"' for what in UNUSED)
    return (
        f"{local}"
        f"define amdgpu_kernel void @{name}({parameters}) "
        f'"amdgpu-flat-work-group-size"="{threads},{threads}" #0 {{\n'
        f"entry:\n{body}\n  ret void\n}}\n{declarations}\n"
        f'attributes #0 = {{ nounwind "no-builtins" "uniform-work-group-size"="true" {unused} }}\n'
        f'!llvm.module.flags = !{{!0}}\n!0 = !{{i32 1, !"amdhsa_code_object_version", '
        f"i32 {CODE_OBJECT_VERSION}}}\n"
    )


def _barrier(w: LlvmWriter, u: UOp) -> str:
    """A barrier of a group, after what its threads have written."""
    w.lines.append('  fence syncscope("workgroup") release')
    w.call("amdgcn.s.barrier", [])
    w.lines.append('  fence syncscope("workgroup") acquire')
    return ""


def _exchange(w: LlvmWriter, u: UOp) -> str:
    return llvm_grid.exchanged(w, u, _butterfly)


def _butterfly(w: LlvmWriter, word: str, distance: int) -> str:
    """A word of 32 bits from the thread at a distance, of the 32 threads of a warp."""
    lane = w.let(
        w.intrinsic("amdgcn.mbcnt.lo", "i32", [("i32", "-1"), ("i32", "0")])
    )  # the lanes before this one
    other = w.let(f"xor i32 {lane}, {distance}")
    address = w.let(f"shl i32 {other}, 2")
    return w.let(w.intrinsic("amdgcn.ds.bpermute", "i32", [("i32", address), ("i32", word)]))


ROWS: dict[Op, llvm.Row] = {Op.BARRIER: _barrier, Op.EXCHANGE: _exchange}
"""Rows beside those of `llvm.RENDER`."""
