"""Batch invariance: the bits of a row in any batch, and the orders of sums that give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests import covering
from tests.lower.check_passes import HOST
from tests.lower.graphs import jaxpr, matmul, p
from tfn import lax, nn
from tfn.config import config
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.loops import sum_order
from tfn.lower.loops.loop_nest import folds
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Array = np.ndarray[Any, Any]
ORDERED = replace(HOST, batch_invariant=True)


@pytest.fixture(scope="module", autouse=True)
def batch_invariant() -> Iterator[None]:
    """The setting is on, for all tests here: each change of it forgets every program."""
    before, config.batch_invariant = config.batch_invariant, True
    yield
    config.batch_invariant = before


def fold(u: UOp) -> UOp:
    (stage,) = ranges.indexed_kernels(boundaries.insert_barriers(jaxpr([u]).function, ORDERED))
    (only,) = folds(stage.body)
    return only


def test_partial_sums_follow_from_axes_and_lengths() -> None:
    def parts(u: UOp) -> int | None:
        return sum_order.partial_sums(fold(u), ORDERED)

    assert parts(matmul(p(0, 40, 300), p(1, 300, 50))) == 1
    assert parts(matmul(p(0, 1, 300), p(1, 300, 1))) == 1
    assert parts(build.dot(p(0, 40, 300), p(1, 300), ((1,), (0,)))) == 16
    assert parts(build.add_up(p(0, 64, 512), (1,))) == parts(build.add_up(p(0, 1, 512), (1,))) == 16
    assert parts(build.add_up(p(0, 64, 512), (0,))) == parts(build.add_up(p(0, 64, 1), (0,))) == 1
    assert parts(build.add_up(p(0, 64, 15), (1,))) == 1
    assert parts(build.reduce(p(0, 64, 512), Op.MAX, (1,))) is None
    assert sum_order.partial_sums(fold(build.add_up(p(0, 64, 512), (1,))), HOST) is None


def test_ranges_merge_where_terms_stay_in_their_partial_sums() -> None:
    for length, merges in ((512, True), (500, False)):
        rows = fold(build.add_up(p(0, 4, 6, length), (1, 2)))
        assert sum_order.may_merge(rows, rows.src[-1], ORDERED) is merges
        assert sum_order.may_merge(rows, rows.src[-1], HOST)
        assert sum_order.vector_ranges(rows, ORDERED) == rows.src[-1:]
        assert sum_order.vector_ranges(rows, HOST) == rows.src[1:]
    columns = fold(build.add_up(p(0, 4, 6, 500), (0, 1)))
    assert sum_order.may_merge(columns, columns.src[-1], ORDERED)
    assert sum_order.vector_ranges(columns, ORDERED) == ()


def in_lanes(terms: Array) -> Any:
    """The sum of rows by partial sums of every sixteenth term, which a tree combines."""
    lanes = run_lanes()
    length = terms.shape[-1]
    padded = np.pad(terms, ((0, 0), (0, -length % lanes)))
    sums = reduce(np.add, padded.reshape(len(terms), -1, lanes).transpose(1, 0, 2), np.float32(0))
    while lanes > 1:
        lanes //= 2
        sums = sums[:, :lanes] + sums[:, lanes:]
    return sums[:, 0]


def run_lanes() -> int:
    """The lanes of this machine."""
    return tfn.eager.run.device("cpu").target.vector_bytes // 4


@pytest.mark.parametrize("length", [7, 16, 160, 333, 1000])
def test_the_order_is_the_documented_one(length: int) -> None:
    rng = np.random.default_rng(length)
    x = rng.standard_normal((5, length)).astype(np.float32)
    one_by_one = reduce(np.add, x.T, np.float32(0))
    rows = in_lanes(x) if length >= run_lanes() else one_by_one
    sums = tfn.jit(lambda x: x.sum(1))
    np.testing.assert_array_equal(sums(x), rows)
    np.testing.assert_array_equal(tfn.jit(lambda x: (x * 3).sum(1))(x), sums(x * 3))
    np.testing.assert_array_equal(tfn.jit(lambda x: x.T.sum(0))(x), one_by_one)
    np.testing.assert_array_equal(tfn.jit(lambda x: x.sum(0))(x.T.copy()), one_by_one)


def layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / tnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def mlp(x: Any, w: Any) -> Any:
    return nn.softmax(layer_norm(tnp.tanh(x @ w) @ w.T), -1)


def causal(x: Any, w: Any) -> Any:
    heads = x[:, :, None].reshape(len(x), -1, 1, 8) if x.shape[1] % 8 == 0 else x[:, :, None, None]
    return nn.dot_product_attention(heads, heads, heads, is_causal=True)


def window(x: Any, w: Any) -> Any:
    return lax.conv(x[:, None], w.reshape(1, -1)[None, :, :5] + 1, (1,), "SAME")


ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "products": lambda x, w: x @ w,
    "product with a transpose": lambda x, w: x @ w @ w.T,
    "with a vector": lambda x, w: x @ w[:, 0],
    "weighted": lambda x, w: (x * w[:, 0]).sum(1),
    "variance": lambda x, w: x.var(1) + (x * x).sum(1),
    "softmax": lambda x, w: nn.softmax(x, 1),
    "log softmax": lambda x, w: nn.log_softmax(x, 1),
    "perceptron": mlp,
    "its gradient": lambda x, w: tfn.grad(lambda x: (mlp(x, w) ** 2).sum())(x),
    "attention": causal,
    "convolution": window,
    "outer": lambda x, w: (x[:, :, None] * w[None]).sum(1),
    "every axis but the first": lambda x, w: (x[:, :, None] * w[None]).sum((1, 2)),
    "in a loop": lambda x, w: lax.scan(lambda c, _: (tnp.tanh(c @ w @ w.T), c.sum(1)), x, None, 5),
    "mapped": lambda x, w: tfn.vmap(lambda row: tnp.tanh(row @ w).sum() * row)(x),
}
"""Functions of rows, each of which depends on its own row alone."""


SHAPES = {
    "float32": ((16, 8), (72, 1), (131, 40), (600, 24)),
    "float64": ((72, 1), (131, 40)),
    "bfloat16": ((16, 8), (131, 24)),
}
"""The length of a row, and columns of weights; all sizes for one dtype, odd ones for each."""


KINDS = [(dtype, shape) for dtype, shapes in SHAPES.items() for shape in shapes]


@pytest.mark.parametrize("name, kind", covering.in_turn(3, covering.cover(ROWS, KINDS)), ids=str)
def test_a_row_has_the_same_bits_in_any_batch(name: str, kind: tuple[str, tuple[int, int]]) -> None:
    rng = np.random.default_rng(0)
    run = tfn.jit(ROWS[name])
    for dtype, (length, columns) in (kind, ("float32", (72, 1))):
        x = tnp.asarray(rng.standard_normal((70, length)), dtype)
        w = tnp.asarray(rng.standard_normal((length, columns)) / length**0.5, dtype)
        every = [np.asarray(y.astype("float64")) for y in tfn.tree.leaves(run(x, w))]
        for rows in (1, 3, 16) if covering.exhaustive else (1, 3):
            few = tfn.tree.leaves(run(x[:rows], w))
            for got, all_rows in zip(few, every, strict=True):
                along = 1 if got.ndim and got.shape[0] != rows else 0  # a scan stacks them
                wanted = np.take(all_rows, range(rows), along)
                np.testing.assert_array_equal(np.asarray(got.astype("float64")), wanted)


def test_columns_of_weights() -> None:
    """Tensor parallelism: a product has the bits of its columns, whatever others there are."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((20, 200)), rng.standard_normal((200, 64))
    for dtype in ("float32", "float64"):
        a, b = x.astype(dtype), w.astype(dtype)
        whole = np.asarray(tfn.jit(tnp.matmul)(a, b))
        for width in (1, 2, 8, 24):
            part = np.asarray(tfn.jit(tnp.matmul)(a, b[:, :width]))
            np.testing.assert_array_equal(part, whole[:, :width])
            turned = tfn.jit(lambda a, b: a @ b.T)(a, np.ascontiguousarray(b.T[:width]))
            np.testing.assert_array_equal(turned, whole[:, :width])


