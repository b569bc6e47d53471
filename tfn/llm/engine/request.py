"""Requests: texts that are answered or read, with the events that their owners get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tfn.extend import frozen
from tfn.llm.answer import Answer, Piece
from tfn.llm.engine.drafts import Drafts
from tfn.llm.sampling import Choice


@frozen
class Progress:
    """The part of a prompt that has been read.

    Attributes:
        done: tokens that have been read.
        total: tokens of the prompt.
        cached: those of them that were there from earlier texts.
    """

    done: int
    total: int
    cached: int = 0


@frozen
class Failed:
    """The end of a request that could not be finished.

    Attributes:
        error: the reason.
    """

    error: BaseException


@frozen
class Scores:
    """Probabilities of the tokens of a text, by those before.

    Attributes:
        choices: one for each token; None for the first.
    """

    choices: tuple[Choice | None, ...]


Event = Piece | Progress | Failed | Scores
Deliver = Callable[[Event], None]


@frozen
class Stats:
    """Counts of an engine.

    Attributes:
        running: requests that have a slot.
        waiting: requests that have none yet.
        slots: the most requests that run together.
        blocks_used: blocks of pages that running requests have.
        blocks: all blocks.
        prompt_tokens: of all requests that began.
        cached_tokens: those of them that were not computed again.
        answer_tokens: that were chosen.
        steps: calls of the network.
        drafted: tokens that were guessed.
        accepted: guesses that were right.
        requests: that were submitted.
        cancelled: those that were no longer wanted.
        failed: those that ended by an error.
        seconds: in which there was work.
    """

    running: int = 0
    waiting: int = 0
    slots: int = 0
    blocks_used: int = 0
    blocks: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    answer_tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    requests: int = 0
    cancelled: int = 0
    failed: int = 0
    seconds: float = 0.0


class Ticket:
    """A request in the hands of its owner.

    Args:
        wake: called when it is cancelled.

    Attributes:
        cached: tokens of the prompt that were there from earlier texts.
        is_cancelled: whether it is no longer wanted.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.cached = 0
        self.is_cancelled = False
        self._wake = wake

    def cancel(self) -> None:
        """Ends the request before the next step; no event follows."""
        self.is_cancelled = True
        self._wake()


@dataclass(slots=True, eq=False)
class Request:
    """A text that runs or waits.

    Attributes:
        tokens: of prompt and answer.
        prompt: how many of them are the prompt.
        deliver: takes its events.
        ticket: of its owner.
        answer: in the making; None for a text that is only read.
        read: takes, of a text that is only read, the position of the first token of each part and
            the numbers of all after the last norm.
        drafts: of its next tokens, if it is to be drafted.
        length: tokens whose keys and values are in the pages.
        blocks: of pages, in order.
        names: of the full ones.
        turn: the last one in which a part of it was computed.
    """

    tokens: list[int]
    prompt: int
    deliver: Deliver
    ticket: Ticket
    answer: Answer | None = None
    read: Callable[[int, Any], None] | None = None
    drafts: Drafts | None = None
    length: int = 0
    blocks: list[int] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)
    turn: int = -1

    @property
    def rest(self) -> int:
        """Tokens that are to be computed."""
        return len(self.tokens) - self.length

    @property
    def is_ready(self) -> bool:
        """Whether its answer has begun, and the last token of it is to be computed."""
        return self.rest == 1 and self.length >= self.prompt

    def tell(self, event: Event) -> None:
        """Delivers an event, unless the request is no longer wanted."""
        if self.ticket.is_cancelled:
            return
        try:
            self.deliver(event)
        except Exception:  # who does not take events does not want them
            self.ticket.is_cancelled = True
