"""Sharding rules: the table `SHARD`, one row per op.

A rule names the factors of an op: the independent axes of its loop nest, as an einsum does.  An
axis of a mesh that divides a factor divides every axis of an operand or of the result that the
factor runs along::

    dot   f32[M,K] f32[K,N] -> f32[M,N]     operands (m, k), (k, n)   result (m, n)   sums over k

A factor that is reduced leaves partial results on the devices, which a collective combines.  An
axis without factor is not divided: values are gathered along it before the op.

Source: Shardy's op sharding rules, https://openxla.org/shardy/sdy_dialect
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from math import gcd

from tfn._support.frozen import frozen
from tfn.trace.argument import Const, Scatter, Shrink
from tfn.trace.build import cast, full_like, iota, where
from tfn.trace.op import ELEMENTWISE, PARTS, Op, Shape
from tfn.trace.sharding import Exchange
from tfn.trace.uop import UOp

Factor = int | None
"""The number of a factor; None for an axis that stays whole."""
Row = tuple[Factor, ...]


@frozen
class Factors:
    """The factors of an op.

    Attributes:
        operands: for each operand the factor of each axis.
        result: the factor of each axis of the result.
        sizes: of the factors: numbers of parts must divide them.
        reduced: the factors that are reduced, and the monoid.
        work: multiply-adds of the whole op, where they outweigh the elements.
    """

    operands: tuple[Row, ...]
    result: Row
    sizes: tuple[int, ...]
    reduced: Mapping[int, Op] = field(default_factory=dict)
    work: int = 0


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
    return Factors((tuple(rows[0]),), tuple(rows[1]), tuple(numbering.sizes))


def _permute(u: UOp) -> Factors:
    row = tuple(range(u.ndim))
    return Factors((row,), tuple(u.arg), u.src[0].shape)


def _expand(u: UOp) -> Factors:
    x, row = u.src[0], tuple(range(u.ndim))
    source = tuple(i if n == x.shape[i] else None for i, n in enumerate(u.shape))
    return Factors((source,), row, u.shape)


def _kept(u: UOp, is_kept: Sequence[bool]) -> Factors:
    """Some axes as they are; the others whole."""
    x = u.src[0]
    row = tuple(i if yes else None for i, yes in enumerate(is_kept))
    rest = tuple((None,) * s.ndim for s in u.src[1:])
    return Factors((row, *rest), row, x.shape)


def _pad(u: UOp) -> Factors:
    return _kept(u, [a == b for a, b in zip(u.src[0].shape, u.shape, strict=True)])


def _flip(u: UOp) -> Factors:
    return _kept(u, [axis not in u.arg for axis in range(u.ndim)])


def _concat(u: UOp) -> Factors:
    row = tuple(None if axis == u.arg else axis for axis in range(u.ndim))
    return Factors((row,) * len(u.src), row, u.shape)


def _reduce(u: UOp) -> Factors:
    x, arg = u.src[0], u.arg
    row = tuple(None if arg.index and i in arg.axes else i for i in range(x.ndim))
    result = tuple(i for i in range(x.ndim) if i not in arg.axes)
    reduced = {} if arg.index else dict.fromkeys(arg.axes, arg.op)
    return Factors((row,), result, x.shape, reduced)


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
    return Factors(rows, tuple(result), tuple(numbering.sizes), contracted, work)


def _conv(u: UOp) -> Factors:
    """Images, and, of a convolution without groups, features and channels."""
    (x, w), arg, numbering = u.src, u.arg, _Numbering()
    plain = arg.groups == arg.batch_groups == 1
    image = numbering.new(x.shape[0]) if arg.batch_groups == 1 else None
    channel = numbering.new(x.shape[-1]) if plain else None
    feature = numbering.new(w.shape[-1]) if plain else None
    space: Row = (None,) * (x.ndim - 2)
    work = u.size * w.shape[-2]
    for n in w.shape[:-2]:
        work *= n
    reduced = {} if channel is None else {channel: Op.ADD}
    operands = (image, *space, channel), (*space, channel, feature)
    return Factors(operands, (image, *space, feature), tuple(numbering.sizes), reduced, work)


def _fft(u: UOp) -> Factors:
    first = u.ndim - len(u.arg.lengths)
    return _kept(u, [axis < first for axis in range(u.ndim)])


def _gather(u: UOp) -> Factors:
    """Batch axes, points, and axes of which every window is the whole."""
    (operand, indices), arg, numbering = u.src, u.arg, _Numbering()
    batch = numbering.all(operand.shape[: arg.batch])
    points = numbering.all(indices.shape[arg.batch : -1])
    dims = operand.shape[arg.batch :]
    windows = tuple(
        numbering.new(n) if n == m else None for n, m in zip(dims, arg.sizes, strict=True)
    )
    return Factors(
        ((*batch, *windows), (*batch, *points, None)),
        (*batch, *points, *windows),
        tuple(numbering.sizes),
    )


def _scatter(u: UOp) -> Factors:
    """Batch axes, axes of which every window is the whole, and points that are added up."""
    (operand, indices, updates), arg, numbering = u.src, u.arg, _Numbering()
    batch = numbering.all(operand.shape[: arg.batch])
    count = indices.ndim - 1 - arg.batch
    points: Row = (None,) * count
    if arg.op is Op.ADD:
        points = numbering.all(indices.shape[arg.batch : -1])
    dims, sizes = operand.shape[arg.batch :], updates.shape[arg.batch + count :]
    windows = tuple(numbering.new(n) if n == m else None for n, m in zip(dims, sizes, strict=True))
    return Factors(
        ((*batch, *windows), (*batch, *points, None), (*batch, *points, *windows)),
        (*batch, *windows),
        tuple(numbering.sizes),
        {p: arg.op for p in points if p is not None},
    )


def _sort(u: UOp) -> Factors:
    """The result row is that of each result."""
    x = u.src[0]
    row = (*range(x.ndim - 1), None)
    return Factors((row,) * len(u.src), row, x.shape)


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


def _shrink(u: UOp) -> Factors:
    return _kept(u, [a == b for a, b in zip(u.src[0].shape, u.shape, strict=True)])


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


# The argument of an op on parts.

Indices = Mapping[int, tuple[UOp, int]]
"""For a divided factor the number of this device's part, and the number of parts."""


