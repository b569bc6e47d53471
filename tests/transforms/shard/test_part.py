"""Parts of values while a function is divided."""

from __future__ import annotations

from tfn.dtypes import FLOAT32
from tfn.trace.argument import Leaf, Param
from tfn.trace.build import zeros
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const
from tfn.transforms.shard.part import (
    Part,
    accumulated,
    appended,
    is_zero,
    manual_of,
    scattered,
    slice_of,
)

X = UOp(Op.LEAF, (), Leaf((4, 3), FLOAT32))


def test_slices_and_regions() -> None:
    part = Part(X, ((), ("x",)), frozenset({"y"}), (), (4, 6))
    row = slice_of(part)
    assert (row.graph.shape, row.spec, row.shape) == ((3,), (("x",),), (6,))
    assert manual_of([part, Part(X, ((), ()), frozenset({"z"}))]) == {"y", "z"}


def test_what_loops_accumulate() -> None:
    total, other, term = (param(Param(i, (3,), FLOAT32)) for i in range(3))
    params = (total.arg, other.arg, term.arg)
    square = term * term
    once = function([total + square, other * 2.0], params)
    assert accumulated(once, range(2)) == [(0, square)]
    assert accumulated(function([square + total, other], params), range(2)) == [(0, square)]
    for outputs in (
        [total + square, other + total],
        [total * square, other],
        [total + term, other],
        [total + square, other, total],
        [total + square, other + (total + square)],
    ):
        assert accumulated(function(outputs, params), range(1)) == []
    assert is_zero(zeros((2, 3), FLOAT32)) and not is_zero(X) and not is_zero(const(1.0, FLOAT32))


def test_where_partial_results_are_scattered() -> None:
    assert scattered(((), ()), "x", ((), ("x",))) == 1
    assert scattered((("y",), ()), "x", (("y", "x"), ())) == 0
    assert scattered(((), ()), "x", (("y",), ())) is None
    assert scattered(((), ()), "x", None) is None
    assert appended(((), ("y",)), 1, "x") == ((), ("y", "x"))
