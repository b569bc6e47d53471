"""Operand packing: the same values, and the copies that are made for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.lower.check_passes import HOST, check_passes
from tests.lower.graphs import (
    assert_close,
    assert_matches_oracle,
    inputs,
    jaxpr,
    matmul,
    ops,
    p,
    run_compiled,
    run_oracle,
)
from tfn.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT32, DType, int8, int16, uint8
from tfn.hw.cpu.target import host
from tfn.lower.fuse import boundaries
from tfn.lower.fuse.ranges import indexed_kernels
from tfn.lower.graph.packing import (
    GEMV_STREAMS,
    compute_indices_before,
    pack_b,
    pack_for_matrix_unit,
    pack_panels,
    prepare,
    sums_of_products,
)
from tfn.lower.loops import loop_nest
from tfn.lower.loops.heuristics import choose
from tfn.lower.math.decompose import decompose
from tfn.trace import build
from tfn.trace.argument import Conv, Place
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, walk

TINY = replace(HOST, l1_bytes=1 << 8, l2_bytes=1 << 10, l3_bytes=1 << 12)
"""A machine with so small caches that small operands are packed."""


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (33, 20), (17, 64)])
def test_contractions_of_every_layout(shape: tuple[int, int]) -> None:
    """With and without a copy of the second operand."""
    m, n = shape
    graphs = [
        build.dot(p(0, m, 19), p(1, n, 19), ((1,), (1,))),
        build.dot(p(0, 19, m), p(1, n, 19), ((0,), (1,))),
        build.dot(p(0, 3, m, 19), p(1, 3, n, 19), ((2,), (2,)), ((0,), (0,))),
        build.dot(p(0, m, 19), p(1, n, 3, 19), ((1,), (2,))),
        build.dot(p(0, m, 19, 2), p(1, n, 2, 19), ((1, 2), (2, 1))),
        build.dot(p(0, m, 19), build.permute(p(1, 19, n), (1, 0)), ((1,), (1,))),
        build.dot(p(0, m, 19), build.flip(p(1, n, 19), (0,)), ((1,), (1,))),
        build.dot(p(0, m), p(1, n), ((), ())),
    ]
    for u in graphs:
        rewritten = prepare([u], HOST)
        values = inputs([u])
        assert_close(run_oracle(rewritten, values)[0], run_oracle([u], values)[0], 1e-4, 1e-4)


@pytest.mark.parametrize(("rows", "depth", "copied"), [(8, 32, 1), (7, 32, 0), (8, 128, 0)])
def test_few_rows_copy_a_transposed_operand_of_short_sums(
    rows: int, depth: int, copied: int
) -> None:
    u = build.dot(p(0, rows, depth), p(1, 64, depth), ((1,), (1,)))
    assert len(ops([pack_b(u, HOST)], Op.GBARRIER)) == copied
    assert_matches_oracle([u], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(64, 40, 64), (65, 40, 70), (200, 33, 129), (64, 64, 257)])
@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, INT32], ids=lambda d: d.name)
def test_large_operands_are_packed_into_panels(
    dtype: np.dtype, shape: tuple[int, int, int]
) -> None:
    m, k, n = shape
    u = matmul(p(0, m, k, dtype=dtype), p(1, k, n, dtype=dtype))
    rewritten = prepare([u], TINY)
    panels, *wide = sorted(ops(rewritten, Op.GBARRIER), key=lambda u: -u.ndim)
    _, groups, _, together = panels.shape
    assert [u.shape for u in wide] == [(m, k)] * (dtype == BFLOAT16)
    assert groups * together == k and panels.size < 2 * k * n + 128 * k
    assert_matches_oracle(
        [u],
        rtol=2e-2 if dtype == BFLOAT16 else 1e-4,
        atol=1e-3,
        target=replace(host(), l1_bytes=1 << 8, l2_bytes=1 << 10, l3_bytes=1 << 12),
    )
    assert len(ops(prepare([u], HOST), Op.GBARRIER)) == 2 * (dtype == BFLOAT16)


@pytest.mark.parametrize(
    ("image", "weights", "stride", "order", "panels"),
    [
        ((1, 20, 15, 15), (40, 20, 3, 3), 1, (0, 2, 3, 1), True),  # vectors of features
        ((2, 20, 32, 32), (48, 20, 3, 3), 1, (0, 2, 3, 1), True),  # vectors of pixels
        ((1, 28, 9, 9), (40, 28, 3, 3), 2, (0, 2, 3, 1), True),  # of pixels that are no neighbours
        ((1, 9, 9, 28), (200, 28, 3, 3), 1, (0, 1, 2, 3), True),
        ((1, 20, 6, 6), (40, 20, 3, 3), 2, (0, 2, 3, 1), False),  # few pixels
        ((1, 20, 14, 14), (8, 20, 3, 3), 1, (0, 2, 3, 1), False),  # few features
    ],
)
def test_weights_of_convolutions_are_panels_as_wide_as_a_register_tile(
    image: tuple[int, ...],
    weights: tuple[int, ...],
    stride: int,
    order: tuple[int, ...],
    panels: bool,
) -> None:
    n = len(image) - 2
    x = build.permute(p(0, *image), order)
    w = build.permute(p(1, *weights), (*range(2, n + 2), 1, 0))
    arg = Conv((stride,) * n, ((1, 1),) * n, (1,) * n, (1,) * n, 1, 1, FLOAT32)
    u = build.permute(build.conv(x, w, arg), tuple(map(order.index, range(n + 2))))
    (packed,) = prepare([u], HOST)
    depths = [b.src[0].shape for b in ops([packed], Op.GBARRIER) if b.ndim == n + 3]
    assert bool(depths) == panels
    assert all(build.count(shape) >= build.count(weights) for shape in depths)
    assert_matches_oracle([u], rtol=1e-4, atol=1e-4)


def test_contractions_with_scalars() -> None:
    for a, b in (((), ()), ((40,), ()), ((), (40,))):
        u = build.dot(p(0, *a), p(1, *b), ((), ()))
        values = inputs([u])
        assert_close(run_oracle(prepare([u], HOST), values)[0], run_oracle([u], values)[0])


def test_detach_is_dropped_and_barriers_stay() -> None:
    x = p(0, 3)
    barrier = UOp(Op.GBARRIER, (x + 1.0,))
    assert prepare([UOp(Op.DETACH, (x,)) * 2.0, barrier], HOST) == [x * 2.0, barrier]


def test_scattered_rows_are_packed() -> None:
    """The heads of attention: rows of 32 at a distance of 256."""
    a, b = p(0, 2, 8, 64, 64), p(1, 2, 64, 8, 32)
    heads = build.permute(b, (0, 2, 1, 3))
    u = build.dot(a, heads, ((3,), (2,)), ((0, 1), (0, 1)))
    rewritten = pack_panels(pack_b(u, HOST), HOST)
    assert any(v.op is Op.GBARRIER for v in walk([rewritten]))
    dense = build.dot(a, p(1, 2, 8, 64, 32), ((3,), (2,)), ((0, 1), (0, 1)))
    assert not any(v.op is Op.GBARRIER for v in walk([pack_panels(pack_b(dense, HOST), HOST)]))
    few = build.dot(p(0, 2, 8, 3, 64), heads, ((3,), (2,)), ((0, 1), (0, 1)))
    assert not any(v.op is Op.GBARRIER for v in walk([pack_panels(pack_b(few, HOST), HOST)]))


UNIT = replace(HOST, features="+avx512bf16,+avx512bw,+avx512vnni")
"""A machine with a matrix unit."""


@pytest.mark.parametrize(
    ("kind", "out"),
    [
        (BFLOAT16, BFLOAT16),
        (BFLOAT16, FLOAT32),
        (int8.dtype, INT32),
        (uint8.dtype, INT32),
        (int16.dtype, INT32),
    ],
)
def test_matrix_unit_takes_narrow_dtypes(kind: DType, out: DType) -> None:
    """In every layout and at odd sizes, checked after every pass."""
    for contract, batch in [((1, 0), 0), ((0, 1), 0), ((0, 0), 2)]:
        for rows, depth, columns in [(17, 6, 33), (32, 2, 16)]:
            sizes = [(rows, depth), (depth, columns)]
            shapes = [
                s if axis == expected else s[::-1]
                for s, axis, expected in zip(sizes, contract, (1, 0))
            ]
            lead = (batch,) if batch else ()
            x, y = (p(i, *lead, *s, dtype=kind) for i, s in enumerate(shapes))
            axes = [(c + len(lead),) for c in contract]
            same_axes = (tuple(range(len(lead))),) * 2
            rewritten = build.dot(x, y, (axes[0], axes[1]), same_axes, out)
            values = inputs([rewritten])
            prepared = prepare([rewritten], UNIT)
            assert ops(prepared, Op.GBARRIER)
            stages = check_passes(jaxpr([rewritten]), values, UNIT, tolerance=2e-2)
            nest = choose(loop_nest.nest(decompose([stages[-1].body])[0]), UNIT)
            assert any(r.arg.place is Place.UNIT for r in loop_nest.ranges(nest.body))


def test_matrix_unit_refuses_other_products() -> None:
    def rewritten(*shapes: tuple[int, int], kind: DType = BFLOAT16, out: DType = FLOAT32) -> UOp:
        x, y = (p(i, *s, dtype=kind) for i, s in enumerate(shapes))
        return build.dot(x, y, ((1,), (0,)), dtype=out)

    assert pack_for_matrix_unit(even := rewritten((32, 8), (8, 32)), UNIT) is not even
    for u, target in [
        (rewritten((32, 7), (7, 32)), UNIT),
        (rewritten((3, 8), (8, 32)), UNIT),
        (rewritten((32, 8), (8, 5)), UNIT),
        (rewritten((32, 8), (8, 32)), HOST),
        (rewritten((32, 8), (8, 32), kind=FLOAT16), UNIT),
        (rewritten((32, 8), (8, 32), kind=FLOAT32), UNIT),
    ]:
        assert pack_for_matrix_unit(u, target) is u


def test_matrix_unit_merges_free_axes() -> None:
    """Those of a layer over batch and time; another order of axes is copied."""
    w = p(1, 8, 33, dtype=BFLOAT16)
    for x, axis in ((p(0, 3, 7, 8, dtype=BFLOAT16), 2), (p(0, 3, 8, 7, dtype=BFLOAT16), 1)):
        rewritten = build.dot(x, w, ((axis,), (0,)), dtype=FLOAT32)
        assert pack_for_matrix_unit(rewritten, UNIT).shape == rewritten.shape
        stages = check_passes(jaxpr([rewritten]), inputs([rewritten]), UNIT, tolerance=2e-2)
        nest = choose(loop_nest.nest(decompose([stages[-1].body])[0]), UNIT)
        assert any(r.arg.place is Place.UNIT for r in loop_nest.ranges(nest.body))


def test_matrix_unit_operands_are_converted_once() -> None:
    x, w = (build.cast(p(i, *s), BFLOAT16) for i, s in enumerate([(20, 8), (8, 32)]))
    rewritten = build.dot(x, w, ((1,), (0,)), dtype=FLOAT32)
    assert len(ops(prepare([rewritten], UNIT), Op.GBARRIER)) == 2
    stages = check_passes(jaxpr([rewritten]), inputs([rewritten]), UNIT, tolerance=2e-2)
    nest = choose(loop_nest.nest(decompose([stages[-1].body])[0]), UNIT)
    assert any(r.arg.place is Place.UNIT for r in loop_nest.ranges(nest.body))


def test_matrix_unit_of_this_machine() -> None:
    """Exact on small integers, with or without a unit."""
    x, y = p(0, 40, 66, dtype=BFLOAT16), p(1, 66, 50, dtype=BFLOAT16)
    random = np.random.default_rng(0)
    values = [random.integers(-8, 9, u.shape).astype(BFLOAT16) for u in (x, y)]
    rewritten = build.dot(x, y, ((1,), (0,)), dtype=FLOAT32)
    expected = values[0].astype(np.float32) @ values[1].astype(np.float32)
    assert np.array_equal(run_compiled([rewritten], values)[0], expected)


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_few_rows_are_not_packed(rows: int) -> None:
    """No copy and no split: the second operand is read once, row by row."""
    x, w = p(0, rows, 300), p(1, 40000, 300)
    u = build.dot(x, w, ((1,), (1,)))
    prepared = prepare([u], HOST)
    assert not ops(prepared, Op.GBARRIER) and not ops(prepared, Op.REDUCE)
    small = build.dot(p(0, rows, 40), p(1, 70, 40), ((1,), (1,)))
    assert_matches_oracle([small])


def test_a_matrix_times_a_vector_is_not_packed() -> None:
    a, x = p(0, 4096, 4096), p(1, 4096)
    prepared = prepare([build.dot(a, x, ((1,), (0,)))], HOST)
    assert not ops(prepared, Op.GBARRIER)
    small = build.dot(p(0, 33, 70), p(1, 70), ((1,), (0,)))
    assert_matches_oracle([small])


@pytest.mark.parametrize("sums", [(520,), (4, 130)], ids=str)
def test_a_first_operand_summed_across_rows_is_packed(
    sums: tuple[int, ...],
) -> None:
    """The gradient to weights: rows are long, and far apart."""
    a, b, axes = p(0, *sums, 70), p(1, *sums, 300), tuple(range(len(sums)))
    u = build.dot(a, b, (axes, axes))
    rewritten = pack_panels(pack_b(u, HOST), HOST)
    (panels,) = ops([rewritten], Op.GBARRIER)
    height = panels.shape[2]
    assert panels.shape == (-(-70 // height), 520, height, 1) and height % 16 == 0
    assert_matches_oracle([u], rtol=1e-4, atol=1e-3)
    short = build.dot(p(0, 60, 70), p(1, 60, 300), ((0,), (0,)))
    assert not ops([pack_panels(pack_b(short, HOST), HOST)], Op.GBARRIER)


def test_a_transposed_second_operand_is_copied_once() -> None:
    """Into panels, whose rows are written one after the other."""
    a, b = p(0, 130, 70), p(1, 100, 70)
    u = build.dot(a, b, ((1,), (1,)))
    (panels,) = ops([pack_panels(pack_b(u, HOST), HOST)], Op.GBARRIER)
    assert panels.ndim == 4 and panels.shape[1] == 70
    assert_matches_oracle([u], rtol=1e-4, atol=1e-3)


def test_a_transposed_first_operand_is_packed() -> None:
    """``a.T @ b``; not ``c @ b``, which sums along rows."""
    a, b = p(0, 520, 70), p(1, 520, 300)
    u = build.dot(build.permute(a, (1, 0)), b, ((1,), (0,)))
    (panels,) = ops([pack_panels(pack_b(u, HOST), HOST)], Op.GBARRIER)
    assert panels.shape[1] == 520
    assert_matches_oracle([u], rtol=1e-4, atol=1e-3)
    plain = build.dot(p(0, 70, 520), b, ((1,), (0,)))
    assert not ops([pack_panels(pack_b(plain, HOST), HOST)], Op.GBARRIER)


@pytest.mark.parametrize("columns", [64, 63])
def test_a_first_operand_is_packed_for_some_columns(columns: int) -> None:
    """A copy pays where it is read again often enough, as in the gradient to a narrow layer."""
    u = build.dot(p(0, 520, 70), p(1, 520, columns), ((0,), (0,)))
    panels = ops([pack_panels(pack_b(u, HOST), HOST)], Op.GBARRIER)
    assert [v.shape[1] for v in panels] == ([520] if columns == 64 else [])
    assert_matches_oracle([u], rtol=1e-4, atol=1e-3)


def test_heads_of_positions_are_packed_for_the_gradient_behind_attention() -> None:
    """Neither the sums nor the rows are along one axis of memory: in the copy they are."""
    batch, heads, length, size = 2, 4, 260, 20
    a = build.permute(p(0, batch, heads, length, size), (0, 2, 1, 3))
    a = build.reshape(a, (batch, length, heads * size))
    u = build.dot(a, p(1, batch, length, 300), ((0, 1), (0, 1)))
    assert any(v.shape[1] == 520 for v in ops([pack_panels(pack_b(u, HOST), HOST)], Op.GBARRIER))
    assert_matches_oracle([u], rtol=1e-4, atol=1e-3)
    # One that is not copied stays as it is, with two loops of sums.
    few = build.dot(a, p(1, batch, length, 20), ((0, 1), (0, 1)))
    assert pack_panels(few, HOST) is few


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, INT32], ids=lambda d: d.name)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("columns", [256, 300])
def test_gemv_streams(rows: int, columns: int, dtype: np.dtype) -> None:
    """Four streams add rows to sums that stay in place."""
    u = matmul(p(0, rows, 512, dtype=dtype), p(1, 512, columns, dtype=dtype))
    rewritten = prepare([u], HOST)
    (sums,) = ops(rewritten, Op.SCATTER)
    assert sums.shape == (GEMV_STREAMS, rows, columns) and not ops(rewritten, Op.DOT)
    assert_matches_oracle([u], rtol=2e-2 if dtype == BFLOAT16 else 1e-4, atol=1e-3)
    kernels = [
        loop_nest.nest(s.body)
        for s in indexed_kernels(boundaries.insert_barriers(jaxpr([u]).function, HOST))
    ]
    adding = [choose(n, HOST) for n in kernels if loop_nest.in_order(n.body)]
    (n,) = adding
    outer = [r for r in n.loops if r.arg.place in (Place.LOOP, Place.PARALLEL)]
    assert outer[0].arg.place is Place.PARALLEL and outer[0].arg.size == GEMV_STREAMS
    assert outer[1].arg.number in loop_nest.in_order(n.body)
    few = matmul(p(0, 3, 512), p(1, 512, columns))
    assert not ops(prepare([few], HOST), Op.SCATTER)


def test_depthwise_weight_gradient_vectorises_channels() -> None:
    x, ct = p(0, 2, 8, 8, 32), p(1, 2, 8, 8, 32)
    by_channel = build.permute(x, (3, 1, 2, 0))
    arg = Conv((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1, 32, FLOAT32)
    u = build.conv(by_channel, build.permute(ct, (1, 2, 0, 3)), arg)
    assert_matches_oracle([u], rtol=1e-4, atol=1e-4)
    _, summed = indexed_kernels(boundaries.insert_barriers(jaxpr([u]).function, HOST))
    n = choose(loop_nest.nest(summed.body), HOST)
    lanes = [r for r in n.loops if r.arg.place is Place.LANE]
    assert [r.arg.size for r in lanes] == [16]


def test_indices_of_a_scatter_in_order_are_computed_before() -> None:
    x, at, u = p(0, 50), p(1, 400, 1, dtype=INT32), p(2, 400, 1)
    wrapped = build.where(at < 0, at + 50, at)
    rewritten = compute_indices_before(build.scatter(x, wrapped, u, Op.ADD))
    assert rewritten.src[1].op is Op.GBARRIER
    for other in (
        build.scatter(x, at, u, Op.ADD),  # nothing to compute
        build.scatter(x, wrapped, u, Op.WHERE),  # vectors, in any order
        build.scatter(p(0, 50, 64), wrapped, p(2, 400, 1, 64), Op.ADD),  # little beside the rows
    ):
        assert compute_indices_before(other) is other
    assert_matches_oracle([build.scatter(x, at, u, Op.ADD)])


@pytest.mark.parametrize(
    ("a", "b", "sums", "batch"),
    [
        ((5, 6, 32), (6, 32), ((2,), (1,)), ((1,), (0,))),
        ((6, 32), (5, 32, 6), ((1,), (1,)), ((0,), (2,))),
        ((3, 6, 4, 32), (3, 6, 32), ((3,), (2,)), ((0, 1), (0, 1))),
        ((6, 32), (6, 32), ((1,), (1,)), ((0,), (0,))),
        ((4, 6, 7, 8), (6, 7, 8), ((2, 3), (1, 2)), ((1,), (0,))),
    ],
)
def test_a_batch_of_integer_vectors_times_matrices_is_sums_in_one_kernel(
    a: Shape, b: Shape, sums: Any, batch: Any
) -> None:
    x, y = p(0, *a, dtype=int8.dtype), p(1, *b, dtype=int8.dtype)
    product = build.dot(x, y, sums, batch, INT32)
    assert sums_of_products(product).op is Op.REDUCE
    scaled = build.cast(product, FLOAT32) * 0.5
    total = build.reduce(scaled, Op.ADD, (0,))
    assert_matches_oracle([product])
    assert_matches_oracle([total])


def test_products_of_two_matrices_stay_contractions() -> None:
    x, y = p(0, 3, 4, 8, dtype=int8.dtype), p(1, 3, 8, 5, dtype=int8.dtype)
    product = build.dot(x, y, ((2,), (1,)), ((0,), (0,)), INT32)
    assert sums_of_products(product) is product
