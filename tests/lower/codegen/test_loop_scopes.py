"""Loop-invariant placement: the scope of each instruction in nested loops."""

from __future__ import annotations

from tests.lower.graphs import p
from tfn.dtypes import FLOAT32, INT64
from tfn.lower.codegen.loop_scopes import Scopes
from tfn.trace.argument import Access, Place, Range
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

ZERO, TEN = const(0, INT64), const(10, INT64)
X, N = p(0, 100), p(1, dtype=INT64)


def load(at: UOp) -> UOp:
    return UOp(Op.LOAD, (X, at), Access(0, 1, 0))


def test_instructions_are_placed_in_the_innermost_loop_they_depend_on() -> None:
    code = Scopes()
    outer = code.open(ZERO, TEN)
    inner = code.open(ZERO, TEN)
    row, first, both = outer * 10, load(N), outer * 10 + inner
    for u in (row, first, both):
        code.place(u)
    code.close(inner, [], [])
    code.close(outer, [], [])
    ends = [u for u in code.root.items if u.op is Op.END]
    assert code.root.items == [first, outer, row, inner, both, ends[0], ends[1]]
    assert [end.src[0] for end in ends] == [inner, outer]


def test_equal_instructions_are_placed_once() -> None:
    code = Scopes()
    assert code.place(load(ZERO)) is code.place(load(ZERO))
    assert code.root.items == [load(ZERO)]


def test_operands_are_not_placed() -> None:
    code = Scopes()
    thread = UOp(Op.RANGE, (), Range(-1, 4, Place.LOCAL))
    for u in (ZERO, X, thread, UOp(Op.LANES, (), 8)):
        assert code.place(u) is u
    assert code.root.items == []


def test_append_ignores_dependences() -> None:
    code = Scopes()
    loop = code.open(ZERO, TEN)
    code.append(load(ZERO))
    assert code.scope.items == [loop, load(ZERO)]


def test_carried_values_belong_to_the_outer_scope_after_the_loop() -> None:
    code = Scopes()
    loop = code.open(ZERO, TEN)
    total = code.append(UOp(Op.ACCUMULATOR, (loop, const(0.0, FLOAT32)), 0))
    more = code.place(total + 1.0)
    code.close(loop, [total], [more])
    assert code.scope_of(total) is code.root
    assert code.place(more) is more
    assert code.root.items[-1] is more, "after the loop it is another value"
    assert code.root.items.count(more) == 2


def test_loops_are_numbered() -> None:
    code = Scopes()
    first = code.open(ZERO, TEN)
    code.close(first, [], [])
    second = code.open(ZERO, TEN)
    assert first is not second
    assert code.scope_of(second) is code.scope
