"""Masked updates: selects between a scatter and its operand drop points of the scatter."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.lower.graphs import assert_close, inputs, p, run_oracle
from tfn.dtypes import BOOL, INT32, canonical
from tfn.lower.graph.masked_update import masked_update, users
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk


def update(op: Op = Op.WHERE, batch: int = 1, size: int = 5) -> tuple[UOp, UOp, UOp]:
    """A mask by lane, an update of 3 lanes, and what it updates."""
    mask, operand = p(0, 3, dtype=BOOL), p(1, 3, size)
    indices, updates = p(2, 3, 2, 1, dtype=INT32), p(3, 3, 2, 2)
    lanes = build.expand(build.reshape(mask, (3, 1)), operand.shape)
    return lanes, build.scatter(operand, indices, updates, op, batch), operand


@pytest.mark.parametrize("op", [Op.WHERE, Op.ADD])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_same_values(op: Op, swapped: bool) -> None:
    mask, new, old = update(op)
    u = build.where(mask, old, new) if swapped else build.where(mask, new, old)
    rewritten = masked_update(u)
    assert rewritten.op is Op.SCATTER and rewritten.src[0] is old
    values = inputs([u])
    for value in values:  # some windows do not fit
        if value.dtype == np.int32:
            value[:] = [[[0], [3]], [[4], [-1]], [[2], [2]]]
        if value.dtype == np.bool_:
            value[:] = [True, False, True]
    assert_close(run_oracle([rewritten], values)[0], run_oracle([u], values)[0], 0, 0)


def test_other_selects_stay() -> None:
    mask, new, old = update()
    each = p(4, 3, 5, dtype=BOOL)
    byte = p(5, 3, 1, 1, dtype=canonical("int8"))
    small = build.scatter(p(1, 3, 200), byte, p(6, 3, 1, 1), Op.WHERE, 1)
    wide = build.expand(build.reshape(p(0, 3, dtype=BOOL), (3, 1)), small.shape)
    for u in (
        build.where(each, new, old),  # each element has a mask of its own
        build.where(mask, new, p(7, 3, 5)),  # the other value is not the operand
        build.where(wide, small, small.src[0]),  # no index of its dtype is outside
    ):
        assert masked_update(u) is u


def test_users_are_counted() -> None:
    mask, new, old = update()
    u = build.where(mask, new, old)
    counts = users([u, new], list(walk([u, new])))
    assert counts[u] == 1 and counts[new] == 2


def test_a_loop_over_lanes_updates_its_array_in_place() -> None:
    """No kernel of the loop writes the array as a whole."""

    @tfn.jit
    @tfn.vmap
    def fill(stop: tfn.Array, x: tfn.Array) -> tfn.Array:
        def step(carry: tuple[tfn.Array, tfn.Array]) -> tuple[tfn.Array, tfn.Array]:
            i, x = carry
            more = i < stop
            return i + 1, tnp.where(more, x.at[i].set(i), x)

        return tfn.lax.while_loop(lambda carry: carry[0] < 6, step, (0, x))[1]

    stops, x = np.array([2, 6, 0]), np.full((3, 8), -1, np.int32)
    expected = [[i if i < stop else -1 for i in range(8)] for stop in stops]
    assert fill(stops, x).tolist() == expected
    kernels = fill.lower(stops, x).as_text("kernels")
    loop = kernels[kernels.index("while") :]
    assert "i32[3,8] = scatter" in loop
    assert not any("i32[3,8] = select" in line for line in loop.splitlines())
