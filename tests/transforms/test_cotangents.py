"""Cotangents of pieces are joined where they meet, and added where they overlap or leave gaps."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn.dtypes import FLOAT32
from tfn.trace.argument import Param
from tfn.trace.build import pad
from tfn.trace.op import Op
from tfn.trace.oracle import evaluate
from tfn.trace.uop import UOp, walk
from tfn.transforms.cotangents import total


def piece(i: int, size: int, low: int, whole: int = 7) -> UOp:
    x = UOp(Op.PARAM, (), Param(i, (2, size), FLOAT32))
    return pad(x, (0, low), (0, whole - low - size))


@pytest.mark.parametrize(
    ("places", "ops"),
    [
        ([(0, 3), (3, 4)], {Op.CONCAT}),
        ([(3, 4), (0, 3)], {Op.CONCAT}),
        ([(5, 2), (0, 1), (1, 4)], {Op.CONCAT}),
        ([(0, 3), (3, 2)], {Op.CONCAT, Op.PAD}),
        ([(0, 3), (4, 3)], {Op.PAD, Op.ADD}),
        ([(0, 3), (2, 5)], {Op.PAD, Op.ADD}),
        ([(0, 3), (0, 3), (3, 4)], {Op.CONCAT, Op.ADD}),
        ([(2, 3)], {Op.PAD}),
    ],
)
def test_sums(places: list[tuple[int, int]], ops: set[Op]) -> None:
    cts = [piece(i, size, low) for i, (low, size) in enumerate(places)]
    params = {u for u in walk(cts) if u.op is Op.PARAM}
    random = np.random.default_rng(0)
    env = {u: random.standard_normal(u.shape).astype(np.float32) for u in params}
    made = total(cts)
    want = sum(evaluate(cts, env))
    assert np.array_equal(evaluate([made], env)[0], want)
    assert {u.op for u in walk([made])} - {Op.PARAM, Op.CONST} == ops


def test_pieces_padded_with_other_values_are_added() -> None:
    x = UOp(Op.PARAM, (), Param(0, (2, 3), FLOAT32))
    one = UOp(Op.PARAM, (), Param(1, (), FLOAT32))
    u, v = UOp(Op.PAD, (x, one), pad(x, (0, 0), (0, 3)).arg), pad(x, (0, 3), (0, 0))
    assert total([u, v]) is u + v


def test_the_gradient_of_a_split_joins_the_pieces() -> None:
    def f(x: tfn.Array) -> tfn.Array:
        a, b, c = jnp.split(x, 3, axis=-1)
        return (jnp.sin(a) * b + c).sum()

    jaxpr = tfn.make_jaxpr(tfn.grad(f))(jnp.ones((4, 6)))
    assert "concatenate" in str(jaxpr) and "pad" not in str(jaxpr)
