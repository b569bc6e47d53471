"""Scatters after a sort of their updates: all monoids, bounds, batches, rows; which stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.check_passes import GRID, check_passes
from tests.lower.graphs import jaxpr, p, run_oracle
from tfn.dtypes import BFLOAT16, FLOAT32, INT32, INT64, DType, int8, uint8
from tfn.lower.fuse import grid_scatter
from tfn.lower.fuse.grid_scatter import MIN_UPDATES, scatter_on_grid
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

MANY = MIN_UPDATES + 97
"""A prime number of updates."""


def drawn(seed: int, *shape: int, most: int, dtype: DType = INT32) -> Any:
    """Indices, some of them out of bounds on both sides."""
    low = 0 if dtype.kind == "u" else -2
    return np.random.default_rng(seed).integers(low, most + 2, shape).astype(dtype)


def check(u: UOp, values: list[Any], tolerance: float = 0.0) -> UOp:
    """Compare with the oracle of the scatter in order; the sorted one has all places different."""
    sorted_ = scatter_on_grid(u, GRID)
    assert sorted_ is not u and sorted_.arg.distinct and not sorted_.arg.whole
    (got,), (want,) = run_oracle([sorted_], values), run_oracle([u], values)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(
        got.astype(float), want.astype(float), rtol=tolerance, atol=tolerance
    )
    return sorted_


@pytest.mark.parametrize("op", [Op.WHERE, Op.ADD, Op.MUL, Op.MAX, Op.MIN], ids=lambda op: op.value)
@pytest.mark.parametrize("dtype", [INT32, INT64, int8.dtype], ids=str)
def test_every_monoid_of_integers_is_exact(op: Op, dtype: DType) -> None:
    u = build.scatter(
        p(0, 13, dtype=dtype), p(1, MANY, 1, dtype=INT32), p(2, MANY, 1, dtype=dtype), op
    )
    rng = np.random.default_rng(1)
    values = [rng.integers(-9, 9, n).astype(dtype) for n in ((13,), (MANY, 1))]
    check(u, [values[0], drawn(2, MANY, 1, most=13), values[1]])


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16], ids=str)
def test_sums_of_floats_are_within_their_rounding(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.normal(size=n).astype(np.float32).astype(dtype) for n in ((11,), (MANY, 1)))
    u = build.scatter(p(0, 11, dtype=dtype), p(1, MANY, 1, dtype=INT32),
                      p(2, MANY, 1, dtype=dtype), Op.ADD)  # fmt: skip
    check(u, [x, drawn(4, MANY, 1, most=11), y], 1e-4 if dtype == FLOAT32 else 0.5)


@pytest.mark.parametrize("rows", [3, 255, 256, 70000])
def test_rows_of_any_number(rows: int) -> None:
    """Their numbers are keys of 8, 16 or 32 bits."""
    u = build.scatter(
        p(0, rows, 5, dtype=INT32),
        p(1, MANY, 1, dtype=INT64),
        p(2, MANY, 1, 5, dtype=INT32),
        Op.ADD,
    )
    rng = np.random.default_rng(5)
    x, y = (rng.integers(-9, 9, n).astype(np.int32) for n in ((rows, 5), (MANY, 1, 5)))
    sorted_ = check(u, [x, drawn(6, MANY, 1, most=rows, dtype=INT64), y])
    (key,) = {v.src[0].dtype.itemsize for v in walk([sorted_]) if v.op is Op.SORT}
    assert key == {3: 1, 255: 1, 256: 2, 70000: 4}[rows]


def test_several_axes_and_batches() -> None:
    u = build.scatter(
        p(0, 2, 5, 7, 3, dtype=INT32),
        p(1, 2, 50, 20, 2, dtype=INT32),
        p(2, 2, 50, 20, 1, 1, 3, dtype=INT32),
        Op.ADD,
        1,
    )
    rng = np.random.default_rng(7)
    x = rng.integers(-9, 9, (2, 5, 7, 3)).astype(np.int32)
    y = rng.integers(-9, 9, (2, 50, 20, 1, 1, 3)).astype(np.int32)
    check(u, [x, drawn(8, 2, 50, 20, 2, most=6), y])


def test_indices_whose_dtype_cannot_hold_the_bound() -> None:
    u = build.scatter(
        p(0, 300, dtype=INT32),
        p(1, MANY, 1, dtype=uint8.dtype),
        p(2, MANY, 1, dtype=INT32),
        Op.ADD,
    )
    values = [np.zeros(300, np.int32), drawn(9, MANY, 1, most=250, dtype=uint8.dtype)]
    check(u, [*values, np.ones((MANY, 1), np.int32)])


def test_threads_in_lockstep_have_the_values_and_do_not_race(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grid_scatter, "MIN_UPDATES", 20)
    rng = np.random.default_rng(11)
    for op in (Op.ADD, Op.WHERE):
        u = build.scatter(p(0, 9, 2), p(1, 150, 1, dtype=INT32), p(2, 150, 1, 2), op)
        x, y = (rng.normal(size=n).astype(np.float32) for n in ((9, 2), (150, 1, 2)))
        check_passes(jaxpr([u]), [x, drawn(12, 150, 1, most=9), y], GRID, tolerance=1e-4)


def test_scatters_that_stay_in_order() -> None:
    def stays(shape: tuple[int, ...], count: int, *sizes: int, axes: int = 1) -> bool:
        u = build.scatter(p(0, *shape), p(1, count, axes, dtype=INT32), p(2, count, *sizes), Op.ADD)
        return scatter_on_grid(u, GRID) is u

    assert not stays((10, 3), MANY, 1, 3)
    assert stays((10, 3), MIN_UPDATES - 1, 1, 3)  # few
    assert stays((10, 3), MANY, 2, 3)  # windows that overlap
    assert stays((10, 0), MANY, 1, 0)  # nothing
