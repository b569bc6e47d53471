"""Products by four warps: values in all layouts, and what is planted between tiles and products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.covering import covering
from tests.hw.cuda.devices import simulated_device
from tests.hw.cuda.ptxas import assemble, needs_ptxas
from tests.lower.check_passes import check_passes
from tests.lower.graphs import inputs, jaxpr, matmul, p, run_on, run_oracle
from tests.lower.grid_interpreter import RaceError, grid
from tfn.config import config
from tfn.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    INT32,
    DType,
    float8_e4m3fn,
    float8_e5m2,
    int8,
)
from tfn.errors import SplitError
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cuda.target import TARGETS
from tfn.lower.grids.passes import GRID as passes
from tfn.lower.grids.passes import thread_count
from tfn.lower.loops import grid_heuristics, loop_nest
from tfn.lower.loops.grid_opt_ops import StageTile
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import replay
from tfn.lower.passes import tile_count
from tfn.lower.pipeline import lower
from tfn.trace import build
from tfn.trace.grid_argument import GROUP_ROWS, SWIZZLE_BYTES
from tfn.trace.op import Op
from tfn.trace.uop import UOp

TARGET = TARGETS["sm_90"]
ROW = SWIZZLE_BYTES // 2
INT8, FLOAT8 = int8.dtype, float8_e4m3fn.dtype


def product(rows: int, depth: int, columns: int, dtype: DType = BFLOAT16) -> UOp:
    if dtype == FLOAT32:
        return build.dot(p(0, rows, depth), p(1, depth, columns), ((1,), (0,)), tf32=True)
    return matmul(p(0, rows, depth, dtype=dtype), p(1, depth, columns, dtype=dtype))


def turned(rows: int, depth: int, columns: int) -> UOp:
    """A product along the first axis of one operand and the last of the other."""
    a, b = p(0, depth, rows, dtype=BFLOAT16), p(1, columns, depth, dtype=BFLOAT16)
    return build.dot(a, b, ((0,), (1,)), ((), ()))


def bytes_of(rows: int, depth: int, columns: int, turned: tuple[int, int]) -> list[UOp]:
    a = p(0, *((rows, depth) if turned[0] else (depth, rows)), dtype=INT8)
    return [a, p(1, *((columns, depth) if turned[1] else (depth, columns)), dtype=INT8)]


def of_bytes(rows: int, depth: int, columns: int, turned: tuple[int, int]) -> UOp:
    operands = bytes_of(rows, depth, columns, turned)
    return build.dot(*operands, ((turned[0],), (turned[1],)), ((), ()), INT32)


def of_float8(rows: int, depth: int, columns: int) -> UOp:
    a, b = p(0, rows, depth, dtype=FLOAT8), p(1, depth, columns, dtype=FLOAT8)
    return build.dot(a, b, ((1,), (0,)), ((), ()), FLOAT32)


def plain(output: UOp) -> Nest:
    *_, kernel = passes.ranges(passes.boundaries(jaxpr([output]).function, TARGET), TARGET)
    return loop_nest.nest(passes.decompose(kernel.body, TARGET))


def chosen(output: UOp) -> Nest:
    return grid_heuristics.choose(plain(output), TARGET)


def run(n: Nest, items: Sequence[UOp], output: UOp) -> np.ndarray:
    """The values by all threads, none of which waits for a bank."""
    a, b = inputs([output])
    y = np.zeros(output.shape, output.dtype)
    buffers = [y.reshape(-1), a.reshape(-1), b.reshape(-1)]
    grid(items, tile_count(n), thread_count(n), buffers, 1)
    return y


def products(items: Sequence[UOp]) -> list[UOp]:
    return [u for u in items if u.op is Op.GROUP_MMA]


def require_close(got: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16], ids=str)
@pytest.mark.parametrize(
    "sizes", [(64, 128, 64), (128, 192, 64), (64, 320, 128), (192, 256, 64)], ids=str
)
def test_every_pass_keeps_the_values_and_so_does_the_machine(
    dtype: DType, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "disk_cache", False)
    output = product(*sizes, dtype)
    values, n = inputs([output]), chosen(output)
    items = passes.linearize(n, TARGET)
    (expected,) = run_oracle([output], values)
    assert products(items)
    require_close(run(n, items, output), expected)
    (got,) = run_on(simulated_device(), jaxpr([output]), values)
    require_close(got, expected)


@covering(
    "turned, sizes",
    [(1, 0), (1, 1), (0, 0), (0, 1)],
    [(64, 64, 64), (128, 96, 64), (192, 256, 64)],
    ids=str,
)
def test_factors_of_float32_are_rounded_to_tf32_with_rows_along_the_sum(
    sizes: tuple[int, int, int], turned: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the layout of operands: they are copied once, when they are rounded."""
    monkeypatch.setattr(config, "disk_cache", False)
    rows, depth, columns = sizes
    a = p(0, *((rows, depth) if turned[0] else (depth, rows)))
    b = p(1, *((columns, depth) if turned[1] else (depth, columns)))
    output = build.dot(a, b, ((turned[0],), (turned[1],)), tf32=True)
    items = passes.linearize(chosen(output), TARGET)
    assert {(u.arg.depth, u.arg.a_across, u.arg.b_across) for u in products(items)} == {
        (32, False, False)
    }
    values = inputs([output])
    (expected,) = run_oracle([output], values)
    check_passes(jaxpr([output]), values, TARGET, tolerance=1e-4)
    (got,) = run_on(simulated_device(), jaxpr([output]), values)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("turned", [(1, 0), (1, 1), (0, 0), (0, 1)], ids=str)
