"""The interpreter of grids: threads in lockstep, races, and barriers that not all threads reach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.lower.check_passes import GRID
from tests.lower.graphs import draw, inputs, jaxpr, matmul, p
from tests.lower.grid_interpreter import DivergenceError, RaceError, grid
from tfn.dtypes import FLOAT32, INT64
from tfn.lower.grids.passes import GRID as passes
from tfn.lower.grids.passes import thread_count
from tfn.lower.passes import tile_count
from tfn.trace import build
from tfn.trace.argument import Access, Param, Place, Range
from tfn.trace.grid_argument import LocalMemory
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

Items = Sequence[UOp]
ONE = Access(0, 1, 0)
BEGIN = UOp(Op.PARAM, (), Param(-2, (), INT64))
THREAD = UOp(Op.RANGE, (), Range(-1, 4, Place.LOCAL))
BARRIER = UOp(Op.BARRIER, (), 1)
X = p(0, 8)
MEMORY = UOp(Op.LOCAL_MEMORY, (), LocalMemory(0, (4,), FLOAT32))
HERE = BEGIN * 4 + THREAD
ADDRESS = [BEGIN * 4, HERE]


def load(memory: UOp, at: UOp) -> UOp:
    return UOp(Op.LOAD, (memory, at), ONE)


def store(memory: UOp, at: UOp, value: UOp, *predicate: UOp) -> UOp:
    return UOp(Op.STORE, (memory, at, value, *predicate), ONE)


def kernels(*outputs: UOp) -> list[tuple[Items, int, int]]:
    """The instructions of the kernels of graphs, with the groups and the threads of each."""
    compiled = []
    for kernel in passes.ranges(passes.boundaries(jaxpr(outputs).function, GRID), GRID):
        n = passes.split(passes.decompose(kernel.body, GRID), GRID)
        compiled.append((passes.linearize(n, GRID), tile_count(n), thread_count(n)))
    return compiled


def test_threads_of_all_groups_run_at_once() -> None:
    value = load(X, HERE)
    double = value * 2.0
    x = np.arange(8, dtype=np.float32)
    grid([*ADDRESS, value, double, store(X, HERE, double)], 2, 4, [x])
    assert x.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


def test_loops_end_for_each_thread_by_itself() -> None:
    end = build.minimum(THREAD, const(2, INT64))
    loop = UOp(Op.LOOP, (const(0, INT64), end), 1)
    total = UOp(Op.ACCUMULATOR, (loop, const(1.0, FLOAT32)), 0)
    twice = total + total
    items = [end, loop, total, twice, UOp(Op.END, (loop, total, twice)), *ADDRESS]
    x = np.zeros(8, np.float32)
    grid([*items, store(X, HERE, total)], 2, 4, [x])
    assert x.tolist() == [1, 2, 4, 4] * 2


def test_local_memory_belongs_to_a_group() -> None:
    turned = const(3, INT64) - THREAD
    value, other = load(X, HERE), load(MEMORY, turned)
    items = [*ADDRESS, value, store(MEMORY, THREAD, value), BARRIER, turned, other]
    x = np.arange(8, dtype=np.float32)
    grid([*items, store(X, HERE, other)], 2, 4, [x])
    assert x.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]
    without = [u for u in items if u is not BARRIER]
    with pytest.raises(RaceError, match=r"thread 0 loads element 3 of local memory 0, .*thread 3"):
        grid(without, 2, 4, [np.zeros(8, np.float32)])


def test_two_threads_that_store_to_one_element_race() -> None:
    half = THREAD // 2
    with pytest.raises(RaceError, match=r"thread 1 stores element 0 of operand 0, .*thread 0"):
        grid([half, store(X, half, const(1.0, FLOAT32))], 1, 4, [np.zeros(8, np.float32)])


def test_groups_never_meet() -> None:
    one = const(1.0, FLOAT32)
    with pytest.raises(RaceError, match=r"thread 4 stores element 0 of operand 0, .*thread 0"):
        grid([store(X, THREAD, one)], 2, 4, [np.zeros(8, np.float32)])
    first = THREAD < 1
    value = load(X, const(0, INT64))
    items = [value, first, BARRIER, *ADDRESS, store(X, HERE, one, first)]
    with pytest.raises(RaceError, match="of operand 0, which others access without a barrier"):
        grid(items, 2, 4, [np.zeros(8, np.float32)])
    grid(items, 1, 4, [np.zeros(8, np.float32)])


def test_operands_of_one_memory_are_one_to_races() -> None:
    x, y = np.arange(8, dtype=np.float32), p(1, 8)
    turned = const(7, INT64) - HERE
    value = load(y, turned)
    items = [*ADDRESS, turned, value, store(X, HERE, value)]
    grid(items, 2, 4, [np.zeros(8, np.float32), x])
    with pytest.raises(RaceError):
        grid(items, 2, 4, [x, x])


def test_a_barrier_that_some_threads_do_not_reach_is_refused() -> None:
    loop = UOp(Op.LOOP, (const(0, INT64), THREAD), 1)
    with pytest.raises(DivergenceError, match="3 of 4 threads of group 0 come to barrier 1"):
        grid([loop, BARRIER, UOp(Op.END, (loop,))], 1, 4, [np.zeros(8, np.float32)])


def test_an_access_out_of_bounds_is_refused() -> None:
    with pytest.raises(AssertionError, match="element 8 of 8 is accessed"):
        grid([*ADDRESS, load(X, HERE)], 3, 4, [np.zeros(8, np.float32)])


@pytest.mark.parametrize(
    ("output", "spare"),
    [
        (build.add_up(p(0, 3, 300), (1,)), 1),
        (build.reduce(p(0, 2, 130), Op.MAX, (1,), index=np.dtype("int32")), 2),
        (matmul(p(0, 40, 24), p(1, 24, 36)), 0),
    ],
    ids=["sum", "argmax", "matmul"],
)
def test_a_missing_barrier_is_found(output: UOp, spare: int) -> None:
    """Without any of its barriers a kernel races; `spare` are for loops around a reduction."""
    ((items, groups, threads),) = kernels(output)
    barriers = [u for u in items if u.op is Op.BARRIER]
    needed = 0
    for barrier in barriers:
        values = [draw(output.shape, output.dtype), *inputs([output])]
        buffers = [np.ravel(x).copy() for x in values]
        grid(items, groups, threads, buffers)
        try:
            grid([u for u in items if u is not barrier], groups, threads, buffers)
        except RaceError as error:
            assert "local memory" in str(error)
            needed += 1
    assert needed == len(barriers) - spare and needed >= 2
