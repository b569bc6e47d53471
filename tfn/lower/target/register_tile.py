"""The register tile of a contraction: how many rows by how many vectors."""

from __future__ import annotations

from functools import lru_cache

from tfn.lower.target.target import Target


def accumulators(target: Target) -> int:
    """How many vector registers a tile may keep sums in; the others hold operands."""
    return 26 if target.vector_registers >= 32 else 12


BODY = 0.001
"""Of the time that one more sum in the code of a kernel is worth, which takes long to compile."""


@lru_cache(maxsize=256)  # layers have few shapes
def best_tile(rows: int, columns: int, lanes: int, most: int) -> tuple[int, int]:
    """The height in rows and the width in vectors that waste least.

    The cost of a step is its multiplications, a share of its loads, and a constant; full tiles and
    the partial ones at the edges are counted alike.  Any tile that fills the registers is about as
    fast as any other, so the edges decide.

    Example:
        >>> best_tile(512, 512, 16, 26)
        (6, 4)
    """
    best, found = float("inf"), (1, 1)
    for width in range(1, min(-(-columns // lanes), 6) + 1):
        across, rest = divmod(columns, width * lanes)
        rest = -(-rest // lanes)
        for height in range(1, min(rows, most // width) + 1):
            cost = 0.0
            for part_m, times_m in ((height, rows // height), (rows % height, 1)):
                for part_k, times_k in ((width, across), (rest, 1)):
                    if part_m and part_k:
                        step = part_m * part_k + 0.1 * (part_m + part_k) + 0.5
                        # too few sums in flight do not fill the pipeline
                        cost += times_m * times_k * max(step, 8.0)
            # whole and partial tiles are so many bodies, each with all that follows the sum
            bodies = (height + rows % height) * ((width if across else 0) + rest)
            cost *= 1 + BODY * bodies
            if cost < best:
                best, found = cost, (height, width)
    return found
