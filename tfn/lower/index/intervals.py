"""Interval analysis: bounds of integers in index arithmetic, and whether it may wrap around.

`Facts` computes, for each integer or boolean node, an interval that holds all its values, and
whether it is exact: whether its arithmetic never wraps around, so that the laws of Z are true of
it.  A loop index is exact; a product of two loaded int64 is not.

    r in [0, 5], s in [0, 3]:    r * 4 + s   in [0, 23]
                                 (r * 4 + s) // 4   in [0, 5]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tfn.dtypes import BOOL, INTEGERS, NARROW, DType
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const_value

Interval = tuple[int, int]
"""The smallest and the largest value, both included."""

_LIMITS: dict[DType, Interval] = {
    BOOL: (0, 1),
    **{d: (int(np.iinfo(d).min), int(np.iinfo(d).max)) for d in INTEGERS - NARROW},
}


def limits(dtype: DType) -> Interval:
    """The smallest and the largest value of an integer dtype or bool."""
    return _LIMITS[dtype]


def _hull(values: list[int]) -> Interval:
    return min(values), max(values)


def _add(u: UOp, x: Interval, y: Interval) -> Interval:
    return x[0] + y[0], x[1] + y[1]


def _sub(u: UOp, x: Interval, y: Interval) -> Interval:
    return x[0] - y[1], x[1] - y[0]


def _mul(u: UOp, x: Interval, y: Interval) -> Interval:
    if x[0] >= 0 and y[0] >= 0:
        return x[0] * y[0], x[1] * y[1]
    return _hull([a * b for a in x for b in y])


def _neg(u: UOp, x: Interval) -> Interval:
    return -x[1], -x[0]


def _abs(u: UOp, x: Interval) -> Interval:
    return (0 if x[0] <= 0 <= x[1] else min(abs(x[0]), abs(x[1]))), max(abs(x[0]), abs(x[1]))


def _floordiv(u: UOp, x: Interval, y: Interval) -> Interval:
    if y[0] > 0 or y[1] < 0:
        return _hull([a // b for a in x for b in y])
    # The divisor may be -1, 1 or 0, which gives 0 by definition.
    largest = max(abs(x[0]), abs(x[1]))
    return -largest, largest


def _mod(u: UOp, x: Interval, y: Interval) -> Interval:
    if y[0] > 0:
        # Between two multiples of the divisor the remainder grows with the number.
        if y[0] == y[1] and x[0] // y[0] == x[1] // y[0]:
            return x[0] % y[0], x[1] % y[0]
        if x[0] >= 0:
            return x if x[1] < y[0] else (0, min(x[1], y[1] - 1))
        return 0, y[1] - 1
    return (y[0] + 1 if y[0] < 0 else 0), (y[1] - 1 if y[1] > 0 else 0)


def _max(u: UOp, x: Interval, y: Interval) -> Interval:
    return max(x[0], y[0]), max(x[1], y[1])


def _min(u: UOp, x: Interval, y: Interval) -> Interval:
    return min(x[0], y[0]), min(x[1], y[1])


def _ones(n: int) -> int:
    """The largest number of as many bits as n has."""
    return (1 << n.bit_length()) - 1


def _and(u: UOp, x: Interval, y: Interval) -> Interval:
    if u.dtype == BOOL:
        return min(x[0], y[0]), min(x[1], y[1])
    # It has no bit that a number without a sign lacks.
    upper = [i[1] for i in (x, y) if i[0] >= 0]
    return (0, min(upper)) if upper else _LIMITS[u.dtype]


def _or(u: UOp, x: Interval, y: Interval) -> Interval:
    if x[0] >= 0 and y[0] >= 0:
        return max(x[0], y[0]), _ones(x[1] | y[1])
    return _LIMITS[u.dtype]


def _xor(u: UOp, x: Interval, y: Interval) -> Interval:
    if x[0] >= 0 and y[0] >= 0:
        return (0, _ones(x[1] | y[1])) if x[0] != x[1] or y[0] != y[1] else (x[0] ^ y[0],) * 2
    return _LIMITS[u.dtype]


def _not(u: UOp, x: Interval) -> Interval:
    if u.dtype == BOOL:
        return 1 - x[1], 1 - x[0]
    return (~x[1], ~x[0]) if u.dtype.kind == "i" else _LIMITS[u.dtype]


def _shl(u: UOp, x: Interval, y: Interval) -> Interval:
    width = 8 * u.dtype.itemsize
    if y[0] < 0 or y[1] >= width:
        return _LIMITS[u.dtype]
    return _hull([a << b for a in x for b in y])


def _shr(u: UOp, x: Interval, y: Interval) -> Interval:
    if y[0] < 0 or y[1] >= 8 * u.dtype.itemsize:
        return _LIMITS[u.dtype]
    return _hull([a >> b for a in x for b in y])


def _lt(u: UOp, x: Interval, y: Interval) -> Interval:
    return int(x[1] < y[0]), int(x[0] < y[1])


def _le(u: UOp, x: Interval, y: Interval) -> Interval:
    return int(x[1] <= y[0]), int(x[0] <= y[1])


def _eq(u: UOp, x: Interval, y: Interval) -> Interval:
    return int(x[0] == x[1] == y[0] == y[1]), int(x[0] <= y[1] and y[0] <= x[1])


def _ne(u: UOp, x: Interval, y: Interval) -> Interval:
    low, high = _eq(u, x, y)
    return 1 - high, 1 - low


def _where(u: UOp, condition: Interval, x: Interval, y: Interval) -> Interval:
    if condition[0] == condition[1]:
        return x if condition[0] else y
    return min(x[0], y[0]), max(x[1], y[1])


def _cast(u: UOp, x: Interval) -> Interval:
    if u.dtype == BOOL:
        return int(x[0] > 0 or x[1] < 0), int(x != (0, 0))
    # Beyond the limits integers wrap around, so that any value is possible.
    low, high = _LIMITS[u.dtype]
    return x if low <= x[0] and x[1] <= high else (low, high)


def _clipped(u: UOp, limits: Interval) -> Interval:
    """The integers that a float becomes, which is clipped to constants; NaN becomes 0."""
    if u.op not in (Op.MIN, Op.MAX) or u.src[1].op is not Op.CONST:
        return limits
    low, high = _clipped(u.src[0], limits)
    bound = float(u.src[1].arg.value)
    bound = min(max(0 if bound != bound else bound, limits[0]), limits[1])
    if u.op is Op.MIN:
        return min(low, int(bound), 0), max(min(high, int(bound)), 0)
    return min(max(low, int(bound)), 0), max(high, int(bound), 0)


def _bitcast(u: UOp, x: Interval) -> Interval:
    """Integers of as many bits; those beyond the limits are a whole circle away."""
    (low, high), source = _LIMITS[u.dtype], u.src[0].dtype
    if source == BOOL or u.dtype == BOOL or source.itemsize != u.dtype.itemsize:
        return low, high
    circle = high - low + 1
    for turn in (0, circle, -circle):
        if low <= x[0] + turn and x[1] + turn <= high:
            return x[0] + turn, x[1] + turn
    return low, high


def _identity(u: UOp, x: Interval) -> Interval:
    return x


def _range(u: UOp, *bound: Interval) -> Interval:
    """A range whose last block may be shorter carries its bound as a source."""
    last = u.arg.size - 1 if not bound else min(u.arg.size, bound[0][1]) - 1
    return 0, max(last, 0)


def _lanes(u: UOp) -> Interval:
    return 0, u.arg - 1


def _const(u: UOp) -> Interval:
    value = const_value(u)
    return value, value


# fmt: off
INTERVAL: dict[Op, Callable[..., Interval]] = {
    Op.CONST: _const, Op.RANGE: _range, Op.IOTA: _range, Op.LANES: _lanes,
    Op.NEG: _neg, Op.ABS: _abs, Op.NOT: _not, Op.CAST: _cast, Op.BITCAST: _bitcast,
    Op.ADD: _add, Op.SUB: _sub, Op.MUL: _mul, Op.FLOORDIV: _floordiv, Op.MOD: _mod,
    Op.MAX: _max, Op.MIN: _min, Op.AND: _and, Op.OR: _or, Op.XOR: _xor, Op.SHL: _shl, Op.SHR: _shr,
    Op.LT: _lt, Op.LE: _le, Op.EQ: _eq, Op.NE: _ne, Op.WHERE: _where,
    Op.RESHAPE: _identity, Op.PERMUTE: _identity, Op.EXPAND: _identity, Op.SHRINK: _identity,
    Op.FLIP: _identity,
    Op.DETACH: _identity, Op.GBARRIER: _identity, Op.SPLAT: _identity,
}
"""The interval of a node from those of its sources, in Z; other ops may give any value."""
# fmt: on


class Facts:
    """The intervals of nodes, and their exactness, each computed once.

    Attributes:
        assumed: intervals of some nodes, which narrow those that follow from their ops.
    """

    __slots__ = ("_intervals", "_wrapping", "assumed")

    def __init__(self, assumed: Mapping[UOp, Interval] | None = None) -> None:
        self.assumed = assumed or {}
        self._intervals: dict[UOp, Interval] = {}
        self._wrapping: set[UOp] = set()

    def interval(self, u: UOp) -> Interval:
        """The smallest and the largest value that an integer or boolean node may have."""
        return self._intervals.get(u) or self._compute(u)

    def exact(self, u: UOp) -> bool:
        """Whether no arithmetic in `u` wraps around: the laws of Z are true of it."""
        if u not in self._intervals:
            self._compute(u)
        return u not in self._wrapping

    def is_exact_op(self, u: UOp) -> bool:
        """Whether this one operation does not wrap around, even if its sources have."""
        rule = INTERVAL.get(u.op)
        if rule is None or any(s.dtype not in _LIMITS for s in u.src):
            return False
        sources = [self.interval(s) for s in u.src]
        if u.op in (Op.FLOORDIV, Op.MOD) and sources[1][0] <= 0 <= sources[1][1]:
            return False
        (low, high), (least, most) = rule(u, *sources), _LIMITS[u.dtype]
        return least <= low and high <= most

    def holds(self, condition: UOp) -> bool:
        """Whether a boolean node is true at every element."""
        return self.interval(condition)[0] == 1 and condition not in self._wrapping

    def _compute(self, u: UOp) -> Interval:
        # Nearly always the sources are known already: no stack is needed.
        interval = self._from_sources(u)
        if interval is not None:
            return interval
        stack = [u]
        while stack:
            node = stack[-1]
            if node in self._intervals or self._from_sources(node) is not None:
                stack.pop()
            else:
                stack.extend([s for s in node.src if s not in self._intervals])
        return self._intervals[u]

    def _from_sources(self, node: UOp) -> Interval | None:
        """The interval of a node; None while that of a source has not been computed."""
        intervals, limits = self._intervals, _LIMITS[node.dtype]
        rule = INTERVAL.get(node.op)
        interval = limits
        if rule is not None:
            sources = []
            for s in node.src:
                source = intervals.get(s)
                if source is None:
                    if s.dtype in _LIMITS:
                        return None
                    rule = None  # a comparison or a cast of floats
                    if node.op is Op.CAST and node.dtype != BOOL:
                        interval = _clipped(s, limits)
                    break
                sources.append(source)
        if rule is not None:
            interval = rule(node, *sources)
            if interval[0] < limits[0] or interval[1] > limits[1]:
                interval = limits
                self._wrapping.add(node)
            elif not self._within_z(node, sources):
                self._wrapping.add(node)
        if node in self.assumed:
            low, high = self.assumed[node]
            interval = max(low, interval[0]), min(high, interval[1])
        intervals[node] = interval
        return interval

    def _within_z(self, node: UOp, sources: list[Interval]) -> bool:
        """Whether no source has wrapped around, and no divisor can be zero."""
        if self._wrapping and not self._wrapping.isdisjoint(node.src):
            return False
        if node.op is Op.FLOORDIV or node.op is Op.MOD:
            return sources[1][0] > 0 or sources[1][1] < 0
        return True


def bounds(u: UOp, assumed: Mapping[UOp, Interval] | None = None) -> Interval:
    """The smallest and the largest value of an integer or boolean node.

    Without an interval in `assumed`, a loaded value may be any of its dtype.

    Example:
        >>> from tfn.trace.argument import Range
        >>> r = UOp(Op.RANGE, (), Range(0, 6))
        >>> bounds(r * 4 - 1), bounds(r * 4 - 1, {r: (2, 3)})
        ((-1, 19), (7, 11))
    """
    return Facts(assumed).interval(u)
