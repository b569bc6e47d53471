"""Symbolic zeros and unknown operands."""

import tfn.numpy as tnp
from tfn import tree
from tfn.compat.avals import ShapedArray
from tfn.compat.zeros import (
    UndefinedPrimal,
    Zero,
    add_tangents,
    instantiate_zeros,
    is_undefined_primal,
)


def test_zeros_are_trees_without_leaves():
    zero = Zero(ShapedArray((2,), "float32"))
    assert tree.leaves(zero) == [] and tree.map(lambda x: x, zero) == zero
    assert zero.instantiate().tolist() == [0.0, 0.0]
    assert instantiate_zeros(Zero.from_primal_value(3)).tolist() is False
    unknown = UndefinedPrimal(zero.aval)
    assert is_undefined_primal(unknown) and not is_undefined_primal(zero)
    assert unknown.shape == (2,) and unknown.dtype == "float32"


def test_sums_with_zeros():
    zero, one = Zero(ShapedArray((), "float32")), tnp.ones(())
    assert add_tangents(zero, one) is one and add_tangents(one, zero) is one
    assert float(add_tangents(one, one)) == 2.0
