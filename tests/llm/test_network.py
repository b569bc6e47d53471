"""Networks of each architecture: steps with a cache, and a network in NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tfn
from tests.llm import building
from tfn import llm, nn
from tfn import numpy as jnp
from tfn.llm.network import Cache

TOKENS = np.array([5, 17, 200, 3, 99, 42, 7, 250, 11], np.int32)


@pytest.mark.parametrize("name", building.NETWORKS)
def test_steps_say_what_the_whole_text_says(name: str, uncompiled: None) -> None:
    model = llm.load(building.network(name))
    whole = np.asarray(model(TOKENS))
    assert whole.shape == (9, building.VOCABULARY) and np.isfinite(whole).all()
    cache, at = model.cache(16), 0
    for count in (5, 1, 3):
        logits, cache = model.step(jnp.asarray(TOKENS[at : at + count]), cache)
        at += count
        assert np.abs(logits - whole[at - 1]).max() < 0.02 * np.abs(whole).max()  # float16 keys
    assert int(cache.length) == 9


def in_numpy(weights: dict[str, np.ndarray[Any, Any]], tokens: np.ndarray[Any, Any]) -> Any:
    """Logits of a llama, head by head and token by token."""

    def norm(x: Any, name: str) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weights[f"{name}.weight"]

    def turn(x: Any, position: int) -> Any:
        z = (x[0::2] + 1j * x[1::2]) * np.exp(1j * position * 1000.0 ** (-np.arange(4) / 4))
        return np.stack([z.real, z.imag], -1).reshape(-1)

    x = weights["token_embd.weight"][tokens].astype(np.float64)
    for b in ("blk.0.", "blk.1."):
        h = norm(x, b + "attn_norm")
        q, k, v = (h @ weights[f"{b}attn_{n}.weight"].T for n in "qkv")
        mixed = np.zeros_like(q)
        for head in range(4):
            own, shared = slice(8 * head, 8 * head + 8), slice(8 * (head // 2), 8 * (head // 2) + 8)
            for t in range(len(tokens)):
                keys = np.stack([turn(k[s, shared], s) for s in range(t + 1)])
                scores = np.exp(keys @ turn(q[t, own], t) / 8**0.5)
                mixed[t, own] = scores / scores.sum() @ v[: t + 1, shared]
        x = x + mixed @ weights[b + "attn_output.weight"].T
        h = norm(x, b + "ffn_norm")
        gate, up = (h @ weights[f"{b}ffn_{n}.weight"].T for n in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ weights[b + "ffn_down.weight"].T
    return norm(x, "output_norm") @ weights["output.weight"].T


def test_a_llama_is_the_one_of_its_paper(uncompiled: None) -> None:
    model = llm.load(building.network("llama"))
    expected = in_numpy(building.weights(own_output=True), TOKENS)
    assert np.allclose(model(TOKENS), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["mixtral", "qwen2moe", "olmoe"])
def test_experts_of_few_tokens_and_of_many_agree(name: str, uncompiled: None) -> None:
    model = llm.load(building.network(name))
    one_by_one = model(TOKENS[:2])  # 4 choices of 4 experts: each is read for its token
    assert np.allclose(one_by_one, model(TOKENS)[:2], rtol=1e-4, atol=1e-5)


def test_tokens_behind_the_count_change_nothing() -> None:
    model = llm.load(building.network("llama"))
    step = tfn.jit(type(model).step)
    padded = jnp.asarray([*TOKENS[:3], 0, 0, 0, 0, 0])
    logits, cache = step(model, padded, model.cache(16), 3)
    after, _ = step(model, jnp.asarray(TOKENS[3:4]), cache)
    plain, kept = step(model, jnp.asarray(TOKENS[:3]), model.cache(16))
    assert np.allclose(logits, plain, atol=1e-5) and int(cache.length) == int(kept.length) == 3
    assert np.allclose(after, step(model, jnp.asarray(TOKENS[3:4]), kept)[0], atol=1e-5)


def test_a_cache_grows_and_keeps_its_tokens(uncompiled: None) -> None:
    model = llm.load(building.network("qwen3"))
    _, cache = model.step(jnp.asarray(TOKENS[:4]), model.cache(4))
    grown = cache.grown(8)
    assert isinstance(grown, Cache) and grown.room == 8 and int(grown.length) == 4
    logits, _ = model.step(jnp.asarray(TOKENS[4:5]), grown)
    assert np.abs(logits - model(TOKENS[:5])[-1]).max() < 0.05


def test_a_step_is_batched_over_caches(uncompiled: None) -> None:
    model = llm.load(building.network("llama"))
    texts = jnp.asarray(TOKENS[:8].reshape(2, 4))
    caches = tfn.tree.map(lambda x: jnp.stack([x, x]), model.cache(8))
    logits, _ = tfn.vmap(lambda t, c: model.step(t, c))(texts, caches)
    assert np.allclose(logits[1], model.step(texts[1], model.cache(8))[0], atol=1e-4)


def test_weights_have_gradients(uncompiled: None) -> None:
    model = llm.load(building.network("llama"))

    def loss(model: llm.Model) -> tfn.Array:
        each = nn.softmax_cross_entropy_with_integer_labels(model(TOKENS[:-1]), TOKENS[1:])
        return each.mean()

    slopes = tfn.grad(loss)(model).weights
    name = "blk.0.attn_q.weight"
    moved = model.weights | {name: model.weights[name] - 0.01 * slopes[name]}
    after = loss(llm.Model(moved, model.config, None))
    expected = -0.01 * (slopes[name] ** 2).sum()
    assert np.isclose(after - loss(model), expected, rtol=0.05)


@pytest.mark.parametrize("name, kinds", [("llama", 1), ("gemma3", 2)])
def test_layers_of_one_kind_are_traced_once(name: str, kinds: int) -> None:
    model = llm.load(building.network(name))
    tokens = jnp.asarray(TOKENS)
    text = str(tfn.make_jaxpr(lambda cache: model.step(tokens, cache))(model.cache(16)))
    bodies = re.findall(r"(\w+) = \{ lambda", text)
    assert model.config.layers > 1
    assert bodies.count("after_attention") == 1
    assert sum(body.startswith("attention") for body in bodies) == kinds
