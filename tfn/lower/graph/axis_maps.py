"""Which axes of its sources an axis of a value is: what can be made row by row, of which rows.

dot a[B, T, D] b[B, S, D] -> [B, T, S]      B is axis 0 of both, T of the first alone, S of the
                                            second; D is summed
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.trace import build
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp

Needs = Sequence[int | None]
"""Which axis of each source is cut; None of one that is read whole."""


def needs(u: UOp, axis: int) -> Needs | None:
    """Which axes of its sources a value is made of, where one of its own axes is cut."""
    rule = NEEDS.get(u.op)
    return rule(u, axis) if rule else None


def summed(u: UOp, index: int, axis: int) -> Needs | None:
    """The same, where an axis of one of the sources is summed over."""
    if u.op is Op.REDUCE:
        return [axis] if axis in u.arg.axes and u.arg.index is None else None
    if u.op is Op.DOT:
        pairs = zip(u.arg.contract_a, u.arg.contract_b, strict=True)
        return next((pair for pair in pairs if pair[index] == axis), None)
    return None


def becomes(u: UOp, index: int, axis: int) -> int | None:
    """Which axis of a value that of one of its sources is, if any."""
    for at in range(u.ndim):
        found = needs(u, at)
        if found is not None and found[index] == axis:
            return at
    return None


def _same(u: UOp, axis: int) -> Needs:
    return [axis] * len(u.src)


def _nothing(u: UOp, axis: int) -> Needs:
    return [None] * len(u.src)


def _expand(u: UOp, axis: int) -> Needs:
    return [axis if u.src[0].shape[axis] == u.shape[axis] else None]


def _reshape(u: UOp, axis: int) -> Needs | None:
    """An axis that is not regrouped; or any, of elements that are counted."""
    if u.src[0].op is Op.IOTA:
        return [None]
    old, before = u.src[0].shape, build.count(u.shape[:axis])
    same = (j for j, n in enumerate(old) if n == u.shape[axis])
    at = next((j for j in same if build.count(old[:j]) == before), None)
    return None if at is None else [at]


def _untouched(u: UOp, axis: int) -> Needs | None:
    like = u.src[0].shape[axis] == u.shape[axis]
    return [axis, *[None] * (len(u.src) - 1)] if like else None


def _reduce(u: UOp, axis: int) -> Needs:
    return [[i for i in range(u.src[0].ndim) if i not in u.arg.axes][axis]]


def _dot(u: UOp, axis: int) -> Needs:
    """An axis of both operands, or of one of them."""
    (a, b), arg = u.src, u.arg
    found: list[Needs] = list(zip(arg.batch_a, arg.batch_b, strict=True))
    found += [(i, None) for i in range(a.ndim) if i not in arg.contract_a + arg.batch_a]
    found += [(None, j) for j in range(b.ndim) if j not in arg.contract_b + arg.batch_b]
    return found[axis]


# fmt: off
NEEDS: dict[Op, Callable[[UOp, int], Needs | None]] = {
    **dict.fromkeys(ELEMENTWISE, _same),
    Op.IOTA: _nothing,
    Op.CONST: _nothing,
    Op.PERMUTE: lambda u, axis: [u.arg[axis]],
    Op.EXPAND: _expand,
    Op.RESHAPE: _reshape,
    Op.REDUCE: _reduce,
    Op.DOT: _dot,
    Op.CONCAT: lambda u, axis: None if axis == u.arg else _same(u, axis),
    Op.FLIP: lambda u, axis: None if axis in u.arg else [axis],
    Op.SHRINK: _untouched,
    Op.PAD: _untouched,
}
"""For each op that may keep an axis, where it comes from; None where it does not."""
# fmt: on
