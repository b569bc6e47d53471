"""Index expressions: random ones, drawn by hypothesis, and their values over all ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tfn.dtypes import INT64
from tfn.trace.argument import Place, Range
from tfn.trace.build import where
from tfn.trace.op import Op
from tfn.trace.oracle import MEANING
from tfn.trace.uop import UOp, const, walk


def ranged(number: int, size: int, place: Place = Place.LOOP) -> UOp:
    """A loop variable."""
    return UOp(Op.RANGE, (), Range(number, size, place))


RANGES = (ranged(0, 4), ranged(1, 3), ranged(2, 6, Place.UPCAST))
DIVISORS = st.sampled_from([1, 2, 3, 4, 6, 12, 24])
FACTORS = st.sampled_from([-2, -1, 0, 1, 2, 3, 4, 6, 12])


OPS = [
    *(Op.ADD, Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.MOD, Op.MAX, Op.MIN, Op.WHERE),
    *(Op.NEG, Op.ABS),
]
COMPARISONS = [Op.LT, Op.LE, Op.EQ, Op.NE]
LOGIC = [Op.AND, Op.OR, Op.XOR, Op.NOT]


def index(value: int) -> UOp:
    """A constant of index arithmetic."""
    return const(value, INT64)


@st.composite
def indices(draw: st.DrawFn, depth: int = 4) -> UOp:
    """An index expression, at most `depth` operations deep."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.one_of(st.sampled_from(RANGES), st.integers(-7, 13).map(index)))
    op = draw(st.sampled_from(OPS))
    x = draw(indices(depth - 1))
    if op in (Op.NEG, Op.ABS):
        return UOp(op, (x,))
    if op is Op.MUL:
        return x * draw(FACTORS)
    if op in (Op.FLOORDIV, Op.MOD):
        return UOp(op, (x, index(draw(DIVISORS))))
    y = draw(indices(depth - 1))
    return where(draw(predicates(depth - 1)), x, y) if op is Op.WHERE else UOp(op, (x, y))


@st.composite
def predicates(draw: st.DrawFn, depth: int = 4) -> UOp:
    """A condition on index expressions."""
    op = draw(st.sampled_from([*COMPARISONS, *LOGIC] if depth > 1 else COMPARISONS))
    if op is Op.NOT:
        return ~draw(predicates(depth - 1))
    parts = predicates(depth - 1) if op in LOGIC else indices(max(depth - 1, 0))
    return UOp(op, (draw(parts), draw(parts)))


def at_every_point(u: UOp, ranges: Sequence[UOp] = RANGES) -> Any:
    """The value of an expression at every point of its ranges."""
    grid = np.meshgrid(*(np.arange(r.arg.size, dtype=np.int64) for r in ranges), indexing="ij")
    values: dict[UOp, Any] = dict(zip(ranges, grid))
    for node in walk([u]):
        if node.op is Op.CONST:
            values[node] = np.full(grid[0].shape, node.arg.value)
        elif node not in values:
            values[node] = MEANING[node.op](node.arg, *(values[s] for s in node.src))
    return values[u]


def flatten(point: Sequence[UOp], shape: Sequence[int]) -> UOp:
    """The row-major position of a point."""
    position = index(0)
    for i, n in zip(point, shape, strict=True):
        position = position * n + i
    return position


def unflatten(position: UOp, shape: Sequence[int]) -> list[UOp]:
    """The point at a row-major position."""
    point = []
    for n in reversed(shape):
        point.append(position % n)
        position = position // n
    return point[::-1]


def reshaped(*shapes: tuple[int, ...]) -> list[UOp]:
    """The point in the first shape of an element of the last one, through all in between."""
    point: list[UOp] = [ranged(i, n) for i, n in enumerate(shapes[-1])]
    for outer, inner in zip(reversed(shapes[:-1]), reversed(shapes[1:]), strict=True):
        point = unflatten(flatten(point, inner), outer)
    return point
