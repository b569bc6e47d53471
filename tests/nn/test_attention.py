"""Attention: against its formula, PyTorch, masks of all kinds, and itself step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.nn.waves import agrees, wave
from tfn import nn, random
from tfn import numpy as jnp
from tfn.errors import ArgumentError, ShapeError

KEY = random.key(0)


def formula(q: Any, k: Any, v: Any, mask: Any = None) -> np.ndarray:
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[-2] // x.shape[-2], -2) for x in (k, v))
    scores = np.einsum("...thd,...shd->...hts", q, k) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("...hts,...shd->...thd", weights / weights.sum(-1, keepdims=True), v)


def case(*batch: int, time: int = 5, source: int = 7, heads: int = 4, kv: int = 2) -> Any:
    return (
        wave(*batch, time, heads, 8),
        wave(*batch, source, kv, 8, start=3),
        wave(*batch, source, kv, 6, start=9),
    )


@pytest.mark.parametrize("batch", [(), (3,), (2, 1)])
@pytest.mark.parametrize("kv", [1, 2, 4])
def test_formula(batch: tuple[int, ...], kv: int) -> None:
    q, k, v = case(*batch, kv=kv)
    actual = nn.dot_product_attention(q, k, v)
    np.testing.assert_allclose(actual, formula(q, k, v), rtol=1e-4, atol=1e-5)


def test_against_torch() -> None:
    q, k, v = wave(2, 5, 4, 8), wave(2, 5, 2, 8, start=3), wave(2, 5, 2, 8, start=9)
    agrees(
        nn.dot_product_attention(q, k, v, is_causal=True)[1, 4],
        [
            -0.57442,
            -0.39346,
            -0.02745,
            0.35147,
            0.56509,
            0.51294,
            0.21955,
            -0.1771,
            -0.49057,
        ],
    )


def test_masks() -> None:
    q, k, v = case(2)
    rng = np.random.default_rng(0)
    for shape in [(5, 7), (1, 5, 7), (4, 5, 7), (2, 4, 5, 7), (2, 1, 5, 7), (2, 1, 1, 7)]:
        mask = rng.random(shape) < 0.6
        mask[..., 2] = True
        actual = nn.dot_product_attention(q, k, v, mask=jnp.asarray(mask))
        np.testing.assert_allclose(actual, formula(q, k, v, mask), rtol=1e-4, atol=1e-5)
    low = np.tri(5, 7, dtype=bool)
    actual = nn.dot_product_attention(q, k, v, is_causal=True)
    np.testing.assert_allclose(actual, formula(q, k, v, low), rtol=1e-4, atol=1e-5)
    bias = wave(4, 5, 7)
    with_bias = nn.dot_product_attention(q, k, v, bias)
    moved = nn.dot_product_attention(q, k, v, jnp.where(low, bias, -1e9))
    both = nn.dot_product_attention(q, k, v, bias, is_causal=True)
    np.testing.assert_allclose(moved, both, rtol=1e-4, atol=1e-5)
    assert not np.allclose(with_bias, both)


def test_a_place_that_sees_nothing_gets_zeros() -> None:
    q, k, v = case()
    mask = jnp.asarray(np.arange(5) != 2)[:, None]
    loss = lambda q: nn.dot_product_attention(q, k, v, mask=mask)
    y = np.asarray(loss(q))
    assert not y[2].any()
    assert np.isfinite(y).all()
    assert np.isfinite(tfn.grad(lambda q: loss(q).sum())(q)).all()


def test_wrong_shapes_raise() -> None:
    q, k, v = case()
    with pytest.raises(ShapeError, match="as long as"):
        nn.dot_product_attention(q, k[..., :4], v)
    with pytest.raises(ShapeError, match="heads"):
        nn.dot_product_attention(q[:, :3], k, v)
    with pytest.raises(ArgumentError, match="must divide"):
        nn.MultiheadAttention.init(KEY, 16, 4, kv_heads=3)
    with pytest.raises(ArgumentError, match="even size"):
        nn.MultiheadAttention.init(KEY, 12, 4, rotary_base=100.0)


def test_rotary() -> None:
    x, y = wave(1, 1, 8), wave(1, 1, 8, start=5)
    turn = lambda x, at, **o: np.asarray(nn.rotary(x, jnp.array([at]), **o)).ravel()
    for options in ({}, {"interleaved": True}, {"base": 100.0}):
        near, far = (turn(x, a, **options) @ turn(y, b, **options) for a, b in [(3, 1), (103, 101)])
        np.testing.assert_allclose(near, far, rtol=1e-3)
        np.testing.assert_allclose(turn(x, 0, **options), np.asarray(x).ravel(), rtol=1e-6)
    pairs = np.asarray(x).ravel().reshape(4, 2)
    turned = (pairs[:, 0] + 1j * pairs[:, 1]) * np.exp(7j * 10000.0 ** -(np.arange(4) / 4))
    expected = np.stack([turned.real, turned.imag], -1).ravel()
    np.testing.assert_allclose(turn(x, 7, interleaved=True), expected, rtol=1e-4, atol=1e-5)
    halves = jnp.asarray(pairs.T.reshape(1, 1, 8))
    np.testing.assert_allclose(
        turn(halves, 7).reshape(2, 4).T.ravel(), expected, rtol=1e-4, atol=1e-5
    )
    at = jnp.array([[0, 1, 2], [5, 6, 7]])
    x = wave(2, 3, 2, 8)
    np.testing.assert_allclose(nn.rotary(x, at)[1], nn.rotary(x[1], at[1]), rtol=1e-5)
    np.testing.assert_allclose(nn.rotary(x)[0], nn.rotary(x, at)[0], rtol=1e-5)


@pytest.mark.parametrize("rotary", [None, 10000.0])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_step_by_step(rotary: float | None, batch: tuple[int, ...]) -> None:
    layer = nn.MultiheadAttention.init(KEY, 16, 4, kv_heads=2, use_bias=True, rotary_base=rotary)
    x = wave(*batch, 7, 16)
    whole = layer(x, is_causal=True)
    cache = layer.cache(9, batch=batch)
    step = tfn.jit(layer.step)
    parts = []
    for low, high in [(0, 3), (3, 4), (4, 5), (5, 7)]:
        y, cache = step(x[..., low:high, :], cache)
        parts.append(y)
    np.testing.assert_allclose(jnp.concatenate(parts, -2), whole, rtol=1e-4, atol=1e-5)
    assert int(cache.used) == 7
    with pytest.raises(ShapeError, match="room for 9"):
        layer.step(wave(*batch, 10, 16), layer.cache(9, batch=batch))


def test_over_a_context() -> None:
    layer = nn.MultiheadAttention.init(KEY, 16, 4)
    y = layer(wave(2, 5, 16), wave(2, 9, 16, start=1))
    assert y.shape == (2, 5, 16)
    one = layer(wave(2, 5, 16), wave(2, 1, 16, start=1))
    np.testing.assert_allclose(one, jnp.broadcast_to(one[:, :1], one.shape), rtol=1e-4)


def test_transforms() -> None:
    layer = nn.MultiheadAttention.init(KEY, 16, 4, kv_heads=2, rotary_base=10000.0)
    x = wave(3, 5, 16)
    each = tfn.vmap(lambda x: layer(x, is_causal=True))(x)
    np.testing.assert_allclose(each, layer(x, is_causal=True), rtol=1e-4, atol=1e-5)

    def loss(layer: nn.MultiheadAttention) -> Any:
        return (layer(x, is_causal=True) ** 2).sum()

    slope = tfn.jit(tfn.grad(loss))(layer)
    nudge = wave(16, 8, start=2) * 1e-2
    moved = [
        loss(nn.tree_at(lambda m: m.key.weight, layer, layer.key.weight + s * nudge))
        for s in (1, -1)
    ]
    np.testing.assert_allclose(
        2 * (slope.key.weight * nudge).sum(), moved[0] - moved[1], rtol=2e-2, atol=1e-3
    )
    half = nn.cast(layer, "bfloat16")(x.astype("bfloat16"), is_causal=True)
    assert half.dtype == jnp.bfloat16
    np.testing.assert_allclose(half.astype("float32"), layer(x, is_causal=True), rtol=0.1, atol=0.1)


def test_rows_of_a_batch_have_lengths() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (
        jnp.asarray(rng.normal(size=s).astype("f")) for s in ((2, 4, 4, 3), *[(2, 5, 2, 3)] * 2)
    )
    sources, times = jnp.array([3, 5]), jnp.array([4, 2])
    out = nn.dot_product_attention(q, k, v, query_seq_lengths=times, key_value_seq_lengths=sources)
    for row, (source, time) in enumerate(zip(sources.tolist(), times.tolist())):
        alone = nn.dot_product_attention(q[row, :time], k[row, :source], v[row, :source])
        np.testing.assert_allclose(out[row, :time], alone, rtol=1e-5, atol=1e-6)
        assert not np.asarray(out[row, time:]).any()


@pytest.mark.parametrize("window", [2, (3, 0), (0, 1)])
def test_a_window_of_neighbours(window: Any) -> None:
    q, k, v = case(3, source=5)
    before, after = (window, window) if isinstance(window, int) else window
    distance = np.arange(5) - np.arange(5)[:, None]
    mask = (distance >= -before) & (distance <= after)
    actual = nn.dot_product_attention(q, k, v, local_window_size=window)
    np.testing.assert_allclose(actual, formula(q, k, v, mask), rtol=1e-4, atol=1e-5)


def test_the_logarithms_of_the_sums() -> None:
    q, k, v = case(3)
    mean, logs = nn.dot_product_attention(q, k, v, return_residual=True)
    np.testing.assert_allclose(mean, nn.dot_product_attention(q, k, v), rtol=1e-4, atol=1e-5)
    wide = np.repeat(np.asarray(k), 2, -2)
    scores = np.einsum("...thd,...shd->...ths", np.asarray(q), wide) / np.sqrt(8)
    np.testing.assert_allclose(logs, np.log(np.exp(scores).sum(-1)), rtol=1e-4, atol=1e-5)
