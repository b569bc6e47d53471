"""Static arguments of the operations of grids: local memory, copies into it, matrix units.

Threads of a warp, or of a group of four warps, hold the elements of matrices together: the records
say which element a thread has.
"""

from __future__ import annotations

from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import DType
from tfn.trace.op import Shape

COPY_BYTES = (16, 8, 4)
"""The bytes that one asynchronous copy of a thread may bring.

Source: PTX ISA, cp.async."""


@frozen
class Copy:
    """The addresses of an asynchronous copy from an operand to local memory, in elements.

    Attributes:
        offset: added to the index in local memory.
        operand_offset: added to that in the operand.
        count: of adjacent elements; zeros arrive where the copy's predicate is false.
    """

    offset: int
    operand_offset: int
    count: int


@frozen
class Staged:
    """A load from a tile in local memory: the sources after it are the ranges of the tile.

    Attributes:
        at: the number of the loop of which each iteration copies the next tile.
        pad: elements between the rows of the tile, so that threads meet different banks.
        stages: tiles in local memory at once: with more than one, copies run ahead.
        swizzled: whether rows of 128 bytes are laid out as four warps multiply them.
    """

    at: int
    pad: int = 0
    stages: int = 1
    swizzled: bool = False

    @property
    def pending(self) -> int:
        """Iterations whose tiles are still read by products that have been started: 1 or none."""
        return int(self.swizzled and self.stages > 2)

    @property
    def ahead(self) -> int:
        """Iterations by which the copies of tiles run ahead."""
        return self.stages - 1 - self.pending


@frozen
class WarpMma:
    """An element of ``sums[16, 8] + a[16, depth] @ b[depth, 8]``, which the threads of a warp hold.

    With g = lane // 4, t = lane % 4, and n elements of 32 bits together, the sources are::

        a  g + 8 * (i % 2), t * n + e + 4 * n * (i // 2)      i in 4, e in n
        b  t * n + e + 4 * n * i, g                           i in 2, e in n
        sums  g + 8 * (i // 2), 2 * t + i % 2                 i in 4

    Source: PTX ISA, matrix fragments of mma.m16n8k16 and mma.m16n8k32.

    Attributes:
        dtype: of the elements of `a` and `b`.
        element: the number of the sum.
    """

    dtype: DType
    element: int

    @property
    def together(self) -> int:
        """Elements of an operand in 32 bits."""
        return 4 // self.dtype.itemsize

    @property
    def depth(self) -> int:
        """Elements along the sum."""
        return 8 * self.together


@frozen
class Fragment:
    """An element of matrices in local memory: 8 rows of 16 bytes each, at addresses of a warp.

    Matrix i has its row r where thread 8 * i + r of the warp says.  With g = lane // 4, t = lane %
    4, and n elements of 32 bits together, a thread gets of each matrix the elements::

        g, n * t + e            e in n
        2 * t + e, g            transposed, of elements of 16 bits

    Source: PTX ISA, ldmatrix.

    Attributes:
        offset: in elements, added to each address.
        matrices: 2 or 4.
        element: the number of an element of the thread, those of the first matrix first.
    """

    offset: int
    matrices: int
    transposed: bool
    element: int


GROUP_ROWS = 64
"""Rows of the matrix of sums of four warps."""

SWIZZLE_BYTES = 128
"""Bytes of a row of a tile, of which the places of 16 bytes are swizzled."""


def swizzled(index: Any, itemsize: int) -> Any:
    """The place of an element of a swizzled tile: the 16 bytes c of row r are at ``c ^ (r % 8)``.

    Eight rows at the same place along them are then in different banks, and so are the eight
    places of a row.

    Source: PTX ISA, 128-byte swizzling mode of matrices in shared memory.
    """
    return index ^ (index // (SWIZZLE_BYTES // itemsize) % 8 * (16 // itemsize))


@frozen
class GroupMma:
    """An element of ``sums[64, columns] + a[64, depth] @ b[depth, columns]`` of four warps.

    Operands are in swizzled rows of local memory.  A row is 128 bytes along the sum, 64 elements of
    16 bits, 32 of tf32 or 128 of int8; or of the first across it, with a row for each of 64 places
    along the sum, and such boxes one after the other.  With w = warp % 4, g = lane // 4 and
    t = lane % 4, sum number ``4 * j + 2 * h + q`` is::

        sums[16 * w + 8 * h + g, 8 * j + 2 * t + q]

    Source: PTX ISA, wgmma.mma_async.

    Attributes:
        dtype: of the elements of `a` and `b`.
        columns: a multiple of 8, at most 256.
        a_across, b_across: whether rows are across the sum.
        pending: products that may still be under way, 1 or none: their sums may be used by the
            next product, or after a GROUP_WAIT, and their operands stay where they are.
        element: the number of the sum.
    """

    dtype: DType
    columns: int
    a_across: bool
    b_across: bool
    pending: int
    element: int

    @property
    def depth(self) -> int:
        """Elements along the sum."""
        return SWIZZLE_BYTES // self.dtype.itemsize


@frozen
class LocalMemory:
    """An array that the threads of a group share while the group runs.

    Attributes:
        number: unique in the kernel.
    """

    number: int
    shape: Shape
    dtype: DType
