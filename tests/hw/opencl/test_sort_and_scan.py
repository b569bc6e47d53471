"""Sorts and cumulative operations on groups of threads: NumPy's values at odd sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.hw.opencl.devices import needs_opencl, quick
from tfn import lax
from tfn.config import config
from tfn.dtypes import REALS

pytestmark = needs_opencl

SIZES = (0, 1, 2, 31, 509, 2048, 2053, 6007)
EACH_WAY = (31, 509, 6007)
"""One size of each way to sort; sizes at borders are of few dtypes: a driver builds for seconds."""

DTYPES = sorted(dtype.name for dtype in REALS)


@pytest.fixture(autouse=True)
def on_opencl(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(config, "disk_cache", False)
    monkeypatch.setitem(tfn.eager.registry.DEVICES, "opencl", quick())
    before, config.device = config.device, "opencl"
    yield
    config.device = before


def drawn(size: int, dtype: str) -> Any:
    """Values of the whole range, many of them equal, NaN among those of floats."""
    rng = np.random.default_rng(size)
    kind = getattr(tnp, "bool_" if dtype == "bool" else dtype).dtype
    if dtype == "bool":
        return rng.integers(0, 2, size).astype(bool)
    if "float" in dtype:
        x = rng.normal(size=size).astype(np.float32) * 3
        x[::5] = np.round(x[::5])
        x[::97] = np.nan
        return x.astype(kind)
    limits = np.iinfo(kind)
    x = rng.integers(limits.min, limits.max, size, dtype=kind, endpoint=True)
    x[::3] = 7
    return x


@pytest.mark.parametrize("dtype", in_turn(3, DTYPES))
def test_sorts_equal_numpy(dtype: str) -> None:
    for size in SIZES if dtype == "int8" else EACH_WAY:
        x = drawn(size, dtype)
        wide = x.astype(np.float64) if "float" in dtype else x
        order = np.argsort(wide, kind="stable")
        got = tnp.argsort(tnp.asarray(x)), tnp.sort(tnp.asarray(x))
        np.testing.assert_array_equal(np.asarray(got[0]), order)
        values = np.asarray(got[1])
        values = values.astype(np.float64) if "float" in dtype else values
        np.testing.assert_array_equal(values, wide[order])


def test_rows_several_keys_and_top_k() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 9, (5, 2503)).astype(np.int32)
    y = rng.normal(size=(5, 2503)).astype(np.float32)
    i = np.broadcast_to(np.arange(2503, dtype=np.int32), x.shape)
    _, _, got = lax.sort((x, y, i), dimension=1, num_keys=2)
    np.testing.assert_array_equal(np.asarray(got), np.lexsort((y, x), axis=-1))
    values, places = lax.top_k(tnp.asarray(y), 1200)
    order = np.argsort(-y, axis=1, kind="stable")[:, :1200]
    np.testing.assert_array_equal(np.asarray(places), order)
    np.testing.assert_array_equal(np.asarray(values), np.take_along_axis(y, order, 1))
    np.testing.assert_array_equal(np.asarray(tnp.sort(tnp.asarray(y), axis=0)), np.sort(y, axis=0))


@pytest.mark.parametrize("k", in_turn(2, [0, 50, 4099, 1]))
def test_the_largest_of_long_rows(k: int) -> None:
    """By their threshold, if they are few; with equal ones, NaN, and a derivative."""
    x = drawn(2 * 4099, "float32").reshape(2, 4099)
    values, places = lax.top_k(tnp.asarray(x), k)
    with tfn.default_device("cpu"):
        want = [np.asarray(y) for y in lax.top_k(tnp.asarray(x), k)]
    np.testing.assert_array_equal(np.asarray(places), want[1])
    np.testing.assert_array_equal(np.asarray(values), want[0])
    w = np.arange(1, k + 1, dtype=np.float32)
    slope = tfn.jit(tfn.grad(lambda x: (lax.top_k(x, k)[0] * w).sum()))(tnp.asarray(x))
    wanted = np.zeros_like(x)
    np.put_along_axis(wanted, np.asarray(places), np.broadcast_to(w, (2, k)), 1)
    np.testing.assert_array_equal(np.asarray(slope), wanted)
    rows = tfn.vmap(lambda x: lax.top_k(x, k)[1])(tnp.asarray(x))
    np.testing.assert_array_equal(np.asarray(rows), np.asarray(places))


@pytest.mark.parametrize("dtype", in_turn(2, ["int32", "float64", "int8", "float32"]))
def test_cumulative_operations_equal_numpy(dtype: str) -> None:
    rng = np.random.default_rng(1)
    cases = ((10007,), 0), ((257, 40), 0), ((3, 4099), 1), ((2, 131, 9), 1), ((1,), 0)
    for shape, axis in cases if dtype == "float32" else cases[:2]:
        x = rng.integers(-5, 5, shape).astype(dtype)
        np.testing.assert_array_equal(
            np.asarray(lax.cumsum(tnp.asarray(x), axis)), np.cumsum(x, axis, dtype=dtype)
        )
        np.testing.assert_array_equal(
            np.asarray(lax.cummax(tnp.asarray(x), axis, reverse=True)),
            np.flip(np.maximum.accumulate(np.flip(x, axis), axis), axis),
        )


@pytest.mark.parametrize("width", [1, 16, 33])
def test_associative_scans_of_any_width_run_in_blocks(width: int) -> None:
    """A linear recurrence; its derivative too."""
    rng = np.random.default_rng(width)
    a = rng.uniform(0.5, 1, (777, width)).astype(np.float32)
    b = rng.normal(size=(777, width)).astype(np.float32)

    def pair(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    def states(a: Any, b: Any) -> Any:
        return lax.associative_scan(pair, (a, b))[1]

    y, wanted = np.zeros(width), []
    for i in range(777):
        y = a[i] * y + b[i]
        wanted.append(y)
    np.testing.assert_allclose(np.asarray(tfn.jit(states)(a, b)), wanted, rtol=1e-4, atol=1e-4)
    gradient = tfn.jit(tfn.grad(lambda a, b: states(a, b)[-1].sum(), argnums=1))(a, b)
    products = np.cumprod(np.vstack([np.ones((1, width)), a[:0:-1]]), axis=0)[::-1]
    np.testing.assert_allclose(np.asarray(gradient), products, rtol=1e-3, atol=1e-6)


def test_derivatives_of_sorts_and_prefix_sums() -> None:
    rng = np.random.default_rng(5)
    x, w = (rng.normal(size=5003).astype(np.float32) for _ in range(2))
    got = tfn.jit(tfn.grad(lambda x: (tnp.sort(x) * w).sum()))(x)
    wanted = np.zeros_like(x)
    wanted[np.argsort(x)] = w
    np.testing.assert_array_equal(np.asarray(got), wanted)
    got = tfn.jit(tfn.grad(lambda x: (tnp.cumsum(x) * w).sum()))(x)
    np.testing.assert_allclose(np.asarray(got), np.cumsum(w[::-1])[::-1], rtol=1e-4, atol=1e-3)


def test_histograms_segment_sums_and_gradients_of_embeddings() -> None:
    """Scatters of many updates, which are sorted; in place where the operand is donated."""
    rng = np.random.default_rng(7)
    ids = rng.integers(0, 50, 3001).astype(np.int32)
    x = rng.normal(size=3001).astype(np.float32)
    got = tnp.histogram(tnp.asarray(x), bins=20)[0]
    np.testing.assert_array_equal(np.asarray(got), np.histogram(x, bins=20)[0])
    np.testing.assert_array_equal(np.asarray(tnp.bincount(tnp.asarray(ids))), np.bincount(ids))
    sums = np.bincount(ids, x, 50)
    got = tfn.ops.segment_sum(tnp.asarray(x), tnp.asarray(ids), 50)
    np.testing.assert_allclose(np.asarray(got), sums, rtol=1e-4, atol=1e-4)
    add = tfn.jit(lambda y, x: y.at[tnp.asarray(ids)].add(x), donate_argnums=0)
    first, again = (np.asarray(add(tnp.zeros(50), tnp.asarray(x))) for _ in range(2))
    np.testing.assert_allclose(first, sums, rtol=1e-4, atol=1e-4)
    assert first.tobytes() == again.tobytes()
    table = rng.normal(size=(50, 7)).astype(np.float32)
    ct = rng.normal(size=(3001, 7)).astype(np.float32)
    got = tfn.jit(tfn.grad(lambda table: (table[ids] * ct).sum()))(table)
    wanted = np.zeros_like(table)
    np.add.at(wanted, ids, ct)
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-3, atol=1e-3)
