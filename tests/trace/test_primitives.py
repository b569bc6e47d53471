"""Type rules: the type of each op's result, and the errors for illegal operands."""

from __future__ import annotations

import numpy as np
import pytest

from tests.covering import together
from tfn._support.validate import shown
from tfn.dtypes import (
    ALL,
    BOOL,
    COMPLEX64,
    COMPLEX128,
    COMPLEXES,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    INTEGERS,
    UINT32,
    part,
)
from tfn.errors import AxisError, DTypeError, ShapeError, TfnError
from tfn.lower.graph.complex_pairs import PAIRS
from tfn.trace.argument import (
    Conv,
    Dot,
    Fft,
    FftType,
    Gather,
    Pad,
    Param,
    Reduce,
    Scatter,
    Shrink,
    Sort,
)
from tfn.trace.op import BINARY, COMPARE, MANUAL, UNARY, Op
from tfn.trace.oracle import evaluate
from tfn.trace.primitives import PRIMITIVES
from tfn.trace.sharding import Axis, Partition
from tfn.trace.uop import UOp


def p(shape=(), dtype=FLOAT32, index=0):
    return UOp(Op.PARAM, (), Param(index, shape, dtype))


@together("dtype", ALL, ids=str)
@together("op", sorted(UNARY | BINARY | COMPARE, key=lambda op: op.value), ids=lambda op: op.value)
def test_inferred_types_are_those_of_the_oracle(op, dtype):
    """The oracle is the judge: its result has the shape and dtype that were promised."""
    src = [p((2,), dtype, i) for i in range(1 if op in UNARY else 2)]
    try:
        node = UOp(op, tuple(src))
    except DTypeError:
        whole = op in (Op.NOT, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.FLOORDIV)
        assert dtype in INTEGERS | {BOOL} or whole or (dtype in COMPLEXES and op not in PAIRS)
        return
    got = evaluate([node], {u: np.ones(2).astype(dtype) for u in src})[0]
    assert (got.shape, got.dtype) == (node.shape, node.dtype)
    assert node.dtype == (BOOL if op in COMPARE else part(dtype) if op is Op.ABS else dtype)


def refuse(op, src, arg=None):
    with pytest.raises(TfnError) as caught:
        UOp(op, tuple(src), arg)
    return caught.value


