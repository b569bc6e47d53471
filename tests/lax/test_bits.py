"""Bits against Python's integers and NumPy's floats, at the edges of every width."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.errors import ArgumentError, DTypeError, ShapeError

INTEGERS = [f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)]


def integers(dtype: str) -> np.ndarray[Any, Any]:
    info = np.iinfo(dtype)
    some = [0, 1, 2, 3, 7, 85, 100, int(info.max), int(info.min), int(info.max) // 2 + 1]
    return np.array(some, dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_are_counted(dtype: str) -> None:
    x = integers(dtype)
    width = 8 * x.itemsize
    whole = [int(v) % (1 << width) for v in x.tolist()]
    count, zeros = lax.population_count(x), tfn.jit(lax.clz)(x)
    assert count.dtype == zeros.dtype == dtype
    assert count.tolist() == [v.bit_count() for v in whole]
    assert zeros.tolist() == [width - v.bit_length() for v in whole]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nextafter(dtype: str) -> None:
    info = np.finfo(dtype)
    some = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        info.max,
        -info.max,
        info.tiny,
        info.smallest_subnormal,
        -info.smallest_subnormal,
        np.inf,
        -np.inf,
        np.nan,
        2.5,
    ]
    x, y = (v.ravel() for v in np.meshgrid(np.array(some, dtype), np.array(some, dtype)))
    with np.errstate(all="ignore"):
        expected = np.nextafter(x, y)
    actual = np.asarray(lax.nextafter(x, y))
    np.testing.assert_array_equal(actual, expected)
    stepped = (actual == 0) & (x != y)
    np.testing.assert_array_equal(np.signbit(actual[stepped]), np.signbit(expected[stepped]))


def test_precision_of_other_formats() -> None:
    rng = np.random.default_rng(0)
    x = np.r_[np.exp(rng.uniform(-30, 30, 500)), 0, np.inf, 65519, 65520, 6e-5].astype("float32")
    x = np.r_[x, -x, np.float32(np.nan)]
    brain = lax.reduce_precision(x, 8, 7)
    np.testing.assert_array_equal(brain, x.astype(ml_dtypes.bfloat16).astype("float32"))
    with np.errstate(over="ignore"):
        half = x.astype("float16").astype("float32")
    half = np.where(np.abs(half) < np.finfo("float16").tiny, np.copysign(0, x), half)
    np.testing.assert_array_equal(lax.reduce_precision(x, 5, 10), half)
    np.testing.assert_array_equal(lax.reduce_precision(x, 8, 23), x)
    assert float(tfn.grad(lambda v: lax.reduce_precision(v, 5, 3) ** 2)(1.03)) == 2.0


def test_bits_read_as_another_width() -> None:
    x = np.array([[1.5, -2.25], [0.0, 3e38]], "float32")
    for dtype in ("uint8", "int16", "uint32"):
        parts = lax.bitcast_convert_type(x, dtype)
        assert parts.tolist() == x.reshape(2, 2, 1).view(dtype).reshape(parts.shape).tolist()
        again = tfn.jit(lambda v: lax.bitcast_convert_type(v, "float32"))(parts)
        np.testing.assert_array_equal(again, x)
    assert lax.bitcast_convert_type(np.zeros((3, 8), "uint8"), "float64").shape == (3,)


def test_refusals() -> None:
    for f in (lax.population_count, lax.clz):
        with pytest.raises(DTypeError, match="integers"):
            f(1.5)
    with pytest.raises(DTypeError, match=r"f32\[2\], f64\[2\]"):
        lax.nextafter(np.ones(2, "float32"), np.ones(2))
    with pytest.raises(ArgumentError, match="reduce_precision needs exponent_bits >= 1"):
        lax.reduce_precision(1.0, 0, 3)
    with pytest.raises(ShapeError, match="2 elements along the last axis"):
        lax.bitcast_convert_type(np.zeros(3, "uint16"), "uint32")
    with pytest.raises(DTypeError, match="bool"):
        lax.bitcast_convert_type(np.zeros(3, "uint16"), "bool")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64", "int4"])
def test_upper_halves_of_products_are_those_of_python(dtype):
    info = tnp.iinfo(dtype)
    low, high, width = int(info.min), int(info.max), int(info.bits)
    edges = [low, low + 1, -1, 0, 1, 3, high // 3, high - 1, high]
    values = [v for v in edges if low <= v <= high]
    pairs = [(x, y) for x in values for y in values]
    x, y = (tnp.array([p[i] for p in pairs], dtype) for i in range(2))
    assert lax.mulhi(x, y).tolist() == [(a * b) >> width for a, b in pairs]
