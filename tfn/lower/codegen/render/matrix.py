"""Matrices in the tile registers of Intel AMX, as LLVM IR.

LLVM chooses the registers and configures them, once for the function: so all have one shape, and
a matrix of which only a part is in memory is put together on the stack.
"""

from __future__ import annotations

from tfn.dtypes import BFLOAT16, int8
from tfn.lower.codegen.render.writer import Writer, scalar, typed, vector
from tfn.trace.op import Op
from tfn.trace.uop import UOp

_FAMILY = {BFLOAT16: "tdpbf16ps", int8.dtype: "tdpbssd"}
_UNSIGNED = "tdpbuud"


def _sizes(*sizes: int) -> list[tuple[str, str]]:
    return [("i16", str(n)) for n in sizes]


def _row_bytes(u: UOp) -> int:
    return int(u.shape[1] * u.dtype.itemsize)


def zero(w: Writer, u: UOp) -> str:
    """The text of an instruction that gives nothing but zeros."""
    return w.intrinsic("x86.tilezero.internal", "x86_amx", _sizes(u.shape[0], _row_bytes(u)))


def total(w: Writer, u: UOp) -> str:
    """A sum; that of nothing takes an instruction."""
    return w.let(zero(w, u)) if u.op is Op.CONST else w(u)


def load(w: Writer, u: UOp) -> str:
    """A matrix from memory, or from the stack where zeros fill it up."""
    buffer, base, how = *u.src, u.arg
    pointer, pitch_bytes = w.pointer(buffer, base, how.offset), how.pitch * u.dtype.itemsize
    for i in range(u.shape[0] if how.ahead else 0):
        w.prefetch(w.pointer(buffer, base, how.offset + how.ahead + i * how.pitch))
    if (how.rows, how.lanes) != u.shape:
        pointer, pitch_bytes = _filled_up(w, u), _row_bytes(u)
    arguments = [*_sizes(u.shape[0], _row_bytes(u)), ("ptr", pointer), ("i64", str(pitch_bytes))]
    return w.let(w.intrinsic("x86.tileloadd64.internal", "x86_amx", arguments))


def _filled_up(w: Writer, u: UOp) -> str:
    """A copy on the stack of what there is of a matrix, with zeros for the rest."""
    buffer, base, how = *u.src, u.arg
    kind, lanes = vector(scalar(u.dtype), u.shape[1:]), u.shape[1]
    place = w.stack(f"[{u.shape[0]} x {kind}]")
    bits = ", ".join(f"i1 {str(i < how.lanes).lower()}" for i in range(lanes))
    for i in range(u.shape[0]):
        found = "zeroinitializer"
        if i < how.rows:
            pointer = w.pointer(buffer, base, how.offset + i * how.pitch)
            found = w.let(
                w.intrinsic(
                    f"masked.load.v{lanes}i{8 * u.dtype.itemsize}.p0",
                    kind,
                    [
                        (f"ptr align {u.dtype.itemsize}", pointer),
                        (f"<{lanes} x i1>", f"<{bits}>"),
                        (kind, "zeroinitializer"),
                    ],
                )
            )
        at = w.let(f"getelementptr {kind}, ptr {place}, i64 {i}")
        w.lines.append(f"  store {kind} {found}, ptr {at}, align 64")
    return place


def multiply(w: Writer, u: UOp) -> str:
    """A product added to a sum."""
    start, a, b = u.src
    sizes = _sizes(a.shape[0], _row_bytes(u), _row_bytes(a))
    name = _FAMILY.get(a.dtype, _UNSIGNED)
    values = [("x86_amx", v) for v in (total(w, start), w(a), w(b))]
    return w.let(w.intrinsic(f"x86.{name}.internal", "x86_amx", [*sizes, *values]))


def spill(w: Writer, u: UOp) -> str:
    """Where a matrix lies on the stack."""
    place = w.stack(f"[{u.shape[0]} x {vector(scalar(u.dtype), u.shape[1:])}]")
    arguments = [
        *_sizes(u.shape[0], _row_bytes(u)),
        ("ptr", place),
        ("i64", str(_row_bytes(u))),
        ("x86_amx", w(u.src[0])),
    ]
    w.lines.append("  " + w.intrinsic("x86.tilestored64.internal", "void", arguments))
    return place


def row(w: Writer, u: UOp) -> str:
    """One row of what has been spilled."""
    kept, at = u.src
    pointer = w.let(f"getelementptr {typed(u)}, ptr {w(kept)}, i64 {w(at)}")
    return w.let(f"load {typed(u)}, ptr {pointer}, align 64")


RENDER = {Op.TILE: load, Op.MMA: multiply, Op.SPILL: spill, Op.ROW: row}
