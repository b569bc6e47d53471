"""Sharding rules: the factors of an op, and what each of its divisions costs.

An axis of a mesh that divides a factor (`trace/axes.py`) divides every axis of an operand or of
the result that the factor runs along.  A factor that is reduced leaves partial results on the
devices, which a collective combines.  A factor that is crossed needs rows of other devices within
the op: those of a window, say.  An axis without factor is not divided: values are gathered along
it before the op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from math import inf, prod

from tfn._support.frozen import frozen
from tfn.dtypes import INT32
from tfn.trace.axes import AXES, Relation, Row, combining
from tfn.trace.op import Op
from tfn.trace.sharding import Names
from tfn.trace.uop import UOp
from tfn.transforms.shard.across import can_sort
from tfn.transforms.shard.halo import (
    Window,
    window_of_concat,
    window_of_conv,
    window_of_pad,
    window_of_shrink,
)


@frozen
class Crossing:
    """A factor whose parts need rows of each other, divided.

    Attributes:
        received: the bytes that a device receives, by the number of parts; infinite if it cannot be
            divided so.
        any_axes: whether several axes of the mesh may divide it; its rows do not go from one
            device to the next then.
    """

    received: Callable[[int], float]
    any_axes: bool = False


NOTHING = Crossing(lambda parts: 0.0, any_axes=True)
"""The crossing of a factor whose rows stay where they are."""


@frozen
class Factors:
    """The factors of an op.

    Attributes:
        operands: for each operand the factor of each axis.
        result: the factor of each axis of the result.
        sizes: of the factors: the length of their axes.
        reduced: the factors that are reduced, and the monoid.
        crossed: the factors that are crossed.
        even: the factors of which the number of parts must divide the size.
        work: multiply-adds of the whole op, where they outweigh the elements.
    """

    operands: tuple[Row, ...]
    result: Row
    sizes: tuple[int, ...]
    reduced: Mapping[int, Op] = field(default_factory=dict)
    crossed: Mapping[int, Crossing] = field(default_factory=dict)
    even: frozenset[int] = frozenset()
    work: int = 0

    def allows(self, factor: int, names: Names, sizes: Mapping[str, int]) -> bool:
        """Whether axes of the mesh, of some sizes, may divide a factor.

        Several axes divide a crossed one only if it says so.  Its operands have other sizes than
        it, and several axes divide sizes only that are multiples of them.
        """
        crossing = self.crossed.get(factor)
        if len(names) > 1 and crossing is not None and not crossing.any_axes:
            return False
        return divides(self.sizes[factor], names, sizes, factor not in self.even)


def divides(n: int, names: Names, sizes: Mapping[str, int], uneven: bool = True) -> bool:
    """Whether axes of a mesh may divide n rows; one axis alone may leave padding at the end."""
    parts = prod([sizes[name] for name in names])
    return n % parts == 0 or (uneven and len(names) == 1 and n > parts)


LOOKED_UP_SHARE = 4
"""A slice from less than a fourth of an axis is given to all devices by those that have its rows:
it is smaller than what a device would receive of a window."""


def _windows(x: UOp, axis: int, window: Callable[[int], Window | None]) -> Crossing:
    """The crossing of an axis of which each device needs a window."""

    def received(parts: int) -> float:
        needed = window(parts)
        row_bytes = x.size * x.dtype.itemsize / max(x.shape[axis], 1)
        return inf if needed is None else needed.received(parts) * row_bytes

    return Crossing(received)


def _pad(u: UOp, axis: int) -> Crossing:
    return _windows(u.src[0], axis, partial(window_of_pad, u, axis))


def _shrink(u: UOp, axis: int) -> Crossing:
    return _windows(u.src[0], axis, partial(window_of_shrink, u, axis))


def _flip(u: UOp, axis: int) -> Crossing:
    x = u.src[0]
    return Crossing(lambda parts: x.size * x.dtype.itemsize / parts)


def _concat(u: UOp, axis: int) -> Crossing:
    def received(parts: int) -> float:
        windows = [window_of_concat(u, i, parts).received(parts) for i in range(len(u.src))]
        row_bytes: float = u.size * u.dtype.itemsize / max(u.shape[axis], 1)
        return sum(windows) * row_bytes

    return Crossing(received)


def _argmax(u: UOp, axis: int) -> Crossing:
    pair_bytes = u.size * (u.src[0].dtype.itemsize + u.dtype.itemsize)
    return Crossing(lambda parts: (parts - 1) * pair_bytes)


def _conv(u: UOp, factor: int) -> Crossing:
    """The window is that of the longer of the result and the weights."""
    relation = AXES[u.op](u)
    axis = relation.operands[0].index(factor)
    window = partial(window_of_conv, u, axis - 1, factor in relation.result)
    return _windows(u.src[0], axis, window)


def _sort(u: UOp, axis: int) -> Crossing:
    x = u.src[0]
    row_bytes = sum(s.dtype.itemsize for s in u.src) + INT32.itemsize

    def received(parts: int) -> float:
        """Two all-to-alls, and half of a part there and back."""
        if not can_sort(x.shape[-1], parts):
            return inf
        return (2 * (parts - 1) / parts + 1) * x.size / parts * row_bytes

    return Crossing(received)


CROSSINGS: dict[Op, Callable[[UOp, int], Crossing]] = {
    Op.PAD: _pad,
    Op.SHRINK: _shrink,
    Op.FLIP: _flip,
    Op.CONCAT: _concat,
    Op.REDUCE: _argmax,
    Op.CONV: _conv,
    Op.SORT: _sort,
    **dict.fromkeys((Op.GATHER, Op.SCATTER), lambda u, factor: NOTHING),
}
"""The crossing of a factor by windows, of each op that has one."""


def _work(u: UOp, relation: Relation) -> int:
    """Multiply-adds of the whole op, where they outweigh the elements."""
    if u.op is Op.DOT:
        return u.size * prod([relation.sizes[f] for f in relation.reduced])
    return u.size * prod(u.src[1].shape[:-1]) if u.op is Op.CONV else 0


def factors_of(u: UOp) -> Factors:
    """The factors of an op of `AXES`, and what it costs to divide them."""
    r = AXES[u.op](u)
    crossed = {f: CROSSINGS[u.op](u, f) for f in sorted(r.windows)}
    of = Factors(r.operands, r.result, r.sizes, r.reduced, crossed, r.even, _work(u, r))
    return _with_short_slices(u, of) if u.op is Op.SHRINK else of


def _with_short_slices(u: UOp, of: Factors) -> Factors:
    """Short slices of a SHRINK as rows that are looked up."""
    x, arg = u.src[0], u.arg
    spans = [stop - start for start, stop in zip(arg.start, arg.stop, strict=True)]
    short = {i for i in of.crossed if spans[i] * LOOKED_UP_SHARE <= x.shape[i]}
    if not short:
        return of
    return replace(
        of,
        result=tuple(None if i in short else i for i in range(u.ndim)),
        sizes=tuple(x.shape[i] if i in short else n for i, n in enumerate(of.sizes)),
        reduced=dict.fromkeys(short, combining(u)),
        crossed={**of.crossed, **dict.fromkeys(short, NOTHING)},
    )
