"""Prefix sums over threads: values, order, barriers, and loops that a group shares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.covering import covering
from tests.lower import grid_interpreter
from tests.lower.check_passes import GRID, check_passes
from tests.lower.graphs import Value, draw, inputs, jaxpr, p
from tfn.dtypes import FLOAT32, FLOAT64, INT32, INT64, DType, int8
from tfn.errors import SplitError
from tfn.lower.codegen import grid
from tfn.lower.codegen.builder import Builder
from tfn.lower.codegen.group_scan import prefixes
from tfn.lower.fuse import ranges
from tfn.lower.grids.passes import GRID as GRID_PASSES
from tfn.lower.loops import loop_nest
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Bind, ShareScan, Split
from tfn.lower.math import decompose
from tfn.lower.target.grid import Grid
from tfn.numpy.cumulative import running
from tfn.trace import build
from tfn.trace.argument import Place, Range
from tfn.trace.op import Op
from tfn.trace.spec import Stage
from tfn.trace.spec import check as check_stage
from tfn.trace.uop import UOp, const

PLAIN = GRID.grid
assert PLAIN is not None
MACHINES = [PLAIN, replace(PLAIN, exchanges=True)]


def prefixes_of(op: Op, x: Value, threads: int, machine: Grid) -> tuple[Value, Value]:
    """What the threads before each one have, and all of them, for several values of a thread."""
    code, thread = Builder(), UOp(Op.RANGE, (), Range(-1, threads, Place.LOCAL))
    n = len(x) // threads
    values = [code.load(p(2, len(x), dtype=x.dtype), thread + i * threads) for i in range(n)]
    for i, pair in enumerate(prefixes(code, op, values, thread, machine)):
        for at, value in enumerate(pair):
            code.store(p(at, len(x), dtype=x.dtype), thread + i * threads, value)
    items = tuple(code.scopes.root.items)
    check_stage(items, Stage.LINEAR)
    before, total = np.zeros_like(x), np.zeros_like(x)
    grid_interpreter.grid(items, 1, threads, [before, total, x.copy()])
    return before, total


@pytest.mark.parametrize("machine", MACHINES, ids=["memory", "exchanges"])
@pytest.mark.parametrize("threads", [2, 8, 32, 64, 256])
def test_each_thread_learns_what_those_before_it_have(threads: int, machine: Grid) -> None:
    x = draw((3 * threads,), INT32, 1)
    rows = x.reshape(3, threads).astype(np.int32)
    before, total = prefixes_of(Op.ADD, x, threads, machine)
    wanted = np.cumsum(rows, axis=1, dtype=np.int32)
    np.testing.assert_array_equal(before.reshape(rows.shape), wanted - rows)
    np.testing.assert_array_equal(total.reshape(rows.shape), wanted[:, -1:].repeat(threads, 1))
    before, total = prefixes_of(Op.MAX, x, threads, machine)
    np.testing.assert_array_equal(
        before.reshape(rows.shape)[:, 1:], np.maximum.accumulate(rows, axis=1)[:, :-1]
    )
    assert (before.reshape(rows.shape)[:, 0] == np.iinfo(np.int32).min).all()


def test_the_order_of_additions_does_not_depend_on_the_machine() -> None:
    x = np.random.default_rng(0).normal(size=512).astype(np.float32)
    first, second = (prefixes_of(Op.ADD, x, 256, machine) for machine in MACHINES)
    assert first[0].tobytes() == second[0].tobytes()
    assert first[1].tobytes() == second[1].tobytes()


@covering(
    "size, dtype, exchanges",
    (64, 131, 2049),
    (FLOAT32, FLOAT64, INT64, int8.dtype),
    (False, True),
    pairs=[(0, 2), (1, 2)],
    ids=str,
)
def test_groups_share_lines(size: int, dtype: DType, exchanges: bool) -> None:
    target = replace(GRID, grid=MACHINES[exchanges])
    op = Op.ADD if size % 2 else Op.MAX
    line = p(0, 2, size, dtype=dtype)
    outputs = [build.moveaxis(running(build.moveaxis(line, 1, 0), op), 0, 1)]
    check_passes(jaxpr(outputs), inputs(outputs), target, tolerance=1e-3)


def nest(output: UOp) -> Nest:
    *_, kernel = ranges.indexed_kernels(GRID_PASSES.boundaries(jaxpr([output]).function, GRID))
    return loop_nest.nest(decompose.decompose([kernel.body], GRID.lacks)[0])  # type: ignore[union-attr]


def test_a_line_is_read_once_and_meets_at_barriers() -> None:
    n = nest(running(p(0, 4096), Op.ADD))
    (r,) = [u.src[0] for u in n.body.src]
    shared = ShareScan(r.arg.number, 8, 256).apply(n)
    items = grid.linearize(shared, machine=MACHINES[1])
    assert grid.thread_count(shared) == 256
    loads = [u for u in items if u.op is Op.LOAD and u.src[0].op is Op.PARAM]
    assert len(loads) == len(set(loads)) == 8
    # One barrier between warps, one before the loop turns.
    assert sum(u.op is Op.BARRIER for u in items) == 2
    x, y = draw((4096,), FLOAT32), np.zeros(4096, np.float32)
    for barrier in [i for i, u in enumerate(items) if u.op is Op.BARRIER]:
        without = (*items[:barrier], *items[barrier + 1 :])
        with pytest.raises(grid_interpreter.RaceError, match="local memory"):
            grid_interpreter.grid(without, 1, 256, [y, x])


def test_loops_that_carry_no_reduction_are_not_shared() -> None:
    n = nest(running(p(0, 3, 100), Op.ADD))
    (r,) = [u.src[0] for u in n.body.src]
    with pytest.raises(SplitError, match="take a power of two"):
        ShareScan(r.arg.number, 8, 12).apply(n)
    with pytest.raises(SplitError, match="no loop that carries one reduction"):
        ShareScan(n.loops[0].arg.number, 8, 32).apply(n)
    threads = Split(n.loops[0].arg.number, 4, Place.LOCAL).apply(n)
    with pytest.raises(SplitError, match="no loop that carries one reduction"):
        ShareScan(r.arg.number, 8, 32).apply(threads)
    once = ShareScan(r.arg.number, 8, 32).apply(Bind(n.loops[0].arg.number, Place.GROUP).apply(n))
    with pytest.raises(SplitError, match="no loop that carries one reduction"):
        ShareScan(r.arg.number, 8, 32).apply(once)


def test_the_constant_first_carry_is_no_operand() -> None:
    n = nest(running(p(0, 100), Op.ADD))
    (node,) = n.body.src
    assert node.src[1] is const(0.0, FLOAT32)
