"""The network: tokens to hidden numbers, layer by layer, as a pure function of weights and cache.

The parts of a layer before, in and after attention are calls, which are traced and compiled once
for all layers of one kind; between them a store takes new keys and values in its own memory.

Weights have the names of GGUF files.  Biases, norms, experts and fused matrices are used where
there are weights for them; all else is in `config.Config`.

Source: Vaswani et al. 2017, arXiv:1706.03762; Su et al. 2021, arXiv:2104.09864 (rotary positions);
Fedus et al. 2021, arXiv:2101.03961 (experts).
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tfn import call, lax, nn
from tfn import numpy as jnp
from tfn.array import Array
from tfn.llm.config import Config
from tfn.llm.weights import Weight, dense, product, rows

if TYPE_CHECKING:
    from jaxtyping import Float, Int

Weights = Mapping[str, Weight]


class Store(Protocol):
    """A place for keys and values of earlier tokens: `Cache`, or pages of a server."""

    def attend(
        self,
        layer: int,
        query: Array,
        keys: Array,
        values: Array,
        positions: Array,
        config: Config,
    ) -> tuple[Array, Any]:
        """Values averaged over earlier tokens and new ones, and the store that has the new ones."""


@nn.module
class Cache:
    """Keys and values of the tokens so far, for one text.

    Attributes:
        keys: for each layer float16 (room, kv_heads, size).
        values: for each layer float16 (room, kv_heads, value_size).
        length: int32 (), the number of tokens.
    """

    keys: tuple[Array, ...]
    values: tuple[Array, ...]
    length: Array

    @staticmethod
    def init(config: Config, room: int, dtype: str = "float16") -> Cache:
        """An empty cache for `room` tokens."""
        shape = (room, config.kv_heads)
        return Cache(
            tuple(jnp.zeros((*shape, config.size), dtype) for _ in range(config.layers)),
            tuple(jnp.zeros((*shape, config.value_size), dtype) for _ in range(config.layers)),
            jnp.asarray(0, dtype="int32"),
        )

    @property
    def room(self) -> int:
        """The most tokens that it can have."""
        return self.keys[0].shape[0]

    def grown(self, room: int) -> Cache:
        """A cache with the same tokens and more room."""
        more = ((0, room - self.room), (0, 0), (0, 0))
        keys = tuple(jnp.pad(x, more) for x in self.keys)
        return Cache(keys, tuple(jnp.pad(x, more) for x in self.values), self.length)

    def attend(
        self,
        layer: int,
        query: Array,
        keys: Array,
        values: Array,
        positions: Array,
        config: Config,
    ) -> tuple[Array, Cache]:
        """Values averaged over all tokens up to new ones, and the cache that has the new ones."""
        start = (self.length, 0, 0)
        filled = []
        for held, x in ((self.keys, keys), (self.values, values)):
            new = lax.dynamic_update_slice(held[layer], x.astype(held[layer].dtype), start)
            filled.append((*held[:layer], new, *held[layer + 1 :]))
        window = config.window_of(layer)
        mixed = _attended(config, window, query, filled[0][layer], filled[1][layer], positions)
        return mixed, Cache(filled[0], filled[1], self.length)

    def advanced(self, count: Array | int) -> Cache:
        """The cache with so many more tokens."""
        return Cache(self.keys, self.values, self.length + jnp.asarray(count, dtype="int32"))


def hidden(
    weights: Weights,
    config: Config,
    tokens: Int[Array, "*batch time"],
    positions: Int[Array, "*batch time"],
    store: Any = None,
) -> tuple[Float[Array, "*batch time width"], Any]:
    """The numbers of each token after the last norm, and the store with its keys and values.

    Args:
        weights: by the names of GGUF files.
        config: of the network.
        tokens: numbers of tokens.
        positions: of the tokens in their texts.
        store: of earlier tokens; None for a text that begins here.
    """
    x = rows(weights["token_embd.weight"], tokens)
    if config.row.scaled_embedding:
        x = x * config.width**0.5
    if "position_embd.weight" in weights:
        x = x + rows(weights["position_embd.weight"], positions)
    turns = {windowed: _turns(weights, config, positions, windowed) for windowed in (False, True)}
    for number, layer in enumerate(_layers(weights, config)):
        turn = turns[config.windowed(number)] if config.turned(number) else None
        query, key, value = _before(config, layer, x, turn)
        if store is not None:
            mixed, store = store.attend(number, query, key, value, positions, config)
        else:
            places = jnp.arange(x.shape[-2])
            mixed = _attended(config, config.window_of(number), query, key, value, places)
        x = _after(config, layer, x, mixed)
    return _norm(x, weights, config, "output_norm"), store


def logits(
    weights: Weights, config: Config, x: Float[Array, "*batch width"]
) -> Float[Array, "*batch vocabulary"]:
    """Logarithms of probabilities, but for a constant, of the token that follows."""
    table = weights.get("output.weight")
    out = product(x, weights["token_embd.weight"] if table is None else table)
    return capped(out, config.logit_cap)


def _layers(weights: Weights, config: Config) -> list[dict[str, Weight]]:
    """The weights of each layer, by their names in it."""
    layers: list[dict[str, Weight]] = [{} for _ in range(config.layers)]
    for name, weight in weights.items():
        if name.startswith("blk."):
            _, number, own = name.split(".", 2)
            layers[int(number)][own] = weight
    return layers


class _Layer(NamedTuple):
    """A layer's weights."""

    weights: Weights
    config: Config

    def get(self, name: str) -> Any:
        return self.weights.get(name)

    def norm(self, name: str, x: Array) -> Array:
        """A norm if the layer has it; none changes nothing, but one that has no weights."""
        return _norm(x, self.weights, self.config, name)

    def linear(self, name: str, x: Array) -> Array:
        """A product and its bias."""
        out, bias = product(x, self.get(f"{name}.weight")), self.get(f"{name}.bias")
        return out if bias is None else out + dense(bias)


