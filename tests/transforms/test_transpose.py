"""Reverse mode: total over the linear ops, and the adjoint of forward mode."""

from __future__ import annotations

import numpy as np
import pytest

from tests.covering import together
from tests.transforms.cases import CASES, Case, leaf, run
from tests.transforms.test_jvp import derivatives
from tfn.dtypes import BFLOAT16, FLOAT32, FLOAT64
from tfn.errors import GradientError
from tfn.trace import build
from tfn.trace.argument import Reduce
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const
from tfn.transforms.jvp import push
from tfn.transforms.transpose import pull


@together("order", [0, 1])
@together("case", CASES, ids=lambda case: case.name)
def test_is_the_adjoint_of_forward_mode(case: Case, order: int) -> None:
    graphs, values, differentiated = derivatives(case, order)
    dxs, ct = [leaf(x) for x in case.differentiated], leaf(run(graphs[:1], values)[0])
    rng = np.random.default_rng(5)
    given = {u: rng.normal(size=u.shape) for u in (*dxs, ct)}
    (dy,) = push([graphs[-1]], dict(zip(differentiated, dxs)))
    cts = pull([dy], dxs, [ct])
    if dy is None:
        assert cts == [None] * len(dxs)
        return
    back = [build.zeros(x.shape, FLOAT64) if c is None else c for x, c in zip(dxs, cts)]
    pushed, *pulled = run([dy, *back], values | given)
    assert [v.shape for v in pulled] == [x.shape for x in case.differentiated]
    forward = np.sum(given[ct] * pushed)
    reverse = sum(np.sum(given[dx] * v) for dx, v in zip(dxs, pulled))
    np.testing.assert_allclose(forward, reverse, rtol=1e-10, atol=1e-10)


def test_the_cotangent_of_a_mixed_dot_is_exact() -> None:
    a, b = leaf(np.zeros((2, 3), BFLOAT16)), leaf(np.zeros((3, 4), BFLOAT16))
    da, ct = leaf(np.zeros((2, 3), BFLOAT16)), leaf(np.zeros((2, 4), np.float32))
    y = build.dot(a, b, ((1,), (0,)), dtype=FLOAT32)
    (back,) = pull(push([y], {a: da}), [da], [ct])
    assert back is not None and back.dtype == BFLOAT16
    weights = np.zeros((3, 4), BFLOAT16)
    weights[:, 0], weights[:, 1] = 1, -1
    given = np.ones((2, 4), np.float32)
    given[:, 0] += 2.0**-12  # lost if the cotangent were rounded before the product
    (found,) = run([back], {b: weights, ct: given})
    assert found.astype(np.float32).tolist() == np.full((2, 3), 2.0**-12).tolist()


def test_nonlinear_operations_are_named() -> None:
    x = leaf(np.ones(3))
    ct = const(1.0, FLOAT64, (3,))
    for graph in (x * x, UOp(Op.SIN, (x,)), ct / x):
        with pytest.raises(GradientError, match="not linear"):
            pull([graph], [x], [ct])
    with pytest.raises(GradientError, match="reduction by max"):
        pull([UOp(Op.REDUCE, (x,), Reduce(Op.MAX, (0,)))], [x], [const(1.0, FLOAT64)])


def test_zero_cotangents_are_none() -> None:
    x, y = leaf(np.ones(3)), leaf(np.ones(3))
    ct = const(1.0, FLOAT64, (3,))
    assert pull([x * 2.0, None], [x, y], [ct, ct]) == [ct * 2.0, None]
    assert pull([x * 2.0], [x, y], [None]) == [None, None]
    assert pull([None], [x], [ct]) == [None]


def test_an_input_may_be_an_output() -> None:
    x, ct = leaf(np.ones(3)), leaf(np.ones(3))
    assert pull([x, x], [x], [ct, ct]) == [ct + ct]


def test_a_matmul_needs_no_permutation() -> None:
    a, b, ct = leaf(np.zeros((2, 3))), leaf(np.zeros((3, 4))), leaf(np.zeros((2, 4)))
    for x in (a, b):
        dx = leaf(np.zeros(x.shape))
        (back,) = pull(push([build.dot(a, b, ((1,), (0,)))], {x: dx}), [dx], [ct])
        assert back is not None and back.op is Op.DOT and back.shape == x.shape
