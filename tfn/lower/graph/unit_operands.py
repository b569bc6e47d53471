"""Operands of the matrix units of grids: rounded to tf32, and with rows along the sum.

    dot(a[m, k], b[k, n])  ->  dot(copy a[m, k], copy b.T[n, k])

A unit of four warps takes elements of 16 bits with rows along the sum or across it, others along
it alone: an operand that lies otherwise is copied, where that pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tfn.dtypes import int8
from tfn.lower.target.grid import Grid
from tfn.trace import build
from tfn.trace.grid_argument import GROUP_ROWS, SWIZZLE_BYTES
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def rounded_conv(u: UOp, has_unit: bool = False) -> UOp:
    """A convolution of rounded factors, as `rounded`; the weights have rows along the channels."""
    x, w = map(build.tf32, u.src)
    axes = (*range(w.ndim - 2), w.ndim - 1, w.ndim - 2)
    rows = build.permute(UOp(Op.GBARRIER, (build.permute(w, axes),)), axes)
    arg = replace(u.arg, tf32=has_unit)
    return build.conv(UOp(Op.GBARRIER, (x,)), rows, arg)


def rounded(u: UOp, has_unit: bool = False) -> UOp:
    """A contraction whose factors are rounded before, each once; for a unit of tf32 it stays one.

    That unit leaves out the bits that rounding has made zero, so that its products are exact.  It
    loads whole rows along the sum: the copies have these.
    """
    arg = u.arg
    if not has_unit:
        src = tuple(UOp(Op.GBARRIER, (build.tf32(x),)) for x in u.src)
        return UOp(Op.DOT, src, replace(arg, tf32=False))
    rows = [build.permute(build.tf32(x), (*o, *sums)) for x, o, sums in _sides(u)]
    return _of_rows(u, [UOp(Op.GBARRIER, (x,)) for x in rows])


def rows_of_bytes(u: UOp, grid: Grid) -> UOp:
    """A contraction of int8 with rows along the sum, copied where they are not, for four warps.

    Their unit takes no others.  A copy moves each byte once, and a product reads it for each 256
    columns or rows of the result.
    """
    if {x.dtype for x in u.src} != {int8.dtype} or len(u.arg.contract_a) != 1:
        return u
    if grid.unit("int8", warps=4) is None:
        return u
    sides = _sides(u)
    free = [prod(x.shape[i] for i in others[len(u.arg.batch_a) :]) for x, others, _ in sides]
    depth = u.src[0].shape[u.arg.contract_a[0]]
    if any(n % GROUP_ROWS for n in free) or depth % SWIZZLE_BYTES or depth < 2 * SWIZZLE_BYTES:
        return u
    rows = [build.permute(x, (*others, *sums)) for x, others, sums in sides]
    copies = [
        y if sums == (x.ndim - 1,) else UOp(Op.GBARRIER, (y,))
        for y, (x, _, sums) in zip(rows, sides, strict=True)
    ]
    return u if copies == [*u.src] else _of_rows(u, copies)


def _sides(u: UOp) -> list[tuple[UOp, tuple[int, ...], tuple[int, ...]]]:
    """The operands of a contraction: axes of batches, free ones behind them, and those summed."""
    sides = []
    arg = u.arg
    for x, sums, batch in zip(u.src, (arg.contract_a, arg.contract_b), (arg.batch_a, arg.batch_b)):
        free = [i for i in range(x.ndim) if i not in (*sums, *batch)]
        sides.append((x, (*batch, *free), tuple(sums)))
    return sides


def _of_rows(u: UOp, rows: Sequence[UOp]) -> UOp:
    """A contraction of the same operands as batches, free axes and those summed."""
    (a, b), arg = rows, u.arg
    n, steps = len(arg.contract_a), range(len(arg.batch_a))
    sums = range(a.ndim - n, a.ndim), range(b.ndim - n, b.ndim)
    return build.dot(a, b, sums, (steps, steps), arg.dtype, tf32=arg.tf32)
