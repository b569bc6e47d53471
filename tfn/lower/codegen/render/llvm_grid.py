"""Grids as LLVM IR: parts of a kernel that are the same for all machines with groups of threads.

begin, the number of a group     zext i32 NUMBER to i64
the number of a thread           the same
local memory                     one global of address space 3
a value of another thread        words of 32 bits, which the machine exchanges
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tfn.dtypes import BOOL
from tfn.lower.codegen.linearize import BEGIN, END
from tfn.lower.codegen.render import llvm
from tfn.lower.codegen.render.writer import LlvmWriter, typed
from tfn.lower.target.grid import LOCAL_MEMORY_ALIGNMENT_BYTES, local_layout
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Number = Callable[[], str]
"""Writes an instruction that reads a number of 32 bits; returns its name."""


def numbered(w: LlvmWriter, operands: Sequence[UOp], group: Number, thread: Number) -> int:
    """Name the numbers of the group and of the thread; returns the threads of a group."""
    if BEGIN in operands or END in operands:
        w.names[BEGIN] = w.let(f"zext i32 {group()} to i64")
        w.names[END] = w.let(f"add nuw nsw i64 {w(BEGIN)}, 1")
    threads = 1
    for u in operands:
        if u.op is Op.RANGE:
            threads = u.arg.size
            w.names[u] = w.let(f"zext i32 {thread()} to i64")
    return threads


def local_memory(
    w: LlvmWriter, name: str, operands: Sequence[UOp], at_launch: Callable[[int], int]
) -> str:
    """Declare the local memory of a kernel: one block, or what its launch gives.

    Args:
        w: the writer of the kernel.
        name: of the kernel.
        operands: of its instructions.
        at_launch: of the bytes of a group, those that a launch asks for; 0 if all are declared.
    """
    places, size = local_layout([u for u in operands if u.op is Op.LOCAL_MEMORY])
    if not size:
        return ""
    at, align = f"@{name}_local", f"align {LOCAL_MEMORY_ALIGNMENT_BYTES}"
    for memory, begin in places.items():
        place = w.let(f"getelementptr i8, ptr addrspace(3) {at}, i32 {begin}")
        if w.pointer_type(memory) == "ptr":
            place = w.let(f"addrspacecast ptr addrspace(3) {place} to ptr")
        w.names[memory] = place
    if at_launch(size):
        return f"{at} = external addrspace(3) global [0 x i8], {align}\n"
    return f"{at} = internal addrspace(3) global [{size} x i8] undef, {align}\n"


def write(w: LlvmWriter, items: Sequence[UOp], rows: Mapping[Op, llvm.Row]) -> None:
    """Write instructions in order; `rows` are used in place of those of `llvm.RENDER`."""
    for u in items:
        value = (rows.get(u.op) or llvm.RENDER[u.op])(w, u)
        if value:
            w.names[u] = value


def exchanged(w: LlvmWriter, u: UOp, exchange: Callable[[LlvmWriter, str, int], str]) -> str:
    """The value of another thread of the warp, by words of 32 bits.

    Args:
        w: the writer of the kernel.
        u: an EXCHANGE.
        exchange: writes the word of the thread at a distance.
    """
    kind, bits = typed(u), 1 if u.dtype == BOOL else 8 * u.dtype.itemsize
    word = name = w(u.src[0])
    if kind != f"i{bits}":
        word = w.let(f"bitcast {kind} {name} to i{bits}")
    if bits == 64:
        low = exchange(w, w.let(f"trunc i64 {word} to i32"), u.arg)
        shifted = w.let(f"lshr i64 {word}, 32")
        high = exchange(w, w.let(f"trunc i64 {shifted} to i32"), u.arg)
        high, low = (w.let(f"zext i32 {half} to i64") for half in (high, low))
        word = w.let(f"or i64 {w.let(f'shl i64 {high}, 32')}, {low}")
    else:
        wide = word if bits == 32 else w.let(f"zext i{bits} {word} to i32")
        word = exchange(w, wide, u.arg)
        word = word if bits == 32 else w.let(f"trunc i32 {word} to i{bits}")
    return word if kind == f"i{bits}" else w.let(f"bitcast i{bits} {word} to {kind}")
