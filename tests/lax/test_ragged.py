"""Ragged products against products of each group by itself."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.errors import ArgumentError, NotAvailableError, ShapeError

RANDOM = np.random.default_rng(0)
Numbers = lax.RaggedDotDimensionNumbers


def some(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def slices(sizes: Any) -> list[slice]:
    ends = np.cumsum(sizes)
    return [slice(end - n, end) for n, end in zip(sizes, ends, strict=True)]


FREE = Numbers((((2,), (2,)), ((0,), (1,))), [1], [0])
CONTRACTED = Numbers((((1,), (1,)), ((0,), (0,))), [1], [])
BATCH = Numbers((((2,), (1,)), ((0,), (0,))), [0], [])


@pytest.mark.parametrize(
    "sizes", [[2, 3, 1], [0, 6, 0], [1, 0, 2], [[2, 3, 1], [1, 1, 4]]], ids=str
)
def test_groups_of_a_free_axis(sizes: Any) -> None:
    x, w = some(2, 6, 4), some(3, 2, 4, 5)
    expected = np.zeros((2, 6, 5), "float32")
    for b, own in enumerate(np.broadcast_to(sizes, (2, 3))):
        for g, rows in enumerate(slices(own)):
            expected[b, rows] = x[b, rows] @ w[g, b]
    f = lambda x, w: lax.ragged_dot_general(x, tnp.swapaxes(w, 2, 3), np.array(sizes), numbers)
    numbers = Numbers((((2,), (3,)), ((0,), (1,))), [1], [0])
    np.testing.assert_allclose(f(x, w), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(tfn.jit(f)(x, w), expected, rtol=1e-5, atol=1e-5)
    direct = lax.ragged_dot_general(x, w, np.array(sizes), FREE)
    np.testing.assert_allclose(direct, expected, rtol=1e-5, atol=1e-5)
    dx, dw = some(*x.shape), some(*w.shape)
    slope = tfn.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1))(x, w)
    step = 1e-2
    loss = lambda x, w: float((f(x, w) ** 2).sum())
    change = (loss(x + step * dx, w + step * dw) - loss(x - step * dx, w - step * dw)) / (2 * step)
    along = sum(float((a * b).sum()) for a, b in zip(slope, (dx, dw), strict=True))
    assert along == pytest.approx(change, rel=2e-2)


@pytest.mark.parametrize("sizes", [[2, 3, 1], [1, 0, 2], [[2, 3, 1], [1, 1, 4]]], ids=str)
def test_groups_of_a_contracted_axis(sizes: Any) -> None:
    x, y = some(2, 6, 4), some(2, 6, 5)
    expected = np.zeros((3, 2, 4, 5), "float32")
    for b, own in enumerate(np.broadcast_to(sizes, (2, 3))):
        for g, rows in enumerate(slices(own)):
            expected[g, b] = x[b, rows].T @ y[b, rows]
    f = lambda x, y: lax.ragged_dot_general(x, y, np.array(sizes), CONTRACTED)
    np.testing.assert_allclose(f(x, y), expected, rtol=1e-5, atol=1e-5)
    lanes = tfn.vmap(f)(np.stack([x, 2 * x]), np.stack([y, y]))
    np.testing.assert_allclose(lanes, np.stack([expected, 2 * expected]), rtol=1e-5, atol=1e-5)


def test_groups_of_the_batch_change_nothing() -> None:
    x, y = some(4, 2, 3), some(4, 3, 5)
    out = lax.ragged_dot_general(x, y, np.array([1, 2]), BATCH)
    np.testing.assert_allclose(out, x @ y, rtol=1e-5)


def test_other_groups_do_not_matter() -> None:
    x, w = some(1, 4, 2), some(2, 1, 2, 3)
    w[1] = np.inf
    out = lax.ragged_dot_general(
        x[0], w[:1, 0], np.array([2]), Numbers((((1,), (1,)), ((), ())), [0], [0])
    )
    np.testing.assert_allclose(out[:2], x[0, :2] @ w[0, 0], rtol=1e-5)
    np.testing.assert_array_equal(out[2:], 0)


def test_one_matrix_for_each_group() -> None:
    x, w = some(6, 4), some(3, 4, 5)
    numbers = Numbers((((1,), (1,)), ((), ())), [0], [0])
    out = lax.ragged_dot_general(x, w, np.array([2, 3, 1]), numbers)
    np.testing.assert_allclose(out, lax.ragged_dot(x, w, np.array([2, 3, 1])), rtol=1e-5)


def test_tiles_of_other_groups_are_skipped() -> None:
    """The ends of groups are compared where the products are, so a mask hides whole tiles."""
    sizes = tnp.asarray(np.array([9, 0, 30, 25], np.int32))

    def run(x: tfn.Array, w: tfn.Array) -> tfn.Array:
        return lax.ragged_dot(x, w, sizes)

    shapes = tfn.ShapeDtypeStruct((64, 24), "float32"), tfn.ShapeDtypeStruct((4, 24, 40), "float32")
    params = tfn.jit(run).lower(*shapes).traced.jaxpr.params
    assert all(prod(p.shape) <= 4 * 24 * 40 for p in params), (
        "no mask of each element as an operand"
    )
    assert "leave unless" in str(tfn.show(run, *shapes, at="linear"))


def test_wrong_products_are_told() -> None:
    x, w = some(2, 6, 4), some(3, 2, 4, 5)
    with pytest.raises(NotAvailableError, match="begins with the first group"):
        lax.ragged_dot_general(x, w, np.array([6]), FREE, group_offset=1)
    with pytest.raises(ArgumentError, match="one ragged axis of lhs"):
        lax.ragged_dot_general(x, w, np.array([6]), FREE._replace(rhs_group_dimensions=[]))
    with pytest.raises(ShapeError, match="group_sizes for each index"):
        lax.ragged_dot_general(x, w, np.ones((5, 3), int), FREE)


@pytest.mark.parametrize("sizes", [[2, 0, 3, 2], [0, 0, 0, 0], [7, 0, 0, 0], [1, 1, 1, 1]])
def test_rows_times_the_matrix_of_their_group(sizes: list[int]) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(7, 3)), rng.normal(size=(4, 3, 2))
    expected = np.zeros((7, 2))
    for i, group in enumerate(np.repeat(np.arange(4), sizes)):
        expected[i] = x[i] @ w[group]
    actual = tfn.jit(lax.ragged_dot)(x, w, np.array(sizes))
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-7)
    slope = tfn.grad(lambda w: lax.ragged_dot(x, w, np.array(sizes)).sum())(w)
    assert np.isfinite(np.asarray(slope)).all()
    with pytest.raises(ShapeError, match=r"f64\[7,3\], f64\[4,3,2\], i64\[2\]"):
        lax.ragged_dot(x, w, np.array([1, 2]))


@pytest.mark.parametrize("rows", [1, 5, 24, 80])
@pytest.mark.parametrize("kind", ["even", "one", "short", "none"])
def test_rows_of_many_groups_are_multiplied_with_the_matrix_of_their_own(
    kind: str, rows: int
) -> None:
    groups = 8
    rng = np.random.default_rng(0)
    sizes = {
        "even": np.bincount(rng.integers(0, groups, rows), minlength=groups),
        "one": np.eye(groups, dtype=int)[5] * rows,
        "short": np.bincount(rng.integers(0, groups, rows // 2), minlength=groups),
        "none": np.zeros(groups, int),
    }[kind].astype("i4")
    x, w = rng.normal(size=(rows, 6)).astype("f4"), rng.normal(size=(groups, 6, 5)).astype("f4")
    expected, end = np.zeros((rows, 5), "f4"), 0
    for size, matrix in zip(sizes, w):
        expected[end : end + size] = x[end : end + size] @ matrix
        end += size
    np.testing.assert_allclose(tfn.jit(lax.ragged_dot)(x, w, sizes), expected, 1e-5, 1e-5)
    both = tfn.jit(tfn.vmap(lax.ragged_dot, (0, None, None)))(np.stack([x, 2 * x]), w, sizes)
    np.testing.assert_allclose(both, np.stack([expected, 2 * expected]), 1e-5, 1e-5)

    def loss(x: tfn.Array, w: tfn.Array) -> tfn.Array:
        return (lax.ragged_dot(x, w, sizes) ** 2).sum()

    def masked(x: tfn.Array, w: tfn.Array) -> tfn.Array:
        of = np.repeat(np.arange(groups), sizes)
        return (tnp.einsum("nk,nkm->nm", x[: len(of)], w[of]) ** 2).sum()

    for ours, exact in zip(tfn.grad(loss, (0, 1))(x, w), tfn.grad(masked, (0, 1))(x, w)):
        np.testing.assert_allclose(ours, exact, 1e-4, 1e-4)


def test_products_of_many_groups_hold_no_product_with_all_of_them() -> None:
    shapes = [tfn.ShapeDtypeStruct(s, "float32") for s in ((512, 64), (64, 64, 64))]
    sizes = tfn.ShapeDtypeStruct((64,), "int32")
    compiled = tfn.jit(lax.ragged_dot).lower(*shapes, sizes).compile()
    assert compiled.memory_analysis().temporary_bytes < 4 * 512 * 64 * 64 / 8
