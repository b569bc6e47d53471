"""Hexagon as LLVM IR: what its back end gets wrong is said in other instructions.

    masked load     a whole vector, then a selection: memory beside an array may be read
    masked store    a whole vector is loaded, changed where the mask is true, and stored: programs
                    have one thread
    x < y ? x : y   of floats, selected as integers: the back end makes a minimum of it, which
                    is y if x is NaN
    m ? a : b       of masks, by their bits: the back end aborts the process at some of them

Found with LLVM 22 by comparing programs with the oracle under an emulator.
"""

from __future__ import annotations

from tfn.dtypes import BFLOAT16, BOOL, FLOATS
from tfn.lower.codegen.render import access, llvm
from tfn.lower.codegen.render.llvm import Row
from tfn.lower.codegen.render.writer import LlvmWriter, stored, typed, vector
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def load(w: LlvmWriter, u: UOp) -> str:
    """The value at an address; of a masked vector zeros where the predicate is false."""
    contiguous = u.shape and not u.src[1].shape and abs(u.arg.stride) == 1
    if len(u.src) < 3 or not contiguous:
        return access.load(w, u)
    mask = w(u.src[2])
    whole = access.load(w, UOp(Op.LOAD, u.src[:2], u.arg))
    kind = typed(u)
    zeros = "zeroinitializer"
    if u.dtype == BOOL:
        return w.let(f"and {kind} {mask}, {whole}")
    return w.let(f"select {typed(u.src[2])} {mask}, {kind} {whole}, {kind} {zeros}")


def store(w: LlvmWriter, u: UOp) -> str:
    """Write a value to an address, where the predicate is true."""
    buffer, base, value = u.src[:3]
    contiguous = value.shape and not base.shape and abs(u.arg.stride) == 1
    if len(u.src) < 4 or not contiguous:
        return access.store(w, u)
    mask, name, place = w(u.src[3]), w(value), u.arg
    kind, masks = vector(stored(value.dtype), value.shape), typed(u.src[3])
    if value.dtype == BOOL:
        name = w.let(f"zext {typed(value)} {name} to {kind}")
    offset = place.offset
    if place.stride < 0:
        offset -= place.lanes - 1
        name, mask = access.reversed_lanes(w, kind, name), access.reversed_lanes(w, masks, mask)
    pointer, align = w.pointer(buffer, base, offset), f"align {value.dtype.itemsize}"
    before = w.let(f"load {kind}, ptr {pointer}, {align}")
    after = w.let(f"select {masks} {mask}, {kind} {name}, {kind} {before}")
    w.lines.append(f"  store {kind} {after}, ptr {pointer}, {align}")
    return ""


def where(w: LlvmWriter, u: UOp) -> str:
    """A selection: of scalar floats as integers, of masks by their bits."""
    condition, x, y = u.src
    if u.shape and u.dtype == BOOL:
        chosen, kind = w(condition), typed(u)
        others = w.let(f"xor {kind} {chosen}, splat (i1 true)")
        first, second = w.let(f"and {kind} {chosen}, {w(x)}"), w.let(f"and {kind} {others}, {w(y)}")
        return w.let(f"or {kind} {first}, {second}")
    if u.shape or u.dtype not in FLOATS or u.dtype == BFLOAT16:
        return llvm.RENDER[Op.WHERE](w, u)
    kind, word = typed(u), f"i{8 * u.dtype.itemsize}"
    a, b = (w.let(f"bitcast {kind} {w(value)} to {word}") for value in (x, y))
    bits = w.let(f"select i1 {w(condition)}, {word} {a}, {word} {b}")
    return w.let(f"bitcast {word} {bits} to {kind}")


ROWS: dict[Op, Row] = {Op.LOAD: load, Op.STORE: store, Op.WHERE: where}
"""Rows in place of those of `llvm.RENDER`."""
