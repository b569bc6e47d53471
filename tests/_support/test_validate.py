"""Checks of arguments: values that pass, and the words of errors for those that do not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn._support import validate as v
from tfn.dtypes import BOOL, COMPLEX64, FLOAT32, FLOATS, INT32, INTEGERS
from tfn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DTypeError,
    ShapeError,
    TfnError,
)

X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize("value", [3, True, np.int8(3), np.array(3), tnp.array(3)])
def test_integers_of_all_kinds_pass(value: Any) -> None:
    number = v.integer("roll", "shift", value)
    assert type(number) is int and number == value


@pytest.mark.parametrize(
    ("check", "error", "words"),
    [
        (lambda: v.integer("roll", "shift", 1.5), ArgumentError, "shift=1.5.*write shift=2"),
        (lambda: v.integer("roll", "shift", "a"), ArgumentError, "shift='a'.*pass an int"),
        (lambda: v.integer("roll", "shift", -1, 0), ArgumentError, "needs shift >= 0.*shift=-1"),
        (lambda: v.real_number("f", "rate", "a", 0, 1), ArgumentError, "a number as rate"),
        (lambda: v.real_number("f", "rate", float("nan"), 0, 1), ArgumentError, "from 0 to 1"),
        (lambda: v.real_number("f", "rate", 1.5, 0, 1), ArgumentError, "from 0 to 1.*rate=1.5"),
        (lambda: v.integers("f", "axes", 1), ArgumentError, r"sequence of integers.*\(axes,\)"),
        (lambda: v.integers("f", "axes", [0, 0.5]), ArgumentError, r"axes\[1\]=0.5"),
        (lambda: v.of_each_axis("f", "strides", (1,), 2), ShapeError, "for 2 axes"),
        (lambda: v.one_of("f", "mode", "x", ("a", None)), ArgumentError, "mode is 'a' or None"),
        (lambda: v.a_function("vmap", "function", 3), ArgumentError, "vmap needs a function"),
        (lambda: v.file_path("load", "path", 3), ArgumentError, "path of a file.*path=3"),
        (lambda: v.several("f", "arrays", 3), ArgumentError, "sequence of values as arrays"),
        (lambda: v.rank("trace", np.ones(2), 2), ShapeError, r"at least two axes.*x\[:, None\]"),
        (lambda: v.rank("f", X, 1, 1), ShapeError, r"f needs a vector.*f32\[2,3\]"),
        (lambda: v.element_type("f", X, INTEGERS, "integers"), DTypeError, "astype.'int32'"),
        (lambda: v.result_type("f", BOOL, FLOATS, "floats"), DTypeError, "say dtype='float32'"),
        (lambda: v.size_limit("zeros", (1 << 40, 1 << 30), 4), ShapeError, "2[*][*]72 bytes"),
        (lambda: v.size_limit("zeros", (0, 1 << 62, 1 << 9)), ShapeError, "shape .0, "),
    ],
)
def test_errors_name_the_argument_and_the_cure(check: Any, error: Any, words: str) -> None:
    with pytest.raises(error) as caught:
        check()
    assert isinstance(caught.value, TfnError) and caught.value.hint
    assert re.search(words, str(caught.value), re.DOTALL)


def test_traced_values_are_no_python_numbers() -> None:
    for check in (
        lambda x: v.integer("roll", "shift", x.astype(int)),
        lambda x: v.several("f", "axes", x.sum()),
    ):
        with pytest.raises((ConcretizationTypeError, ArgumentError)):
            tfn.jit(check)(X)


def test_values_are_shown_in_one_line() -> None:
    assert v.shown(X) == "f32[2,3]" and v.shown(np.float32(2)) == "2.0"
    assert v.shown(test_values_are_shown_in_one_line) == "test_values_are_shown_in_one_line"
    assert len(v.shown("a" * 1000)) == v.SHOWN_CHARACTERS + 3


@pytest.mark.parametrize(
    ("dtype", "allowed", "hint"),
    [
        (COMPLEX64, FLOATS, "take x.real"),
        (FLOAT32, INTEGERS, "cuts fractions off"),
        (INT32, frozenset({BOOL}), "compare: x != 0"),
        (BOOL, FLOATS, "astype('float32')"),
    ],
)
def test_hints_name_a_conversion(dtype: Any, allowed: Any, hint: str) -> None:
    assert hint in v.cast_hint(dtype, allowed)