def _local_shape(u: UOp, src: Sequence[UOp], shape: Shape, part: Indices) -> UOp:
    return UOp(u.op, tuple(src), shape)


def _local_const(u: UOp, src: Sequence[UOp], shape: Shape, part: Indices) -> UOp:
    return UOp(Op.CONST, (), Const(u.dtype, u.arg.bits, shape))


def _local_iota(u: UOp, src: Sequence[UOp], shape: Shape, part: Indices) -> UOp:
    """Counting begins where this device's part does."""
    count = iota(shape, 0, u.dtype)
    if 0 not in part:
        return count
    first = cast(part[0][0], u.dtype) * shape[0]
    return count + UOp(Op.EXPAND, (UOp(Op.RESHAPE, (first,), (1,)),), shape)


def _local_shrink(u: UOp, src: Sequence[UOp], shape: Shape, part: Indices) -> UOp:
    arg: Shrink = u.arg
    stop = tuple(
        n if whole_axis == old else end
        for n, whole_axis, old, end in zip(
            src[0].shape, u.src[0].shape, u.shape, arg.stop, strict=True
        )
    )
    return UOp(Op.SHRINK, tuple(src), replace(arg, stop=stop))


def _local_gather(u: UOp, src: Sequence[UOp], shape: Shape, part: Indices) -> UOp:
    points = src[1].ndim - 1
    return UOp(Op.GATHER, tuple(src), replace(u.arg, sizes=shape[points:]))


def _local_scatter(u: UOp, src: Sequence[UOp], shape: Shape, part: Indices) -> UOp:
    """The operand counts on the first device alone if points are divided."""
    arg: Scatter = u.arg
    operand, factors = src[0], _scatter(u)
    for factor in factors.reduced:
        if factor in part and not (u.src[0].op is Op.CONST and u.src[0].arg.bits == 0):
            index = part[factor][0]
            is_first = UOp(Op.EQ, (index, full_like(index, 0)))
            flag = UOp(Op.RESHAPE, (is_first,), (1,) * operand.ndim) if operand.ndim else is_first
            operand = where(UOp(Op.EXPAND, (flag,), operand.shape), operand, full_like(operand, 0))
    return UOp(Op.SCATTER, (operand, *src[1:]), arg)


LOCAL: dict[Op, Callable[[UOp, Sequence[UOp], Shape, Indices], UOp]] = {
    **dict.fromkeys((Op.RESHAPE, Op.EXPAND), _local_shape),
    Op.CONST: _local_const,
    Op.IOTA: _local_iota,
    Op.SHRINK: _local_shrink,
    Op.GATHER: _local_gather,
    Op.SCATTER: _local_scatter,
}
"""Ops whose argument names sizes; all others are the same on a part."""


def local(u: UOp, src: Sequence[UOp], shape: Shape, part: Indices) -> UOp:
    """The op on the parts of its operands, of which the result has a shape."""
    rule = LOCAL.get(u.op)
    return UOp(u.op, tuple(src), u.arg) if rule is None else rule(u, src, shape, part)
