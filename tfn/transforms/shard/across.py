"""Sorts, running sums, transforms, extremes and irregular access along a divided axis.

A sort exchanges parts by fixed permutations (columnsort); a running sum passes totals on; an argmax
compares the extremes of all parts; a gather adds up what each device finds in its part, and a
scatter leaves out what belongs to others.

Sources: Leighton 1985, "Tight Bounds on the Complexity of Parallel Sorting"; Ladner, Fischer 1980,
"Parallel Prefix Computation".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce as fold

from tfn.dtypes import FLOATS, INT32, NARROW, UNSIGNED
from tfn.trace.argument import Fft, FftType, Param
from tfn.trace.axes import running_op
from tfn.trace.build import (
    bitcast,
    broadcast_in_dim,
    broadcast_to,
    cast,
    concat,
    full_like,
    gather,
    identity,
    index_dtype,
    iota,
    maximum,
    minimum,
    moveaxis,
    reduce,
    reshape,
    scan,
    shrink,
    sort,
    where,
)
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op, Shape
from tfn.trace.sharding import Exchange
from tfn.trace.uop import UOp, const
from tfn.transforms.shard.collective_rules import collective
from tfn.transforms.shard.halo import Place, masked

# Sorts.


def can_sort(n: int, parts: int) -> bool:
    """Whether columnsort sorts n rows in so many parts."""
    size = n // parts
    return n % parts == 0 and size % parts == 0 and size % 2 == 0 and size >= 2 * (parts - 1) ** 2


def sort_across(u: UOp, operands: Sequence[UOp], at: Place) -> list[UOp]:
    """A sort along a divided last axis: columnsort, whose columns are the parts.

    Four sorts of parts, an all-to-all after each of the first two, then an exchange of halves
    between neighbours.  The number of a row is the last key, so that the sort is stable.
    """
    keys, size, parts = u.arg.keys, operands[0].shape[-1], at.parts
    number = broadcast_to(at.row(size), operands[0].shape)
    columns = [*operands[:keys], number, *operands[keys:]]

    def exchanged(x: UOp, back: bool) -> UOp:
        """Rows dealt out to the devices in turn, or collected again."""
        deal, batch, last = size // parts, x.shape[:-1], x.ndim - 1
        if back:
            x = moveaxis(reshape(x, (*batch, parts, deal)), last, 0)
        else:
            x = moveaxis(reshape(x, (*batch, deal, parts)), last + 1, 0)
        x = collective(Exchange.TRANSPOSE, x, at.axis_index, at.axis)
        x = moveaxis(x, 0, last + 1 if back else last)
        return reshape(x, (*batch, size))

    for back in (False, True):
        columns = [exchanged(x, back) for x in sort(columns, keys + 1)]
    columns = sort(columns, keys + 1)
    half, forward = size // 2, tuple((i, i + 1) for i in range(parts - 1))
    lower, upper = ([_half(x, end) for x in columns] for end in (False, True))
    before = [collective(Exchange.PERMUTE, x, at.axis_index, at.axis, pairs=forward) for x in upper]
    merged = sort([concat(pair, pair[0].ndim - 1) for pair in zip(before, lower)], keys + 1)
    backward = tuple((to, begin) for begin, to in forward)
    results = []
    for x, old_lower, old_upper in zip(merged, lower, upper, strict=True):
        shape = (*x.shape[:-1], half)
        is_first = broadcast_to(at.number <= 0, shape)
        is_last = broadcast_to(at.number >= parts - 1, shape)
        after = collective(
            Exchange.PERMUTE, _half(x, False), at.axis_index, at.axis, pairs=backward
        )
        ends = where(is_first, old_lower, _half(x, True)), where(is_last, old_upper, after)
        results.append(concat(ends, x.ndim - 1))
    return [*results[:keys], *results[keys + 1 :]]


def _half(x: UOp, upper: bool) -> UOp:
    """The lower or the upper half of the last axis."""
    half, zero = x.shape[-1] // 2, (0,) * (x.ndim - 1)
    begin = half if upper else 0
    return shrink(x, (*zero, begin), (*x.shape[:-1], begin + half))


# Running sums.


def run_across(u: UOp, first: UOp, x: UOp, at: Place) -> list[UOp]:
    """A running sum over a divided first axis: of each part, after the totals of those before."""
    arg, op, rest = u.arg, running_op(u), x.shape[1:]
    assert op is not None
    zero = const(identity(op, x.dtype), x.dtype)
    x = masked(x, 0, arg.length, zero, at)
    params = Param(0, rest, x.dtype), Param(1, rest, x.dtype)
    total = UOp(op, (param(params[0]), param(params[1])))
    body = function([total] * len(u.src[0].src), params)
    total, *sums = scan(body, [], [broadcast_to(zero, rest)], [x], x.shape[0], arg.reverse)
    totals = collective(Exchange.GATHER, total, at.axis_index, at.axis, invariant=True)
    part = iota((at.parts,), 0, INT32)
    number = broadcast_to(at.number, part.shape)
    is_before = part > number if arg.reverse else part < number
    is_before = broadcast_in_dim(is_before, totals.shape, (0,))
    before = where(is_before, totals, broadcast_to(zero, totals.shape))
    before = UOp(op, (first, reduce(before, op, (0,))))
    last = UOp(op, (first, reduce(totals, op, (0,))))
    return [last, *(UOp(op, (broadcast_to(before, y.shape), y)) for y in sums)]


# Fourier transforms.


def fft_by_axes(x: UOp, arg: Fft) -> UOp:
    """A transform along several axes as one after the other, in the order of NumPy.

    A transform along one axis leaves the others divided as they are: an all-to-all between two of
    them moves less than a gather.
    """
    kind, last = arg.kind, len(arg.lengths) - 1
    of_others = {FftType.RFFT: FftType.FFT, FftType.IRFFT: FftType.IFFT}.get(kind, kind)
    order = list(range(last, -1, -1))
    if kind is FftType.IRFFT:
        order = [*range(last), last]
    for i in order:
        axis = x.ndim - 1 - last + i
        one = Fft(kind if i == last else of_others, (arg.lengths[i],))
        x = moveaxis(UOp(Op.FFT, (moveaxis(x, axis, x.ndim - 1),), one), x.ndim - 1, axis)
    return x


# Extremes.


def argmax_across(u: UOp, x: UOp, at: Place) -> UOp:
    """The index of the first extreme along a divided axis: of that of the parts' extremes."""
    (axis,), op, size = u.arg.axes, u.arg.op, x.shape[u.arg.axes[0]]
    x = masked(x, axis, u.src[0].shape[axis], const(identity(op, x.dtype), x.dtype), at)
    index = UOp(Op.REDUCE, (x,), u.arg)
    rest = index.shape
    lines = reshape(moveaxis(x, axis, x.ndim - 1), (index.size, size))
    best = gather(lines, reshape(index, (index.size, 1)), (1,), 1)
    first = broadcast_to(cast(at.number, index.dtype) * size, rest)
    every_best, every_index = (
        collective(Exchange.GATHER, y, at.axis_index, at.axis, invariant=True)
        for y in (reshape(best, rest), index + first)
    )
    winner = reduce(every_best, op, (0,), index=INT32)
    part = iota((at.parts, *rest), 0, INT32)
    is_winner = UOp(Op.EQ, (part, broadcast_to(winner, part.shape)))
    return reduce(where(is_winner, every_index, full_like(every_index, 0)), Op.ADD, (0,))


