"""What is said with arrays before the cut: the same values, and work in pieces that fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.check_passes import HOST, check_passes
from tests.lower.graphs import (
    agree,
    by_definition,
    conv,
    draw,
    inputs,
    jaxpr,
    matmul,
    on_cores,
    ops,
    p,
    same,
)
from tfn.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT32, DType, int8, int16, uint8
from tfn.hw.cpu.target import host
from tfn.lower.fuse import boundaries
from tfn.lower.fuse.ranges import stages
from tfn.lower.graph.packing import (
    FEW_OUTPUTS,
    LONG_REDUCTION,
    PARTS,
    SIDE_BY_SIDE,
    STAGE_TILES,
    for_unit,
    in_groups,
    one_sum,
    packed,
    panels,
    prepare,
    two_stages,
)
from tfn.lower.loops import loop_nest
from tfn.lower.loops.heuristics import choose
from tfn.lower.math.decompose import decompose
from tfn.trace import build
from tfn.trace.argument import Conv, Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

TINY = replace(HOST, l1_bytes=1 << 8, l2_bytes=1 << 10, l3_bytes=1 << 12)
"""A machine for which little is much."""


@pytest.mark.parametrize("op", [Op.ADD, Op.MAX, Op.MIN, Op.MUL])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((LONG_REDUCTION + 1,), (0,)),
        ((3, LONG_REDUCTION), (1,)),
        ((40_001, 2), (0,)),
        ((210, 211), (0, 1)),
        ((3, 200, 5, 200), (1, 3)),
        ((STAGE_TILES, 5, 103), (0, 2)),
    ],
)
def test_long_reductions_in_two_stages(op: Op, shape: tuple[int, ...], axes: tuple[int]) -> None:
    u = build.reduce(p(0, *shape), op, axes)
    made = two_stages(u)
    value = draw(shape, FLOAT32)
    if op is Op.MUL:
        value = np.exp(value * 1e-3).astype(np.float32)
    same(by_definition([made], [value])[0], by_definition([u], [value])[0], 1e-3, 1e-2)
    long = np.prod([shape[a] for a in axes]) >= LONG_REDUCTION
    assert (made is not u) == long
    if long:
        (partial,) = ops([made], Op.GBARRIER)
        assert partial.size <= STAGE_TILES * u.size


X, LINE = p(0, 212, 210), p(1, 210)


@pytest.mark.parametrize(
    "x",
    [
        build.shrink(X, (1, 1), (211, 209)) * 2,
        X - build.broadcast_to(build.reshape(LINE, (1, 210)), X.shape),
        build.flip(X, (1,)) * build.iota(X.shape, 0, FLOAT32),
        build.concat([X, X], 1),
    ],
    ids=["a part", "a row for all", "backwards", "side by side"],
)
def test_what_does_not_lie_in_one_line_is_summed_along_its_axes(x: UOp) -> None:
    u = build.add_up(x, (0, 1))
    values = inputs([u])
    same(by_definition([two_stages(u)], values)[0], by_definition([u], values)[0], 1e-3, 1e-2)
    found = stages(boundaries.kernels(jaxpr([u]).function, HOST))
    assert len(found) == 2
    assert not {Op.MOD, Op.FLOORDIV} & {v.op for stage in found for v in walk([stage.body])}


@pytest.mark.parametrize("op", [Op.MAX, Op.MIN])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((LONG_REDUCTION + 1,), (0,)),
        ((3, LONG_REDUCTION), (1,)),
        ((40_001, 2), (0,)),
        ((2, 33_333, 3), (1,)),
    ],
)
def test_places_in_two_stages(op: Op, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Of many that are as good the first, in whichever tile; NaN is the best."""
    u = build.reduce(p(0, *shape), op, axes, index=INT32)
    made = two_stages(u)
    assert [b.dtype for b in ops([made], Op.GBARRIER)] == [INT32, FLOAT32] and made.dtype == INT32
    assert all(b.size <= STAGE_TILES * u.size for b in ops([made], Op.GBARRIER))
    value = np.round(draw(shape, FLOAT32))
    for _ in range(2):
        same(by_definition([made], [value])[0], by_definition([u], [value])[0])
        value.flat[-5:] = np.nan
        value.flat[value.size // 2] = np.nan
    value[...] = -np.inf if op is Op.MAX else np.inf
    same(by_definition([made], [value])[0], by_definition([u], [value])[0])


@pytest.mark.parametrize("count", [2, SIDE_BY_SIDE, SIDE_BY_SIDE + 1, 40, SIDE_BY_SIDE**2 + 3])
def test_many_values_side_by_side_in_groups(count: int) -> None:
    x = p(0, 300, 5)
    u = build.concat([build.shrink(x, (i, 0), (i + 1 + i % 3, 5)) + i for i in range(count)], 0)
    made = in_groups(u)
    assert (made is u) == (count <= SIDE_BY_SIDE)
    found = ops([made], Op.CONCAT)
    assert max(len(v.src) for v in found) <= SIDE_BY_SIDE
    values = inputs([u])
    same(by_definition([made], values)[0], by_definition([u], values)[0])


@pytest.mark.parametrize("shape", [(LONG_REDUCTION - 1,), (FEW_OUTPUTS + 1, LONG_REDUCTION)])
def test_short_reductions_and_many_are_left_alone(shape: tuple[int, ...]) -> None:
    u = build.add_up(p(0, *shape), (len(shape) - 1,))
    assert two_stages(u) is u


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16, INT32], ids=lambda d: d.name)
def test_partial_sums_are_kept_wide(dtype: np.dtype) -> None:
    """16-bit sums are rounded once, at the end."""
    made = two_stages(build.add_up(p(0, 40_000, dtype=dtype), (0,)))
    (partial,) = ops([made], Op.GBARRIER)
    assert partial.dtype == build.accumulator(dtype) and made.dtype == dtype
    ones = np.ones(40_000, dtype)
    assert float(by_definition([made], [ones])[0]) == float(np.float32(40_000).astype(dtype))


