"""Measurements of models: how well they foresee a text, and how fast they are."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfn import nn
from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.extend import Jitted, frozen
from tfn.llm.generation import Reader
from tfn.llm.model import Model

BYTES_PER_GIGABYTE = 1e9


@frozen
class Perplexity:
    """The perplexity of a text so far: exp of the mean surprise of a token.

    Attributes:
        tokens: that were foreseen.
        value: the perplexity.
        error: its standard error.
    """

    tokens: int
    value: float
    error: float


def _surprises(model: Model, tokens: Array) -> Array:
    """Negative logarithms of the probability of each token but the first."""
    return nn.softmax_cross_entropy_with_integer_labels(model(tokens[:-1]), tokens[1:])


_surprised = Jitted(_surprises)


def perplexity(model: Model, tokens: Sequence[int], window: int = 512) -> Iterator[Perplexity]:
    """The perplexity of a text after each window of it.

    Windows do not overlap.  Tokens of the first half of each are read only, so that every token
    that counts is foreseen from at least half a window, as llama.cpp measures it.

    Args:
        model: to measure.
        tokens: of the text.
        window: tokens that are read together.

    Raises:
        ArgumentError: for a text that is shorter than two windows, or a window without halves.
    """
    if not 4 <= window <= model.config.context:
        raise ArgumentError(
            "a window has 4 tokens to those of the context",
            got=f"{window:,} of {model.config.context:,}",
        )
    if len(tokens) < window:
        raise ArgumentError(
            "the text is shorter than a window", got=f"{len(tokens):,} tokens of {window:,}"
        )
    bare = Model(model.weights, model.config, None)
    surprises: list[Any] = []
    for begin in range(0, len(tokens) - window + 1, window):
        part = jnp.asarray(np.array(tokens[begin : begin + window], np.int32))
        surprises.append(np.asarray(_surprised(bare, part), np.float64)[window // 2 - 1 :])
        joined = np.concatenate(surprises)
        value = math.exp(joined.mean())
        spread = joined.std(ddof=1) / math.sqrt(len(joined)) if len(joined) > 1 else 0.0
        yield Perplexity(len(joined), value, value * float(spread))


@frozen
class Speed:
    """The speed of a model.

    Attributes:
        first: seconds of the first step, with compilation or what the cache on disk saves of it.
        prompt: tokens a second of a prompt.
        answer: tokens a second of an answer.
        bandwidth: gigabytes of weights that an answer reads a second.
    """

    first: float
    prompt: float
    answer: float
    bandwidth: float


def speed(model: Model, weight_bytes: int, prompt: int = 256, answer: int = 64) -> Speed:
    """The speed of one reader, by the best of a few runs.

    Args:
        model: to measure.
        weight_bytes: bytes of its weights.
        prompt: tokens of the prompt.
        answer: tokens of the answer.

    Raises:
        ArgumentError: if the context has no room for both.
    """
    if prompt < 1 or answer < 1 or prompt + answer > model.config.context:
        raise ArgumentError(
            "the context has no room for this",
            got=f"{prompt} and {answer} tokens of {model.config.context:,}",
        )
    tokens = np.random.default_rng(0).integers(0, model.config.vocabulary, prompt).tolist()
    begin = time.perf_counter()
    Reader(model).read(tokens)
    first, prompts = time.perf_counter() - begin, []
    for _ in range(3):
        reader = Reader(model)
        begin = time.perf_counter()
        logits = reader.read(tokens)
        prompts.append(time.perf_counter() - begin)
    steps = []
    for _ in range(answer):
        begin = time.perf_counter()
        logits = reader.read([int(logits.argmax())])
        steps.append(time.perf_counter() - begin)
    each = float(np.median(steps[1:] or steps))
    return Speed(first, prompt / min(prompts), 1 / each, weight_bytes / each / BYTES_PER_GIGABYTE)
