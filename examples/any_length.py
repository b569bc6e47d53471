"""Serve requests of any length with a handful of compiled programs.

    python examples/any_length.py                 100 requests of 1 to 120 tokens, 8 at a time
    python examples/any_length.py --requests 500

A small transformer with drawn weights answers requests: it reads a prompt of any length, and then
writes token by token.  Each request has a slot in a cache of keys and values.  Prompts are read by
`read`, which is compiled for buckets of lengths: the padding reaches neither the cache nor the
answer.  All slots write together by `write`, whose arrays are always of one size.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from command_line import parsed, run
from rich.console import Console

import tfn
from tfn import lax, nn, random
from tfn import numpy as jnp

SLOTS, ROOM = 8, 160
"""Requests at a time, and tokens of each: its prompt and its answer."""

TOKENS, WIDTH, LAYERS = 64, 32, 2

Layer = dict[str, Any]


class Model(NamedTuple):
    """The weights: of tokens, of positions, of each layer."""

    tokens: tfn.Array
    positions: tfn.Array
    layers: tuple[Layer, ...]


def drawn(key: random.Key) -> Model:
    """A model with drawn weights."""
    keys = iter(random.split(key, 2 + 6 * LAYERS))
    normal = lambda *shape: random.normal(next(keys), shape) / WIDTH**0.5
    sizes = {"query": 1, "key": 1, "value": 1, "out": 1, "wide": 4}
    layers = tuple(
        {name: normal(WIDTH, WIDTH * n) for name, n in sizes.items()}
        | {"narrow": normal(WIDTH * 4, WIDTH)}
        for _ in range(LAYERS)
    )
    return Model(normal(TOKENS, WIDTH) * 4, normal(ROOM, WIDTH) * 4, layers)


def norm(x: tfn.Array) -> tfn.Array:
    """Rows of length 1 on average."""
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def after(
    model: Model, cache: tfn.Array, tokens: tfn.Array, start: Any
) -> tuple[tfn.Array, tfn.Array]:
    """The logits after the last of some tokens, and the cache with their keys and values.

    Args:
        cache: [layers, 2, room, width]: the keys and the values of the tokens before.
        tokens: [time].
        start: how many tokens there are before.
    """
    places = start + jnp.arange(tokens.shape[0])
    seen = jnp.arange(ROOM) <= places[:, None]
    x = model.tokens[tokens] + model.positions[places]
    for n, layer in enumerate(model.layers):
        y = norm(x)
        new = jnp.stack([y @ layer["key"], y @ layer["value"]])[None]
        cache = lax.dynamic_update_slice(cache, new, (n, 0, start, 0))
        scores = (y @ layer["query"]) @ cache[n, 0].T / WIDTH**0.5
        x = x + nn.softmax(jnp.where(seen, scores, -jnp.inf)) @ cache[n, 1] @ layer["out"]
        x = x + nn.relu(norm(x) @ layer["wide"]) @ layer["narrow"]
    return norm(x[-1]) @ model.tokens.T, cache


def read(
    model: Model, caches: tfn.Array, slot: Any, prompt: tfn.Array
) -> tuple[tfn.Array, tfn.Array]:
    """The first token of an answer, and the caches with the prompt in a slot."""
    logits, cache = after(model, jnp.zeros(caches.shape[1:]), prompt, 0)
    return logits.argmax(), caches.at[slot].set(cache)


def write(
    model: Model, caches: tfn.Array, tokens: tfn.Array, lengths: tfn.Array
) -> tuple[tfn.Array, tfn.Array]:
    """The next token of each slot, and the caches with the last ones."""
    one = lambda cache, token, length: after(model, cache, token[None], length)
    logits, caches = tfn.vmap(one)(caches, tokens, lengths)
    return logits.argmax(-1), caches


class Server:
    """Slots that requests take when they come and leave when they are answered."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.read = tfn.jit(read, buckets={"prompt": "time"}, donate_argnames="caches")
        self.write = tfn.jit(write, donate_argnames="caches")
        self.caches = jnp.zeros((SLOTS, LAYERS, 2, ROOM, WIDTH))

    def answers(self, prompts: Sequence[np.ndarray[Any, Any]], count: int) -> list[list[int]]:
        """`count` tokens for each prompt."""
        answers: list[list[int]] = [[] for _ in prompts]
        waiting, active = list(range(len(prompts))), dict[int, int]()
        while waiting or active:
            for slot in range(SLOTS):
                if slot not in active and waiting:
                    active[slot] = request = waiting.pop(0)
                    first, self.caches = self.read(self.model, self.caches, slot, prompts[request])
                    answers[request].append(int(first))
            tokens, lengths = np.zeros((2, SLOTS), np.int32)
            for slot, request in active.items():
                tokens[slot] = answers[request][-1]
                lengths[slot] = len(prompts[request]) + len(answers[request]) - 1
            written, self.caches = self.write(self.model, self.caches, tokens, lengths)
            for slot, token in enumerate(np.asarray(written)):
                if slot in active:
                    answers[active[slot]].append(int(token))
                    if len(answers[active[slot]]) >= count:
                        del active[slot]
        return answers

    @property
    def programs(self) -> int:
        """The programs compiled so far: of each bucket, of lengths that are special, of writing."""
        special = self.read.plain.cache_info().entries
        return len(self.read.cache_info().buckets) + special + self.write.cache_info().entries


def serve(options: argparse.Namespace, console: Console) -> int:
    """Answer drawn requests; the number of programs that it took."""
    draw = np.random.default_rng(options.seed)
    lengths = draw.integers(1, options.longest + 1, options.requests)
    prompts = [draw.integers(0, TOKENS, n).astype(np.int32) for n in lengths]
    server, start = Server(drawn(random.key(options.seed))), time.perf_counter()
    answers = server.answers(prompts, options.tokens)
    seconds = time.perf_counter() - start
    info = server.read.cache_info()
    console.print(
        f"{len(answers)} requests of {len({*lengths.tolist()})} lengths, "
        f"{sum(map(len, answers)):,} tokens in {seconds:.1f} s, by {server.programs} programs; "
        f"{info.padding:.0%} of what was read was padding",
        highlight=False,
        soft_wrap=True,
    )
    return server.programs


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve; the exit status."""
    parser = argparse.ArgumentParser(description="Serve requests of any length.")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--longest", type=int, default=120, help="tokens of a prompt, at most 128")
    parser.add_argument("--tokens", type=int, default=16, help="of an answer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="of the CPU device; one per core by default")
    parser.add_argument("--smoke", action="store_true", help="20 requests")
    options = parsed(parser, arguments, requests=20, tokens=4)
    return run(serve, options, "interrupted")


if __name__ == "__main__":
    raise SystemExit(main())
