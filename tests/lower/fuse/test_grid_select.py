"""The largest elements on grids: their threshold, and those of it in their order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.covering import in_turn
from tests.lower.check_passes import GRID, check_passes
from tests.lower.codegen.sort.test_sort import draw
from tests.lower.graphs import Value, jaxpr, p, run_oracle
from tfn.dtypes import BOOL, FLOAT32, FLOATS, INT32, REALS, UINT32, DType
from tfn.lower.codegen.sort.group_sort import TILE_ELEMENTS
from tfn.lower.fuse import grid_select
from tfn.lower.fuse.grid_select import MAX_SHARE_TO_SELECT, _places
from tfn.lower.fuse.grid_sort import sort_on_grid
from tfn.trace import build
from tfn.trace.argument import Sort
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

LONG = TILE_ELEMENTS + 953
"""A prime number of elements, too many for the local memory of a group."""


def node(x: Value, k: int) -> UOp:
    """The largest elements, with their numbers."""
    operand = p(0, *x.shape, dtype=x.dtype)
    numbers = build.iota(x.shape, x.ndim - 1, INT32)
    return UOp(Op.SORT, (operand, numbers), Sort(1, largest=k))


def selected(x: Value, k: int) -> list[Value]:
    """By the oracle of the steps on a grid; they are what the op means."""
    u = node(x, k)
    results = sort_on_grid(u, GRID)
    assert results is not None
    got, want = run_oracle(results, [x]), run_oracle(build.several(u), [x])
    for a, b in zip(got, want, strict=True):
        wide = (v.astype(np.float64) if v.dtype in FLOATS else v for v in (a, b))
        np.testing.assert_array_equal(*wide)
    return got


@pytest.mark.parametrize("dtype", in_turn(3, REALS), ids=lambda d: d.name)
def test_every_dtype_with_equal_ones_and_nan(dtype: DType) -> None:
    x = draw((2, LONG), dtype, 3)
    if dtype in FLOATS:
        x[:, ::97] = np.nan
        x[1, ::5] = -0.0
        x[1, 1::5] = 0.0
    _, places = selected(x, 101)
    if dtype != BOOL:
        wide = np.flip(x.astype(np.float64) if dtype in FLOATS else x, 1)
        order = LONG - 1 - np.flip(np.argsort(wide, axis=1, kind="stable"), 1)
        np.testing.assert_array_equal(places, order[:, :101])


@pytest.mark.parametrize("k", [0, 1, 2, int(MAX_SHARE_TO_SELECT * LONG), LONG - 1, LONG])
def test_any_number_of_them(k: int) -> None:
    selected(draw((3, LONG), FLOAT32, k), k)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0])
def test_where_all_are_equal_the_first_come_first(value: float) -> None:
    _, places = selected(np.full((2, LONG), value, np.float32), 7)
    np.testing.assert_array_equal(places, [range(7)] * 2)


def test_short_rows_and_no_rows() -> None:
    for shape, k in (((3, 100), 9), ((0, LONG), 9), ((3, 1), 1), ((2, 0), 0)):
        selected(draw(shape, FLOAT32, 1), k)


def test_the_kernels_have_the_values_of_a_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads in lockstep: no pass changes a value, and no two threads race.

    With 3 counts in a step instead of 15: NumPy's arrays have 32 axes at most.
    """
    monkeypatch.setattr(grid_select, "DIGIT_BITS", 2)
    x = draw((1, LONG), UINT32, 1)
    order = walk(sort_on_grid(node(x, 5), GRID) or [])
    loop = next(u for u in order if u.op is Op.SCAN and u.arg.consts)
    check_passes(Jaxpr(loop.src[0]), [x, np.uint32([1 << 31]), np.uint32(20)], GRID)
    keys, threshold = p(0, 1, LONG, dtype=UINT32), p(1, 1, dtype=UINT32)
    fifth = np.sort(x[:, ::-1])[:, -5]
    check_passes(jaxpr([_places(keys, threshold, 5, GRID)]), [x, fifth], GRID)


def test_few_of_many_are_not_sorted() -> None:
    """Only the rows of the results are: the others are counted, numbered and moved once."""
    results = sort_on_grid(node(draw((4, 9 * LONG), FLOAT32, 1), 50), GRID)
    assert results is not None
    sizes = {u.src[0].shape for u in walk(results) if u.op is Op.SORT}
    assert sizes == {(4, 50)}
    assert sum(u.op is Op.SCATTER for u in walk(results)) == 1
