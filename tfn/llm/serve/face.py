"""The engine, as far as the server needs it."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tfn.extend import frozen
from tfn.llm.answer import Piece
from tfn.llm.sampling import Choice, Sampling

if TYPE_CHECKING:
    from jaxtyping import Float


@frozen
class Progress:
    """The part of a prompt that has been read."""

    done: int
    total: int
    cached: int = 0


@frozen
class Failed:
    """The end of an answer that could not be made."""

    error: BaseException


@frozen
class Scores:
    """Probabilities of the tokens of a prompt; None for the first."""

    choices: Sequence[Choice | None]


class Overloaded(Exception):
    """The queue is full."""


Event = Piece | Progress | Failed | Scores


class Ticket(Protocol):
    """An answer in the making."""

    @property
    def cached(self) -> int:
        """Tokens of the prompt that were in the cache."""

    def cancel(self) -> None:
        """End it."""


class Engine(Protocol):
    """The maker of answers, many at once."""

    @property
    def context(self) -> int:
        """The most tokens of prompt and answer."""

    def submit(
        self,
        tokens: Sequence[int],
        wishes: Sampling,
        deliver: Callable[[Event], None],
        *,
        speculate: bool = True,
    ) -> Ticket:
        """Begin an answer, whose events are delivered in the engine's thread."""

    def score(self, tokens: Sequence[int], top: int, deliver: Callable[[Event], None]) -> Ticket:
        """Begin to score a prompt."""

    def embed(self, tokens: Sequence[int]) -> Float[np.ndarray[Any, Any], " width"]:
        """The meaning of a text as a vector."""

    def stats(self) -> Any:
        """Counts so far."""

    def close(self) -> None:
        """End all answers, and the thread."""