def test_long_contractions_in_pieces() -> None:
    u = matmul(p(0, 8, 65536), p(1, 65536, 16))
    (made,) = prepare([u], HOST)
    batched = [d for d in ops([made], Op.DOT) if d.arg.batch_a]
    assert batched, "the pieces are a batch"
    pieces = batched[0].shape[0]
    assert 65536 % pieces == 0
    small = matmul(p(0, 8, 6), p(1, 6, 4))
    assert prepare([small], HOST) == [small]


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16], ids=lambda d: d.name)
def test_pieces_of_contractions_mean_the_same(dtype: np.dtype) -> None:
    graphs = [
        matmul(p(0, 3, 1024, dtype=dtype), p(1, 1024, 2, dtype=dtype)),
        build.dot(p(0, 1024, 3, dtype=dtype), p(1, 2, 1024, dtype=dtype), ((0,), (1,))),
        build.dot(p(0, 4, 512, dtype=dtype), p(1, 512, 4, dtype=dtype), ((0, 1), (1, 0))),
        conv(p(0, 1, 3, 3, 1024, dtype=dtype), p(1, 2, 2, 1024, 2, dtype=dtype), padding=(1, 0)),
    ]
    for u in graphs:
        made = prepare([u], TINY)
        assert made != [u]
        values = inputs([u])
        step = 1e-2 if dtype == BFLOAT16 else 1e-4
        same(by_definition(made, values)[0], by_definition([u], values)[0], step, step * 10)


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (33, 20), (17, 64)])
def test_contractions_of_every_layout_mean_the_same(shape: tuple[int, int]) -> None:
    """Also those whose second operand is copied to be contiguous."""
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
        made = prepare([u], HOST)
        values = inputs([u])
        same(by_definition(made, values)[0], by_definition([u], values)[0], 1e-4, 1e-4)


