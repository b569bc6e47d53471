"""Generation: prompts, chunks, caches that grow, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.llm import building
from tfn import llm
from tfn.errors import ArgumentError
from tfn.llm import generation
from tfn.llm.generation import Reader, power_of_two

pytest.importorskip("tokenizers", reason="pip install 'tfn[llm]' to test tokenizers")


@pytest.fixture(scope="module")
def model() -> llm.Model:
    return llm.load(building.tiny())


def greedy(model: llm.Model, tokens: list[int], count: int) -> list[int]:
    """Tokens by whole texts, one after the other."""
    made: list[int] = []
    while len(made) < count:
        made.append(int(model(np.array(tokens + made))[-1].argmax()))
    return made


def test_tokens_are_those_of_whole_texts(model: llm.Model) -> None:
    tokens = model.tokenizer.encode("he a")  # type: ignore[union-attr]
    pieces = [*model.generate("he a", max_tokens=3)]
    assert [piece.choice.token for piece in pieces] == greedy(model, tokens, 3)
    assert [*model.generate(tokens, max_tokens=0)] == []


def test_prompts_are_read_in_chunks_and_caches_grow(
    model: llm.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "CHUNK", 8)
    monkeypatch.setattr(generation, "LEAST_CHUNK", 4)
    monkeypatch.setattr(generation, "LEAST_ROOM", 8)
    tokens = [*range(3, 22)]
    reader = Reader(model)
    logits = reader.read(tokens)
    assert reader.cache is not None and reader.cache.room == 32 and reader.tokens == tokens
    whole = np.asarray(model(np.array(tokens))[-1])
    assert np.abs(logits - whole).max() < 0.02 * np.abs(whole).max()


def test_a_reader_does_not_read_a_beginning_twice(model: llm.Model) -> None:
    reader, read = Reader(model), []
    inner = reader.read
    reader.read = lambda tokens: (read.append(len(tokens)), inner(tokens))[1]  # type: ignore[method-assign]
    for text in ([5, 6, 7, 8], [5, 6, 9], [5, 6, 9], [5, 6, 9, 1]):
        logits = reader.follow(text)
        assert np.abs(logits - model(np.array(text))[-1]).max() < 0.05 and reader.tokens == text
    assert read == [4, 1, 1, 1]


def test_a_chat_is_a_prompt(model: llm.Model) -> None:
    pytest.importorskip("jinja2", reason="pip install 'tfn[llm]' to test templates of chats")
    messages = [{"role": "user", "content": "he"}]
    tokens = generation.tokens_of(model, messages)
    assert tokens[0] == 258 and model.tokenizer.decode(tokens) == "user\nhe\nassistant\n"  # type: ignore[union-attr]


def test_prompts_that_cannot_be_are_refused_at_once(model: llm.Model) -> None:
    with pytest.raises(ArgumentError, match="70 tokens, and a context of 64"):
        model.generate([1] * 70)
    with pytest.raises(ArgumentError, match="at least one token"):
        model.generate([])
    with pytest.raises(ArgumentError, match="no token"):
        model.generate([1, 999])
    with pytest.raises(ArgumentError, match="a text, tokens, or messages"):
        model.generate([1, "a"])  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match="no such wish"):
        model.generate("a", beams=2)
    bare = llm.load(building.network("llama"))
    with pytest.raises(ArgumentError, match="no tokenizer"):
        bare.generate("a")
    plain = llm.load(building.tiny(**{"tokenizer.chat_template": 0}))
    with pytest.raises(ArgumentError, match="no template"):
        plain.generate([{"role": "user", "content": "he"}])


def test_the_room_of_the_context_is_the_limit(model: llm.Model) -> None:
    pieces = [*model.generate([3] * 60, temperature=1.0, seed=0)]
    assert len(pieces) <= 4 and pieces[-1].finish in ("stop", "length")


def test_powers_of_two() -> None:
    assert [power_of_two(n) for n in (1, 2, 3, 8, 9)] == [1, 2, 4, 8, 16]
