"""Coefficients of Taylor series through graphs."""

from __future__ import annotations

import math

import numpy as np

from tfn.dtypes import canonical
from tfn.experimental.taylor import Propagation
from tfn.trace.argument import Leaf
from tfn.trace.build import unary
from tfn.trace.op import Op
from tfn.trace.oracle import evaluate
from tfn.trace.uop import UOp, const

F64 = canonical("float64")


def leaf() -> UOp:
    return UOp(Op.LEAF, (), Leaf((), F64))


def test_the_series_of_exp() -> None:
    x, order = leaf(), 5
    curve = [x, const(1.0, F64), *[None] * (order - 1)]
    (found,) = Propagation(order, {x: curve}).series([unary(Op.EXP, x)])
    values = evaluate([u for u in found if u is not None], {x: np.array(0.0)})
    np.testing.assert_allclose(values, [1 / math.factorial(k) for k in range(order + 1)])


def test_what_does_not_move_has_no_coefficients() -> None:
    x, y = leaf(), leaf()
    series = Propagation(2, {x: [x, const(1.0, F64), None]}).series([y * y, x + y])
    assert series[0] == [y * y, None, None]
    assert series[1][2] is None or evaluate([series[1][2]], {x: 0.0, y: 0.0})[0] == 0
