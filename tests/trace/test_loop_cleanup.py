"""CSE and DCE of loops: equal steps are merged, dead results dropped, values unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tfn.dtypes import BOOL, FLOAT64, INT32
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.jaxpr import function, param
from tfn.trace.loop_cleanup import tidy
from tfn.trace.op import LOOPS, Op
from tfn.trace.oracle import evaluate
from tfn.trace.uop import UOp, const, walk

LENGTH = 4
RNG = np.random.default_rng(3)
a, b, c = (UOp(Op.PARAM, (), Param(i, (3,), FLOAT64)) for i in range(3))
xs = UOp(Op.PARAM, (), Param(3, (LENGTH, 3), FLOAT64))
n = UOp(Op.PARAM, (), Param(4, (), INT32))
VALUES: dict[UOp, Any] = {u: RNG.normal(size=u.shape) for u in (a, b, c, xs)}
VALUES[n] = np.array(3, np.int32)


def close(outputs: Sequence[UOp], likes: Sequence[UOp]) -> UOp:
    """The FUNCTION of graphs over parameters 0, 1, ... of the types of `likes`."""
    return function(outputs, tuple(Param(i, u.shape, u.dtype) for i, u in enumerate(likes)))


def inside(i: int, like: UOp) -> UOp:
    return param(Param(i, like.shape, like.dtype))


p0, p1, p2, p3 = (inside(i, a) for i in range(4))


def check(outputs: Sequence[UOp]) -> list[UOp]:
    """The tidied graphs, which have the same values."""
    found = tidy(outputs)
    for old, new in zip(evaluate(outputs, VALUES), evaluate(found, VALUES)):
        np.testing.assert_allclose(new, old)
    return found


def loops(outputs: Sequence[UOp]) -> list[UOp]:
    return [u for u in walk(outputs) if u.op in LOOPS]


def test_graphs_without_loops_stay_as_they_are() -> None:
    y = a * b
    assert tidy([y, a]) == [y, a]


def test_scans_of_the_same_steps_become_one() -> None:
    step = p0 * p1 + p2
    types = [a, b, c]
    plain = build.scan(close([step, p1], types), [a], [b], [xs], LENGTH)
    more = build.scan(close([step, step * p2, p1], types), [a], [b], [xs], LENGTH)
    back = build.scan(close([step, p1], types), [a], [b], [xs], LENGTH, reverse=True)
    found = check([*plain, *more, *back])
    assert len(loops(found)) == 2
    assert found[0] is found[2] and found[1] is found[4]


def test_loops_that_became_equal_are_merged() -> None:
    first = build.scan(close([p0 + p1, p1], [a, b]), [], [a], [xs], LENGTH)
    again = build.scan(close([p0 + p1, p0, p1], [a, b]), [], [a], [xs], LENGTH)
    one = build.scan(close([p0 * p1, p1], [a, b]), [], [b], [first[1]], LENGTH)
    two = build.scan(close([p0 * p1, p0 + p1], [a, b]), [], [b], [again[2]], LENGTH)
    assert len(loops(check([*one, *two, again[1]]))) == 2


def test_choices_of_one_index_become_one() -> None:
    one = build.choose(n, [close([p0], [a, b]), close([p1], [a, b])], [a, b])
    two = build.choose(n, [close([p0 * p1, p0], [a, b]), close([p1, p1], [a, b])], [a, b])
    found = check([*one, *two])
    assert len(loops(found)) == 1 and found[0] is found[2]


def counting(limit: UOp, like: Sequence[UOp]) -> UOp:
    return close([inside(0, n) < const(5, INT32)], [n, *like])


def test_a_while_is_found_in_a_larger_one() -> None:
    i = inside(1, n)
    small = build.repeat_while(
        counting(n, [b]), close([i + 1, p2 * p0], [a, n, b]), [], [a], [n, b]
    )
    body = close(
        [inside(2, n) + 1, inside(3, b) * inside(0, a), inside(4, c) + inside(3, b)],
        [a, c, n, b, c],
    )
    large = build.repeat_while(counting(n, [b, c]), body, [], [a, c], [n, b, c])
    found = check([*small, *large])
    assert len(loops(found)) == 1 and found[:2] == found[2:4]


def test_carries_that_no_result_needs_are_dropped() -> None:
    body = close([p0 + p3, p1 * p2, p2], [a, b, c, a])
    last, _, _ = build.scan(body, [], [a, b, c], [xs], LENGTH)
    (found,) = check([last])
    (loop,) = loops([found])
    assert loop.src[1:] == (a, xs) and loop.arg.carries == 1


def test_a_carry_that_another_needs_is_kept() -> None:
    body = close([p0 + p1, p1 + p2, p2 * 2.0], [a, b, c])
    last, _, _ = build.scan(body, [], [a, b, c], [], LENGTH)
    (loop,) = loops(check([last]))
    assert loop.arg.carries == 3


def test_a_carry_that_does_not_change_becomes_a_const() -> None:
    body = close([p0, p1 * p0, p2, p2 + p0], [a, b, c])
    fixed, last, same, ys = build.scan(body, [], [a, b], [xs], LENGTH)
    found = check([fixed, last, same, ys])
    assert found[0] is a and found[2] is xs
    (loop,) = loops(found)
    assert (loop.arg.consts, loop.arg.carries) == (1, 1)


def test_unused_results_and_operands_go() -> None:
    body = close([p1 * p0, p2 * p0, p3], [a, b, c, a])
    last, _, _ = build.scan(body, [a], [b, c], [xs], LENGTH)
    (loop,) = loops(check([last]))
    assert loop.src[1:] == (a, b) and loop.arg.length == LENGTH


def test_no_loop_is_left_for_what_passes_through() -> None:
    fixed, _ = build.scan(close([p0, p0 * p1], [a, b]), [], [a], [xs], LENGTH)
    assert check([fixed]) == [a]
    assert check(build.choose(n, [close([p1], [a, b])] * 2, [a, b])) == [b]


def test_while_keeps_what_its_condition_reads() -> None:
    i = inside(0, n)
    body = close([i + 1, p1 * 2.0, p2, p3 + p2], [n, a, b, c])
    found = build.repeat_while(counting(n, [a, b, c]), body, [], [], [n, a, b, c])
    last = check([found[3], found[2]])
    assert last[1] is b
    (loop,) = loops(last)
    assert (loop.arg.body_consts, len(loop.src[1].src)) == (1, 2)


def test_a_fixed_carry_in_a_condition() -> None:
    i, limit = inside(0, n), inside(1, n)
    cond = close([(i < limit) & const(True, BOOL)], [n, n, a])
    body = close([i + 1, limit, p2 * 2.0], [n, n, a])
    zero = const(0, INT32)
    found = build.repeat_while(cond, body, [], [], [zero, n, a])
    (loop,) = loops(check([found[2]]))
    assert loop.arg.cond_consts == 1 and loop.src[2] is n


def test_branches_lose_results_and_operands() -> None:
    f, g = close([p0 * p1, p2, p0], [a, b, c]), close([p0 + p1, p2 * 2.0, p0], [a, b, c])
    first, _, third = build.choose(n, [f, g], [a, b, c])
    found = check([first, third])
    assert found[1] is a
    (loop,) = loops(found)
    assert loop.src[3:] == (a, b) and len(loop.src[1].src) == 1


@pytest.mark.parametrize("used", [0, 1, 2])
def test_nested_loops_are_tidied(used: int) -> None:
    inner = build.scan(
        close([p0 + p2, p1 * p2, p2], [a, b, c]),
        [],
        [p0, p1],
        [param(Param(2, (LENGTH, 3), FLOAT64))],
        LENGTH,
    )
    body = close([*inner[:2], inner[2]], [a, b, xs])
    many = build.broadcast_in_dim(xs, (2, LENGTH, 3), (1, 2))
    outer = build.scan(body, [], [a, b], [many], 2)
    found = check([outer[used]])
    sizes = [u.arg.carries for u in loops(found)]
    assert sizes == ([] if used == 2 else [1])
    for loop in loops(found):
        assert [u.arg.carries for u in loops(loop.src[0].src)] == [1]
