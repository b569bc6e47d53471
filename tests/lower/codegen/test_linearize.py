"""Linearisation: loops of a nest, partial blocks, and the same meaning as the nest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.covering import in_turn
from tests.lower.check_passes import HOST, SMALL
from tests.lower.graphs import assert_close, draw, jaxpr, matmul, p, softmax
from tests.lower.random_graphs import STEPS, _sort, graphs
from tfn.dtypes import FLOAT32, INT32
from tfn.lower.codegen.linearize import cut, linearize
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.loops import heuristics, loop_nest
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.math import decompose
from tfn.lower.target.target import Target
from tfn.trace import build, interpreter
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.spec import Stage, check
from tfn.trace.uop import UOp, const, walk

Items = tuple[UOp, ...]
both_targets = pytest.mark.parametrize("target", [HOST, SMALL], ids=["wide", "narrow"])


def nests(*outputs: UOp) -> list[Nest]:
    stages = ranges.indexed_kernels(boundaries.insert_barriers(jaxpr(outputs).function, HOST))
    return [
        loop_nest.nest(decompose.decompose([s.body])[0])
        for s in stages
        if isinstance(s, ranges.IndexedKernel) and s.body.op is Op.SINK
    ]


def only(*outputs: UOp, target: Target = HOST) -> Items:
    (n,) = nests(*outputs)
    return linearize(heuristics.choose(n, target))


def depths(items: Items) -> list[tuple[int, UOp]]:
    """Each instruction with the number of loops around it."""
    depth, result = 0, []
    for u in items:
        depth -= u.op is Op.END
        result.append((depth, u))
        depth += u.op is Op.LOOP
    assert depth == 0
    return result


def of(items: Items, op: Op) -> list[int]:
    """The loop depths of an op."""
    return [depth for depth, u in depths(items) if u.op is op]


# Placement.


@both_targets
def test_loop_invariants_are_hoisted(target: Target) -> None:
    x, w = p(0, 1000), p(1, 1)
    scale = build.broadcast_to(build.unary(Op.SQRT, w), (1000,))
    items = only(x * scale, target=target)
    assert of(items, Op.SQRT) == [0]
    assert 1 in of(items, Op.MUL)


@both_targets
def test_row_statistics_are_computed_once_per_row(target: Target) -> None:
    x = p(0, 100, 333)
    total = build.add_up(x * x, (1,), keepdims=True)
    items = only(x * build.expand(build.unary(Op.SQRT, total), x.shape), target=target)
    assert of(items, Op.SQRT) == [1]
    assert of(items, Op.ACROSS) == [1]
    assert set(of(items, Op.STORE)) <= {1, 2}


def test_bias_is_loaded_once_for_all_rows_of_a_tile() -> None:
    x, w, b = p(0, 24, 40), p(1, 40, 32), p(2, 32)
    items = only(matmul(x, w) + build.broadcast_to(b, (24, 32)))
    biases = [u for u in items if u.op is Op.LOAD and u.src[0].arg.shape == (32,)]
    accumulators = [u for u in items if u.op is Op.ACCUMULATOR]
    assert len(biases) * 2 <= len(accumulators)


def test_contractions_use_fma() -> None:
    items = only(matmul(p(0, 24, 40), p(1, 40, 32)))
    assert of(items, Op.FMA)
    assert not [u for u in items if u.op is Op.ADD and u.dtype == FLOAT32]


# Accumulators.


def test_each_register_of_a_tile_is_an_accumulator() -> None:
    (before,) = nests(matmul(p(0, 24, 40), p(1, 40, 64)))
    n = heuristics.choose(before, HOST)
    tile = [r.arg.size for r in n.loops if r.arg.place is Place.UPCAST]
    items = linearize(n)
    ends = [u for u in items if u.op is Op.END and len(u.src) > 1]
    most = max(len(u.src) // 2 for u in ends)
    assert most == np.prod(tile)
    for end in ends:
        carried = end.src[1 : 1 + len(end.src) // 2]
        assert all(u.op is Op.ACCUMULATOR and u.src[0] is end.src[0] for u in carried)


def test_independent_sums_hide_the_latency_of_addition() -> None:
    items = only(build.add_up(p(0, 50, 4096), (1,)))
    assert len(of(items, Op.ACCUMULATOR)) == 4
    assert of(items, Op.ACROSS) == [1]  # once for each row, after its loop


# Partial blocks.


def masked(items: Items) -> list[UOp]:
    return [u for u in items if u.op in (Op.LOAD, Op.STORE) and len(u.src) > 2 + (u.op is Op.STORE)]


@both_targets
def test_full_blocks_are_not_masked(target: Target) -> None:
    assert not masked(only(p(0, 1024) * 2.0, target=target))


@both_targets
def test_partial_vectors_are_masked_by_constants(target: Target) -> None:
    items = only(p(0, 1021) * 2.0, target=target)
    rest = masked(items)
    assert len(rest) == 2  # one load, one store
    assert all(u.src[-1].op is Op.LT and u.src[-1].src[0].op is Op.LANES for u in rest)
    assert items.index(rest[0]) > items.index(next(u for u in items if u.op is Op.LOAD))


def test_partial_blocks_of_full_vectors_need_no_mask() -> None:
    assert not masked(only(p(0, 1024 + 32) * 2.0))


# Meaning.


def run(items: Items, tiles: list[tuple[int, int]], buffers: list[np.ndarray]) -> None:
    check(items, Stage.LINEAR)
    for begin, end in tiles:
        interpreter.instructions(items, begin, end, buffers)


def compare(n: Nest, target: Target, cuts: Callable[[int], list[tuple[int, int]]]) -> None:
    """Compare instructions, their tiles run in the given pieces, with the nest."""
    chosen = heuristics.choose(n, target)
    parallel = bool(chosen.loops) and chosen.loops[0].arg.place is Place.PARALLEL
    tiles = chosen.loops[0].arg.size if parallel else 1
    buffers = {u.arg.index: u for u in walk([n.body]) if u.op is Op.PARAM}
    first = [
        draw(buffers[i].shape, buffers[i].dtype, i) if i in buffers else np.zeros(1, FLOAT32)
        for i in range(max(buffers) + 1)
    ]
    got, want = [b.copy() for b in first], [b.copy() for b in first]
    interpreter.nest(n.body, want)
    run(linearize(chosen), cuts(tiles) if parallel else [(0, 1)], got)
    for g, w in zip(got, want, strict=True):
        assert_close(g, w, 1e-4, 1e-4)


def whole(tiles: int) -> list[tuple[int, int]]:
    return [(0, tiles)]


def backwards(tiles: int) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in reversed(range(tiles))]


@both_targets
@pytest.mark.parametrize("n", in_turn(2, [1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 64, 65, 129]))
def test_linearize_odd_sizes(n: int, target: Target) -> None:
    x, w = p(0, 5, n), p(1, n, 7)
    at = p(2, 3, 1, dtype=INT32)
    outputs = [
        p(3, n) * 2.0,
        softmax(x),
        matmul(x, w),
        build.add_up(x, (0,)),
        build.add_up(x, (1,)),
        build.add_up(x, (0, 1)),
        build.permute(x, (1, 0)) * 2.0,
        build.flip(x, (1,)) + 1.0,
        build.pad(x, (1, 2), (0, 3)),
        build.gather(x, at, (1, n)),
        matmul(build.permute(x, (1, 0)), x),
        build.scatter(x, at, build.gather(x, at, (1, n)), Op.ADD),
        build.add_up(const(0.5, FLOAT32, (n, 3)), (0,)),
    ]
    for output in outputs:
        for nest in nests(output):
            compare(nest, target, whole)


@pytest.mark.parametrize("n", [37, 300, 1000])
def test_sums_of_equal_terms_with_a_partial_block(n: int) -> None:
    """After a loop the same instruction on its accumulators is emitted anew."""
    x = build.expand(p(0, 1), (n,))
    for nest in nests(build.add_up(x, (0,)) * 0.5):
        compare(nest, HOST, whole)


@both_targets
def test_tiles_may_be_run_in_any_order(target: Target) -> None:
    x, w = p(0, 33, 38), p(1, 38, 35)
    for output in (
        x * 2.0,
        softmax(x),
        matmul(x, w),
        build.add_up(x, (0,)),
        build.permute(x, (1, 0)),
    ):
        for nest in nests(output + 1.0 if output.op is Op.PERMUTE else output):
            compare(nest, target, backwards)


@given(graphs(steps=tuple(s for s in STEPS if s is not _sort)), st.sampled_from([HOST, SMALL]))
@settings(max_examples=40)
def test_random_nests(outputs: list[UOp], target: Target) -> None:
    for nest in nests(*outputs):
        compare(nest, target, backwards)


@both_targets
@pytest.mark.parametrize("steps", [1, 5, -3])
def test_a_loop_is_cut_where_conditions_of_lanes_change(steps: int, target: Target) -> None:
    """A line that is rolled: between its ends whole vectors are loaded, without masks."""
    n = 4096
    x, cut = p(0, n), -steps % n
    parts = build.shrink(x, (cut,), (n,)), build.shrink(x, (0,), (cut,))
    items = only(build.concat(list(parts), 0) + x, target=target)
    whole = [depth for depth, u in depths(items) if u.op is Op.LOAD and len(u.src) == 2]
    masked = [depth for depth, u in depths(items) if u.op is Op.LOAD and len(u.src) == 3]
    assert masked and len(whole) > len(masked)
    loops = [items.index(u) for u in items if u.op is Op.LOOP]
    spans = [items[a:b] for a, b in zip(loops, [*loops[1:], len(items)], strict=True)]
    free = [not any(u.op is Op.LOAD and len(u.src) == 3 for u in span) for span in spans]
    assert sum(free) == 1 and len(free) <= 3


def test_parts_of_a_loop_decide_its_conditions() -> None:
    """k * i + e < 0 is the same for all e, and in all iterations of the second part."""
    conditions = [
        (const(i, INT32), *case)
        for i, case in enumerate(
            [(8, -9, -2), (-8, 0, 7), (8, -300, -293), (-8, 100, 100), (3, -50, -40)]
        )
    ]
    parts = cut(conditions, 40)
    assert [begin for begin, _, _ in parts] == [0, *(end for _, end, _ in parts[:-1])]
    assert parts[-1][1] == 40
    begin, end, truths = parts[1]
    assert end - begin >= 10 and len(truths) == len(conditions)
    for u, k, low, high in conditions:
        for i in range(begin, end):
            assert all((k * i + e < 0) is truths[u] for e in (low, high))
