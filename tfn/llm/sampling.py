"""Sampling: which token follows, by the logits of a model and the wishes of a caller.

The filters are those of other programs, in the order of Hugging Face's: penalties, temperature,
top-k, top-p, min-p.  A draw is exact under a grammar too: if it does not allow the token that was
drawn, the others are tried in a random order in which each comes first with its probability, so the
first that the grammar allows is drawn from the allowed ones.

Source: Maddison et al. 2014, arXiv:1411.0030 (the order by Gumbel noise); Holtzman et al. 2019,
arXiv:1904.09751 (top-p); Keskar et al. 2019, arXiv:1909.05858 (repetition).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfn import jit
from tfn import numpy as jnp
from tfn.errors import ArgumentError
from tfn.extend import frozen

Data = np.ndarray[Any, Any]

MOST_LOGPROBS = 20
"""The most alternatives of a token, as OpenAI's interface has it."""

ROW_LENGTH = 256
"""The number of weights that are summed at once before a draw, about the root of a vocabulary."""

# fmt: off
BOUNDS: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 100.0), "top_k": (0, 1 << 31), "top_p": (0.0, 1.0), "min_p": (0.0, 1.0),
    "repetition_penalty": (0.001, 100.0), "frequency_penalty": (-2.0, 2.0),
    "presence_penalty": (-2.0, 2.0),
    "max_tokens": (0, 1 << 31), "logprobs": (0, MOST_LOGPROBS), "seed": (0, (1 << 64) - 1),
}
"""The least and the largest value of each wish that is a number, a whole one if these are."""
# fmt: on


@frozen
class Sampling:
    """Wishes for an answer.

    Attributes:
        max_tokens: the most tokens; as many as the context has room for if None.
        temperature: 0 takes the likeliest token; 1 draws with the model's probabilities.
        top_k: draw from so many likeliest tokens; 0 for all.
        top_p: draw from the likeliest tokens that together have this probability.
        min_p: draw from tokens of at least this part of the likeliest one's probability.
        repetition_penalty: divides logits of tokens that were there, in the prompt too.
        frequency_penalty: subtracted from logits for each time that a token was drawn.
        presence_penalty: subtracted from logits of tokens that were drawn.
        seed: of the draws; None for another one each time.
        stop: texts that end the answer and are not part of it.
        logprobs: the number of likeliest tokens to name with each one; None for none at all.
        json: whether the answer is an object in JSON.
    """

    max_tokens: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    json: bool = False

    def checked(self) -> Sampling:
        """The wishes, if they can be met.

        Raises:
            ArgumentError: naming one that cannot.
        """
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            whole = isinstance(least, int)
            if value is None and name in ("max_tokens", "seed", "logprobs"):
                continue
            kinds = (int,) if whole else (int, float)
            if (
                isinstance(value, bool)
                or not isinstance(value, kinds)
                or not least <= value <= most
            ):
                raise ArgumentError(
                    f"{name} is a {'whole ' if whole else ''}number from {least:g} to {most:g}",
                    got=repr(value),
                    hint=f"leave {name} out for its default",
                )
        if not all(isinstance(text, str) and text for text in self.stop):
            raise ArgumentError("stop has texts that are not empty", got=repr(self.stop))
        return self


def wished(options: Mapping[str, Any]) -> Sampling:
    """Wishes by name; one stop text may stand for several.

    Raises:
        ArgumentError: for one that there is not, or that cannot be met.
    """
    names = Sampling.__dataclass_fields__.keys()
    unknown = sorted(options.keys() - names)
    if unknown:
        raise ArgumentError(
            "there is no such wish for an answer",
            got=unknown[0],
            hint="there are " + ", ".join(names),
        )
    stop = options.get("stop") or ()
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    return Sampling(**{**options, "stop": stops}).checked()


