"""Arguments of ops: values that are compared by what they say, constants by their bits."""

from __future__ import annotations

import sys

import numpy as np

from tests.covering import together
from tfn.dtypes import ALL, BFLOAT16, FLOAT32
from tfn.trace.argument import Const, Custom, Leaf, Param, Range


@together("dtype", ALL, ids=str)
def test_a_constant_is_its_bits(dtype):
    value = Const(dtype, 1, ()).value
    assert value.dtype == dtype
    assert int.from_bytes(np.asarray(value).tobytes(), sys.byteorder) == 1


def test_signs_are_in_the_bits():
    assert Const(np.dtype("int8"), 0xFF, ()).value == -1
    assert Const(BFLOAT16, 0xBF80, ()).value == -1


def test_arguments_are_values_and_leaves_are_not():
    assert Param(0, (), FLOAT32) == Param(0, (), FLOAT32)
    assert Range(0, 4) != Range(1, 4)
    assert Leaf((), FLOAT32) != Leaf((), FLOAT32)


def test_rules_belong_to_the_value():
    assert Custom("f", 1) == Custom("f", 1) != Custom("f", 2)