NUMBERS = ("NHWC", "HWIO", "NHWC")


def slope(x: Any, ct: Any, groups: int) -> Any:
    """The gradient of a convolution to its weights, whose window is the image."""

    def conv(w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=NUMBERS, feature_group_count=groups
        )

    w = tnp.zeros((3, 3, x.shape[-1] // groups, ct.shape[-1]), x.dtype)
    return tfn.vjp(conv, w)[1](ct)[0]


@pytest.mark.parametrize("shape", [(32, 16, 16), (6, 33, 17), (5, 40, 40)])
def test_weights_of_a_group_of_channels(shape: tuple[int, ...]) -> None:
    """The sum over a batch is in pieces by its length, whatever channels and features there are."""
    rng = np.random.default_rng(0)
    run = tfn.jit(slope, static_argnums=2)
    x, ct = (rng.standard_normal((*shape, n)).astype(np.float32) for n in (6, 24))
    whole = np.asarray(run(x, ct, 2))
    exact = np.asarray(run(x.astype(np.float64), ct.astype(np.float64), 2))
    np.testing.assert_allclose(whole, exact, rtol=1e-4, atol=1e-2)
    for group in (0, 1):
        own = whole[..., 12 * group : 12 * group + 12]
        a, b = x[..., 3 * group : 3 * group + 3], ct[..., 12 * group : 12 * group + 12]
        np.testing.assert_array_equal(run(a.copy(), b.copy(), 1), own)
        np.testing.assert_array_equal(run(a[..., :1].copy(), b.copy(), 1), own[:, :, :1])
        np.testing.assert_array_equal(run(a.copy(), b[..., :1].copy(), 1), own[..., :1])


def test_the_setting_takes_effect_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A function that has run is compiled anew, and exported code gives the same bits."""
    x = np.random.default_rng(0).standard_normal((70, 1000)).astype(np.float32)
    run = tfn.jit(lambda x: x.sum(1))
    ordered = np.asarray(run(x))
    exported = tfn.load(tfn.export(run, x, path=tmp_path / "sums.so").files[0])
    np.testing.assert_array_equal(exported(x), ordered)
    monkeypatch.setattr(config, "batch_invariant", False)
    assert not tfn.eager.run.device("cpu").target.batch_invariant
    assert not np.array_equal(run(x), ordered)  # four vectors of partial sums, not one
    monkeypatch.setattr(config, "batch_invariant", True)
    np.testing.assert_array_equal(run(x), ordered)
