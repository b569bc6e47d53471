"""The list of ops: closed, and each in the groups that it belongs to."""

from __future__ import annotations

import numpy as np
import pytest

from tfn.dtypes import ALL, BFLOAT16, FLOAT32
from tfn.trace.op import (
    BINARY,
    COMPARE,
    ELEMENTWISE,
    MONOIDS,
    MOVEMENT,
    UNARY,
    Const,
    Leaf,
    Op,
    Param,
    Range,
)  # fmt: skip


def test_names_are_unique():
    assert len({op.value for op in Op}) == len(Op)


def test_groups_do_not_overlap():
    groups = [UNARY, BINARY, COMPARE, MOVEMENT]
    assert sum(map(len, groups)) == len(frozenset().union(*groups))
    assert UNARY | BINARY | COMPARE < ELEMENTWISE
    assert not ELEMENTWISE & MOVEMENT
    assert set(MONOIDS) <= BINARY


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_a_constant_is_its_bits(dtype):
    value = Const(dtype, 1, ()).value
    assert value.dtype == dtype
    assert np.asarray(value).view(f"u{dtype.itemsize}") == 1


def test_signs_are_in_the_bits():
    assert Const(np.dtype("int8"), 0xFF, ()).value == -1
    assert Const(BFLOAT16, 0xBF80, ()).value == -1


def test_arguments_are_values_and_leaves_are_not():
    assert Param(0, (), FLOAT32) == Param(0, (), FLOAT32)
    assert Range(0, 4) != Range(1, 4)
    assert Leaf((), FLOAT32) != Leaf((), FLOAT32)
