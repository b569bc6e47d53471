"""Masking rules of gathers and scatters: windows begin below true sizes, not padded ones."""

from __future__ import annotations

from typing import Any

from tfn.buckets.scope import Padded, Row, Scope, Size
from tfn.dtypes import BOOL, INT64, INTEGERS, DType, highest, lowest
from tfn.exporting.symbolic_dims import Polynomial
from tfn.extend import Op, UOp, argument, build, const


def last_in_order(dtype: DType) -> Any:
    """The value that no other one follows when it is sorted."""
    return highest(dtype) if dtype in INTEGERS or dtype == BOOL else float("nan")


def first_in_order(dtype: DType) -> Any:
    """The value that no other one precedes."""
    return lowest(dtype)


def _is_open(*sizes: Size) -> bool:
    return any(isinstance(n, Polynomial) for n in sizes)


def _roomy(
    x: Padded, batch: int, sizes: tuple[Size, ...], widths: tuple[int, ...], moved: int
) -> UOp:
    """The operand with room for padded windows that begin at the last true place."""
    high = [0] * x.node.ndim
    for i, (whole, size) in enumerate(zip(x.shape[batch:], sizes, strict=True)):
        if i < moved and _is_open(size) and size != whole:
            high[batch + i] = widths[i]
    return build.pad(x.node, (0,) * x.node.ndim, tuple(high))


def _limits(
    scope: Scope, x: Padded, roomy: UOp, batch: int, sizes: tuple[Size, ...], indices: UOp
) -> tuple[UOp, UOp]:
    """The indices in a signed dtype, and the last place where a window fits, beside each."""
    wholes = x.shape[batch:]
    kind = scope.dtype([*roomy.shape, *wholes])
    if indices.dtype.itemsize > 4 or (indices.dtype.kind == "u" and indices.dtype.itemsize == 4):
        kind = INT64
    lasts = [
        build.reshape(scope.number(_minus(wholes[i], sizes[i]), kind), (1,))
        for i in range(indices.shape[-1])
    ]
    limits = build.broadcast_in_dim(
        build.concat(lasts, 0) if lasts else build.zeros((0,), kind),
        indices.shape,
        (indices.ndim - 1,),
    )
    return build.cast(indices, kind), limits


def _minus(a: Size, b: Size) -> Size:
    difference = a - b
    if isinstance(difference, Polynomial) and difference.number is not None:
        return difference.number
    return difference


def gather(scope: Scope, row: Row, src: list[Padded]) -> UOp:
    """Windows whose start points are clamped to the true sizes."""
    (x, indices), arg, sizes = src, row.node.arg, row.arg.sizes
    batch, moved = arg.batch, indices.node.shape[-1]
    if not any(_is_open(x.shape[batch + i], sizes[i]) for i in range(moved)):
        return UOp(Op.GATHER, (x.node, indices.node), arg)
    roomy = _roomy(x, batch, sizes, arg.sizes, moved)
    places, limits = _limits(scope, x, roomy, batch, sizes, indices.node)
    return UOp(Op.GATHER, (roomy, build.minimum(places, limits)), arg)


def scatter(scope: Scope, row: Row, src: list[Padded]) -> UOp:
    """Windows that fit the true sizes; those of points in the tail fit nowhere."""
    (x, indices, updates), arg, u = src, row.node.arg, row.node
    batch, moved = arg.batch, indices.node.shape[-1]
    points = indices.node.ndim - 1 - batch
    first = batch + points
    sizes, widths = updates.shape[first:], updates.node.shape[first:]
    windows = [i for i in range(moved) if _is_open(x.shape[batch + i], sizes[i])]
    tails = [axis for axis in range(batch, first) if axis in indices.open]
    cut = [first + i for i, n in enumerate(sizes) if _is_open(n) and n != x.shape[batch + i]]
    if not windows and not tails and not cut:
        return UOp(Op.SCATTER, (x.node, indices.node, updates.node), arg)
    if tails and not moved:
        raise scope.refuse(row, src, "combines windows that begin nowhere")
    roomy = _roomy(x, batch, sizes, widths, moved)
    places, limits = _limits(scope, x, roomy, batch, sizes, indices.node)
    nowhere = const(1 << 30, places.dtype, places.shape)
    kept = places <= limits
    for axis in tails:
        kept = kept & scope.inside(places.shape, axis, indices.shape[axis])
    places = build.where(kept, places, nowhere)
    new = updates.node
    if cut:
        if arg.op is not Op.WHERE:
            new = scope.filled(updates, cut, build.identity(arg.op, new.dtype))
        elif all(n == 1 for n in indices.node.shape[batch:-1]):
            old = build.gather(roomy, places, widths, batch)
            mask = scope.mask(updates, cut)
            assert mask is not None
            new = build.where(mask, new, old)
        else:
            raise scope.refuse(row, src, "sets windows that end in the tail")
    loose = argument.Scatter(batch, arg.op, arg.distinct)
    made = UOp(Op.SCATTER, (roomy, places, new), loose)
    return build.shrink(made, (0,) * u.ndim, u.shape)
