"""Sharding rules: the table `SHARD`, one row per op.

A rule names the factors of an op: the independent axes of its loop nest, as an einsum does.  An
axis of a mesh that divides a factor divides every axis of an operand or of the result that the
factor runs along::

    dot   f32[M,K] f32[K,N] -> f32[M,N]     operands (m, k), (k, n)   result (m, n)   sums over k

A factor that is reduced leaves partial results on the devices, which a collective combines.  A
factor that is crossed needs rows of other devices within the op: those of a window, say.  An axis
without factor is not divided: values are gathered along it before the op.

Source: Shardy's op sharding rules, https://openxla.org/shardy/sdy_dialect
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from math import gcd, inf, prod

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, INT32
from tfn.trace.op import ELEMENTWISE, PARTS, Op, Shape
from tfn.trace.sharding import Exchange, Names
from tfn.trace.uop import UOp
from tfn.transforms.shard.across import can_sort
from tfn.transforms.shard.halo import (
    Window,
    window_of_concat,
    window_of_conv,
    window_of_pad,
    window_of_shrink,
)

Factor = int | None
"""The number of a factor; None for an axis that stays whole."""
Row = tuple[Factor, ...]


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


Rule = Callable[[UOp], Factors]


class _Numbering:
    """Factors in the making."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def new(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def all(self, shape: Shape) -> Row:
        return tuple([self.new(n) for n in shape])


def _pointwise(u: UOp) -> Factors:
    row = tuple(range(u.ndim))
    return Factors((row,) * len(u.src), row, u.shape)


def whole(u: UOp) -> Factors:
    """Nothing is divided."""
    return Factors(tuple((None,) * s.ndim for s in u.src), (None,) * u.ndim, ())


def blocks(source: Shape, result: Shape) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of neighbouring axes of equal products, for a reshape.

    Example:
        >>> blocks((2, 3, 4), (6, 2, 2))
        [([0, 1], [0]), ([2], [1, 2])]
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) or j < len(result):
        left: list[int] = []
        right: list[int] = []
        product_left = product_right = 1
        if i < len(source):
            left.append(i)
            product_left *= source[i]
            i += 1
        while product_left != product_right or not right:
            if product_left <= product_right and i < len(source) and left and right:
                left.append(i)
                product_left *= source[i]
                i += 1
            elif j < len(result):
                right.append(j)
                product_right *= result[j]
                j += 1
            elif i < len(source):
                left.append(i)
                product_left *= source[i]
                i += 1
            else:
                break
        groups.append((left, right))
    return groups


def _reshape(u: UOp) -> Factors:
    """The major axis of each group, where its parts are rows of both shapes."""
    (x,), numbering = u.src, _Numbering()
    rows: list[list[Factor]] = [[None] * x.ndim, [None] * u.ndim]
    if u.size:
        for left, right in blocks(x.shape, u.shape):
            begin = next((axis for axis in left if x.shape[axis] > 1), None)
            end = next((axis for axis in right if u.shape[axis] > 1), None)
            if begin is not None and end is not None:
                factor = numbering.new(gcd(x.shape[begin], u.shape[end]))
                rows[0][begin] = rows[1][end] = factor
    even = frozenset(range(len(numbering.sizes)))
    return Factors((tuple(rows[0]),), tuple(rows[1]), tuple(numbering.sizes), even=even)


def _permute(u: UOp) -> Factors:
    row = tuple(range(u.ndim))
    return Factors((row,), tuple(u.arg), u.src[0].shape)


def _expand(u: UOp) -> Factors:
    x, row = u.src[0], tuple(range(u.ndim))
    source = tuple(i if n == x.shape[i] else None for i, n in enumerate(u.shape))
    return Factors((source,), row, u.shape)


