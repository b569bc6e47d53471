"""Elementwise operations that were saved: values, dtypes, corners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx.saved import floats, holds, integers, operations
from tfn import lax, random
from tfn import numpy as tnp
from tfn.scipy import special

UNARY = (
    *("exp", "log", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh"),
    *("arcsinh", "arctanh", "log1p", "expm1", "sqrt", "cbrt", "exp2", "log2", "sign", "floor"),
    *("ceil", "round", "abs", "square", "reciprocal"),
)
BETWEEN = np.linspace(0.05, 0.9, 7, dtype=np.float32)


def test_functions_of_one_float() -> None:
    holds(lambda x: [getattr(tnp, name)(x) for name in UNARY], BETWEEN)


def test_functions_with_no_operation_of_their_own() -> None:
    functions = special.erf, special.erfc, special.erfinv, special.gammaln, special.digamma
    holds(lambda x: [f(x) for f in functions], BETWEEN)


def test_functions_of_two_floats() -> None:
    names = ("maximum", "minimum", "hypot", "logaddexp", "fmod", "remainder", "floor_divide")
    names += ("copysign", "power")
    holds(lambda x, y: [getattr(tnp, n)(x, y) for n in names], np.abs(floats(3, 5)), floats(5))


def test_angles_of_all_quadrants_zeros_and_infinities() -> None:
    values = np.array([0.0, -0.0, 1, -2, np.inf, -np.inf], np.float32)
    holds(lambda x, y: tnp.arctan2(x[:, None], y), values, values)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int32", "float16"])
def test_dtypes_wrap_and_round(dtype: str) -> None:
    def function(x: Any, y: Any) -> Any:
        a, b = x.astype(dtype), y.astype(dtype)
        return a + b, a * b, tnp.maximum(a, b), tnp.where(a > b, a, b), a < b, a.sum(0), b.max()

    holds(function, integers(90, 4, 5), integers(90, 4, 5))


def test_bfloat16_is_computed_in_float32() -> None:
    holds(lambda x: (tnp.exp(x.astype("bfloat16")) * 2).astype("float32"), floats(3))


def test_integers_divide_down_and_by_zero_give_zero() -> None:
    x = np.arange(-6, 6, dtype=np.int32)
    holds(lambda x, y: (x // y[:, None], x % y[:, None], x // -3), x, np.int32([-4, 0, 3]))


def test_casts_to_integers_saturate() -> None:
    values = np.array([1.5, -2.7, 1e10, -1e10, np.nan, np.inf, -np.inf, 300], np.float32)
    holds(lambda x: [x.astype(d) for d in ("int32", "uint8", "int8", "uint32", "bool")], values)


def test_shifts_by_any_count() -> None:
    x, n = integers(1000, 9) - 500, np.arange(9, dtype=np.int32) * 5 - 4
    words = lambda v: v.astype("uint32")
    holds(lambda x, n: (x << n, x >> n, words(x) >> words(n), x >> 2, ~x, x ^ n, x & n), x, n)


def test_bits_of_floats() -> None:
    holds(lambda x: (lax.bitcast_convert_type(x, "int32"), tnp.signbit(x), tnp.frexp(x)), floats(5))


def test_booleans_have_an_order() -> None:
    pairs = np.array([True, False]), np.array([[True], [False]])
    holds(lambda x, y: (x < y, x <= y, x == y, x != y, x | y, tnp.where(x, y, ~x)), *pairs)


def test_random_numbers_are_those_of_the_key() -> None:
    def function(key: Any) -> Any:
        return random.bits(key, (5,)), random.uniform(key, (3,)), random.permutation(key, 8)

    holds(function, np.array([0, 42], np.uint32))


def test_numbers_are_not_broadcast_before_they_are_needed() -> None:
    assert operations(lambda x: tnp.tanh(x * 2 + 1), floats(3, 4)) == ["Mul", "Add", "Tanh"]
