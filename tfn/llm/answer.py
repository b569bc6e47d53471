"""Answers in the making: logits in, pieces of text out, up to a reason to end.

A piece of text is given out when it can no longer become part of a stop text, nor of a character
that is not whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.extend import frozen
from tfn.llm import grammar
from tfn.llm.sampling import Choice, Data, Sampler, Sampling
from tfn.llm.tokenizer import Tokenizer

STOP, LENGTH = "stop", "length"
"""Reasons to end: the model or a stop text ended it, or there is no room for more."""


@frozen
class Piece:
    """A token of an answer, and the text that became certain with it.

    Attributes:
        text: may be empty, or have more than the token's own characters.
        choice: the token, and its probability where that was asked for.
        finish: None, or why this is the last one: "stop" or "length".
    """

    text: str
    choice: Choice
    finish: str | None = None


class Answer:
    """The state of one answer.

    Args:
        tokenizer: of the model.
        wishes: for the answer.
        prompt: tokens before it.
        room: tokens that the context has left.
    """

    def __init__(
        self, tokenizer: Tokenizer, wishes: Sampling, prompt: Sequence[int], room: int
    ) -> None:
        self.tokenizer = tokenizer
        self.wishes = wishes.checked()
        self.sampler = Sampler(wishes, prompt)
        self.left = room if wishes.max_tokens is None else min(room, wishes.max_tokens)
        self.decoder = tokenizer.decoder()
        self.held = ""
        self.state: grammar.State | None = grammar.State() if wishes.json else None

    def take(self, logits: Data) -> Piece:
        """The next token, by the logits that the model gives for it."""
        choice = self.sampler.choose(logits, self._allowed if self.wishes.json else None)
        self.left -= 1
        token = choice.token
        if token in self.tokenizer.ends:
            return Piece(self._rest(), choice, STOP)
        added = self.tokenizer.bytes_of(token)
        self.held += self.decoder.decode(added)
        places = [at for stop in self.wishes.stop if (at := self.held.find(stop)) >= 0]
        if places:
            return Piece(self.held[: min(places)], choice, STOP)
        if self.wishes.json:
            self.state = grammar.fed(self.state, added)
            if self.state is None or self.state.is_done:
                return Piece(self._rest(), choice, STOP)
        if self.left <= 0:
            return Piece(self._rest(), choice, LENGTH)
        return Piece(self._certain(), choice)

    def _allowed(self, token: int) -> bool:
        added = self.tokenizer.bytes_of(token)
        return bool(added) and grammar.fed(self.state, added) is not None

    def _rest(self) -> str:
        return self.held + self.decoder.decode(b"", final=True)

    def _certain(self) -> str:
        """The text before what may be the beginning of a stop text."""
        most = max(map(len, self.wishes.stop), default=0)
        for size in range(min(most - 1, len(self.held)), 0, -1):
            if any(stop.startswith(self.held[-size:]) for stop in self.wishes.stop):
                text, self.held = self.held[:-size], self.held[-size:]
                return text
        text, self.held = self.held, ""
        return text
