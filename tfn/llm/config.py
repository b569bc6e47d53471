"""Architectures as data: what a file says of a network, and what only its name says.

Most of a network is seen in its tensors: biases, norms of queries and keys, experts, tables of
positions are used where a file has them.  A row of `ARCHITECTURES` holds the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfn.errors import NotAvailableError, StateError
from tfn.extend import frozen

Data = np.ndarray[Any, Any]


@frozen
class Architecture:
    """The choices of an architecture that no tensor shows.

    Attributes:
        interleaved: whether the numbers of a head that turn together are neighbours, in GGUF files.
        activation: of feed-forward networks: "silu", or "gelu" by tanh.
        layer_norm: whether norms subtract the mean.
        scaled_embedding: whether embeddings are multiplied by sqrt(width).
        window: positions that some layers attend to where a file does not say it; 0 for all.
        period: of so many layers, the last one attends to all positions; 1 without windows.
        window_base: of the rotary frequencies of layers with windows; 0 for that of the others.
        plain_period: of so many layers, the last one turns no heads; 0 for none.
        normalized_experts: whether the weights of the chosen experts sum to one.
        head_scale_layers: the number of layers of the sizes whose queries are scaled by
            1 / sqrt(width / heads).
        ignores_window: whether a window that a file names is not meant.
    """

    interleaved: bool = False
    activation: str = "silu"
    layer_norm: bool = False
    scaled_embedding: bool = False
    window: int = 0
    period: int = 1
    window_base: float = 0.0
    plain_period: int = 0
    normalized_experts: bool = True
    head_scale_layers: int = 0
    ignores_window: bool = False


_GEMMA: dict[str, Any] = {"activation": "gelu", "scaled_embedding": True}

ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture(interleaved=True),
    "mistral": Architecture(interleaved=True),
    "smollm3": Architecture(interleaved=True, plain_period=4),
    "qwen2": Architecture(),
    "qwen2moe": Architecture(normalized_experts=False),
    "qwen3": Architecture(),
    "qwen3moe": Architecture(),
    "gemma": Architecture(**_GEMMA),
    "gemma2": Architecture(**_GEMMA, window=4096, period=2, head_scale_layers=46),
    "gemma3": Architecture(**_GEMMA, period=6, window_base=10000.0, head_scale_layers=62),
    "phi3": Architecture(ignores_window=True),
    "olmo": Architecture(interleaved=True, layer_norm=True),
    "olmo2": Architecture(period=4),
    "olmoe": Architecture(normalized_experts=False),
    "gpt2": Architecture(activation="gelu", layer_norm=True),
}
"""Architectures by the names that GGUF files have."""


@frozen
class Rope:
    """Rotary positions of a network.

    Attributes:
        size: numbers of a head that turn; 0 for none.
        base: of the frequencies.
        window_base: of those of layers with windows.
        kind: of the stretching for long texts: "none", "linear", "yarn" or "longrope".
        factor: by which positions are stretched.
        original: the context before stretching.
        magnitude: factor of cosines and sines.
    """

    size: int
    base: float = 10000.0
    window_base: float = 10000.0
    kind: str = "none"
    factor: float = 1.0
    original: int = 0
    magnitude: float = 1.0

    def frequencies(self, windowed: bool = False) -> Data:
        """Angles of one position: float32 (size / 2,)."""
        half = np.arange(0, self.size, 2) / max(self.size, 1)
        turned = (self.window_base if windowed else self.base) ** -half
        if windowed or self.kind in ("none", "longrope"):
            return turned.astype(np.float32)
        if self.kind == "linear":
            return (turned / self.factor).astype(np.float32)
        low, high = (self._turns(n) for n in (32, 1))
        low, high = max(math.floor(low), 0), min(math.ceil(high), self.size - 1)
        kept = 1 - np.clip((np.arange(self.size // 2) - low) / max(high - low, 0.001), 0, 1)
        return (turned * (kept + (1 - kept) / self.factor)).astype(np.float32)

    def _turns(self, count: float) -> float:
        """The pair of numbers that turns so often within the original context."""
        turns = math.log(self.original / (count * 2 * math.pi))
        return self.size * turns / (2 * math.log(self.base))

    @property
    def amplitude(self) -> float:
        """The factor of cosines and sines, that of YaRN included."""
        stretched = self.kind == "yarn" and self.factor > 1
        return self.magnitude * (1 + 0.1 * math.log(self.factor) if stretched else 1.0)


@frozen
class Config:
    """A network: its sizes, and choices that its weights do not show.

    Attributes:
        architecture: a name of `ARCHITECTURES`.
        name: of the model.
        layers: blocks of attention and feed-forward network.
        width: numbers of a token between layers.
        heads: of queries.
        kv_heads: of keys and values.
        size: numbers of a head of queries and keys.
        value_size: numbers of a head of values.
        context: the most tokens.
        vocabulary: the number of tokens that there are.
        epsilon: of norms.
        rope: rotary positions.
        window: positions that layers with windows attend to; 0 for all.
        period: of so many layers the last one has no window.
        query_scale: factor of the products of queries and keys.
        attention_cap: bound of those products; 0 for none.
        logit_cap: bound of logits; 0 for none.
        clamp: bound of queries, keys and values; 0 for none.
        experts: networks of which each token uses `experts_used`; 0 for one.
        interleaved: see `Architecture`; False for folders of Hugging Face's.
    """

    architecture: str
    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    size: int
    value_size: int
    context: int
    vocabulary: int
    epsilon: float
    rope: Rope
    window: int = 0
    period: int = 1
    query_scale: float = 1.0
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    clamp: float = 0.0
    experts: int = 0
    experts_used: int = 0
    interleaved: bool = False

    @property
    def row(self) -> Architecture:
        """The choices of the architecture."""
        return ARCHITECTURES[self.architecture]

    def windowed(self, layer: int) -> bool:
        """Whether a layer attends to near positions only."""
        return self.window > 0 and (self.period == 1 or (layer + 1) % self.period != 0)

    def window_of(self, layer: int) -> int:
        """The number of positions that a layer attends to; 0 for all."""
        return self.window if self.windowed(layer) else 0

    def turned(self, layer: int) -> bool:
        """Whether a layer has rotary positions."""
        period = self.row.plain_period
        return self.rope.size > 0 and not (period and (layer + 1) % period == 0)

    @property
    def position_bytes(self) -> int:
        """Bytes of the keys and values of one token, in float16."""
        return 2 * self.layers * self.kv_heads * (self.size + self.value_size)


def supported(name: str) -> Architecture:
    """The row of an architecture.

    Raises:
        NotAvailableError: if there is none.
    """
    row = ARCHITECTURES.get(name)
    if row is None:
        raise NotAvailableError(
            f"tfn.llm has no architecture {name!r}",
            got="its layers are described in no row of tfn.llm.config.ARCHITECTURES",
            hint="there are " + ", ".join(ARCHITECTURES),
        )
    return row


class Values:
    """Values of a file by name, each checked to be of its type."""

    def __init__(self, values: Mapping[str, Any], prefix: str) -> None:
        self.values = values
        self.prefix = prefix

    def get(self, name: str, default: Any) -> Any:
        """A value of the type of a default, which stands for one that is absent.

        Raises:
            StateError: for another type, or a number that is none of a network.
        """
        value = self.values.get(f"{self.prefix}{name}")
        if value is None:
            return default
        if isinstance(value, np.ndarray) and value.size and (value == value[0]).all():
            value = value[0].item()  # one number for each layer
        kind = type(default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise _wrong(f"{self.prefix}{name} is {value!r:.80}, not a number of a network")
        if kind in (int, float) and not (0 <= value < 1 << 40):
            raise _wrong(f"{self.prefix}{name} is {value}")
        return value

    def need(self, name: str, default: Any) -> Any:
        """A value that must be there, and not be zero."""
        value = self.get(name, default)
        if not value:
            raise _wrong(f"{self.prefix}{name} is missing")
        return value


def from_values(values: Mapping[str, Any], vocabulary: int) -> Config:
    """The network that a GGUF file describes.

    Args:
        values: of the file, by name.
        vocabulary: rows of the table of embeddings.

    Raises:
        NotAvailableError: for an architecture that tfn does not have.
        StateError: for values that describe no network.
    """
    name = Values(values, "").need("general.architecture", "")
    row = supported(name)
    own = Values(values, f"{name}.")
    width, layers = own.need("embedding_length", 0), own.need("block_count", 0)
    heads = own.need("attention.head_count", 0)
    kv_heads = own.get("attention.head_count_kv", heads)
    size = own.get("attention.key_length", width // heads)
    if not kv_heads or heads % kv_heads or not size:
        raise _wrong(f"{heads} heads of queries, {kv_heads} of keys, {size} numbers each")
    kind = own.get("rope.scaling.type", "none")
    factor = own.get("rope.scaling.factor", 1.0)
    if kind not in ("none", "linear", "yarn", "longrope"):
        raise _wrong(f"{name}.rope.scaling.type is {kind!r}")
    base = own.get("rope.freq_base", 10000.0)
    context = own.need("context_length", 0)
    rope = Rope(
        size=0 if name == "gpt2" else own.get("rope.dimension_count", size),
        base=base,
        window_base=own.get("rope.freq_base_swa", row.window_base or base),
        kind=kind,
        factor=factor or 1.0,
        original=own.get("rope.scaling.original_context_length", context) or context,
        magnitude=own.get("rope.scaling.attn_factor", 1.0),
    )
    if rope.size > size or rope.size % 2 or (rope.size and min(rope.base, rope.window_base) <= 1):
        raise _wrong(f"rotary positions of {rope.size} numbers of {size}, base {rope.base}")
    window = 0 if row.ignores_window else own.get("attention.sliding_window", row.window)
    norm = "layer_norm_epsilon" if row.layer_norm else "layer_norm_rms_epsilon"
    return Config(
        architecture=name,
        name=Values(values, "").get("general.name", name),
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        size=size,
        value_size=own.get("attention.value_length", size),
        context=context,
        vocabulary=vocabulary,
        epsilon=own.get(f"attention.{norm}", 1e-5),
        rope=rope,
        window=window,
        period=own.get("attention.sliding_window_pattern", row.period) or row.period,
        query_scale=query_scale(row, layers, width, heads, size),
        attention_cap=own.get("attn_logit_softcapping", 0.0),
        logit_cap=own.get("final_logit_softcapping", 0.0),
        clamp=own.get("attention.clamp_kqv", 0.0),
        experts=own.get("expert_count", 0),
        experts_used=own.get("expert_used_count", 0),
        interleaved=row.interleaved,
    )


def query_scale(row: Architecture, layers: int, width: int, heads: int, size: int) -> float:
    """The factor of the products of queries and keys."""
    return float((width // heads if layers == row.head_scale_layers else size) ** -0.5)


def _wrong(what: str) -> StateError:
    return StateError(
        "this file describes no network that can be",
        got=what,
        hint="load the file as it was published",
    )
