"""Grid linearisation: groups, threads, tiles in local memory, and the meaning of the nest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.lower.check_passes import GRID, check_passes
from tests.lower.graphs import draw, inputs, jaxpr, matmul, p, softmax
from tests.lower.grid_interpreter import grid as run_grid
from tests.lower.random_graphs import STEPS, graphs
from tfn.errors import SplitError
from tfn.lower.codegen import grid
from tfn.lower.fuse import ranges
from tfn.lower.grids.passes import GRID as GRID_PASSES
from tfn.lower.loops import grid_heuristics, grid_products, loop_nest
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Bind, Split
from tfn.trace import build
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk


def nest(*outputs: UOp) -> Nest:
    (kernel,) = ranges.indexed_kernels(GRID_PASSES.boundaries(jaxpr(outputs).function, GRID))
    assert isinstance(kernel, ranges.IndexedKernel)
    return loop_nest.nest(GRID_PASSES.decompose(kernel.body, GRID))


def chosen(*outputs: UOp) -> tuple[UOp, ...]:
    return grid.linearize(grid_heuristics.choose(nest(*outputs), GRID))


def count(items: tuple[UOp, ...], op: Op) -> int:
    return sum(u.op is op for u in items)


@given(graphs(steps=STEPS))
def test_random_graphs_keep_their_values_and_no_thread_races(outputs: list[UOp]) -> None:
    check_passes(jaxpr(outputs), inputs(outputs), GRID, tolerance=2e-3)


@pytest.mark.parametrize("small", range(3))
def test_small_groups_and_tiles_keep_the_values(
    small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With small limits, small programs have kernels of every kind."""
    monkeypatch.setattr(grid_heuristics, "GROUP_THREADS", 4 << small)
    monkeypatch.setattr(grid_heuristics, "MIN_ROW_ELEMENTS", 3)
    monkeypatch.setattr(grid_products, "TILE_THREADS", 2 << (small & 1))
    monkeypatch.setattr(grid_products, "MIN_TILE_DEPTH", 2)
    for outputs in (
        [softmax(p(0, 5, 17))],
        [matmul(p(0, 7, 6), p(1, 6, 13))],
        [build.dot(p(0, 3, 5, 8), p(1, 3, 8, 7), ((2,), (1,)), ((0,), (0,)))],
        [build.reduce(p(0, 4, 19), Op.MIN, (1,), index=np.dtype("int32"))],
        [build.add_up(p(0, 6, 5, 7), (0, 2))],
    ):
        check_passes(jaxpr(outputs), inputs(outputs), GRID)


def test_a_sum_is_a_tree_over_threads() -> None:
    items = chosen(build.add_up(p(0, 2, 1000), (1,)))
    # 64 threads: one barrier for what they bring, one for each of 6 levels, one at the end.
    assert count(items, Op.BARRIER) == 8 and count(items, Op.LOOP) == 0
    stores = [u for u in items if u.op is Op.STORE and u.src[0].op is Op.PARAM]
    assert len(stores) == 1 and len(stores[0].src) == 4  # by the first thread alone


def test_reductions_over_threads_have_memory_of_their_own() -> None:
    items = chosen(softmax(p(0, 3, 500)))
    memories = {s for u in items for s in u.src if s.op is Op.LOCAL_MEMORY}
    assert [u.shape for u in memories] == [(32,)] * 2


@pytest.mark.parametrize("size", [1000, 4096, 16384])
def test_a_row_in_registers_is_loaded_once(size: int) -> None:
    """Both reductions of a softmax and its results use the same loads and exponentials."""
    items = chosen(softmax(p(0, 3, size)))
    loads = [u for u in items if u.op is Op.LOAD and u.src[0].op is Op.PARAM]
    assert len(loads) == 16 and len(set(loads)) == 16
    assert count(items, Op.DIV) == 16 and count(items, Op.LOOP) == 0


def test_longer_rows_are_in_flight_by_sixteen() -> None:
    items = chosen(build.add_up(p(0, 8192, 10 * 4096), (1,)))
    assert count(items, Op.LOOP) == 1
    loads = [u for u in items if u.op is Op.LOAD and u.src[0].op is Op.PARAM]
    assert len(loads) == 16


def test_idle_threads_run_no_iteration() -> None:
    items = chosen(p(0, 1000) + 1.0)
    (loop,) = (u for u in items if u.op is Op.LOOP)
    assert loop.src[0].op is Op.RANGE and loop.src[1].op is Op.MIN
    assert not any(u.op is Op.LOOP for u in chosen(p(0, 1024) + 1.0))


def test_tiles_are_copied_between_two_barriers() -> None:
    items = chosen(matmul(p(0, 64, 64), p(1, 64, 64)))
    kinds = [u.op for u in items if u.op in (Op.BARRIER, Op.LOOP, Op.END)]
    copy = [Op.LOOP, Op.END]
    depth = kinds.index(Op.BARRIER)
    assert kinds[depth:][:8] == [Op.BARRIER, *copy, *copy, Op.BARRIER, Op.LOOP, Op.END]
    tiles = {s for u in items for s in u.src if s.op is Op.LOCAL_MEMORY}
    assert sorted(u.shape for u in tiles) == [(1024,), (1024,)]


def test_several_ranges_of_threads_count_as_one() -> None:
    n = nest(p(0, 6, 8) * 2.0)
    rows, columns = n.loops
    n = Split(rows.arg.number, 2, Place.LOCAL).apply(n)
    n = Split(columns.arg.number, 4, Place.LOCAL).apply(n)
    for r in n.loops:
        if r.arg.place is Place.LOOP:
            n = Bind(r.arg.number, Place.GROUP).apply(n)
    items = grid.linearize(n)
    assert grid.thread_count(n) == 8
    x = draw((48,), np.dtype("float32"))
    y = np.zeros(48, np.float32)
    run_grid(items, 6, 8, [y, x])
    np.testing.assert_array_equal(y, x * 2)
    assert not any(u.op is Op.LOOP for u in walk(items))


def test_threads_that_do_not_fit_together_are_refused() -> None:
    n = nest(softmax(p(0, 3, 8)))
    fold, *_ = loop_nest.folds(n.body)
    first = Split(fold.src[1].arg.number, 4, Place.LOCAL).apply(n)
    second = Split(first.loops[-1].arg.number, 8, Place.LOCAL).apply(first)
    with pytest.raises(SplitError, match="ranges of 4, 8 threads"):
        grid.linearize(second)
    odd = nest(build.add_up(p(0, 9), (0,)))
    (r,) = loop_nest.folds(odd.body)[0].src[1:]
    with pytest.raises(SplitError, match="a power of two"):
        grid.linearize(Split(r.arg.number, 3, Place.LOCAL).apply(odd))