@pytest.mark.parametrize("shape", [(64, 40, 64), (65, 40, 70), (200, 33, 129), (64, 64, 257)])
@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, INT32], ids=lambda d: d.name)
def test_large_operands_are_copied_into_panels(
    dtype: np.dtype, shape: tuple[int, int, int]
) -> None:
    m, k, n = shape
    u = matmul(p(0, m, k, dtype=dtype), p(1, k, n, dtype=dtype))
    made = prepare([u], TINY)
    (panels,) = ops(made, Op.GBARRIER)
    _, lines, _, together = panels.shape
    assert lines * together == k and panels.size < 2 * k * n + 128 * k
    agree(
        [u],
        rtol=2e-2 if dtype == BFLOAT16 else 1e-4,
        atol=1e-3,
        target=replace(host(), l1_bytes=1 << 8, l2_bytes=1 << 10, l3_bytes=1 << 12),
    )
    assert not ops(prepare([u], HOST), Op.GBARRIER)


def test_contractions_with_scalars() -> None:
    for a, b in (((), ()), ((40,), ()), ((), (40,))):
        u = build.dot(p(0, *a), p(1, *b), ((), ()))
        values = inputs([u])
        same(by_definition(prepare([u], HOST), values)[0], by_definition([u], values)[0])


def test_what_only_stops_gradients_is_gone_and_what_users_place_stays() -> None:
    x = p(0, 3)
    barrier = UOp(Op.GBARRIER, (x + 1.0,))
    assert prepare([UOp(Op.DETACH, (x,)) * 2.0, barrier], HOST) == [x * 2.0, barrier]


def test_lines_that_lie_apart_are_brought_together() -> None:
    """The heads of attention: lines of 32 in rows of 256."""
    a, b = p(0, 2, 8, 64, 64), p(1, 2, 64, 8, 32)
    heads = build.permute(b, (0, 2, 1, 3))
    u = build.dot(a, heads, ((3,), (2,)), ((0, 1), (0, 1)))
    made = panels(packed(u), HOST)
    assert any(v.op is Op.GBARRIER for v in walk([made]))
    dense = build.dot(a, p(1, 2, 8, 64, 32), ((3,), (2,)), ((0, 1), (0, 1)))
    assert not any(v.op is Op.GBARRIER for v in walk([panels(packed(dense), HOST)]))
    few = build.dot(p(0, 2, 8, 3, 64), heads, ((3,), (2,)), ((0, 1), (0, 1)))
    assert not any(v.op is Op.GBARRIER for v in walk([panels(packed(few), HOST)]))


UNIT = replace(HOST, features="+avx512bf16,+avx512vnni")
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
def test_products_of_narrow_numbers_run_on_the_matrix_unit(kind: DType, out: DType) -> None:
    """Whatever the layout and the sizes, after every pass."""
    for contract, batch in [((1, 0), 0), ((0, 1), 0), ((0, 0), 2)]:
        for rows, lines, columns in [(17, 6, 33), (32, 2, 16)]:
            sizes = [(rows, lines), (lines, columns)]
            shapes = [
                s if axis == want else s[::-1] for s, axis, want in zip(sizes, contract, (1, 0))
            ]
            lead = (batch,) if batch else ()
            x, y = (p(i, *lead, *s, dtype=kind) for i, s in enumerate(shapes))
            axes = [(c + len(lead),) for c in contract]
            same_axes = (tuple(range(len(lead))),) * 2
            made = build.dot(x, y, (axes[0], axes[1]), same_axes, out)
            values = inputs([made])
            prepared = prepare([made], UNIT)
            assert ops(prepared, Op.GBARRIER)
            stages = check_passes(jaxpr([made]), values, UNIT, tolerance=2e-2)
            nest = choose(loop_nest.nest(decompose([stages[-1].body])[0]), UNIT)
            assert any(r.arg.place is Place.UNIT for r in loop_nest.ranges(nest.body))


def test_what_does_not_come_in_pairs_is_multiplied_as_ever() -> None:
    def made(*shapes: tuple[int, int], kind: DType = BFLOAT16, out: DType = FLOAT32) -> UOp:
        x, y = (p(i, *s, dtype=kind) for i, s in enumerate(shapes))
        return build.dot(x, y, ((1,), (0,)), dtype=out)

    assert for_unit(even := made((32, 8), (8, 32)), UNIT) is not even
    for u, target in [
        (made((32, 7), (7, 32)), UNIT),
        (made((3, 8), (8, 32)), UNIT),
        (made((32, 8), (8, 5)), UNIT),
        (made((32, 8), (8, 32)), HOST),
        (made((32, 8), (8, 32), kind=FLOAT16), UNIT),
        (made((32, 8), (8, 32), kind=FLOAT32), UNIT),
    ]:
        assert for_unit(u, target) is u


