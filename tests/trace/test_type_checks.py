"""Checks of operand types: what passes, and the words of what does not."""

from __future__ import annotations

import pytest

from tests.lower.graphs import p
from tfn.dtypes import FLOAT32, FLOAT64
from tfn.errors import DTypeError, ShapeError
from tfn.trace.type_checks import same_type, sized


def test_operands_of_one_type_pass() -> None:
    same_type("add", (p(0, 2), p(1, 2), p(2, 2)))


def test_shapes_and_dtypes_that_differ_are_named() -> None:
    with pytest.raises(ShapeError, match=r"add needs operands of one shape\n.*f32\[2\], f32\[3\]"):
        same_type("add", (p(0, 2), p(1, 3)))
    with pytest.raises(DTypeError, match=r"f32\[2\], f64\[2\]"):
        same_type("add", (p(0, 2), p(1, 2, dtype=FLOAT64)))


def test_results_beyond_all_memory_are_refused() -> None:
    assert sized("broadcast", (3, 0), FLOAT32) == ((3, 0), FLOAT32)
    with pytest.raises(ShapeError, match=r"broadcast cannot make an array of 2\*\*62 bytes"):
        sized("broadcast", (1 << 30, 1 << 30), FLOAT32)
