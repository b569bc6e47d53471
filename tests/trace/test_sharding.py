"""Types of the ops of many devices, and the layout of divided values in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfn.dtypes import BOOL, FLOAT32, INT32
from tfn.errors import ShapeError
from tfn.trace.argument import Param
from tfn.trace.jaxpr import close, print_jaxpr
from tfn.trace.op import Op
from tfn.trace.sharding import Axis, Collective, Exchange, Partition, stacked_shape, stacking
from tfn.trace.uop import UOp

MESH = Axis("x", 2), Axis("y", 3)


def p(*shape: int, dtype: Any = FLOAT32) -> UOp:
    return UOp(Op.PARAM, (), Param(0, shape, dtype))


INDEX = p(dtype=INT32)


@pytest.mark.parametrize(
    ("kind", "shape", "result"),
    [
        (Exchange.REDUCE, (3, 4), (3, 4)),
        (Exchange.GATHER, (3, 4), (3, 3, 4)),
        (Exchange.SCATTER, (3, 4), (4,)),
        (Exchange.TRANSPOSE, (3, 4), (3, 4)),
        (Exchange.PICK, (3, 4), (4,)),
        (Exchange.PERMUTE, (3, 4), (3, 4)),
        (Exchange.VARY, (), ()),
    ],
)
@pytest.mark.parametrize("dtype", [FLOAT32, BOOL])
def test_types_of_exchanges(kind: Exchange, shape: Any, result: Any, dtype: Any) -> None:
    y = UOp(Op.COLLECTIVE, (p(*shape, dtype=dtype), INDEX), Collective(kind, Axis("i", 3)))
    assert (y.shape, y.dtype) == (result, dtype)


def test_a_group_counts_its_members() -> None:
    arg = Collective(Exchange.GATHER, Axis("i", 4), groups=((0, 2), (1, 3)))
    assert arg.count == 2 and UOp(Op.COLLECTIVE, (p(5), INDEX), arg).shape == (2, 5)


@pytest.mark.parametrize("kind", [Exchange.SCATTER, Exchange.TRANSPOSE, Exchange.PICK])
@pytest.mark.parametrize("shape", [(), (2,), (4, 3)])
def test_exchanges_of_parts_need_one_for_each_device(kind: Exchange, shape: Any) -> None:
    with pytest.raises(ShapeError, match="first axis of size 3"):
        UOp(Op.COLLECTIVE, (p(*shape), INDEX), Collective(kind, Axis("i", 3)))


@pytest.mark.parametrize("index", [p(), p(1, dtype=INT32), p(dtype=BOOL)])
def test_an_index_is_an_integer(index: UOp) -> None:
    with pytest.raises(ShapeError, match="index of the device"):
        UOp(Op.COLLECTIVE, (p(3), index), Collective(Exchange.REDUCE, Axis("i", 3)))


def test_types_of_divisions() -> None:
    arg = Partition(MESH, ((), ("y", "x")))
    assert UOp(Op.SHARD, (p(5, 12),), arg).shape == (5, 2)
    assert UOp(Op.UNSHARD, (p(5, 2),), arg).shape == (5, 12)
    assert UOp(Op.CONSTRAIN, (p(5, 12),), arg).shape == (5, 12)
    assert arg.names == ("x", "y")
    axis = UOp(Op.AXIS, (), MESH[1])
    assert (axis.shape, axis.dtype) == ((), INT32)


def test_axes_that_do_not_divide_are_named() -> None:
    arg = Partition(MESH, ((), ("x", "y")))
    with pytest.raises(ShapeError, match="cannot divide axis 1 of size 8 into 6 equal parts"):
        UOp(Op.SHARD, (p(5, 8),), arg)
    assert UOp(Op.CONSTRAIN, (p(5, 8),), arg).shape == (5, 8), "the partitioner pads parts"


@pytest.mark.parametrize("op", [Op.SHARD, Op.UNSHARD, Op.CONSTRAIN])
@pytest.mark.parametrize("shape", [(), (6,), (6, 6, 6)])
def test_a_spec_has_an_entry_for_each_axis(op: Op, shape: Any) -> None:
    with pytest.raises(ShapeError, match="an entry for each axis"):
        UOp(op, (p(*shape),), Partition(MESH, ((), ("x",))))


def test_a_stack_holds_the_parts_in_the_order_of_the_mesh() -> None:
    x = np.arange(2 * 12).reshape(2, 12)
    arg = Partition(MESH, ((), ("y", "x")))
    split, order = stacking(arg, x.shape)
    parts = x.reshape(split).transpose(order)
    assert parts.shape == stacked_shape(arg, x.shape) == (2, 3, 2, 2)
    for i in range(2):
        for j in range(3):
            first = 2 * (2 * j + i)  # "y" is the major one
            np.testing.assert_array_equal(parts[i, j], x[:, first : first + 2])


def test_prints() -> None:
    axis = Axis("x", 4)
    assert [
        str(Collective(Exchange.REDUCE, axis, invariant=True)),
        str(Collective(Exchange.REDUCE, axis, Op.MAX)),
        str(Collective(Exchange.GATHER, axis, groups=((0, 1), (2, 3)))),
        str(Collective(Exchange.PERMUTE, axis, pairs=((0, 1), (1, 0)))),
        str(Partition(MESH, (("x", "y"), ()), ("x",), (MESH[1],))),
    ] == [
        "psum x:4, invariant",
        "pmax x:4",
        "all_gather x:4 in ((0, 1), (2, 3))",
        "ppermute x:4 ((0, 1), (1, 0))",
        "((x y),()) of x:2 y:3, manual x, unchecked y:3",
    ]
    x, index = p(4, 2), UOp(Op.AXIS, (), axis)
    total = UOp(Op.COLLECTIVE, (x, index), Collective(Exchange.REDUCE, axis))
    lines = print_jaxpr(close([total], [x])[0]).splitlines()
    assert [line.strip() for line in lines[1:3]] == [
        "b:i32[] = axis_index[x:4]",
        "c:f32[4,2] = collective[psum x:4] a b",
    ]