def test_several_free_axes_are_one_for_the_matrix_unit() -> None:
    """Of a layer over batch and time; and what lies otherwise is copied."""
    w = p(1, 8, 33, dtype=BFLOAT16)
    for x, axis in ((p(0, 3, 7, 8, dtype=BFLOAT16), 2), (p(0, 3, 8, 7, dtype=BFLOAT16), 1)):
        made = build.dot(x, w, ((axis,), (0,)), dtype=FLOAT32)
        assert for_unit(made, UNIT).shape == made.shape
        stages = check_passes(jaxpr([made]), inputs([made]), UNIT, tolerance=2e-2)
        nest = choose(loop_nest.nest(decompose([stages[-1].body])[0]), UNIT)
        assert any(r.arg.place is Place.UNIT for r in loop_nest.ranges(nest.body))


def test_what_was_another_dtype_is_converted_before_the_matrix_unit_takes_it() -> None:
    x, w = (build.cast(p(i, *s), BFLOAT16) for i, s in enumerate([(20, 8), (8, 32)]))
    made = build.dot(x, w, ((1,), (0,)), dtype=FLOAT32)
    assert len(ops(prepare([made], UNIT), Op.GBARRIER)) == 2
    stages = check_passes(jaxpr([made]), inputs([made]), UNIT, tolerance=2e-2)
    nest = choose(loop_nest.nest(decompose([stages[-1].body])[0]), UNIT)
    assert any(r.arg.place is Place.UNIT for r in loop_nest.ranges(nest.body))


def test_the_matrix_unit_of_this_machine() -> None:
    """Exact on small integers, whatever it has."""
    x, y = p(0, 40, 66, dtype=BFLOAT16), p(1, 66, 50, dtype=BFLOAT16)
    random = np.random.default_rng(0)
    values = [random.integers(-8, 9, u.shape).astype(BFLOAT16) for u in (x, y)]
    made = build.dot(x, y, ((1,), (0,)), dtype=FLOAT32)
    want = values[0].astype(np.float32) @ values[1].astype(np.float32)
    assert np.array_equal(on_cores([made], values)[0], want)


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_a_few_rows_are_summed_along_lines_as_they_lie(rows: int) -> None:
    """No copy, no pieces: the second operand is read once, line by line."""
    x, w = p(0, rows, 300), p(1, 40000, 300)
    u = build.dot(x, w, ((1,), (1,)))
    prepared = prepare([u], HOST)
    assert not ops(prepared, Op.GBARRIER) and not ops(prepared, Op.REDUCE)
    small = build.dot(p(0, rows, 40), p(1, 70, 40), ((1,), (1,)))
    agree([small])


def test_a_matrix_times_a_vector_is_a_plain_sum_of_each_line() -> None:
    a, x = p(0, 4096, 4096), p(1, 4096)
    prepared = prepare([build.dot(a, x, ((1,), (0,)))], HOST)
    assert not ops(prepared, Op.GBARRIER)
    small = build.dot(p(0, 33, 70), p(1, 70), ((1,), (0,)))
    agree([small])


