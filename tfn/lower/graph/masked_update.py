"""Masked updates: a scatter that is kept or undone as a whole, as a scatter that drops its points.

Loops under `vmap` keep the carries of the lanes that have ended.  As a select of a whole array that
costs a copy of it in each step; the index of a window that is dropped costs nothing, and the
scatter updates the array in place::

    select (broadcast c) (scatter f i x) f   ->   scatter f (select c i n) x

where n, the size of an axis, is an index at which no window fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def users(outputs: Sequence[UOp], order: Iterable[UOp]) -> dict[UOp, int]:
    """The number of nodes that read each node; being a result counts too."""
    counts: dict[UOp, int] = {}
    for u in [*outputs, *(s for node in order for s in node.src)]:
        counts[u] = counts.get(u, 0) + 1
    return counts


def masked_update(u: UOp) -> UOp:
    """A select between a scatter and its operand as a scatter; any other node as it is.

    The mask must be the same for all elements of the operand but its batch axes.
    """
    condition, chosen, other = u.src
    inverted = chosen.op is not Op.SCATTER
    update, kept = (other, chosen) if inverted else (chosen, other)
    if update.op is not Op.SCATTER or update.src[0] is not kept:
        return u
    operand, indices, updates = update.src
    batch = update.arg.batch
    mask = condition.src[0] if condition.op is Op.EXPAND else condition
    if mask.ndim != operand.ndim or any(n != 1 for n in mask.shape[batch:]):
        return u
    if indices.shape[-1] == 0 or updates.size == 0:  # every window fits, or there is none
        return u
    if operand.shape[batch] > np.iinfo(indices.dtype).max:
        return u
    mask = build.reshape(mask, (*mask.shape[:batch], *(1 for _ in indices.shape[batch:])))
    mask = build.expand(mask, indices.shape)
    outside = build.full_like(indices, operand.shape[batch])
    if inverted:
        mask, indices, outside = mask, outside, indices
    return build.scatter(
        operand, build.where(mask, indices, outside), updates, update.arg.op, batch
    )