def _kept(
    u: UOp, is_kept: Sequence[bool], crossing: Callable[[int], Crossing] | None = None
) -> Factors:
    """Some axes as they are; the others crossed, or whole."""
    x = u.src[0]
    crossed = (
        {}
        if crossing is None
        else {i: crossing(i) for i, yes in enumerate(is_kept) if not yes and u.shape[i]}
    )
    row = tuple(i if yes or i in crossed else None for i, yes in enumerate(is_kept))
    rest = tuple((None,) * s.ndim for s in u.src[1:])
    sizes = tuple(map(min, x.shape, u.shape))
    return Factors((row, *rest), row, sizes, crossed=crossed)


def _same_sizes(u: UOp) -> list[bool]:
    return [a == b for a, b in zip(u.src[0].shape, u.shape, strict=True)]


def _pad(u: UOp) -> Factors:
    windows = lambda axis: _windows(u.src[0], axis, partial(window_of_pad, u, axis))
    return _kept(u, _same_sizes(u), windows)


LOOKED_UP_SHARE = 4
"""A slice from less than a fourth of an axis is given to all devices by those that have its rows:
it is smaller than what a device would receive of a window."""


def _shrink(u: UOp) -> Factors:
    """Axes by windows; short slices as rows that are looked up."""
    x, arg = u.src[0], u.arg
    windows = lambda axis: _windows(x, axis, partial(window_of_shrink, u, axis))
    factors = _kept(u, _same_sizes(u), windows)
    spans = [stop - start for start, stop in zip(arg.start, arg.stop, strict=True)]
    short = {i for i in factors.crossed if spans[i] * LOOKED_UP_SHARE <= x.shape[i]}
    if not short:
        return factors
    return replace(
        factors,
        result=tuple(None if i in short else i for i in range(u.ndim)),
        sizes=tuple(x.shape[i] if i in short else n for i, n in enumerate(factors.sizes)),
        reduced=dict.fromkeys(short, _combining(u)),
        crossed={**factors.crossed, **dict.fromkeys(short, NOTHING)},
    )


def _combining(u: UOp) -> Op:
    """The monoid that puts together what devices have looked up, each in its part."""
    return Op.MAX if u.dtype == BOOL else Op.ADD


def _flip(u: UOp) -> Factors:
    x = u.src[0]
    part_bytes = lambda parts: x.size * x.dtype.itemsize / parts
    factors = _kept(
        u, [axis not in u.arg for axis in range(u.ndim)], lambda _: Crossing(part_bytes)
    )
    return replace(factors, even=frozenset(u.arg))


def _concat(u: UOp) -> Factors:
    row, axis = tuple(range(u.ndim)), u.arg

    def received(parts: int) -> float:
        windows = [window_of_concat(u, i, parts).received(parts) for i in range(len(u.src))]
        row_bytes: float = u.size * u.dtype.itemsize / max(u.shape[axis], 1)
        return sum(windows) * row_bytes

    return Factors((row,) * len(u.src), row, u.shape, crossed={axis: Crossing(received)})


def _reduce(u: UOp) -> Factors:
    x, arg = u.src[0], u.arg
    row = tuple(range(x.ndim))
    result = tuple(i for i in row if i not in arg.axes)
    if arg.index is None:
        return Factors((row,), result, x.shape, dict.fromkeys(arg.axes, arg.op))
    pair_bytes = u.size * (x.dtype.itemsize + u.dtype.itemsize)
    crossing = Crossing(lambda parts: (parts - 1) * pair_bytes)
    return Factors((row,), result, x.shape, crossed={arg.axes[0]: crossing})


