"""The largest elements on a processor: selected if they are few, else the end of a sort."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.check_passes import HOST
from tests.lower.codegen.sort.test_sort import draw
from tests.lower.graphs import Value, p, run_oracle
from tfn.dtypes import FLOAT32, INT32, INT64, DType
from tfn.lower.fuse.sharing import share
from tfn.trace import build
from tfn.trace.argument import Sort
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk


def results(x: Value, k: int, keys: int = 1) -> list[UOp]:
    """The largest of rows, by the first `keys` of two operands, with their numbers."""
    operand = p(0, *x.shape, dtype=x.dtype)
    numbers = build.iota(x.shape, x.ndim - 1, INT32)
    return build.several(UOp(Op.SORT, (operand, numbers), Sort(keys, largest=k)))


@pytest.mark.parametrize("dtype", [FLOAT32, INT32, INT64], ids=lambda d: d.name)
@pytest.mark.parametrize("k", [0, 1, 5, 90, 101])
def test_values_are_those_of_a_sort(dtype: DType, k: int) -> None:
    x = draw((3, 101), dtype, k)
    if dtype == FLOAT32:
        x[:, ::9] = np.nan
    for keys in (1, 2):
        want = run_oracle(results(x, k, keys), [x])
        got = run_oracle(share(results(x, k, keys), HOST), [x])
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)
        stable = np.lexsort((np.arange(101) * np.ones((3, 1)), -x.astype(np.float64)), axis=1)
        if keys == 1 and dtype != FLOAT32:
            np.testing.assert_array_equal(want[1], stable[:, :k])


def test_few_of_many_are_selected() -> None:
    few, many = (
        [u.op for u in walk(share(results(draw((2, 9999), FLOAT32, 1), k), HOST))]
        for k in (3, 5000)
    )
    assert Op.SCAN in few and Op.SORT not in few
    assert Op.SORT in many and Op.SCAN not in many