# Irregular access.


def gather_across(
    u: UOp, operand: UOp, indices: UOp, sizes: Shape, places: Sequence[tuple[int, Place]]
) -> UOp:
    """Rows of a divided axis: those that are in the own part, and zeros for all others."""
    columns, owned = _columns(indices), list[UOp]()
    for axis, at in places:
        n, size, i = u.src[0].shape[axis], operand.shape[axis], axis - u.arg.batch
        start = columns[i]
        start = maximum(minimum(start, full_like(start, n - 1)), full_like(start, 0))
        columns[i], own = _in_part(start, size, at)
        owned.append(own)
    out = gather(operand, _joined(columns), sizes, u.arg.batch)
    return _owned(out, fold(lambda a, b: a & b, owned), 0)


def rows_across(u: UOp, x: UOp, axis: int, at: Place) -> UOp:
    """A short slice of a divided axis: rows as `gather_across` gives them."""
    arg, n = u.arg, u.shape[axis]
    row = iota((n,), 0, INT32) * arg.step[axis] + arg.start[axis]
    row, own = _in_part(row, x.shape[axis], at)
    x = moveaxis(x, axis, 0)
    rows = gather(x, reshape(row, (n, 1)), (1, *x.shape[1:]))
    return _owned(moveaxis(reshape(rows, (n, *x.shape[1:])), 0, axis), own, axis)


def _owned(x: UOp, is_own: UOp, axis: int) -> UOp:
    """Values where they are in the own part, from an axis on; zeros elsewhere."""
    mask = broadcast_in_dim(is_own, x.shape, tuple(range(axis, axis + is_own.ndim)))
    return where(mask, x, full_like(x, 0))


def as_word(x: UOp) -> UOp:
    """The bits of floats as integers, so that sums with zeros keep them: 0.0 + -0.0 is 0.0."""
    return bitcast(x, WORDS[x.dtype.itemsize]) if x.dtype in FLOATS else x


WORDS = {dtype.itemsize: dtype for dtype in UNSIGNED - NARROW}


def scatter_indices(u: UOp, operand: UOp, indices: UOp, places: Sequence[tuple[int, Place]]) -> UOp:
    """The indices of a scatter into a divided axis; what belongs to other parts does not fit."""
    columns = _columns(indices)
    for axis, at in places:
        size, i = operand.shape[axis], axis - u.arg.batch
        start, own = _in_part(columns[i], size, at)
        columns[i] = where(own, start, full_like(start, -1))
    return _joined(columns)


def _columns(indices: UOp) -> list[UOp]:
    """The indices along each axis."""
    shape = indices.shape[:-1]
    zero = (0,) * len(shape)
    return [
        reshape(shrink(indices, (*zero, i), (*shape, i + 1)), shape)
        for i in range(indices.shape[-1])
    ]


def _joined(columns: Sequence[UOp]) -> UOp:
    dtype = max((c.dtype for c in columns), key=lambda d: d.itemsize)
    return concat([reshape(cast(c, dtype), (*c.shape, 1)) for c in columns], columns[0].ndim)


def _in_part(start: UOp, size: int, at: Place) -> tuple[UOp, UOp]:
    """Indices into the own part, and whether they are in it."""
    start = cast(start, index_dtype(at.parts * size, start.dtype))
    first = broadcast_to(cast(at.number, start.dtype) * size, start.shape)
    return start - first, (start >= first) & (start < first + size)
