"""Blocks: their formula, causality, caches; and stacks as loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.nn.waves import wave
from tfn import nn, random, tree
from tfn import numpy as jnp
from tfn.errors import ArgumentError

KEY = random.key(0)
GPT = {"use_bias": True}
LLAMA = {"gated": True, "norm": nn.RMSNorm.init, "rotary_base": 10000.0, "kv_heads": 2}


@pytest.mark.parametrize("options", [GPT, LLAMA], ids=["gpt", "llama"])
def test_formula_and_causality(options: Any) -> None:
    block = nn.TransformerBlock.init(KEY, 16, 4, **options)
    x = wave(2, 6, 16)
    y = block(x, is_causal=True)
    h = x + block.attention(block.attention_norm(x), is_causal=True)
    np.testing.assert_allclose(y, h + block.feed(block.feed_norm(h)), rtol=1e-4, atol=1e-5)
    later = block(x.at[:, 4:].set(0.0), is_causal=True)
    np.testing.assert_allclose(later[:, :4], y[:, :4], rtol=1e-5, atol=1e-6)
    assert not np.allclose(later[:, 4:], y[:, 4:])
    cache = block.cache(6, batch=(2,))
    first, cache = block.step(x[:, :4], cache)
    second, cache = block.step(x[:, 4:], cache)
    np.testing.assert_allclose(jnp.concatenate([first, second], 1), y, rtol=1e-4, atol=1e-5)


def test_feed_forward() -> None:
    x = wave(3, 8)
    plain = nn.FeedForward.init(KEY, 8, 16, use_bias=True)
    np.testing.assert_allclose(plain(x), plain.down(nn.gelu(plain.up(x))), rtol=1e-5)
    gated = nn.FeedForward.init(KEY, 8, 16, gated=True)
    assert gated.gate is not None
    expected = gated.down(nn.silu(gated.gate(x)) * gated.up(x))
    np.testing.assert_allclose(gated(x), expected, rtol=1e-5)
    assert nn.FeedForward.init(KEY, 8, 16, activation=nn.tanh).activation is nn.tanh
    assert nn.parameter_count(gated) == 3 * 8 * 16


def test_dropout_needs_a_key() -> None:
    block = nn.TransformerBlock.init(KEY, 16, 4, dropout=0.5)
    x = wave(3, 16)
    with pytest.raises(ArgumentError, match="needs a key"):
        block(x)
    np.testing.assert_array_equal(block(x, key=KEY), block(x, key=KEY))
    assert not np.allclose(block(x, key=KEY), block(x, inference=True))


@pytest.mark.parametrize("options", [GPT, LLAMA], ids=["gpt", "llama"])
def test_a_stack_is_its_layers(options: Any) -> None:
    keys = random.split(KEY, 3)
    blocks = [nn.TransformerBlock.init(k, 16, 4, **options) for k in keys]
    stack = nn.Stack.init(lambda k: nn.TransformerBlock.init(k, 16, 4, **options), KEY, 3)
    x = wave(2, 5, 16)
    y = x
    for block in blocks:
        y = block(y, is_causal=True)
    np.testing.assert_allclose(
        tfn.jit(lambda s, x: s(x, is_causal=True))(stack, x), y, rtol=1e-3, atol=1e-4
    )
    caches = stack.cache(5, batch=(2,))
    first, caches = stack.step(x[:, :2], caches)
    second, caches = tfn.jit(stack.step)(x[:, 2:], caches)
    np.testing.assert_allclose(jnp.concatenate([first, second], 1), y, rtol=1e-3, atol=1e-4)
    assert caches.used.tolist() == [5, 5, 5]
    slope = tfn.jit(tfn.grad(lambda s: (s(x, is_causal=True) ** 2).sum()))(stack)
    assert tree.structure(slope) == tree.structure(stack)


def test_keys_of_a_stack_differ() -> None:
    stack = nn.Stack.init(lambda k: nn.TransformerBlock.init(k, 8, 2, dropout=0.3), KEY, 2)
    x = wave(3, 8)
    one, again, other = (stack(x, key=random.key(n)) for n in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)
    keys = random.split(random.key(1), 2)
    y = x
    for n in range(2):
        y = tree.map(lambda w, n=n: w[n], stack.layers)(y, key=keys[n])
    np.testing.assert_allclose(one, y, rtol=1e-4, atol=1e-5)


def test_a_stack_of_modules_without_arrays_knows_its_number() -> None:
    stack = nn.Stack.init(lambda key: nn.Lambda(jnp.sin), random.key(0), 3)
    assert len(stack) == 3 and stack.count == 3
    np.testing.assert_allclose(tfn.jit(stack)(1.0), np.sin(np.sin(np.sin(1))), rtol=1e-6)
    drops = nn.Stack.init(lambda key: nn.Dropout(0.5), random.key(0), 2)
    y = np.asarray(drops(jnp.ones(1000), key=random.key(1)))
    assert set(np.unique(y)) == {0, 4} and abs(float((y > 0).mean()) - 0.25) < 0.05
    assert len(nn.Stack.init(lambda key: nn.Linear.init(key, 2, 2), random.key(0), 4)) == 4
    with pytest.raises(ArgumentError, match="count"):
        nn.Stack.init(lambda key: nn.Dropout(0.5), random.key(0), 0)
