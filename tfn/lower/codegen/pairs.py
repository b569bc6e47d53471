"""Operands of DOT2: values of neighbours along a sum, side by side in each lane of a vector.

    a[2 c] * b[2 c] + a[2 c + 1] * b[2 c + 1]  in lane c
    ->  dot2 a[0], a[1], a[2], ... by b[0], b[1], b[2], ...      loaded as they lie

Bytes are four neighbours.  Elementwise values of loaded ones, as nibbles of bytes, are computed of
these.
"""

from __future__ import annotations

from tfn.lower.codegen import lane_parts
from tfn.lower.codegen.emitter import Emitter, constant_truth
from tfn.lower.codegen.register_transpose import transpose
from tfn.lower.target.register_tile import PART_BYTES
from tfn.trace.argument import Access, Place
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp, const_value


def neighbours(emitter: Emitter, u: UOp, unit: UOp, lanes: int) -> UOp:
    """The values of a node at all points of `unit`, side by side in each lane."""
    count: int = unit.arg.size
    if unit not in emitter.at.depends[u]:
        return repeated(emitter, emitter.emit(u), lanes, count)
    if u.op is Op.LOAD and _is_unconditional(emitter, u, unit):
        with emitter.at.constant(unit, 0):
            loaded = _load(emitter, u, lanes, count)
        if loaded is not None:
            return loaded
    elif u.op is Op.WHERE and unit not in emitter.at.depends[u.src[0]]:
        truth = constant_truth(emitter.emit(u.src[0]))
        if truth is not None:
            return neighbours(emitter, u.src[1 if truth else 2], unit, lanes)
    elif u.op in ELEMENTWISE:
        src = [neighbours(emitter, s, unit, lanes) for s in u.src]
        return emitter.place(UOp(u.op, tuple(src), u.arg))
    rows: list[UOp] = []
    for i in range(count):
        with emitter.at.constant(unit, i):
            rows.append(emitter.splat(emitter.emit(u), lanes))
    while len(rows) > 1:  # 0 beside 2, 1 beside 3; then these
        half, width = len(rows) // 2, rows[0].shape[0]
        order = tuple(i for j in range(width) for i in (j, j + width))
        rows = [emitter.place(UOp(Op.SHUFFLE, pair, order)) for pair in zip(rows, rows[half:])]
    return rows[0]


def _is_unconditional(emitter: Emitter, load: UOp, unit: UOp) -> bool:
    """Whether a load has no condition, or one that is true here."""
    if len(load.src) == 2:
        return True
    condition = load.src[2]
    return unit not in emitter.at.depends[condition] and bool(
        constant_truth(emitter.emit(condition))
    )


def repeated(emitter: Emitter, value: UOp, lanes: int, count: int) -> UOp:
    """A value for all neighbours of each lane."""
    if not value.shape:
        return emitter.splat(value, count * lanes)
    order = tuple(i // count for i in range(count * lanes))
    return emitter.place(UOp(Op.SHUFFLE, (value, value), order))


def _load(emitter: Emitter, load: UOp, lanes: int, count: int) -> UOp | None:
    """A loaded element and the next ones, in every lane; None if they are no neighbours."""
    for u in emitter.sources(load):  # `emit` is not used: the load itself is widened
        emitter.emit(u)
    parts = lane_parts.load(emitter, load, count)
    if parts is not None:
        return parts
    base, offset, width, stride = emitter.address(load.src[1])
    buffer = load.src[0]
    if base.shape or (width > 1 and stride != count):
        first = Access(offset, width, stride)
        return None if base.shape else _load_turned(emitter, load, base, first, count)
    if width == 1:
        group = emitter.place(UOp(Op.LOAD, (buffer, base), Access(offset, count, 1)))
        return emitter.place(UOp(Op.SHUFFLE, (group, group), (*range(count),) * lanes))
    mask = emitter.predicate(load, None, width)
    src = (buffer, base) if mask is None else (buffer, base, repeated(emitter, mask, width, count))
    return emitter.place(UOp(Op.LOAD, src, Access(offset, count * width, 1)))


def _load_turned(emitter: Emitter, load: UOp, base: UOp, first: Access, count: int) -> UOp | None:
    """Neighbours that lie together, of lanes that lie apart: rows of them, transposed.

    A row has as many groups of neighbours as there are lanes; or as a part of a vector has, then
    several are side by side in one.
    """
    terms, _ = emitter.affine(load.src[1])
    inside = [r for r, k in terms if k == count and r.op is Op.RANGE]
    across = [r for r in inside if r.arg.place is Place.UPCAST]
    groups = PART_BYTES // (count * load.dtype.itemsize)
    if len(across) != 1 or emitter.lane_mask(load) is not None:
        return None
    size, at = emitter.at.trips(across[0]), const_value(emitter.env[across[0]])
    if size not in (first.lanes, groups) or first.lanes % groups:
        return None
    rows = [
        emitter.place_load(
            UOp(Op.LOAD, (load.src[0], base), Access(start - at * count, size * count, 1))
        )
        for start in range(first.offset, first.offset + first.lanes * first.stride, first.stride)
    ]
    vectors = [lane_parts.joined(emitter, rows[i::size]) for i in range(size)]
    return transpose(vectors, emitter.place, count)[at]
