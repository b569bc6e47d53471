"""Scheduling heuristics: vector axis, register tile and threads, for two targets."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given, settings

from tests.lower.check_passes import HOST, SMALL
from tests.lower.graphs import assert_matches_oracle, jaxpr, matmul, p, softmax
from tests.lower.random_graphs import graphs
from tfn.config import config
from tfn.dtypes import BFLOAT16, FLOAT32, FLOAT64, INT32, DType
from tfn.lower.codegen.linearize import linearize
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.index.affine import affine
from tfn.lower.index.dependence import dependences
from tfn.lower.loops import heuristics
from tfn.lower.loops.loop_nest import Nest, folds, in_order, nest
from tfn.lower.loops.reduction_lanes import MAX_SHORT_ROW_VECTORS
from tfn.lower.math import decompose
from tfn.lower.pipeline import lower
from tfn.lower.target.target import Target
from tfn.numpy.cumulative import running
from tfn.trace import build
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.records import collecting
from tfn.trace.uop import UOp, walk

LANES = {HOST: 16, SMALL: 4}
both_targets = pytest.mark.parametrize("target", LANES, ids=["wide", "narrow"])


def chosen(target: Target, *outputs: UOp) -> list[Nest]:
    kernels = ranges.indexed_kernels(boundaries.insert_barriers(jaxpr(outputs).function, target))
    return [
        heuristics.choose(nest(decompose.decompose([kernel.body])[0]), target)
        for kernel in kernels
        if isinstance(kernel, ranges.IndexedKernel) and kernel.body.op is Op.SINK
    ]


def only(target: Target, *outputs: UOp) -> Nest:
    (n,) = chosen(target, *outputs)
    return n


def places(n: Nest) -> list[tuple[Place, int]]:
    """The place and the size of each loop around the stores."""
    return [(r.arg.place, r.arg.size) for r in n.loops]


def reduced(n: Nest) -> list[list[tuple[Place, int]]]:
    """The place and the size of each loop of each reduction."""
    return [
        [(r.arg.place, r.arg.size) for r in u.src[1:]] for u in walk([n.body]) if u.op is Op.FOLD
    ]


def lanes(n: Nest) -> list[UOp]:
    return [
        u for u in (*n.loops, *walk([n.body])) if u.op is Op.RANGE and u.arg.place is Place.LANE
    ]


def size_of(n: Nest, place: Place) -> int:
    return prod(r.arg.size for r in n.loops if r.arg.place is place)


@both_targets
def test_elementwise_work_is_one_long_loop(target: Target) -> None:
    n = only(target, p(0, 50, 40, 30) * 2.0)
    wide = LANES[target]
    blocks = -(-60_000 // (4 * wide))
    assert places(n) == [(Place.PARALLEL, blocks), (Place.UPCAST, 4), (Place.LANE, wide)]


@both_targets
def test_a_broadcast_row_keeps_the_axis_of_its_columns_vectorised(target: Target) -> None:
    n = only(target, p(0, 33, 70) + build.broadcast_to(p(1, 70), (33, 70)))
    (lane,) = set(lanes(n))
    stores = [u for u in walk([n.body]) if u.op is Op.STORE]
    assert lane is n.loops[-1] and lane in walk([stores[0].src[1]])
    assert size_of(n, Place.PARALLEL) >= 33


@both_targets
def test_rows_are_summed_along_the_vector_and_columns_across_it(target: Target) -> None:
    rows = only(target, build.add_up(p(0, 50, 300), (1,)))
    assert (Place.LANE, LANES[target]) in reduced(rows)[0]
    assert Place.LANE not in [place for place, _ in places(rows)]
    columns = only(target, build.add_up(p(0, 300, 50), (0,)))
    assert (Place.LANE, LANES[target]) in places(columns)
    assert reduced(columns) == [[(Place.LOOP, 300)]]


@both_targets
def test_column_sums_are_interleaved_whatever_the_epilogue(target: Target) -> None:
    """A bias and its moments, updated in the kernel that sums their gradient."""
    g, (w, m, v) = p(0, 300, 512), (p(i, 512) for i in (1, 2, 3))
    gradient = build.add_up(g, (0,))
    m, v = m * 0.9 + gradient * 0.1, v * 0.99 + gradient * gradient * 0.01
    scaled = [build.unary(Op.SQRT, u * 0.5) + 1e-8 for u in (v, v + 1.0, v + 2.0, v + 3.0)]
    w = w - m / (scaled[0] * scaled[1] * scaled[2] * scaled[3])
    n = only(target, w, m, v)
    assert size_of(n, Place.UPCAST) == 4
    assert_matches_oracle([w, m, v], rtol=1e-4)


@both_targets
def test_a_product_is_tiled_into_registers(target: Target) -> None:
    n = only(target, matmul(p(0, 128, 64), p(1, 64, 256)))
    upcast = size_of(n, Place.UPCAST)
    most = 26 if target is HOST else 12
    assert most // 2 < upcast <= most
    assert (Place.LANE, LANES[target]) in places(n)
    assert reduced(n) == [[(Place.LOOP, 64)]]
    assert n.loops[0].arg.place is Place.PARALLEL


@both_targets
@pytest.mark.parametrize("shape", [(1, 64, 256), (256, 64, 1), (2, 3, 5), (1, 1, 1), (7, 300, 2)])
def test_a_tile_is_no_larger_than_the_product(target: Target, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    found = only(target, matmul(p(0, m, k), p(1, k, n)))
    assert size_of(found, Place.UPCAST) <= m * n


@pytest.mark.parametrize(("l2_bytes", "loops"), [(1 << 20, [32, 4]), (1 << 14, [4, 32])])
def test_columns_run_outside_if_they_do_not_fit_in_the_cache(
    l2_bytes: int, loops: list[int]
) -> None:
    """Rows are 32 tiles of 6; columns 4 tiles of 64, which are 64 KiB together."""
    a, b = p(0, 32, 192, 64), p(1, 32, 64, 256)
    batched = build.dot(a, b, ((2,), (1,)), ((0,), (0,)), FLOAT32)
    (n,) = chosen(replace(HOST, l2_bytes=l2_bytes), batched)
    assert [r.arg.size for r in n.loops[:3]] == [32, *loops]


@both_targets
def test_reductions_of_a_row_share_its_loop(target: Target) -> None:
    n = only(target, softmax(p(0, 100, 333)))
    assert places(n)[0] == (Place.PARALLEL, 100)
    assert len(set(lanes(n))) == 3  # of the maximum, of the sum, of the row: one at a time


@both_targets
def test_a_transpose_takes_squares_of_vectors(target: Target) -> None:
    n = only(target, build.permute(p(0, 100, 200), (1, 0)) * 2.0)
    assert size_of(n, Place.LANE) == LANES[target]
    assert 1 < size_of(n, Place.UPCAST) <= LANES[target]


@pytest.mark.parametrize(
    ("dtype", "wide"), [(FLOAT64, 8), (FLOAT32, 16), (INT32, 16), (BFLOAT16, 16)]
)
def test_lanes_are_those_of_the_widest_value(dtype: DType, wide: int) -> None:
    x = p(0, 1000, dtype=dtype)
    assert size_of(only(HOST, x + x), Place.LANE) == wide


def test_scatters_stay_in_order() -> None:
    x, at, u = p(0, 400, 60), p(1, 90, 1, dtype=INT32), p(2, 90, 1, 60)
    _, n = chosen(HOST, build.scatter(x, at, u, Op.ADD))
    ordered = [r for r in n.loops if r.arg.number in in_order(n.body)]
    assert [(r.arg.place, r.arg.size) for r in ordered] == [(Place.LOOP, 90)]
    assert lanes(n)


def test_large_bodies_are_not_unrolled() -> None:
    x = p(0, 4096)
    small, large = only(HOST, x * 2.0), only(HOST, build.unary(Op.LGAMMA, x))
    assert size_of(small, Place.UPCAST) == 4 and size_of(large, Place.UPCAST) == 1


def test_rows_are_reduced_once_though_few() -> None:
    n = only(HOST, softmax(p(0, 8, 4096)))
    assert places(n)[0] == (Place.PARALLEL, 8)
    rows = [u for u in walk([n.body]) if u.op is Op.FOLD]
    assert all(dependences(n.body)[fold] == n.loops[:1] for fold in rows)


def test_three_parts_side_by_side_are_unrolled() -> None:
    """Vectors along the points: along three coordinates they would compute every part."""
    x = p(0, 500, 3)
    a, b, c = (build.shrink(x, (0, i), (500, i + 1)) for i in range(3))
    n = only(HOST, build.concat([a * b - c, b * c - a, c * a - b], 1))
    assert (Place.UPCAST, 3) in places(n) and (Place.LANE, LANES[HOST]) in places(n)


def test_short_outer_loops_are_fused_into_one_parallel_loop() -> None:
    x = p(0, 3, 5, 7, 40)
    n = only(HOST, build.permute(x, (2, 1, 0, 3)) * 2.0)
    assert n.loops[0].arg.place is Place.PARALLEL and n.loops[0].arg.size >= 16


@given(graphs())
@settings(max_examples=60)
def test_invariants_of_all_schedules(outputs: list[UOp]) -> None:
    for target in LANES:
        for n in chosen(target, *outputs):
            shared = [r for r in n.loops if r.arg.place is Place.PARALLEL]
            assert not shared or shared == [n.loops[0]]
            ordered = in_order(n.body)
            assert all(r.arg.place is Place.LOOP for r in n.loops if r.arg.number in ordered)
            kinds = [r.arg.place for r in n.loops]
            inner = [k for k in kinds if k in (Place.UPCAST, Place.LANE)]
            assert kinds[len(kinds) - len(inner) :] == inner, "registers are innermost"
            assert size_of(n, Place.UPCAST) <= 32
            for u, around in dependences(n.body).items():
                assert sum(r.arg.place is Place.LANE for r in around) <= 1, u


def test_programs_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = p(0, 65, 70), p(1, 70, 90)
    graph = jaxpr([softmax(matmul(x, w)), build.add_up(p(2, 100_000), (0,))])
    texts = set()
    for threads in (1, 2, 64):
        monkeypatch.setattr(config, "threads", threads)
        program = lower(graph, HOST)
        texts.add((program.text, *(k.text for k in program.kernels)))
    assert len(texts) == 1


def test_more_work_is_estimated_longer() -> None:
    def estimated_ns(*outputs: UOp) -> int:
        (stage,) = ranges.indexed_kernels(boundaries.insert_barriers(jaxpr(outputs).function, HOST))
        return heuristics.estimated_ns(nest(stage.body), HOST)

    sizes = [(10_000,), (20_000,), (10_000, 20)]
    elementwise = [estimated_ns(p(0, *shape) * 2.0) for shape in sizes]
    assert elementwise == sorted(set(elementwise))
    narrow, wide = (estimated_ns(matmul(p(0, 64, 64), p(1, 64, n))) for n in (64, 256))
    assert narrow < wide
    x = p(0, 100, 100)
    assert estimated_ns(x * 2.0) < estimated_ns(build.permute(x, (1, 0)) * 2.0)


@pytest.mark.parametrize(("rows", "size"), [(256, 512), (255, 512), (256, 100), (32, 512)])
def test_rows_are_reduced_in_four_streams(rows: int, size: int) -> None:
    n = only(HOST, build.add_up(p(0, rows, size), (1,)))
    streams = [r.arg.size for r in n.loops if r.arg.place is Place.UPCAST]
    several = rows % 4 == 0 and rows >= 64 and size >= 256
    assert streams == ([4] if several else [])
    assert n.loops[0].arg.size == rows // (4 if several else 1)


@pytest.mark.parametrize("rows", [2, 4, 8])
@pytest.mark.parametrize("columns", [1536, 1024, 509])
def test_rows_of_weights_are_read_in_several_streams(rows: int, columns: int) -> None:
    """Of a product of few rows; of a prime number of weights, neighbours are read together."""
    n = only(HOST, matmul(p(0, rows, 576), build.permute(p(1, columns, 576), (1, 0))))
    weights = max((u for u in walk([n.body]) if u.op is Op.LOAD), key=lambda u: u.src[0].size)
    terms, _ = affine(weights.src[1])
    (stream,) = (r for r, k in terms.items() if r.arg.place is Place.UPCAST and k % 576 == 0)
    assert stream.arg.size > 1
    assert terms[stream] == (1 if columns == 509 else columns // stream.arg.size) * 576


@both_targets
@pytest.mark.parametrize("shape", [(64, 614), (1 << 16,)], ids=str)
def test_rows_of_extremes_stay_in_registers(shape: tuple[int, ...], target: Target) -> None:
    """The values and indices of all streams, and as many registers to compare in."""
    x = p(0, *shape, dtype=FLOAT64)
    for n in chosen(target, build.reduce(x, Op.MAX, (len(shape) - 1,), index=INT32)):
        carried = sum(u.op is Op.ACCUMULATOR for u in linearize(n))
        assert carried <= target.vector_registers // 2


@both_targets
def test_running_sums_of_rows_are_unrolled_by_lanes(target: Target) -> None:
    """Squares are loaded and stored by rows; of columns each iteration takes vectors anyway."""
    for dtype in (FLOAT32, FLOAT64):
        x = p(0, 304, 208, dtype=dtype)
        n = only(target, build.permute(running(build.permute(x, (1, 0)), Op.ADD), (1, 0)))
        wide = LANES[target] * 4 // dtype.itemsize
        (recurrence,) = n.body.src
        assert recurrence.arg.elements == wide
        squares = prod(r.arg.size for r in n.loops if r.arg.place is Place.UPCAST)
        assert squares == max(1, target.vector_registers // (2 * wide)), "they stay in registers"
        assert {u.arg.stride for u in linearize(n) if u.op is Op.LOAD and len(u.src) == 2} <= {0, 1}
    (recurrence,) = only(target, running(p(0, 200, 300), Op.ADD)).body.src
    assert recurrence.arg.elements == 1


@both_targets
def test_rows_of_coordinates_are_transposed_in_squares(target: Target) -> None:
    """Of points as rows, vectors run along points: their coordinates are loaded in squares."""
    lanes, d = LANES[target], 2 * LANES[target]
    shapes = (40, 1, d), (1, 40, d)
    x, y = (build.reshape(p(i, 40, d), shape) for i, shape in enumerate(shapes))
    apart = build.expand(x, (40, 40, d)) - build.expand(y, (40, 40, d))
    distances = build.add_up(apart * apart, (2,))
    n = only(target, distances)
    assert (Place.UPCAST, lanes) in reduced(n)[0] and (Place.LANE, lanes) in places(n)
    strides = {u.arg.stride for u in linearize(n) if u.op is Op.LOAD and len(u.src) == 2}
    assert strides <= {0, 1}, "no gathers but in partial vectors"
    assert_matches_oracle([distances], rtol=1e-5, atol=1e-4)


def test_each_reduction_is_interleaved_by_its_own_loop_body() -> None:
    """A maximum has four vectors side by side, though the sum beside it has a long body."""
    n = only(HOST, softmax(p(0, 64, 512), Op.LGAMMA))
    maximum, total = folds(n.body)
    vectors = [
        prod(r.arg.size for r in f.src[1:] if r.arg.place is Place.UPCAST) for f in (maximum, total)
    ]
    assert vectors == [4, 1]


def test_periodic_conditions_are_unrolled_by_their_period() -> None:
    """As in the gradient of pooling: no condition is left in a loop."""
    ct = p(0, 2, 6, 8, 32)
    even = build.pad(ct, (0, 0, 0, 0), (0, 1, 1, 0), (0, 1, 1, 0))
    odd = build.pad(ct, (0, 1, 1, 0), (0, 0, 0, 0), (0, 1, 1, 0))
    n = only(HOST, even + odd)
    assert [r.arg.size for r in n.loops if r.arg.place is Place.UPCAST][:2] == [2, 2]
    (launch,) = lower(jaxpr([even + odd]), HOST).launches
    assert "srem" not in launch.kernel.text and "urem" not in launch.kernel.text
    three = build.pad(p(0, 2, 7, 32), (0, 0, 0), (0, 2, 0), (0, 2, 0))
    assert [r.arg.size for r in only(HOST, three).loops if r.arg.place is Place.UPCAST][:1] == [3]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_periodic_conditions_may_be_reduced(axis: int) -> None:
    x = build.pad(p(0, 6, 8, 64), (0, 0, 0), (0, 1, 0), (0, 1, 0))
    assert_matches_oracle([build.add_up(x, (axis,)), softmax(x)], rtol=1e-4)
    for u in (build.add_up(x, (axis,)), softmax(x)):
        assert chosen(HOST, u)


def test_scatters_are_unrolled_by_at_most_four() -> None:
    """However many short axes windows have: code does not grow with them."""
    x, at = p(0, 4, 9, 4, 9, 4, 9, 64), p(1, 7, 6, dtype=INT32)
    u = p(2, 7, 4, 1, 4, 1, 4, 1, 64)
    n = chosen(HOST, build.scatter(x, at, u, Op.ADD))[-1]
    assert size_of(n, Place.UPCAST) <= 4


def test_scatters_of_one_element_a_row_have_one_vector() -> None:
    """Of the gradient of a cross-entropy: elements are updated one by one in any case."""
    x, at, u = p(0, 256, 100), p(1, 256, 1, 1, dtype=INT32), p(2, 256, 1, 1)
    n = chosen(HOST, build.scatter(x, at, u, Op.ADD, batch=1))[-1]
    assert size_of(n, Place.UPCAST) == 1
    assert_matches_oracle([build.scatter(x, at, u, Op.ADD, batch=1)])


@both_targets
@pytest.mark.parametrize("columns", [1, 10, 16, 30, 31, 64])
@pytest.mark.parametrize("rows", [7, 12, 90])
def test_short_rows_are_unrolled_with_their_reductions(
    rows: int, columns: int, target: Target
) -> None:
    """A softmax has one exponential for each vector, for its sum and its result."""
    n = only(target, softmax(p(0, rows, columns)))
    vectors = -(-columns // LANES[target])
    if columns > 1 and vectors <= MAX_SHORT_ROW_VECTORS:
        items = linearize(n)
        rows_at_once = size_of(n, Place.UPCAST) // vectors
        exponentials = sum(u.op is Op.BITCAST and u.dtype == INT32 for u in items)
        assert exponentials == rows_at_once * vectors
        assert rows % rows_at_once == 0 and (rows_at_once > 1 or vectors > 2 or rows == 7)
    assert_matches_oracle([softmax(p(0, rows, columns))])


def test_decisions_are_recorded_with_the_costs_of_their_alternatives() -> None:
    with collecting() as records:
        (n,) = chosen(HOST, matmul(p(0, 60, 64), p(1, 64, 64)))
    rules = {one.rule: one for one in records if isinstance(one.before, Nest)}
    assert list(rules)[-1] == "parallelise" and rules["parallelise"].after.opts == n.opts
    axis = rules["vector-axis"]
    assert axis.costs[0].value == min(cost.value for cost in axis.costs)
    assert axis.costs[-1].name == "no vectors, ns" and len(axis.costs) == 4
    tile = rules["register-tile"]
    assert tile.reason == "6 rows by 4 vectors of sums for 60 by 64 elements"
    assert tile.costs[0].value < tile.costs[1].value


def test_recording_changes_no_decision() -> None:
    outputs = softmax(p(0, 64, 1000))
    with collecting():
        recorded = chosen(HOST, outputs)
    assert [n.opts for n in recorded] == [n.opts for n in chosen(HOST, outputs)]
