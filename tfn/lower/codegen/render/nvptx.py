"""NVPTX as LLVM IR: kernels of a grid for NVIDIA's GPUs, by the rows of LLVM IR.

What is said otherwise than for a processor::

    begin, the number of a group     llvm.nvvm.read.ptx.sreg.ctaid.x
    the number of a thread           llvm.nvvm.read.ptx.sreg.tid.x
    local memory                     one global of address space 3, .shared in PTX
    a barrier of a group             llvm.nvvm.barrier.cta.sync.aligned.all 0
    a copy that is not waited for    llvm.nvvm.cp.async.cg.shared.global.16, .ca for 8 and 4 bytes
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
from dataclasses import replace

from tfn.dtypes import FLOAT16, FLOAT32, DType, int8
from tfn.lower.codegen.render import llvm, llvm_grid
from tfn.lower.codegen.render.writer import TYPES, LlvmWriter, typed
from tfn.lower.target.grid import bytes_at_launch
from tfn.trace.grid_argument import GroupMma
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def kernel_text(name: str, items: Sequence[UOp]) -> str:
    """``ptx_kernel void NAME(ptr addrspace(1) operands)`` from the instructions of a thread."""
    w = LlvmWriter(hides_addresses=False)
    operands = list(dict.fromkeys(s for u in items for s in u.src))
    threads = llvm_grid.numbered(
        w, operands, lambda: _register(w, "ctaid.x"), lambda: _register(w, "tid.x")
    )
    buffers = {u for u in operands if u.op is Op.PARAM and u.arg.index >= 0}
    for buffer in sorted(buffers, key=lambda u: u.arg.index):
        slot = w.let(f"getelementptr i64, ptr addrspace(1) %operands, i64 {buffer.arg.index}")
        # No launch writes its own table, so that it is read through the cache for constants.
        pointer = w.let(
            f"load ptr addrspace(1), ptr addrspace(1) {slot}, align 8, !invariant.load !0"
        )
        w.names[buffer] = w.let(f"addrspacecast ptr addrspace(1) {pointer} to ptr")
    local = llvm_grid.local_memory(w, name, operands, bytes_at_launch)
    llvm_grid.write(w, items, ROWS)
    body = "\n".join([*w.allocas, *w.lines])
    declarations = "\n".join(sorted(w.declared.values()))
    return (
        f"{local}"
        f"define ptx_kernel void @{name}(ptr addrspace(1) noalias readonly align 8 %operands) "
        f'"nvvm.reqntid"="{threads}" #0 {{\n'
        f"entry:\n{body}\n  ret void\n}}\n{declarations}\n"
        'attributes #0 = { nounwind "no-builtins" }\nattributes #1 = { convergent nounwind }\n'
        "!0 = !{}\n"
    )


def _barrier(w: LlvmWriter, u: UOp) -> str:
    w.call("nvvm.barrier.cta.sync.aligned.all", [("i32", "0")])
    return ""


def _copy(w: LlvmWriter, u: UOp) -> str:
    """An asynchronous copy, and a branch around it if it has a predicate."""
    memory, to, operand, index, *predicate = u.src
    count = u.arg.count * memory.dtype.itemsize
    # Of 16 bytes it goes around the first cache, which tiles in local memory have no use for.
    kind = "cg" if count == 16 else "ca"
    with w.branch(w(predicate[0]) if predicate else ""):
        arguments = [
            ("ptr addrspace(3)", _in_space(w, w.pointer(memory, to, u.arg.offset), 3)),
            ("ptr addrspace(1)", _in_space(w, w.pointer(operand, index, u.arg.operand_offset), 1)),
        ]
        w.call(f"nvvm.cp.async.{kind}.shared.global.{count}", arguments)
    return ""


def _in_space(w: LlvmWriter, pointer: str, space: int) -> str:
    """A pointer in an address space, from which it was cast before."""
    return w.let(f"addrspacecast ptr {pointer} to ptr addrspace({space})")


def _copy_group(w: LlvmWriter, u: UOp) -> str:
    w.call("nvvm.cp.async.commit.group", [])
    return ""


def _copy_wait(w: LlvmWriter, u: UOp) -> str:
    w.call("nvvm.cp.async.wait.group", [("i32", str(u.arg))])
    return ""


def _exchange(w: LlvmWriter, u: UOp) -> str:
    """The value of another thread of the warp, by words of 32 bits."""
    return llvm_grid.exchanged(w, u, _butterfly)


def _butterfly(w: LlvmWriter, word: str, distance: int) -> str:
    """A word of 32 bits from the thread at a distance, of all 32 threads of a warp."""
    arguments = [("i32", "-1"), ("i32", word), ("i32", str(distance)), ("i32", "31")]
    return w.let(w.intrinsic("nvvm.shfl.sync.bfly.i32", "i32", arguments))


def _fragment(w: LlvmWriter, u: UOp) -> str:
    """An element of matrices in local memory; all of a thread come by one instruction."""
    memory, index = u.src
    key = UOp(u.op, u.src, replace(u.arg, element=0)), w.block
    whole = w.wholes.get(key)
    kind = f"{{{', '.join(['i32'] * u.arg.matrices)}}}"
    if whole is None:
        suffix = f"x{u.arg.matrices}{'.trans' if u.arg.transposed else ''}"
        place = _in_space(w, w.pointer(memory, index, u.arg.offset), 3)
        name = f"nvvm.ldmatrix.sync.aligned.m8n8.{suffix}.b16.p3"
        whole = w.wholes[key] = w.let(w.intrinsic(name, kind, [("ptr addrspace(3)", place)]))
    n, element = 4 // u.dtype.itemsize, TYPES[u.dtype]
    word = w.let(f"extractvalue {kind} {whole}, {u.arg.element // n}")
    vector = w.let(f"bitcast i32 {word} to <{n} x {element}>")
    return w.let(f"extractelement <{n} x {element}> {vector}, i32 {u.arg.element % n}")


# fmt: off
_PRODUCTS = {
    "bfloat16": ("m16n8k16.row.col.bf16", "i32", "float"),
    "float16":  ("m16n8k16.row.col.f32.f32", "<2 x half>", "float"),
    "float32":  ("m16n8k8.row.col.tf32", "i32", "float"),
    "int8":     ("m16n8k32.row.col.s8", "i32", "i32"),
}
"""The product of a warp for each dtype, the type of 32 bits of an operand, and that of a sum."""
# fmt: on


def _warp_mma(w: LlvmWriter, u: UOp) -> str:
    """A sum of a product; the four of them are made by one instruction, at the first."""
    name, word, of_sum = _PRODUCTS[u.arg.dtype.name]
    key = UOp(u.op, u.src, replace(u.arg, element=0)), name
    whole = w.wholes.get(key)
    if whole is None:
        n, result = u.arg.together, f"{{{', '.join([of_sum] * 4)}}}"
        elements = [w(s) for s in u.src[:-4]]
        groups = [elements[i : i + n] for i in range(0, len(elements), n)]
        arguments = [(word, _packed(w, group, u.arg.dtype)) for group in groups]
        arguments += [(of_sum, w(s)) for s in u.src[-4:]]
        whole = w.let(w.intrinsic(f"nvvm.mma.{name}", result, arguments))
        w.wholes[key] = whole
    kind = f"{{{', '.join([of_sum] * 4)}}}"
    return w.let(f"extractvalue {kind} {whole}, {u.arg.element}")


def _group_mma(w: LlvmWriter, u: UOp) -> str:
    """A sum of a product of four warps, which inline assembly computes: LLVM has no intrinsic."""
    a, at_a, b, at_b, *sums = u.src
    key = UOp(u.op, u.src, replace(u.arg, element=0)), w.block
    whole = w.wholes.get(key)
    if whole is None:
        places = []
        for memory, index in ((a, at_a), (b, at_b)):
            place = _in_space(w, w.pointer(memory, index, 0), 3)
            places.append(("i64", w.let(f"ptrtoint ptr addrspace(3) {place} to i64")))
        text = _group_product(u.arg, len(sums))
        whole = w.wholes[key] = _tied(w, text, places, sums)
    return w.let(f"extractvalue {_structure(sums)} {whole}, {u.arg.element}")


GROUP_DESCRIPTOR = 1 << 62 | 64 << 32 | 1 << 16
"""The descriptor of rows along the sum: 128-byte swizzling, 1,024 bytes from 8 rows to the next."""

GROUP_DESCRIPTOR_ACROSS = 1 << 62 | 64 << 32 | 512 << 16
"""The descriptor of rows across the sum: the same, and 8,192 bytes from a box of 64 to the next."""


_GROUP_TYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "tf32", "int8": "s8"}

GROUP_INSTRUCTIONS = 4
"""Instructions of a product of four warps: each takes 32 bytes along the sum."""


def _group_product(arg: GroupMma, n: int) -> str:
    """PTX of a product of 128 bytes along the sum: four instructions, and a wait for them.

    A descriptor of a matrix has its address divided by 16 in the lowest bits; an instruction
    further along the sum are 32 bytes, or 16 rows of 128 bytes where rows are across.

    Source: PTX ISA, asynchronous warpgroup level matrix instructions.
    """
    dtype = _GROUP_TYPES[arg.dtype.name]
    depth = arg.depth // GROUP_INSTRUCTIONS
    sums = ", ".join(f"${i}" for i in range(n))
    lines = ["{", ".reg .pred p;", ".reg .b64 a, b;", "setp.eq.u32 p, 0, 0;"]
    for name, operand, across in (("a", n, arg.a_across), ("b", n + 1, arg.b_across)):
        descriptor = GROUP_DESCRIPTOR_ACROSS if across else GROUP_DESCRIPTOR
        lines += [
            f"and.b64 {name}, ${operand}, 0x3FFFF;",
            f"shr.u64 {name}, {name}, 4;",
            f"or.b64 {name}, {name}, {descriptor:#x};",
        ]
    # Copies have written through another path to the memory than that by which the unit reads.
    lines += ["fence.proxy.async.shared::cta;", "wgmma.fence.sync.aligned;"]
    of_sum = "s32" if arg.dtype == int8.dtype else "f32"
    shape = f"m64n{arg.columns}k{depth}.{of_sum}.{dtype}.{dtype}"
    # Signs of floats, then the layouts of those of 16 bits: other rows are along the sum.
    more = "" if arg.dtype == int8.dtype else ", 1, 1"
    if arg.dtype.itemsize == 2:
        more += f", {int(arg.a_across)}, {int(arg.b_across)}"
    for step in range(GROUP_INSTRUCTIONS):
        lines.append(f"wgmma.mma_async.sync.aligned.{shape} {{{sums}}}, a, b, p{more};")
        if step < GROUP_INSTRUCTIONS - 1:
            lines += [
                f"add.s64 {name}, {name}, {128 if across else 2};"
                for name, across in (("a", arg.a_across), ("b", arg.b_across))
            ]
    lines += ["wgmma.commit_group.sync.aligned;", f"wgmma.wait_group.sync.aligned {arg.pending};"]
    return "\n".join([*lines, "}"])


def _group_wait(w: LlvmWriter, u: UOp) -> str:
    """A sum after all products of four warps: the registers of all sums change until then."""
    key = UOp(u.op, u.src, 0), w.block
    whole = w.wholes.get(key)
    if whole is None:
        whole = w.wholes[key] = _tied(w, "wgmma.wait_group.sync.aligned 0;", [], u.src)
    return w.let(f"extractvalue {_structure(u.src)} {whole}, {u.arg}")


def _tied(w: LlvmWriter, text: str, places: Sequence[tuple[str, str]], sums: Sequence[UOp]) -> str:
    """Inline assembly that changes sums in their registers; places come after them."""
    n, text = len(sums), text.replace("\n", "\\0A")
    arguments = ", ".join(f"{t} {v}" for t, v in [*places, *((typed(s), w(s)) for s in sums)])
    register = "=f" if sums[0].dtype == FLOAT32 else "=r"
    operands = [*[register] * n, *["l"] * len(places), *map(str, range(n)), "~{memory}"]
    assembly = f'asm sideeffect "{text}", "{",".join(operands)}"'
    return w.let(f"call {_structure(sums)} {assembly}({arguments}) #1")


def _structure(values: Sequence[UOp]) -> str:
    return f"{{{', '.join(map(typed, values))}}}"


def _packed(w: LlvmWriter, elements: Sequence[str], dtype: DType) -> str:
    """Elements as 32 bits, the first of them lowest."""
    kind, n = TYPES[dtype], len(elements)
    vector = "poison"
    for i, x in enumerate(elements):
        vector = w.let(f"insertelement <{n} x {kind}> {vector}, {kind} {x}, i32 {i}")
    if dtype == FLOAT16:
        return vector
    return w.let(f"bitcast <{n} x {kind}> {vector} to i32")


# fmt: off
ROWS: dict[Op, llvm.Row] = {
    Op.BARRIER: _barrier, Op.COPY: _copy, Op.COPY_GROUP: _copy_group, Op.COPY_WAIT: _copy_wait,
    Op.EXCHANGE: _exchange, Op.FRAGMENT: _fragment, Op.WARP_MMA: _warp_mma,
    Op.GROUP_MMA: _group_mma, Op.GROUP_WAIT: _group_wait,
}
# fmt: on
"""Rows beside those of `llvm.RENDER`."""


def _register(w: LlvmWriter, name: str) -> str:
    """The value of a special register."""
    return w.let(w.intrinsic(f"nvvm.read.ptx.sreg.{name}", "i32", []))
