"""Matrix products by four warps: both operands are swizzled tiles in local memory.

    for c:  s[i, j] += a[i, c * 64 + u] * b[c * 64 + u, j]      u in 64 at once

    ->  for c:  wait for the tiles;  (s0, s1, ...) += product of tile a and tile b

A thread of a warp has its sums where `warp_product` has them, for 16 rows of the 64 and all
columns.  No operand is in registers: the unit reads both tiles itself, along the sum or across it.
"""

from __future__ import annotations

from itertools import product

from tfn.dtypes import INT64
from tfn.lower.codegen.coordinates import Key
from tfn.lower.codegen.reductions import Reduction, Totals
from tfn.lower.index.affine import affine
from tfn.lower.loops.grid_opt_ops import operands, warp_ranges
from tfn.trace.argument import Place
from tfn.trace.grid_argument import GroupMma
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

ZERO = const(0, INT64)


def accumulate(reduction: Reduction, totals: Totals) -> Totals:
    """The next sums of all coordinates: one product of four warps."""
    at, (unit,) = reduction.at, reduction.unit
    h, g, t, q = warp_ranges(unit, at.depends[reduction.node])
    x, y = _sides(reduction)
    warps = [r for r in at.depends[x] if r.arg.place is Place.LOCAL and r is not g]
    warp = _outermost_first(x, warps)[-1]
    left = _begin(reduction, x, (unit, warp, g, h))
    right = _begin(reduction, y, (unit, t, q, *_columns(reduction, y)))
    points = _points(reduction)
    sums = [totals[point, ()][0] for point in points]
    threads = reduction.emitter.threads
    assert threads is not None, "tiles are staged for groups of threads"
    across = [threads.tiles.steps(u)[unit] != 1 for u in (x, y)]
    following = dict(totals)
    for i, point in enumerate(points):
        arg = GroupMma(x.dtype, 2 * len(sums), across[0], across[1], x.arg.pending, i)
        node = UOp(Op.GROUP_MMA, (*left, *right, *sums), arg)
        following[point, ()] = (reduction.emitter.append(node),)
    return following


def finish(reduction: Reduction, totals: Totals) -> Totals:
    """The sums after the loops, once the last products are done."""
    points, append = _points(reduction), reduction.emitter.append
    sums = tuple([totals[point, ()][0] for point in points])
    waits = (append(UOp(Op.GROUP_WAIT, sums, i)) for i in range(len(sums)))
    return totals | {(point, ()): (wait,) for point, wait in zip(points, waits, strict=True)}


def _sides(reduction: Reduction) -> tuple[UOp, UOp]:
    """The staged operands, rows before columns."""
    depends = reduction.at.depends
    h, *_ = warp_ranges(reduction.unit[0], depends[reduction.node])
    x, y = operands(reduction.node)
    return (x, y) if h in depends[x] else (y, x)


def _columns(reduction: Reduction, y: UOp) -> list[UOp]:
    """The unrolled ranges of blocks of 8 columns, outermost first."""
    depends = reduction.at.depends
    *_, q = warp_ranges(reduction.unit[0], depends[reduction.node])
    return _outermost_first(y, [r for r in reduction.upcasts if r in depends[y] and r is not q])


def _points(reduction: Reduction) -> list[Key]:
    """The unrolled coordinates of the sums of a thread, in the order of the unit."""
    h, _, _, q = warp_ranges(reduction.unit[0], reduction.at.depends[reduction.node])
    ranges = (*_columns(reduction, _sides(reduction)[1]), h, q)
    places = product(*(range(r.arg.size) for r in ranges))
    by_range = (dict(zip(ranges, place, strict=True)) for place in places)
    return [tuple([at[r] for r in reduction.upcasts]) for at in by_range]


def _outermost_first(staged: UOp, ranges: list[UOp]) -> list[UOp]:
    """Ranges by their strides in an operand."""
    strides, _ = affine(staged.src[0].src[1])
    return sorted(ranges, key=lambda r: -strides[r])


def _begin(reduction: Reduction, staged: UOp, inside: tuple[UOp, ...]) -> tuple[UOp, UOp]:
    """The memory of an operand, and the index where the matrix of these warps begins."""
    emitter, at = reduction.emitter, reduction.at
    with at.restoring(inside):
        for r in inside:
            at.env[r] = ZERO
            at.fixed.pop(r, None)
        assert emitter.threads is not None, "tiles are staged for groups of threads"
        memory, base, offset = emitter.threads.tiles.address(emitter, staged)
    return memory, emitter.place(base + offset) if offset else base
