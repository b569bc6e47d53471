"""The register tile: within the registers, within the product, and with little waste."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.lower.check_passes import HOST, SMALL
from tfn.lower.target.register_tile import accumulators, best_tile

SIDES = st.integers(1, 200)
REGISTERS = st.sampled_from([12, 26])


@given(SIDES, SIDES, REGISTERS)
def test_a_tile_fits(rows: int, vectors: int, most: int) -> None:
    height, width = best_tile(rows, vectors * 16, 16, most)
    assert 1 <= height <= rows and 1 <= width <= vectors
    assert height * width <= most


@given(SIDES, SIDES, REGISTERS)
def test_a_last_vector_that_is_not_full_makes_it_no_larger(
    rows: int, vectors: int, most: int
) -> None:
    height, width = best_tile(rows, vectors * 16 - 3, 16, most)
    assert 1 <= height <= rows and 1 <= width <= vectors
    assert height * width <= most


@given(st.integers(50, 500), st.integers(20, 100), REGISTERS)
def test_a_large_product_fills_the_registers(rows: int, vectors: int, most: int) -> None:
    height, width = best_tile(rows, vectors * 16, 16, most)
    assert height * width > 0.6 * most


def test_edges_decide() -> None:
    assert best_tile(1, 1, 16, 26) == (1, 1)
    assert best_tile(1, 1600, 16, 26)[0] == 1
    assert best_tile(100, 16, 16, 26)[1] == 1
    for rows, vectors in ((12, 8), (24, 4), (8, 3)):
        height, width = best_tile(rows, vectors * 16, 16, 26)
        assert rows % height == 0 and vectors % width == 0, "whole tiles are there to be had"


def test_some_registers_are_left_for_operands() -> None:
    for target in (HOST, SMALL):
        assert accumulators(target) <= target.vector_registers - 4


def test_of_tiles_alike_that_with_fewer_bodies_is_taken() -> None:
    """5 by 5 would leave a rest on either side: four bodies, each with all that follows."""
    for rows, vectors in ((1024, 64), (256, 64), (32, 4), (28, 4)):
        height, width = best_tile(rows, vectors * 16, 16, 26)
        assert rows % height == vectors % width == 0
        assert height * width >= 16


def test_a_last_vector_that_is_not_full_is_a_body_of_its_own() -> None:
    """Of 63 vectors three by three are whole tiles; not of 1000 columns, which end within one."""
    assert best_tile(256, 63 * 16, 16, 26) == (8, 3)
    height, width = best_tile(256, 1000, 16, 26)
    assert height * (width + -(-(1000 % (16 * width)) // 16)) < 8 * (3 + 3)
