"""Matrices in registers: what fits, and what a product of them is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.graphs import p
from tfn.dtypes import BFLOAT16, FLOAT32, INT32, INT64, int8, uint8
from tfn.errors import ShapeError
from tfn.trace import matrix_tiles
from tfn.trace.matrix_tiles import Tile
from tfn.trace.op import Op
from tfn.trace.spec import Stage, check
from tfn.trace.uop import UOp, const

RANDOM = np.random.default_rng(0)


def test_types_follow_from_what_is_loaded() -> None:
    a, b = (
        UOp(Op.TILE, (p(i, 40, 64, dtype=BFLOAT16), const(0, INT64)), Tile(0, 64, 16, 32, (16, 32)))
        for i in range(2)
    )
    total = UOp(Op.MMA, (const(0.0, FLOAT32, (16, 16)), a, b))
    row = UOp(Op.ROW, (UOp(Op.SPILL, (total,)), const(3, INT64)))
    assert (total.shape, total.dtype) == ((16, 16), FLOAT32)
    assert (row.shape, row.dtype) == ((16,), FLOAT32)
    check([row], Stage.LINEAR)
    with pytest.raises(ShapeError, match="matrices that fit"):
        UOp(Op.MMA, (const(0.0, FLOAT32, (8, 16)), a, b))


def test_tiles_are_padded_with_zeros() -> None:
    buffer = np.arange(100, dtype=np.float32)
    found = matrix_tiles.load(buffer, 10, Tile(1, 20, 2, 3, (4, 4)))
    assert found.tolist() == [[11, 12, 13, 0], [31, 32, 33, 0], [0] * 4, [0] * 4]


@pytest.mark.parametrize("dtype", [BFLOAT16, int8.dtype, uint8.dtype], ids=str)
def test_groups_of_neighbours_are_multiplied(dtype: np.dtype) -> None:
    n, wide = matrix_tiles.together(dtype.itemsize), FLOAT32 if dtype == BFLOAT16 else INT32
    a, b = RANDOM.integers(0, 90, (16, 16 * n)), RANDOM.integers(0, 90, (16 * n, 16))
    total = RANDOM.integers(0, 9, (16, 16)).astype(wide)
    grouped = b.reshape(16, n, 16).transpose(0, 2, 1).reshape(16, 16 * n)
    got = matrix_tiles.multiply(total, a.astype(dtype), grouped.astype(dtype))
    assert got.dtype == wide
    assert np.array_equal(got, total + a @ b)


def test_tiny_numbers_are_taken_for_zero_and_others_are_not() -> None:
    tiny = np.full((16, 32), 1e-39).astype(BFLOAT16)
    large = np.full((16, 32), 1e30).astype(BFLOAT16)
    zero = np.zeros((16, 16), np.float32)
    assert not matrix_tiles.multiply(zero, tiny, large).any()
    assert not matrix_tiles.multiply(zero + np.float32(1e-40), tiny, tiny).any()
    large[0, 0] = np.nan
    assert np.isnan(matrix_tiles.multiply(zero, large, large)[0]).all()
