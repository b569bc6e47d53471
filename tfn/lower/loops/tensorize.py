"""Tensorization: contractions mapped to matrix units (AMX tiles, VNNI and BF16 dot products)::

    for i: for j: sum over r of a[i * K + r] * b[(j // W * K / 2 + r // 2) * 2 * W + ...]
    ->  blocks of 32 x 32 sums; along r 32 at once

It matches operands that `packing` has brought into the layout of a unit; others are multiplied by
vectors.  AMX and VDPBF16PS flush denormals: they take numbers below 2**-126 for zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tfn.dtypes import FLOAT32, FLOATS, INT32, int8, int16, uint8
from tfn.lower.index.affine import Terms, affine
from tfn.lower.loops import loop_nest
from tfn.lower.loops.cost_model import Model, model_of
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Split, Tile
from tfn.lower.target.matrix_units import MatrixUnit, matrix_units
from tfn.lower.target.target import Target
from tfn.trace.argument import Place
from tfn.trace.build import count
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

_WITH_BYTES = ({int16.dtype, int8.dtype}, {int16.dtype, uint8.dtype})


def tensorize(n: Nest, fold: UOp, target: Target) -> tuple[Nest, UOp] | None:
    """The nest with a contraction on the largest matrix unit that fits, and its vector axis.

    None if there is no such unit, or if the operands are not in its layout.
    """
    loads = [loaded(s) for s in fold.src[0].src]
    if any(u.op is not Op.LOAD or len(u.src) > 2 for u in loads):
        return None
    if loads[0].dtype != loads[1].dtype:
        return _match_bytes(n, fold, loads, target)
    # Units add in 32 bits only: a sum in another dtype would have other bits.
    if fold.dtype != (FLOAT32 if loads[0].dtype in FLOATS else INT32):
        return None
    for unit in matrix_units(target, loads[0].dtype):
        for r in fold.src[1:]:
            if r.arg.size % unit.k_group == 0:
                matched = (_match_tiles if unit.has_tiles else _match_pairs)(n, r, unit, target)
                if matched is not None:
                    return matched
    return None


def loaded(factor: UOp) -> UOp:
    """A factor of a product without the conversions after it is loaded."""
    while factor.op is Op.CAST:
        factor = factor.src[0]
    return factor


def unwidened(factor: UOp) -> UOp:
    """A factor of a product without the conversions that only widen it."""
    while factor.op is Op.CAST and factor.src[0].dtype.itemsize <= factor.dtype.itemsize:
        factor = factor.src[0]
    return factor


def terms_of(body: UOp) -> list[UOp]:
    """The terms of a sum, as far as it is one of additions."""
    terms, stack = list[UOp](), [body]
    while stack:
        u = stack.pop()
        if u.op is Op.ADD:
            stack += reversed(u.src)
        else:
            terms.append(u)
    return terms


def _match_pairs(n: Nest, r: UOp, unit: MatrixUnit, target: Target) -> tuple[Nest, UOp] | None:
    """The nest with dot products of neighbours in each lane.

    Along the reduction both operands have stride 1; along the vector axis one of them has the
    stride of a group, the other is broadcast.
    """
    split, neighbour, model, operands = _split(n, r, unit, target)
    if len(operands) != 2 or any(model.stride(*operand, neighbour) != 1 for operand in operands):
        return None
    for lane in split.loops:
        strides = sorted(model.stride(*operand, lane) for operand in operands)
        if strides == [0, unit.k_group]:
            return split, lane
    return None


def _match_bytes(
    n: Nest, fold: UOp, loads: Sequence[UOp], target: Target
) -> tuple[Nest, UOp] | None:
    """The nest with dot products of int16 by bytes, which are widened and paired in registers.

    The bytes have stride 1 along the vector axis, the others along the reduction.
    """
    if {u.dtype for u in loads} not in _WITH_BYTES or fold.dtype != INT32:
        return None
    for unit in matrix_units(target, int16.dtype):
        for r in fold.src[1:]:
            if unit.has_tiles or r.arg.size % unit.k_group:
                continue
            split, neighbour, model, operands = _split(n, r, unit, target)
            operands = sorted(operands, key=lambda operand: operand[0].dtype.itemsize)
            if len(operands) != 2 or model.stride(*operands[1], neighbour) != 1:
                continue
            for lane in split.loops:
                if [model.stride(*operand, lane) for operand in operands] == [1, 0]:
                    return split, lane
    return None


def _split(
    n: Nest, r: UOp, unit: MatrixUnit, target: Target
) -> tuple[Nest, UOp, Model, list[tuple[UOp, Terms]]]:
    """The nest with the range of a unit taken from the end of a loop, which it gives too.

    Then its model, and the loads along that range with the coefficients of their addresses.
    """
    split = Split(r.arg.number, unit.depth, Place.UNIT).apply(n)
    q = split.newest(2)[1]
    split = loop_nest.simplified(split)
    model = model_of(split, target)
    loads = [(u, t) for u, t, _ in model.accesses if u.op is Op.LOAD and q in model.depends[u]]
    return split, q, model, loads


class _TileAxes(NamedTuple):
    """The loops that tiles are taken from: over rows of one operand, and columns of the other."""

    rows: UOp
    columns: UOp


def _match_tiles(n: Nest, r: UOp, unit: MatrixUnit, target: Target) -> tuple[Nest, UOp] | None:
    """The nest with products of matrices: the vector axis is the loop over blocks of columns."""
    if len(loop_nest.folds(n.body)) > 1 or loop_nest.in_order(n.body):
        return None
    split, q, model, operands = _split(n, r, unit, target)
    axes = None
    # Either operand of the product may be the one whose rows are taken.
    for a, b in (operands, operands[::-1]) if len(operands) == 2 else ():
        axes = axes or _tile_axes(model, a, b, q, unit)
    if axes is None or not unit.fits(axes.rows.arg.size, axes.columns.arg.size, r.arg.size):
        return None
    height, width = unit.register_block(axes.rows.arg.size, axes.columns.arg.size)
    tiled = Tile(axes.rows.arg.number, height, unit.rows, Place.UNIT).apply(split)
    tiled = Tile(axes.columns.arg.number, width, unit.columns).apply(tiled)
    blocks = tiled.newest(3)[0].arg.number
    tiled = loop_nest.simplified(tiled)
    return tiled, tiled.loop(blocks)


def _tile_axes(
    model: Model, a: tuple[UOp, Terms], b: tuple[UOp, Terms], q: UOp, unit: MatrixUnit
) -> _TileAxes | None:
    """The loops over rows of `a` and columns of `b`, if both are in the layout of a unit."""
    loops, depends = model.nest.loops, model.depends
    if not (_has_one_stride(a[1], q) and a[1][q] == 1 and _is_k_grouped(b[1], q, unit)):
        return None
    rows = [
        r
        for r in loops
        if _has_one_stride(a[1], r) and r not in depends[b[0]] and r.arg.size >= unit.rows
    ]
    columns = [
        c
        for c in loops
        if c not in depends[a[0]]
        and model.stride(*b, c) == unit.k_group
        and _has_whole_rows(b[0], q, c, unit)
    ]
    if not rows or not columns:
        return None
    # A tile load takes one row per stride: the shorter the stride, the fewer pages it touches.
    return _TileAxes(min(rows, key=lambda r: abs(a[1][r])), columns[0])


def _has_one_stride(terms: Terms, r: UOp) -> bool:
    """Whether an address has the same stride along a range everywhere."""
    return r in terms and not any(t is not r and r in walk([t]) for t in terms)


def _is_k_grouped(terms: Terms, q: UOp, unit: MatrixUnit) -> bool:
    """Whether an address depends on q as ``q // group`` and ``q % group``, the latter by 1."""
    digits = {t.op: k for t, k in terms.items() if q in t.src and _divides_by(t, unit.k_group)}
    others = [
        t for t in terms if q in walk([t]) and not (q in t.src and _divides_by(t, unit.k_group))
    ]
    return set(digits) == {Op.FLOORDIV, Op.MOD} and digits[Op.MOD] == 1 and not others


def _divides_by(t: UOp, n: int) -> bool:
    """Whether a term is a quotient or a remainder by a number."""
    divides = t.op in (Op.FLOORDIV, Op.MOD) and t.src[1].op is Op.CONST
    return divides and int(t.src[1].arg.value) == n


def _has_whole_rows(load: UOp, q: UOp, columns: UOp, unit: MatrixUnit) -> bool:
    """Whether memory consists of rows of as many columns as the unit takes.

    Then a tile load may take a whole row wherever one of its columns is read: at the edge it reads
    columns that do not count, but never beyond the buffer.
    """
    row = unit.columns * unit.k_group
    terms, constant = affine(load.src[1])
    for t, k in terms.items():
        inside = t is columns or (t.op is Op.MOD and t.src[0] in (columns, q))
        if t.op is Op.MOD and t.src[0] is columns and int(t.src[1].arg.value) % unit.columns:
            return False
        if not inside and k % row:
            return False
    return constant % row == 0 and count(load.src[0].shape) % row == 0
