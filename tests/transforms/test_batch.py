"""One more axis: total over the ops, and equal to a stack of single results."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.covering import together
from tests.transforms.cases import CASES, Case, leaf, run
from tfn.trace import build
from tfn.trace.uop import UOp
from tfn.transforms.batch import batch
from tfn.transforms.jvp import push
from tfn.transforms.transpose import pull

SIZE = 3


def lanes(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The value, and others like it."""
    if value.dtype == bool:
        return np.stack([value, ~value, value])
    if value.dtype.kind == "f":
        return np.stack([value, value * 0.9, value * 1.05])
    if value.ndim == 0:
        return np.stack([value, value + 1, value * 2])
    return np.stack([value, value[::-1], np.roll(value, 1)])


def check(outputs: list[UOp], values: dict[UOp, Any], mapped: list[UOp]) -> None:
    """Batched results equal the stack of single ones."""
    many = {u: lanes(values[u]) for u in mapped}
    batched = {u: leaf(many[u]) for u in mapped}
    found = batch(outputs, batched, SIZE)
    full = [b.full(SIZE) for b in found]
    together = run(full, values | {batched[u]: many[u] for u in mapped})
    apart = [run(outputs, values | {u: many[u][i] for u in mapped}) for i in range(SIZE)]
    for one, singles in zip(together, zip(*apart)):
        np.testing.assert_allclose(one, np.stack(singles), rtol=1e-12, atol=1e-12)


@together("case", CASES, ids=lambda case: case.name)
def test_equals_a_stack(case: Case) -> None:
    leaves, values = case.leaves()
    y = case.graph(*leaves)
    for chosen in product([False, True], repeat=len(leaves)):
        check([y], values, [u for u, yes in zip(leaves, chosen) if yes])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_derivatives_equal_a_stack(case: Case) -> None:
    leaves, values = case.leaves()
    differentiated = leaves[: len(case.differentiated)]
    y = case.graph(*leaves)
    ct = leaf(run([y], values)[0])
    dxs = [leaf(x) for x in case.differentiated]
    (dy,) = push([y], dict(zip(differentiated, dxs)))
    cts = [c for c in pull([dy], dxs, [ct]) if c is not None]
    rng = np.random.default_rng(11)
    values |= {ct: rng.normal(size=ct.shape)} | {d: rng.normal(size=d.shape) for d in dxs}
    outputs = cts if dy is None else [dy, *cts]
    check(outputs, values, [ct, *dxs])
    check(outputs, values, leaves)


def test_independent_values_stay_unbatched() -> None:
    x, y = leaf(np.ones(2)), leaf(np.ones(2))
    xs = leaf(np.ones((SIZE, 2)))
    assert batch([y * 2.0, x], {x: xs}, SIZE) == [(y * 2.0, False), (xs, True)]


def test_a_table_shared_by_all_lanes_is_not_copied() -> None:
    table, index = leaf(np.ones((100, 8))), leaf(np.zeros((5, 1), np.int32))
    many = leaf(np.zeros((SIZE, 5, 1), np.int32))
    ((rows, _),) = batch([build.gather(table, index, (1, 8))], {index: many}, SIZE)
    assert rows.src == (table, many)
