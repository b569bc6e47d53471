"""Predicates: conjunctions of bounds, simplified, and the intervals that they imply.

a < 5 & g & a < 3 & g    ->   a < 3 & g
255 < r & r < 512        ->   r in [256, 511]
unsigned x < 3           ->   x in [0, 2]
"""

from __future__ import annotations

from tfn.dtypes import BOOL, INT64, INTEGERS
from tfn.lower.index.affine import Terms
from tfn.lower.index.intervals import Facts, Interval, limits
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, const_value

MAX_CONJUNCTS = 64
"""Conditions up to which a conjunction is taken apart; each simplification costs as many steps."""


def simplify_conjunction(u: UOp, facts: Facts) -> UOp | None:
    """A conjunction with each condition once, and one upper and one lower bound of each value."""
    if u.dtype != BOOL:
        return None
    conditions = _conjuncts(u)
    upper: dict[UOp, int] = {}
    lower: dict[UOp, int] = {}
    # The strictest condition by what it bounds: ``v < v`` and ``v <= v`` stand for the two sides
    # of a value v, any other condition for itself.
    strictest: dict[UOp, UOp] = {}
    for condition in conditions:
        value, limit, side = _as_bound(condition, upper, lower)
        if value is None:
            strictest[condition] = condition
        elif side is upper and limit < upper.get(value, limit + 1):
            upper[value] = limit
            strictest[UOp(Op.LT, (value, value))] = condition
        elif side is lower and limit > lower.get(value, limit - 1):
            lower[value] = limit
            strictest[UOp(Op.LE, (value, value))] = condition
    empty = any(v in lower and lower[v] + 1 >= limit for v, limit in upper.items())
    if empty or any(c.op is Op.NOT and c.src[0] in strictest for c in conditions):
        return const(False, BOOL, u.shape)
    if len(strictest) == len(conditions):
        return None
    first, *others = strictest.values()
    for condition in others:
        first = first & condition
    return first


def implied(u: UOp) -> dict[UOp, Interval]:
    """The intervals of integers wherever a predicate holds.

    Example:
        >>> from tfn.dtypes import UINT64
        >>> from tfn.trace.argument import Range
        >>> r = UOp(Op.RANGE, (), Range(0, 768))
        >>> implied((const(255, INT64) < r) & (r < 512))[r]
        (256, 511)
        >>> implied(UOp(Op.BITCAST, (r,), UINT64) < 3)[r]
        (0, 2)
    """
    upper: dict[UOp, int] = {}
    lower: dict[UOp, int] = {}
    for condition in _conjuncts(u):
        value, limit, side = _as_bound(condition, upper, lower)
        if value is not None:
            tighter = min if side is upper else max
            side[value] = tighter(side.get(value, limit), limit)
    for value, limit in list(upper.items()):
        # A negative number, read without its sign, is larger than any that has none.
        if value.op is Op.BITCAST and value.dtype.kind == "u" and value.src[0].dtype in INTEGERS:
            x = value.src[0]
            most = limits(x.dtype)[1]
            if x.dtype.itemsize == value.dtype.itemsize and limit <= most + 1:
                upper[x] = min(upper.get(x, limit), limit)
                lower[x] = max(lower.get(x, -1), -1)
    # Bounds are strict, so an absent one is a step outside of the range of INT64.
    least, most = limits(INT64)
    return {v: (lower.get(v, least - 1) + 1, upper.get(v, most + 1) - 1) for v in (*upper, *lower)}


def _conjuncts(u: UOp) -> list[UOp]:
    conditions: list[UOp] = []
    stack = [u]
    while stack:
        node = stack.pop()
        if node.op is Op.AND and len(conditions) + len(stack) < MAX_CONJUNCTS:
            stack += (node.src[1], node.src[0])
        else:
            conditions.append(node)
    return conditions


def _as_bound(condition: UOp, upper: Terms, lower: Terms) -> tuple[UOp | None, int, Terms]:
    """The v and c of a condition ``v < c`` or ``c < v``, and the table of its side; or no v.

    ``v <= c`` is ``v < c + 1``.
    """
    if condition.op in (Op.LT, Op.LE) and condition.src[0].dtype in INTEGERS:
        left, right = condition.src
        further = int(condition.op is Op.LE)
        if right.op is Op.CONST:
            return left, const_value(right) + further, upper
        if left.op is Op.CONST:
            return right, const_value(left) - further, lower
    return None, 0, upper