@frozen
class Choice:
    """A token that was chosen.

    Attributes:
        token: its number.
        logprob: the logarithm of its probability, before temperature and penalties.
        top: the likeliest tokens with theirs.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class Sampler:
    """Choices for one answer: its random numbers, and how often each token was there.

    Args:
        wishes: for the answer.
        prompt: tokens before it.
    """

    def __init__(self, wishes: Sampling, prompt: Sequence[int]) -> None:
        self.wishes = wishes
        self.random = np.random.default_rng(wishes.seed)
        self.seen = set(prompt)
        self.drawn = Counter[int]()

    def choose(self, logits: Data, allowed: Callable[[int], bool] | None = None) -> Choice:
        """The token that follows.

        Args:
            logits: float32 (vocabulary,), which is left as it is.
            allowed: whether a token may follow; None if all may.
        """
        scores = self._penalized(logits)
        token = next((t for t in self._ordered(scores) if allowed is None or allowed(t)), None)
        if token is None:
            token = int(scores.argmax())
        self.seen.add(token)
        self.drawn[token] += 1
        count = self.wishes.logprobs
        if count is None:
            return Choice(token)
        logs = log_softmax(logits)
        return Choice(token, float(logs[token]), likeliest(logs, count))

    def _penalized(self, logits: Data) -> Data:
        w = self.wishes
        if w.repetition_penalty == 1 and not w.frequency_penalty and not w.presence_penalty:
            return logits
        scores = logits.copy()
        seen = np.fromiter(self.seen, np.int64, len(self.seen))
        old = scores[seen]
        scores[seen] = np.where(old > 0, old / w.repetition_penalty, old * w.repetition_penalty)
        for token, times in self.drawn.items():
            scores[token] -= w.frequency_penalty * times + w.presence_penalty
        return scores

    def _ordered(self, scores: Data) -> Iterator[int]:
        """Tokens in the order in which they are tried; those that filters leave out come last."""
        w = self.wishes
        if w.temperature == 0:
            yield int(scores.argmax())
            yield from map(int, np.argsort(-scores, kind="stable")[1:])
            return
        scores, chances = map(np.asarray, _scaled(scores, np.float32(w.temperature)))
        kept = self._kept(scores, chances)
        best = drawn(chances * kept, 1 - self.random.random())
        yield best
        # Noise for each token takes ten times as long as one draw, and only a grammar needs it.
        noise = self.random.gumbel(size=scores.shape).astype(np.float32)
        first = np.where(kept, scores + noise, -np.inf)
        first[best] = -np.inf
        order = np.argsort(-first, kind="stable")[: int(kept.sum()) - 1]
        yield from map(int, order)
        rest = np.where(kept, -np.inf, scores + noise)
        yield from map(int, np.argsort(-rest, kind="stable")[: int((~kept).sum())])

    def _kept(self, scores: Data, chances: Data) -> Data:
        """The tokens that are drawn from.

        Args:
            scores: at most 0, which the greatest is.
            chances: e to the power of the scores.
        """
        w = self.wishes
        kept = np.ones(scores.shape, bool)
        if 0 < w.top_k < len(scores):
            kept = scores >= np.partition(scores, -w.top_k)[-w.top_k]
        if w.top_p < 1:
            kept &= likely(chances * kept, w.top_p)
        if w.min_p > 0:
            kept &= scores >= np.log(w.min_p)
        return kept


@jit
def _scaled(scores: Any, temperature: Any) -> tuple[Any, Any]:
    """Scores of which the greatest is 0, and e to their powers, in a third of NumPy's time."""
    scores = scores / temperature
    scores -= scores.max()
    return scores, jnp.exp(scores)


def likely(weights: Data, share: float) -> Data:
    """The fewest of the largest weights whose sum reaches a share of all: bool (n,).

    Example:
        >>> likely(np.array([1, 5, 2, 2], "float32"), 0.6)
        array([False,  True,  True, False])
    """
    sought, chosen = share * float(weights.sum()), np.zeros(weights.shape, bool)
    places = np.flatnonzero(weights)
    values = weights[places]
    largest, count = np.arange(len(values)), ROW_LENGTH
    while count < len(values):  # the largest few reach it most of the time: a few are to be sorted
        some = np.flatnonzero(values >= np.partition(values, -count)[-count])
        if values[some].sum() > sought:
            largest = some
            break
        count *= 4
    order = largest[np.argsort(-values[largest], kind="stable")]
    before = values[order].astype(np.float64).cumsum() - values[order]
    chosen[places[order[before <= sought]]] = True
    return chosen


def drawn(weights: Data, at: float) -> int:
    """The index at which the sum of weights up to it reaches a part of the sum of all.

    Sums of rows come first: sums up to each index would take longer than the exponentials.

    Args:
        weights: float32 (n,), not negative.
        at: more than 0, at most 1.

    Example:
        >>> weights = np.array([0.5, 0.0, 1.5], "float32")
        >>> [drawn(weights, at) for at in (0.2, 0.25, 0.26, 1.0)]
        [0, 0, 2, 2]
    """
    begins = np.arange(0, len(weights), ROW_LENGTH)
    sums = np.add.reduceat(weights, begins).astype(np.float64).cumsum()
    sought = sums[-1] * at
    row = int(np.searchsorted(sums, sought))
    part = weights[begins[row] :][:ROW_LENGTH].astype(np.float64).cumsum()
    left = sought - (sums[row - 1] if row else 0)
    # The sum of a row may be rounded to more than the last sum within it.
    return int(begins[row] + np.searchsorted(part, min(left, part[-1])))


def log_softmax(logits: Data) -> Data:
    """Logarithms of probabilities, in float64."""
    wide = logits.astype(np.float64) - logits.max()
    return wide - np.log(np.exp(wide).sum())  # type: ignore[no-any-return]


def likeliest(logs: Data, count: int) -> tuple[tuple[int, float], ...]:
    """Tokens of the highest probabilities, with the logarithms of these."""
    if not count:
        return ()
    best = np.argpartition(-logs, min(count, len(logs) - 1))[:count]
    best = best[np.argsort(-logs[best], kind="stable")]
    return tuple((int(t), float(logs[t])) for t in best)
