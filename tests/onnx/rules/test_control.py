"""Loops, branches and calls, saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.onnx.saved import floats, holds, operations
from tfn import lax, nn
from tfn import numpy as tnp


def step(h: Any, row: Any) -> Any:
    h = tnp.tanh(h * 0.5 + row)
    return h, h * 2


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_and_their_gradients(reverse: bool) -> None:
    def function(x: Any) -> Any:
        return lax.scan(step, tnp.zeros(4), x, reverse=reverse)

    holds(function, floats(6, 4))
    holds(tfn.grad(lambda x: function(x)[1].sum()), floats(6, 4))


def test_sums_up_to_each_element_are_one_operation() -> None:
    holds(lambda x: (tnp.cumsum(x, 1), lax.cumsum(x, 0, reverse=True)), floats(3, 5))
    assert operations(lambda x: tnp.cumsum(x, 0), floats(3, 5)) == ["CumSum"]


def test_loops_that_count_and_loops_with_a_condition() -> None:
    holds(lambda x: lax.fori_loop(0, 5, lambda k, c: c * 0.5 + k, x), floats(3))
    going = lambda c: c[1] < 7
    holds(lambda x: lax.while_loop(going, lambda c: (c[0] * 1.5 + x, c[1] + 1), (x, 0)), floats(3))
    holds(lambda x: lax.while_loop(lambda c: c < 0, lambda c: c + 1, x), np.float32(3))


@pytest.mark.parametrize("k", [-5, 0, 1, 2, 9])
def test_branches_by_a_number(k: int) -> None:
    branches = [lambda x: x, lambda x: -x, lambda x: x * x]
    holds(lambda k, x: lax.switch(k, branches, x), np.int32(k), floats(3))


def test_branches_within_loops() -> None:
    half = lambda c: lax.cond(c.sum() > 1, lambda c: c / 2, lambda c: c + 1, c)
    holds(lambda x: lax.fori_loop(0, 4, lambda k, c: half(c), x), floats(3))


def test_functions_with_rules_and_jitted_ones_are_written_out() -> None:
    holds(lambda x: tfn.jit(lambda y: nn.softmax(y) * y)(x), floats(3, 4))
    holds(tfn.grad(lambda x: (nn.softmax(x) * x).sum()), floats(4))
