"""Operands of the matrix units of grids: which are copied, and that values stay."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.graphs import p, run_oracle
from tfn.dtypes import INT32, DType, int8, uint8
from tfn.hw.cuda.target import TARGETS
from tfn.lower.graph.unit_operands import rows_of_bytes
from tfn.lower.target.target import grid_of
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

HOPPER, AMPERE = TARGETS["sm_90"], TARGETS["sm_80"]


def product(a: tuple[int, ...], b: tuple[int, ...], dtype: DType = int8.dtype) -> UOp:
    """The last axis of a with that before the last of b; further axes are batches."""
    batch = tuple(range(len(a) - 2))
    contract = (len(a) - 1,), (len(b) - 2,)
    return build.dot(p(0, *a, dtype=dtype), p(1, *b, dtype=dtype), contract, (batch, batch), INT32)


def copies(u: UOp) -> list[UOp]:
    return [x for x in walk([u]) if x.op is Op.GBARRIER]


@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_an_operand_with_rows_across_the_sum_is_copied(batch: tuple[int, ...]) -> None:
    u = product((*batch, 64, 256), (*batch, 256, 128))
    got = rows_of_bytes(u, grid_of(HOPPER))
    (copy,) = copies(got)
    assert copy.shape == (*batch, 128, 256) and got.shape == u.shape
    rng = np.random.default_rng(0)
    values = [rng.integers(-128, 128, x.shape).astype(np.int8) for x in u.src]
    np.testing.assert_array_equal(*(run_oracle([x], values)[0] for x in (got, u)))
    assert rows_of_bytes(got, grid_of(HOPPER)) is got


def test_products_that_no_four_warps_compute_stay() -> None:
    large = product((64, 256), (256, 128))
    assert rows_of_bytes(large, grid_of(AMPERE)) is large
    for a, b in (((64, 128), (128, 64)), ((80, 256), (256, 64)), ((64, 320), (320, 64))):
        u = product(a, b)
        assert rows_of_bytes(u, grid_of(HOPPER)) is u
    other = product((64, 256), (256, 128), uint8.dtype)
    assert rows_of_bytes(other, grid_of(HOPPER)) is other
