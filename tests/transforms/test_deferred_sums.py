"""Products that wait for the end of a loop, and sums that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.transforms.cases import leaf, run
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk
from tfn.transforms.body import closed, fresh
from tfn.transforms.deferred_sums import defer
from tfn.transforms.jvp import push
from tfn.transforms.transpose import pull

LENGTH, ROWS, SIZE = 4, 2, 5
a, b = leaf(np.ones((ROWS, SIZE))), leaf(np.ones((ROWS, 3)))
w = leaf(np.ones((SIZE, SIZE)))
product = build.dot(a, b, ((0,), (0,)))


def test_a_product_of_what_changes_waits() -> None:
    rest, found = defer(build.permute(product, (1, 0)), [a, b], [a])
    assert rest is None and [p.factors for p in found] == [(a, b)]
    many = [leaf(np.ones((LENGTH, *u.shape))) for u in (a, b)]
    assert found[0].total(*many).shape == (3, SIZE)


def test_a_factor_that_stays_is_not_stacked() -> None:
    assert defer(product, [a], [a]) == (product, [])


def test_no_more_memory_than_the_sum() -> None:
    small = build.dot(b, b, ((0,), (0,)))
    assert defer(small, [b], [])[1]  # 6 numbers a step instead of 9 in one place
    tall = leaf(np.ones((9, 2)))
    square = build.dot(tall, tall, ((0,), (0,)))
    assert defer(square, [tall], []) == (square, [])
    assert defer(square, [tall], [tall])[1]


def test_other_terms_are_added_step_by_step() -> None:
    other = build.full_like(product, 2)
    rest, found = defer(product + (other + product), [a, b], [a, b])
    assert rest is other and len(found) == 2


@pytest.mark.parametrize("reverse", [False, True])
def test_the_gradient_of_a_shared_matrix(reverse: bool) -> None:
    x = leaf(np.ones((ROWS, SIZE)))
    xs = leaf(np.ones((LENGTH, ROWS, SIZE)))
    step = UOp(Op.SIN, (build.dot(a, w, ((1,), (0,))) + x,))
    last, _ = build.scan(closed([step, step], [w, a, x]), [w], [a], [xs], LENGTH, reverse)
    dw, ct = fresh(w), fresh(a)
    (back,) = pull(push([last], {w: dw}), [dw], [ct])
    assert back is not None and back.op is Op.DOT and back.arg.contract_a == (0, 1)
    rng = np.random.default_rng(4)
    at: dict[UOp, Any] = {u: rng.normal(size=u.shape) for u in (w, a, xs, ct)}
    (found,) = run([back], at)
    for place in ((0, 0), (2, 3)):
        sides = []
        for sign in (1, -1):
            moved = at[w].copy()
            moved[place] += sign * 1e-6
            sides.append(np.sum(run([last], at | {w: moved})[0] * at[ct]))
        np.testing.assert_allclose(found[place], (sides[0] - sides[1]) / 2e-6, rtol=1e-6)
    loops = [u for u in walk([back]) if u.op is Op.SCAN]
    assert max(u.arg.carries for u in loops) == 1
