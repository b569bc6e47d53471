"""Split reductions: the same values from partial results, whose shapes depend on no machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.check_passes import HOST
from tests.lower.graphs import (
    assert_close,
    assert_matches_oracle,
    conv,
    draw,
    inputs,
    jaxpr,
    matmul,
    ops,
    p,
    run_oracle,
)
from tfn.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32
from tfn.lower.fuse import boundaries
from tfn.lower.fuse.ranges import indexed_kernels
from tfn.lower.graph.packing import prepare
from tfn.lower.graph.split_reduction import (
    MAX_CONCAT_PARTS,
    MAX_OUTPUTS_TO_SPLIT,
    MIN_ELEMENTS_TO_SPLIT,
    MIN_WHOLE_ROWS,
    PARTIAL_RESULTS,
    collapse_free,
    collapse_k,
    concat_tree,
    in_order_of_memory,
    two_pass_reduce,
)
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

TINY = replace(HOST, l1_bytes=1 << 8, l2_bytes=1 << 10, l3_bytes=1 << 12)
"""A machine with so small caches that small contractions are split."""


@pytest.mark.parametrize("op", [Op.ADD, Op.MAX, Op.MIN, Op.MUL])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((MIN_ELEMENTS_TO_SPLIT + 1,), (0,)),
        ((3, MIN_ELEMENTS_TO_SPLIT), (1,)),
        ((40_001, 2), (0,)),
        ((210, 211), (0, 1)),
        ((3, 200, 5, 200), (1, 3)),
        ((PARTIAL_RESULTS, 5, 103), (0, 2)),
    ],
)
def test_two_pass_reductions(op: Op, shape: tuple[int, ...], axes: tuple[int]) -> None:
    u = build.reduce(p(0, *shape), op, axes)
    rewritten = two_pass_reduce(u, HOST)
    value = draw(shape, FLOAT32)
    if op is Op.MUL:
        value = np.exp(value * 1e-3).astype(np.float32)
    assert_close(run_oracle([rewritten], [value])[0], run_oracle([u], [value])[0], 1e-3, 1e-2)
    long = np.prod([shape[a] for a in axes]) >= MIN_ELEMENTS_TO_SPLIT
    assert (rewritten is not u) == long
    if long:
        (partial,) = ops([rewritten], Op.GBARRIER)
        assert partial.size <= PARTIAL_RESULTS * u.size


X, ROW = p(0, 212, 210), p(1, 210)


@pytest.mark.parametrize(
    "x",
    [
        build.shrink(X, (1, 1), (211, 209)) * 2,
        X - build.broadcast_to(build.reshape(ROW, (1, 210)), X.shape),
        build.flip(X, (1,)) * build.iota(X.shape, 0, FLOAT32),
        build.concat([X, X], 1),
    ],
    ids=["slice", "broadcast", "flip", "concat"],
)
def test_reductions_that_are_not_contiguous_keep_their_axes(x: UOp) -> None:
    u = build.add_up(x, (0, 1))
    values = inputs([u])
    assert_close(
        run_oracle([two_pass_reduce(u, HOST)], values)[0], run_oracle([u], values)[0], 1e-3, 1e-2
    )
    kernels = indexed_kernels(boundaries.insert_barriers(jaxpr([u]).function, HOST))
    assert len(kernels) == 2
    assert not {Op.MOD, Op.FLOORDIV} & {v.op for stage in kernels for v in walk([stage.body])}


@pytest.mark.parametrize("op", [Op.ADD, Op.MAX])
def test_turned_axes_are_reduced_as_they_lie_in_memory(op: Op) -> None:
    """A sum over all axes is contiguous, however they are turned; rows are reduced as rows."""
    x = p(0, 3, 80, 182)
    turned = build.cast(build.permute(x, (0, 2, 1)), FLOAT64)
    everything = in_order_of_memory(build.reduce(turned, op, (0, 1, 2)), HOST)
    assert everything is build.reduce(build.cast(x, FLOAT64), op, (0, 1, 2))
    columns = in_order_of_memory(build.reduce(turned, op, (1,)), HOST)
    assert columns is build.reduce(build.cast(x, FLOAT64), op, (2,))
    reversed_rows = build.reduce(build.flip(x, (2,)), op, (1, 2))
    assert in_order_of_memory(reversed_rows, HOST) is build.reduce(x, op, (1, 2))
    whole = build.reduce(build.permute(x, (0, 2, 1)), op, (0, 1, 2))
    assert_matches_oracle([whole, columns, reversed_rows], rtol=1e-4, atol=1e-2)
    kernels = indexed_kernels(boundaries.insert_barriers(jaxpr([whole]).function, HOST))
    inner = [u.src[-1].arg.size for k in kernels for u in walk([k.body]) if u.op is Op.FOLD]
    assert len(kernels) == 2 and max(inner) >= 43_680 // 64, "pieces of one line"


def test_turned_axes_that_stay_or_whose_order_counts_are_not_moved() -> None:
    x = p(0, 3, 80, 182)
    for u, target in (
        (build.add_up(build.permute(x, (2, 1, 0)), (1,)), HOST),
        (build.add_up(build.flip(x, (0,)), (1,)), HOST),
        (build.add_up(build.permute(x, (0, 2, 1)), (1, 2)), replace(HOST, batch_invariant=True)),
        (build.reduce(build.permute(x, (0, 2, 1)), Op.MAX, (1,), index=INT32), HOST),
    ):
        assert in_order_of_memory(u, target) is u


@pytest.mark.parametrize("op", [Op.MAX, Op.MIN])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((MIN_ELEMENTS_TO_SPLIT + 1,), (0,)),
        ((3, MIN_ELEMENTS_TO_SPLIT), (1,)),
        ((40_001, 2), (0,)),
        ((2, 33_333, 3), (1,)),
    ],
)
def test_two_pass_argmax(op: Op, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """The first of equal extremes, in whichever tile; NaN is the best."""
    u = build.reduce(p(0, *shape), op, axes, index=INT32)
    rewritten = two_pass_reduce(u, HOST)
    assert [b.dtype for b in ops([rewritten], Op.GBARRIER)] == [
        INT32,
        FLOAT32,
    ] and rewritten.dtype == INT32
    assert all(b.size <= PARTIAL_RESULTS * u.size for b in ops([rewritten], Op.GBARRIER))
    value = np.round(draw(shape, FLOAT32))
    for _ in range(2):
        assert_close(run_oracle([rewritten], [value])[0], run_oracle([u], [value])[0])
        value.flat[-5:] = np.nan
        value.flat[value.size // 2] = np.nan
    value[...] = -np.inf if op is Op.MAX else np.inf
    assert_close(run_oracle([rewritten], [value])[0], run_oracle([u], [value])[0])


@pytest.mark.parametrize(
    "count", [2, MAX_CONCAT_PARTS, MAX_CONCAT_PARTS + 1, 40, MAX_CONCAT_PARTS**2 + 3]
)
def test_concat_trees(count: int) -> None:
    x = p(0, 300, 5)
    u = build.concat([build.shrink(x, (i, 0), (i + 1 + i % 3, 5)) + i for i in range(count)], 0)
    rewritten = concat_tree(u)
    assert (rewritten is u) == (count <= MAX_CONCAT_PARTS)
    kernels = ops([rewritten], Op.CONCAT)
    assert max(len(v.src) for v in kernels) <= MAX_CONCAT_PARTS
    values = inputs([u])
    assert_close(run_oracle([rewritten], values)[0], run_oracle([u], values)[0])


def test_rows_enough_for_all_threads_are_whole() -> None:
    rows = build.add_up(p(0, MIN_WHOLE_ROWS, MIN_ELEMENTS_TO_SPLIT), (1,))
    assert two_pass_reduce(rows, HOST) is rows
    columns = build.add_up(p(0, MIN_ELEMENTS_TO_SPLIT, MIN_WHOLE_ROWS), (0,))
    few = build.add_up(p(0, MIN_WHOLE_ROWS - 1, MIN_ELEMENTS_TO_SPLIT), (1,))
    for u, whole_rows in ((columns, True), (few, True), (rows, False)):
        assert two_pass_reduce(u, HOST, whole_rows) is not u
    indices = build.reduce(rows.src[0], Op.MAX, (1,), index=np.dtype("int32"))
    assert two_pass_reduce(indices, HOST) is not indices


@pytest.mark.parametrize(
    "shape", [(MIN_ELEMENTS_TO_SPLIT - 1,), (MAX_OUTPUTS_TO_SPLIT + 1, MIN_ELEMENTS_TO_SPLIT)]
)
def test_short_reductions_and_many_outputs_take_one_pass(shape: tuple[int, ...]) -> None:
    u = build.add_up(p(0, *shape), (len(shape) - 1,))
    assert two_pass_reduce(u, HOST) is u


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16, INT32], ids=lambda d: d.name)
def test_partial_sums_have_accumulator_width(dtype: np.dtype) -> None:
    """16-bit sums are rounded once, at the end."""
    rewritten = two_pass_reduce(build.add_up(p(0, 40_000, dtype=dtype), (0,)), HOST)
    (partial,) = ops([rewritten], Op.GBARRIER)
    assert partial.dtype == build.accumulator(dtype) and rewritten.dtype == dtype
    ones = np.ones(40_000, dtype)
    assert float(run_oracle([rewritten], [ones])[0]) == float(np.float32(40_000).astype(dtype))


def test_split_k() -> None:
    u = matmul(p(0, 8, 65536), p(1, 65536, 16))
    (rewritten,) = prepare([u], HOST)
    batched = [d for d in ops([rewritten], Op.DOT) if d.arg.batch_a]
    assert batched, "the pieces are a batch"
    pieces = batched[0].shape[0]
    assert 65536 % pieces == 0
    small = matmul(p(0, 8, 6), p(1, 6, 4))
    assert prepare([small], HOST) == [small]


@pytest.mark.parametrize(("rows", "split"), [(30, False), (96, True)])
def test_rows_that_fit_the_cache_are_multiplied_whole(rows: int, split: bool) -> None:
    target = replace(HOST, l2_bytes=1 << 19)
    (rewritten,) = prepare([matmul(p(0, rows, 2048), p(1, 2048, 96))], target)
    assert any(d.arg.batch_a for d in ops([rewritten], Op.DOT)) is split


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16], ids=lambda d: d.name)
def test_split_k_computes_the_same(dtype: np.dtype) -> None:
    graphs = [
        matmul(p(0, 3, 1024, dtype=dtype), p(1, 1024, 2, dtype=dtype)),
        build.dot(p(0, 1024, 3, dtype=dtype), p(1, 2, 1024, dtype=dtype), ((0,), (1,))),
        build.dot(p(0, 4, 512, dtype=dtype), p(1, 512, 4, dtype=dtype), ((0, 1), (1, 0))),
        conv(p(0, 1, 3, 3, 1024, dtype=dtype), p(1, 2, 2, 1024, 2, dtype=dtype), padding=(1, 0)),
    ]
    for u in graphs:
        rewritten = prepare([u], TINY)
        assert rewritten != [u]
        values = inputs([u])
        step = 1e-2 if dtype == BFLOAT16 else 1e-4
        assert_close(run_oracle(rewritten, values)[0], run_oracle([u], values)[0], step, step * 10)


def test_collapse_k() -> None:
    u = build.dot(p(0, 4, 6, 5, 3), p(1, 4, 5, 3, 7), ((2, 3), (1, 2)), ((0,), (0,)))
    rewritten = collapse_k(u)
    assert rewritten.op is Op.DOT and rewritten.shape == u.shape
    assert (rewritten.arg.contract_a, rewritten.arg.contract_b) == ((2,), (1,))
    values = inputs([u])
    assert_close(run_oracle([rewritten], values)[0], run_oracle([u], values)[0], 1e-5, 1e-5)
    across = build.dot(p(0, 4, 6), p(1, 6, 4), ((0, 1), (1, 0)))
    assert collapse_k(across) is across


@pytest.mark.parametrize(
    ("a", "b", "contract", "batch", "merged"),
    [
        ((6, 5), (5, 2, 3), ((1,), (0,)), ((), ()), ((6, 5), (5, 6))),  # heads of a projection
        ((4, 6, 5), (4, 6, 2, 3), ((0, 1), (0, 1)), ((), ()), ((4, 6, 5), (4, 6, 6))),  # gradient
        ((7, 2, 3), (7, 4), ((0,), (0,)), ((), ()), ((7, 6), (7, 4))),  # tokens of experts
        ((2, 3, 4, 5), (2, 5, 6), ((3,), (1,)), ((0,), (0,)), ((2, 12, 5), (2, 5, 6))),
        ((5, 2, 3), (4, 5, 6), ((0,), (1,)), ((), ()), ((5, 6), (4, 5, 6))),  # around the sum
        ((5, 2, 3), (5, 2, 3), ((0,), (0,)), ((), ()), ((5, 6), (5, 6))),
        ((0, 5), (5, 2, 3), ((1,), (0,)), ((), ()), ((0, 5), (5, 6))),
    ],
)
def test_collapse_free(
    a: tuple[int, ...],
    b: tuple[int, ...],
    contract: tuple[tuple[int, ...], tuple[int, ...]],
    batch: tuple[tuple[int, ...], tuple[int, ...]],
    merged: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    u = build.dot(p(0, *a), p(1, *b), contract, batch)
    rewritten = collapse_free(u)
    assert rewritten.op is Op.RESHAPE and rewritten.shape == u.shape
    assert tuple(s.shape for s in rewritten.src[0].src) == merged
    assert_close(*(run_oracle([v], inputs([u]))[0] for v in (rewritten, u)), 1e-5, 1e-5)
    assert collapse_free(rewritten.src[0]) is rewritten.src[0]
    assert_matches_oracle([u])


def test_axes_that_no_view_merges_stay() -> None:
    """A permuted operand would be read by divisions, one between sums is none to merge."""
    turned = build.permute(p(1, 3, 2, 5), (2, 1, 0))
    u = build.dot(p(0, 6, 5), turned, ((1,), (0,)))
    assert collapse_free(u) is u
    between = build.dot(p(0, 6, 5), p(1, 2, 5, 3), ((1,), (1,)))
    assert collapse_free(between) is between


@pytest.mark.parametrize("argument", [False, True])
def test_a_rest_joins_the_partial_results_without_predicates(argument: bool) -> None:
    """No load of the long kernel has a condition but that of its last vectors."""
    n = 3 * MIN_ELEMENTS_TO_SPLIT + 7
    u = build.reduce(p(0, n), Op.MAX, (0,), index=INT32 if argument else None)
    rewritten = two_pass_reduce(u, HOST)
    assert not ops([rewritten], Op.PAD)
    for best in (0, n - 1, n - 8, 5000):
        value = np.zeros(n, np.float32)
        value[best] = 1
        (got,) = run_oracle([rewritten], [value])
        assert got == (best if argument else 1)
