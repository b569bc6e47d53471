"""Generation for one reader: a prompt through the network in chunks, then token by token.

Shapes are few, so that few programs are compiled: chunks of a prompt are padded to powers of two,
and the cache grows by doubling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tfn import numpy as jnp
from tfn.errors import ArgumentError
from tfn.extend import Jitted, shown
from tfn.llm.answer import Answer, Piece
from tfn.llm.config import Config
from tfn.llm.network import Cache
from tfn.llm.sampling import Data, Sampling
from tfn.llm.template import Message, Template
from tfn.llm.tokenizer import Tokenizer, check_tokens

CHUNK, LEAST_CHUNK, LEAST_ROOM = 512, 16, 256
"""Tokens of a prompt that are computed together, the fewest, and the room of a first cache."""

Prompt = str | Sequence[int] | Sequence[Message]


class Steps(Protocol):
    """A model, as far as generation needs it."""

    @property
    def config(self) -> Config:
        """The network."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, if there is one."""

    def cache(self, room: int) -> Cache:
        """An empty cache."""

    def step(self, tokens: Any, cache: Cache, count: Any) -> tuple[Any, Cache]:
        """Logits of what follows tokens, and the cache with these in it."""


def _stepped(model: Steps, tokens: Any, cache: Cache, count: Any) -> tuple[Any, Cache]:
    return model.step(tokens, cache, count)


_step = Jitted(_stepped, donate_argnames="cache")


def generate(
    model: Steps,
    prompt: Prompt,
    wishes: Sampling | None = None,
    reader: Reader | None = None,
) -> Iterator[Piece]:
    """Tokens of an answer, one by one, as `Model.generate` gives them.

    Args:
        model: with a tokenizer.
        prompt: a text, tokens, or messages of a chat.
        wishes: for the answer.
        reader: of earlier texts, whose common beginning with this one is not read again.

    Raises:
        ArgumentError: for a prompt that the context has no room for, or a wish that cannot be met.
    """
    words = tokenizer_of(model)
    tokens = tokens_of(model, prompt)
    answer = Answer(words, wishes or Sampling(), tokens, room_for(model, tokens))
    return _pieces(reader or Reader(model), tokens, answer) if answer.left > 0 else iter(())


def _pieces(reader: Reader, tokens: Sequence[int], answer: Answer) -> Iterator[Piece]:
    logits = reader.follow(tokens)
    while True:
        piece = answer.take(logits)
        yield piece
        if piece.finish is not None:
            return
        logits = reader.read([piece.choice.token])


class Reader:
    """A text that a model has read so far."""

    def __init__(self, model: Steps) -> None:
        self.model: Any = replace(model, tokenizer=None)  # type: ignore[type-var]  # no program needs it
        self.cache: Cache | None = None
        self.tokens: list[int] = []

    def follow(self, tokens: Sequence[int]) -> Data:
        """Logits of what follows a text, of which what was read before is not read again."""
        same = 0
        while same < min(len(tokens) - 1, len(self.tokens)) and tokens[same] == self.tokens[same]:
            same += 1
        if self.cache is not None:
            self.tokens = self.tokens[:same]
            self.cache = self.cache.advanced(np.int32(same) - self.cache.length)
        return self.read(tokens[same:])

    def read(self, tokens: Sequence[int]) -> Data:
        """Logits of what follows some more tokens: float32 (vocabulary,)."""
        logits: Any = None
        for begin in range(0, len(tokens), CHUNK):
            part = tokens[begin : begin + CHUNK]
            size = 1 if len(part) == 1 else max(power_of_two(len(part)), LEAST_CHUNK)
            padded = np.zeros(size, np.int32)
            padded[: len(part)] = part
            cache = self._with_room(len(self.tokens) + size)
            logits, self.cache = _step(self.model, jnp.asarray(padded), cache, np.int32(len(part)))
            self.tokens += part
        return np.asarray(logits)

    def _with_room(self, room: int) -> Cache:
        if self.cache is None:
            self.cache = self.model.cache(max(power_of_two(room), LEAST_ROOM))
        return self.cache if self.cache.room >= room else self.cache.grown(power_of_two(room))


def power_of_two(n: int) -> int:
    """The least power of two that is no less."""
    return 1 << (n - 1).bit_length()


def tokenizer_of(model: Steps) -> Tokenizer:
    """The tokenizer of a model.

    Raises:
        ArgumentError: if it has none.
    """
    if model.tokenizer is None:
        raise ArgumentError(
            "this model has no tokenizer", got="a file without one", hint="call model.step"
        )
    return model.tokenizer


def template_of(model: Steps) -> Template:
    """The template of chats of a model.

    Raises:
        ArgumentError: if it has none.
    """
    words = tokenizer_of(model)
    if words.template is None:
        raise ArgumentError(
            "this model has no template of chats",
            got="messages",
            hint="write the prompt as one text",
        )
    names = ("" if t is None else words.name(t) for t in (words.bos, words.eos))
    return Template(words.template, *names)


def tokens_of(model: Steps, prompt: Prompt) -> list[int]:
    """The tokens of a prompt.

    Raises:
        ArgumentError: for another kind of prompt, or an empty one.
    """
    words = tokenizer_of(model)
    if isinstance(prompt, str):
        tokens = words.encode(prompt)
    elif all(isinstance(message, Mapping) for message in prompt):
        tokens = words.encode(template_of(model).render(prompt)) if prompt else []  # type: ignore[arg-type]
    elif all(isinstance(token, (int, np.integer)) for token in prompt):
        tokens = [*map(int, prompt)]  # type: ignore[arg-type]
        check_tokens(tokens, model.config.vocabulary)
    else:
        raise ArgumentError("a prompt is a text, tokens, or messages of a chat", got=shown(prompt))
    if not tokens:
        raise ArgumentError("a prompt has at least one token", got="none")
    return tokens


def room_for(model: Steps, tokens: Sequence[int]) -> int:
    """Tokens that the context has left after a prompt.

    Raises:
        ArgumentError: if it has none, with both numbers.
    """
    context = model.config.context
    if len(tokens) >= context:
        raise ArgumentError(
            "the prompt is longer than the context of the model",
            got=f"{len(tokens):,} tokens, and a context of {context:,} for prompt and answer",
            hint="nothing is cut off: shorten the prompt, or take a model with a larger context",
        )
    return context - len(tokens)
