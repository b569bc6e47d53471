"""How the elements of a value will lie in memory, and values laid out anew: in panels, apart."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from tfn.trace import build
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

LINE_BYTES, ALIAS_BYTES = 64, 2048
"""A line of the cache; lines so far from each other, or a multiple, push each other out of it."""


def strides(u: UOp) -> tuple[int, ...] | None:
    """How far apart in memory neighbours along each axis of a value will lie, in elements.

    None if its axes will not be steps through memory: a regrouping of what has been moved.
    """
    if u.op is Op.CAST:
        return strides(u.src[0])
    if u.op not in (Op.PERMUTE, Op.SHRINK, Op.FLIP, Op.RESHAPE) or 0 in u.src[0].shape:
        return _dense(u.shape)
    inner = strides(u.src[0])
    if inner is None:
        return None
    if u.op is Op.PERMUTE:
        return tuple(inner[axis] for axis in u.arg)
    if u.op is Op.SHRINK:
        return tuple(n * step for n, step in zip(inner, u.arg.step, strict=True))
    if u.op is Op.FLIP:
        return inner
    return _regrouped(u.src[0].shape, inner, u.shape)


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(build.count(tuple(shape[i + 1 :])) for i in range(len(shape)))


def _regrouped(
    old: Sequence[int], steps: Sequence[int], new: Sequence[int]
) -> tuple[int, ...] | None:
    """The strides of a reshape, where each group of axes that it makes is of one stretch."""
    axes = [(n, step) for n, step in zip(old, steps, strict=True) if n != 1]
    found: list[int] = []
    left = 1  # elements of the present group that the axes so far have not used
    for n in reversed(new):
        if left == 1 and n != 1:
            if not axes:
                return None
            left, step = axes.pop()
            while left % n and axes and axes[-1][1] == left * step:
                left *= axes.pop()[0]
        if n == 1:
            found.append(0)
            continue
        if left % n:
            return None
        found.append(step)
        left, step = left // n, step * n
    return tuple(reversed(found))


def panelled(b: UOp, width: int, together: int) -> UOp:
    """A view of ``b[*batch, K, N]``, kept as [*batch, N / width, K / together, width, together].

    The last panel is filled up with zeros.  What is such a view already stays as it is.
    """
    *batch, lines, columns = b.shape
    n, count = len(batch), -(-columns // width)
    if in_panels(b):
        return b
    b = build.pad(b, (0,) * (n + 2), (0,) * (n + 1) + (count * width - columns,))
    b = build.reshape(b, (*batch, lines // together, together, count, width))
    kept = UOp(Op.GBARRIER, (build.permute(b, (*range(n), n + 2, n, n + 3, n + 1)),))
    return _unpanelled(kept, (*batch, lines, columns))


def in_panels(b: UOp) -> bool:
    """Whether a matrix is a view of panels."""
    root, n = b, b.ndim - 2
    while root.op in (Op.SHRINK, Op.RESHAPE, Op.PERMUTE):
        root = root.src[0]
    if root is b or root.ndim != b.ndim + 2 or root.shape[:n] != b.shape[:n]:
        return False
    count, lines, width, together = root.shape[n:]
    fits = lines * together == b.shape[n] and 0 <= count * width - b.shape[n + 1] < width
    return fits and _unpanelled(root, b.shape) is b


def _unpanelled(kept: UOp, shape: Shape) -> UOp:
    """Panels as the matrix that they were made of."""
    *batch, lines, _ = shape
    n = len(batch)
    view = build.permute(kept, (*range(n), n + 1, n + 3, n, n + 2))
    view = build.reshape(view, (*batch, lines, kept.shape[n] * kept.shape[n + 2]))
    return build.shrink(view, (0,) * (n + 2), shape)


def apart(u: UOp) -> UOp:
    """Rows that the first cache has no room for at once, copied to where it has::

    a: bf16[M, 1024]   ->   view of (barrier of a as bf16[M, 1024 + 32])
    """
    nothing = (0,) * u.ndim
    kept = build.pad(u, nothing, (*nothing[1:], LINE_BYTES // u.dtype.itemsize))
    return build.shrink(UOp(Op.GBARRIER, (kept,)), nothing, u.shape)


def aliased(pitch_bytes: int) -> bool:
    """Whether rows so far apart push each other out of the first cache."""
    return gcd(pitch_bytes, 2 * ALIAS_BYTES) >= ALIAS_BYTES
