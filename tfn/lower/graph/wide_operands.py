"""Widening: operands of products of 16-bit floats are converted to 32 bits once.

Without a matrix unit, the loop of a product converts an element each time that it reads it, which
takes as many instructions as the product itself.
"""

from __future__ import annotations

from dataclasses import replace

from tfn.dtypes import FLOAT16, FLOAT32, bfloat16
from tfn.lower.graph.layout import is_panel_view
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.op import MOVEMENT, Op
from tfn.trace.records import changed
from tfn.trace.uop import UOp, rebuild

HALVES = frozenset({FLOAT16, bfloat16.dtype})

VIEWS = frozenset({Op.EXPAND, Op.RESHAPE, Op.PERMUTE, Op.SHRINK, Op.FLIP})

MIN_ROWS_TO_WIDEN = 32
"""Rows of a product of 16-bit floats from which on copies of its operands in 32 bits pay.

With AVX2, on one core, bfloat16 and float16 in us: (1024, 1024) squared took 34,200 and 25,600 with
copies; 64 squared 10.0 and 19.0, with copies 7.0 and 6.6; 32 rows by (256, 256) 69 and 138, with
copies 55; 16 rows by (1024, 1024) 579 and 1,094, with copies 700.
"""

MIN_COLUMNS_TO_WIDEN = 16
"""Columns from which on they pay: fewer fill no register tile, in which rows are read again.

With 16 columns, 1,024 rows and sums of 1,024 bfloat16 took 671 us, with copies 585.
"""


def widened(u: UOp, target: Target) -> UOp:
    """A contraction with wide operands, unless the order of sums forbids it."""
    if target.batch_invariant:
        return u
    wide: UOp = changed("widen-operands", u, widen_operands(u))
    return wide


def widen_operands(u: UOp) -> UOp:
    """Operands of 16-bit floats, converted once, since each element is read many times::

        dot a b, of bf16    ->    dot (barrier (cast a)) (cast b), of f32

    A matrix that is the second operand is not stored yet: packing may copy it into panels, and
    `store_second` stores it otherwise.
    """
    if not any(map(_is_half, u.src)) or not _pays(u):
        return u
    a, b = (_wide(x) if _is_half(x) else x for x in u.src)
    if u.op is Op.DOT and b.op is Op.GBARRIER and b is not u.src[1]:
        b = b.src[0]
    return UOp(u.op, (a, b), replace(u.arg, dtype=FLOAT32))


def store_second(u: UOp, target: Target) -> UOp:
    """A contraction whose second operand is in memory if it is converted from 16 bits."""
    if target.batch_invariant or u.op is not Op.DOT:
        return u
    a, b = u.src
    if b.dtype != FLOAT32 or not _is_half(b) or not _pays(u):
        return u
    return rebuild(u, (a, _wide(b)))


def _pays(u: UOp) -> bool:
    """Whether the elements of the operands are read often enough, and not by a matrix unit."""
    b = u.src[1]
    if build.accumulator(u.dtype) != FLOAT32 or not u.size or is_panel_view(b):
        return False
    if u.op is Op.CONV:
        batch, columns = 1, b.shape[-1] // (u.arg.groups * u.arg.batch_groups)
    else:
        batch = build.count(tuple(b.shape[i] for i in u.arg.batch_b))
        sums = build.count(tuple(b.shape[i] for i in u.arg.contract_b))
        columns = int(b.size // max(batch * sums, 1))
    rows = int(u.size // max(batch * columns, 1))
    return rows >= MIN_ROWS_TO_WIDEN and columns >= MIN_COLUMNS_TO_WIDEN


def _wide(u: UOp) -> UOp:
    """A copy of an operand in 32 bits, below views that repeat its elements."""
    if u.op in VIEWS and _repeats(u):
        return rebuild(u, (_wide(u.src[0]),))
    return UOp(Op.GBARRIER, (build.cast(u, FLOAT32),))


def _repeats(u: UOp) -> bool:
    while u.op in VIEWS:
        if u.op is Op.EXPAND:
            return True
        u = u.src[0]
    return False


def _is_half(u: UOp) -> bool:
    """Whether each element is read as a float of 16 bits: they are, or are converted from such."""
    while u.op in MOVEMENT:
        u = u.src[0]
    return u.dtype in HALVES or (u.op is Op.CAST and u.src[0].dtype in HALVES)
