"""Models: weights, network and tokenizer of a file, to call, to step and to generate with."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfn import nn
from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError, StateError
from tfn.extend import PathLike, shown
from tfn.llm import config as configs
from tfn.llm import folder, generation, gguf, network, tokenizer
from tfn.llm.answer import Piece
from tfn.llm.blocks import BY_NAME
from tfn.llm.config import Config
from tfn.llm.generation import Prompt
from tfn.llm.network import Cache
from tfn.llm.sampling import wished
from tfn.llm.tokenizer import Tokenizer
from tfn.llm.weights import Blocks, Weight, held

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@nn.module
class Model:
    """A language model that was loaded: a pytree whose leaves are its weights.

    Attributes:
        weights: by the names of GGUF files; quantized ones stay so.
        config: the network.
        tokenizer: None for a file without one.
    """

    weights: dict[str, Weight]
    config: Config = nn.static()
    tokenizer: Tokenizer | None = nn.static()

    def __call__(self, tokens: Int[Array, "*batch time"]) -> Float[Array, "*batch time vocabulary"]:
        """Logits of what follows each token of texts."""
        tokens = jnp.asarray(tokens)
        positions = jnp.broadcast_to(jnp.arange(tokens.shape[-1]), tokens.shape)
        x, _ = network.hidden(self.weights, self.config, tokens, positions)
        return network.logits(self.weights, self.config, x)

    def cache(self, room: int) -> Cache:
        """An empty cache for `room` tokens."""
        return Cache.init(self.config, room)

    def step(
        self,
        tokens: Int[Array, " time"],
        cache: Cache,
        count: Int[Array, ""] | int | None = None,
    ) -> tuple[Float[Array, " vocabulary"], Cache]:
        """Logits of what follows some tokens, and the cache with these in it.

        A pure function: `jit`, `vmap` over caches, `grad` over weights, `export` apply to it.

        Args:
            tokens: the next ones of a text; there must be room for all of them.
            cache: of the tokens before.
            count: the number of tokens that count; those after them fill a fixed shape.  All if
                None.
        """
        time = tokens.shape[0]
        count = time if count is None else count
        positions = cache.length + jnp.arange(time, dtype="int32")
        x, cache = network.hidden(self.weights, self.config, tokens, positions, cache)
        last = x[jnp.asarray(count, dtype="int32") - 1]
        return network.logits(self.weights, self.config, last), cache.advanced(count)

    def generate(self, prompt: Prompt, **wishes: Any) -> Iterator[Piece]:
        """Pieces of an answer, one for each token, as they are made.

        Args:
            prompt: a text; tokens; or messages of a chat, dicts with "role" and "content".
            wishes: see `Sampling`: `max_tokens`, `temperature`, `top_k`, `top_p`, `min_p`,
                penalties, `seed`, `stop`, `logprobs`, `json`.

        Raises:
            ArgumentError: for a prompt that the context has no room for, which is never cut, or a
                wish that cannot be met.
            StateError: if the model's template of chats cannot be used.
        """
        return generation.generate(self, prompt, wished(wishes))


def load(source: PathLike | bytes | memoryview) -> Model:
    """Loads a language model from a GGUF file of version 2 or 3, or a folder of Hugging Face's.

    The file is mapped: weights are read when they are used, quantized ones stay so, and those that
    begin at multiples of 16 bytes are not copied, so leave a file as it is while its model is used.
    Nothing in a file is trusted: lengths, names, shapes and offsets are checked.

    Args:
        source: the path of a file, the first or any of several parts; of a folder with config.json,
            safetensors and tokenizer.json; or the bytes of a file.

    Raises:
        StateError: if the bytes are damaged, or describe no model.
        NotAvailableError: for an architecture, a format or a tokenizer that tfn does not have.
        MissingPackageError: without the library that the tokenizer needs.
        OSError: if a file cannot be opened.
    """
    if not isinstance(source, (str, Path, bytes, bytearray, memoryview)) and not hasattr(
        source, "__fspath__"
    ):
        raise ArgumentError(
            "llm.load needs a path or bytes", got=shown(source), hint='write load("model.gguf")'
        )
    if not isinstance(source, (bytes, bytearray, memoryview)) and Path(source).is_dir():
        place = Path(source)
        config, arrays = folder.read(place)
        weights: dict[str, Weight] = {name: held(data) for name, data in arrays.items()}
        check(weights, config)
        there = (place / "tokenizer.json").exists()
        own = tokenizer.from_folder(place, config.vocabulary) if there else None
        return Model(weights, config, own)
    file = gguf.read(source)
    config = config_of(file)
    weights = {name: _weight(tensor) for name, tensor in file.tensors.items()}
    check(weights, config)
    words = None
    if "tokenizer.ggml.model" in file.values and file.values["tokenizer.ggml.model"] != "none":
        words = tokenizer.from_values(file.values, config.vocabulary)
    return Model(weights, config, words)


def config_of(file: gguf.File) -> Config:
    """The network that a file describes.

    Raises:
        NotAvailableError: for an architecture that tfn does not have.
        StateError: for values that describe no network.
    """
    table = file.tensors.get("token_embd.weight")
    vocabulary = table.shape[0] if table is not None and len(table.shape) == 2 else 0
    return configs.from_values(file.values, vocabulary)


def _weight(tensor: gguf.Tensor) -> Weight:
    data = held(tensor.data)
    return data if tensor.format.dtype is not None else Blocks(data, tensor.format.name)


def check(weights: Mapping[str, Weight], config: Config) -> None:
    """Refuse weights that are not those of a network.

    Raises:
        StateError: naming one that is missing, has another shape, or has no use.
    """
    shapes = dict(_shapes(weights, config))
    for name, (shape, needed) in shapes.items():
        weight = weights.get(name)
        if weight is None and needed:
            raise _unfit(f"{name} is missing")
        if weight is not None and tuple(weight.shape) != shape:
            raise _unfit(f"{name} has shape {tuple(weight.shape)}, not {shape}")
    unused = sorted(weights.keys() - shapes.keys())
    if unused:
        raise _unfit(f"tfn has no use for {', '.join(unused[:3])} ({len(unused)} tensors)")


def _unfit(what: str) -> StateError:
    return StateError(
        "the tensors of this file are not those of its network",
        got=what,
        hint="load the file as it was published; its architecture may be newer than tfn",
    )


def _shapes(
    weights: Mapping[str, Weight], c: Config
) -> Iterator[tuple[str, tuple[tuple[int, ...], bool]]]:
    """The shape of each tensor that there may be, and whether it must."""
    yield "token_embd.weight", ((c.vocabulary, c.width), True)
    yield "output.weight", ((c.vocabulary, c.width), False)
    if c.architecture == "gpt2":
        yield "position_embd.weight", ((c.context, c.width), True)
    yield from _norms("output_norm", c.width, c)
    for name in ("rope_freqs", "rope_factors_long", "rope_factors_short"):
        yield f"{name}.weight", ((c.rope.size // 2,), False)
    queries, keys = c.heads * c.size, c.kv_heads * c.size
    values = c.kv_heads * c.value_size
    for layer in range(c.layers):
        b = f"blk.{layer}."
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            yield from _norms(b + name, c.width, c, False)
        if b + "attn_qkv.weight" in weights:
            yield from _linear(b + "attn_qkv", queries + keys + values, c.width)
        else:
            for name, size in (("q", queries), ("k", keys), ("v", values)):
                yield from _linear(f"{b}attn_{name}", size, c.width)
        yield from _linear(b + "attn_output", c.width, c.heads * c.value_size)
        for name, size in (("q", queries), ("k", keys)):
            weight = weights.get(f"{b}attn_{name}_norm.weight")
            whole = weight is not None and tuple(weight.shape) == (size,)
            yield f"{b}attn_{name}_norm.weight", ((size if whole else c.size,), False)
        yield from _feed_forward_shapes(weights, c, b)
        if b + "attn_output.weight" not in weights:
            return  # before all of a number of layers that is wrong


def _feed_forward_shapes(
    weights: Mapping[str, Weight], c: Config, b: str
) -> Iterator[tuple[str, tuple[tuple[int, ...], bool]]]:
    def wide(name: str) -> int:
        weight = weights.get(b + name)
        return int(weight.shape[-1]) if weight is not None and len(weight.shape) > 1 else 0

    if not c.experts:
        inner = wide("ffn_down.weight")
        up = weights.get(b + "ffn_up.weight")
        gated = b + "ffn_gate.weight" in weights
        joint = not gated and up is not None and tuple(up.shape) == (2 * inner, c.width)
        yield from _linear(b + "ffn_down", c.width, inner)
        yield from _linear(b + "ffn_gate", inner, c.width, False)
        yield from _linear(b + "ffn_up", 2 * inner if joint else inner, c.width)
        return
    yield b + "ffn_gate_inp.weight", ((c.experts, c.width), True)
    inner = wide("ffn_down_exps.weight")
    for name in ("gate", "up"):
        yield f"{b}ffn_{name}_exps.weight", ((c.experts, inner, c.width), True)
    yield b + "ffn_down_exps.weight", ((c.experts, c.width, inner), True)
    inner = wide("ffn_down_shexp.weight")
    yield b + "ffn_gate_inp_shexp.weight", ((c.width,), False)
    for name in ("gate", "up"):
        yield f"{b}ffn_{name}_shexp.weight", ((inner, c.width), bool(inner))
    yield b + "ffn_down_shexp.weight", ((c.width, inner), bool(inner))


def _linear(
    name: str, many: int, columns: int, needed: bool = True
) -> Iterator[tuple[str, tuple[tuple[int, ...], bool]]]:
    yield f"{name}.weight", ((many, columns), needed)
    yield f"{name}.bias", ((many,), False)


def _norms(
    name: str, width: int, c: Config, needed: bool = True
) -> Iterator[tuple[str, tuple[tuple[int, ...], bool]]]:
    bare = c.architecture in network.WITHOUT_WEIGHTS
    yield f"{name}.weight", ((width,), needed and not bare)
    if c.row.layer_norm:
        yield f"{name}.bias", ((width,), False)


def dense_bytes(model: Model) -> int:
    """Bytes of the weights in memory."""
    leaves = [w.raw if isinstance(w, Blocks) else w for w in model.weights.values()]
    return sum(x.nbytes for x in leaves if isinstance(x, Array))


def quantization(formats: Mapping[str, tuple[int, int]]) -> str:
    """Formats in words, such as "Q4_1, 5.7 bits a weight: 210 tensors Q4_1, 1 Q8_0, 61 F32".

    Args:
        formats: for each the number of its tensors and of its weights.
    """
    if not formats:
        return "no tensors"
    main = max(formats, key=lambda name: formats[name][1])
    weights = sum(size for _, size in formats.values())
    bits = sum(BY_NAME[name].bits * size for name, (_, size) in formats.items()) / max(weights, 1)
    ordered = sorted(formats, key=lambda name: -formats[name][1])
    parts = [
        f"{formats[name][0]:,}{' tensors' if not n else ''} {name}"
        for n, name in enumerate(ordered)
    ]
    return f"{main}, {bits:.1f} bits a weight: {', '.join(parts)}"
