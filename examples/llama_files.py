"""Models of the Llama family in files: their sizes, weights and tokenizers, in two formats.

Source: github.com/karpathy/llama2.c; huggingface.co/docs/transformers, "LlamaConfig".
"""

from __future__ import annotations

import codecs
import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

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


def layer_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """The sizes of the weights of a layer, in the order of llama2.c."""
    d, wide = shape.width, shape.wide
    narrow = d // shape.heads * shape.kv_heads
    return {
        "input_layernorm": (d,),
        "self_attn.q_proj": (d, d),
        "self_attn.k_proj": (narrow, d),
        "self_attn.v_proj": (narrow, d),
        "self_attn.o_proj": (d, d),
        "post_attention_layernorm": (d,),
        "mlp.gate_proj": (wide, d),
        "mlp.down_proj": (d, wide),
        "mlp.up_proj": (wide, d),
    }


@dataclass(frozen=True)
class Tokenizer:
    """Texts as sequences of tokens: characters, merged as long as a pair of neighbours is a piece.

    Attributes:
        pieces: the bytes that each token stands for.
        scores: of two pairs, that with the higher score is merged first; -inf for never.
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
            pairs = (self.tokens.get(a + b) for a, b in pairwise(parts))
            scores = [-math.inf if token is None else self.scores[token] for token in pairs]
            best = max(scores, default=-math.inf)
            if best == -math.inf:
                return [START, *(self.tokens[part] for part in parts)]
            at = scores.index(best)
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


class Model(NamedTuple):
    """The content of model files.

    Attributes:
        weights: by the names of Hugging Face's, without ``.weight``; each matrix (outputs, inputs).
        interleaved: whether the numbers of a head that turn together are neighbours.
    """

    shape: Shape
    weights: Mapping[str, Data]
    interleaved: bool
    tokenizer: Tokenizer


def read(path: Path) -> Model:
    """A model from a file of llama2.c, or a folder of Hugging Face's.

    Raises:
        StateError: if it is not whole; a changed bit of the weights cannot be known.
        OSError: if it cannot be read.
    """
    with state.parsing(path, "model of the Llama family"):
        return read_folder(path) if path.is_dir() else read_file(path)


def check(shape: Shape, weights: Mapping[str, Data]) -> None:
    """Refuse weights that are not those of a model of these sizes.

    Raises:
        ValueError: naming what is wrong.
    """
    if min(shape[:7]) < 1 or shape.width % shape.heads or shape.heads % shape.kv_heads:
        raise ValueError(f"the sizes {shape}")
    expected = {"model.embed_tokens": (shape.words, shape.width), "model.norm": (shape.width,)}
    if "lm_head" in weights:
        expected["lm_head"] = shape.words, shape.width
    layer = layer_shapes(shape)
    for n in range(shape.layers):
        expected |= {f"model.layers.{n}.{name}": axes for name, axes in layer.items()}
        if f"model.layers.{n}.input_layernorm" not in weights:
            break  # before all of a number of layers that is wrong
    for name, axes in expected.items():
        if name not in weights or weights[name].shape != axes:
            got = weights[name].shape if name in weights else "nothing"
            raise ValueError(f"{name} is {got}, and should be {axes}")


def read_file(path: Path) -> Model:
    """A model in the format of llama2.c; its tokenizer follows, or lies in tokenizer.bin beside."""
    raw = path.read_bytes()
    sizes = struct.unpack_from("7i", raw)
    shape, at = Shape(*map(abs, sizes)), 28  # a negative number of words: outputs of their own
    if min(shape[:7]) < 1:
        raise ValueError(f"the sizes {shape}")

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
    check(shape, weights)
    tokenizer = read_pieces(raw[at:] or path.with_name("tokenizer.bin").read_bytes(), shape.words)
    return Model(shape, weights, True, tokenizer)


def read_pieces(raw: bytes, count: int) -> Tokenizer:
    """The tokenizer of llama2.c: for each piece its score, its length and its bytes."""
    at, pieces, scores = 4, [], []
    for token in range(count):
        score, length = struct.unpack_from("fi", raw, at)
        at += 8 + length
        if length < 0 or at > len(raw):
            raise ValueError(f"a piece of {length} bytes")
        pieces.append(meant(token, raw[at - length : at]))
        scores.append(score)
    return Tokenizer(pieces, scores)


def read_folder(path: Path) -> Model:
    """A model as Hugging Face has it, and its tokenizer."""
    sizes = json.loads((path / "config.json").read_text())
    shape = Shape(
        sizes["hidden_size"],
        sizes["intermediate_size"],
        sizes["num_hidden_layers"],
        sizes["num_attention_heads"],
        sizes["num_key_value_heads"],
        sizes["vocab_size"],
        sizes["max_position_embeddings"],
        sizes.get("rope_theta", 10000.0),
        sizes["rms_norm_eps"],
    )
    index = path / "model.safetensors.index.json"
    mapped = state.mapped(index if index.exists() else path / "model.safetensors")
    weights = {name.removesuffix(".weight"): data for name, data in mapped.items()}
    check(shape, weights)
    model = json.loads((path / "tokenizer.json").read_text())["model"]
    pieces, scores = [b""] * shape.words, [-math.inf] * shape.words
    for piece, token in model["vocab"].items():
        if not 0 <= token < shape.words:
            raise ValueError(f"the token {token} of {piece!r}")
        pieces[token] = meant(token, piece.encode())
    for rank, merge in reversed([*enumerate(model["merges"])]):  # the first of a piece counts
        pair = merge.split(" ") if isinstance(merge, str) else merge
        scores[model["vocab"]["".join(pair)]] = -rank
    return Model(shape, weights, False, Tokenizer(pieces, scores))


def babbler() -> Model:
    """A tiny model of random numbers, whose tokens are bytes."""
    shape = Shape(width=16, wide=48, layers=2, heads=4, kv_heads=2, words=BYTES + 256, room=32)
    axes = {"model.embed_tokens": (shape.words, shape.width), "model.norm": (shape.width,)}
    for n in range(shape.layers):
        axes |= {f"model.layers.{n}.{name}": size for name, size in layer_shapes(shape).items()}
    draw = np.random.default_rng(0).standard_normal
    weights = {name: draw(size, np.float32) for name, size in axes.items()}
    pieces = [meant(token, b"") for token in range(shape.words)]
    return Model(shape, weights, True, Tokenizer(pieces, [0.0] * shape.words))
