"""Perplexity and speed of models."""

from __future__ import annotations

import numpy as np
import pytest

from tests.llm import building
from tfn import llm
from tfn.errors import ArgumentError
from tfn.llm import measure


def test_perplexity_is_that_of_its_definition() -> None:
    model = llm.load(building.network("llama"))
    tokens = np.random.default_rng(0).integers(0, 260, 40)
    *_, found = measure.perplexity(model, tokens.tolist(), 16)
    surprises = []
    for begin in (0, 16):
        logits = np.asarray(model(tokens[begin : begin + 16]), np.float64)
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        surprises += [-logs[n - 1, tokens[begin + n]] for n in range(8, 16)]
    assert found.tokens == 16 and np.isclose(found.value, np.exp(np.mean(surprises)), rtol=1e-4)
    assert np.isclose(found.error, found.value * np.std(surprises, ddof=1) / 4, rtol=1e-3)


def test_texts_and_windows_that_do_not_fit_are_refused() -> None:
    model = llm.load(building.network("llama"))
    with pytest.raises(ArgumentError, match="3 tokens of 16"):
        next(measure.perplexity(model, [1, 2, 3], 16))
    with pytest.raises(ArgumentError, match="1,024 of 64"):
        next(measure.perplexity(model, [1] * 2000, 1024))
    with pytest.raises(ArgumentError, match="no room"):
        measure.speed(model, 1, 60, 10)
