"""Nodes made the convenient way mean what they say, and make nothing where nothing moves."""

from __future__ import annotations

import numpy as np

from tests.covering import together
from tfn.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEXES,
    FLOAT16,
    FLOAT32,
    FLOATS,
    INT32,
    INT64,
    REALS,
    int8,
)
from tfn.trace import build
from tfn.trace.argument import Conv, Param, Reduce
from tfn.trace.op import Op
from tfn.trace.oracle import evaluate, reduce
from tfn.trace.uop import UOp, const

x = UOp(Op.PARAM, (), Param(0, (2, 3), FLOAT32))
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def value(u):
    return evaluate([u], {x: X})[0]


def test_a_permutation_that_moves_no_element_is_a_reshape():
    rows = build.reshape(x, (2, 1, 3))
    moved = build.permute(rows, (1, 0, 2))
    assert moved.op is Op.RESHAPE and moved.shape == (1, 2, 3)
    np.testing.assert_array_equal(value(moved), X.reshape(1, 2, 3))
    assert build.permute(rows, (2, 1, 0)).op is Op.PERMUTE


def test_nothing_is_made_where_nothing_moves():
    assert build.reshape(x, (2, 3)) is x
    assert build.permute(x, (0, 1)) is x
    assert build.expand(x, (2, 3)) is x
    assert build.pad(x, (0, 0), (0, 0)) is x
    assert build.shrink(x, (0, 0), (2, 3)) is x
    assert build.flip(x, ()) is x
    assert build.concat([x], 0) is x
    assert build.cast(x, FLOAT32) is x
    assert build.bitcast(x, FLOAT32) is x
    assert build.reduce(x, Op.ADD, ()) is x
    assert build.where(x < 0.0, x, x) is x


def test_reshapes_and_constants_melt_together():
    assert build.reshape(build.reshape(x, (6,)), (3, 2)) is build.reshape(x, (3, 2))
    assert build.reshape(build.reshape(x, (6,)), (2, 3)) is x
    one = const(1.0, FLOAT32, (1, 1))
    assert build.expand(one, (2, 3)) is const(1.0, FLOAT32, (2, 3))


@together(
    "u, expected",
    [
        (build.iota((2, 3), 1), np.array([[0, 1, 2]] * 2)),
        (build.iota((2, 3), 0), np.array([[0] * 3, [1] * 3])),
        (build.full_like(x, 7), np.full((2, 3), 7.0)),
        (build.zeros((2,), INT32), np.zeros(2)),
        (build.moveaxis(x, 0, 1), X.T),
        (build.broadcast_to(x, (4, 2, 3)), np.broadcast_to(X, (4, 2, 3))),
        (
            build.broadcast_in_dim(build.reshape(x, (6,)), (6, 2), (0,)),
            np.repeat(X.reshape(6, 1), 2, 1),
        ),
        (build.pad(x, (1, 0), (0, 2)), np.pad(X, ((1, 0), (0, 2)))),
        (build.pad_or_crop(x, (-1, 1), (0, -2)), np.pad(X, ((0, 0), (1, 0)))[1:, :2]),
        (build.shrink(x, (0, 1), (2, 3), (1, 2)), X[:, 1::2]),
        (build.flip(x, (1,)), X[:, ::-1]),
        (build.concat([x, x], 1), np.concatenate([X, X], 1)),
        (build.add_up(x, (0,)), X.sum(0)),
        (build.add_up(x, (1,), keepdims=True), X.sum(1, keepdims=True)),
        (build.reduce(x, Op.MAX, (1, 0)), X.max()),
        (build.dot(x, x, ((1,), (1,))), X @ X.T),
        (build.dot(x, x, ((1,), (1,)), ((0,), (0,))), (X * X).sum(1)),
        (build.gather(x, const(1, INT32, (1,)), (1, 3)), X[1:2]),
        (
            build.scatter(x, const(0, INT32, (1,)), const(9.0, FLOAT32, (1, 3)), Op.ADD),
            X + np.array([[9], [0]]),
        ),
        (build.sort([-x])[0], np.sort(-X)),
        (build.eq(x, x), np.full((2, 3), True)),
        (build.ne(x, x), np.full((2, 3), False)),
        (build.maximum(x, build.full_like(x, 2)), np.maximum(X, 2)),
        (build.minimum(x, build.full_like(x, 2)), np.minimum(X, 2)),
        (build.unary(Op.NEG, x), -X),
        (build.bitcast(x, INT32), X.view(np.int32)),
    ],
)
def test_meaning(u, expected):
    assert u.shape == np.shape(expected)
    assert np.array_equal(value(u), expected)


def test_convolution():
    image = UOp(Op.PARAM, (), Param(0, (1, 5, 2), FLOAT32))
    window = UOp(Op.PARAM, (), Param(1, (3, 2, 4), FLOAT32))
    arg = Conv((1,), ((1, 1),), (1,), (1,), 1, 1, FLOAT32)
    assert build.conv(image, window, arg).shape == (1, 5, 4)


@together("dtype", [*REALS, *COMPLEXES], ids=str)
@together("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN], ids=lambda op: op.value)
def test_a_monoid_starts_from_its_identity(op, dtype):
    if dtype == BOOL and op in (Op.ADD, Op.MUL):
        return
    if dtype in COMPLEXES and op in (Op.MAX, Op.MIN):
        return
    values = np.array([0, 1, 3]).astype(dtype)
    first = np.asarray(build.identity(op, dtype)).astype(dtype)
    whole = reduce(Reduce(op, (0,)), np.concatenate([first[None], values]))
    assert whole == reduce(Reduce(op, (0,)), values)
    assert reduce(Reduce(op, (0,)), values[:0]) == first


def test_short_floats_are_summed_in_32_bits():
    assert {build.accumulator(d) for d in (FLOAT16, BFLOAT16, FLOAT32)} == {FLOAT32}
    assert build.accumulator(INT64) == INT64
    assert all(build.accumulator(d).itemsize >= 4 for d in FLOATS)
    assert build.accumulator(int8.dtype) == int8.dtype


def test_count():
    assert build.count((2, 3)) == 6
    assert build.count(()) == 1
    assert build.count((2, 0)) == 0
