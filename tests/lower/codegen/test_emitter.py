"""Instruction selection: strides of accesses, predicates, constant conditions, transposed loads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.check_passes import HOST
from tests.lower.codegen.test_linearize import only
from tests.lower.graphs import assert_close, assert_matches_oracle, p, run_compiled, run_oracle
from tests.lower.loops.test_opt_ops import nests
from tfn.dtypes import INT32, INT64, UINT64
from tfn.lower.codegen.linearize import linearize
from tfn.lower.loops import heuristics
from tfn.lower.report.verify.accesses import check
from tfn.trace import build
from tfn.trace.argument import Likelihood
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


def test_transposed_blocks_of_padded_panels_are_loaded_by_rows() -> None:
    """A condition that holds for a whole block or for none of it is the mask of each row."""
    padded = build.pad(p(0, 4 * LANES, 64), (0, 0), (2 * LANES, 0))
    panels = build.reshape(padded, (2, 3, LANES, 64))
    u = build.permute(panels, (0, 3, 1, 2)) * 2.0
    items = only(u)
    assert accesses(items, Op.LOAD) == {(LANES, 1)}
    assert {len(load.src) for load in items if load.op is Op.LOAD} == {3}
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


def branching(u: UOp) -> tuple[UOp, ...]:
    """The last kernel, for processors that predict branches."""
    return linearize(heuristics.choose(nests(u)[-1], HOST), branches=True)


@pytest.mark.parametrize("size", [64 * LANES, 5, 3 * LANES + 1])
def test_rare_values_are_computed_under_a_branch(size: int) -> None:
    x = p(0, size)
    is_large = const(100.0, x.dtype, x.shape) < x
    rare = UOp(Op.WHERE, (is_large, build.unary(Op.SQRT, x), x * 2.0), Likelihood.RARE)
    items = branching(rare + 1.0)
    loops = [u for u in items if u.op is Op.LOOP]
    branch = next(u for u in loops if u.src[1].op is Op.CAST)  # as many iterations as its condition
    begin, end = (
        items.index(branch),
        next(i for i, u in enumerate(items) if u.op is Op.END and u.src[0] is branch),
    )
    at = [i for i, u in enumerate(items) if u.op is Op.SQRT]
    assert at and all(u.op is not Op.SQRT for u in items[:begin]) and begin < at[0] < end
    assert Op.MUL not in {u.op for u in items[begin:end]}
    values = np.linspace(-3, 200, size, dtype=np.float32)
    for data in (values, np.minimum(values, 90), np.full(size, np.nan, np.float32)):
        (got,) = run_compiled([rare + 1.0], [data])
        assert_close(got, run_oracle([rare + 1.0], [data])[0], 1e-6, 1e-6)


def test_a_rare_value_of_a_row_is_computed_once_for_the_row() -> None:
    x, row = p(0, 40, 64 * LANES), p(1, 40, 1)
    rare = UOp(Op.WHERE, (row < 0.0, build.unary(Op.SQRT, row), row), Likelihood.RARE)
    u = x * build.broadcast_to(rare, x.shape)
    depth = 0
    for item in branching(u):
        depth += (item.op is Op.LOOP) - (item.op is Op.END)
        if item.op is Op.SQRT:
            assert depth == 2  # the loop over rows, and the branch
    assert_matches_oracle([u])


def test_bounds_of_an_index_are_one_comparison() -> None:
    at = p(1, 300, 1, dtype=INT32)
    u = build.scatter(p(0, 50), at, p(2, 300, 1), Op.ADD)
    items = branching(u)
    (store,) = [u for u in items if u.op is Op.STORE]
    condition = store.src[3]
    assert condition.op is Op.LT and condition.src[0].dtype == UINT64
    loads = [u for u in items if u.op is Op.LOAD and u.src[0].shape == (50,)]
    assert all(len(u.src) == 2 for u in loads if not u.shape)
    indices = np.array([3, -1, 50, 49, 0, 2**31 - 1, -(2**31), 3] * 38, np.int32)[:300, None]
    values = [np.zeros(50, np.float32), indices, np.ones((300, 1), np.float32)]
    np.testing.assert_array_equal(run_compiled([u], values)[0], run_oracle([u], values)[0])


def test_parts_are_stored_together_after_their_branches() -> None:
    """Sine and cosine as the parts of complex numbers: whole vectors, not every second element."""
    x = p(0, 32 * LANES)
    parts = [build.unary(op, x) for op in (Op.COS, Op.SIN)]
    u = build.concat([build.reshape(part, (x.size, 1)) for part in parts], 1)
    (n,) = nests(u)
    items = linearize(heuristics.choose(n, HOST), branches=True)
    assert accesses(items, Op.STORE) == {(LANES, 1)}
    data = np.random.default_rng(0).normal(size=x.size).astype(np.float32)
    data[::7] *= 1e20
    assert_close(run_compiled([u], [data])[0], run_oracle([u], [data])[0], 0, 3e-7)
