"""The engine: answers alone and together, cancelled, crowded out, and what is refused."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.llm import building
from tfn import llm
from tfn.errors import ArgumentError, OverloadError
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
    with Engine(model, slots=4, tokens=CONTEXT) as engine:
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
    for count in (70, 65):  # for a reader both are parts of the same shape
        tokens = prompt(count, count)
        alone = [piece.choice.token for piece in model.generate(tokens, max_tokens=6)]
        taken = asked(engine, tokens, 6)
        assert taken.tokens == alone
        last = [e for e in taken.events if isinstance(e, Progress)][-1]
        assert (last.done, last.total) == (count, count)
    assert idle(engine)


def test_texts_together_are_as_each_alone(engine: Engine) -> None:
    """Six texts in four slots, and blocks for fewer."""
    prompts = [prompt(n, 3 + 37 * n) for n in range(6)]
    alone = [asked(engine, tokens, 20).tokens for tokens in prompts]
    together = [asked(engine, tokens, 20) for tokens in prompts]
    assert [taken.tokens for taken in together] == alone and idle(engine)


def test_drafts_and_known_beginnings_change_nothing(engine: Engine) -> None:
    tokens = [40, 41, 42, 43, 44, 45, 46, 47] * 9
    wishes = {"temperature": 0.05, "seed": 5, "repetition_penalty": 0.5}
    before = engine.stats()
    plain = asked(engine, tokens, 30, speculate=False, **wishes)
    first = plain.tokens
    drafted = asked(engine, tokens, 30, **wishes)
    assert drafted.tokens == first and idle(engine)
    after = engine.stats()
    assert after.accepted > before.accepted and after.cached_tokens > before.cached_tokens
    told = [event for event in drafted.events if isinstance(event, Progress)]
    assert told[-1].cached == 64


def test_scores_are_those_of_the_model(model: llm.Model, engine: Engine) -> None:
    tokens, taken = prompt(1, 40), Taken()
    engine.score(tokens, 2, taken)
    choices = taken.wait()[-1].choices
    logits = np.asarray(model(np.array(tokens)), np.float64)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    assert choices[0] is None and [c.token for c in choices[1:]] == tokens[1:]
    expected = [logs[n, token] for n, token in enumerate(tokens[1:])]
    assert np.allclose([c.logprob for c in choices[1:]], expected, atol=0.02)
    assert choices[5].top[0][0] == int(logs[4].argmax()) and len(choices[5].top) == 2


def test_embeddings_are_means_of_length_one(engine: Engine) -> None:
    one, same, other = (engine.embed(prompt(n, 70)) for n in (1, 1, 2))
    assert one.shape == (32,) and np.isclose(np.linalg.norm(one), 1, atol=1e-5)
    assert (one == same).all() and one @ other < 0.999 and idle(engine)


def test_a_cancelled_text_gives_back_its_slot(engine: Engine) -> None:
    taken = Taken()
    ticket = engine.submit(prompt(3, 30), Sampling(max_tokens=400), taken)
    while not any(isinstance(event, Piece) for event in taken.events):
        time.sleep(0.002)
    ticket.cancel()
    ticket.cancel()
    assert idle(engine) and not taken.ended.is_set()
    assert asked(engine, [1, 2, 3], 3).tokens


def test_what_cannot_be_is_refused_at_once(engine: Engine) -> None:
    with pytest.raises(ArgumentError, match="512 tokens, and a context of 512"):
        asked(engine, [1] * CONTEXT)
    with pytest.raises(ArgumentError, match="at least one token"):
        asked(engine, [])
    with pytest.raises(ArgumentError, match="no token"):
        asked(engine, [999])
    with pytest.raises(ArgumentError, match="top_p"):
        asked(engine, [1], top_p=3.0)
    with pytest.raises(ArgumentError, match="one token at least"):
        asked(engine, [1], count=0)
    with pytest.raises(ArgumentError, match="a slot"):
        Engine(engine.model, slots=0)


def test_a_step_that_fails_ends_its_texts_and_no_other(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine.scheduler, "call", lambda *_: 1 / 0)
        assert isinstance(asked(engine, [1, 2, 3]).wait()[-1].error, ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):
            engine.embed([1, 2, 3])
    assert len(asked(engine, [1, 2, 3], 3).tokens) == 3 and idle(engine)


def test_a_full_queue_and_a_closed_engine_refuse(model: llm.Model) -> None:
    engine = Engine(model, slots=1, tokens=CONTEXT)
    begun, go = threading.Event(), threading.Event()
    engine.scheduler.call = lambda *_: (begun.set(), go.wait(), 1 / 0)  # type: ignore[method-assign]
    waiting = [asked(engine, [1])]
    assert begun.wait(60)
    waiting += [asked(engine, [1]) for _ in range(8)]
    with pytest.raises(OverloadError, match="8 waiting, 1 running"):
        asked(engine, [1])
    go.set()
    engine.close()
    assert all(isinstance(taken.wait()[-1], Failed) for taken in waiting)
    with pytest.raises(OverloadError, match="closed"):
        asked(engine, [1])
    with pytest.raises(OverloadError, match="closed"):
        engine.warm()
    assert not engine.thread.is_alive()


def test_all_programs_are_ready_after_warming(engine: Engine) -> None:
    told: list[tuple[int, int]] = []
    engine.warm(lambda done, total: told.append((done, total)))
    assert told == [(n, 8) for n in range(9)]
    assert asked(engine, prompt(5, 70), 3).tokens and idle(engine)
