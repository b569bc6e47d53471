"""Instructions written by hand mean what they look like."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.lower.graphs import Value, p
from tfn.dtypes import INT64
from tfn.lower.codegen.builder import Code
from tfn.trace import build, interpreter
from tfn.trace.op import Op
from tfn.trace.spec import Stage
from tfn.trace.spec import check as check_stage
from tfn.trace.uop import UOp, const

X = p(0, 40, dtype=INT64)


def run(write: Callable[[Code], object], x: Value | None = None) -> Value:
    """What a buffer of zeros, or `x`, holds after the instructions."""
    code = Code()
    write(code)
    items = tuple(code.scopes.root.items)
    check_stage(items, Stage.LINEAR)
    x = np.zeros(40, np.int64) if x is None else x
    interpreter.instructions(items, 0, 1, [x])
    return x


@pytest.mark.parametrize("at_once", [1, 3, 4])
@pytest.mark.parametrize("known", [True, False])
def test_a_loop_over_several_at_once_does_each_in_order(at_once: int, known: bool) -> None:
    bounds = [(0, 0), (0, 5), (0, 8), (1, 2), (3, 4), (5, 7), (4, 8), (5, 17), (2, 13), (7, 7)]
    for begin, end in bounds:
        if known and begin == end:
            continue  # a loop with constant ends runs at least once

        def write(code: Code, begin: int = begin, end: int = end) -> None:
            def body(*places: UOp) -> None:
                assert len(places) in (1, at_once)
                for place in places:
                    code.store(X, place + 1, code.load(X, place) + 1)

            if known:
                code.over(begin, end, body, at_once)
            else:
                first = code.load(X, const(37, INT64))
                code.over(first, code.load(X, const(38, INT64)), body, at_once)

        x = np.zeros(40, np.int64)
        x[37:39] = begin, end
        found = run(write, x)
        numbers = [i - begin if begin < i <= end else 0 for i in range(37)]
        assert found[:37].tolist() == numbers, (begin, end)


def test_what_is_done_only_where_a_condition_holds() -> None:
    def write(code: Code) -> None:
        with code.each(0, 10) as i, code.when(build.eq(i % 3, const(1, INT64))):
            code.store(X, i, i * 2)

    assert run(write)[:11].tolist() == [0, 2, 0, 0, 8, 0, 0, 14, 0, 0, 0]


def test_an_endless_loop_is_left_and_carries() -> None:
    def write(code: Code) -> None:
        loop = code.endless()
        power = code.carry(loop, const(1, INT64))
        code.leave(loop, power < 100)
        code.close(loop, (power, power * 2))
        code.store(X, const(0, INT64), power)

    assert run(write)[0] == 128


def test_what_is_asked_for_need_not_be_there() -> None:
    def write(code: Code) -> None:
        with code.each(0, 9) as i:
            code.prefetch(X, i * 1000)
            code.store(X, i, i)

    assert run(write)[:9].tolist() == list(range(9))


def test_the_constants_of_an_index_come_last() -> None:
    code = Code()
    with code.each(0, 3) as i:
        loaded = code.load(X, 5 + (i + 7) * 2)
    index = loaded.src[1]
    assert index.op is Op.ADD and index.src[1] is const(19, INT64)
