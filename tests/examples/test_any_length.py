"""Requests of any length: the answers of each alone, by few programs."""

from __future__ import annotations

import any_length
import numpy as np
import pytest

from tfn import numpy as jnp
from tfn import random


@pytest.mark.usefixtures("uncompiled")
def test_answers_are_those_of_each_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(any_length, "SLOTS", 2)
    model = any_length.drawn(random.key(3))
    draw = np.random.default_rng(5)
    prompts = [draw.integers(0, any_length.TOKENS, n).astype(np.int32) for n in (1, 5, 7)]
    answers = any_length.Server(model).answers(prompts, 2)
    empty = jnp.zeros((any_length.LAYERS, 2, any_length.ROOM, any_length.WIDTH))
    for prompt, answer in zip(prompts, answers, strict=True):
        tokens = prompt.tolist()
        for token in answer:
            logits, _ = any_length.after(model, empty, jnp.asarray(tokens), 0)
            assert int(logits.argmax()) == token
            tokens.append(token)


@pytest.mark.usefixtures("uncompiled")
def test_it_compiles_at_most_eight_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert any_length.main(["--smoke"]) == 0
    words = capsys.readouterr().out.split()
    assert words[:2] == ["20", "requests"]
    assert int(words[words.index("programs;") - 1]) <= 8
