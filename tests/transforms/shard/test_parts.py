"""What devices exchange for ops along divided axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.transforms.shard.test_report import normal, put
from tfn import lax
from tfn.trace.op import Op
from tfn.transforms.shard.parts import LOCAL

pytestmark = pytest.mark.usefixtures("eight_devices")
ROW_BYTES = 8 * 4


def conv(x: Any) -> Any:
    """Windows of three rows, with zeros around."""
    return lax.conv(x.T[None], tnp.ones((1, 8, 3)), (1,), "SAME")


def pooled(x: Any) -> Any:
    return lax.reduce_window(x, -np.inf, lax.max, (2, 1), (2, 1), "VALID")


@pytest.mark.parametrize(
    ("f", "rows"),
    [
        (conv, 2),
        (lambda x: conv(x).sum(), 2),
        (tfn.grad(lambda x: (conv(x) ** 2).sum()), 2 + 2 / 8),
        (pooled, 0),
        (lambda x: x[::2], 0),
        (lambda x: (x[1:] - x[:-1]).max(), 1),
        (lambda x: tnp.roll(x, 1, 0), 1),
        (lambda x: tnp.flip(x, 0), 8),
        (lambda x: tnp.pad(x, ((0, 64), (0, 0))).sum(1), 32),
    ],
)
def test_rows_received(f: Callable[..., Any], rows: float) -> None:
    mesh = tfn.make_mesh((8,), ("x",), tfn.sharding.AxisType.Auto)
    x = normal(64, 8)
    run = tfn.jit(f)
    np.testing.assert_allclose(run(put(x, mesh, "x")), run(x), rtol=1e-5, atol=1e-5)
    cost = run.lower(put(x, mesh, "x")).cost_analysis()
    assert cost.get("permute[x] bytes", 0) == rows * ROW_BYTES
    assert not any(key.startswith("all_gather") for key in cost)


def test_ops_that_are_another_one_on_parts() -> None:
    assert Op.ADD not in LOCAL and Op.DOT not in LOCAL
    assert {Op.SHRINK, Op.PAD, Op.CONCAT, Op.FLIP, Op.CONV, Op.SORT} < set(LOCAL)
