"""Selected loads: rolled rows are loaded once, at the address that their condition selects."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.check_passes import HOST, SMALL, check_passes
from tests.lower.codegen.test_linearize import only
from tests.lower.graphs import assert_matches_oracle, inputs, jaxpr, p
from tfn.dtypes import FLOAT32, DType, uint8
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const


def rolled(x: UOp, steps: int, axis: int) -> UOp:
    """NumPy's roll, as a concatenation of two parts."""
    n = x.shape[axis]
    cut = (n - steps) % n
    bounds = [0 if a != axis else cut for a in range(x.ndim)]
    head = [n if a != axis else cut for a, n in enumerate(x.shape)]
    parts = build.shrink(x, bounds, x.shape), build.shrink(x, [0] * x.ndim, head)
    return build.concat(list(parts), axis)


def masked(items: tuple[UOp, ...]) -> int:
    return sum(u.op is Op.LOAD and len(u.src) > 2 for u in items)


@pytest.mark.parametrize("target", [HOST, SMALL], ids=["wide", "narrow"])
@pytest.mark.parametrize("dtype", [uint8.dtype, FLOAT32], ids=str)
def test_rolled_rows_are_loaded_once(dtype: DType, target: Target) -> None:
    x = p(0, 12, 160, dtype=dtype)
    above, below = rolled(x, 1, 0), rolled(x, -1, 0)
    items = only(above + x + below, target=target)
    loads, stores = (sum(u.op is op for u in items) for op in (Op.LOAD, Op.STORE))
    assert loads == 3 * stores and not masked(items)
    check_passes(jaxpr([above + below]), inputs([above + below]), target)
    assert_matches_oracle([above + x + below])


@pytest.mark.parametrize("steps", [1, -1, 7, 40])
@pytest.mark.parametrize("shape", [(5, 203), (6, 160), (3, 4, 96)], ids=str)
def test_neighbours_on_a_torus(shape: tuple[int, ...], steps: int) -> None:
    x = p(0, *shape, dtype=uint8.dtype)
    rows = x.ndim - 2
    around = rolled(x, steps % shape[rows], rows) + x
    total = rolled(around, steps, x.ndim - 1) + around
    assert_matches_oracle([total])
    check_passes(jaxpr([total]), inputs([total]))


def test_loads_of_other_conditions_stay() -> None:
    """A pad has one load, and the value elsewhere is no element."""
    x = p(0, 12, 160)
    padded = build.pad(x, (1, 0), (1, 0), None, const(np.float32(2), FLOAT32))
    either = build.where(p(1, 14, 160) < 0.0, padded, padded * 2.0)
    assert_matches_oracle([either])