@pytest.mark.parametrize("sizes", [(64, 256, 64), (128, 384, 192)], ids=str)
def test_bytes_are_multiplied_exactly_with_rows_along_the_sum(
    sizes: tuple[int, int, int], turned: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operand with rows across the sum is copied; the sums are those of integers."""
    monkeypatch.setattr(config, "disk_cache", False)
    output = of_bytes(*sizes, turned)
    items = passes.linearize(chosen(output), TARGET)
    found = {(u.arg.depth, u.arg.a_across, u.arg.b_across, u.dtype) for u in products(items)}
    assert found == {(128, False, False, INT32)}
    rng = np.random.default_rng(1)
    values = [rng.integers(-128, 128, x.shape).astype(np.int8) for x in bytes_of(*sizes, turned)]
    expected = run_oracle([output], values)[0]
    assert np.abs(expected).max() > 1 << 15
    check_passes(jaxpr([output]), values, TARGET)
    (got,) = run_on(simulated_device(), jaxpr([output]), values)
    np.testing.assert_array_equal(got, expected)
    copies = lower(jaxpr([output]), TARGET).kernels[:-1]
    assert bool(copies) == (0 in turned)


@pytest.mark.parametrize("dtype", [FLOAT8, float8_e5m2.dtype], ids=str)
@pytest.mark.parametrize("result", [FLOAT32, None], ids=str)
def test_floats_of_8_bits_are_copied_as_bfloat16(
    dtype: DType, result: DType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their products are exact in it: here all sums are, and the results are the oracle's."""
    monkeypatch.setattr(config, "disk_cache", False)
    a, b = p(0, 128, 256, dtype=dtype), p(1, 256, 64, dtype=dtype)
    output = build.dot(a, b, ((1,), (0,)), ((), ()), result or dtype)
    copy, product = lower(jaxpr([output]), TARGET).kernels
    assert "wgmma" not in copy.text and "wgmma" in product.text
    rng = np.random.default_rng(0)
    values = [rng.integers(-3, 4, x.shape).astype(np.float32).astype(dtype) for x in (a, b)]
    (expected,) = run_oracle([output], values)
    (got,) = run_on(simulated_device(), jaxpr([output]), values)
    np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("turned", [(1, 0), (1, 1), (0, 0), (0, 1)], ids=str)
def test_tiles_are_along_the_sum_or_across_it(
    turned: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the products of a gradient need no transposes."""
    monkeypatch.setattr(config, "disk_cache", False)
    a = p(0, *((128, 192) if turned[0] else (192, 128)), dtype=BFLOAT16)
    b = p(1, *((128, 192) if turned[1] else (192, 128)), dtype=BFLOAT16)
    output = build.dot(a, b, ((turned[0],), (turned[1],)), ((), ()))
    n = chosen(output)
    items = passes.linearize(n, TARGET)
    across = {(u.arg.a_across, u.arg.b_across) for u in products(items)}
    assert across == {(turned[0] == 0, turned[1] == 0)}
    (expected,) = run_oracle([output], inputs([output]))
    require_close(run(n, items, output), expected)
    (got,) = run_on(simulated_device(), jaxpr([output]), inputs([output]))
    require_close(got, expected)


def test_what_follows_a_product_is_in_its_kernel() -> None:
    bias = build.broadcast_to(p(2, 64, dtype=BFLOAT16), (64, 64))
    output = build.maximum(product(64, 192, 64) * 2.0, bias)
    assert products(passes.linearize(chosen(output), TARGET))
    check_passes(jaxpr([output]), inputs([output]), TARGET, tolerance=2e-2)


def test_products_that_no_tile_divides_are_by_single_warps() -> None:
    for sizes in ((80, 128, 64), (64, 96, 64), (64, 128, 40), (64, 64, 64)):
        items = passes.linearize(chosen(product(*sizes)), TARGET)
        assert not products(items) and any(u.op is Op.WARP_MMA for u in items)


def test_large_products_have_large_tiles() -> None:
    def tile(*sizes: int) -> tuple[int, int]:
        items = passes.linearize(chosen(product(*sizes)), TARGET)
        (columns,) = {u.arg.columns for u in products(items)}
        (threads,) = {s.arg.size for u in items for s in u.src if s.op is Op.RANGE}
        return GROUP_ROWS * threads // 128, columns

    assert tile(4096, 4096, 4096) == (128, 256)
    assert tile(512, 512, 512) == (64, 64)


def planted(output: UOp, **changes: int) -> tuple[Nest, tuple[UOp, ...]]:
    opts = [replace(u, **changes) if isinstance(u, StageTile) else u for u in chosen(output).opts]
    n = replay(plain(output), opts)
    return n, passes.linearize(n, TARGET)


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5])
def test_rings_of_any_length_keep_the_values(stages: int) -> None:
    output = product(64, 384, 64)
    n, items = planted(output, stages=stages)
    require_close(run(n, items, output), run_oracle([output], inputs([output]))[0])
    assert {u.arg.pending for u in products(items)} == {int(stages > 2)}


def rebuilt(
    items: Sequence[UOp], changed: Callable[[UOp, tuple[UOp, ...]], UOp | None]
) -> list[UOp]:
    """The items, each made anew from its new sources; None puts its first source in its place."""
    new: dict[UOp, UOp] = {}
    kept = []
    for u in items:
        node = changed(u, tuple([new.get(s, s) for s in u.src]))
        new[u] = new.get(u.src[u.arg], u.src[u.arg]) if node is None else node
        kept += [] if node is None else [node]
    return kept


def test_sums_that_nothing_waits_for_lack_the_last_product() -> None:
    output = product(64, 384, 64)
    n, items = planted(output, stages=4)
    assert sum(u.op is Op.GROUP_WAIT for u in items) == 32
    without = rebuilt(
        items, lambda u, src: None if u.op is Op.GROUP_WAIT else UOp(u.op, src, u.arg)
    )
    got, expected = run(n, without, output), run(n, items, output)
    assert np.abs(got.astype(float) - expected.astype(float)).max() > 1


def test_a_copy_to_a_tile_that_a_pending_product_reads_is_a_race() -> None:
    output = product(64, 384, 64)
    n, items = planted(output, stages=4)

    def longer(u: UOp, src: tuple[UOp, ...]) -> UOp:
        return UOp(u.op, src, replace(u.arg, pending=2) if u.op is Op.GROUP_MMA else u.arg)

    with pytest.raises(RaceError, match=r"loads element \d+ of local memory \d"):
        run(n, rebuilt(items, longer), output)


def test_a_missing_barrier_is_a_race() -> None:
    output = product(64, 384, 64)
    n, items = planted(output, stages=4)
    with pytest.raises(RaceError, match=r"of local memory \d"):
        run(n, [u for u in items if u.op is not Op.BARRIER], output)


def test_elements_that_cannot_be_swizzled_are_refused() -> None:
    output = product(64, 384, 64)
    with pytest.raises(SplitError, match=r"operand \d cannot be swizzled"):
        planted(output, pad=8)


@needs_ptxas
@pytest.mark.parametrize(
    ("output", "copies", "instruction"),
    [
        (product(4096, 4096, 4096), 0, b"m64n256k16.f32.bf16.bf16"),
        (turned(4096, 4096, 4096), 0, b"m64n256k16.f32.bf16.bf16"),
        (product(4096, 4096, 4096, FLOAT32), 2, b"m64n256k8.f32.tf32.tf32"),
        (of_bytes(4096, 4096, 4096, (1, 0)), 1, b"m64n256k32.s32.s8.s8"),
        (of_float8(4096, 4096, 4096), 1, b"m64n256k16.f32.bf16.bf16"),
    ],
    ids=["bfloat16", "turned", "tf32", "int8", "float8"],
)
def test_products_assemble_without_being_serialised(
    output: UOp, copies: int, instruction: bytes
) -> None:
    *others, kernel = lower(jaxpr([output]), TARGET).kernels
    assert len(others) == copies
    text = LlvmCompiler(verify=True).translate([kernel.text], TARGET, 2)
    assert b"wgmma.mma_async.sync.aligned." + instruction in text
    (got,) = assemble(text, TARGET.cpu).values()
    assert got.spill_bytes == got.stack_bytes == 0 and got.registers <= 208


@needs_ptxas
def test_a_product_that_is_serialised_fails() -> None:
    """At LLVM's level 0 sums are copied between products; ptxas says so, and exits with 0."""
    (kernel,) = lower(jaxpr([product(4096, 4096, 4096)]), TARGET).kernels
    text = LlvmCompiler(verify=True).translate([kernel.text], TARGET, 0)
    with pytest.raises(AssertionError, match=r"C7514.*instructions are serialized"):
        assemble(text, TARGET.cpu)