WITHOUT_WEIGHTS = {"olmo": ("attn_norm", "ffn_norm", "output_norm")}
"""Norms that have no weights."""


def _norm(x: Array, weights: Weights, config: Config, name: str) -> Array:
    scale = weights.get(f"{name}.weight")
    bare = name in WITHOUT_WEIGHTS.get(config.architecture, ())
    if scale is None and not bare:
        return x
    if config.row.layer_norm:
        x = x - x.mean(-1, keepdims=True)
    x = x * lax.rsqrt((x * x).mean(-1, keepdims=True) + config.epsilon)
    if scale is not None:
        x = x * dense(scale)
    bias = weights.get(f"{name}.bias")
    return x if bias is None else x + dense(bias)


def _turns(weights: Weights, config: Config, positions: Array, windowed: bool) -> Any:
    """Cosines and sines (*batch, time, 1, size / 2) of positions."""
    rope = config.rope
    if not rope.size:
        return None
    angles = jnp.asarray(rope.frequencies(windowed))
    long = config.context > rope.original
    for name in ("rope_freqs", "rope_factors_long" if long else "rope_factors_short"):
        factors = weights.get(f"{name}.weight")
        if factors is not None:
            angles = angles / dense(factors)
    turned = positions[..., None, None].astype("float32") * angles
    return jnp.cos(turned) * rope.amplitude, jnp.sin(turned) * rope.amplitude


