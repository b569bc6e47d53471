"""Arrays on grids: sorts, scans and scatters are shared among threads, in every body."""

from __future__ import annotations

import numpy as np

from tests.lower.check_passes import GRID
from tests.lower.graphs import p, run_oracle
from tfn.dtypes import INT32
from tfn.lower.grids.arrays import rewritten
from tfn.numpy.cumulative import running
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk


def ops(outputs: list[UOp]) -> set[Op]:
    return {u.op for u in walk(outputs)}


def test_sorts_and_scans_are_shared() -> None:
    outputs = [*build.sort([p(0, 5000, dtype=INT32)]), running(p(1, 5000), Op.ADD)]
    shared = rewritten(outputs, GRID)
    assert Op.SCAN not in ops(shared) and Op.SCATTER in ops(shared)


def test_a_sort_of_prefix_sums() -> None:
    """The operand of one shared op is the result of another."""
    sums = running(p(0, 3000, dtype=INT32), Op.ADD)
    outputs = build.sort([sums % 97, build.iota((3000,), 0)])
    x = np.random.default_rng(0).integers(-50, 50, 3000).astype(np.int32)
    got, want = run_oracle(rewritten(outputs, GRID), [x]), run_oracle(outputs, [x])
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_operands_are_not_packed() -> None:
    product = build.dot(p(0, 128, 70), p(1, 128, 70), ((1,), (1,)))
    assert rewritten([product], GRID) == [product]


def test_values_without_them_are_the_same_nodes() -> None:
    outputs = [p(0, 7) * 2.0]
    assert rewritten(outputs, GRID)[0] is outputs[0]
