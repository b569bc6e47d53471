"""In-register transpose: a square block of vectors, turned by shuffles.

Vectors are permuted within 128-bit parts, and parts are permuted whole: those are the two kinds of
shuffles that take a processor one instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.lower.target.register_tile import PART_BYTES
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Order = tuple[int, ...]
"""Lane numbers of two vectors, one after the other."""


def transpose(rows: Sequence[UOp], add: Callable[[UOp], UOp], group: int = 1) -> list[UOp]:
    """The columns of a square of vectors, in log2(n) steps of n shuffles.

    First within parts, interleaving two vectors; then by parts, every second one of both::

        a0 a1 a2 a3 | a4 ..     a0 b0 a1 b1 | a4 ..     a0 b0 c0 d0 | a4 ..     a0 b0 c0 d0 | e0 ..
        b0 b1 b2 b3 | b4 ..  -> a2 b2 a3 b3 | a6 ..  -> a1 b1 c1 d1 | a5 ..  -> a1 b1 c1 d1 | e1 ..

    Args:
        rows: as many vectors as each has lanes, a power of two; or as many as a part has, whose
            squares are then transposed side by side.
        add: places an instruction and returns it.
        group: elements of a lane.

    Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, on transposing.
    """
    rows, n = list(rows), rows[0].shape[0] // group
    part = min(n, PART_BYTES // (rows[0].dtype.itemsize * group))
    d = 1
    while d < len(rows):
        orders = _interleave(n, part, d) if d < part else _select_parts(n, part)
        for i in range(len(rows)):
            if not i & d:
                pair = (rows[i], rows[i + d])
                rows[i], rows[i + d] = (
                    add(
                        UOp(
                            Op.SHUFFLE,
                            pair,
                            tuple([k * group + j for k in o for j in range(group)]),
                        )
                    )
                    for o in orders
                )
        d *= 2
    # Interleaving halves leaves the columns of a part in bit-reversed order.
    return [rows[_bit_reversed(i, part)] for i in range(len(rows))]


def _interleave(n: int, part: int, size: int) -> tuple[Order, Order]:
    """In each part the lower halves of both vectors, `size` elements at a time, or the upper."""
    low = [
        start + element + j + vector * n
        for start in range(0, n, part)
        for element in range(0, part // 2, size)
        for vector in range(2)
        for j in range(size)
    ]
    return tuple(low), tuple([j + part // 2 for j in low])


def _select_parts(n: int, part: int) -> tuple[Order, Order]:
    """Parts 0, 2, ... of both vectors, or 1, 3, ..."""
    low = [start + j for start in range(0, 2 * n, 2 * part) for j in range(part)]
    return tuple(low), tuple([j + part for j in low])


def _bit_reversed(i: int, part: int) -> int:
    """A number with its bits below those of a power of two reversed."""
    low = 0
    for k in range(part.bit_length() - 1):
        low = 2 * low + (i >> k & 1)
    return i // part * part + low
