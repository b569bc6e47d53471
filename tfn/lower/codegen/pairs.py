"""Operands of DOT2: values of two neighbours along a sum, side by side in each lane of a vector.

    a[2 c] * b[2 c] + a[2 c + 1] * b[2 c + 1]  in lane c
    ->  dot2 a[0], a[1], a[2], ... by b[0], b[1], b[2], ...      loaded as they lie

Elementwise values of loaded ones, as nibbles of bytes, are computed of these.
"""

from __future__ import annotations

from tfn.lower.codegen.emitter import Emitter, constant_truth
from tfn.trace.argument import Access
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp


def pairs(emitter: Emitter, u: UOp, unit: UOp, lanes: int) -> UOp:
    """The values of a node at two neighbours of `unit`, side by side in each lane."""
    if unit not in emitter.at.depends[u]:
        return twice(emitter, emitter.emit(u), lanes)
    if u.op is Op.LOAD and len(u.src) == 2:
        with emitter.at.constant(unit, 0):
            loaded = _load_pairs(emitter, u, lanes)
        if loaded is not None:
            return loaded
    elif u.op is Op.WHERE and unit not in emitter.at.depends[u.src[0]]:
        truth = constant_truth(emitter.emit(u.src[0]))
        if truth is not None:
            return pairs(emitter, u.src[1 if truth else 2], unit, lanes)
    elif u.op in ELEMENTWISE:
        src = [pairs(emitter, s, unit, lanes) for s in u.src]
        return emitter.place(UOp(u.op, tuple(src), u.arg))
    rows: list[UOp] = []
    for i in range(2):
        with emitter.at.constant(unit, i):
            rows.append(emitter.splat(emitter.emit(u), lanes))
    order = tuple(i for j in range(lanes) for i in (j, j + lanes))
    return emitter.place(UOp(Op.SHUFFLE, tuple(rows), order))


def twice(emitter: Emitter, value: UOp, lanes: int) -> UOp:
    """A value for both elements of each pair."""
    if not value.shape:
        return emitter.splat(value, 2 * lanes)
    order = tuple(i // 2 for i in range(2 * lanes))
    return emitter.place(UOp(Op.SHUFFLE, (value, value), order))


def _load_pairs(emitter: Emitter, load: UOp, lanes: int) -> UOp | None:
    """A loaded element and the next one, in every lane; None if they are not neighbours."""
    for u in emitter.sources(load):  # `emit` is not used: the load itself is widened
        emitter.emit(u)
    base, offset, width, stride = emitter.address(load.src[1])
    buffer = load.src[0]
    if base.shape or (width > 1 and stride != 2):
        return None
    if width == 1:
        pair = emitter.place(UOp(Op.LOAD, (buffer, base), Access(offset, 2, 1)))
        return emitter.place(UOp(Op.SHUFFLE, (pair, pair), (0, 1) * lanes))
    mask = emitter.predicate(load, None, width)
    src = (buffer, base) if mask is None else (buffer, base, twice(emitter, mask, width))
    return emitter.place(UOp(Op.LOAD, src, Access(offset, 2 * width, 1)))
