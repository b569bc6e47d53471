"""Meanings of instructions of floats, evaluated by the oracle and compared with NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.hw.amd.emulator.test_meaning import evaluated, pairs
from tfn.dtypes import FLOAT16, FLOAT32, FLOAT64, DType
from tfn.hw.amd.emulator import floats
from tfn.hw.amd.emulator import meaning as m


def specials(dtype: DType) -> Any:
    """Zeros, subnormal numbers, powers, infinities and NaN, with both signs."""
    info = np.finfo(dtype)
    tiny = [0.0, info.smallest_subnormal, info.tiny / 3, info.tiny, 0.3, 0.5, 1.0, 1.5, 2.5]
    with np.errstate(over="ignore"):
        x = np.array([*tiny, 1e4, float(info.max) / 3, info.max, np.inf, np.nan], dtype)
    return np.concatenate([x, -x])


@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32, FLOAT64])
def test_mantissas_and_exponents(dtype: DType) -> None:
    x = specials(dtype)
    fraction, exponent = evaluated(floats.mantissa, x)[0], evaluated(floats.exponent_of, x)[0]
    for value, f, e in zip(x.astype(float), fraction.astype(float), exponent):
        expected = math.frexp(value) if math.isfinite(value) else (value, 0)
        np.testing.assert_array_equal((f, e), expected)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64])
def test_powers_of_two_are_applied_with_one_rounding(dtype: DType) -> None:
    x, n = (v.ravel() for v in np.meshgrid(specials(dtype), np.arange(-2200, 2200, 37)))
    with np.errstate(all="ignore"):
        expected = np.ldexp(x.astype(np.longdouble), n).astype(dtype)
        got = evaluated(floats.scaled, x, n.astype(np.int32))[0]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64])
def test_a_division_by_its_steps_is_rounded_correctly(dtype: DType) -> None:
    """The sequence that LLVM selects, with a reciprocal that is off by a few units."""
    n, d = pairs(specials(dtype))
    with np.errstate(all="ignore"):
        scaled_d, _ = evaluated(floats.division_scaled, d, d, n)
        scaled_n, flag = evaluated(floats.division_scaled, n, d, n)

        def fma(a: Any, b: Any, c: Any) -> Any:
            return evaluated(m.fused, a, b, c)[0]

        one = np.ones_like(n)
        r = (one / scaled_d * dtype.type(1 + 2 * np.finfo(dtype).eps)).astype(dtype)
        for _ in range(2):
            r = fma(fma(-scaled_d, r, one), r, r)
        q = scaled_n * r
        q = fma(fma(-scaled_d, q, scaled_n), r, q)
        rest = fma(-scaled_d, q, scaled_n)
        q = evaluated(floats.division_step, rest, r, q, flag)[0]
        got, expected = evaluated(floats.division_fixed, q, d, n)[0], n / d
        info = np.finfo(dtype)
        rest = np.abs(got - expected) <= info.smallest_subnormal  # a small quotient, rounded twice
    small = np.abs(expected) < info.tiny
    np.testing.assert_array_equal(got[~small], expected[~small])
    assert rest[small].all() and small.any()


@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32, FLOAT64])
def test_each_float_is_of_one_class(dtype: DType) -> None:
    x, tiny = specials(dtype), np.finfo(dtype).tiny
    negative, size = np.signbit(x), np.abs(x)
    index = np.where(negative, 3, 8)
    index = np.where(size < tiny, np.where(negative, 4, 7), index)
    index = np.where(size == 0, np.where(negative, 5, 6), index)
    index = np.where(np.isinf(x), np.where(negative, 2, 9), index)
    index = np.where(np.isnan(x), 1, index)
    for bit in range(10):
        got = evaluated(floats.of_class, x, np.full(x.shape, 1 << bit, np.uint32))[0]
        np.testing.assert_array_equal(got, index == bit)


def test_the_larger_of_a_number_and_a_nan_is_the_number() -> None:
    a, b = pairs(specials(FLOAT32))
    np.testing.assert_array_equal(evaluated(floats.largest, a, b)[0], np.fmax(a, b))
    np.testing.assert_array_equal(evaluated(floats.smallest, a, b)[0], np.fmin(a, b))
    zeros = np.array([0.0, -0.0], np.float32)
    assert not np.signbit(evaluated(floats.largest, zeros, zeros[::-1])[0]).any()
    assert np.signbit(evaluated(floats.smallest, zeros, zeros[::-1])[0]).all()
