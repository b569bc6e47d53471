"""Axis relations: the table `AXES`, one row per op, that is one loop nest.

A row names the factors of an op, the independent axes of its loop nest, as an einsum does.  They
say which axes of operands become which axes of the result::

    dot   f32[M,K] f32[K,N] -> f32[M,N]     operands (m, k), (k, n)   result (m, n)   sums over k
    pad   f32[M,K] -> f32[M,K+1]            operands (m, k)           result (m, k)   k by windows

Passes that compute a part of a value ask here what it needs: SHARD, which divides values among
devices; fusion, which reads sources at the index of a loop; attention, which works by blocks.

Source: Shardy's op sharding rules, https://openxla.org/shardy/sdy_dialect
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from math import gcd

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL
from tfn.trace import build
from tfn.trace.argument import Const
from tfn.trace.jaxpr import param
from tfn.trace.op import ELEMENTWISE, MONOIDS, PARTS, Op, Shape
from tfn.trace.regions import form
from tfn.trace.sharding import Exchange
from tfn.trace.uop import UOp

Factor = int | None
"""The number of a factor; None for an axis of which every element of the result needs all."""
Row = tuple[Factor, ...]


@frozen
class Relation:
    """The factors of an op.

    Attributes:
        operands: for each operand the factor of each axis.
        result: the factor of each axis of the result.
        sizes: of the factors: the length of their axes.
        reduced: the factors that are reduced, and the monoid.
        windows: the factors along which an element is not computed from those at its own place:
            from a window, from a row that is looked up, or from all of them in another order.
        even: the factors that only parts of one size divide.
    """

    operands: tuple[Row, ...]
    result: Row
    sizes: tuple[int, ...]
    reduced: Mapping[int, Op] = field(default_factory=dict)
    windows: frozenset[int] = frozenset()
    even: frozenset[int] = frozenset()


Rule = Callable[[UOp], Relation]


class _Numbering:
    """Factors of a relation in the making."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def new(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def all(self, shape: Shape) -> Row:
        return tuple([self.new(n) for n in shape])


def _pointwise(u: UOp) -> Relation:
    row = tuple(range(u.ndim))
    return Relation((row,) * len(u.src), row, u.shape)


def whole(u: UOp) -> Relation:
    """Nothing is divided."""
    return Relation(tuple((None,) * s.ndim for s in u.src), (None,) * u.ndim, ())


