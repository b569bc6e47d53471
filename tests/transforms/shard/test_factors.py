"""The factors of ops, and what it costs to divide them."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import strategies as st

from tfn.dtypes import FLOAT32, INT32
from tfn.trace import build
from tfn.trace.argument import Conv, Leaf
from tfn.trace.axes import AXES
from tfn.trace.op import Op
from tfn.trace.uop import UOp
from tfn.transforms.shard.factors import Factors, factors_of


def leaf(*shape: int, dtype: object = FLOAT32) -> UOp:
    return UOp(Op.LEAF, (), Leaf(shape, dtype))  # type: ignore[arg-type]


def factors(u: UOp) -> Factors:
    return factors_of(u)


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


def test_axes_that_are_cut_are_crossed() -> None:
    padded = factors(build.pad(leaf(4, 6), (0, 3), (0, 0)))
    assert padded.result == (0, 1) and set(padded.crossed) == {1}
    assert padded.crossed[1].received(2) == 4 * 4 * 1, "three zeros and two of three rows; the last"
    cut = factors(build.shrink(leaf(4, 6), (0, 1), (4, 6)))
    assert cut.result == (0, 1) and set(cut.crossed) == {1} and cut.sizes == (4, 5)
    short = factors(build.shrink(leaf(4, 8), (0, 1), (4, 3)))
    assert short.result == (0, None) and short.reduced == {1: Op.ADD}, "rows that are looked up"
    flipped = factors(build.flip(leaf(4, 6), (0,)))
    assert flipped.result == (0, 1) and flipped.even == {0}
    joined = factors(build.concat([leaf(4, 6), leaf(4, 2)], 1))
    assert joined.result == (0, 1) and set(joined.crossed) == {1}


def test_rows_of_a_table() -> None:
    table, rows = leaf(10, 6), leaf(4, 3, 1, dtype=INT32)
    rule = factors(build.gather(table, rows, (1, 6)))
    assert rule.operands == ((2, 3), (0, 1, None)) and rule.result == (0, 1, None, 3)
    assert rule.reduced == {2: Op.ADD}, "each device has some of the rows"
    back = factors(build.scatter(table, rows, leaf(4, 3, 1, 6), Op.ADD))
    assert back.reduced == {0: Op.ADD, 1: Op.ADD} and back.result == (2, 3)
    assert not factors(build.scatter(table, rows, leaf(4, 3, 1, 6), Op.WHERE)).reduced


def test_convolutions_are_divided_by_the_longer_of_result_and_window() -> None:
    arg = Conv((1,), ((1, 1),), (1,), (1,), 1, 1, FLOAT32)
    forward = factors(build.conv(leaf(2, 16, 4), leaf(3, 4, 8), arg))
    assert forward.operands[1][0] is None and 3 in forward.crossed and 3 not in forward.reduced
    assert forward.crossed[3].received(4) == 2 * 2 * 4 * 4, "a row from both sides"
    weights = factors(build.conv(leaf(2, 16, 4), leaf(16, 4, 8), arg))
    assert (
        weights.operands[1][0] == 3 and weights.reduced[3] is Op.ADD and weights.result[1] is None
    )


def test_sorts_need_long_parts() -> None:
    def received(n: int, parts: int) -> float:
        (node,) = build.sort([leaf(n)])[0].src
        return factors(node).crossed[0].received(parts)

    assert received(1024, 8) == (2 * 7 / 8 + 1) * 128 * 8
    assert received(64, 8) == inf and received(1024, 3) == inf


sizes = st.lists(st.sampled_from([1, 2, 3, 4]), max_size=4).map(tuple)


@pytest.mark.parametrize("op", [Op.HOST, Op.KERNEL])
def test_functions_of_the_host_get_whole_values(op: Op) -> None:
    assert AXES[op].__name__ == "whole"


def test_one_axis_of_the_mesh_divides_what_windows_cross() -> None:
    """Two would divide the 8 columns of a slice, but not the 9 that it is of."""
    sizes = {"x": 2, "y": 2}
    rule = factors(build.shrink(leaf(4, 9), (0, 1), (4, 9)))
    assert rule.crossed.keys() == {1}
    assert rule.allows(1, ("x",), sizes) and not rule.allows(1, ("x", "y"), sizes)
    assert rule.allows(0, ("x", "y"), sizes)
