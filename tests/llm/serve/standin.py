"""An engine without a network, whose logits are drawn from the tokens before."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfn.errors import OverloadError, StateError
from tfn.llm.answer import Answer
from tfn.llm.engine import Event, Failed, Progress, Scores
from tfn.llm.model import Model
from tfn.llm.sampling import Choice, Sampling, likeliest, log_softmax
from tfn.llm.serve import metrics

Deliver = Callable[[Event], None]


@dataclass
class Ticket:
    cached: int = 0
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Engine:
    """Answers one after the other, in a thread of its own.

    Attributes:
        pause: seconds before each token.
        most: requests that may wait.
        broken: an error that ends every answer at its second token.
        script: tokens of which every answer consists, if there are any.
    """

    model: Model
    pause: float = 0.0
    most: int = 64
    broken: BaseException | None = None
    script: Sequence[int] = ()
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.context = self.model.config.context
        self.work: queue.Queue[Any] = queue.Queue()
        self.closed = False
        self.running = 0
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def submit(
        self, tokens: Sequence[int], wishes: Sampling, deliver: Deliver, *, speculate: bool = True
    ) -> Ticket:
        return self._put(lambda ticket: self._answer(tokens, wishes, deliver, ticket))

    def score(self, tokens: Sequence[int], top: int, deliver: Deliver) -> Ticket:
        return self._put(lambda ticket: deliver(self.scores(tokens, top)))

    def embed(self, tokens: Sequence[int]) -> Any:
        vector = np.random.default_rng([*tokens]).standard_normal(self.model.config.width)
        return (vector / np.linalg.norm(vector)).astype(np.float32)

    def stats(self) -> Any:
        return type("Stats", (), dict.fromkeys(metrics.ROWS, 0) | {"running": self.running})

    def close(self) -> None:
        self.closed = True
        self.work.put(None)
        self.thread.join()

    def logits(self, tokens: Sequence[int]) -> Any:
        draw = np.random.default_rng([*tokens])
        return draw.standard_normal(self.model.config.vocabulary).astype(np.float32) * 2

    def scores(self, tokens: Sequence[int], top: int) -> Scores:
        choices: list[Choice | None] = [None]
        for n in range(1, len(tokens)):
            logs = log_softmax(self.logits(tokens[:n]))
            choices.append(Choice(tokens[n], float(logs[tokens[n]]), likeliest(logs, top)))
        return Scores(tuple(choices))

    def _put(self, job: Callable[[Ticket], None]) -> Ticket:
        if self.work.qsize() >= self.most:
            raise OverloadError("too many requests wait")
        ticket = Ticket()
        self.work.put((job, ticket))
        return ticket

    def _loop(self) -> None:
        while (found := self.work.get()) is not None:
            job, ticket = found
            self.running += 1
            job(ticket)
            self.running -= 1

    def _answer(
        self, tokens: Sequence[int], wishes: Sampling, deliver: Deliver, ticket: Ticket
    ) -> None:
        assert self.model.tokenizer is not None
        answer = Answer(self.model.tokenizer, wishes, tokens, self.context - len(tokens))
        known = [*tokens]
        deliver(Progress(len(tokens), len(tokens), 0))
        while not ticket.cancelled:
            if self.closed or (self.broken and len(known) > len(tokens)):
                deliver(Failed(self.broken or StateError("the engine was closed")))
                return
            time.sleep(self.pause)
            logits = self.logits(known)
            if self.script:
                logits[self.script[len(known) - len(tokens)]] = 1e6
            piece = answer.take(logits)
            known.append(piece.choice.token)
            deliver(piece)
            if piece.finish:
                return