def _dot(u: UOp) -> Factors:
    (a, b), arg, numbering = u.src, u.arg, _Numbering()
    row_a = list(numbering.all(a.shape))
    row_b: list[int] = [-1] * b.ndim
    for mine, its in ((arg.batch_a, arg.batch_b), (arg.contract_a, arg.contract_b)):
        for i, j in zip(mine, its, strict=True):
            row_b[j] = row_a[i]
    free_b = [j for j in range(b.ndim) if row_b[j] < 0]
    for j in free_b:
        row_b[j] = numbering.new(b.shape[j])
    free_a = [i for i in range(a.ndim) if i not in (*arg.batch_a, *arg.contract_a)]
    result = [row_a[i] for i in (*arg.batch_a, *free_a)] + [row_b[j] for j in free_b]
    contracted = {row_a[i]: Op.ADD for i in arg.contract_a}
    work = u.size
    for i in arg.contract_a:
        work *= a.shape[i]
    rows = tuple(row_a), tuple(row_b)
    return Factors(rows, tuple(result), tuple(numbering.sizes), contracted, work=work)


def _conv(u: UOp) -> Factors:
    """Images; of a convolution without groups features and channels; axes of space by windows.

    Where the window is larger than the result, as in the gradient to the weights, it is the window
    that may be divided, and its products are added up.
    """
    (x, w), arg, numbering = u.src, u.arg, _Numbering()
    plain = arg.groups == arg.batch_groups == 1
    image = numbering.new(x.shape[0]) if arg.batch_groups == 1 else None
    channel = numbering.new(x.shape[-1]) if plain else None
    feature = numbering.new(w.shape[-1]) if plain else None
    positions = list(zip(x.shape[1:-1], u.shape[1:-1], w.shape[:-2], strict=True))
    space = [numbering.new(min(n, max(result, taps))) for n, result, taps in positions]
    over = [result >= taps for _, result, taps in positions]
    crossed = {
        factor: _windows(x, 1 + i, partial(window_of_conv, u, i, over[i]))
        for i, factor in enumerate(space)
    }
    work = u.size * w.shape[-2]
    for n in w.shape[:-2]:
        work *= n
    added = [channel, *(f for f, is_result in zip(space, over, strict=True) if not is_result)]
    operands = (
        (image, *space, channel),
        (
            *(None if is_result else f for f, is_result in zip(space, over, strict=True)),
            channel,
            feature,
        ),
    )
    result = tuple(f if is_result else None for f, is_result in zip(space, over, strict=True))
    return Factors(
        operands,
        (image, *result, feature),
        tuple(numbering.sizes),
        {f: Op.ADD for f in added if f is not None},
        crossed,
        work=work,
    )


def _windows(x: UOp, axis: int, window: Callable[[int], Window | None]) -> Crossing:
    """The crossing of an axis of which each device needs a window."""

    def received(parts: int) -> float:
        needed = window(parts)
        row_bytes = x.size * x.dtype.itemsize / max(x.shape[axis], 1)
        return inf if needed is None else needed.received(parts) * row_bytes

    return Crossing(received)


def _fft(u: UOp) -> Factors:
    first = u.ndim - len(u.arg.lengths)
    return _kept(u, [axis < first for axis in range(u.ndim)])


def _gather(u: UOp) -> Factors:
    """Batch axes, points, axes of which every window is the whole, and rows that are looked up."""
    (operand, indices), arg, numbering = u.src, u.arg, _Numbering()
    batch = numbering.all(operand.shape[: arg.batch])
    points = numbering.all(indices.shape[arg.batch : -1])
    windows, looked_up = _windows_at(u, arg.sizes, numbering)
    return Factors(
        ((*batch, *windows), (*batch, *points, None)),
        (*batch, *points, *(None if w in looked_up else w for w in windows)),
        tuple(numbering.sizes),
        dict.fromkeys(looked_up, _combining(u)),
        dict.fromkeys(looked_up, NOTHING),
    )


def _windows_at(u: UOp, sizes: Shape, numbering: _Numbering) -> tuple[Row, set[int]]:
    """The factors of the axes that windows move along, and those of windows of a single row."""
    operand, indices, batch = u.src[0], u.src[1], u.arg.batch
    moved, row, single = indices.shape[-1], list[Factor](), set[int]()
    for i, (n, size) in enumerate(zip(operand.shape[batch:], sizes, strict=True)):
        is_single = size == 1 < n and i < moved
        row.append(numbering.new(n) if n == size or is_single else None)
        if is_single:
            single.add(len(numbering.sizes) - 1)
    return tuple(row), single


