"""Folds: computed simplifications agree with the oracle, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import covering
from tests.covering import together
from tests.lower.random_indices import RANGES, index
from tfn.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    int8,
    uint8,
)
from tfn.lower.index.folds import FOLDS
from tfn.lower.index.simplify import simplify
from tfn.trace.argument import Param
from tfn.trace.build import cast, eq, where
from tfn.trace.op import ELEMENTWISE, UNARY, Op
from tfn.trace.oracle import evaluate
from tfn.trace.uop import UOp, const, walk

r, s, t = RANGES


def param(dtype, number=0, shape=()):
    return UOp(Op.PARAM, (), Param(number, shape, dtype))


x = param(FLOAT32)
i = param(INT32)
flag = param(BOOL, 3)


@together(
    "before, after",
    [
        (x * 1.0, x),
        (x + -0.0, x),
        (x - 0.0, x),
        (UOp(Op.NEG, (-x,)), x),
        (x / 1.0, x),
        (x * -1.0, -x),
        (x + 0.0, x + 0.0),
        (x * 0.0, x * 0.0),
        (x - x, x - x),
        (x / x, x / x),
        (eq(x, x), eq(x, x)),
        (~(x < 1.0), ~(x < 1.0)),
        (x / 4.0, x * 0.25),
        (x / -0.5, x * -2.0),
        (x / 3.0, x / 3.0),
        (x / 2.0**-149, x / 2.0**-149),
        (x / 0.0, x / 0.0),
        (x / np.inf, x / np.inf),
        (2.0 * x, x * 2.0),
        (x + (-x), x - x),
        (i + 0, i),
        (i * 0, const(0, INT32)),
        (i - i, const(0, INT32)),
        ((i + 1) + 2, i + 3),
        (3 + i, i + 3),
        ((i * 2) * 3, i * 6),
        (~(i < 3), const(3, INT32) <= i),
        (where(flag, x, x), x),
        (where(~flag, x, -x), where(flag, -x, x)),
        (where(flag, where(flag, x, -x), x * x), where(flag, x, x * x)),
        (flag & flag, flag),
        (flag & ~flag, const(False, BOOL)),
        (const(2.0, FLOAT32) * 3.0, const(6.0, FLOAT32)),
        (const(200, uint8.dtype) + const(100, uint8.dtype), const(44, uint8.dtype)),
    ],
)
def test_arithmetic_of_values(before, after):
    assert simplify(before) is after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (cast(cast(r, INT32), INT64), r),
        (cast(cast(r, FLOAT32), INT64), r),
        (cast(cast(i, INT64), INT32), i),
        (cast(cast(i, int8.dtype), INT64), cast(cast(i, int8.dtype), INT64)),
        (cast(cast(x, FLOAT64), FLOAT32), x),
        (cast(cast(x, FLOAT16), FLOAT32), cast(cast(x, FLOAT16), FLOAT32)),
        (cast(cast(param(BFLOAT16), FLOAT32), BFLOAT16), param(BFLOAT16)),
        (cast(cast(x, BFLOAT16), FLOAT32), cast(cast(x, BFLOAT16), FLOAT32)),
        (cast(cast(param(FLOAT16), FLOAT32), BFLOAT16),) * 2,  # no target casts one to the other
        (cast(cast(param(BFLOAT16), FLOAT32), int8.dtype),) * 2,
        (cast(cast(i, FLOAT32), FLOAT64), cast(cast(i, FLOAT32), FLOAT64)),
        (cast(cast(i, FLOAT64), FLOAT32), cast(i, FLOAT32)),
        (cast(cast(flag, INT32), FLOAT32), cast(flag, FLOAT32)),
        (cast(cast(i, BOOL), INT32), cast(cast(i, BOOL), INT32)),
        (cast(cast(r, INT32) * 3 + cast(s, INT32), INT64), r * 3 + s),
        (cast(const(3, INT32) - cast(r, INT32), INT64), index(3) - r),
    ],
)
def test_casts(before, after):
    assert simplify(before) is after


@given(st.data())
@settings(max_examples=covering.examples(300), deadline=None)
def test_a_cast_of_a_cast_keeps_its_values(data):
    dtypes = [BOOL, int8.dtype, uint8.dtype, INT32, INT64, BFLOAT16, FLOAT16, FLOAT32, FLOAT64]
    first, *path = data.draw(st.lists(st.sampled_from(dtypes), min_size=2, max_size=4))
    u = start = param(first)
    for dtype in path:
        u = cast(u, dtype)
    values = np.array([0.0, -0.0, 1, -1, 127, 128, 255, 1e5, -3e9, 2.5, np.inf, np.nan])
    if first == BOOL or first in INTEGERS:
        values = np.array([0, 1, -1, 127, 128, 255, 100_003, 16_777_217]).astype(np.int64)
    with np.errstate(all="ignore"):
        inputs = {start: values.astype(first)}
    got, want = evaluate([simplify(u)], inputs)[0], evaluate([u], inputs)[0]
    assert np.array_equal(got.view(np.uint8), want.view(np.uint8)) or np.array_equal(
        got.astype(np.float64), want.astype(np.float64), equal_nan=True
    )


@given(st.data())
@settings(max_examples=covering.examples(400), deadline=None)
def test_arithmetic_of_every_dtype_keeps_its_values(data):
    """Chains of ops over two parameters and constants, compared bit for bit."""
    dtype = data.draw(st.sampled_from([int8.dtype, uint8.dtype, INT64, FLOAT16, FLOAT32]))
    x, y = param(dtype, 0), param(dtype, 1)
    values = SPECIAL if dtype in FLOATS else [0, 1, 2, 3, 4, 100, 127, -1, -2, -128]
    constants = [const(v, dtype) for v in values]
    ops = FLOAT_OPS if dtype in FLOATS else INTEGER_OPS
    u = data.draw(st.sampled_from([x, y]))
    for _ in range(data.draw(st.integers(1, 5))):
        op = data.draw(st.sampled_from(ops))
        other = data.draw(st.sampled_from([x, y, u, *constants]))
        if op in UNARY:
            u = UOp(op, (u,))
        elif op is Op.WHERE:
            compare = data.draw(st.sampled_from([Op.LT, Op.LE, Op.EQ, Op.NE]))
            u = where(UOp(compare, (u, other)), u, x)
        else:
            pair = (u, other) if data.draw(st.booleans()) else (other, u)
            u = UOp(op, pair)
    a, b = (np.array([v for v in values for _ in values]), np.array(values * len(values)))
    inputs = {x: _as(a, dtype), y: _as(b, dtype)}
    with np.errstate(all="ignore"):
        got, want = _everywhere(simplify(u), inputs), _everywhere(u, inputs)
    if dtype in FLOATS:
        both_nan = np.isnan(got) & np.isnan(want)
        assert np.all(both_nan | ((got == want) & (np.signbit(got) == np.signbit(want))))
    else:
        assert np.array_equal(got, want)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 1e-7, 60000.0, np.inf, -np.inf, np.nan]
FLOAT_OPS = [
    *(Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MOD, Op.NEG, Op.ABS, Op.MAX, Op.MIN, Op.WHERE),
    *(Op.SIGN, Op.FLOOR, Op.CEIL, Op.ROUND, Op.SQRT),
]
INTEGER_OPS = [
    *(Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.MOD, Op.NEG, Op.ABS, Op.SIGN, Op.MAX, Op.MIN),
    *(Op.WHERE, Op.AND, Op.OR, Op.XOR, Op.NOT, Op.SHL, Op.SHR),
]


def _as(values, dtype):
    return values.astype(np.int64).astype(dtype) if dtype.kind in "iu" else values.astype(dtype)


def _everywhere(u, inputs):
    shape = next(iter(inputs.values())).shape
    spread = {n: np.full(shape, n.arg.value, n.dtype) for n in walk([u]) if n.op is Op.CONST}
    return evaluate([u], {**inputs, **spread})[0]


def test_loads_with_a_constant_predicate():
    buffer = param(FLOAT32, 0, (10,))
    load = UOp(Op.LOAD, (buffer, r, r < 4))
    assert simplify(load) is UOp(Op.LOAD, (buffer, r))
    assert simplify(UOp(Op.LOAD, (buffer, r, r < 0))) is const(0.0, FLOAT32)


def test_shapes_are_kept():
    u = param(FLOAT32, 0, (2, 3))
    assert simplify(u * 1.0) is u
    wide = param(INT32, 0, (2, 3))
    assert simplify(wide * 0) is const(0, INT32, (2, 3))
    assert simplify(const(1.0, FLOAT32, (2,)) + 2.0) is const(3.0, FLOAT32, (2,))


def test_functions_that_targets_round_differently_are_not_folded():
    u = UOp(Op.EXP, (const(1.0, FLOAT32),))
    assert simplify(u) is u


def test_folds_are_of_elementwise_ops_and_loads():
    assert set(FOLDS) <= ELEMENTWISE | {Op.LOAD}
