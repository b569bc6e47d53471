"""Values moved between the lanes of vectors, and between vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.trace.op import Op
from tfn.trace.uop import UOp

PART_BYTES = 16
"""Parts of a vector that processors move whole, or else move elements within."""


def transpose(rows: Sequence[UOp], add: Callable[[UOp], UOp]) -> list[UOp]:
    """A square of vectors, turned by steps that are one instruction each.

    First within parts, those of two vectors in turns; then by parts, every second one of both::

        a0 a1 a2 a3 | a4 ..     a0 b0 a1 b1 | a4 ..     a0 b0 c0 d0 | a4 ..     a0 b0 c0 d0 | e0 ..
        b0 b1 b2 b3 | b4 ..  -> a2 b2 a3 b3 | a6 ..  -> a1 b1 c1 d1 | a5 ..  -> a1 b1 c1 d1 | e1 ..

    Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, on transposing.
    """
    rows, n = list(rows), len(rows)
    part = min(n, PART_BYTES // rows[0].dtype.itemsize)
    d = 1
    while d < n:
        orders = _in_turns(n, part, d) if d < part else _every_second(n, part)
        for i in range(n):
            if not i & d:
                pair = (rows[i], rows[i + d])
                rows[i], rows[i + d] = (add(UOp(Op.SHUFFLE, pair, order)) for order in orders)
        d *= 2
    return [rows[_reversed(i, part)] for i in range(n)]


def _in_turns(n: int, part: int, size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """In each part the lower halves of both vectors, `size` elements at a time, or the upper."""
    low = [
        start + place + j + vector * n
        for start in range(0, n, part)
        for place in range(0, part // 2, size)
        for vector in range(2)
        for j in range(size)
    ]
    return tuple(low), tuple([j + part // 2 for j in low])


def _every_second(n: int, part: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Parts 0, 2, ... of both vectors, or 1, 3, ..."""
    low = [start + j for start in range(0, 2 * n, 2 * part) for j in range(part)]
    return tuple(low), tuple([j + part for j in low])


def _reversed(i: int, part: int) -> int:
    """A number with its digits below a power of two in the opposite order."""
    low = 0
    for k in range(part.bit_length() - 1):
        low = 2 * low + (i >> k & 1)
    return i // part * part + low
