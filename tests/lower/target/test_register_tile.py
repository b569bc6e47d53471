"""Register blocking: tiles within the registers and the product, with little waste."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.lower.check_passes import HOST, SMALL
from tfn.dtypes import FLOAT32, int16
from tfn.lower.target.register_tile import accumulators, best_tile, free_registers

SIDES = st.integers(1, 200)
REGISTERS = st.sampled_from([12, 26])


@given(SIDES, SIDES, REGISTERS)
def test_a_tile_fits(rows: int, vectors: int, most: int) -> None:
    height, width = best_tile(rows, vectors * 16, 16, most)
    assert 1 <= height <= rows and 1 <= width <= vectors
    assert height * width <= most


@given(SIDES, SIDES, REGISTERS)
def test_a_partial_last_vector_does_not_enlarge_the_tile(
    rows: int, vectors: int, most: int
) -> None:
    height, width = best_tile(rows, vectors * 16 - 3, 16, most)
    assert 1 <= height <= rows and 1 <= width <= vectors
    assert height * width <= most


@given(st.integers(50, 500), st.integers(20, 100), REGISTERS)
def test_a_large_product_fills_the_registers(rows: int, vectors: int, most: int) -> None:
    height, width = best_tile(rows, vectors * 16, 16, most)
    assert height * width > 0.6 * most


def test_tiles_divide_the_product_where_they_can() -> None:
    assert best_tile(1, 1, 16, 26) == (1, 1)
    assert best_tile(1, 1600, 16, 26)[0] == 1
    assert best_tile(100, 16, 16, 26)[1] == 1
    for rows, vectors in ((12, 8), (24, 4), (8, 3)):
        height, width = best_tile(rows, vectors * 16, 16, 26)
        assert rows % height == 0 and vectors % width == 0, "there are tiles without a rest"


def test_some_registers_are_left_for_operands() -> None:
    for target in (HOST, SMALL):
        assert accumulators(target) <= target.vector_registers - 4


@given(SIDES, SIDES, st.sampled_from([(12, 16), (26, 32)]))
def test_sums_and_operands_fit_the_registers(
    rows: int, vectors: int, kind: tuple[int, int]
) -> None:
    """A row of vectors is loaded beside the sums, and one element in all lanes."""
    most, registers = kind
    height, width = best_tile(rows, vectors * 8, 8, most, registers)
    assert height * width + width + 1 <= registers


def test_among_equal_tiles_the_one_of_least_code_is_chosen() -> None:
    """5 by 5 would leave a rest on either side: four bodies, each with its epilogue."""
    for rows, vectors in ((1024, 64), (256, 64), (32, 4), (28, 4)):
        height, width = best_tile(rows, vectors * 16, 16, 26)
        assert rows % height == vectors % width == 0
        assert height * width >= 16


def test_a_partial_last_vector_is_code_of_its_own() -> None:
    """63 vectors are whole tiles of three; 1000 columns end within a vector."""
    assert best_tile(256, 63 * 16, 16, 26) == (8, 3)
    height, width = best_tile(256, 1000, 16, 26)
    assert height * (width + -(-(1000 % (16 * width)) // 16)) < 8 * (3 + 3)


def test_vectors_of_the_second_cache_are_read_by_several_rows() -> None:
    """Five vectors would be loaded for two rows each, more than the cache gives meanwhile."""
    assert best_tile(16, 200, 8, 12, 16) == (2, 5)
    height, width = best_tile(16, 200, 8, 12, 16, cached=1)
    assert height > width


def test_products_of_pairs_are_in_a_register_before_they_are_added() -> None:
    few, many = replace(HOST, vector_registers=16), HOST
    assert [free_registers(few, dtype) for dtype in (FLOAT32, int16.dtype)] == [16, 15]
    assert free_registers(many, int16.dtype) == 32
