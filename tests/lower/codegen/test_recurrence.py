"""Recurrences: their accumulators, partial vectors, squares of elements, and what is left over."""

from __future__ import annotations

import pytest

from tests.lower.codegen.test_reductions import count, nest, run
from tests.lower.graphs import p
from tfn.errors import SplitError
from tfn.lower.codegen.linearize import linearize
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Tile, UnrollRecurrence
from tfn.numpy.cumulative import running
from tfn.trace import build
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def recurrence(size: int, length: int) -> Nest:
    c, x = p(0, size), p(1, size)
    step = function([c * 0.5 + x, c], (c.arg, x.arg))
    return nest(*build.scan(step, [], [c], [p(1, length, size)], length))


def rows(size: int, length: int, reverse: bool) -> Nest:
    """The running sums of rows that lie one after the other."""
    x = build.permute(p(0, size, length), (1, 0))
    y = running(build.flip(x, (0,)) if reverse else x, Op.ADD)
    return nest(build.permute(build.flip(y, (0,)) if reverse else y, (1, 0)))


def loops(n: Nest) -> tuple[int, int]:
    """The numbers of the loop over rows, and of that along them."""
    (row,) = n.loops
    (inner,) = (u.src[0] for u in n.body.src if u.op is Op.RECUR)
    return row.arg.number, inner.arg.number


def test_recurrences_have_an_accumulator_per_coordinate() -> None:
    n = recurrence(32, 6)
    plain = count(n, Op.ACCUMULATOR)
    assert plain == 1
    loop = next(r for r in n.loops if r.arg.size == 32)
    unrolled = Tile(loop.arg.number, 2, 8).apply(n)
    assert count(unrolled, Op.ACCUMULATOR) == 2


@pytest.mark.parametrize("size", [1, 7, 32, 33])
def test_recurrences_in_partial_vectors(size: int) -> None:
    n = recurrence(size, 5)
    run(n)
    if size > 1:
        loop = next(r for r in n.loops if r.arg.size == size)
        run(Tile(loop.arg.number, 2, 8).apply(n))


@pytest.mark.parametrize("elements", [2, 4, 5])
@pytest.mark.parametrize("size", [3, 32])
def test_several_iterations_at_a_time(size: int, elements: int) -> None:
    n = recurrence(size, 13)
    loop, inner = loops(n)
    n = UnrollRecurrence(inner, elements).apply(n)
    run(n)
    run(Tile(loop, 2, 8).apply(n))
    with pytest.raises(SplitError, match="cannot unroll"):
        UnrollRecurrence(inner, elements).apply(n)
    with pytest.raises(SplitError, match="cannot unroll"):
        UnrollRecurrence(loop, 2).apply(n)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("size", "length"), [(8, 32), (13, 35), (3, 33)])
def test_rows_are_read_in_squares(size: int, length: int, reverse: bool) -> None:
    n = rows(size, length, reverse)
    run(n)
    loop, inner = loops(n)
    n = UnrollRecurrence(inner, 4).apply(Tile(loop, 2, 4).apply(n))
    accesses = [u for u in in_loops(n) if u.op in (Op.LOAD, Op.STORE)]
    assert accesses and all(u.arg.stride == 1 for u in accesses)
    run(n)


def in_loops(n: Nest) -> list[UOp]:
    """The instructions of loops that carry values."""
    found: list[UOp] = []
    inside: list[list[UOp]] = []
    for u in linearize(n):
        if u.op is Op.LOOP:
            inside.append([])
        elif u.op is Op.END:
            items = inside.pop()
            found += items if any(v.op is Op.ACCUMULATOR for v in items) else []
        elif inside:
            inside[-1].append(u)
    return found
