"""Scheduling heuristics for grids: points, rows and tiles."""

from __future__ import annotations

from dataclasses import replace

from tests.lower.check_passes import GRID
from tests.lower.graphs import jaxpr, matmul, p, softmax
from tfn.dtypes import INT32
from tfn.lower.fuse import ranges
from tfn.lower.grids.passes import GRID as GRID_PASSES
from tfn.lower.loops import grid_heuristics, loop_nest
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.math import decompose
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, nodes


def choose(output: UOp, target: Target = GRID, number: int = 0) -> Nest:
    cut = GRID_PASSES.boundaries(jaxpr([output]).function, target)
    kernel = ranges.indexed_kernels(cut)[number]
    body = decompose.decompose([kernel.body], target.lacks)[0]  # type: ignore[union-attr]
    return grid_heuristics.choose(loop_nest.nest(body), target)


def sizes(n: Nest, place: Place) -> list[int]:
    return [r.arg.size for r in n.loops if r.arg.place is place]


def reduced(n: Nest) -> list[list[tuple[Place, int]]]:
    return [[(r.arg.place, r.arg.size) for r in f.src[1:]] for f in loop_nest.folds(n.body)]


def test_points_are_one_loop_over_groups_of_threads() -> None:
    n = choose(build.permute(p(0, 30, 70), (1, 0)) * 2.0)
    assert sizes(n, Place.GROUP) == [9] and sizes(n, Place.LOCAL) == [256]
    assert sizes(choose(p(0, 5) * 2.0), Place.LOCAL) == [8]


def test_long_rows_belong_to_groups() -> None:
    n = choose(build.add_up(p(0, 50, 1000), (1,)))
    assert sizes(n, Place.GROUP) == [50] and not sizes(n, Place.LOCAL)
    assert reduced(n) == [[(Place.LOOP, 1), (Place.UPCAST, 16), (Place.LOCAL, 64)]]


def test_all_reductions_of_a_row_and_its_elements_share_the_threads() -> None:
    n = choose(softmax(p(0, 20, 100)))
    assert sizes(n, Place.GROUP) == [20] and sizes(n, Place.LOCAL) == [32]
    assert reduced(n) == [[(Place.LOOP, 1), (Place.UPCAST, 4), (Place.LOCAL, 32)]] * 2


def test_columns_of_many_results_are_reduced_by_single_threads() -> None:
    n = choose(build.add_up(p(0, 100, 5000), (0,)))
    assert sizes(n, Place.LOCAL) == [256] and reduced(n) == [[(Place.LOOP, 100)]]
    few = choose(build.add_up(p(0, 100, 50), (0,)))
    assert reduced(few) == [[(Place.LOOP, 1), (Place.UPCAST, 4), (Place.LOCAL, 32)]]


def test_threads_share_a_row_so_that_it_fits_their_registers() -> None:
    threads = {}
    for size in (64, 512, 513, 4096, 16384, 16385, 1 << 20):
        ((_, (_, elements), (_, threads[size])),) = reduced(
            choose(build.add_up(p(0, 8, size), (1,)))
        )
        assert elements <= 16
    assert list(threads.values())[:5] == [32, 32, 64, 256, 1024]


def test_short_rows_are_reduced_by_single_threads() -> None:
    assert reduced(choose(build.add_up(p(0, 500, 20), (1,)))) == [[(Place.LOOP, 20)]]


def staged(n: Nest) -> int:
    return sum(u.op is Op.STAGED for u in nodes(n.body))


def test_groups_are_no_larger_than_the_target_runs() -> None:
    assert GRID.grid is not None
    small = replace(GRID, grid=replace(GRID.grid, group_threads=64))
    assert sizes(choose(p(0, 1000) * 2.0, small), Place.LOCAL) == [64]
    assert staged(choose(matmul(p(0, 100, 64), p(1, 64, 200)), small)) == 0


def test_updates_keep_their_order() -> None:
    updates = build.scatter(p(0, 40, 6), p(1, 9, 1, dtype=INT32), p(2, 9, 1, 6), Op.ADD)
    n = choose(updates, number=1)
    ordered = loop_nest.in_order(n.body)
    assert [r.arg.place for r in n.loops if r.arg.number in ordered] == [Place.LOOP]
    assert sizes(n, Place.LOCAL) == [8]
