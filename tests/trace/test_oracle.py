"""The meaning of ops, against straightforward NumPy, Python integers and mpmath."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.covering import together
from tfn.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEXES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    NARROW,
    REALS,
    UINT32,
    int8,
    uint8,
    uint64,
)
from tfn.trace.argument import Conv, Dot, Gather, Iota, Pad, Param, Reduce, Scatter, Shrink, Sort
from tfn.trace.build import choose, iota, repeat_while, scan, sort
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.oracle import MEANING, apply, conv, evaluate, threefry2x32
from tfn.trace.uop import UOp, const

RNG = np.random.default_rng(0)
NAN, INF = np.nan, np.inf


def run(op, *operands, arg=None):
    return apply(op, arg, *map(np.asarray, operands))


# Elementwise, floating.

FUNCTIONS = {
    Op.EXP: mpmath.exp,
    Op.EXP2: lambda v: mpmath.power(2, v),
    Op.EXPM1: mpmath.expm1,
    Op.LOG: mpmath.log,
    Op.LOG2: lambda v: mpmath.log(v, 2),
    Op.LOG1P: mpmath.log1p,
    Op.SIN: mpmath.sin,
    Op.COS: mpmath.cos,
    Op.TAN: mpmath.tan,
    Op.ASIN: mpmath.asin,
    Op.ACOS: mpmath.acos,
    Op.ATAN: mpmath.atan,
    Op.SINH: mpmath.sinh,
    Op.COSH: mpmath.cosh,
    Op.TANH: mpmath.tanh,
    Op.ASINH: mpmath.asinh,
    Op.ACOSH: mpmath.acosh,
    Op.ATANH: mpmath.atanh,
    Op.LOGISTIC: lambda v: 1 / (1 + mpmath.exp(-v)),
    Op.SQRT: mpmath.sqrt,
    Op.RSQRT: lambda v: 1 / mpmath.sqrt(v),
    Op.CBRT: mpmath.cbrt,
    Op.ERF: mpmath.erf,
    Op.ERFC: mpmath.erfc,
    Op.ERFINV: mpmath.erfinv,
    Op.LGAMMA: mpmath.loggamma,
    Op.DIGAMMA: mpmath.digamma,
    Op.ABS: abs,
    Op.FLOOR: mpmath.floor,
    Op.CEIL: mpmath.ceil,
    Op.NEG: lambda v: -v,
}
POSITIVE = {Op.LOG, Op.LOG2, Op.SQRT, Op.RSQRT, Op.CBRT, Op.LGAMMA}
UNIT = {Op.ASIN, Op.ACOS, Op.ATANH, Op.ERFINV}
POINTS = {
    **dict.fromkeys(POSITIVE, (1e-30, 1e-3, 0.5, 1.0, 1.5, 3.0, 1e10)),
    **dict.fromkeys(UNIT, (-0.999, -0.5, -1e-9, 1e-20, 0.3, 0.7, 0.99999)),
    Op.ACOSH: (1.0, 1.0000001, 2.0, 1e10),
    Op.LOG1P: (-0.9, -1e-12, 1e-30, 3.0),
    Op.DIGAMMA: (
        -20.5,
        -0.9925297494072464,
        -0.25,
        -1e-9,
        1e-20,
        0.1,
        1.0,
        1.101262453505847,
        2.5,
        30.0,
        1e10,
    ),
}


@together("op", FUNCTIONS, ids=lambda op: op.value)
def test_functions_against_many_digits(op):
    for v in POINTS.get(op, [-20.5, -1.0, -0.25, -1e-9, 1e-20, 0.1, 0.75, 2.5, 30.0]):
        with mpmath.workdps(40):
            want = float(mpmath.re(FUNCTIONS[op](mpmath.mpf(v))))
        got = float(run(op, v))
        assert got == pytest.approx(want, rel=1e-13, abs=1e-300), (op, v)


SPECIAL = {
    Op.EXP: {INF: INF, -INF: 0.0},
    Op.EXP2: {INF: INF, -INF: 0.0},
    Op.EXPM1: {INF: INF, -INF: -1.0, -0.0: -0.0},
    Op.LOG: {0.0: -INF, -1.0: NAN, INF: INF},
    Op.LOG2: {0.0: -INF, -1.0: NAN},
    Op.LOG1P: {-1.0: -INF, -0.0: -0.0, -2.0: NAN},
    Op.SIN: {-0.0: -0.0, INF: NAN},
    Op.COS: {INF: NAN},
    Op.TAN: {-0.0: -0.0, INF: NAN},
    Op.ASIN: {2.0: NAN, -0.0: -0.0},
    Op.ACOS: {2.0: NAN, 1.0: 0.0},
    Op.ATAN: {INF: math.pi / 2, -0.0: -0.0},
    Op.SINH: {-INF: -INF, -0.0: -0.0},
    Op.COSH: {-INF: INF},
    Op.TANH: {-INF: -1.0, -0.0: -0.0},
    Op.ASINH: {-INF: -INF, -0.0: -0.0},
    Op.ACOSH: {0.5: NAN, 1.0: 0.0, INF: INF},
    Op.ATANH: {1.0: INF, 2.0: NAN, -0.0: -0.0},
    Op.LOGISTIC: {-INF: 0.0, INF: 1.0},
    Op.SQRT: {-1.0: NAN, -0.0: -0.0, INF: INF},
    Op.RSQRT: {0.0: INF, -1.0: NAN, INF: 0.0},
    Op.CBRT: {-8.0: -2.0, -0.0: -0.0, -INF: -INF},
    Op.ERF: {INF: 1.0, -0.0: -0.0},
    Op.ERFC: {INF: 0.0, -INF: 2.0},
    Op.ERFINV: {1.0: INF, -1.0: -INF, 2.0: NAN, -0.0: -0.0},
    Op.LGAMMA: {0.0: INF, -1.0: INF, INF: INF, -INF: INF},
    Op.DIGAMMA: {0.0: -INF, -1.0: NAN, INF: INF, -INF: NAN},
    Op.NEG: {0.0: -0.0},
    Op.ABS: {-0.0: 0.0, -INF: INF},
    Op.SIGN: {-0.0: -0.0, -3.0: -1.0},
    Op.FLOOR: {-0.5: -1.0, -0.0: -0.0, INF: INF},
    Op.CEIL: {-0.5: -0.0, 0.5: 1.0},
    Op.ROUND: {0.5: 0.0, 1.5: 2.0, 2.5: 2.0, -0.5: -0.0, -INF: -INF},
}


@together("op", SPECIAL, ids=lambda op: op.value)
def test_special_values(op):
    for v, want in SPECIAL[op].items():
        got = float(run(op, v))
        assert same(got, want), f"{op.value}({v}) = {got}, not {want}"
    assert np.isnan(run(op, NAN))


def same(got, want):
    if np.isnan(want):
        return bool(np.isnan(got))
    return bool(got == want and np.signbit(got) == np.signbit(want))


@pytest.mark.parametrize(
    ("op", "x", "y", "want"),
    [
        (Op.MAX, NAN, 1.0, NAN),
        (Op.MAX, 1.0, NAN, NAN),
        (Op.MIN, NAN, 1.0, NAN),
        (Op.MIN, -INF, 1.0, -INF),
        (Op.DIV, 1.0, 0.0, INF),
        (Op.DIV, 1.0, -0.0, -INF),
        (Op.DIV, 0.0, 0.0, NAN),
        (Op.MOD, -7.5, 2.0, 0.5),
        (Op.MOD, 7.5, -2.0, -0.5),
        (Op.MOD, 1.0, 0.0, NAN),
        (Op.POW, 0.0, 0.0, 1.0),
        (Op.POW, -2.0, 0.5, NAN),
        (Op.POW, -0.0, 0.5, 0.0),
        (Op.POW, -INF, 0.5, INF),
        (Op.POW, NAN, 0.0, 1.0),
        (Op.POW, -2.0, 3.0, -8.0),
        (Op.ATAN2, 0.0, -0.0, math.pi),
        (Op.ATAN2, -0.0, -1.0, -math.pi),
        (Op.ATAN2, 1.0, 0.0, math.pi / 2),
        (Op.SUB, INF, INF, NAN),
        (Op.ADD, 0.0, -0.0, 0.0),
        (Op.MUL, 0.0, INF, NAN),
    ],
)
def test_special_pairs(op, x, y, want):
    assert same(float(run(op, x, y)), want)


@pytest.mark.parametrize("dtype", sorted(FLOATS - NARROW, key=str), ids=str)
@pytest.mark.parametrize(("op", "best"), [(Op.MAX, 0.0), (Op.MIN, -0.0)])
def test_the_larger_zero_is_the_positive_one(op, best, dtype):
    for x, y in ((0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0), (0.0, 0.0)):
        want = best if np.signbit(x) != np.signbit(y) else x
        pair = [np.full(3, v, dtype) for v in (x, y)]
        one_by_one = run(op, *pair)
        reduced = run(Op.REDUCE, np.stack(pair), arg=Reduce(op, (0,)))
        scattered = run(
            Op.SCATTER,
            pair[0],
            np.zeros((1, 1), int),
            pair[1][:1].reshape(1, 1),
            arg=Scatter(0, op),
        )
        for found in (one_by_one, reduced, scattered[:1]):
            assert found.dtype == dtype and (found == 0).all()
            assert (np.signbit(found) == np.signbit(want)).all(), (x, y)


def test_comparisons_with_nan():
    assert [bool(run(op, NAN, NAN)) for op in (Op.LT, Op.LE, Op.EQ, Op.NE)] == [
        False,
        False,
        False,
        True,
    ]
    assert bool(run(Op.EQ, 0.0, -0.0))


@given(*[st.floats(allow_nan=False, allow_infinity=False, width=32)] * 3)
@settings(max_examples=200, deadline=None)
def test_fma_rounds_once(x, y, z):
    with mpmath.workdps(400):
        exact = mpmath.mpf(x) * mpmath.mpf(y) + mpmath.mpf(z)
        want = float(exact)
    got = float(run(Op.FMA, *(np.float64(v) for v in (x, y, z))))
    assert got == want


def test_fma_where_two_roundings_differ():
    x = np.float64(1 + 2**-30)
    assert run(Op.FMA, x, x, np.float64(-1)) == 2**-29 + 2**-60
    assert run(Op.FMA, *np.array([INF, 1, -INF])).item() != 0


# Elementwise, integers: against Python's.


def wrapped(value, dtype):
    return np.array(value & (2 ** (8 * dtype.itemsize) - 1), f"u{dtype.itemsize}").view(dtype)


PYTHON = {
    Op.ADD: lambda x, y: x + y,
    Op.SUB: lambda x, y: x - y,
    Op.MUL: lambda x, y: x * y,
    Op.FLOORDIV: lambda x, y: x // y if y else 0,
    Op.MOD: lambda x, y: x % y if y else 0,
    Op.MAX: max,
    Op.MIN: min,
    Op.AND: lambda x, y: x & y,
    Op.OR: lambda x, y: x | y,
    Op.XOR: lambda x, y: x ^ y,
}


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_integers_are_pythons_wrapped_around(data):
    dtype = data.draw(st.sampled_from(sorted(INTEGERS - NARROW, key=str)))
    info = np.iinfo(dtype)
    values = st.integers(int(info.min), int(info.max)) | st.sampled_from([int(info.min), 0, 1])
    x, y = data.draw(values), data.draw(values)
    operands = np.array(x, dtype), np.array(y, dtype)
    for op, python in PYTHON.items():
        got = run(op, *operands)
        assert got.dtype == dtype
        assert got == wrapped(python(x, y), dtype), op
    assert run(Op.NEG, operands[0]) == wrapped(-x, dtype)
    assert run(Op.NOT, operands[0]) == wrapped(~x, dtype)
    assert run(Op.ABS, operands[0]) == wrapped(abs(x), dtype)
    assert run(Op.SIGN, operands[0]) == (x > 0) - (x < 0)


@pytest.mark.parametrize("dtype", sorted(INTEGERS - NARROW, key=str), ids=str)
def test_shifts_beyond_the_width_leave_nothing_or_the_sign(dtype):
    width = 8 * dtype.itemsize
    x = np.array([5, -5]).astype(dtype)
    for n in [0, 1, width - 1, width, width + 1, *([-1] if dtype.kind == "i" else [])]:
        count = np.full(2, n).astype(dtype)
        inside = 0 <= n < width
        left = [wrapped(int(v) << n, dtype) if inside else 0 for v in x]
        right = [int(v) >> n if inside else -1 if v < 0 else 0 for v in x]
        assert run(Op.SHL, x, count).tolist() == left
        assert run(Op.SHR, x, count).tolist() == right


def test_logic_on_bool():
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    for op, want in (
        (Op.AND, x & y),
        (Op.OR, x | y),
        (Op.XOR, x ^ y),
        (Op.MAX, x | y),
        (Op.MIN, x & y),
        (Op.LT, ~x & y),
    ):
        assert np.array_equal(run(op, x, y), want)
    assert np.array_equal(run(Op.NOT, x), ~x)
    assert run(Op.WHERE, x, [1, 2, 3, 4], [5, 6, 7, 8]).tolist() == [5, 6, 3, 4]


# Casts.


@pytest.mark.parametrize(
    ("value", "source", "to", "want"),
    [
        (2.9, FLOAT32, INT32, 2),
        (-2.9, FLOAT32, INT32, -2),
        (NAN, FLOAT32, INT32, 0),
        (1e20, FLOAT32, INT32, 2**31 - 1),
        (-1e20, FLOAT32, INT32, -(2**31)),
        (INF, FLOAT32, INT64, 2**63 - 1),
        (-INF, FLOAT64, INT64, -(2**63)),
        (-1.0, FLOAT32, uint8.dtype, 0),
        (300.0, FLOAT16, uint8.dtype, 255),
        (INF, FLOAT32, uint64.dtype, 2**64 - 1),
        (9.3e18, FLOAT64, INT64, 2**63 - 1),
        (300, INT32, uint8.dtype, 44),
        (200, INT32, int8.dtype, -56),
        (-1, INT32, UINT32, 2**32 - 1),
        (NAN, FLOAT32, BOOL, True),
        (-0.0, FLOAT32, BOOL, False),
        (0.1, FLOAT32, BOOL, True),
        (2, INT32, BOOL, True),
        (True, BOOL, FLOAT32, 1.0),
        (70000.0, FLOAT32, FLOAT16, INF),
        (16777217, INT32, FLOAT32, 16777216.0),
        (1.00390625, FLOAT32, BFLOAT16, 1.0),
        (1.01171875, FLOAT32, BFLOAT16, 1.015625),
    ],
)
def test_casts(value, source, to, want):
    got = run(Op.CAST, np.array(value, source), arg=to)
    assert got.dtype == to
    assert got == want


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_a_bitcast_there_and_back(dtype):
    bits = RNG.integers(0, 2, (5, dtype.itemsize)).astype(np.uint8).view(dtype).reshape(5)
    word = np.dtype(f"u{dtype.itemsize}")
    assert np.array_equal(
        run(Op.BITCAST, run(Op.BITCAST, bits, arg=word), arg=dtype).view(word), bits.view(word)
    )


# Random bits.


@pytest.mark.parametrize(
    ("words", "want"),
    [
        ((0, 0, 0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 4, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_known_answers(words, want):
    """Source: kat_vectors of Random123, threefry2x32 with 20 rounds."""
    operands = [np.array(w, UINT32) for w in words]
    with np.errstate(over="ignore"):
        assert threefry2x32(*operands) == want
    assert tuple(int(run(Op.THREEFRY, *operands, arg=i)) for i in (0, 1)) == want


# Movement.


@pytest.mark.parametrize("shape", [(4,), (1,), (0,), (3, 5), (2, 0, 3), (7, 1, 2)], ids=str)
def test_movement(shape):
    x = RNG.normal(size=shape).astype(np.float32)
    axes = tuple(range(x.ndim))[::-1]
    assert np.array_equal(run(Op.RESHAPE, x, arg=(x.size,)), x.ravel())
    assert np.array_equal(run(Op.PERMUTE, x, arg=axes), x.transpose(axes))
    assert np.array_equal(run(Op.FLIP, x, arg=(0,)), x[::-1])
    assert np.array_equal(run(Op.EXPAND, x[None], arg=(3, *shape)), np.stack([x] * 3))
    assert np.array_equal(run(Op.CONCAT, x, x, x, arg=0), np.concatenate([x, x, x]))
    zeros, ones = (0,) * x.ndim, (1,) * x.ndim
    cut = run(Op.SHRINK, x, arg=Shrink(zeros, shape, (2,) * x.ndim))
    assert np.array_equal(cut, x[(slice(None, None, 2),) * x.ndim])
    grown = run(Op.PAD, x, np.float32(7), arg=Pad(ones, zeros, (2,) * x.ndim))
    assert grown.shape == tuple(n + 1 + 2 * max(n - 1, 0) for n in shape)
    assert np.array_equal(grown[(slice(1, None, 3),) * x.ndim], x)
    assert (grown == 7).sum() == grown.size - x.size


def test_constants_and_iota():
    assert evaluate([const(3, INT32, (2, 2))], {})[0].tolist() == [[3, 3], [3, 3]]
    assert run(Op.IOTA, arg=Iota(4, uint8.dtype)).tolist() == [0, 1, 2, 3]
    assert evaluate([iota((2, 2), 0)], {})[0].tolist() == [[0, 0], [1, 1]]


# Reductions and contractions.


@together("dtype", [*REALS, *COMPLEXES], ids=str)
@together("axes", [(), (0,), (1,), (0, 2), (0, 1, 2)], ids=str)
@together("shape", [(2, 3, 4), (1, 1, 1), (2, 0, 3)], ids=str)
def test_reductions_are_loops(dtype, axes, shape):
    x = RNG.integers(0, 5, shape).astype(dtype)
    sums = () if dtype == BOOL else (Op.ADD, Op.MUL)
    for op in sums if dtype in COMPLEXES else (*sums, Op.MAX, Op.MIN):
        got = apply(Op.REDUCE, Reduce(op, axes), x)
        count = math.prod(shape[axis] for axis in axes)
        rows = np.moveaxis(x, axes, range(len(axes))).reshape(count, *got.shape)
        wide = x.dtype if dtype not in FLOATS or op in (Op.MAX, Op.MIN) else np.float64
        want = {Op.ADD: 0, Op.MUL: 1}.get(op)
        rows = rows.astype(wide)
        if want is None and len(rows) == 0:
            continue
        total = rows[0] if want is None else np.full(got.shape, want, wide)
        for row in rows if want is not None else rows[1:]:
            total = apply(op, None, total, row)
        assert got.dtype == dtype
        assert np.array_equal(got, total.astype(dtype))


def test_reductions_propagate_nan_and_start_from_the_identity():
    x = np.array([1.0, NAN, 3.0])
    for op in (Op.ADD, Op.MUL, Op.MAX, Op.MIN):
        assert np.isnan(apply(Op.REDUCE, Reduce(op, (0,)), x))
    empty = np.zeros((0, 2), np.float32)
    assert apply(Op.REDUCE, Reduce(Op.MAX, (0,)), empty).tolist() == [-INF, -INF]
    assert apply(Op.REDUCE, Reduce(Op.ADD, (0,)), empty).tolist() == [0, 0]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_place_of_an_extreme(axis):
    x = RNG.integers(0, 3, (2, 3, 4)).astype(np.int8)
    for op, best in ((Op.MAX, max), (Op.MIN, min)):
        got = apply(Op.REDUCE, Reduce(op, (axis,), INT32), x)
        lines = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis]).tolist()
        assert got.dtype == INT32 and got.ravel().tolist() == [r.index(best(r)) for r in lines]


@pytest.mark.parametrize("dtype", [BFLOAT16, np.float32], ids=str)
def test_the_first_nan_is_before_all_numbers(dtype):
    x = np.array([[1.0, NAN, INF, NAN], [-INF, -INF, -INF, -INF], [-0.0, 0.0, -1, -2]], dtype)
    assert apply(Op.REDUCE, Reduce(Op.MAX, (1,), INT32), x).tolist() == [1, 0, 0]
    assert apply(Op.REDUCE, Reduce(Op.MIN, (1,), INT32), x).tolist() == [1, 0, 3]


def test_short_floats_are_summed_in_32_bits():
    ones = np.ones(5000, BFLOAT16)
    assert float(apply(Op.REDUCE, Reduce(Op.ADD, (0,)), ones)) == 4992  # 5000, rounded once
    assert float(apply(Op.DOT, Dot((0,), (0,), (), (), FLOAT32), ones, ones)) == 5000


def test_small_integers_wrap_around_in_sums():
    assert apply(Op.REDUCE, Reduce(Op.ADD, (0,)), np.full(3, 100, np.int8)) == 44


@pytest.mark.parametrize(
    ("shape_a", "shape_b", "arg", "spec"),
    [
        ((2, 3), (3, 4), Dot((1,), (0,), (), (), FLOAT64), "ij,jk->ik"),
        ((3, 2), (4, 3), Dot((0,), (1,), (), (), FLOAT64), "ji,kj->ik"),
        ((5, 2, 3), (5, 3, 4), Dot((2,), (1,), (0,), (0,), FLOAT64), "bij,bjk->bik"),
        ((2, 5, 3), (3, 4, 5), Dot((2,), (0,), (1,), (2,), FLOAT64), "ibj,jkb->bik"),
        ((2,), (3,), Dot((), (), (), (), FLOAT64), "i,j->ij"),
        ((2, 3), (3, 2), Dot((0, 1), (1, 0), (), (), FLOAT64), "ij,ji->"),
        ((2, 0), (0, 3), Dot((1,), (0,), (), (), FLOAT64), "ij,jk->ik"),
    ],
)
def test_contractions(shape_a, shape_b, arg, spec):
    a, b = RNG.normal(size=shape_a), RNG.normal(size=shape_b)
    assert np.allclose(apply(Op.DOT, arg, a, b), np.einsum(spec, a, b))


def naive_conv(arg, x, w):
    """One output element at a time, from the definition."""
    space = [d * (n - 1) + 1 if n else 0 for n, d in zip(x.shape[1:-1], arg.dilation_x)]
    wide = np.zeros((x.shape[0], *space, x.shape[-1]))
    wide[(slice(None), *(slice(None, None, d) for d in arg.dilation_x))] = x
    node = UOp(
        Op.CONV,
        (
            UOp(Op.PARAM, (), Param(0, x.shape, FLOAT64)),
            UOp(Op.PARAM, (), Param(1, w.shape, FLOAT64)),
        ),
        arg,
    )
    out = np.zeros(node.shape)
    depth, features = w.shape[-2:]
    rows, share = out.shape[0], features // (arg.groups * arg.batch_groups)
    for at in np.ndindex(*out.shape):
        row, place, feature = at[0], at[1:-1], at[-1]
        group, part = divmod(feature // share, arg.batch_groups)
        row += part * rows
        for tap in np.ndindex(*w.shape[:-2]):
            where = [
                p * s + t * d - low
                for p, s, t, d, (low, _) in zip(
                    place, arg.strides, tap, arg.dilation_w, arg.padding
                )
            ]
            if all(0 <= i < n for i, n in zip(where, wide.shape[1:-1])):
                for k in range(depth):
                    out[at] += wide[(row, *where, group * depth + k)] * w[(*tap, k, feature)]
    return out


@pytest.mark.parametrize(
    ("shape_x", "shape_w", "arg"),
    [
        ((2, 5, 3), (3, 3, 4), Conv((1,), ((1, 1),), (1,), (1,), 1, 1, FLOAT64)),
        ((1, 6, 2), (2, 2, 3), Conv((2,), ((0, 1),), (2,), (3,), 1, 1, FLOAT64)),
        ((1, 7, 1), (3, 1, 1), Conv((1,), ((-1, -2),), (1,), (1,), 1, 1, FLOAT64)),
        ((2, 4, 4), (3, 2, 6), Conv((1,), ((0, 0),), (1,), (1,), 2, 1, FLOAT64)),
        ((4, 5, 2), (3, 2, 6), Conv((1,), ((1, 1),), (1,), (1,), 1, 2, FLOAT64)),
        ((4, 5, 4), (3, 2, 12), Conv((1,), ((1, 1),), (1,), (1,), 2, 2, FLOAT64)),
        ((1, 4, 5, 2), (2, 3, 2, 3), Conv((1, 2), ((1, 0), (1, 1)), (1, 1), (2, 1), 1, 1, FLOAT64)),
        ((1, 2, 2), (3, 2, 1), Conv((1,), ((0, 0),), (1,), (1,), 1, 1, FLOAT64)),
        ((0, 4, 2), (2, 2, 1), Conv((1,), ((0, 0),), (1,), (1,), 1, 1, FLOAT64)),
    ],
)
def test_convolutions(shape_x, shape_w, arg):
    x, w = RNG.normal(size=shape_x), RNG.normal(size=shape_w)
    assert np.allclose(conv(arg, x, w), naive_conv(arg, x, w))


# Irregular access.


def test_gather_clamps():
    x = np.arange(12).reshape(4, 3)
    starts = np.array([[0], [2], [9], [-5]])
    got = apply(Op.GATHER, Gather(0, (2, 3)), x, starts)
    assert np.array_equal(got, np.stack([x[0:2], x[2:4], x[2:4], x[0:2]]))


def test_gather_with_a_batch():
    x = np.arange(24).reshape(2, 4, 3)
    starts = np.array([[[1, 0]], [[2, 1]]])
    got = apply(Op.GATHER, Gather(1, (1, 2)), x, starts)
    assert got.tolist() == [[[[3, 4]]], [[[19, 20]]]]


def test_scatter_drops_what_does_not_fit_and_combines_in_order():
    zeros = np.zeros(4)
    at = np.array([[1], [1], [3], [4], [-1]])
    updates = np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])
    for op, want in (
        (Op.ADD, [0, 3, 0, 3]),
        (Op.WHERE, [0, 2, 0, 3]),
        (Op.MAX, [0, 2, 0, 3]),
        (Op.MIN, [0, 0, 0, 0]),
        (Op.MUL, [0, 0, 0, 0]),
    ):
        assert apply(Op.SCATTER, Scatter(0, op), zeros, at, updates).tolist() == want
    assert zeros.tolist() == [0, 0, 0, 0]


def test_scatter_of_windows_with_a_batch():
    operand = np.zeros((2, 4))
    at = np.array([[[0], [1]], [[2], [3]]])
    updates = np.ones((2, 2, 2))
    got = apply(Op.SCATTER, Scatter(1, Op.ADD), operand, at, updates)
    assert got.tolist() == [[1, 2, 1, 0], [0, 0, 1, 1]]


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_sorting_is_stable_and_puts_nan_last(dtype):
    keys = RNG.integers(0, 3, (2, 9)).astype(dtype)
    if dtype in FLOATS:
        keys[0, 3] = NAN
    order = np.tile(np.arange(9), (2, 1))
    got, moved = apply(Op.SORT, Sort(1), keys, order)
    for row in range(2):
        plain = keys[row].astype(np.float64)
        want = sorted(range(9), key=lambda i, plain=plain: (np.isnan(plain[i]), plain[i]))
        assert moved[row].tolist() == want
    assert np.array_equal(
        got.astype(np.float64),
        np.take_along_axis(keys, moved, 1).astype(np.float64),
        equal_nan=True,
    )


def test_sorting_by_several_keys():
    first, second = np.array([1, 0, 1, 0]), np.array([5, 4, 3, 4])
    order = np.arange(4)
    assert apply(Op.SORT, Sort(2), first, second, order)[2].tolist() == [1, 3, 2, 0]


def test_signed_zeros_are_equal_to_sorting():
    assert apply(Op.SORT, Sort(1), np.array([0.0, -0.0]), np.array([0, 1]))[1].tolist() == [0, 1]


# Graphs.


def test_a_graph_is_evaluated_once_per_node():
    x = UOp(Op.PARAM, (), Param(0, (3,), FLOAT32))
    u = x
    for _ in range(50):  # a tree of 2 ** 50
        u = u * 0.5 + u * 0.5
    value = np.array([1, 2, 3], np.float32)
    assert np.array_equal(evaluate([u, x], {x: value})[0], value)


def test_values_may_be_given_of_any_node():
    x = UOp(Op.PARAM, (), Param(0, (3,), FLOAT32))
    u = x + x
    assert (evaluate([u * 2.0], {u: np.float32(4)})[0] == 8).all()


def test_tuples():
    x = UOp(Op.PARAM, (), Param(0, (3,), FLOAT32))
    low, high = sort([x, -x])
    got = evaluate([low, high], {x: np.array([3, 1, 2], np.float32)})
    assert [v.tolist() for v in got] == [[1, 2, 3], [-1, -2, -3]]


@pytest.mark.parametrize("shape", [*itertools.product((0, 1, 5), repeat=2), ()], ids=str)
def test_elementwise_ops_keep_shape_and_dtype(shape):
    x = np.zeros(shape, np.float32)
    for op in FUNCTIONS:
        got = run(op, x)
        assert (got.shape, got.dtype) == (shape, FLOAT32)


def looped(*types):
    """Parameters of these types, and what makes a function of graphs over them."""
    numbered = tuple(Param(i, shape, dtype) for i, (shape, dtype) in enumerate(types))
    return [param(q) for q in numbered], lambda *outputs: function(outputs, numbered)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_goes_step_by_step(reverse):
    (k, c, x), body = looped(((), FLOAT64), ((), FLOAT64), ((), FLOAT64))
    (a, b, xs), _ = looped(((), FLOAT64), ((), FLOAT64), ((3,), FLOAT64))
    last, before = scan(body(c * k + x, c), [a], [b], [xs], 3, reverse)
    values = {a: np.array(2.0), b: np.array(1.0), xs: np.array([1.0, 10.0, 100.0])}
    found = evaluate([last, before], values)
    if reverse:
        expected = ((102.0 * 2 + 10) * 2 + 1, [214.0, 102.0, 1.0])
    else:
        expected = (16.0 * 2 + 100, [1.0, 3.0, 16.0])
    assert (float(found[0]), found[1].tolist()) == expected


def test_while_may_do_nothing():
    (limit, n), below = looped(((), INT32), ((), INT32))
    (one,), double = looped(((), INT32))
    (a, b), _ = looped(((), INT32), ((), INT32))
    (last,) = repeat_while(below(n < limit), double(one * 2), [a], [], [b])
    for limits, first, expected in ((100, 3, 192), (2, 3, 3)):
        assert evaluate([last], {a: np.int32(limits), b: np.int32(first)})[0] == expected


def test_only_the_chosen_branch_is_evaluated(monkeypatch):
    (x,), branch = looped(((), FLOAT64))
    (i, y), _ = looped(((), INT32), ((), FLOAT64))
    (found,) = choose(i, [branch(x * 2.0), branch(UOp(Op.SIN, (x,)))], [y])
    monkeypatch.setitem(MEANING, Op.SIN, None)
    for index in (0, -7):
        assert evaluate([found], {i: np.int32(index), y: np.array(3.0)})[0] == 6
    with pytest.raises(TypeError):
        evaluate([found], {i: np.int32(9), y: np.array(3.0)})