@together(
    "op, src, arg, kind, words",
    [
        (Op.ADD, [p((2,)), p((3,))], None, ShapeError, "add needs operands of one shape"),
        (Op.ADD, [p(), p((), INT32)], None, DTypeError, "add needs operands of one dtype"),
        (Op.ADD, [p((), BOOL), p((), BOOL)], None, DTypeError, "add needs numbers"),
        (Op.DIV, [p((), INT32), p((), INT32)], None, DTypeError, "div needs floating"),
        (Op.SIN, [p((), INT32)], None, DTypeError, "sin needs floating or complex"),
        (Op.FLOORDIV, [p(), p()], None, DTypeError, "floor_divide needs integers"),
        (Op.AND, [p(), p()], None, DTypeError, "and needs integers or booleans"),
        (Op.SHL, [p((), BOOL), p((), BOOL)], None, DTypeError, "shift_left needs integers"),
        (Op.LT, [p((2,)), p()], None, ShapeError, "comparison needs operands of one shape"),
        (Op.WHERE, [p(), p(), p()], None, DTypeError, "select needs a boolean condition"),
        (Op.WHERE, [p((), BOOL), p(), p((), FLOAT64)], None, DTypeError, "one dtype"),
        (Op.FMA, [p((), INT32)] * 3, None, DTypeError, "fma needs floating values"),
        (Op.LDEXP, [p((), FLOAT64), p((), INT32)], None, DTypeError, "integers as wide as x"),
        (Op.LDEXP, [p((), INT32), p((), INT32)], None, DTypeError, "float32 or float64"),
        (Op.THREEFRY, [p((), INT32)] * 4, 0, DTypeError, "uint32 words"),
        (Op.BITCAST, [p()], FLOAT64, DTypeError, "one width"),
        (Op.BITCAST, [p((), COMPLEX64)], FLOAT64, DTypeError, "bitcast needs real dtypes"),
        (Op.LT, [p((), COMPLEX64)] * 2, None, DTypeError, "complex numbers have no order"),
        (Op.REAL, [p()], None, DTypeError, "needs complex values"),
        (Op.COMPLEX, [p((), INT32)] * 2, None, DTypeError, "parts of float32 or float64"),
        (Op.FFT, [p((4,))], Fft(FftType.FFT, (4,)), DTypeError, "fft needs complex values"),
        (Op.FFT, [p((4,))], Fft(FftType.RFFT, (5,)), ShapeError, "last axes of its lengths"),
        (Op.REDUCE, [p((4,), COMPLEX64)], Reduce(Op.MAX, (0,)), DTypeError, "real numbers"),
        (Op.RESHAPE, [p((2, 3))], (5,), ShapeError, "cannot turn 6 elements into 5"),
        (Op.PERMUTE, [p((2, 3))], (0, 0), AxisError, "permutation of the 2 axes"),
        (Op.EXPAND, [p((2,))], (3,), ShapeError, "axes of size 1"),
        (Op.PAD, [p((2,)), p((), INT32)], Pad((1,), (0,), (0,)), DTypeError, "operand's dtype"),
        (Op.SHRINK, [p((2,))], Shrink((0,), (3,), (1,)), ShapeError, "0 <= start <= stop"),
        (Op.SHRINK, [p((2,))], Shrink((0,), (2,), (0,)), ShapeError, "step >= 1"),
        (Op.CONCAT, [p((2, 3)), p((3, 2))], 0, ShapeError, "but for axis 0"),
        (Op.CONCAT, [p((2,)), p((2,), INT32)], 0, DTypeError, "one dtype"),
        (Op.REDUCE, [p((2,))], Reduce(Op.ADD, (1,)), AxisError, "not there"),
        (Op.REDUCE, [p((2,), BOOL)], Reduce(Op.ADD, (0,)), DTypeError, "needs numbers"),
        (
            Op.DOT,
            [p((2, 3)), p((2, 3))],
            Dot((1,), (0,), (), (), FLOAT32),
            ShapeError,
            "needs axis 1 of the first operand to equal axis 0 of the second",
        ),
        (
            Op.DOT,
            [p((3,)), p((3,), INT32)],
            Dot((0,), (0,), (), (), FLOAT32),
            DTypeError,
            "one dtype",
        ),
        (
            Op.DOT,
            [p((3,)), p((3,))],
            Dot((0,), (0,), (), (), COMPLEX64),
            DTypeError,
            "dot_general of real numbers has a real result",
        ),
        (
            Op.DOT,
            [p((3,), COMPLEX64)] * 2,
            Dot((0,), (0,), (), (), FLOAT32),
            DTypeError,
            "dot_general of complex numbers has a complex result",
        ),
        (
            Op.CONV,
            [p((1, 5, 2)), p((3, 2, 4))],
            Conv((1,), ((0, 0),), (1,), (1,), 1, 1, COMPLEX64),
            DTypeError,
            "has a real result",
        ),
        (Op.REDUCE, [p((3,))], Reduce(Op.MAX, (0,), COMPLEX64), DTypeError, "is an integer"),
        (Op.FLIP, [p((2, 3))], (2,), AxisError, "along an axis that is not there"),
        (
            Op.CONV,
            [p((1, 5, 2)), p((3, 3, 4))],
            Conv((1,), ((0, 0),), (1,), (1,), 1, 1, FLOAT32),
            ShapeError,
            "3 input channels",
        ),
        (
            Op.CONV,
            [p((1, 5, 2)), p((3, 3, 2, 4))],
            Conv((1,), ((0, 0),), (1,), (1,), 1, 1, FLOAT32),
            ShapeError,
            "as many window axes",
        ),
        (Op.GATHER, [p((4,)), p((2, 1))], Gather(0, (1,)), DTypeError, "integer indices"),
        (Op.GATHER, [p((4,)), p((2, 1), INT32)], Gather(0, (5,)), ShapeError, "windows inside"),
        (
            Op.SCATTER,
            [p((4,)), p((2, 1), INT32), p((3, 1))],
            Scatter(0, Op.ADD),
            ShapeError,
            "one update for each index",
        ),
        (Op.SORT, [p((2,)), p((3,))], Sort(1), ShapeError, "one shape"),
        (Op.SORT, [p()], Sort(1), ShapeError, "at least one axis"),
    ],
)
def test_type_errors_name_the_problem(op, src, arg, kind, words):
    error = refuse(op, src, arg)
    assert isinstance(error, kind)
    assert words in str(error)
    assert any(shown(s) in error.got for s in src)
    assert "test_primitives.py" in error.where  # the user's line


def test_a_refusal_shows_what_was_got():
    error = refuse(Op.ADD, [p((64, 128)), p((64, 10))])
    assert error.got == "f32[64,128], f32[64,10]"
    assert error.hint == "tfn.numpy broadcasts; tfn.lax repeats sizes of 1 alone"


