"""Matrix units: which a target has for a dtype, and the products that fill them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.check_passes import HOST
from tests.lower.loops.test_tensorize import AMX
from tfn.dtypes import BFLOAT16, FLOAT16, int8, int16, uint8
from tfn.lower.target.matrix_units import matrix_units
from tfn.trace.op import Op


def test_larger_units_come_first() -> None:
    assert [(u.rows, u.depth) for u in matrix_units(AMX, BFLOAT16)] == [(16, 32), (1, 2)]
    assert [(u.rows, u.depth) for u in matrix_units(AMX, int8.dtype)] == [(16, 64)]
    assert [u.k_group for u in matrix_units(AMX, uint8.dtype)] == [4]
    assert [u.rows for u in matrix_units(AMX, int16.dtype)] == [1]
    assert not list(matrix_units(AMX, FLOAT16)) and not list(matrix_units(HOST, BFLOAT16))


def test_avx2_multiplies_pairs_of_int16() -> None:
    avx2 = replace(HOST, vector_bytes=32, features="+avx,+avx2,+fma")
    assert [(u.rows, u.columns, u.depth) for u in matrix_units(avx2, int16.dtype)] == [(1, 8, 2)]
    assert not list(matrix_units(replace(avx2, vector_bytes=16), int16.dtype))
    assert not list(matrix_units(avx2, BFLOAT16))


def test_a_target_without_tile_registers_has_no_tile_unit() -> None:
    refused = replace(AMX, lacks=frozenset({Op.MMA}))
    assert [u.has_tiles for u in matrix_units(refused, BFLOAT16)] == [False]


@pytest.mark.parametrize(
    ("sizes", "fits"),
    [((16, 16, 32), True), ((15, 64, 64), False), ((64, 15, 64), False), ((64, 64, 33), False)],
)
def test_a_product_has_to_fill_a_unit_with_whole_groups(
    sizes: tuple[int, int, int], fits: bool
) -> None:
    tiles = next(matrix_units(AMX, BFLOAT16))
    assert tiles.fits(*sizes) is fits


def test_at_most_four_tiles_of_sums_are_open() -> None:
    tiles = next(matrix_units(AMX, BFLOAT16))
    assert tiles.register_block(256, 128) == (2, 2)
    assert tiles.register_block(16, 17) == (1, 2)
