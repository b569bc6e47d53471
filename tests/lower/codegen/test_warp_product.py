"""Products by warps: values, local memory without waits, and what is planted there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.covering import covering
from tests.hw.cuda.devices import simulated_device
from tests.lower.check_passes import GRID, HOST, check_passes
from tests.lower.graphs import draw, inputs, jaxpr, matmul, p, run_on, run_oracle
from tests.lower.grid_interpreter import BankConflictError, DivergenceError, RaceError, grid
from tfn.config import config
from tfn.dtypes import BFLOAT16, FLOAT16, FLOAT32, DType
from tfn.errors import SplitError
from tfn.hw.cuda.target import TARGETS
from tfn.lower import pipeline
from tfn.lower.grids.passes import GRID as passes
from tfn.lower.grids.passes import thread_count
from tfn.lower.loops import grid_heuristics, loop_nest
from tfn.lower.loops.grid_opt_ops import StageTile, WarpProduct
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import replay
from tfn.lower.passes import tile_count
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.op import Op
from tfn.trace.uop import UOp

TARGET = TARGETS["sm_80"]
INT8 = np.dtype("int8")


def product(rows: int, depth: int, columns: int, dtype: DType = BFLOAT16) -> UOp:
    a, b = p(0, rows, depth, dtype=dtype), p(1, depth, columns, dtype=dtype)
    if dtype == FLOAT32:
        return build.dot(a, b, ((1,), (0,)), tf32=True)
    if dtype == INT8:
        return build.dot(a, b, ((1,), (0,)), ((), ()), np.dtype("int32"))
    return matmul(a, b)


def plain(output: UOp) -> Nest:
    *_, kernel = passes.ranges(passes.boundaries(jaxpr([output]).function, TARGET), TARGET)
    return loop_nest.nest(passes.decompose(kernel.body, TARGET))


def chosen(output: UOp) -> Nest:
    return grid_heuristics.choose(plain(output), TARGET)


def run(n: Nest, items: Sequence[UOp], output: UOp, most: int = 32) -> np.ndarray:
    a, b = inputs([output])
    y = np.zeros(output.shape, output.dtype)
    grid(items, tile_count(n), thread_count(n), [y.reshape(-1), a.reshape(-1), b.reshape(-1)], most)
    return y


@covering(
    "dtype, sizes",
    [BFLOAT16, FLOAT16, FLOAT32, INT8],
    [(32, 64, 32), (64, 128, 64), (48, 32, 24), (16, 32, 8)],
    ids=str,
)
def test_every_pass_keeps_the_values_and_so_does_the_machine(
    dtype: DType, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "disk_cache", False)
    outputs = [product(*sizes, dtype)]
    values = inputs(outputs)
    assert any(isinstance(opt, WarpProduct) for opt in chosen(outputs[0]).opts)
    check_passes(jaxpr(outputs), values, TARGET, tolerance=1e-2)
    (got,) = run_on(simulated_device(major=8), jaxpr(outputs), values)
    (expected,) = run_oracle(outputs, values)
    np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=2e-2, atol=2e-2)


def test_factors_of_float32_are_rounded_to_tf32_once() -> None:
    """Products of rounded factors are exact: a unit differs in the order of additions alone."""
    output = product(32, 64, 32, FLOAT32)
    values = inputs([output])
    (expected,) = run_oracle([output], values)
    (rounded,) = run_oracle([matmul(*map(build.tf32, (p(0, 32, 64), p(1, 64, 32))))], values)
    np.testing.assert_allclose(expected, rounded, rtol=1e-6, atol=1e-5)
    exact = values[0].astype(float) @ values[1]
    assert 1e-4 < np.abs(expected - exact).max() < 3e-2
    check_passes(jaxpr([output]), values, TARGET, tolerance=1e-5)
    for target in (HOST, GRID):  # without such a unit the same factors are multiplied
        check_passes(jaxpr([output]), values, target, tolerance=1e-5)
    assert fragments(output) == {(4, False), (2, False)}


def test_convolutions_of_tf32_are_on_the_unit() -> None:
    """Their factors are rounded as those of products, and so are those of their derivatives."""
    arg = Conv((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 1, FLOAT32, tf32=True)
    x, w = p(0, 1, 6, 18, 32), p(1, 3, 3, 32, 32)
    output = build.conv(x, w, arg)
    values = inputs([output])
    (expected,) = run_oracle([output], values)
    (exact,) = run_oracle([build.conv(x, w, replace(arg, tf32=False))], values)
    assert 1e-4 < np.abs(expected - exact).max() < 3e-2
    for target in (TARGET, GRID, HOST):
        check_passes(jaxpr([output]), values, target, tolerance=1e-4)
    program = pipeline.lower(jaxpr([output]), TARGET)
    assert any(".tf32" in kernel.text for kernel in program.kernels)


def test_epilogues_batches_and_transposes_are_on_the_unit() -> None:
    x = build.maximum(
        product(32, 64, 32) * 2.0, build.broadcast_to(p(2, 32, dtype=BFLOAT16), (32, 32))
    )
    a, b = p(0, 3, 32, 64, dtype=BFLOAT16), p(1, 3, 32, 64, dtype=BFLOAT16)
    batched = build.dot(a, b, ((2,), (2,)), ((0,), (0,)))
    for output in (x, batched):
        assert any(isinstance(opt, WarpProduct) for opt in chosen(output).opts)
        check_passes(jaxpr([output]), inputs([output]), TARGET, tolerance=2e-2)


def test_sizes_that_the_unit_does_not_divide_are_left_to_threads() -> None:
    for sizes in ((33, 64, 32), (32, 60, 32), (32, 64, 30)):
        n = chosen(product(*sizes))
        assert not any(isinstance(opt, WarpProduct) for opt in n.opts)
        assert not any(u.op is Op.WARP_MMA for u in passes.linearize(n, TARGET))
    n = plain(product(32, 60, 32))
    rows, columns = (r.arg.number for r in n.loops)
    depth = loop_nest.folds(n.body)[0].src[-1].arg.number
    with pytest.raises(SplitError, match="unit of a warp"):
        WarpProduct(rows, columns, depth, 16).apply(n)


def test_no_thread_of_a_warp_waits_for_a_bank() -> None:
    output = product(64, 256, 64)
    n = chosen(output)
    pads = [opt.pad for opt in n.opts if isinstance(opt, StageTile)]
    assert len(pads) == 2 and all(pads)
    run(n, passes.linearize(n, TARGET), output, most=1)


def without_padding(n: Nest, output: UOp) -> Nest:
    opts = [replace(opt, pad=0) if isinstance(opt, StageTile) else opt for opt in n.opts]
    return replay(plain(output), opts)


def test_a_planted_bank_conflict_has_a_name() -> None:
    output = product(64, 256, 64)
    n = without_padding(chosen(output), output)
    with pytest.raises(
        BankConflictError, match=r"threads \d+ to \d+ meet \d+ words of a bank in local"
    ):
        run(n, passes.linearize(n, TARGET), output, most=1)


def test_a_planted_missing_barrier_has_a_name() -> None:
    output = product(64, 128, 64)
    n = chosen(output)
    items = passes.linearize(n, TARGET)
    (barrier,) = (u for u in items if u.op is Op.BARRIER)
    with pytest.raises(RaceError, match=r"of local memory \d.* without a barrier between them"):
        run(n, [u for u in items if u is not barrier], output)


def test_a_warp_that_is_not_whole_is_refused() -> None:
    n = chosen(build.add_up(p(0, 8, 1000), (1,)))
    items = passes.linearize(n, TARGET)
    assert sum(u.op is Op.EXCHANGE for u in items) == 5
    assert sum(u.op is Op.BARRIER for u in items) == 2
    x, y = draw((8000,), np.dtype("float32")), np.zeros(8, np.float32)
    grid(items, 8, 64, [y, x])
    np.testing.assert_allclose(y, x.reshape(8, 1000).sum(1), rtol=1e-4, atol=1e-4)
    (thread,) = {s for u in items for s in u.src if s.op is Op.RANGE}
    loop = UOp(Op.LOOP, (thread - thread, thread), 99)
    exchange = next(u for u in items if u.op is Op.EXCHANGE)
    inside = UOp(Op.EXCHANGE, (thread,), exchange.arg)
    zero = loop.src[0]
    with pytest.raises(DivergenceError, match=r"31.* of 32 threads of a warp"):
        grid([zero, loop, inside, UOp(Op.END, (loop,))], 1, 64, [y, x])


def test_sums_by_exchanges_have_the_bits_of_the_tree() -> None:
    for outputs in ([build.add_up(p(0, 5, 1000), (1,))], [build.add_up(p(0, 3, 70), (1,))]):
        n, values = chosen(*outputs), inputs(outputs)
        results = []
        for machine in (TARGET, replace(TARGET, grid=replace(TARGET.grid, exchanges=False))):
            y = np.zeros(outputs[0].shape, np.float32)
            items = passes.linearize(n, machine)
            grid(items, tile_count(n), thread_count(n), [y, values[0].reshape(-1)])
            results.append(y)
        np.testing.assert_array_equal(*results)


def fragments(output: UOp) -> set[tuple[int, bool]]:
    items = passes.linearize(chosen(output), TARGET)
    return {(u.arg.matrices, u.arg.transposed) for u in items if u.op is Op.FRAGMENT}


@pytest.mark.parametrize("turned", [(1, 0), (1, 1), (0, 0), (0, 1)], ids=str)
def test_warps_load_matrices_of_any_layout(
    turned: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Along the sum rows are loaded as they are, across it they are transposed."""
    monkeypatch.setattr(config, "disk_cache", False)
    shapes = [(64, 128), (128, 64)]
    a, b = (
        p(i, *(shape if along == i ^ 1 else shape[::-1]), dtype=BFLOAT16)
        for i, (shape, along) in enumerate(zip(shapes, turned, strict=True))
    )
    output = build.dot(a, b, ((turned[0],), (turned[1],)), ((), ()))
    assert fragments(output) == {(4, turned[0] == 0), (2, turned[1] == 0)}
    check_passes(jaxpr([output]), inputs([output]), TARGET, tolerance=2e-2)
    (got,) = run_on(simulated_device(major=8), jaxpr([output]), inputs([output]))
    (expected,) = run_oracle([output], inputs([output]))
    np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=2e-2, atol=2e-2)


def test_bytes_are_loaded_as_matrices_along_the_sum_alone() -> None:
    a, b = p(0, 64, 128, dtype=INT8), p(1, 64, 128, dtype=INT8)
    along = build.dot(a, b, ((1,), (1,)), ((), ()), np.dtype("int32"))
    assert fragments(along) == {(4, False), (2, False)}
    assert fragments(product(64, 128, 64, INT8)) == {(4, False)}


def test_a_row_of_a_matrix_that_is_not_aligned_is_refused() -> None:
    output = product(64, 128, 64)
    n = chosen(output)
    items = passes.linearize(n, TARGET)
    moved = [
        UOp(u.op, u.src, replace(u.arg, offset=u.arg.offset + 1)) if u.op is Op.FRAGMENT else u
        for u in items
    ]
    with pytest.raises(AssertionError, match="rows of matrices begin at 16 bytes"):
        run(n, moved, output)
