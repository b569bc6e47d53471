"""Reductions: accumulators, partial blocks, argmax."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_close, draw, jaxpr, p
from tfn.dtypes import FLOAT32, FLOAT64, INT32, INT64
from tfn.lower.codegen.linearize import linearize
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.loops import loop_nest
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Split, Tile
from tfn.lower.math import decompose
from tfn.trace import build, interpreter
from tfn.trace.argument import Place
from tfn.trace.op import MONOIDS, Op
from tfn.trace.uop import UOp, walk


def nest(*outputs: UOp) -> Nest:
    (stage,) = ranges.indexed_kernels(boundaries.insert_barriers(jaxpr(outputs).function, HOST))
    assert isinstance(stage, ranges.IndexedKernel)
    return loop_nest.nest(decompose.decompose([stage.body])[0])


def fold_range(n: Nest) -> UOp:
    return loop_nest.folds(n.body)[0].src[-1]


def run(n: Nest) -> None:
    """Compare the buffers after the instructions with those after the nest."""
    sizes = {u.arg.index: u.shape for u in walk([n.body]) if u.op is Op.PARAM}
    first = [draw(sizes[i], FLOAT32, i) for i in range(len(sizes))]
    got, want = [b.copy() for b in first], [b.copy() for b in first]
    interpreter.nest(n.body, want)
    interpreter.instructions(linearize(n), 0, 1, got)
    for g, w in zip(got, want, strict=True):
        assert_close(g, w, 1e-4, 1e-4)


def count(n: Nest, op: Op) -> int:
    return sum(u.op is op for u in linearize(n))


def test_unrolled_outputs_have_an_accumulator_each() -> None:
    n = nest(build.add_up(p(0, 6, 40), (1,)))
    n = Split(n.loops[0].arg.number, 3, Place.UPCAST).apply(n)
    assert count(n, Op.ACCUMULATOR) == 3
    assert count(n, Op.LOOP) == 2, "one loop for all three, in one over blocks"
    run(n)


def test_unrolled_reductions_are_combined_as_a_tree() -> None:
    n = nest(build.add_up(p(0, 40), (0,)))
    n = Split(fold_range(n).arg.number, 4, Place.UPCAST).apply(n)
    assert count(n, Op.ACCUMULATOR) == 4
    run(n)


@pytest.mark.parametrize("op", MONOIDS)
@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 31, 32, 33, 100])
def test_reductions_along_lanes_with_a_partial_vector(op: Op, size: int) -> None:
    """Lanes beyond the end hold the identity of the monoid."""
    n = nest(build.reduce(p(0, 3, size), op, (1,)))
    if size > 1:
        n = Tile(fold_range(n).arg.number, 2, 4).apply(n)
        assert count(n, Op.ACROSS) == 1
    run(n)


SPECIAL = [
    [math.nan] * 100,
    [-math.inf] * 100,
    [0.0, -0.0] * 50,
    [1.0] * 40 + [math.nan] + [2.0] * 10 + [math.nan] * 49,
    [*range(50), *range(50)],
]
"""Rows with many extremes."""


@pytest.mark.parametrize("op", [Op.MAX, Op.MIN])
@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 17, 31, 32, 33, 100])
@pytest.mark.parametrize("lanes", [1, 4])
def test_argmax_is_the_first_extreme(op: Op, size: int, lanes: int) -> None:
    n = nest(build.reduce(p(0, len(SPECIAL), size), op, (1,), index=INT32))
    if size > 1:
        n = Tile(fold_range(n).arg.number, 2, lanes).apply(n)
    rows = np.array(SPECIAL, np.float32)[:, :size]
    got = np.zeros(len(SPECIAL), np.int32)
    interpreter.instructions(linearize(n), 0, 1, [got, rows.ravel().copy()])
    assert got.tolist() == (np.argmax if op is Op.MAX else np.argmin)(rows, 1).tolist()


def test_argmax_counts_indices_once_for_all_vectors() -> None:
    """Each vector takes a load, two comparisons, and two selects."""
    n = nest(build.reduce(p(0, 640), Op.MAX, (0,), index=INT32))
    n = Tile(fold_range(n).arg.number, 4, 16).apply(n)
    items = linearize(n)
    start = next(i for i, u in enumerate(items) if u.op is Op.LOOP)
    inside = items[start : next(i for i, u in enumerate(items) if u.op is Op.END)]
    assert sum(u.op is Op.WHERE for u in inside) == 8
    assert sum(u.op in (Op.CAST, Op.SPLAT) for u in inside) == 2


def test_argmax_with_lanes_along_the_output() -> None:
    n = nest(build.cast(build.reduce(p(0, 23, 37), Op.MAX, (0,), index=INT32), FLOAT32))
    n = Tile(n.loops[0].arg.number, 2, 8).apply(n)
    assert count(n, Op.ACROSS) == 0
    run(n)


def test_argmax_of_wide_values_has_masks_of_one_width() -> None:
    """Indices beside vectors of 64-bit values have 64 bits until the end."""
    x = p(0, 6, 64, dtype=FLOAT64)
    n = nest(build.reduce(x, Op.MAX, (1,), index=INT32))
    n = Tile(fold_range(n).arg.number, 2, 4).apply(n)
    selected = [u for u in linearize(n) if u.op is Op.WHERE]
    assert {u.dtype for u in selected} == {FLOAT64, INT64}
    items = linearize(n)
    x, got = draw((6 * 64,), FLOAT64, 0), np.zeros(6, np.int32)
    interpreter.instructions(items, 0, 1, [got, x])
    assert got.tolist() == x.reshape(6, 64).argmax(1).tolist()


def test_argmax_of_nested_splits() -> None:
    """With partial blocks and partial vectors."""
    n = nest(build.cast(build.reduce(p(0, 3, 60), Op.MIN, (1,), index=INT32), FLOAT32))
    n = Split(fold_range(n).arg.number, 20, Place.LOOP).apply(n)
    inner = n.newest(2)[1]
    n = Tile(inner.arg.number, 2, 4).apply(n)
    run(n)


def test_unrolled_output_and_reduction() -> None:
    n = nest(build.add_up(p(0, 7, 23), (1,)))
    n = Split(n.loops[0].arg.number, 3, Place.UPCAST).apply(n)
    n = Split(fold_range(n).arg.number, 5, Place.UPCAST).apply(n)
    run(n)


def test_reductions_with_lanes_along_the_output() -> None:
    n = nest(build.add_up(p(0, 23, 37), (0,)))
    n = Tile(n.loops[0].arg.number, 2, 8).apply(n)
    assert count(n, Op.ACROSS) == 0
    run(n)


def test_several_reduced_axes_are_nested_loops() -> None:
    n = nest(build.add_up(p(0, 3, 5, 4, 6), (1, 3)))
    assert count(n, Op.LOOP) == 4
    run(n)


def test_sums_of_products_use_fma_unless_masked() -> None:
    x, y = p(0, 33), p(1, 33)
    n = nest(build.add_up(x * y, (0,)))
    assert count(n, Op.FMA) == 1
    tiled = Tile(fold_range(n).arg.number, 1, 8).apply(n)
    assert count(tiled, Op.WHERE) == 1, "the partial vector"
    run(n)
    run(tiled)


def test_nested_reductions() -> None:
    x = p(0, 5, 9)
    top = build.reduce(x, Op.MAX, (1,), keepdims=True)
    n = nest(build.add_up(x - build.expand(top, x.shape), (0, 1)))
    run(n)
