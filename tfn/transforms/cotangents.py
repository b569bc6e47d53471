"""Accumulation of cotangents: adjacent pieces are concatenated instead of padded and added.

A function that splits an array, into the heads of a layer for example, gets back one cotangent for
each piece, padded with zeros to the whole.  These zeros need not be added::

    pad a (0, 3) + pad b (2, 0)   ->   concat a b

Pieces that are not adjacent are added as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

from tfn.trace.build import concat, pad
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Interval = tuple[int, int, int]
"""An axis, and the begin and end of a piece along it."""


def total(cts: Sequence[UOp]) -> UOp:
    """The sum of cotangents, at least one."""
    if len(cts) == 1:
        return cts[0]
    pieces: dict[Interval, UOp] = {}
    others: list[UOp] = []
    for ct in cts:
        interval = _interval(ct)
        if interval is None:
            others.append(ct)
        else:
            inner = ct.src[0]
            pieces[interval] = pieces[interval] + inner if interval in pieces else inner
    return reduce(add, [*others, *_joined(pieces, cts[0].shape)])


def _interval(u: UOp) -> Interval | None:
    """The interval of a piece that is padded with zeros along one axis; None for other values."""
    if u.op is not Op.PAD or any(u.arg.interior):
        return None
    value = u.src[1]
    axes = [i for i, ends in enumerate(zip(u.arg.low, u.arg.high, strict=True)) if any(ends)]
    if len(axes) != 1 or value.op is not Op.CONST or value.arg.value != 0:
        return None
    low = u.arg.low[axes[0]]
    return axes[0], low, low + u.src[0].shape[axes[0]]


def _joined(pieces: dict[Interval, UOp], shape: tuple[int, ...]) -> list[UOp]:
    """Runs of adjacent pieces, each concatenated, and padded to the whole."""
    runs: list[tuple[Interval, list[UOp]]] = []
    for (axis, low, high), piece in sorted(pieces.items(), key=lambda item: item[0]):
        if runs and runs[-1][0][0] == axis and runs[-1][0][2] == low:
            (_, start, _), parts = runs.pop()
            runs.append(((axis, start, high), [*parts, piece]))
        else:
            runs.append(((axis, low, high), [piece]))
    return [_padded(concat(parts, at[0]), at, shape) for at, parts in runs]


def _padded(u: UOp, at: Interval, shape: tuple[int, ...]) -> UOp:
    axis, low, high = at
    before, after = [0] * len(shape), [0] * len(shape)
    before[axis], after[axis] = low, shape[axis] - high
    return pad(u, tuple(before), tuple(after))
