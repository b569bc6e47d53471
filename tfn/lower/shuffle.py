"""Values moved between the lanes of vectors, and between vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.trace.op import Op
from tfn.trace.uop import UOp


def transpose(rows: Sequence[UOp], add: Callable[[UOp], UOp]) -> list[UOp]:
    """A square of vectors, turned: each step swaps blocks of twice the size across the diagonal."""
    rows, n, d = list(rows), len(rows), 1
    while d < n:
        low = tuple(n + j - d if j & d else j for j in range(n))
        high = tuple(n + j if j & d else j + d for j in range(n))
        for i in range(n):
            if not i & d:
                pair = (rows[i], rows[i + d])
                rows[i], rows[i + d] = (add(UOp(Op.SHUFFLE, pair, order)) for order in (low, high))
        d *= 2
    return rows
