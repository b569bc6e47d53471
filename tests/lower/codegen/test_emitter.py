"""Instruction selection: strides of accesses, predicates, constant conditions, transposed loads."""

from __future__ import annotations

import pytest

from tests.lower.check_passes import HOST
from tests.lower.codegen.test_linearize import only
from tests.lower.graphs import assert_matches_oracle, p
from tfn.dtypes import INT32, INT64
from tfn.lower.report.verify.accesses import check
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

LANES = HOST.vector_bytes // 4


def accesses(items: tuple[UOp, ...], op: Op) -> set[tuple[int, int]]:
    """Lanes and strides of an op."""
    return {(u.arg.lanes, u.arg.stride) for u in items if u.op is op}


def test_stride_one_is_a_vector_access() -> None:
    items = only(p(0, 64 * LANES) * 2.0)
    assert accesses(items, Op.LOAD) == accesses(items, Op.STORE) == {(LANES, 1)}


def test_stride_zero_is_a_scalar_load() -> None:
    x, scale = p(0, 64 * LANES), p(1, 1)
    items = only(x * build.broadcast_to(scale, x.shape))
    assert accesses(items, Op.LOAD) == {(LANES, 1), (1, 0)}
    assert Op.SPLAT in {u.op for u in items}


def test_reversed_rows_have_stride_minus_one() -> None:
    items = only(build.flip(p(0, 64 * LANES), (0,)) + 1.0)
    assert accesses(items, Op.LOAD) == {(LANES, -1)}


def test_loaded_indices_are_gathered() -> None:
    items = only(build.gather(p(0, 100), p(1, 64 * LANES, 1, dtype=INT32), (1,)))
    gathers = [u for u in items if u.op is Op.LOAD and u.src[1].shape]
    assert gathers and all(u.src[1].shape == (LANES,) for u in gathers)


def test_transposes_are_loaded_by_rows() -> None:
    items = only(build.permute(p(0, 64, 64), (1, 0)) * 2.0)
    assert accesses(items, Op.LOAD) == {(LANES, 1)}
    assert Op.SHUFFLE in {u.op for u in items}


@pytest.mark.parametrize(("low", "high"), [(0, 4), (4, 0), (2, 2)])
def test_transposed_blocks_leave_out_padding(low: int, high: int) -> None:
    """A whole row of the block would be read from outside of the array, and be its padding."""
    padded = build.pad(p(0, 3 * LANES, LANES - 4), (0, low), (0, high))
    u = build.permute(padded, (1, 0)) * 2.0
    assert accesses(only(u), Op.LOAD) != {(LANES, 1)}
    assert_matches_oracle([u])


def test_indices_that_are_loaded_for_part_of_a_result_stay_in_bounds() -> None:
    taken = build.gather(p(0, 12), p(1, 11, 1, dtype=INT32), (1,))
    joined = build.concat([p(2, 1), build.reshape(taken, (11,))], 0)
    assert not check(only(joined), 1).unproved
    assert_matches_oracle([joined])


def test_constant_conditions_select_at_compile_time() -> None:
    x, y = p(0, 2, 8), p(1, 2, 8)
    first_row = build.iota(x.shape, 0, INT64) < const(1, INT64, x.shape)
    items = only(build.where(first_row, x, y))
    assert Op.WHERE not in {u.op for u in items}


def test_lane_bounds_are_compared_in_32_bits() -> None:
    items = only(build.pad(p(0, 300), (7,), (9,)) * 2.0)
    bounds = [u for u in items if u.op is Op.LT and any(s.op is Op.SPLAT for s in u.src)]
    assert bounds and all(u.src[0].dtype == INT32 for u in bounds)
