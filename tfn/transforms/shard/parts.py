"""Ops on parts: the table `LOCAL`, of ops that are another one on the part that a device has.

Most ops are the same on parts as on the whole.  Some have sizes in their arguments, and those whose
factors are crossed exchange rows with other devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tfn._support.frozen import frozen
from tfn.trace.axes import part
from tfn.trace.build import (
    broadcast_to,
    cast,
    concat,
    flip,
    full_like,
    identity,
    iota,
    pad,
    scatter,
    where,
)
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const
from tfn.transforms.shard.across import (
    argmax_across,
    gather_across,
    rows_across,
    scatter_indices,
    sort_across,
)
from tfn.transforms.shard.factors import Factors
from tfn.transforms.shard.halo import (
    Place,
    concat_across,
    conv_across,
    flip_across,
    masked,
    pad_across,
    shrink_across,
)


@frozen
class Division:
    """The division of an op.

    Attributes:
        factors: of the op.
        places: for each divided factor where this device is among its parts.
        shape: of the part of the result.
    """

    factors: Factors
    places: Mapping[int, Place]
    shape: Shape

    def crossed(self, operand: int = 0) -> list[tuple[int, Place]]:
        """The divided axes of an operand whose factors are crossed."""
        row, crossed = self.factors.operands[operand], self.factors.crossed
        places = self.places
        return [
            (i, places[f])
            for i, f in enumerate(row)
            if f is not None and f in crossed and f in places
        ]


def _iota(u: UOp, src: Sequence[UOp], by: Division) -> UOp:
    """Counting begins where this device's part does."""
    count = iota(by.shape, 0, u.dtype)
    if 0 not in by.places:
        return count
    first = cast(by.places[0].number, u.dtype) * by.shape[0]
    return count + broadcast_to(first, by.shape)


def _shrink(u: UOp, src: Sequence[UOp], by: Division) -> UOp:
    """Divided axes by windows, or looked up; the others as they are."""
    (x,) = src
    for axis, at in by.crossed():
        is_short = axis in by.factors.reduced
        x = rows_across(u, x, axis, at) if is_short else shrink_across(u, x, axis, at)
    return part(u, (x,), by.shape)


def _pad(u: UOp, src: Sequence[UOp], by: Division) -> UOp:
    """Divided axes by windows; the others as they are."""
    (x, value), arg = src, u.arg
    for axis, at in by.crossed():
        x = pad_across(u, x, axis, value, at)
    low, high, interior = (
        tuple(0 if axis in by.places else n for axis, n in enumerate(row))
        for row in (arg.low, arg.high, arg.interior)
    )
    return pad(x, low, high, interior, value)


def _concat(u: UOp, src: Sequence[UOp], by: Division) -> UOp:
    at = by.places.get(u.arg)
    return concat(src, u.arg) if at is None else concat_across(u, src, at)


def _flip(u: UOp, src: Sequence[UOp], by: Division) -> UOp:
    (x,) = src
    for axis in u.arg:
        x = flip_across(x, axis, by.places[axis]) if axis in by.places else flip(x, (axis,))
    return x


def _reduce(u: UOp, src: Sequence[UOp], by: Division) -> UOp:
    for _, at in by.crossed():
        return argmax_across(u, src[0], at)
    return UOp(u.op, tuple(src), u.arg)


def _conv(u: UOp, src: Sequence[UOp], by: Division) -> UOp:
    row, reduced = by.factors.operands[0], by.factors.reduced
    places = [(axis - 1, row[axis] not in reduced, at) for axis, at in by.crossed()]
    x, w = src
    return conv_across(u, x, w, places)


def _gather(u: UOp, src: Sequence[UOp], by: Division) -> UOp:
    (operand, indices), looked_up = src, by.crossed()
    if looked_up:
        sizes = by.shape[indices.ndim - 1 :]
        return gather_across(u, operand, indices, sizes, looked_up)
    return part(u, src, by.shape)


def _scatter(u: UOp, src: Sequence[UOp], by: Division) -> UOp:
    """The operand counts on the first device alone if points are divided."""
    (operand, indices, updates), of_rows = src, by.crossed()
    if of_rows:
        indices = scatter_indices(u, operand, indices, of_rows)
    for factor in by.factors.reduced:
        if factor in by.places and not (u.src[0].op is Op.CONST and u.src[0].arg.bits == 0):
            is_first = broadcast_to(by.places[factor].number <= 0, operand.shape)
            operand = where(is_first, operand, full_like(operand, 0))
    return scatter(operand, indices, updates, u.arg.op, u.arg.batch)


def _sort(u: UOp, src: Sequence[UOp], by: Division) -> UOp:
    for _, at in by.crossed():
        return UOp(Op.TUPLE, tuple(sort_across(u, src, at)))
    return UOp(Op.SORT, tuple(src), u.arg)


Rule = Callable[[UOp, Sequence[UOp], Division], UOp]

# fmt: off
LOCAL: dict[Op, Rule] = {
    Op.IOTA: _iota,
    Op.PAD: _pad,
    Op.SHRINK: _shrink,
    Op.FLIP: _flip,
    Op.CONCAT: _concat,
    Op.REDUCE: _reduce,
    Op.CONV: _conv,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.SORT: _sort,
}
"""Ops that count from where their part begins, or exchange rows; all others are a `part`."""
# fmt: on


def local(u: UOp, src: Sequence[UOp], by: Division) -> UOp:
    """The op on the parts of its operands."""
    factors = by.factors
    for factor, op in factors.reduced.items():
        if factor in by.places and factor not in factors.crossed:
            src = [
                _without_padding(x, row.index(factor), factors.sizes[factor], op, by.places[factor])
                if factor in row
                else x
                for x, row in zip(src, factors.operands, strict=True)
            ]
    rule = LOCAL.get(u.op)
    return part(u, src, by.shape) if rule is None else rule(u, src, by)


def _without_padding(x: UOp, axis: int, n: int, op: Op, at: Place) -> UOp:
    """An operand with the identity of a reduction in the place of padding."""
    return masked(x, axis, n, const(identity(op, x.dtype), x.dtype), at)
