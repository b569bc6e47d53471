"""Helpers for the rules of gather and scatter: clamped starts, window masks, the last writer.

Gather clamps the starts of its windows; scatter drops a window that does not fit.  They are
transposes of each other only with this difference made explicit.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tfn.trace.build import (
    broadcast_in_dim,
    concat,
    eq,
    gather,
    iota,
    maximum,
    minimum,
    reduce,
    reshape,
    scatter,
    zeros,
)
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const


def _limits(operand: UOp, indices: UOp, sizes: Shape, batch: int) -> UOp:
    """The largest start of each indexed axis whose window fits, in the shape of the indices."""
    most = int(np.iinfo(indices.dtype).max)
    rooms = [n - size for n, size in zip(operand.shape[batch:], sizes, strict=True)]
    line = [const(min(n, most), indices.dtype, (1,)) for n in rooms[: indices.shape[-1]]]
    if not line:
        return zeros(indices.shape, indices.dtype)
    return broadcast_in_dim(concat(line, 0), indices.shape, (indices.ndim - 1,))


def clamped(operand: UOp, indices: UOp, sizes: Shape, batch: int) -> UOp:
    """The starts that gather reads from."""
    low = zeros(indices.shape, indices.dtype)
    return minimum(maximum(indices, low), _limits(operand, indices, sizes, batch))


def _over_windows(u: UOp, sizes: Shape) -> UOp:
    """One value per point, repeated over its window."""
    return broadcast_in_dim(u, u.shape + sizes, range(u.ndim))


def inside(operand: UOp, indices: UOp, sizes: Shape, batch: int) -> UOp:
    """Whether scatter writes, for every element of the updates."""
    fits = eq(indices, clamped(operand, indices, sizes, batch))
    return _over_windows(reduce(fits, Op.MIN, (indices.ndim - 1,)), sizes)


def at(values: UOp, indices: UOp, updates: UOp, batch: int) -> UOp:
    """The elements of `values` that scatter would combine with each element of the updates."""
    return gather(values, indices, updates.shape[indices.ndim - 1 :], batch)


def last(operand: UOp, indices: UOp, updates: UOp, batch: int) -> UOp:
    """Whether an element of the updates is the last that scatter writes to its place."""
    sizes = updates.shape[indices.ndim - 1 :]
    writes = inside(operand, indices, sizes, batch)
    points = indices.shape[:-1]
    if prod(points) <= 1:
        return writes
    number = _over_windows(reshape(iota((prod(points),), 0), points), sizes)
    number = number + 1  # zero is for elements that are not written
    written = scatter(zeros(operand.shape, number.dtype), indices, number, Op.WHERE, batch)
    return writes & eq(at(written, indices, updates, batch), number)
