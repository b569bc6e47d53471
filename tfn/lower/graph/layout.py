"""Memory layouts: strides of a value, panel packing, padded leading dimensions.

`strides` predicts the layout of a value before any memory exists, so that the passes of this room
can tell which operands are worth a copy.  Two functions copy a matrix to another layout, behind a
view of the same shape and values::

    to_panels   b[K, N]    ->  view of (barrier of b as [N / W, K, W]): W neighbours are contiguous
    pad_rows    a[M, 1024] ->  view of (barrier of a as [M, 1024 + 32]): rows in different sets

Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication (2008), for panels.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from tfn.trace import build
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

LINE_BYTES = 64
"""A cache line: x86-64 and most of AArch64 move memory in pieces of this size."""

ALIAS_BYTES = 2048
"""Rows at a multiple of this distance evict each other from the first cache.

A cache of 32 or 48 KiB with 8 or 12 ways has 64 sets of lines: addresses 4096 bytes apart share a
set, and those 2048 bytes apart share two sets between them.
"""


def strides(u: UOp, innermost: bool = False) -> tuple[int, ...] | None:
    """Returns the distance in memory of neighbours along each axis of a value, in elements.

    None if its axes will not be strides: a reshape that merges axes which are not contiguous.  With
    `innermost`, such an axis has the stride of the last that it merges, if it merges whole axes.
    """
    if u.op is Op.CAST:
        return strides(u.src[0], innermost)
    if u.op not in (Op.PERMUTE, Op.SHRINK, Op.FLIP, Op.RESHAPE) or 0 in u.src[0].shape:
        return _dense(u.shape)
    inner = strides(u.src[0], innermost)
    if inner is None:
        return None
    if u.op is Op.PERMUTE:
        return tuple(inner[axis] for axis in u.arg)
    if u.op is Op.SHRINK:
        return tuple(n * step for n, step in zip(inner, u.arg.step, strict=True))
    if u.op is Op.FLIP:
        return inner
    return _reshaped(u.src[0].shape, inner, u.shape, innermost)


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    return tuple(build.count(tuple(shape[i + 1 :])) for i in range(len(shape)))


def _reshaped(
    old: Sequence[int], steps: Sequence[int], new: Sequence[int], innermost: bool
) -> tuple[int, ...] | None:
    """The strides of a reshape, if the axes that are merged into one are contiguous, or any."""
    axes = [(n, step) for n, step in zip(old, steps, strict=True) if n != 1]
    reversed_strides: list[int] = []
    remaining = 1  # elements of the present group of old axes that no new axis has used
    for n in reversed(new):
        if remaining == 1 and n != 1:
            if not axes:
                return None
            remaining, step = axes.pop()
            # Axes of which each steps over the whole of the next are one axis in memory.
            while remaining % n and axes and (innermost or axes[-1][1] == remaining * step):
                remaining *= axes.pop()[0]
        if n == 1:
            reversed_strides.append(0)
            continue
        if remaining % n:
            return None
        reversed_strides.append(step)
        remaining, step = remaining // n, step * n
    return tuple(reversed(reversed_strides))


def to_panels(b: UOp, width: int, together: int) -> UOp:
    """Packs ``b[*batch, K, N]`` as [*batch, N / width, K / together, width, together].

    Returns a view of the packed value, of the shape of `b`.  The last panel is filled up with
    zeros.  A view of panels is returned as it is.
    """
    *batch, depth, columns = b.shape
    n, count = len(batch), -(-columns // width)
    if is_panel_view(b):
        return b
    b = build.pad(b, (0,) * (n + 2), (0,) * (n + 1) + (count * width - columns,))
    b = build.reshape(b, (*batch, depth // together, together, count, width))
    panels = UOp(Op.GBARRIER, (build.permute(b, (*range(n), n + 2, n, n + 3, n + 1)),))
    return _from_panels(panels, (*batch, depth, columns))


def is_panel_view(b: UOp) -> bool:
    """Whether a matrix is a view of panels."""
    root, n = b, b.ndim - 2
    while root.op in (Op.SHRINK, Op.RESHAPE, Op.PERMUTE):
        root = root.src[0]
    if root is b or root.ndim != b.ndim + 2 or root.shape[:n] != b.shape[:n]:
        return False
    count, groups, width, together = root.shape[n:]
    fits = groups * together == b.shape[n] and 0 <= count * width - b.shape[n + 1] < width
    # Nodes are interned, so the view that panels of this shape would have is this very node.
    return fits and _from_panels(root, b.shape) is b


def _from_panels(panels: UOp, shape: Shape) -> UOp:
    """Panels viewed as the matrix that they were packed from."""
    *batch, depth, _ = shape
    n = len(batch)
    view = build.permute(panels, (*range(n), n + 1, n + 3, n, n + 2))
    view = build.reshape(view, (*batch, depth, panels.shape[n] * panels.shape[n + 2]))
    return build.shrink(view, (0,) * (n + 2), shape)


def pad_rows(u: UOp) -> UOp:
    """Copies a matrix with one more cache line per row, so that rows fall into different sets::

    a: bf16[M, 1024]   ->   view of (barrier of a as bf16[M, 1024 + 32])
    """
    low = (0,) * u.ndim
    padded = build.pad(u, low, (*low[1:], LINE_BYTES // u.dtype.itemsize))
    return build.shrink(UOp(Op.GBARRIER, (padded,)), low, u.shape)


def aliases_in_cache(pitch_bytes: int) -> bool:
    """Whether rows at this distance share so few cache sets that they evict each other."""
    return gcd(pitch_bytes, 2 * ALIAS_BYTES) >= ALIAS_BYTES