def _scatter(u: UOp) -> Factors:
    """As of a gather; points are added up, and rows belong to one device each."""
    (operand, indices, updates), arg, numbering = u.src, u.arg, _Numbering()
    batch = numbering.all(operand.shape[: arg.batch])
    count = indices.ndim - 1 - arg.batch
    points: Row = (None,) * count
    if arg.op is Op.ADD:
        points = numbering.all(indices.shape[arg.batch : -1])
    windows, single = _windows_at(u, updates.shape[arg.batch + count :], numbering)
    of_updates = tuple(None if w in single else w for w in windows)
    return Factors(
        ((*batch, *windows), (*batch, *points, None), (*batch, *points, *of_updates)),
        (*batch, *windows),
        tuple(numbering.sizes),
        {p: arg.op for p in points if p is not None},
        dict.fromkeys(single, NOTHING),
    )


def _sort(u: UOp) -> Factors:
    """The result row is that of each result; the last axis is sorted."""
    x = u.src[0]
    row, last, n = tuple(range(x.ndim)), x.ndim - 1, x.shape[-1]
    if u.arg.largest is not None:  # no row is divided: what is wanted of it is little
        rows = (*row[:-1], None)
        return Factors((rows,) * len(u.src), rows, x.shape[:-1])
    row_bytes = sum(s.dtype.itemsize for s in u.src) + INT32.itemsize

    def received(parts: int) -> float:
        """Two all-to-alls, and half of a part there and back."""
        if not can_sort(n, parts):
            return inf
        return (2 * (parts - 1) / parts + 1) * x.size / parts * row_bytes

    return Factors(
        (row,) * len(u.src),
        row,
        x.shape,
        crossed={last: Crossing(received)},
        even=frozenset({last}),
    )


def _source(u: UOp) -> Factors:
    return Factors((), tuple(range(u.ndim)), u.shape)


def _collective(u: UOp) -> Factors:
    x, kind = u.src[0], u.arg.kind
    row = tuple(range(x.ndim))
    if kind is Exchange.GATHER:
        return Factors((row, ()), (None, *row), x.shape)
    if kind in (Exchange.SCATTER, Exchange.PICK):
        return Factors(((None, *row[1:]), ()), row[1:], x.shape)
    if kind is Exchange.TRANSPOSE:
        return Factors(((None, *row[1:]), ()), (None, *row[1:]), x.shape)
    return Factors((row, ()), row, x.shape)


def _first(u: UOp) -> Factors:
    row = tuple(range(u.ndim))
    return Factors((row, *((None,) * s.ndim for s in u.src[1:])), row, u.shape)


POINTWISE = ELEMENTWISE | PARTS | {Op.GBARRIER}
"""The ops whose operands and result all run along the same axes."""

# fmt: off
SHARD: dict[Op, Rule] = {
    **dict.fromkeys(POINTWISE, _pointwise),
    **dict.fromkeys((Op.CONST, Op.IOTA), _source),

    Op.RESHAPE: _reshape,
    Op.PERMUTE: _permute,
    Op.EXPAND: _expand,
    Op.PAD: _pad,
    Op.SHRINK: _shrink,
    Op.FLIP: _flip,
    Op.CONCAT: _concat,

    Op.REDUCE: _reduce,
    Op.DOT: _dot,
    Op.CONV: _conv,
    Op.FFT: _fft,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.SORT: _sort,

    Op.AFTER: _first,
    **dict.fromkeys((Op.HOST, Op.KERNEL), whole),
    Op.COLLECTIVE: _collective,
}
"""The ops that are one loop nest.  Those with functions among their sources, and the boundaries of
manual regions, are partitioned by `partition.STRUCTURE`."""
# fmt: on
