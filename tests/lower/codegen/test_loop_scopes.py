"""Loops in loops, and which instruction stands in which."""

from __future__ import annotations

from tests.lower.graphs import p
from tfn.dtypes import FLOAT32, INT64
from tfn.lower.codegen.loop_scopes import Scopes
from tfn.trace.argument import Access
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

ZERO, TEN = const(0, INT64), const(10, INT64)
X, N = p(0, 100), p(1, dtype=INT64)


def load(at: UOp) -> UOp:
    return UOp(Op.LOAD, (X, at), Access(0, 1, 0))


def test_an_instruction_stands_in_the_innermost_loop_it_depends_on() -> None:
    code = Scopes()
    outer = code.open(ZERO, TEN)
    inner = code.open(ZERO, TEN)
    row, first, both = outer * 10, load(N), outer * 10 + inner
    for u in (row, first, both):
        code.add(u)
    code.close(inner, [], [])
    code.close(outer, [], [])
    ends = [u for u in code.root.items if u.op is Op.END]
    assert code.root.items == [first, outer, row, inner, both, ends[0], ends[1]]
    assert [end.src[0] for end in ends] == [inner, outer]


def test_the_same_instruction_is_placed_once() -> None:
    code = Scopes()
    assert code.add(load(ZERO)) is code.add(load(ZERO))
    assert code.root.items == [load(ZERO)]


def test_constants_parameters_and_lanes_need_no_place() -> None:
    code = Scopes()
    for u in (ZERO, X, UOp(Op.LANES, (), 8)):
        assert code.add(u) is u
    assert code.root.items == []


def test_here_is_the_end_of_the_open_loop_whatever_it_depends_on() -> None:
    code = Scopes()
    loop = code.open(ZERO, TEN)
    code.here(load(ZERO))
    assert code.scope.items == [loop, load(ZERO)]


def test_what_a_loop_carries_is_a_value_around_it_and_the_rest_is_forgotten() -> None:
    code = Scopes()
    loop = code.open(ZERO, TEN)
    total = code.here(UOp(Op.ACCUMULATOR, (loop, const(0.0, FLOAT32)), 0))
    more = code.add(total + 1.0)
    code.close(loop, [total], [more])
    assert code.of(total) is code.root
    assert code.add(more) is more
    assert code.root.items[-1] is more, "after the loop it is another value"
    assert code.root.items.count(more) == 2


def test_loops_have_numbers_of_their_own() -> None:
    code = Scopes()
    first = code.open(ZERO, TEN)
    code.close(first, [], [])
    second = code.open(ZERO, TEN)
    assert first is not second
    assert code.of(second) is code.scope
