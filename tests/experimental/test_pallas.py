"""Kernels over blocks give what the same program on whole arrays gives, under all transforms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import ArgumentError, OutOfBoundsError
from tfn.experimental import pallas as pl

F32 = partial(tfn.ShapeDtypeStruct, dtype="float32")
RANDOM = np.random.default_rng(0)


def some(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def matmul(x: Any, y: Any, bm: int = 2, bn: int = 3, bk: int = 4) -> Any:
    """A product by tiles, with a sum in scratch memory over the last axis of the grid."""

    def kernel(x_ref: Any, y_ref: Any, out_ref: Any, total_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            total_ref[...] = tnp.zeros(total_ref.shape)

        total_ref[...] += x_ref[...] @ y_ref[...]

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            out_ref[...] = total_ref[...]

    (m, k), (_, n) = x.shape, y.shape
    return pl.pallas_call(
        kernel,
        F32((m, n)),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(k, bk)),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pl.VMEM((bm, bn), "float32")],
        interpret=True,
    )(x, y)


@pytest.mark.parametrize("sizes", [(4, 8, 6), (5, 9, 7), (1, 1, 1)], ids=str)
def test_products_by_tiles(sizes: Any) -> None:
    m, k, n = sizes
    x, y = some(m, k), some(k, n)
    for run in (matmul, tfn.jit(matmul)):
        np.testing.assert_allclose(run(x, y), x @ y, rtol=1e-5, atol=1e-5)


def test_transforms() -> None:
    x, y = some(4, 8), some(8, 6)
    xs = some(3, 4, 8)
    lanes = tfn.vmap(matmul, (0, None))(xs, y)
    np.testing.assert_allclose(lanes, xs @ y, rtol=1e-5, atol=1e-5)
    loss = lambda f: lambda x, y: (f(x, y) ** 2).sum()
    slopes = tfn.jit(tfn.grad(loss(matmul), (0, 1)))(x, y)
    expected = tfn.grad(loss(lambda x, y: x @ y), (0, 1))(x, y)
    for got, slope in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(got, slope, rtol=1e-4, atol=1e-4)


def test_one_program_and_trees() -> None:
    def kernel(refs: Any, out_refs: Any) -> None:
        out_refs["sum"][...] = refs["a"][...] + refs["b"][...]
        out_refs["first"][...] = refs["a"][0]

    out = pl.pallas_call(kernel, {"sum": F32((3,)), "first": F32(())})(
        {"a": np.float32([1, 2, 3]), "b": 10 * np.ones(3, "float32")}
    )
    assert out["sum"].tolist() == [11.0, 12.0, 13.0] and float(out["first"]) == 1.0


def test_axes_that_the_kernel_does_not_see_and_elements() -> None:
    x = some(3, 8)

    def kernel(x_ref: Any, out_ref: Any) -> None:
        assert x_ref.shape == (4,) and out_ref.shape == (2,)
        out_ref[...] = x_ref[pl.ds(1, 2)] * 10

    out = pl.pallas_call(
        kernel,
        F32((3, 4)),
        grid=(3, 2),
        in_specs=[pl.BlockSpec((None, pl.Element(4)), lambda i, j: (i, 4 * j))],
        out_specs=pl.BlockSpec((pl.squeezed, pl.Blocked(2)), lambda i, j: (i, j)),
    )(x)
    np.testing.assert_allclose(out, 10 * x[:, [1, 2, 5, 6]], rtol=1e-6)


def test_blocks_of_results_keep_what_was_written() -> None:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            out_ref[...] = tnp.zeros(out_ref.shape)

        out_ref[...] += x_ref[...].sum(0)

    x = some(6, 3)
    rows = pl.BlockSpec((2, 3), lambda i: (i, 0))
    out = pl.pallas_call(kernel, F32((3,)), grid=3, in_specs=[rows])(x)
    np.testing.assert_allclose(out, x.sum(0), rtol=1e-5)
    untouched = pl.pallas_call(lambda out_ref: None, [F32((2,)), tfn.ShapeDtypeStruct((), "int8")])
    with pytest.raises(TypeError):
        untouched()  # a kernel that takes one of two results
    values = pl.pallas_call(lambda a, b: None, [F32((2,)), tfn.ShapeDtypeStruct((), "int8")])()
    assert np.isnan(values[0]).all() and int(values[1]) == -128


def test_results_begin_with_operands() -> None:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        out_ref[pl.program_id(0)] = x_ref[0] + 1

    x = np.float32([1, 2, 3, 4])
    out = pl.pallas_call(kernel, F32((4,)), grid=(2,), input_output_aliases={0: 0})(x)
    assert out.tolist() == [2.0, 2.0, 3.0, 4.0]


def test_scalars_choose_blocks() -> None:
    def kernel(order_ref: Any, x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...] + order_ref[pl.program_id(0)]

    spec = pl.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(3,),
        in_specs=[pl.BlockSpec((1, 2), lambda i, order: (order[i], 0))],
        out_specs=pl.BlockSpec((1, 2), lambda i, order: (i, 0)),
    )
    x, order = some(3, 2), np.array([2, 0, 1], "int32")
    out = pl.pallas_call(kernel, F32((3, 2)), grid_spec=spec)(order, x)
    np.testing.assert_allclose(out, x[order] + order[:, None], rtol=1e-6)


def test_loops_and_scratch_memory() -> None:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        def body(total_ref: Any) -> None:
            total_ref[...] = 0.0

            @pl.loop(0, 8, step=2)
            def _(i: Any) -> None:
                total_ref[...] += x_ref[i]

            out_ref[...] = total_ref[...]

        pl.run_scoped(body, pl.SMEM((), "float32"))

    x = some(8)
    out = pl.pallas_call(kernel, F32(()))(x)
    assert float(out) == pytest.approx(float(x[::2].sum()), rel=1e-5)


INDICES = [
    (pl.ds(1, 2),),
    (pl.ds(0, 3), 2),
    (1, pl.ds(2, 3)),
    (..., pl.ds(1, 2)),
    (slice(1, 3), pl.ds(0, 2, 2)),
    (pl.ds(1, 3), slice(None, None, 2)),
    (np.array([2, 0]), pl.ds(1, 2)),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_slices_of_fixed_sizes(index: Any) -> None:
    x = some(4, 5)
    plain = tuple(
        slice(i.start, i.start + i.size * i.stride, i.stride) if isinstance(i, pl.Slice) else i
        for i in index
    )
    block = pl.Block(x)
    np.testing.assert_allclose(block[index], x[plain], rtol=1e-6)
    new = x.copy()
    new[plain] = 7
    block[index] = 7
    np.testing.assert_allclose(block[...], new, rtol=1e-6)
    moved = tfn.jit(lambda s: pl.Block(x)[pl.ds(s, 2), 0])(2)
    np.testing.assert_allclose(moved, x[2:4, 0], rtol=1e-6)


def test_views() -> None:
    block = pl.Block(some(4, 5))
    before = np.asarray(block[...])
    view = block.at[1:3]
    assert view.shape == (2, 5) and view.dtype == np.float32
    view[0, pl.ds(1, 2)] = 9.0
    view.at[1][...] = 3.0
    expected = before.copy()
    expected[1, 1:3], expected[2] = 9, 3
    np.testing.assert_array_equal(block[...], expected)
    np.testing.assert_array_equal(view[1], expected[2])
    block.set(0.0)
    assert float(block.get().sum()) == 0.0 and len(block) == 4 and block.size == 20


def test_what_is_refused() -> None:
    x = some(4)
    with pytest.raises(ArgumentError, match="outside of a kernel"):
        pl.program_id(0)
    call = partial(pl.pallas_call, lambda x_ref, out_ref: None, F32((4,)))
    with pytest.raises(ArgumentError, match="a size for each axis"):
        call(in_specs=[pl.BlockSpec((1, 1))])(x)
    with pytest.raises(ArgumentError, match="needs in_specs for each"):
        call(in_specs=[pl.BlockSpec(), pl.BlockSpec()])(x)
    with pytest.raises(ArgumentError, match="an index for each axis"):
        call(in_specs=[pl.BlockSpec((4,), lambda: (0, 0))])(x)
    with pytest.raises(OutOfBoundsError, match="longer than axis 0"):
        pl.Block(x)[pl.ds(0, 5)]
    with pytest.raises(ArgumentError, match="not negative"):
        pl.next_power_of_2(-1)
