"""Checks of operand types: what passes, and the words of what does not."""

from __future__ import annotations

import pytest

from tests.lower.graphs import p
from tfn.dtypes import FLOAT32, FLOAT64, INT32
from tfn.errors import DTypeError, ShapeError
from tfn.trace.type_checks import NUMBERS, REAL, need_dtype, same_type, show


def test_a_value_is_shown_by_its_type() -> None:
    assert show(p(0, 2, 3)) == "f32[2,3]" and show(p(0, dtype=INT32)) == "i32[]"


def test_operands_of_one_type_pass() -> None:
    same_type("add", (p(0, 2), p(1, 2), p(2, 2)))
    need_dtype("add", p(0, 2), NUMBERS, "numbers")


def test_shapes_and_dtypes_that_differ_are_named() -> None:
    with pytest.raises(ShapeError, match=r"add needs operands of one shape\n.*f32\[2\], f32\[3\]"):
        same_type("add", (p(0, 2), p(1, 3)))
    with pytest.raises(DTypeError, match=r"f32\[2\], f64\[2\]"):
        same_type("add", (p(0, 2), p(1, 2, dtype=FLOAT64)))
    with pytest.raises(DTypeError, match=r"sin needs integers\n  got: f32\[\]"):
        need_dtype("sin", p(0, dtype=FLOAT32), REAL - {FLOAT32}, "integers")
