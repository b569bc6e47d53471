"""In-register transpose: squares of vectors, by shuffles."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.graphs import assert_matches_oracle, p
from tfn.dtypes import BFLOAT16, BOOL, FLOAT32, FLOAT64, INT32, DType, int8, int16
from tfn.lower.codegen.register_transpose import transpose
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_transpose_makes_columns_of_rows(n: int) -> None:
    rows = [UOp(Op.PARAM, (), Param(i, (n,), FLOAT32)) for i in range(n)]
    value = np.arange(n * n, dtype=np.float32).reshape(n, n)
    values = dict(zip(rows, value, strict=True))
    shuffles: list[UOp] = []

    def add(u: UOp) -> UOp:
        a, b = (values[s] for s in u.src)
        values[u] = np.concatenate([a, b])[list(u.arg)]
        shuffles.append(u)
        return u

    columns = transpose(rows, add)
    assert np.array_equal([values[u] for u in columns], value.T)
    assert len(shuffles) == n * n.bit_length() - n, "n shuffles for each doubling"
    assert transpose(rows, add) == columns, "the rows themselves are not touched"


@pytest.mark.parametrize(("lanes", "rows", "group"), [(8, 8, 4), (8, 4, 4), (16, 4, 4), (4, 4, 2)])
def test_groups_of_elements_move_together(lanes: int, rows: int, group: int) -> None:
    """Four rows of eight lanes are two squares, side by side."""
    dtype = int8.dtype if group == 4 else int16.dtype
    vectors = [UOp(Op.PARAM, (), Param(i, (lanes * group,), dtype)) for i in range(rows)]
    value = np.arange(rows * lanes * group).reshape(rows, lanes, group)
    values = dict(zip(vectors, value, strict=True))

    def add(u: UOp) -> UOp:
        both = np.concatenate([values[s] for s in u.src]).reshape(-1)
        values[u] = both[list(u.arg)].reshape(lanes, group)
        return u

    columns = [values[u] for u in transpose(vectors, add, group)]
    apart = value.reshape(rows, lanes // rows, rows, group)
    assert np.array_equal(columns, apart.transpose(2, 1, 0, 3).reshape(rows, lanes, group))


@pytest.mark.parametrize("shape", [(16, 16), (33, 50), (1, 70), (64, 17), (3, 40, 21)])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, INT32, BOOL, BFLOAT16], ids=lambda d: d.name)
def test_transposes_on_this_machine(shape: tuple[int, ...], dtype: DType) -> None:
    x = p(0, *shape, dtype=dtype)
    order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    assert_matches_oracle([build.permute(x, order)])


def test_a_transposed_operand_beside_a_plain_one() -> None:
    x, y = p(0, 40, 50), p(1, 50, 40)
    assert_matches_oracle([build.permute(x, (1, 0)) + y, build.permute(x, (1, 0)) * y])