@pytest.mark.parametrize(
    ("u", "shape"),
    [
        (UOp(Op.PAD, (p((2, 0)), p()), Pad((1, 1), (0, 2), (3, 3))), (6, 3)),
        (UOp(Op.SHRINK, (p((7,)),), Shrink((1,), (7,), (2,))), (3,)),
        (UOp(Op.SHRINK, (p((7,)),), Shrink((2,), (2,), (5,))), (0,)),
        (
            UOp(Op.DOT, (p((5, 2, 3)), p((4, 5, 3))), Dot((2,), (2,), (0,), (1,), FLOAT32)),
            (5, 2, 4),
        ),
        (
            UOp(
                Op.CONV,
                (p((2, 9, 7, 4)), p((3, 3, 2, 6))),
                Conv((2, 1), ((1, 1), (0, 0)), (1, 1), (1, 2), 2, 1, FLOAT32),
            ),
            (2, 5, 3, 6),
        ),
        (UOp(Op.GATHER, (p((3, 5, 6)), p((3, 8, 1), INT32)), Gather(1, (2, 6))), (3, 8, 2, 6)),
    ],
)
def test_shapes_that_need_thought(u, shape):
    assert u.shape == shape


def test_names_of_types():
    assert shown(p((2, 3), UINT32)) == "u32[2,3]"
    assert shown(p()) == "f32[]"


RNG = np.random.default_rng(0)
MANY = {Op.CONCAT: 2, Op.WHERE: 3, Op.FMA: 3}
LINEAR_ARGS = {
    Op.CAST: FLOAT64,
    Op.RESHAPE: (3, 2),
    Op.PERMUTE: (1, 0),
    Op.EXPAND: (2, 3),
    Op.SHRINK: Shrink((0, 1), (2, 3), (1, 1)),
    Op.FLIP: (1,),
    Op.CONCAT: 0,
    Op.REDUCE: Reduce(Op.ADD, (0,)),
    Op.DOT: Dot((0,), (0,), (), (), FLOAT64),
    Op.PAD: Pad((1, 0), (0, 2), (1, 0)),
    Op.CONV: Conv((1,), ((1, 0),), (1,), (1,), 1, 1, FLOAT64),
    Op.FFT: Fft(FftType.IFFT, (3,)),
    Op.GATHER: Gather(0, (1, 3)),
    Op.SCATTER: Scatter(0, Op.ADD),
    Op.CONSTRAIN: Partition((Axis("x", 3),), ((), ("x",))),
}
DEVICES = MANUAL - {Op.CONSTRAIN}  # tests/transforms/shard has their rules: one has no value alone


def _operands(op):
    """A legal set of operands for each linear op, in float64."""
    square = p((2, 3), FLOAT64, 0), p((2, 3), FLOAT64, 1)
    special = {
        Op.WHERE: (p((2, 3), BOOL, 2), *square),
        Op.PAD: (square[0], p((), FLOAT64, 1)),
        Op.CONV: (p((1, 4, 2), FLOAT64, 0), p((2, 2, 3), FLOAT64, 1)),
        Op.GATHER: (square[0], p((4, 1), INT32, 1)),
        Op.SCATTER: (square[0], p((4, 1), INT32, 1), p((4, 1, 3), FLOAT64, 2)),
        **dict.fromkeys((Op.REAL, Op.IMAG, Op.FFT), (p((2, 3), COMPLEX128, 0),)),
    }
    binary = op in BINARY or op in (Op.DOT, Op.CONCAT, Op.COMPLEX)
    return special.get(op) or (square if binary else square[:1])


@together(
    "op",
    [op for op, row in PRIMITIVES.items() if row.linear and op not in {Op.GBARRIER, *DEVICES}],
    ids=lambda op: op.value,
)
def test_linear_ops_are_linear_where_they_say_so(op):
    src = _operands(op)
    node = UOp(op, src, LINEAR_ARGS.get(op))

    def draw(u):
        if u.dtype == INT32:
            return RNG.integers(0, 2, u.shape).astype(np.int32)
        if u.dtype == BOOL:
            return RNG.random(u.shape) < 0.5
        return RNG.normal(size=u.shape) + (1j * RNG.normal() if u.dtype == COMPLEX128 else 0)

    fixed = {u: draw(u) for u in src}
    for place in PRIMITIVES[op].linear:
        a, b = draw(src[place]), draw(src[place])
        run = lambda v, place=place: evaluate([node], {**fixed, src[place]: v})[0]
        zero = run(np.zeros_like(a))
        assert np.allclose(run(a + 2 * b) - zero, (run(a) - zero) + 2 * (run(b) - zero))
        together = op in (
            Op.PAD,
            Op.CONCAT,
            Op.WHERE,
            Op.ADD,
            Op.SUB,
            Op.SCATTER,
            Op.COMPLEX,
        )
        assert together or not zero.any()


def test_every_float_op_is_for_all_floats():
    for dtype in FLOATS:
        for op in UNARY - {Op.NOT}:
            assert UOp(op, (p((), dtype),)).dtype == dtype
