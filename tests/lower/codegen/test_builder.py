"""IR builder: loops, conditions, carries and addresses, run by the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.lower.graphs import Value, p
from tfn.dtypes import INT64
from tfn.lower.codegen.builder import Builder
from tfn.trace import build, interpreter
from tfn.trace.op import Op
from tfn.trace.spec import Stage
from tfn.trace.spec import check as check_stage
from tfn.trace.uop import UOp, const

X = p(0, 40, dtype=INT64)


def run(write: Callable[[Builder], object], x: Value | None = None) -> Value:
    """The contents of a buffer of zeros, or of `x`, after the instructions."""
    code = Builder()
    write(code)
    items = tuple(code.scopes.root.items)
    check_stage(items, Stage.LINEAR)
    x = np.zeros(40, np.int64) if x is None else x
    interpreter.instructions(items, 0, 1, [x])
    return x


@pytest.mark.parametrize("unroll", [1, 3, 4])
@pytest.mark.parametrize("constant", [True, False])
def test_unrolled_loops_run_iterations_in_order(unroll: int, constant: bool) -> None:
    bounds = [(0, 0), (0, 5), (0, 8), (1, 2), (3, 4), (5, 7), (4, 8), (5, 17), (2, 13), (7, 7)]
    for begin, end in bounds:
        if constant and begin == end:
            continue  # a loop with constant ends runs at least once

        def write(code: Builder, begin: int = begin, end: int = end) -> None:
            def body(*places: UOp) -> None:
                assert len(places) in (1, unroll)
                for place in places:
                    code.store(X, place + 1, code.load(X, place) + 1)

            if constant:
                code.unrolled_loop(begin, end, body, unroll)
            else:
                first = code.load(X, const(37, INT64))
                code.unrolled_loop(first, code.load(X, const(38, INT64)), body, unroll)

        x = np.zeros(40, np.int64)
        x[37:39] = begin, end
        contents = run(write, x)
        expected = [i - begin if begin < i <= end else 0 for i in range(37)]
        assert contents[:37].tolist() == expected, (begin, end)


def test_when_runs_where_its_condition_holds() -> None:
    def write(code: Builder) -> None:
        with code.loop(0, 10) as i, code.when(build.eq(i % 3, const(1, INT64))):
            code.store(X, i, i * 2)

    assert run(write)[:11].tolist() == [0, 2, 0, 0, 8, 0, 0, 14, 0, 0, 0]


def test_endless_loops_carry_and_are_left() -> None:
    def write(code: Builder) -> None:
        loop = code.open_endless()
        power = code.carry(loop, const(1, INT64))
        code.leave_unless(loop, power < 100)
        code.close(loop, (power, power * 2))
        code.store(X, const(0, INT64), power)

    assert run(write)[0] == 128


def test_prefetches_may_be_out_of_bounds() -> None:
    def write(code: Builder) -> None:
        with code.loop(0, 9) as i:
            code.prefetch(X, i * 1000)
            code.store(X, i, i)

    assert run(write)[:9].tolist() == list(range(9))


def test_constants_of_an_index_come_last() -> None:
    code = Builder()
    with code.loop(0, 3) as i:
        loaded = code.load(X, 5 + (i + 7) * 2)
    index = loaded.src[1]
    assert index.op is Op.ADD and index.src[1] is const(19, INT64)