def axis_groups(shape: Shape, other: Shape) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Pairs of groups of axes of two shapes that hold the same elements, as small as possible.

    Axes of size 1 are in none.

    Example:
        >>> list(axis_groups((2, 3, 4), (6, 1, 2, 2)))
        [([0, 1], [0]), ([2], [2, 3])]
    """
    ours, theirs = ([i for i, n in enumerate(sizes) if n != 1] for sizes in (shape, other))
    while ours:
        i, j = 1, 1
        left, right = shape[ours[0]], other[theirs[0]]
        while left != right:
            if left < right:
                left, i = left * shape[ours[i]], i + 1
            else:
                right, j = right * other[theirs[j]], j + 1
        yield ours[:i], theirs[:j]
        ours, theirs = ours[i:], theirs[j:]


def _reshape(u: UOp) -> Relation:
    """The major axis of each group, where its parts are rows of both shapes."""
    (x,), numbering = u.src, _Numbering()
    rows: list[list[Factor]] = [[None] * x.ndim, [None] * u.ndim]
    if u.size:
        for (begin, *_), (end, *_) in axis_groups(x.shape, u.shape):
            rows[0][begin] = rows[1][end] = numbering.new(gcd(x.shape[begin], u.shape[end]))
    even = frozenset(range(len(numbering.sizes)))
    return Relation((tuple(rows[0]),), tuple(rows[1]), tuple(numbering.sizes), even=even)


def _permute(u: UOp) -> Relation:
    row = tuple(range(u.ndim))
    return Relation((row,), tuple(u.arg), u.src[0].shape)


def _expand(u: UOp) -> Relation:
    x, row = u.src[0], tuple(range(u.ndim))
    source = tuple(i if n == x.shape[i] else None for i, n in enumerate(u.shape))
    return Relation((source,), row, u.shape)


def _kept(u: UOp, is_kept: Sequence[bool], has_windows: bool = True) -> Relation:
    """Some axes as they are; the others by windows, or whole."""
    others = [i for i, yes in enumerate(is_kept) if not yes and u.shape[i] and has_windows]
    row = tuple(i if yes or i in others else None for i, yes in enumerate(is_kept))
    rest = tuple((None,) * s.ndim for s in u.src[1:])
    sizes = tuple(map(min, u.src[0].shape, u.shape))
    return Relation((row, *rest), row, sizes, windows=frozenset(others))


def _cut(u: UOp) -> Relation:
    return _kept(u, [a == b for a, b in zip(u.src[0].shape, u.shape, strict=True)])


def _flip(u: UOp) -> Relation:
    row = tuple(range(u.ndim))
    turned = frozenset(u.arg)
    return Relation((row,), row, u.shape, windows=turned, even=turned)


def _concat(u: UOp) -> Relation:
    row = tuple(range(u.ndim))
    return Relation((row,) * len(u.src), row, u.shape, windows=frozenset({u.arg}))


def _reduce(u: UOp) -> Relation:
    x, arg = u.src[0], u.arg
    row = tuple(range(x.ndim))
    result = tuple(i for i in row if i not in arg.axes)
    if arg.index is None:
        return Relation((row,), result, x.shape, dict.fromkeys(arg.axes, arg.op))
    return Relation((row,), result, x.shape, windows=frozenset(arg.axes[:1]))


def _dot(u: UOp) -> Relation:
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
    rows = tuple(row_a), tuple(row_b)
    return Relation(rows, tuple(result), tuple(numbering.sizes), contracted)


def _conv(u: UOp) -> Relation:
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
    return Relation(
        operands,
        (image, *result, feature),
        tuple(numbering.sizes),
        {f: Op.ADD for f in added if f is not None},
        frozenset(space),
    )


def _fft(u: UOp) -> Relation:
    first = u.ndim - len(u.arg.lengths)
    return _kept(u, [axis < first for axis in range(u.ndim)], has_windows=False)


def combining(u: UOp) -> Op:
    """The monoid that puts together what was looked up, each row in the part that has it."""
    return Op.MAX if u.dtype == BOOL else Op.ADD


def _gather(u: UOp) -> Relation:
    """Batch axes, points, axes of which every window is the whole, and rows that are looked up."""
    (operand, indices), arg, numbering = u.src, u.arg, _Numbering()
    batch = numbering.all(operand.shape[: arg.batch])
    points = numbering.all(indices.shape[arg.batch : -1])
    windows, looked_up = _windows_at(u, arg.sizes, numbering)
    return Relation(
        ((*batch, *windows), (*batch, *points, None)),
        (*batch, *points, *(None if w in looked_up else w for w in windows)),
        tuple(numbering.sizes),
        dict.fromkeys(looked_up, combining(u)),
        frozenset(looked_up),
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


def _scatter(u: UOp) -> Relation:
    """As of a gather; points are added up, and rows belong to one device each."""
    (operand, indices, updates), arg, numbering = u.src, u.arg, _Numbering()
    batch = numbering.all(operand.shape[: arg.batch])
    count = indices.ndim - 1 - arg.batch
    points: Row = (None,) * count
    if arg.op is Op.ADD:
        points = numbering.all(indices.shape[arg.batch : -1])
    windows, single = _windows_at(u, updates.shape[arg.batch + count :], numbering)
    of_updates = tuple(None if w in single else w for w in windows)
    return Relation(
        ((*batch, *windows), (*batch, *points, None), (*batch, *points, *of_updates)),
        (*batch, *windows),
        tuple(numbering.sizes),
        {p: arg.op for p in points if p is not None},
        frozenset(single),
    )


def _sort(u: UOp) -> Relation:
    """The result row is that of each result; the last axis is sorted."""
    x = u.src[0]
    row, last = tuple(range(x.ndim)), x.ndim - 1
    if u.arg.largest is not None:  # no row is divided: what is wanted of it is little
        rows = (*row[:-1], None)
        return Relation((rows,) * len(u.src), rows, x.shape[:-1])
    one = frozenset({last})
    return Relation((row,) * len(u.src), row, x.shape, windows=one, even=one)


def _source(u: UOp) -> Relation:
    return Relation((), tuple(range(u.ndim)), u.shape)


def _collective(u: UOp) -> Relation:
    x, kind = u.src[0], u.arg.kind
    row = tuple(range(x.ndim))
    if kind is Exchange.GATHER:
        return Relation((row, ()), (None, *row), x.shape)
    if kind in (Exchange.SCATTER, Exchange.PICK):
        return Relation(((None, *row[1:]), ()), row[1:], x.shape)
    if kind is Exchange.TRANSPOSE:
        return Relation(((None, *row[1:]), ()), (None, *row[1:]), x.shape)
    return Relation((row, ()), row, x.shape)


def _first(u: UOp) -> Relation:
    row = tuple(range(u.ndim))
    return Relation((row, *((None,) * s.ndim for s in u.src[1:])), row, u.shape)


POINTWISE = ELEMENTWISE | PARTS | {Op.GBARRIER}
"""The ops whose operands and result all run along the same axes."""

# fmt: off
AXES: dict[Op, Rule] = {
    **dict.fromkeys(POINTWISE, _pointwise),
    **dict.fromkeys((Op.CONST, Op.IOTA), _source),

    Op.RESHAPE: _reshape,
    Op.PERMUTE: _permute,
    Op.EXPAND: _expand,
    Op.PAD: _cut,
    Op.SHRINK: _cut,
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
"""The ops that are one loop nest; the others have functions among their sources, or several
results, or are the boundaries of manual regions."""
# fmt: on


def running_op(u: UOp) -> Op | None:
    """The monoid of a SCAN whose results are the running totals of one array, and the last one."""
    parts = form(u)
    if [*map(len, (*parts.consts, parts.carries, parts.arrays))] != [0, 1, 1]:
        return None
    body = u.src[0]
    total, *rest = body.src
    operands = {param(p) for p in body.arg.params}
    is_running = rest in ([], [total]) and total.op in MONOIDS and {*total.src} == operands
    return total.op if is_running and len(operands) == 2 else None


# An axis at a time.

SourceAxes = Sequence[Factor]
"""For each source, its axis; None for a source that is read whole."""

CUT = ELEMENTWISE | {Op.IOTA, Op.CONST, Op.PERMUTE, Op.EXPAND, Op.RESHAPE, Op.REDUCE, Op.DOT}
CUT |= {Op.CONCAT, Op.FLIP, Op.SHRINK, Op.PAD}
"""The ops that `part` takes blocks of."""


def source_axes(u: UOp, axis: int) -> SourceAxes | None:
    """The axis of each source that `axis` of a value corresponds to; None if it cannot be cut.

    ::

        dot a[B, T, D] b[B, S, D] -> [B, T, S]      B is axis 0 of both, T of a alone, S of b alone;
                                                    D is summed over
    """
    if u.op not in CUT:
        return None
    if u.op is Op.RESHAPE and u.src[0].op is Op.IOTA:  # which has no memory to cut
        return [None]
    relation = AXES[u.op](u)
    factor = relation.result[axis]
    if factor is None or factor in relation.windows or relation.sizes[factor] != u.shape[axis]:
        return None
    axes = [_position(row, factor) for row in relation.operands]
    # A reshape may put other axes before a factor: then it is no axis of the source.
    whole = all(i is None or s.shape[i] == u.shape[axis] for s, i in zip(u.src, axes, strict=True))
    return axes if whole else None


def reduced_axes(u: UOp, index: int, axis: int) -> SourceAxes | None:
    """The axes of the sources where `axis` of source `index` is summed over, if it is."""
    if u.op not in (Op.REDUCE, Op.DOT):
        return None
    relation = AXES[u.op](u)
    factor = relation.operands[index][axis]
    if factor not in relation.reduced:
        return None
    return tuple([_position(row, factor) for row in relation.operands])


def result_axis(u: UOp, index: int, axis: int) -> int | None:
    """The axis of a value that `axis` of source `index` becomes, if any."""
    for candidate in range(u.ndim):
        axes = source_axes(u, candidate)
        if axes is not None and axes[index] == axis:
            return candidate
    return None


def _position(row: Row, factor: Factor) -> int | None:
    return row.index(factor) if factor in row else None


def part(u: UOp, src: Sequence[UOp], shape: Shape) -> UOp:
    """An op on parts of its operands, as long as its factors along which they are cut are plain.

    Args:
        u: the op on the whole.
        src: the parts of its sources.
        shape: of the part of its result.
    """
    rule = PART.get(u.op)
    return UOp(u.op, tuple(src), u.arg) if rule is None else rule(u, src, shape)


def _part_of_shrink(u: UOp, src: Sequence[UOp], shape: Shape) -> UOp:
    (x,), arg = src, u.arg
    cut = [n != m for n, m in zip(x.shape, u.src[0].shape, strict=True)]
    start = tuple(0 if yes else n for yes, n in zip(cut, arg.start))
    stop = tuple(n if yes else m for yes, n, m in zip(cut, x.shape, arg.stop))
    return build.shrink(x, start, stop, tuple(1 if yes else n for yes, n in zip(cut, arg.step)))


PART: dict[Op, Callable[[UOp, Sequence[UOp], Shape], UOp]] = {
    Op.CONST: lambda u, src, shape: UOp(Op.CONST, (), Const(u.dtype, u.arg.bits, shape)),
    Op.RESHAPE: lambda u, src, shape: build.reshape(src[0], shape),
    Op.EXPAND: lambda u, src, shape: build.expand(src[0], shape),
    Op.SHRINK: _part_of_shrink,
    Op.GATHER: lambda u, src, shape: build.gather(
        src[0], src[1], shape[src[1].ndim - 1 :], u.arg.batch
    ),
}
"""Ops of which the argument says a size; all others are the same on parts.  An IOTA has to be told
where the part begins."""
