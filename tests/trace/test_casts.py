"""Casts of NumPy arrays, and ops on narrow values."""

from __future__ import annotations

import numpy as np
import pytest

from tfn.dtypes import NARROW, NARROW_FLOATS, float8_e4m3fn, float8_e5m2, int4, uint2, wide_type
from tfn.trace.argument import Dot, Reduce, Sort
from tfn.trace.casts import cast, computes_narrow
from tfn.trace.op import Op
from tfn.trace.oracle import apply


@pytest.mark.parametrize("dtype", [np.dtype("int8"), int4.dtype, uint2.dtype], ids=str)
def test_floats_saturate_and_nan_is_zero(dtype: np.dtype) -> None:
    x = np.float32([np.nan, np.inf, -np.inf, 1.9, -0.9])
    top, bottom = (int(cast(dtype, np.float32([v]))[0]) for v in (1e9, -1e9))
    assert [int(v) for v in cast(dtype, x)] == [0, top, bottom, 1, 0]
    assert cast(np.dtype(bool), x).all()


def test_casts_between_narrow_types_go_through_a_wide_one() -> None:
    x = np.array([1.5, -3, 448], float8_e4m3fn.dtype)
    assert [float(v) for v in cast(float8_e5m2.dtype, x)] == [1.5, -3, 448]
    assert [int(v) for v in cast(int4.dtype, x)] == [1, -3, 7]


def test_ops_are_rounded_once() -> None:
    x = np.array([1.125, 16], float8_e4m3fn.dtype)
    y = np.array([1.125, 1], float8_e4m3fn.dtype)
    product = apply(Op.MUL, None, x, y)
    assert product.dtype == x.dtype and [float(v) for v in product] == [1.25, 16]
    assert float(apply(Op.REDUCE, Reduce(Op.ADD, (0,)), x)) == 18  # 17.125, of which no 8 bits are
    assert apply(Op.LT, None, y, x).tolist() == [False, True]
    dot = apply(Op.DOT, Dot((0,), (0,), (), (), np.dtype("float32")), x, y)
    assert dot.dtype == np.float32 and dot == 1.125**2 + 16
    (ordered,) = apply(Op.SORT, Sort(1), x[::-1])
    assert ordered.dtype == x.dtype and float(ordered[0]) == 1.125


def test_what_moves_elements_computes_nothing() -> None:
    x = np.array([1, -8], int4.dtype)
    assert computes_narrow(Op.ADD, [x, x]) and not computes_narrow(Op.FLIP, [x])
    assert not computes_narrow(Op.ADD, [np.zeros(2)])
    assert all(wide_type(d) == ("float32" if d in NARROW_FLOATS else wide_type(d)) for d in NARROW)
