"""Rules of WHILE: the graphs that they build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.transforms.cases import leaf, run
from tfn.errors import GradientError
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk
from tfn.transforms.batch import batch
from tfn.transforms.body import closed, fresh
from tfn.transforms.jvp import push
from tfn.transforms.transpose import pull

x, k, limit = leaf(np.ones(())), leaf(np.ones(())), leaf(np.ones(()))
n = leaf(np.zeros((), np.int32))
GROW = closed([n + 1, x * k], [k, n, x])
BELOW = closed([x < limit], [limit, n, x])
FEW = closed([n < 3], [n, x])


def loop(cond: UOp = BELOW) -> list[UOp]:
    """x *= k while x < limit, counting the steps; or three times."""
    consts = [limit] if cond is BELOW else []
    return build.repeat_while(cond, GROW, consts, [k], [n, x])


def values(**given: Any) -> dict[UOp, Any]:
    names: dict[str, UOp] = {"x": x, "k": k, "limit": limit}
    found: dict[UOp, Any] = {names[name]: np.asarray(v, np.float64) for name, v in given.items()}
    return found | {n: np.zeros((), np.int32)}


def test_tangents_are_carried_along() -> None:
    dx, dk = fresh(x), fresh(k)
    count, last = push(loop(), {x: dx, k: dk})
    assert count is None and last is not None
    at = values(x=1.0, k=3.0, limit=50.0)
    (slope,) = run([last], at | {dx: np.array(1.0), dk: np.array(0.0)})
    assert slope == 81.0
    (slope,) = run([last], at | {dx: np.array(0.0), dk: np.array(1.0)})
    assert slope == 4 * 27.0


def test_operands_of_the_condition_have_no_tangent() -> None:
    assert push(loop(), {limit: fresh(limit)}) == [None, None]


def test_reverse_mode_is_refused() -> None:
    dx = fresh(x)
    _, slope = push(loop(), {x: dx})
    with pytest.raises(GradientError, match="no reverse mode through while_loop"):
        pull([slope], [dx], [fresh(x)])


@pytest.mark.parametrize("mapped", ["x", "k", "limit"])
def test_lanes_stop_one_by_one(mapped: str) -> None:
    single = {"x": 1.0, "k": 2.0, "limit": 10.0}
    many = np.array([3.0, 40.0, 1.5])
    leaves: dict[str, UOp] = {"x": x, "k": k, "limit": limit}
    lanes = leaf(many)
    found = batch(loop(), {leaves[mapped]: lanes}, 3)
    together = run([y.full(3) for y in found], values(**single) | {lanes: many})
    for i in range(3):
        apart = run(loop(), values(**(single | {mapped: many[i]})))
        assert [y[i] for y in together] == apart


def test_writes_of_lanes_that_have_stopped_are_dropped() -> None:
    array = leaf(np.zeros(5))
    row = fresh(array)
    write = build.scatter(row, build.reshape(n, (1,)), build.reshape(x, (1,)), Op.WHERE)
    step = closed([n + 1, write, x + 1], [n, row, x])
    test = closed([n < 4], [n, row, x])
    loop = build.repeat_while(test, step, [], [], [n, array, x])
    begin = np.array([0, 3, 9], np.int32)
    first = leaf(begin)
    found = batch(loop, {n: first}, 3)
    (made,) = [u for u in walk([found[1].graph]) if u.op is Op.WHILE]
    assert not any(u.op is Op.WHERE and u.shape == (3, 5) for u in walk(made.src[1].src))
    at = {first: begin, array: np.zeros(5), x: np.array(1.0)}
    count, rows, last = run([y.full(3) for y in found], at)
    assert count.tolist() == [4, 4, 9] and last.tolist() == [5, 2, 1]
    assert rows.tolist() == [[1, 2, 3, 4, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]


def test_arrays_that_change_places_are_masked_whole() -> None:
    one, two = leaf(np.zeros(2)), leaf(np.ones(2))
    a, b = fresh(one), fresh(two)
    write = build.scatter(a, build.reshape(n, (1,)), build.reshape(x, (1,)), Op.WHERE)
    step = closed([n + 1, write, write, x], [n, a, b, x])
    test = closed([n < 1], [n, a, b, x])
    loop = build.repeat_while(test, step, [], [], [n, one, two, x])
    begin = np.array([0, 1], np.int32)
    first = leaf(begin)
    at = {first: begin, one: np.zeros(2), two: np.ones(2), x: np.array(7.0)}
    _, left, right, _ = run([y.full(2) for y in batch(loop, {n: first}, 2)], at)
    assert left.tolist() == [[7, 0], [0, 0]] and right.tolist() == [[7, 0], [1, 1]]


def test_a_condition_that_is_the_same_in_all_lanes_stays_one() -> None:
    lanes = leaf(np.ones(3))
    count, last = batch(loop(FEW), {x: lanes}, 3)
    assert not count.many and last.many
    (made,) = [u for u in walk([last.graph]) if u.op is Op.WHILE]
    assert made.src[0].arg.params[0].shape == ()
    no: Callable[[UOp], bool] = lambda u: u.op is Op.WHERE
    assert not any(map(no, walk(made.src[1].src)))
