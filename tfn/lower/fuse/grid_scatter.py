"""Scatters on grids: updates of one element are combined after a sort by element.

A scatter goes through its updates in order, since two of them may meet.  Sorted by the element that
they update, those that meet are neighbours: a scan of segments combines them, and the last of each
segment is written, to places that are all different::

    y[[2, 0, 2, 1]] += [a, b, c, d]
    ->  0 1 2 2        b d a c        sorted, and stable
    ->                 b d a a+c      combined from the beginning of each segment
    ->  y[0] += b;  y[1] += d;  y[2] += a + c

No atomic operation is used: two runs give the same bits.  Of floats the order of additions follows
from the number of updates and their places alone.

Source: Blelloch 1990, "Prefix sums and their applications" (segmented scans).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import and_

import numpy as np

from tfn.dtypes import BOOL, FLOATS, INT32, DType
from tfn.lower.fuse.grid_sort import sort_on_grid
from tfn.lower.graph.block_scan import scan_in_blocks
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Param, Scan, Scatter, Sort
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

MIN_UPDATES = 512
"""Updates from which on they are sorted.  One by one each waits for memory, half a microsecond; a
sort and a scan are a dozen kernels, of some microseconds each."""

MAX_ELEMENTS = 1 << 31
"""Elements, and updates, that have numbers of 32 bits."""


def scatter_on_grid(u: UOp, target: Target) -> UOp:
    """A SCATTER of many updates as one whose places are all different; others as they are."""
    arg: Scatter = u.arg
    operand, indices, updates = u.src
    batch, k = indices.shape[: arg.batch], indices.shape[-1]
    points, sizes = indices.shape[arg.batch : -1], updates.shape[indices.ndim - 1 :]
    lines, count, width = prod(batch), prod(points), prod(sizes)
    dims = operand.shape[arg.batch : arg.batch + k]
    # Windows are single elements, or whole rows of them: they meet whole or not at all.
    is_simple = set(sizes[:k]) == {1}
    fits = max(prod(dims), count) < MAX_ELEMENTS - 1
    if arg.distinct or not is_simple or not fits or count < MIN_UPDATES:
        return u
    if 0 in updates.shape or 0 in operand.shape:
        return u
    ids = _ids(build.reshape(indices, (lines, count, k)), dims)
    keys, order = _sorted(ids, prod(dims), target)
    places = build.reshape(order, (lines, count, 1))
    rows = build.gather(build.reshape(updates, (lines, count, width)), places, (1, width), 1)
    rows = build.reshape(rows, (lines, count, width))
    different = build.ne(_part(keys, 1, count), _part(keys, 0, count - 1))
    edge = const(True, BOOL, (lines, 1))
    is_last = build.concat([different, edge], 1) & (keys < prod(dims))
    at = _indices(build.where(is_last, keys, build.full_like(keys, prod(dims))), dims)
    at = build.reshape(at, (*batch, count, k))
    if arg.op is not Op.WHERE:
        is_first = build.concat([edge, different], 1)
        rows = _combined(rows, is_first, arg.op, target)
        old = build.reshape(build.gather(operand, at, sizes, arg.batch), rows.shape)
        rows = build.cast(UOp(arg.op, (build.cast(old, rows.dtype), rows)), u.dtype)
    rows = UOp(Op.GBARRIER, (build.reshape(rows, (*batch, count, *sizes)),))
    return UOp(Op.SCATTER, (operand, at, rows), Scatter(arg.batch, Op.WHERE, distinct=True))


def _part(x: UOp, start: int, stop: int) -> UOp:
    """Some columns."""
    return build.shrink(x, (0, start), (x.shape[0], stop))


def _ids(indices: UOp, dims: Sequence[int]) -> UOp:
    """The number of the element of each update; that after the last if it is out of bounds."""
    lines, count, k = indices.shape
    parts = [
        build.reshape(build.shrink(indices, (0, 0, i), (lines, count, i + 1)), (lines, count))
        for i in range(k)
    ]
    inside = reduce(and_, (_within(x, n) for x, n in zip(parts, dims, strict=True)))
    total = const(0, INT32, (lines, count))
    for x, n in zip(parts, dims, strict=True):
        total = total * n + build.cast(x, INT32)
    return build.where(inside, total, build.full_like(total, prod(dims)))


def _within(x: UOp, n: int) -> UOp:
    """Whether an index is in bounds, in its own dtype: one of few bits may not hold the bound."""
    limit = np.iinfo(x.dtype).max
    below = x < n if n <= limit else const(True, BOOL, x.shape)
    return below & (x >= 0) if x.dtype.kind == "i" else below


def _indices(ids: UOp, dims: Sequence[int]) -> UOp:
    """The inverse of `_ids`: [lines, updates, axes]."""
    parts = []
    for i in range(len(dims)):
        x = ids // prod(dims[i + 1 :])
        x = x % dims[i] if i else x  # beyond the end of all is beyond that of the first
        parts.append(build.reshape(x, (*ids.shape, 1)))
    return build.concat(parts, 2) if len(parts) > 1 else parts[0]


def _sorted(ids: UOp, most: int, target: Target) -> tuple[UOp, UOp]:
    """Numbers in order, and the updates that they are of; a byte less is a pass less."""
    bits = next(bits for bits in (8, 16, 32) if most >> bits == 0)
    keys = build.cast(ids, np.dtype(f"uint{bits}"))
    node = UOp(Op.SORT, (keys, build.iota(ids.shape, 1, INT32)), Sort(1))
    keys, order = sort_on_grid(node, target) or build.several(node)
    return build.cast(keys, INT32), order


def _combined(rows: UOp, is_first: UOp, op: Op, target: Target) -> UOp:
    """The combination of the rows of a segment up to each, which begins where a flag says."""
    dtype = build.accumulator(rows.dtype) if rows.dtype in FLOATS else rows.dtype
    lines, count, width = rows.shape
    flags = build.broadcast_in_dim(is_first, rows.shape, (0, 1))
    arrays = [build.moveaxis(x, 1, 0) for x in (flags, build.cast(rows, dtype))]
    shape = (lines, width)
    body = _segments(op, shape, dtype)
    start = [const(False, BOOL, shape), const(build.identity(op, dtype), dtype, shape)]
    arg = Scan(count, False, 0, 2, associative=True)
    node = UOp(Op.SCAN, (body, *start, *arrays), arg)
    results = scan_in_blocks(node, target) or build.several(node)
    return build.moveaxis(results[3], 0, 1)


def _segments(op: Op, shape: tuple[int, ...], dtype: DType) -> UOp:
    """Pairs of a flag and a value: where a flag is set, what came before does not count."""
    kinds = (BOOL, dtype, BOOL, dtype)
    params = tuple(Param(i, shape, kind) for i, kind in enumerate(kinds))
    before, total, begins, value = map(param, params)
    pair = [before | begins, build.where(begins, value, UOp(op, (total, value)))]
    return function([*pair, *pair], params)
