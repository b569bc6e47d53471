"""Sampling: filters, penalties, draws, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tfn.errors import ArgumentError
from tfn.llm import sampling
from tfn.llm.sampling import Sampler, Sampling, likeliest, log_softmax, wished

LOGITS = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))


def drawn(allowed: Any = None, times: int = 4000, **wishes: Any) -> np.ndarray[Any, Any]:
    """How often each token is drawn."""
    sampler = Sampler(Sampling(temperature=1.0, seed=1) if not wishes else Sampling(**wishes), [])
    counts = Counter(sampler.choose(LOGITS, allowed).token for _ in range(times))
    return np.array([counts[t] / times for t in range(4)])


def test_tokens_are_drawn_with_their_probabilities() -> None:
    assert np.allclose(drawn(), [0.5, 0.3, 0.15, 0.05], atol=0.03)
    warm = drawn(temperature=2.0, seed=1)
    expected = np.sqrt([0.5, 0.3, 0.15, 0.05])
    assert np.allclose(warm, expected / expected.sum(), atol=0.03)


@pytest.mark.parametrize(("wishes", "left"), [
    ({"top_k": 2}, [0.625, 0.375, 0, 0]),
    ({"top_p": 0.75}, [0.625, 0.375, 0, 0]),
    ({"top_p": 0.0}, [1, 0, 0, 0]),
    ({"min_p": 0.29}, [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]),
    ({"top_k": 3, "min_p": 0.5}, [0.625, 0.375, 0, 0]),
])  # fmt: skip
def test_filters_leave_the_likeliest(wishes: dict[str, Any], left: list[float]) -> None:
    assert np.allclose(drawn(temperature=1.0, seed=1, **wishes), left, atol=0.03)


def test_draws_under_a_grammar_are_those_among_allowed_tokens() -> None:
    assert np.allclose(drawn(lambda t: t in (1, 3)), [0, 6 / 7, 0, 1 / 7], atol=0.03)
    outside = drawn(lambda t: t == 3, 20, temperature=1.0, top_k=2, seed=1)
    assert np.array_equal(outside, [0, 0, 0, 1])  # a filter gives way to the grammar
    assert Sampler(Sampling(), []).choose(LOGITS, lambda t: t > 1).token == 2


def test_the_fewest_tokens_that_reach_a_share_are_those_of_all_in_order() -> None:
    rng = np.random.default_rng(0)
    for share in (0.0, 0.1, 0.5, 0.9, 0.999):
        for scale in (0.0, 0.1, 3.0, 30.0):
            weights = np.exp(-scale * rng.random(2500)).astype(np.float32)
            weights[rng.random(2500) < scale / 31] = 0
            order = np.argsort(-weights, kind="stable")
            before = np.cumsum(weights[order], dtype=np.float64) - weights[order]
            left = order[(before <= share * weights.sum(dtype=np.float64)) | (before == 0)]
            left = left[weights[left] > 0]
            assert np.array_equal(np.flatnonzero(sampling.likely(weights, share)), np.sort(left))


def test_a_draw_is_that_by_the_sums_up_to_each_weight() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 255, 256, 257, 1000):
        weights = rng.random(size).astype(np.float32) ** 8
        weights[1::3] = 0
        sums = weights.cumsum(dtype=np.float64)
        for at in (1e-300, *rng.random(50), 1.0):
            index = sampling.drawn(weights, at)
            assert weights[index] and abs(sums[index] - weights[index] / 2 - at * sums[-1]) <= (
                weights[index] / 2 + 1e-6 * sums[-1]
            )


def test_a_seed_repeats_the_draws() -> None:
    def draws(seed: int | None) -> list[int]:
        sampler = Sampler(Sampling(temperature=1.0, seed=seed), [])
        return [sampler.choose(LOGITS).token for _ in range(60)]

    assert draws(5) == draws(5) != draws(6) and draws(None) != draws(None)


def test_penalties_move_logits_of_tokens_that_were_there() -> None:
    logits = np.array([2.0, 1.5, -1.0], np.float32)
    assert Sampler(Sampling(repetition_penalty=2.0), [0]).choose(logits).token == 1
    for name in ("frequency_penalty", "presence_penalty"):
        sampler = Sampler(Sampling(**{name: 0.6}), [0])
        assert [sampler.choose(logits).token for _ in range(2)] == [0, 1]
    assert logits.tolist() == [2.0, 1.5, -1.0]


def test_probabilities_are_those_of_the_model() -> None:
    sampler = Sampler(Sampling(temperature=3.0, logprobs=2, seed=0), [])
    choice = sampler.choose(LOGITS)
    assert np.isclose(choice.logprob, LOGITS[choice.token])
    assert [t for t, _ in choice.top] == [0, 1] and np.isclose(choice.top[0][1], np.log(0.5))
    assert likeliest(log_softmax(LOGITS), 0) == () and len(likeliest(LOGITS, 20)) == 4


@pytest.mark.parametrize(("wishes", "message"), [
    ({"temperature": -1}, "temperature is a number from 0 to 100"),
    ({"temperature": float("nan")}, "temperature"),
    ({"top_k": 1.5}, "top_k is a whole number"),
    ({"top_p": 2}, "top_p"),
    ({"logprobs": 30}, "logprobs is a whole number from 0 to 20"),
    ({"max_tokens": True}, "max_tokens"),
    ({"stop": ["a", ""]}, "not empty"),
    ({"beams": 3}, "no such wish"),
])  # fmt: skip
def test_wishes_that_cannot_be_met_are_refused(wishes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        wished(wishes)
    assert wished({"stop": "a"}).stop == ("a",) and wished({"stop": None}).stop == ()
