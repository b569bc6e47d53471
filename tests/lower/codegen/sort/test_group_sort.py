"""Sorts by groups of threads, in lockstep: every dtype and size, stable, and without races."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.covering import cover, in_turn
from tests.lower import grid_interpreter
from tests.lower.check_passes import GRID
from tests.lower.codegen.sort.test_sort import draw
from tests.lower.graphs import Value, jaxpr, p, run_oracle
from tfn.dtypes import BOOL, FLOAT32, INT32, INT64, REALS, DType, uint8
from tfn.lower import pipeline
from tfn.lower.codegen.sort import sort
from tfn.lower.codegen.sort.group_sort import TILE_ELEMENTS, fits, instructions, plan
from tfn.lower.report.verify import accesses
from tfn.lower.target.grid import Grid
from tfn.trace import build
from tfn.trace.argument import Param, Sort
from tfn.trace.op import Op
from tfn.trace.spec import Stage
from tfn.trace.spec import check as check_stage
from tfn.trace.uop import UOp

PLAIN = GRID.grid
assert PLAIN is not None
MACHINES = [PLAIN, replace(PLAIN, exchanges=True)]
SIZES = (2, 3, 17, 31, 64, 257, 1009, TILE_ELEMENTS)


def body_of(operands: list[UOp], keys: int = 1) -> UOp:
    """The kernel of a shared sort, whose results are the first buffers."""
    n = len(operands)
    params = [UOp(Op.PARAM, (), Param(n + i, x.shape, x.dtype)) for i, x in enumerate(operands)]
    sort_ = UOp(Op.SORT, tuple(params), Sort(keys, shared=True))
    return UOp(Op.TUPLE, tuple(build.several(sort_)))


def run(values: list[Value], keys: int = 1, machine: Grid = PLAIN) -> list[Value]:
    """Sort on a grid of threads in lockstep, and compare every bit with the oracle."""
    operands = [p(i, *x.shape, dtype=x.dtype) for i, x in enumerate(values)]
    body = body_of(operands, keys)
    shape = plan(body.src[0].src[0])
    items = instructions(body, machine)
    check_stage(items, Stage.LINEAR)
    results = [np.zeros(x.size, x.dtype) for x in values]
    buffers = [*results, *(x.reshape(-1).copy() for x in values)]
    grid_interpreter.grid(items, shape.groups, shape.threads, buffers)
    wanted = run_oracle(build.sort(operands, keys), values)
    for got, want in zip(results, wanted, strict=True):
        assert got.tobytes() == np.ascontiguousarray(want).tobytes()
    return results


def numbers(rows: int, n: int) -> Value:
    return np.broadcast_to(np.arange(n, dtype=np.int32), (rows, n)).copy()


@pytest.mark.parametrize(
    "dtype, machine",
    in_turn(2, cover(REALS, MACHINES)),
    ids=lambda value: getattr(value, "name", None),
)
def test_every_dtype(dtype: DType, machine: Grid) -> None:
    for n in SIZES if dtype == FLOAT32 else SIZES[::3]:
        rows = 3 if n < 1000 else 1
        run([draw((rows, n), dtype, n), numbers(rows, n)], 1, machine)


@pytest.mark.parametrize("dtype", [INT32, FLOAT32, uint8.dtype], ids=lambda d: d.name)
def test_equal_keys_keep_their_order(dtype: DType) -> None:
    keys = draw((2, 999), dtype, 5)
    _, order = run([keys, numbers(2, 999)])
    want = np.argsort(keys, axis=1, kind="stable")
    np.testing.assert_array_equal(order.reshape(2, 999), want)


def test_several_keys_lie_beside_each_other() -> None:
    shape = (5, 100)
    values = [draw(shape, d, i) for i, d in enumerate((BOOL, FLOAT32, INT64))]
    for keys in (2, 3):
        run([*values, numbers(*shape)], keys)


def test_groups_have_several_short_rows() -> None:
    short = plan(body_of([p(0, 1000, 10)]).src[0].src[0])
    assert (short.row_threads, short.group_rows, short.threads) == (8, 32, 256)
    assert short.groups == 32  # the last of them has 8 rows less
    long = plan(body_of([p(0, 1000, 2048)]).src[0].src[0])
    assert (long.groups, long.threads, long.counts) == (1000, 256, False)
    bytes_ = plan(body_of([p(0, 2, 2048, dtype=uint8.dtype)]).src[0].src[0])
    assert bytes_.counts and (bytes_.groups, bytes_.threads) == (2, 256)
    run([draw((37, 10), INT32, 1), numbers(37, 10)])


def test_rows_fit_by_the_bytes_of_their_words() -> None:
    def sort_of(*operands: UOp) -> UOp:
        return UOp(Op.SORT, operands, Sort(len(operands)))

    assert fits(sort_of(p(0, 2, TILE_ELEMENTS)))
    assert not fits(sort_of(p(0, 2, TILE_ELEMENTS + 1)))
    assert fits(sort_of(p(0, 2, TILE_ELEMENTS, dtype=INT64)))
    assert not fits(sort_of(*(p(i, 2, TILE_ELEMENTS, dtype=INT64) for i in range(2))))


@pytest.mark.parametrize("counts", [False, True])
def test_a_missing_barrier_is_a_race(counts: bool) -> None:
    x = draw((1, 300), uint8.dtype if counts else INT32, 3)
    body = body_of([p(0, 1, 300, dtype=x.dtype)])
    shape, items = plan(body.src[0].src[0]), instructions(body, PLAIN)
    assert shape.counts == counts
    barriers = [i for i, u in enumerate(items) if u.op is Op.BARRIER]
    assert len(barriers) == (10 if counts else 1)
    for at in barriers:
        without = (*items[:at], *items[at + 1 :])
        with pytest.raises(grid_interpreter.RaceError, match="local memory"):
            buffers = [np.zeros(300, x.dtype), x.reshape(-1).copy()]
            grid_interpreter.grid(without, shape.groups, shape.threads, buffers)


def test_counts_of_threads_meet_no_bank_twice() -> None:
    """The words and counts of each thread; words go where their digits say."""
    x = np.zeros((1, 2048), np.uint8)
    body = body_of([p(0, 1, 2048, dtype=uint8.dtype)])
    shape, items = plan(body.src[0].src[0]), instructions(body, MACHINES[1])
    buffers = [np.ones(2048, np.uint8), x.reshape(-1).copy()]
    grid_interpreter.grid(items, shape.groups, shape.threads, buffers, most_words_of_a_bank=1)
    assert not buffers[0].any()


@pytest.mark.parametrize("dtype", [INT32, INT64, uint8.dtype], ids=lambda d: d.name)
def test_accesses_are_in_bounds_where_words_hold_numbers(dtype: DType) -> None:
    body = body_of([p(0, 3, 300, dtype=dtype), p(1, 3, 300)])
    items = instructions(body, PLAIN)
    assumed = sort.assumed(body, items)
    outcome = accesses.check(items, plan(body.src[0].src[0]).groups, assumed, True)
    assert assumed and not outcome.unproved


def test_the_kernel_has_no_scratch() -> None:
    outputs = build.sort([p(0, 4, 300), build.iota((4, 300), 1)])
    program = pipeline.lower(jaxpr(outputs), GRID)
    launch = program.launches[-1]
    assert (launch.kernel.tiles, launch.kernel.threads) == (4, 256)
    assert launch.kernel.local_bytes == 4096  # 300 keys and numbers, each in blocks of 1 KiB
    assert len(launch.operands) == 4 and program.arena_bytes == 4800  # the numbers of elements
