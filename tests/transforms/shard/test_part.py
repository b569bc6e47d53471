"""Parts of values while a function is divided."""

from __future__ import annotations

from tfn.dtypes import FLOAT32
from tfn.trace.argument import Leaf
from tfn.trace.op import Op
from tfn.trace.uop import UOp
from tfn.transforms.shard.part import Part, appended, manual_of, scattered, slice_of

X = UOp(Op.LEAF, (), Leaf((4, 3), FLOAT32))


def test_slices_and_regions() -> None:
    part = Part(X, ((), ("x",)), frozenset({"y"}), (), (4, 6))
    row = slice_of(part)
    assert (row.graph.shape, row.spec, row.shape) == ((3,), (("x",),), (6,))
    assert manual_of([part, Part(X, ((), ()), frozenset({"z"}))]) == {"y", "z"}


def test_where_partial_results_are_scattered() -> None:
    assert scattered(((), ()), "x", ((), ("x",))) == 1
    assert scattered((("y",), ()), "x", (("y", "x"), ())) == 0
    assert scattered(((), ()), "x", (("y",), ())) is None
    assert scattered(((), ()), "x", None) is None
    assert appended(((), ("y",)), 1, "x") == ((), ("y", "x"))
