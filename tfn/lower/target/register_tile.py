"""Register blocking: the rows and vectors of sums that a contraction keeps in registers.

    for p in range(K): sums[6, 4 vectors] += a[6, p] * b[p, 4 vectors]     24 sums, 4 + 1 operands

Each loaded vector of `b` is multiplied by all rows, each loaded element of `a` by all vectors.
"""

from __future__ import annotations

from functools import lru_cache

from tfn.dtypes import DType, int16
from tfn.lower.target.target import Target

ACCUMULATORS_OF_32_REGISTERS = 26
"""Sums that a target with 32 vector registers keeps in them; six are left for operands."""

ACCUMULATORS_OF_16_REGISTERS = 12
"""The same with 16 vector registers, which leaves four for operands."""

MAX_TILE_VECTORS = 6
"""Vectors of a tile's width: each is an operand in a register."""

LOAD_COST = 0.1
"""The cost of a load in multiply-adds: loads run beside them, on ports of their own."""

STEP_COST = 0.5
"""The cost of the loop around a step, in multiply-adds."""

MIN_STEP_COST = 8.0
"""The least cost of a step: with fewer sums, multiply-adds wait for those of the step before.

Their latency is four cycles, and two begin in each.
"""

STREAMED_COST = 2.5
"""The cost of a vector that comes from the second cache, in multiply-adds that run meanwhile.

64 features by 196 pixels of 384 channels took 198 us in tiles of 2 by 5 vectors, and 150 of 6 by 2.
"""

BODY_COST = 0.001
"""The relative cost of one more sum in the code of a kernel, which is to be compiled."""

PART_BYTES = 16
"""The part of a vector that shuffles of elements do not cross: 128 bits, of SSE, AVX and NEON."""

MAX_LANES_TO_TRANSPOSE = 16
"""Lanes up to which squares of vectors are transposed in registers.

A square of 32 vectors of 128 bytes takes LLVM half a minute, and more registers than there are.
"""


def accumulators(target: Target) -> int:
    """The number of vector registers in which a tile may keep sums."""
    if target.vector_registers >= 32:
        return ACCUMULATORS_OF_32_REGISTERS
    return ACCUMULATORS_OF_16_REGISTERS


def free_registers(target: Target, dtype: DType) -> int:
    """The registers of a tile whose operands have a dtype: sums of pairs need one for products.

    4 rows by 3 vectors of pairs ran at 50 products a nanosecond, 5 by 2 at 75.
    """
    return target.vector_registers - (dtype == int16.dtype and target.vector_registers <= 16)


@lru_cache(maxsize=256)  # the layers of a model have few shapes
def best_tile(
    rows: int,
    columns: int,
    lanes: int,
    most: int,
    registers: int = 32,
    cached: int = MAX_TILE_VECTORS,
) -> tuple[int, int]:
    """The height in rows and the width in vectors of the cheapest tile of at most `most` sums.

    The vectors of a tile that is wider than `cached` are in the second cache when the next rows
    read them.

    The cost of a step is its multiplications, a share of its loads, and a constant.  Any tile that
    fills the registers is about as fast as any other, so the partial tiles at the edges decide.
    Beside the sums, a row of vectors and one element of the other operand are in registers: of 16
    registers, 3 rows by 4 vectors take 17, and a product ran at 44 GFLOP/s that 6 by 2 has at 98.

    Example:
        >>> best_tile(512, 512, 16, 26)
        (6, 4)
        >>> best_tile(512, 512, 8, 12, registers=16)
        (6, 2)
    """
    lowest_cost, best = float("inf"), (1, 1)
    for width in range(1, min(-(-columns // lanes), MAX_TILE_VECTORS) + 1):
        for height in range(1, min(rows, most // width, (registers - 1) // width - 1) + 1):
            cost = tile_cost(rows, columns, lanes, height, width, cached)
            if cost < lowest_cost:
                lowest_cost, best = cost, (height, width)
    return best


def cached_vectors(depth: int, target: Target) -> int:
    """The vectors of columns whose sums of `depth` terms read what the first cache holds."""
    return target.l1_bytes // max(depth * target.vector_bytes, 1)


def tile_cost(
    rows: int,
    columns: int,
    lanes: int,
    height: int,
    width: int,
    cached: int = MAX_TILE_VECTORS,
) -> float:
    """The cost of one step of all tiles of a height in rows and a width in vectors."""
    across, rest = divmod(columns, width * lanes)
    rest = -(-rest // lanes)
    cost = 0.0
    # Whole tiles, and the partial ones at either edge and in the corner.
    for tile_rows, count_down in ((height, rows // height), (rows % height, 1)):
        for tile_vectors, count_across in ((width, across), (rest, 1)):
            if tile_rows and tile_vectors:
                loads = tile_rows + tile_vectors
                step = tile_rows * tile_vectors + LOAD_COST * loads + STEP_COST
                streamed = STREAMED_COST * tile_vectors if width > cached else 0.0
                cost += count_down * count_across * max(step, streamed, MIN_STEP_COST)
    # Whole and partial tiles are code of their own, each with its epilogue.
    sums_in_code = (height + rows % height) * ((width if across else 0) + rest)
    return cost * (1 + BODY_COST * sums_in_code)
