"""Two models of the examples: a step of training char_gpt, and a token of llama.

For tfn, what runs is the example itself.  For JAX and PyTorch it is the same model as their users
write it, with the same weights.  Every token is looked at before the next one is made.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from functional import calling
from rows import Inputs, Row, Step, leaves, normal, whole

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "examples")]

LEARNING_RATE, DECAY, BETAS, TINY = 3e-3, 0.1, (0.9, 0.99), 1e-8
ALPHABET, LENGTH, TEXTS, WIDTH, LAYERS, HEADS = 80, 128, 16, 128, 4, 4
WORDS, ROOM = 32_000, 256
LLAMA = {"width": 288, "wide": 768, "layers": 6, "heads": 6}
EPSILON, BASE = 1e-5, 10000.0  # of norms, and of rotary positions


def gpt() -> Inputs:
    """Weights of the GPT of examples/char_gpt.py, and texts to learn."""
    d = WIDTH
    norm = np.ones(d, np.float32), np.zeros(d, np.float32)
    sizes = {
        "query": (d, d),
        "key": (d, d),
        "value": (d, d),
        "out": (d, d),
        "up": (d, 4 * d),
        "down": (4 * d, d),
    }
    blocks = [
        {"norm1": norm, "norm2": norm}
        | {k: normal(10 * n + i, *s, scale=d**-0.5) for i, (k, s) in enumerate(sizes.items())}
        for n in range(LAYERS)
    ]
    weights = {
        "characters": normal(70, ALPHABET, d, scale=0.02),
        "blocks": blocks,
        "norm": norm,
        "out": normal(72, d, ALPHABET, scale=0.02),
    }
    return {"weights": weights, "texts": whole(7, ALPHABET, TEXTS, LENGTH + 1).astype(np.uint8)}


def llama() -> Inputs:
    """Weights of the sizes of the model of stories."""
    d, wide = LLAMA["width"], LLAMA["wide"]
    ones = np.ones(d, np.float32)
    sizes = {
        "q": (d, d),
        "k": (d, d),
        "v": (d, d),
        "o": (d, d),
        "gate": (d, wide),
        "up": (d, wide),
        "down": (wide, d),
    }
    blocks = [
        {"norm1": ones, "norm2": ones}
        | {k: normal(10 * n + i, *s, scale=d**-0.5) for i, (k, s) in enumerate(sizes.items())}
        for n in range(LLAMA["layers"])
    ]
    return {"words": normal(99, WORDS, d), "blocks": blocks, "norm": ones}


ROWS = {
    row.name: row
    for row in (
        Row(
            "char_gpt",
            "models",
            gpt,
            "examples/char_gpt.py: 4 layers, width 128, 16 texts of 128, one AdamW step",
        ),
        Row("llama", "models", llama, "examples/llama.py: 15 million parameters, one token"),
    )
}


def decoding(follow: Callable[[Any, int, Any], tuple[Any, Any]], caches: Callable[[], Any]) -> Step:
    """One token after the other; when there is no room left, a new story begins."""
    state: list[Any] = [1, 0, caches()]

    def once() -> Any:
        token, at, memory = state
        if at == ROOM:
            at, memory = 0, caches()
        token, memory = follow(token, at, memory)
        state[:] = token, at + 1, memory
        return int(token)

    return once


# tfn: the examples.


def examples() -> dict[str, Callable[[Inputs], Step]]:
    """The programs of the examples themselves."""
    modules = "tfn", "char_gpt", "llama", "llama_files"
    tfn, char_gpt, told, files = map(importlib.import_module, modules)
    nn: Any = importlib.import_module("tfn.nn")
    array = importlib.import_module("tfn.numpy").asarray

    def dense(weight: Any) -> Any:
        return nn.Linear(array(weight), None)

    def train(inputs: Inputs) -> Step:
        weights = inputs["weights"]

        def block(w: Inputs) -> Any:
            parts = (dense(w[k]) for k in ("query", "key", "value", "out"))
            return nn.TransformerBlock(
                nn.LayerNorm(*map(array, w["norm1"])),
                nn.MultiheadAttention(*parts, HEADS, HEADS, BASE),
                nn.LayerNorm(*map(array, w["norm2"])),
                nn.FeedForward(dense(w["up"]), None, dense(w["down"])),
                nn.Dropout(0.0),
            )

        layers = tfn.tree.map(lambda *xs: tfn.numpy.stack(xs), *map(block, weights["blocks"]))
        network = char_gpt.GPT(
            nn.Embedding(array(weights["characters"])),
            nn.Stack(layers),
            nn.LayerNorm(*map(array, weights["norm"])),
            dense(weights["out"]),
        )
        optimizer = nn.optim.adamw(LEARNING_RATE, *BETAS, TINY, weight_decay=DECAY)
        step, texts = char_gpt.make_step(optimizer), array(inputs["texts"])
        state = [network, optimizer.init(network)]

        def once() -> Any:
            *state[:], loss = step(*state, texts)
            return loss.block_until_ready()

        return calling(tfn, once, step, *state, texts)

    def decode(inputs: Inputs) -> Step:
        shape = files.Shape(*LLAMA.values(), LLAMA["heads"], WORDS, ROOM)
        names = {"input_layernorm": "norm1", "post_attention_layernorm": "norm2"}
        names |= {f"self_attn.{k}_proj": k for k in "qkvo"}
        names |= {f"mlp.{k}_proj": k for k in ("gate", "up", "down")}
        weights = {"model.embed_tokens": inputs["words"], "model.norm": inputs["norm"]}
        weights |= {
            f"model.layers.{n}.{name}": block[k].T
            for n, block in enumerate(inputs["blocks"])
            for name, k in names.items()
        }
        model = told.assemble(shape, weights, interleaved=True)
        key = tfn.random.key(0)

        always = {"temperature": 0.0, "top_p": 1.0}

        def follow(token: Any, at: int, caches: Any) -> Any:
            return told.follow(model, array(token), caches, key, **always)

        caches = partial(model.caches, ROOM)
        once = decoding(follow, caches)
        return calling(tfn, once, told.follow, model, array(1), caches(), key, **always)

    return {"char_gpt": train, "llama": decode}


# JAX.


def functional(name: str) -> dict[str, Callable[[Inputs], Step]]:
    """The same models in JAX."""
    jax: Any = importlib.import_module(name)
    xp, lax, nn = jax.numpy, jax.lax, jax.nn

    def layer_norm(x: Any, g: Any, b: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + EPSILON) * g + b

    def rotary(x: Any) -> Any:
        half = x.shape[-1] // 2
        angles = xp.arange(LENGTH)[:, None, None] * BASE ** (xp.arange(half) / -half)
        cos, sin = xp.cos(angles), xp.sin(angles)
        a, b = x[..., :half], x[..., half:]
        return xp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def loss(p: Any, texts: Any) -> Any:
        texts = texts.astype(int)
        x = p["characters"][texts[:, :-1]]
        for w in p["blocks"]:
            h = layer_norm(x, *w["norm1"])
            q, k, v = (
                (h @ w[n]).reshape(TEXTS, LENGTH, HEADS, -1) for n in ("query", "key", "value")
            )
            mixed = nn.dot_product_attention(rotary(q), rotary(k), v, is_causal=True)
            x = x + mixed.reshape(x.shape) @ w["out"]
            x = x + nn.gelu(layer_norm(x, *w["norm2"]) @ w["up"]) @ w["down"]
        logits = nn.log_softmax(layer_norm(x, *p["norm"]) @ p["out"])
        return -xp.take_along_axis(logits, texts[:, 1:, None], -1).mean()

    def adamw(p: Any, m: Any, v: Any, t: Any, texts: Any) -> Any:
        value, g = jax.value_and_grad(loss)(p, texts)
        (a, b), t = BETAS, t + 1
        m = jax.tree.map(lambda m, g: a * m + (1 - a) * g, m, g)
        v = jax.tree.map(lambda v, g: b * v + (1 - b) * g * g, v, g)

        def moved(p: Any, m: Any, v: Any) -> Any:
            step = (m / (1 - a**t)) / (xp.sqrt(v / (1 - b**t)) + TINY)
            return p - LEARNING_RATE * (step + DECAY * p)

        return jax.tree.map(moved, p, m, v), m, v, t, value

    def train(inputs: Inputs) -> Step:
        step, p = (
            jax.jit(adamw, donate_argnums=(0, 1, 2)),
            jax.tree.map(xp.asarray, inputs["weights"]),
        )
        zeros = [jax.tree.map(xp.zeros_like, p) for _ in range(2)]
        state = [p, *zeros, xp.float32(0)]
        texts = xp.asarray(inputs["texts"])

        def once() -> Any:
            *state[:], value = step(*state, texts)
            return value.block_until_ready()

        return once

    def rms_norm(x: Any, g: Any) -> Any:
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + EPSILON) * g

    def turned(x: Any, at: Any) -> Any:
        half = x.shape[-1] // 2
        angles = at * BASE ** (xp.arange(half) / -half)
        cos, sin = xp.cos(angles), xp.sin(angles)
        a, b = x.reshape(-1, half, 2)[..., 0], x.reshape(-1, half, 2)[..., 1]
        return xp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)

    def token(p: Any, before: Any, at: Any, caches: Any) -> Any:
        heads, x, filled = LLAMA["heads"], p["words"][before], []
        put = lax.dynamic_update_slice_in_dim
        for w, (keys, values) in zip(p["blocks"], caches):
            h = rms_norm(x, w["norm1"])
            q, k, v = ((h @ w[n]).reshape(heads, -1) for n in "qkv")
            keys = put(keys, turned(k, at)[:, None], at, 1)
            values = put(values, v[:, None], at, 1)
            scores = xp.einsum("hs,hrs->hr", turned(q, at), keys) * q.shape[-1] ** -0.5
            shares = nn.softmax(xp.where(xp.arange(ROOM) <= at, scores, -xp.inf))
            x = x + xp.einsum("hr,hrs->hs", shares, values).reshape(-1) @ w["o"]
            h = rms_norm(x, w["norm2"])
            x = x + (nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]
            filled.append((keys, values))
        return (rms_norm(x, p["norm"]) @ p["words"].T).argmax(), filled

    def decode(inputs: Inputs) -> Step:
        p, run = jax.tree.map(xp.asarray, inputs), jax.jit(token, donate_argnums=3)
        size = LLAMA["heads"], ROOM, LLAMA["width"] // LLAMA["heads"]
        return decoding(
            partial(run, p), lambda: [(xp.zeros(size), xp.zeros(size)) for _ in p["blocks"]]
        )

    return {"char_gpt": train, "llama": decode}


# PyTorch.


def imperative(name: str) -> dict[str, Callable[[Inputs], Step]]:
    """The same models in PyTorch, not compiled."""
    torch: Any = importlib.import_module(name)
    f = torch.nn.functional
    torch.set_num_threads(1)

    def tensors(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: tensors(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [tensors(part) for part in value]
        return torch.tensor(value)

    def train(inputs: Inputs) -> Step:
        p, texts = tensors(inputs["weights"]), torch.tensor(inputs["texts"]).long()
        optimizer = torch.optim.AdamW(
            [x.requires_grad_() for x in leaves(p)], LEARNING_RATE, BETAS, TINY, DECAY
        )
        norm = partial(f.layer_norm, normalized_shape=(WIDTH,), eps=EPSILON)

        half = WIDTH // HEADS // 2
        angles = torch.arange(LENGTH)[:, None] * BASE ** (torch.arange(half) / -half)
        cos, sin = angles.cos(), angles.sin()

        def rotary(x: Any) -> Any:
            a, b = x.chunk(2, -1)
            return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

        def loss() -> Any:
            x = f.embedding(texts[:, :-1], p["characters"])
            for w in p["blocks"]:
                h = norm(x, weight=w["norm1"][0], bias=w["norm1"][1])
                q, k, v = (
                    (h @ w[n]).view(TEXTS, LENGTH, HEADS, -1).transpose(1, 2)
                    for n in ("query", "key", "value")
                )
                mixed = f.scaled_dot_product_attention(rotary(q), rotary(k), v, is_causal=True)
                x = x + mixed.transpose(1, 2).reshape(x.shape) @ w["out"]
                h = norm(x, weight=w["norm2"][0], bias=w["norm2"][1])
                x = x + f.gelu(h @ w["up"], approximate="tanh") @ w["down"]
            logits = norm(x, weight=p["norm"][0], bias=p["norm"][1]) @ p["out"]
            return f.cross_entropy(logits.flatten(0, 1), texts[:, 1:].flatten())

        def once() -> Any:
            optimizer.zero_grad()
            value = loss()
            value.backward()
            optimizer.step()
            return value.detach()

        return once

    def decode(inputs: Inputs) -> Step:
        p, heads, width = tensors(inputs), LLAMA["heads"], LLAMA["width"]
        for w in p["blocks"]:  # as its Linear has them
            w.update({k: x.T.contiguous() for k, x in w.items() if x.ndim == 2})
        half = width // heads // 2
        angles = torch.arange(ROOM)[:, None] * BASE ** (torch.arange(half) / -half)
        cos, sin = angles.cos(), angles.sin()
        norm = partial(f.rms_norm, normalized_shape=(width,), eps=EPSILON)

        def turned(x: Any, at: int) -> Any:
            a, b = x.view(heads, half, 2).unbind(-1)
            return torch.stack([a * cos[at] - b * sin[at], a * sin[at] + b * cos[at]], -1).flatten(
                1
            )

        @torch.inference_mode()
        def follow(before: Any, at: int, caches: Any) -> Any:
            x = p["words"][before]
            for w, (keys, values) in zip(p["blocks"], caches):
                h = norm(x, weight=w["norm1"])
                q, k, v = (f.linear(h, w[n]).view(heads, -1) for n in "qkv")
                keys[:, at], values[:, at] = turned(k, at), v
                mixed = f.scaled_dot_product_attention(
                    turned(q, at)[:, None], keys[:, : at + 1], values[:, : at + 1]
                )
                x = x + f.linear(mixed.flatten(), w["o"])
                h = norm(x, weight=w["norm2"])
                x = x + f.linear(f.silu(f.linear(h, w["gate"])) * f.linear(h, w["up"]), w["down"])
            return f.linear(norm(x, weight=p["norm"]), p["words"]).argmax(), caches

        size = 2, heads, ROOM, 2 * half
        return decoding(follow, lambda: [torch.zeros(size) for _ in p["blocks"]])

    return {"char_gpt": train, "llama": decode}
