"""Scatters into a few elements: the values of updates in order, by a reduction in vectors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.check_passes import HOST
from tests.lower.graphs import jaxpr, p, run_compiled
from tfn.dtypes import FLOAT32, FLOAT64, INT32, DType
from tfn.lower.graph.few_bins import MAX_BINS, MIN_UPDATES, scatter_as_reduction
from tfn.lower.pipeline import lower
from tfn.trace import build, oracle
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk


def added(bins: int, count: int, dtype: DType, op: Op = Op.ADD) -> tuple[UOp, ...]:
    """A scatter, its operand, indices and updates."""
    y, at, x = p(0, bins, dtype=dtype), p(1, count, 1, dtype=INT32), p(2, count, 1, dtype=dtype)
    return build.scatter(y, at, x, op), y, at, x


@pytest.mark.parametrize("op", [Op.ADD, Op.MIN, Op.MAX], ids=lambda op: op.value)
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, INT32], ids=str)
@pytest.mark.parametrize("bins", [1, 5, MAX_BINS])
def test_values_are_those_of_updates_in_order(bins: int, dtype: DType, op: Op) -> None:
    u, y, at, x = added(bins, MIN_UPDATES + 13, dtype, op)
    random = np.random.default_rng(3)
    values = [
        random.integers(-9, 9, bins).astype(dtype),
        random.integers(-2, bins + 2, at.shape).astype(INT32),  # some of them fit nowhere
        random.integers(-9, 9, x.shape).astype(dtype),
    ]
    (want,) = oracle.evaluate([u], dict(zip((y, at, x), values, strict=True)))
    np.testing.assert_array_equal(run_compiled([u], values)[0], want)


@pytest.mark.parametrize("shape", [(2, 2), (4, 1, 3), (16, 1)], ids=str)
def test_rows_are_added_to_few_rows(shape: tuple[int, ...]) -> None:
    n = MIN_UPDATES + 5
    y, at, x = p(0, *shape), p(1, n, 1, dtype=INT32), p(2, n, 1, *shape[1:])
    u = build.scatter(y, at, x, Op.ADD)
    assert scatter_as_reduction(u, HOST) is not u
    random = np.random.default_rng(4)
    values = [
        random.integers(-9, 9, shape).astype(FLOAT32),
        random.integers(-1, shape[0] + 1, at.shape).astype(INT32),
        random.integers(-9, 9, x.shape).astype(FLOAT32),
    ]
    (want,) = oracle.evaluate([u], dict(zip((y, at, x), values, strict=True)))
    np.testing.assert_array_equal(run_compiled([u], values)[0], want)


def test_what_is_not_hit_stays_as_it_is() -> None:
    u, *_ = added(4, MIN_UPDATES, FLOAT32)
    operand = np.array([-0.0, 0.0, np.inf, np.nan], FLOAT32)
    nowhere = np.full((MIN_UPDATES, 1), 7, INT32)
    (got,) = run_compiled([u], [operand, nowhere, np.ones((MIN_UPDATES, 1), FLOAT32)])
    assert got.tobytes() == operand.tobytes()


def test_only_few_elements_and_many_updates_are_reduced() -> None:
    for bins, count, few in ((MAX_BINS, MIN_UPDATES, True), (MAX_BINS + 1, MIN_UPDATES, False),
                             (MAX_BINS, MIN_UPDATES - 1, False)):  # fmt: skip
        u, *_ = added(bins, count, FLOAT32)
        assert (scatter_as_reduction(u, HOST) is not u) is few
        bodies = [k.source for k in lower(jaxpr([u]), HOST).kernels if k.source is not None]
        assert any(v.op is Op.FOLD for v in walk(bodies)) is few


def test_computed_indices_are_computed_once() -> None:
    y, at, x = p(0, 8), p(1, 4096, 1, dtype=INT32), p(2, 4096, 1)
    index = build.minimum(at * at, build.full_like(at, 7))
    kernels = lower(jaxpr([build.scatter(y, index, x, Op.ADD)]), HOST).kernels
    assert len(kernels) == 2
