"""Convolutions of integers as products: of windows of every form, and where they stay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_matches_oracle, p
from tfn.dtypes import FLOAT32, INT32, DType, int8, int16, uint8
from tfn.lower.graph.packing import prepare
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

AVX2 = replace(HOST, features="+avx2", vector_bytes=32, vector_registers=16)


def conv(
    dtype: DType, x: tuple[int, ...], w: tuple[int, ...], step: int = 1, gap: int = 1, **more: int
) -> UOp:
    n = len(x) - 2
    result = FLOAT32 if dtype == FLOAT32 else INT32
    given = Conv((step,) * n, ((1, 0),) * n, (1,) * n, (gap,) * n, 1, 1, result)
    return build.conv(p(0, *x, dtype=dtype), p(1, *w, dtype=dtype), replace(given, **more))


@pytest.mark.parametrize(
    "u",
    [
        conv(int8.dtype, (2, 9, 8, 6), (3, 2, 6, 17)),
        conv(uint8.dtype, (1, 19, 17, 3), (7, 7, 3, 16), step=2),
        conv(int16.dtype, (1, 9, 12, 5), (2, 3, 5, 16), gap=2),
        conv(int16.dtype, (1, 9, 9, 8), (1, 1, 8, 16), step=2),
        conv(int8.dtype, (1, 60, 4), (5, 4, 16), step=3, gap=2),
    ],
    ids=["two images", "strides, odd channels", "gaps", "one tap", "one axis"],
)
def test_windows_become_rows_of_a_product(u: UOp) -> None:
    (prepared,) = prepare([u], AVX2)
    ops = {node.op for node in walk([prepared])}
    assert Op.DOT in ops and Op.CONV not in ops
    assert_matches_oracle([u])


@pytest.mark.parametrize(
    "u",
    [
        conv(FLOAT32, (1, 9, 9, 4), (3, 3, 4, 16)),
        conv(int16.dtype, (1, 9, 9, 16), (3, 3, 1, 16), groups=16),
        conv(int16.dtype, (1, 9, 9, 4), (3, 3, 4, 4)),
    ],
    ids=["floats", "groups", "few features"],
)
def test_others_stay(u: UOp) -> None:
    (prepared,) = prepare([u], AVX2)
    assert Op.CONV in {node.op for node in walk([prepared])}
