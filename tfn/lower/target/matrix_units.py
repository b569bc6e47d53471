"""Matrix units: the instructions of a target that multiply small matrices (AMX, VNNI, BF16).

    AMX          sums[16, 16] += a[16, K] @ b[K, 16]    K = 32 of 16 bits, 64 of 8 bits
    AVX-512      sums[1, 16]  += a[1, 2]  @ b[2, 16]    VDPBF16PS, VPDPWSSD
    AVX2         sums[1, 8]   += a[1, 2]  @ b[2, 8]     VPMADDWD, and an addition

Unsigned bytes by signed ones are multiplied in fours (VPDPBUSD), or in pairs (VPMADDUBSW).

`packing` brings operands into the layout that they take, `tensorize` puts contractions on them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfn._support.frozen import frozen
from tfn.dtypes import BFLOAT16, DType, int8, int16, uint8
from tfn.lower.target.target import Target
from tfn.trace import matrix_tiles
from tfn.trace.op import Op

AMX_FEATURES = {BFLOAT16: "+amx-bf16", int8.dtype: "+amx-int8", uint8.dtype: "+amx-int8"}
"""The feature by which a target multiplies matrices of a dtype."""

PAIR_DOT_FEATURES = {
    (BFLOAT16, 64): "+avx512bf16",
    (int16.dtype, 64): "+avx512bw",
    (int16.dtype, 32): "+avx2",
    (int16.dtype, 16): "+ssse3",
}
"""The feature by which a target multiplies pairs of a dtype in vectors of a size in bytes."""

FOUR_BYTES_FEATURES = {64: "+avx512vnni", 32: "+avxvnni"}
"""The feature by which a target adds products of four bytes, in vectors of a size in bytes."""

BYTE_FEATURES = {64: "+avx512bw", 32: "+avx2", 16: "+ssse3"}
"""The feature by which it adds products of two, in 16 bits that saturate."""

MAX_TILES_PER_SIDE = 2
"""Tiles of sums below each other, and beside each other, that are open at once.

So each tile of an operand is multiplied twice once loaded.  AMX has eight tile registers: four
hold sums, the others operands.
"""


@frozen
class MatrixUnit:
    """An instruction that adds ``a[rows, depth] @ b[depth, columns]`` to sums of 32 bits.

    With one row it works on vectors and adds the products of neighbours to each lane.  With more,
    operands and sums are matrices in tile registers.

    Attributes:
        dtype: of the operands.
        rows, columns, depth: the sizes of the product of one instruction.
    """

    dtype: DType
    rows: int
    columns: int
    depth: int

    @property
    def k_group(self) -> int:
        """Elements along the sum that are adjacent in `b`, to fill 32 bits (the VNNI layout)."""
        return matrix_tiles.together(self.dtype.itemsize)

    @property
    def has_tiles(self) -> bool:
        """Whether its operands are matrices in tile registers."""
        return self.rows > 1

    def fits(self, rows: int, columns: int, depth: int) -> bool:
        """Whether a product fills it at least once, and its sums are of whole groups."""
        large = rows >= self.rows and columns >= self.columns and depth >= self.depth
        return large and depth % self.k_group == 0

    def register_block(self, rows: int, columns: int) -> tuple[int, int]:
        """The number of tiles of sums, down and across, that a product keeps open at once."""
        down, across = -(-rows // self.rows), -(-columns // self.columns)
        return min(MAX_TILES_PER_SIDE, down), min(MAX_TILES_PER_SIDE, across)


def matrix_units(target: Target, dtype: DType) -> Iterator[MatrixUnit]:
    """The units of a target that multiply a dtype, larger ones first.

    Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: TDPBF16PS,
    TDPBSSD, TDPBUUD, VDPBF16PS, VPDPWSSD and VPMADDWD.
    """
    features = target.features.split(",")
    bits = 8 * dtype.itemsize
    # A target lacks MMA if the operating system has not granted tile registers to the process.
    if Op.MMA not in target.lacks and AMX_FEATURES.get(dtype) in features:
        yield MatrixUnit(dtype, 16, 16, 512 // bits)
    if PAIR_DOT_FEATURES.get((dtype, target.vector_bytes)) in features:
        yield MatrixUnit(dtype, 1, target.vector_bytes // 4, 2)


def adds_four_bytes(target: Target) -> bool:
    """Whether a target adds the products of four unsigned bytes by signed ones to 32 bits."""
    return FOUR_BYTES_FEATURES.get(target.vector_bytes) in target.features.split(",")


def multiplies_bytes(target: Target) -> bool:
    """Whether a target multiplies unsigned bytes by signed ones, and adds neighbours."""
    feature = BYTE_FEATURES.get(target.vector_bytes)
    return adds_four_bytes(target) or feature in target.features.split(",")
