"""Hexagon as LLVM IR: what its back end gets wrong is said in other instructions.

    part of vector  a whole one, of which the low lanes are used: 32 int8 were loaded byte by byte,
                    and the body of a product of matrices took 130 packets instead of 51
    int8 to int32   by whole vectors, through int16: 7 packets where one conversion of 32 took 15
    masked load     a whole vector, then a selection: memory beside an array may be read
    masked store    a whole vector is loaded, changed where the mask is true, and stored: programs
                    have one thread
    x < y ? x : y   of floats, selected as integers: the back end makes a minimum of it, which
                    is y if x is NaN
    m ? a : b       of masks, by their bits: the back end aborts the process at some of them

Found with LLVM 22 by comparing programs with the oracle under an emulator.
"""

from __future__ import annotations

from tfn.dtypes import BFLOAT16, BOOL, FLOATS, INTEGERS, SIGNED
from tfn.lower.codegen.render import access, llvm
from tfn.lower.codegen.render.llvm import Row
from tfn.lower.codegen.render.writer import LlvmWriter, stored, typed, vector
from tfn.trace.op import Op
from tfn.trace.uop import UOp

VECTOR_BYTES = 128


def _lanes(w: LlvmWriter, name: str, element: str, lanes: int, wanted: int) -> str:
    """The first lanes of a vector, or the vector with lanes of any value after them."""
    if lanes == wanted:
        return name
    kind = f"<{lanes} x {element}>"
    order = ", ".join(f"i32 {min(i, lanes)}" for i in range(wanted))
    return w.let(f"shufflevector {kind} {name}, {kind} poison, <{wanted} x i32> <{order}>")


def _low_lanes(w: LlvmWriter, pointer: str, element: str, itemsize: int, lanes: int) -> str:
    """The elements at an address as the low lanes of a whole vector."""
    whole = max(lanes, VECTOR_BYTES // itemsize)
    name = w.let(f"load <{whole} x {element}>, ptr {pointer}, align {itemsize}")
    return _lanes(w, name, element, whole, lanes)


def _put_low_lanes(
    w: LlvmWriter, pointer: str, element: str, itemsize: int, lanes: int, name: str
) -> None:
    """Store elements at an address: the rest of the vector there is stored again as it was."""
    whole = max(lanes, VECTOR_BYTES // itemsize)
    kind, align = f"<{whole} x {element}>", f"align {itemsize}"
    if lanes < whole:
        before = w.let(f"load {kind}, ptr {pointer}, {align}")
        name = _lanes(w, name, element, lanes, whole)
        order = ", ".join(f"i32 {i if i < lanes else whole + i}" for i in range(whole))
        name = w.let(f"shufflevector {kind} {name}, {kind} {before}, <{whole} x i32> <{order}>")
    w.lines.append(f"  store {kind} {name}, ptr {pointer}, {align}")


def load(w: LlvmWriter, u: UOp) -> str:
    """The value at an address; of a masked vector zeros where the predicate is false."""
    buffer, base, place = u.src[0], u.src[1], u.arg
    if not u.shape or base.shape or abs(place.stride) != 1:
        return access.load(w, u)
    element, kind = stored(u.dtype), vector(stored(u.dtype), u.shape)
    offset = place.offset - (place.lanes - 1 if place.stride < 0 else 0)
    mask = w(u.src[2]) if len(u.src) == 3 else ""
    pointer = w.pointer(buffer, base, offset)
    name = _low_lanes(w, pointer, element, u.dtype.itemsize, place.lanes)
    if place.stride < 0:
        name = access.reversed_lanes(w, kind, name)
    if u.dtype == BOOL:
        kind, name = typed(u), w.let(f"icmp ne {kind} {name}, zeroinitializer")
    if not mask:
        return name
    if u.dtype == BOOL:
        return w.let(f"and {kind} {mask}, {name}")
    return w.let(f"select {typed(u.src[2])} {mask}, {kind} {name}, {kind} zeroinitializer")


def store(w: LlvmWriter, u: UOp) -> str:
    """Write a value to an address, where the predicate is true."""
    buffer, base, value = u.src[:3]
    if not value.shape or base.shape or abs(u.arg.stride) != 1:
        return access.store(w, u)
    name, place = w(value), u.arg
    element, itemsize = stored(value.dtype), value.dtype.itemsize
    kind = vector(element, value.shape)
    mask, masks = (w(u.src[3]), typed(u.src[3])) if len(u.src) == 4 else ("", "")
    if value.dtype == BOOL:
        name = w.let(f"zext {typed(value)} {name} to {kind}")
    offset = place.offset
    if place.stride < 0:
        offset -= place.lanes - 1
        name = access.reversed_lanes(w, kind, name)
        mask = mask and access.reversed_lanes(w, masks, mask)
    pointer = w.pointer(buffer, base, offset)
    if mask:
        before = _low_lanes(w, pointer, element, itemsize, place.lanes)
        name = w.let(f"select {masks} {mask}, {kind} {name}, {kind} {before}")
    _put_low_lanes(w, pointer, element, itemsize, place.lanes, name)
    return ""


def cast(w: LlvmWriter, u: UOp) -> str:
    """A conversion: of vectors of integers to wider ones, by whole vectors of twice the width."""
    (x,) = u.src
    size = x.dtype.itemsize
    if not u.shape or {x.dtype, u.dtype} - INTEGERS or not size < u.dtype.itemsize <= 4:
        return llvm.RENDER[Op.CAST](w, u)
    extend, name, lanes = "sext" if x.dtype in SIGNED else "zext", w(x), u.shape[0]
    while size < u.dtype.itemsize:
        whole = max(u.shape[0], VECTOR_BYTES // size)
        name = _lanes(w, name, f"i{8 * size}", lanes, whole)
        wide = f"<{whole} x i{16 * size}>"
        name = w.let(f"{extend} <{whole} x i{8 * size}> {name} to {wide}")
        lanes, size = max(u.shape[0], VECTOR_BYTES // (2 * size)), 2 * size
        name = _lanes(w, name, f"i{8 * size}", whole, lanes)
    return _lanes(w, name, f"i{8 * size}", lanes, u.shape[0])


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


ROWS: dict[Op, Row] = {Op.LOAD: load, Op.STORE: store, Op.CAST: cast, Op.WHERE: where}
"""Rows in place of those of `llvm.RENDER`."""
