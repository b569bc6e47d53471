"""The rules of `SHARD`: which axes of operands and results are one."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfn.dtypes import FLOAT32, INT32
from tfn.trace import build
from tfn.trace.argument import Leaf
from tfn.trace.op import Op
from tfn.trace.uop import UOp
from tfn.transforms.shard.factors import SHARD, Factors, blocks


def leaf(*shape: int, dtype: object = FLOAT32) -> UOp:
    return UOp(Op.LEAF, (), Leaf(shape, dtype))  # type: ignore[arg-type]


def factors(u: UOp) -> Factors:
    return SHARD[u.op](u)


def test_a_product() -> None:
    rule = factors(build.dot(leaf(2, 3, 5), leaf(2, 5, 7), ((2,), (1,)), ((0,), (0,)), FLOAT32))
    assert rule.operands == ((0, 1, 2), (0, 2, 3))
    assert rule.result == (0, 1, 3) and rule.reduced == {2: Op.ADD}
    assert rule.sizes == (2, 3, 5, 7) and rule.work == 2 * 3 * 5 * 7


def test_a_reshape_keeps_the_major_axes() -> None:
    rule = factors(build.reshape(leaf(4, 6, 5), (24, 5)))
    assert rule.operands == ((0, None, 1),) and rule.result == (0, 1) and rule.sizes == (4, 5)
    heads = factors(build.reshape(leaf(3, 32), (3, 4, 8)))
    assert heads.operands == ((0, 1),) and heads.result == (0, 1, None) and heads.sizes == (3, 4)


def test_axes_that_are_cut_stay_whole() -> None:
    assert factors(build.pad(leaf(4, 6), (0, 1), (0, 0))).operands[0] == (0, None)
    assert factors(build.shrink(leaf(4, 6), (0, 1), (4, 6))).result == (0, None)
    assert factors(build.flip(leaf(4, 6), (0,))).result == (None, 1)
    assert factors(build.concat([leaf(4, 6), leaf(4, 2)], 1)).result == (0, None)


def test_rows_of_a_table() -> None:
    table, rows = leaf(10, 6), leaf(4, 3, 1, dtype=INT32)
    rule = factors(build.gather(table, rows, (1, 6)))
    assert rule.operands == ((None, 2), (0, 1, None)) and rule.result == (0, 1, None, 2)
    back = factors(build.scatter(table, rows, leaf(4, 3, 1, 6), Op.ADD))
    assert back.reduced == {0: Op.ADD, 1: Op.ADD} and back.result == (None, 2)
    assert not factors(build.scatter(table, rows, leaf(4, 3, 1, 6), Op.WHERE)).reduced


sizes = st.lists(st.sampled_from([1, 2, 3, 4]), max_size=4).map(tuple)


@given(sizes, st.data())
def test_blocks_are_equal_products(shape: tuple[int, ...], data: st.DataObject) -> None:
    order = data.draw(st.permutations(shape))
    other = tuple(order)
    groups = blocks(shape, other)
    assert [axis for left, _ in groups for axis in left] == list(range(len(shape)))
    assert [axis for _, right in groups for axis in right] == list(range(len(other)))
    for left, right in groups:
        assert prod(shape[axis] for axis in left) == prod(other[axis] for axis in right)


@pytest.mark.parametrize("op", [Op.HOST, Op.KERNEL])
def test_functions_of_the_host_get_whole_values(op: Op) -> None:
    assert SHARD[op].__name__ == "whole"
