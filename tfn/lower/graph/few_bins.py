"""Scatters into a few elements, such as histograms of a few bins, as reductions.

    scatter-add y[k] i x   ->   y + sum over n of where(i[n] == iota k, x[n], 0)

In order, each update waits for the one before it of the same element, through memory; a reduction
compares all indices with each element, in vectors.
"""

from __future__ import annotations

from tfn.dtypes import FLOATS
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.op import MOVEMENT, Op
from tfn.trace.uop import UOp, const

MAX_BINS = 16
"""Elements of the operand up to which each is reduced over all updates.

An update in order takes 2 to 5 ns, the shorter the fewer bins are hit in a row; a comparison of
eight 0.5.  A histogram of 3,668 numbers in 5 bins took 17 us, and takes 4.
"""

MIN_UPDATES = 256
"""Updates from which on it pays: as many take 0.5 us in order."""

MONOIDS = frozenset({Op.ADD, Op.MIN, Op.MAX})


def scatter_as_reduction(u: UOp, target: Target) -> UOp:
    """A scatter of elements, or whole rows, into few as a reduction; any other as it is."""
    operand, indices, updates = u.src
    rows = indices.ndim == 2 and indices.shape[1] == 1 and not u.arg.batch
    few = rows and operand.size <= MAX_BINS and updates.size >= MIN_UPDATES
    whole = few and updates.shape == (indices.shape[0], 1, *operand.shape[1:])
    ordered = target.batch_invariant and operand.dtype in FLOATS
    if not whole or u.arg.op not in MONOIDS or ordered:
        return u
    n, k, *row = indices.shape[0], *operand.shape
    shape = k, n, *row
    at = build.reshape(_in_memory(indices), (1, n, *(1 for _ in row)))
    value = build.reshape(_in_memory(updates), (1, n, *row))
    hit = build.eq(build.expand(at, shape), build.iota(shape, 0, indices.dtype))
    identity = const(build.identity(u.arg.op, operand.dtype), operand.dtype, shape)
    chosen = build.where(hit, build.expand(value, shape), identity)
    total = build.reduce(chosen, u.arg.op, (1,))
    combined = UOp(u.arg.op, (operand, total))
    if u.arg.op is not Op.ADD or operand.dtype not in FLOATS:
        return combined
    # What is not hit stays, a negative zero too.
    nothing = build.eq(total, const(0, operand.dtype, operand.shape))
    return build.where(nothing, operand, combined)


def _in_memory(u: UOp) -> UOp:
    """A value that is computed once, not for each of the bins."""
    value = u
    while value.op in MOVEMENT or value.op is Op.CAST:
        value = value.src[0]
    return u if value.op in (Op.PARAM, Op.CONST, Op.IOTA) else UOp(Op.GBARRIER, (u,))
