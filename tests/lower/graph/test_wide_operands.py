"""Operands of 16-bit floats: copied in 32 bits where a product reads them often; same values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_matches_oracle, ops, p
from tfn.dtypes import FLOAT16, FLOAT32, DType, bfloat16
from tfn.lower.graph.packing import prepare
from tfn.lower.graph.wide_operands import (
    MIN_COLUMNS_TO_WIDEN,
    MIN_ROWS_TO_WIDEN,
    store_second,
    widened,
)
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

BFLOAT16 = bfloat16.dtype
M, K, N = MIN_ROWS_TO_WIDEN, 24, MIN_COLUMNS_TO_WIDEN


def product(m: int, k: int, n: int, dtype: DType = BFLOAT16) -> UOp:
    return build.dot(p(0, m, k, dtype=dtype), p(1, k, n, dtype=dtype), ((1,), (0,)))


def copies(u: UOp) -> list[UOp]:
    return ops([u], Op.GBARRIER)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16], ids=str)
def test_both_operands_are_converted_once(dtype: DType) -> None:
    u = product(M, K, N, dtype)
    wide = widened(u, HOST)
    assert wide.op is Op.DOT and wide.arg == replace(u.arg, dtype=FLOAT32)
    a, b = (build.cast(x, FLOAT32) for x in u.src)
    assert wide.src == (UOp(Op.GBARRIER, (a,)), b)
    assert store_second(wide, HOST).src[1] is UOp(Op.GBARRIER, (b,))
    assert len(copies(prepare([u], HOST)[0])) == 2


def test_values_that_are_converted_before_are_stored() -> None:
    """An explicit conversion would be done by each reader, as views are."""
    a, b = build.cast(p(0, M, K, dtype=BFLOAT16), FLOAT32), p(1, K, N)
    wide = widened(build.dot(a, b, ((1,), (0,))), HOST)
    assert wide.src[0].op is Op.GBARRIER and wide.src[1] is b
    turned = build.dot(p(0, M, K), build.cast(p(1, N, K, dtype=BFLOAT16), FLOAT32), ((1,), (1,)))
    (copy,) = copies(prepare([turned], HOST)[0])  # one, in the order of the loop
    assert copy.shape == (K, N)


@pytest.mark.parametrize(
    "u",
    [
        product(M - 1, K, N),
        product(M, K, N - 1),
        product(M, 0, N),
        product(0, K, N),
        product(M, K, N, FLOAT32),
    ],
    ids=str,
)
def test_what_is_read_seldom_or_wide_stays(u: UOp) -> None:
    assert widened(u, HOST) is u


def test_fixed_orders_of_sums_convert_by_themselves() -> None:
    u = product(M, K, N)
    assert widened(u, replace(HOST, batch_invariant=True)) is u


def test_a_matrix_unit_takes_what_is_packed_for_it() -> None:
    target = replace(HOST, features="+avx512bf16")
    (packed,) = prepare([product(M, K, N)], target)
    assert prepare([packed], target) == [packed]
    assert not any(u.op is Op.CAST and u.dtype == FLOAT32 for u in walk([packed]))


def test_repeated_elements_are_stored_once() -> None:
    b = build.reshape(p(1, K, N, dtype=BFLOAT16), (1, K, N))
    repeated = build.expand(b, (3, K, N))
    u = build.dot(p(0, 3, M, K, dtype=BFLOAT16), repeated, ((2,), (1,)), ((0,), (0,)))
    assert sorted(x.size for x in copies(widened(u, HOST))) == [K * N, 3 * M * K]
    assert_matches_oracle([u], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16], ids=str)
@pytest.mark.parametrize(("m", "k", "n"), [(32, 7, 16), (33, 64, 41), (129, 1, 70), (1, 9, 64)])
def test_products_have_the_values_of_the_oracle(dtype: DType, m: int, k: int, n: int) -> None:
    assert_matches_oracle([product(m, k, n, dtype)], rtol=1e-2, atol=1e-2)
    turned = build.dot(p(0, k, m, dtype=dtype), p(1, n, k, dtype=dtype), ((0,), (1,)))
    assert_matches_oracle([turned], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions(groups: int) -> None:
    x = p(0, 2, 6, 5, 4, dtype=BFLOAT16)
    w = p(1, 3, 3, 4 // groups, 16 * groups, dtype=BFLOAT16)
    arg = Conv((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), groups, 1, BFLOAT16)
    u = build.conv(x, w, arg)
    wide = widened(u, HOST)
    assert wide.op is Op.CONV and len(copies(wide)) == 2
    assert_matches_oracle([u], rtol=2e-2, atol=2e-2)
    few = build.conv(x, p(1, 3, 3, 4, 8, dtype=BFLOAT16), replace(arg, groups=1))
    assert widened(few, HOST) is few
