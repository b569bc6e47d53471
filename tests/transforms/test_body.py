"""Functions opened on leaves, closed again, and what a linear graph takes from beside it."""

from __future__ import annotations

import numpy as np

from tests.transforms.cases import leaf
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp
from tfn.transforms.body import Lanes, closed, depending, fresh, opened, rematerialised, residuals

x, y = leaf(np.ones(3)), leaf(np.ones(3))


def test_a_function_survives_opening_and_closing() -> None:
    f = closed([x * y, x], [x, y])
    inputs, outputs = opened(f)
    assert [u.op for u in inputs] == [Op.LEAF] * 2 and inputs != [x, y]
    assert closed(outputs, inputs) is f
    assert closed([y * x, y], [y, x]) is f


def test_a_nested_function_is_not_entered() -> None:
    inner = closed([x * x], [x])
    (twice,) = build.scan(closed([x * y], [x, y]), [y], [x], [], 2)
    outer = closed([twice, x], [y, x])
    assert inner.src[0].src[0].op is Op.PARAM
    inputs, outputs = opened(outer)
    assert outputs[0].src[0].src[1:] == (inputs[0], inputs[1])
    assert closed(outputs, inputs) is outer


def test_depending_nodes() -> None:
    a = x * 2.0
    b = a + y
    assert list(depending([b], [x])) == [x, a, b]
    assert list(depending([b], [leaf(np.ones(3))]))[1:] == []


def test_residuals_are_kept_once() -> None:
    dx = fresh(x)
    s = UOp(Op.SIN, (x,))
    wide = build.broadcast_in_dim(s, (2, 3), (1,))
    graph = build.broadcast_in_dim(dx * s, (2, 3), (1,)) * wide * 2.0
    assert residuals([graph], [dx]) == [s]
    assert residuals([dx * x], [dx]) == [x]
    assert residuals([build.zeros((3,), x.dtype)], [dx]) == []


def test_lanes() -> None:
    assert Lanes(x, True).full(3) is x
    assert Lanes(x, False).full(2).shape == (2, 3)


def test_cheap_residuals_are_rematerialised() -> None:
    e = UOp(Op.EXP, (x,))
    more = 1 + e
    share = 1 / more
    assert rematerialised([share, e, more], []) == [e]
    assert rematerialised([share, more], []) == [more]
    assert rematerialised([share], []) == [share]
    assert rematerialised([share, e * y], [y]) == [share, e * y]
    assert rematerialised([e, e * y], [y]) == [e, y]


def test_long_recipes_are_not_followed() -> None:
    node = x
    for _ in range(20):
        node = node * y
    assert rematerialised([node, x], [y]) == [x, node]
