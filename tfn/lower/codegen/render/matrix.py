"""Matrix units as LLVM IR: matrices in the tile registers of Intel AMX.

LLVM allocates and configures the registers, once for the function: so all have one shape, and a
partial matrix is padded with zeros on the stack.
"""

from __future__ import annotations

from tfn.dtypes import BFLOAT16, int8
from tfn.lower.codegen.render.writer import LlvmWriter, scalar, typed, vector
from tfn.trace.op import Op
from tfn.trace.uop import UOp

_FAMILY = {BFLOAT16: "tdpbf16ps", int8.dtype: "tdpbssd"}
_UNSIGNED = "tdpbuud"


def _sizes(*sizes: int) -> list[tuple[str, str]]:
    return [("i16", str(n)) for n in sizes]


def _row_bytes(u: UOp) -> int:
    return int(u.shape[1] * u.dtype.itemsize)


def zero(w: LlvmWriter, u: UOp) -> str:
    """The text of an instruction whose result is a matrix of zeros."""
    return w.intrinsic("x86.tilezero.internal", "x86_amx", _sizes(u.shape[0], _row_bytes(u)))


def total(w: LlvmWriter, u: UOp) -> str:
    """A sum; a constant zero takes an instruction."""
    return w.let(zero(w, u)) if u.op is Op.CONST else w(u)


def load(w: LlvmWriter, u: UOp) -> str:
    """A matrix from memory; a partial one from a padded copy on the stack."""
    buffer, base, tile = *u.src, u.arg
    pointer, pitch_bytes = w.pointer(buffer, base, tile.offset), tile.pitch * u.dtype.itemsize
    for i in range(u.shape[0] if tile.ahead else 0):
        w.prefetch(w.pointer(buffer, base, tile.offset + tile.ahead + i * tile.pitch))
    if (tile.rows, tile.lanes) != u.shape:
        pointer, pitch_bytes = _padded_copy(w, u), _row_bytes(u)
    arguments = [*_sizes(u.shape[0], _row_bytes(u)), ("ptr", pointer), ("i64", str(pitch_bytes))]
    return w.let(w.intrinsic("x86.tileloadd64.internal", "x86_amx", arguments))


def _padded_copy(w: LlvmWriter, u: UOp) -> str:
    """A copy of a partial matrix on the stack, padded with zeros."""
    buffer, base, tile = *u.src, u.arg
    kind, lanes = vector(scalar(u.dtype), u.shape[1:]), u.shape[1]
    slot = w.stack(f"[{u.shape[0]} x {kind}]")
    bits = ", ".join(f"i1 {str(i < tile.lanes).lower()}" for i in range(lanes))
    for i in range(u.shape[0]):
        row = "zeroinitializer"
        if i < tile.rows:
            pointer = w.pointer(buffer, base, tile.offset + i * tile.pitch)
            row = w.let(
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
        at = w.let(f"getelementptr {kind}, ptr {slot}, i64 {i}")
        w.lines.append(f"  store {kind} {row}, ptr {at}, align 64")
    return slot


def multiply(w: LlvmWriter, u: UOp) -> str:
    """A product added to a sum."""
    start, a, b = u.src
    sizes = _sizes(a.shape[0], _row_bytes(u), _row_bytes(a))
    name = _FAMILY.get(a.dtype, _UNSIGNED)
    values = [("x86_amx", v) for v in (total(w, start), w(a), w(b))]
    return w.let(w.intrinsic(f"x86.{name}.internal", "x86_amx", [*sizes, *values]))


def spill(w: LlvmWriter, u: UOp) -> str:
    """Store a matrix on the stack; returns its address."""
    slot = w.stack(f"[{u.shape[0]} x {vector(scalar(u.dtype), u.shape[1:])}]")
    arguments = [
        *_sizes(u.shape[0], _row_bytes(u)),
        ("ptr", slot),
        ("i64", str(_row_bytes(u))),
        ("x86_amx", w(u.src[0])),
    ]
    w.call("x86.tilestored64.internal", arguments)
    return slot


def row(w: LlvmWriter, u: UOp) -> str:
    """One row of a spilled matrix."""
    matrix, at = u.src
    pointer = w.let(f"getelementptr {typed(u)}, ptr {w(matrix)}, i64 {w(at)}")
    return w.let(f"load {typed(u)}, ptr {pointer}, align 64")


RENDER = {Op.TILE: load, Op.MMA: multiply, Op.SPILL: spill, Op.ROW: row}
