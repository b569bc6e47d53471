"""Axis propagation: the axis of each source that an axis of a value corresponds to.

A value can be computed block by block along an axis if each of its sources can be cut along an
axis of its own, or is read whole::

    dot a[B, T, D] b[B, S, D] -> [B, T, S]      B is axis 0 of both, T of a alone, S of b alone;
                                                D is summed over
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.trace import build
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp

SourceAxes = Sequence[int | None]
"""For each source, its axis that is cut; None for a source that is read whole."""


def source_axes(u: UOp, axis: int) -> SourceAxes | None:
    """Returns the axes of the sources where `axis` of the value is cut; None if it cannot be."""
    rule = SOURCE_AXES.get(u.op)
    return rule(u, axis) if rule else None


def reduced_axes(u: UOp, index: int, axis: int) -> SourceAxes | None:
    """Returns the axes of the sources where `axis` of source `index` is summed over, if it is."""
    if u.op is Op.REDUCE:
        return [axis] if axis in u.arg.axes and u.arg.index is None else None
    if u.op is Op.DOT:
        pairs = zip(u.arg.contract_a, u.arg.contract_b, strict=True)
        return next((pair for pair in pairs if pair[index] == axis), None)
    return None


def result_axis(u: UOp, index: int, axis: int) -> int | None:
    """Returns the axis of the value that `axis` of source `index` becomes, if any."""
    for candidate in range(u.ndim):
        axes = source_axes(u, candidate)
        if axes is not None and axes[index] == axis:
            return candidate
    return None


def _same(u: UOp, axis: int) -> SourceAxes:
    return [axis] * len(u.src)


def _none(u: UOp, axis: int) -> SourceAxes:
    return [None] * len(u.src)


def _expand(u: UOp, axis: int) -> SourceAxes:
    return [axis if u.src[0].shape[axis] == u.shape[axis] else None]


def _reshape(u: UOp, axis: int) -> SourceAxes | None:
    """An axis that the reshape leaves whole; any axis of an iota, which has no memory to cut."""
    if u.src[0].op is Op.IOTA:
        return [None]
    old, before = u.src[0].shape, build.count(u.shape[:axis])
    # The same axis has the same size and as many elements before it.
    same_size = (j for j, n in enumerate(old) if n == u.shape[axis])
    at = next((j for j in same_size if build.count(old[:j]) == before), None)
    return None if at is None else [at]


def _untouched(u: UOp, axis: int) -> SourceAxes | None:
    """An axis along which nothing is cut off or added."""
    whole = u.src[0].shape[axis] == u.shape[axis]
    return [axis, *[None] * (len(u.src) - 1)] if whole else None


def _reduce(u: UOp, axis: int) -> SourceAxes:
    return [[i for i in range(u.src[0].ndim) if i not in u.arg.axes][axis]]


def _dot(u: UOp, axis: int) -> SourceAxes:
    """A batch axis of both operands, or a free axis of one of them."""
    (a, b), arg = u.src, u.arg
    axes: list[SourceAxes] = list(zip(arg.batch_a, arg.batch_b, strict=True))
    axes += [(i, None) for i in range(a.ndim) if i not in arg.contract_a + arg.batch_a]
    axes += [(None, j) for j in range(b.ndim) if j not in arg.contract_b + arg.batch_b]
    return axes[axis]


# fmt: off
SOURCE_AXES: dict[Op, Callable[[UOp, int], SourceAxes | None]] = {
    **dict.fromkeys(ELEMENTWISE, _same),
    Op.IOTA: _none,
    Op.CONST: _none,
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
"""The rule of each op that can be cut along an axis; ops without a row cannot."""
# fmt: on
