"""Staged tiles: one at a time, or a ring whose copies run ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.hw.cuda.devices import simulated_device
from tests.lower.check_passes import check_passes
from tests.lower.graphs import inputs, jaxpr, matmul, p, run_on, run_oracle
from tests.lower.grid_interpreter import RaceError, grid
from tfn.config import config
from tfn.dtypes import BFLOAT16, DType
from tfn.errors import SplitError
from tfn.hw.cuda.target import TARGETS
from tfn.lower.grids.passes import GRID as passes
from tfn.lower.grids.passes import thread_count
from tfn.lower.loops import grid_heuristics, loop_nest
from tfn.lower.loops.grid_opt_ops import StageTile
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import replay
from tfn.lower.passes import tile_count
from tfn.lower.pipeline import lower
from tfn.lower.target.grid import STATIC_LOCAL_BYTES
from tfn.trace.op import Op
from tfn.trace.uop import UOp, nodes

TARGET = TARGETS["sm_80"]
FLOAT32 = np.dtype("float32")


def product(rows: int, depth: int, columns: int, dtype: DType = FLOAT32) -> UOp:
    return matmul(p(0, rows, depth, dtype=dtype), p(1, depth, columns, dtype=dtype))


def plain(output: UOp) -> Nest:
    (kernel,) = passes.ranges(passes.boundaries(jaxpr([output]).function, TARGET), TARGET)
    return loop_nest.nest(passes.decompose(kernel.body, TARGET))


def chosen(output: UOp, stages: int = 0) -> Nest:
    n = grid_heuristics.choose(plain(output), TARGET)
    if not stages:
        return n
    opts = [replace(u, stages=stages) if isinstance(u, StageTile) else u for u in n.opts]
    return replay(plain(output), opts)


def run(n: Nest, items: Sequence[UOp], output: UOp) -> np.ndarray:
    a, b = inputs([output])
    y = np.zeros(output.shape, output.dtype)
    grid(items, tile_count(n), thread_count(n), [y.reshape(-1), a.reshape(-1), b.reshape(-1)])
    return y


def staged(n: Nest) -> list[UOp]:
    return [u for u in nodes(n.body) if u.op is Op.STAGED]


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 7])
def test_rings_of_any_length_keep_the_values(stages: int) -> None:
    output = product(32, 96, 48)
    n = chosen(output, stages)
    items = passes.linearize(n, TARGET)
    (expected,) = run_oracle([output], inputs([output]))
    np.testing.assert_allclose(run(n, items, output), expected, rtol=1e-4, atol=1e-4)
    waits = [u.arg for u in items if u.op is Op.COPY_WAIT]
    barriers = sum(u.op is Op.BARRIER for u in items)
    assert (waits, barriers) == (([], 2) if stages == 1 else ([stages - 2], 1))


@pytest.mark.parametrize(
    "output",
    [
        product(64, 64, 64),
        product(40, 48, 24),  # a last group that is not full: its bound is on threads
        product(64, 4, 64),  # one tile along the sum
        product(64, 256, 64, BFLOAT16),
        product(128, 64, 64, BFLOAT16),
    ],
    ids=["square", "odd", "thin", "deep", "long"],
)
def test_every_pass_keeps_the_values_and_so_does_the_machine(
    output: UOp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "disk_cache", False)
    values = inputs([output])
    check_passes(jaxpr([output]), values, TARGET, tolerance=1e-2)
    (got,) = run_on(simulated_device(major=8), jaxpr([output]), values)
    (expected,) = run_oracle([output], values)
    np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=2e-2, atol=2e-2)


def test_a_missing_wait_leaves_what_was_there() -> None:
    output = product(32, 96, 48)
    n = chosen(output, 3)
    items = passes.linearize(n, TARGET)
    expected = run(n, items, output)
    got = run(n, [u for u in items if u.op is not Op.COPY_WAIT], output)
    assert np.abs(got - expected).max() > 1


def test_a_wait_for_too_few_copies_is_seen() -> None:
    output = product(32, 96, 48)
    n = chosen(output, 3)
    items = [
        UOp(Op.COPY_WAIT, (), u.arg + 1) if u.op is Op.COPY_WAIT else u
        for u in passes.linearize(n, TARGET)
    ]
    with pytest.raises(RaceError, match="without a barrier between them"):
        run(n, items, output)


def test_a_copy_to_a_tile_that_is_in_use_is_a_race() -> None:
    output = product(32, 96, 48)
    n = chosen(output, 3)
    items = passes.linearize(n, TARGET)
    (barrier,) = (u for u in items if u.op is Op.BARRIER)
    with pytest.raises(RaceError, match=r"of local memory \d"):
        run(n, [u for u in items if u is not barrier], output)


def test_neighbours_are_copied_by_16_bytes_at_once() -> None:
    for output, count in ((product(64, 64, 64), 4), (product(64, 128, 64, BFLOAT16), 8)):
        copies = [u for u in passes.linearize(chosen(output), TARGET) if u.op is Op.COPY]
        assert copies and {u.arg.count for u in copies} == {count}


def test_elements_that_lie_apart_are_copied_by_threads() -> None:
    odd = product(64, 64, 63)  # rows of 252 bytes, whose last tile has a bound
    assert {u.arg.stages for u in staged(chosen(odd))} == {1}
    with pytest.raises(SplitError, match=r"operand \d cannot be copied asynchronously"):
        chosen(odd, 3)


def test_a_large_ring_gets_its_memory_at_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)
    output = product(256, 256, 128, BFLOAT16)
    (kernel,) = lower(jaxpr([output]), TARGET).kernels
    assert kernel.local_bytes > STATIC_LOCAL_BYTES and "external addrspace(3)" in kernel.text
    values = inputs([output])
    (got,) = run_on(simulated_device(major=8), jaxpr([output]), values)
    (expected,) = run_oracle([output], values)
    np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=2e-2, atol=2e-2)


def test_machines_that_do_not_copy_asynchronously_have_one_tile() -> None:
    assert TARGET.grid is not None
    plain_grid = replace(TARGET, grid=replace(TARGET.grid, copies_asynchronously=False))
    n = grid_heuristics.choose(plain(product(64, 64, 64)), plain_grid)
    assert {u.arg.stages for u in staged(n)} == {1}