@pytest.mark.parametrize("sums", [(520,), (4, 130)], ids=str)
def test_a_first_operand_that_is_summed_over_its_lines_is_copied_into_panels(
    sums: tuple[int, ...],
) -> None:
    """The gradient to weights: lines are long, and far apart."""
    a, b, axes = p(0, *sums, 70), p(1, *sums, 300), tuple(range(len(sums)))
    u = build.dot(a, b, (axes, axes))
    made = panels(packed(u), HOST)
    (kept,) = ops([made], Op.GBARRIER)
    height = kept.shape[2]
    assert kept.shape == (-(-70 // height), 520, height, 1) and height % 16 == 0
    agree([u], rtol=1e-4, atol=1e-3)
    short = build.dot(p(0, 60, 70), p(1, 60, 300), ((0,), (0,)))
    assert not ops([panels(packed(short), HOST)], Op.GBARRIER)


def test_a_transposed_second_operand_is_copied_once() -> None:
    """Into panels, which are written one line after the other."""
    a, b = p(0, 130, 70), p(1, 100, 70)
    u = build.dot(a, b, ((1,), (1,)))
    (kept,) = ops([panels(packed(u), HOST)], Op.GBARRIER)
    assert kept.ndim == 4 and kept.shape[1] == 70
    agree([u], rtol=1e-4, atol=1e-3)


def test_a_transpose_of_the_first_operand_is_copied_into_panels_too() -> None:
    """``a.T @ b``, and not ``c @ b``, whose lines are summed as they lie."""
    a, b = p(0, 520, 70), p(1, 520, 300)
    u = build.dot(build.permute(a, (1, 0)), b, ((1,), (0,)))
    (kept,) = ops([panels(packed(u), HOST)], Op.GBARRIER)
    assert kept.shape[1] == 520
    agree([u], rtol=1e-4, atol=1e-3)
    plain = build.dot(p(0, 70, 520), b, ((1,), (0,)))
    assert not ops([panels(packed(plain), HOST)], Op.GBARRIER)


def test_a_sum_over_neighbouring_axes_is_a_sum_over_one() -> None:
    u = build.dot(p(0, 4, 6, 5, 3), p(1, 4, 5, 3, 7), ((2, 3), (1, 2)), ((0,), (0,)))
    made = one_sum(u)
    assert made.op is Op.DOT and made.shape == u.shape
    assert (made.arg.contract_a, made.arg.contract_b) == ((2,), (1,))
    values = inputs([u])
    same(by_definition([made], values)[0], by_definition([u], values)[0], 1e-5, 1e-5)
    across = build.dot(p(0, 4, 6), p(1, 6, 4), ((0, 1), (1, 0)))
    assert one_sum(across) is across


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, INT32], ids=lambda d: d.name)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("columns", [256, 300])
def test_few_rows_read_a_large_matrix_line_by_line(
    rows: int, columns: int, dtype: np.dtype
) -> None:
    """In four parts, whose sums stay where they are; each line is read for all rows."""
    u = matmul(p(0, rows, 512, dtype=dtype), p(1, 512, columns, dtype=dtype))
    made = prepare([u], HOST)
    (sums,) = ops(made, Op.SCATTER)
    assert sums.shape == (PARTS, rows, columns) and not ops(made, Op.DOT)
    agree([u], rtol=2e-2 if dtype == BFLOAT16 else 1e-4, atol=1e-3)
    function = boundaries.kernels(jaxpr([u]).function, HOST)
    kernels = [loop_nest.nest(s.body) for s in stages(function)]
    adding = [choose(n, HOST) for n in kernels if loop_nest.in_order(n.body)]
    (n,) = adding
    outer = [r for r in n.loops if r.arg.place in (Place.LOOP, Place.PARALLEL)]
    assert outer[0].arg.place is Place.PARALLEL and outer[0].arg.size == PARTS
    assert outer[1].arg.number in loop_nest.in_order(n.body)
    few = matmul(p(0, 3, 512), p(1, 512, columns))
    assert not ops(prepare([few], HOST), Op.SCATTER)


def test_the_gradient_to_depthwise_weights_takes_vectors_of_channels() -> None:
    x, ct = p(0, 2, 8, 8, 32), p(1, 2, 8, 8, 32)
    by_channel = build.permute(x, (3, 1, 2, 0))
    arg = Conv((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1, 32, FLOAT32)
    u = build.conv(by_channel, build.permute(ct, (1, 2, 0, 3)), arg)
    agree([u], rtol=1e-4, atol=1e-4)
    _, summed = stages(boundaries.kernels(jaxpr([u]).function, HOST))
    n = choose(loop_nest.nest(summed.body), HOST)
    lanes = [r for r in n.loops if r.arg.place is Place.LANE]
    assert [r.arg.size for r in lanes] == [16]