def _turned(x: Array, turns: tuple[Array, Array], interleaved: bool) -> Array:
    """Heads (*batch, time, heads, size) with pairs of numbers turned; the last ones as they are."""
    cos, sin = turns
    size = 2 * cos.shape[-1]
    head, rest = x[..., :size], x[..., size:]
    if interleaved:
        pairs = head.reshape(*head.shape[:-1], size // 2, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        out = jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(head.shape)
    else:
        a, b = head[..., : size // 2], head[..., size // 2 :]
        out = jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)
    return jnp.concatenate([out, rest], -1) if rest.shape[-1] else out


@call(name="before_attention", static_argnums=0)
def _before(
    config: Config, weights: Weights, x: Array, turns: tuple[Array, Array] | None
) -> tuple[Array, Array, Array]:
    """Queries, keys and values (*batch, time, heads, size) of a layer."""
    layer = _Layer(weights, config)
    x = layer.norm("attn_norm", x)
    sizes = [config.heads * config.size, config.kv_heads * config.size]
    if layer.get("attn_qkv.weight") is not None:
        joint = layer.linear("attn_qkv", x)
        parts = (
            joint[..., : sizes[0]],
            joint[..., sizes[0] : sum(sizes)],
            joint[..., sum(sizes) :],
        )
    else:
        parts = tuple(layer.linear(f"attn_{name}", x) for name in "qkv")  # type: ignore[assignment]
    if config.clamp:
        parts = tuple(jnp.clip(p, -config.clamp, config.clamp) for p in parts)  # type: ignore[assignment]
    heads = (config.heads, config.size), (config.kv_heads, config.size)
    query, key = (
        _head_norm(layer, f"attn_{name}_norm", part, count, size)
        for name, part, (count, size) in zip("qk", parts, heads)
    )
    value = parts[2].reshape(*x.shape[:-1], config.kv_heads, config.value_size)
    if turns is not None:
        query, key = (_turned(h, turns, config.interleaved) for h in (query, key))
    return query, key, value


@call(name="after_attention", static_argnums=0)
def _after(config: Config, weights: Weights, x: Array, mixed: Array) -> Array:
    """The numbers behind a layer, from those before it and what its heads have read."""
    layer = _Layer(weights, config)
    mixed = layer.linear("attn_output", mixed.reshape(*x.shape[:-1], -1))
    x = x + layer.norm("post_attention_norm", mixed)
    return x + layer.norm("post_ffw_norm", _feed_forward(layer, layer.norm("ffn_norm", x)))


def _head_norm(layer: _Layer, name: str, x: Array, heads: int, size: int) -> Array:
    """Heads (..., heads, size), normed one by one or together, by the size of the weight."""
    scale = layer.get(f"{name}.weight")
    if scale is not None and scale.shape[0] == heads * size and heads > 1:
        x, scale = layer.norm(name, x), None
    x = x.reshape(*x.shape[:-1], heads, size)
    return x if scale is None else layer.norm(name, x)


def visible(places: Array, positions: Array, window: int) -> Array:
    """Whether tokens at positions (*batch, time) attend to places: bool (*batch, time, places)."""
    own = positions[..., :, None]
    seen = places <= own
    return seen & (places > own - window) if window else seen


@call(name="attention", static_argnums=(0, 1))
def _attended(
    config: Config, window: int, query: Array, key: Array, value: Array, positions: Array
) -> Array:
    """Values (*batch, time, heads, value_size) averaged by the products of queries and keys."""
    key, value = key.astype("float32"), value.astype("float32")
    seen = visible(jnp.arange(key.shape[-3]), positions, window)
    if not config.attention_cap:
        mask = seen[..., None, :, :]
        return nn.dot_product_attention(query, key, value, mask=mask, scale=config.query_scale)  # type: ignore[no-any-return]
    grouped = query.reshape(*query.shape[:-2], config.kv_heads, -1, config.size)
    scores = jnp.einsum("...tkgs,...rks->...kgtr", grouped, key) * config.query_scale
    scores = jnp.where(seen[..., None, None, :, :], capped(scores, config.attention_cap), -jnp.inf)
    mixed = jnp.einsum("...kgtr,...rkv->...tkgv", nn.softmax(scores), value)
    return mixed.reshape(*query.shape[:-1], config.value_size)


def capped(x: Array, bound: float) -> Array:
    """Numbers within a bound, by tanh; 0 for none."""
    return jnp.tanh(x / bound) * bound if bound else x


def _activation(config: Config, x: Array) -> Array:
    return nn.gelu(x, approximate=True) if config.row.activation == "gelu" else nn.silu(x)


def _feed_forward(layer: _Layer, x: Array) -> Array:
    config = layer.config
    if layer.get("ffn_gate_inp.weight") is not None:
        return _experts(layer, x)
    if layer.get("ffn_gate.weight") is not None:
        inner = _activation(config, layer.linear("ffn_gate", x)) * layer.linear("ffn_up", x)
    else:
        inner = layer.linear("ffn_up", x)
        wide = layer.get("ffn_down.weight").shape[-1]
        if inner.shape[-1] == 2 * wide:  # the gate is in the same matrix
            inner = _activation(config, inner[..., :wide]) * inner[..., wide:]
        else:
            inner = _activation(config, inner)
    return layer.linear("ffn_down", inner)


def _experts(layer: _Layer, x: Array) -> Array:
    """The sum of the networks that the router chooses for each token, and of one for all."""
    config, used = layer.config, layer.config.experts_used
    tokens = x.reshape(-1, config.width)
    chances = nn.softmax(layer.linear("ffn_gate_inp", tokens))
    shares, chosen = lax.top_k(chances, used)
    if config.row.normalized_experts:
        shares = shares / shares.sum(-1, keepdims=True)
    gate, up, down = (layer.get(f"ffn_{name}_exps.weight") for name in ("gate", "up", "down"))
    if chosen.size <= config.experts:
        each = (jnp.einsum("nkoi,ni->nko", dense(w[chosen]), tokens) for w in (gate, up))
        inner = _activation(config, next(each)) * next(each)
        mixed = jnp.einsum("nkoi,nki,nk->no", dense(down[chosen]), inner, shares)
    else:
        order = jnp.argsort(chosen.reshape(-1))
        sizes = jnp.bincount(chosen.reshape(-1), length=config.experts).astype("int32")
        sorted_tokens = tokens[order // used]
        outs = (
            lax.ragged_dot(sorted_tokens, jnp.swapaxes(dense(w), 1, 2), sizes) for w in (gate, up)
        )
        inner = _activation(config, next(outs)) * next(outs)
        out = lax.ragged_dot(inner, jnp.swapaxes(dense(down), 1, 2), sizes)
        out = out * shares.reshape(-1)[order][:, None]
        mixed = jnp.zeros_like(tokens).at[order // used].add(out)
    if layer.get("ffn_up_shexp.weight") is not None:
        inner = _activation(config, layer.linear("ffn_gate_shexp", tokens))
        shared = layer.linear("ffn_down_shexp", inner * layer.linear("ffn_up_shexp", tokens))
        router = layer.get("ffn_gate_inp_shexp.weight")
        if router is not None:
            shared = nn.sigmoid(tokens @ dense(router).reshape(-1, 1)) * shared
        mixed = mixed + shared
    return mixed.reshape(x.shape)
