"""Rules of KERNEL: one more range under `vmap`, or a loop."""

from __future__ import annotations

import numpy as np

from tests.transforms.cases import leaf, run
from tfn.dtypes import FLOAT64
from tfn.trace import build
from tfn.trace.argument import CustomKernel, Fold, Param, Range
from tfn.trace.interpreter import Nest
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk
from tfn.transforms.batch import batch

X, Y = np.arange(12.0).reshape(4, 3), np.arange(3.0) + 1


def product(text: str = "") -> UOp:
    """out[i] = sum over j of x[i, j] y[j]."""
    i, j = (UOp(Op.RANGE, (), Range(n, size)) for n, size in enumerate((4, 3)))
    out, x, y = (UOp(Op.PARAM, (), Param(n, (k,), FLOAT64)) for n, k in enumerate((4, 12, 3)))
    term = UOp(Op.LOAD, (x, i * 3 + j)) * UOp(Op.LOAD, (y, j))
    body = UOp(Op.SINK, (UOp(Op.STORE, (out, i, UOp(Op.FOLD, (term, j), Fold(Op.ADD)))),))
    takes, gives = ((X.shape, FLOAT64), (Y.shape, FLOAT64)), (((4,), FLOAT64),)
    arg = CustomKernel("product", takes, gives, Nest(body), None if text else body, text)
    return UOp(Op.GET, (UOp(Op.KERNEL, (leaf(X), leaf(Y)), arg),), 0)


def over_lanes(node: UOp, on_x: bool, on_y: bool) -> tuple[UOp, dict[UOp, np.ndarray]]:
    x, y = node.src[0].src
    many = {s: leaf(np.stack([v, v + 1])) for s, v, yes in ((x, X, on_x), (y, Y, on_y)) if yes}
    (lanes,) = batch([node], many, 2)
    assert lanes.many
    values = {x: X, y: Y} | {
        many[s]: np.stack([v, v + 1]) for s, v in ((x, X), (y, Y)) if s in many
    }
    return lanes.graph, values


def test_lanes_are_one_more_range() -> None:
    for on_x, on_y in ((True, True), (True, False), (False, True)):
        graph, values = over_lanes(product(), on_x, on_y)
        assert [u.op for u in walk([graph])][-2:] == [Op.KERNEL, Op.GET]
        expected = [(X + k * on_x) @ (Y + k * on_y) for k in range(2)]
        np.testing.assert_array_equal(run([graph], values)[0], expected)


def test_lanes_of_a_text_are_a_loop() -> None:
    graph, values = over_lanes(product("define ..."), True, False)
    assert any(u.op is Op.SCAN for u in walk([graph]))
    np.testing.assert_array_equal(run([graph], values)[0], [X @ Y, (X + 1) @ Y])


def test_equal_kernels_are_one_node() -> None:
    assert product().src[0].arg == product().src[0].arg
    x = leaf(np.ones((2, 4, 3)))
    node = product()
    first, second = (batch([node], {node.src[0].src[0]: x}, 2)[0].graph for _ in range(2))
    assert first is second and build.count(first.shape) == 8
