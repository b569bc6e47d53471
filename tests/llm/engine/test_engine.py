"""The engine: answers alone and together, cancelled, crowded out, and what is refused."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.llm import building
from tfn import llm
from tfn.llm.answer import Piece
from tfn.llm.engine import Engine, Failed, Progress, Scores
from tfn.llm.sampling import Sampling

pytest.importorskip("tokenizers", reason="pip install 'tfn[llm]' to test tokenizers")

CONTEXT = 512


@pytest.fixture(scope="module")
def model() -> llm.Model:
    return llm.load(building.tiny(**{"llama.context_length": CONTEXT}))


@pytest.fixture(scope="module")
def engine(model: llm.Model) -> Iterator[Engine]:
    with Engine(model, slots=4, tokens=4 * CONTEXT) as engine:
        yield engine


class Taken:
    """Events of a text, in order."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.ended = threading.Event()

    def __call__(self, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, (Failed, Scores)) or getattr(event, "finish", None):
            self.ended.set()

    def wait(self) -> list[Any]:
        assert self.ended.wait(60)
        return self.events

    @property
    def tokens(self) -> list[int]:
        return [e.choice.token for e in self.wait() if isinstance(e, Piece)]


def asked(engine: Engine, tokens: Sequence[int], count: int = 8, **other: Any) -> Taken:
    taken = Taken()
    speculate = other.pop("speculate", True)
    engine.submit(tokens, Sampling(max_tokens=count, **other), taken, speculate=speculate)
    return taken


def prompt(seed: int, count: int) -> list[int]:
    return random.Random(seed).choices(range(256), k=count)


def idle(engine: Engine) -> bool:
    """Whether all slots and blocks are free again, after a moment."""
    for _ in range(1000):
        stats = engine.stats()
        if not (stats.running or stats.waiting or stats.blocks_used):
            return True
        time.sleep(0.005)
    return False


def test_answers_are_those_of_one_reader(model: llm.Model, engine: Engine) -> None:
    for count in (1, 5, 16, 40, 100):
        tokens = prompt(count, count)
        alone = [piece.choice.token for piece in model.generate(tokens, max_tokens=6)]
        taken = asked(engine, tokens, 6)
        assert taken.tokens == alone
        last = [e for e in taken.events if isinstance(e, Progress)][-1]
        assert (last.done, last.total) == (count, count)
    assert idle(engine)


def test_texts_together_are_as_each_alone(engine: Engine) -> None:
    prompts = [prompt(n, 3 + 17 * n) for n in range(9)]
    alone = [asked(engine, tokens, 20).tokens for tokens in prompts]
    together = [asked(engine, tokens, 20) for tokens in prompts]
    assert [taken.tokens for taken in together] == alone and idle(engine)
