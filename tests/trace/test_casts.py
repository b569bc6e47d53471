"""Casts of NumPy arrays, and ops on narrow values."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import dtypes
from tfn.dtypes import NARROW, NARROW_FLOATS, float8_e4m3fn, float8_e5m2, int4, uint2, wide_type
from tfn.trace.argument import Dot, Reduce, Sort
from tfn.trace.casts import FROM_FLOAT32, cast, computes_narrow
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


SHORT = [dtypes.FLOAT16, *sorted(FROM_FLOAT32 - {dtypes.float8_e8m0fnu.dtype}, key=str)]


@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("where", ["oracle", "compiled"])
def test_a_float64_beside_a_tie_is_rounded_once(dtype, where):
    count = 16 if dtype == dtypes.float4_e2m1fn.dtype else 1 << 8 * dtype.itemsize
    codes = np.arange(count, dtype=f"u{dtype.itemsize}")[:: max(count // 2**12, 1)]
    with np.errstate(invalid="ignore"):  # some codes are NaN
        values = np.unique(codes.view(dtype).astype(np.float32).astype(np.float64))
    values = values[np.isfinite(values) & (abs(values) > 0)]
    above = np.nextafter(values.astype(dtype), np.array(np.inf, dtype)).astype(np.float64)
    fits = np.isfinite(above) & (above != 0) & (above > values)
    values, above = values[fits], above[fits]
    middle = (values + above) / 2
    off = abs(above - values) * 2.0**-35
    x = np.concatenate([middle - off, middle + off])
    cast_ = tfn.jit(lambda x: x.astype(dtype)) if where == "compiled" else partial(cast, dtype)
    got = np.asarray(cast_(tnp.array(x) if where == "compiled" else x)).astype(np.float64)
    np.testing.assert_array_equal(got, np.concatenate([values, above]))


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("where", ["oracle", "compiled"])
def test_an_integer_beside_a_tie_is_rounded_once(kind, where):
    ties = np.array([(257 + 2 * i) << at for at in range(10, 22) for i in range(60)], kind)
    if "64" in kind:
        ties = np.concatenate([ties, ties << np.array(32, kind)])
    x = np.concatenate([ties - np.array(1, kind), ties + np.array(1, kind)])
    x = np.concatenate([x, -x]) if kind[0] == "i" else x
    dtype = dtypes.BFLOAT16
    cast_ = tfn.jit(lambda x: x.astype(dtype)) if where == "compiled" else partial(cast, dtype)
    got = np.asarray(cast_(tnp.array(x) if where == "compiled" else x))
    exact = [int(v) for v in x.tolist()]
    want = [_rounded(abs(v)) * (1 if v > 0 else -1) for v in exact]
    assert got.astype(np.float64).tolist() == want


def _rounded(v: int) -> float:
    """An integer that is no tie with 8 bits."""
    least = v.bit_length() - 8
    return float((v + (1 << (least - 1))) >> least << least)


def test_numbers_of_float64_become_float16_by_one_rounding():
    x = tnp.array(np.array([65519.999999, 1 + 2**-11 + 2**-40]))
    assert x.astype("float16").tolist() == [65504.0, 1 + 2**-10]
    assert tnp.asarray(1 + 2**-8 + 2**-30, "bfloat16").item() == 1 + 2**-7
    assert tnp.full((), 1 + 2**-8 + 2**-30, "bfloat16").item() == 1 + 2**-7
