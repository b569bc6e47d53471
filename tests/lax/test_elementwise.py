"""Arithmetic of elements against NumPy, and where the two mean different things."""

from typing import Any

import numpy as np
import pytest

import tfn
from tfn import lax
from tfn.errors import ArgumentError, DTypeError, ShapeError


def test_division_of_integers_goes_towards_zero() -> None:
    x = np.array([-7, -6, -1, 0, 1, 7], np.int8)
    y = np.array([2, -4, 3, 5, -2, -3], np.int8)
    np.testing.assert_array_equal(lax.div(x, y), [-3, 1, 0, 0, 0, -2])
    np.testing.assert_array_equal(lax.rem(x, y), [-1, -2, -1, 0, 1, 1])
    np.testing.assert_array_equal(lax.div(np.uint8(250), np.uint8(7)), 35)
    np.testing.assert_array_equal(lax.rem(np.uint8(250), np.uint8(7)), 5)


def test_remainder_of_floats_has_the_sign_of_the_dividend() -> None:
    x, y = np.array([-7.5, 7.5, -6], np.float32), np.array([2, -2, 4], np.float32)
    np.testing.assert_array_equal(lax.rem(x, y), np.fmod(x, y))


def test_round_takes_halves_away_from_zero() -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609, np.inf], np.float32)
    np.testing.assert_array_equal(lax.round(x), [-3, -2, -1, 1, 2, 3, 0, 8388609, np.inf])
    even = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    np.testing.assert_array_equal(even, np.rint(x))


def test_nan_and_infinity() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    np.testing.assert_array_equal(lax.is_finite(x), np.isfinite(x))
    np.testing.assert_array_equal(lax.max(x, 0.0), np.maximum(x, 0))
    np.testing.assert_array_equal(lax.clamp(-1.0, x, 1.0), [np.nan, 1, -1, 1])
    np.testing.assert_array_equal(lax.ne(x, x), [True, False, False, False])


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 5, 10])
def test_integer_pow(n: int) -> None:
    x = np.array([-1.5, 0.5, 2.0], np.float32)
    np.testing.assert_allclose(lax.integer_pow(x, n), x.astype(np.float64) ** n, rtol=1e-5)
    np.testing.assert_allclose(lax.pow(x, n), x.astype(np.float64) ** n, rtol=1e-5)


def test_pow() -> None:
    x = np.array([0.5, 2, 3], np.float32)
    np.testing.assert_allclose(lax.pow(x, 2.5), x**2.5, rtol=1e-6)
    np.testing.assert_allclose(lax.pow(x, np.array([1, 2, 3])), [0.5, 4, 27], rtol=1e-6)
    with pytest.raises(ArgumentError, match="no negative powers"):
        lax.integer_pow(np.arange(3), -1)


def test_bits() -> None:
    x = np.array([-8, 7], np.int8)
    np.testing.assert_array_equal(lax.shift_right_arithmetic(x, 1), [-4, 3])
    np.testing.assert_array_equal(lax.shift_right_logical(x, 1), [124, 3])
    np.testing.assert_array_equal(lax.shift_right_arithmetic(x.view(np.uint8), 1), [252, 3])
    np.testing.assert_array_equal(lax.shift_left(x, 9), [0, 0])
    np.testing.assert_array_equal(lax.bitwise_xor(x, lax.bitwise_not(x)), [-1, -1])


def test_select_and_select_n() -> None:
    x, y = np.arange(3.0), -np.arange(3.0)
    np.testing.assert_array_equal(lax.select(np.array([True, False, True]), x, y), [0, -1, 2])
    np.testing.assert_array_equal(lax.select(True, x, y), x)
    np.testing.assert_array_equal(lax.select_n(np.array([0, 2, 1]), x, y, x + 9), [0, 10, -2])
    np.testing.assert_array_equal(lax.select_n(np.array([True, False, True]), x, y), [0, 1, -2])
    with pytest.raises(ArgumentError, match="as many cases"):
        lax.select_n(np.array([True]), x, x, x)


def test_convert() -> None:
    x = np.array([-1.7, 300.2, np.nan], np.float32)
    np.testing.assert_array_equal(lax.convert_element_type(x, "uint8"), [0, 255, 0])
    assert lax.convert_element_type(1, float).dtype == np.float32
    bits = lax.bitcast_convert_type(np.float32(1), np.int32)
    assert bits.tolist() == 0x3F800000
    with pytest.raises(DTypeError, match="bool has no bits"):
        lax.bitcast_convert_type(np.float32(1), bool)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(name: str) -> None:
    x, y = np.array([1, 2, 3]), np.array([2, 2, 2])
    expected = getattr(np.ndarray, f"__{name}__")(x, y)
    np.testing.assert_array_equal(getattr(lax, name)(x, y), expected)
    np.testing.assert_array_equal(getattr(lax, name)(x, 2), expected)


@pytest.mark.parametrize("shift", [lax.shift_right_arithmetic, lax.shift_right_logical])
@pytest.mark.parametrize("dtype", ["bool", "float32", "complex64"])
def test_right_shifts_take_integers_only(shift: Any, dtype: str) -> None:
    with pytest.raises(DTypeError, match="needs integers"):
        shift(np.ones(2, dtype), np.ones(2, dtype))


@pytest.mark.parametrize("shift", [lax.shift_right_arithmetic, lax.shift_right_logical])
def test_right_shifts_need_one_dtype(shift: Any) -> None:
    for a, b in (("uint8", "int32"), ("int32", "uint8"), ("int32", "uint32"), ("uint32", "int32")):
        with pytest.raises(DTypeError):
            shift(np.ones(2, a), np.ones(2, b))


def test_a_converted_number_has_the_dtype_that_was_asked_for():
    for x in (1.0, lax.add(1.0, 2.0), np.float32(1)):
        assert not lax.convert_element_type(x, "float32").weak_type


@pytest.mark.parametrize("f", [lax.add, lax.atan2, lax.lt, lax.pow, lax.max])
def test_sizes_of_one_are_repeated_between_as_many_axes(f):
    x, y = np.float32([[1], [2]]), np.float32([[3, 4, 5]])
    want = f(np.repeat(x, 3, 1), np.repeat(y, 2, 0))
    np.testing.assert_array_equal(f(x, y), want)
    np.testing.assert_array_equal(tfn.jit(f)(x, y), want)
    assert f(x[:0], y[:, :1]).shape == (0, 1)
    for a, b in ((x[:, 0], y), (x, np.zeros((3, 1), "float32"))):
        with pytest.raises(ShapeError):
            f(a, b)
