"""The engine: takes requests, and owns the thread that computes them together."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tfn import numpy as jnp
from tfn.errors import ArgumentError, OverloadError
from tfn.extend import Jitted, memory
from tfn.llm import network
from tfn.llm.answer import Answer
from tfn.llm.engine.drafts import Drafts
from tfn.llm.engine.pages import BLOCK
from tfn.llm.engine.request import Deliver, Event, Failed, Request, Scores, Stats, Ticket
from tfn.llm.engine.scheduler import PARTS, Scheduler
from tfn.llm.generation import Steps, tokenizer_of
from tfn.llm.sampling import Choice, Data, Sampling, likeliest, log_softmax
from tfn.llm.tokenizer import check_tokens

if TYPE_CHECKING:
    from jaxtyping import Float

QUEUE = 8
"""Requests that may wait for each slot."""

MEMORY_PART = 0.5
"""The part of the free memory that keys and values may take."""


def _logits(model: Any, x: Any) -> Any:
    return network.logits(model.weights, model.config, x)


_logits_of = Jitted(_logits)


class Engine:
    """Answers to many at once.

    Args:
        model: with a tokenizer.
        slots: requests that run together; others wait.
        tokens: that the pages have room for; as many as memory and the slots' contexts allow if
            None.

    Raises:
        ArgumentError: for no slot, or room for no block.

    Example:
        >>> model = tfn.llm.load(Path("model.gguf"))  # doctest: +SKIP
        >>> with Engine(model) as engine:  # doctest: +SKIP
        ...     ticket = engine.submit(model.tokenizer.encode("Hello"), Sampling(), print)
    """

    def __init__(self, model: Steps, *, slots: int = 8, tokens: int | None = None) -> None:
        if slots < 1 or (tokens is not None and tokens < BLOCK):
            raise ArgumentError(
                f"an engine needs a slot, and room for {BLOCK} tokens",
                got=f"{slots} slots, {tokens} tokens",
            )
        config = model.config
        self.tokenizer = tokenizer_of(model)
        if tokens is None:
            most = int(free_bytes() * MEMORY_PART) // config.position_bytes
            tokens = max(min(slots * config.context, most), BLOCK)
        self.model: Any = replace(model, tokenizer=None)  # type: ignore[type-var]
        self.scheduler = Scheduler(self.model, slots, -(-tokens // BLOCK))
        self.tasks: deque[Callable[[], None]] = deque()
        self.is_closing = False
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._run, name="tfn.llm engine", daemon=True)
        self.thread.start()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def context(self) -> int:
        """The most tokens of a prompt and its answer."""
        return self.scheduler.context

    def submit(
        self,
        tokens: Sequence[int],
        wishes: Sampling,
        deliver: Deliver,
        *,
        speculate: bool = True,
    ) -> Ticket:
        """Begins an answer.

        Args:
            tokens: of the prompt.
            wishes: for the answer, of one token at least.
            deliver: called in the engine's thread with Progress while the prompt is read, a Piece
                for each token, and Failed if there can be no more.
            speculate: whether tokens may be guessed beforehand; answers are the same.

        Raises:
            ArgumentError: for a prompt that the context has no room for, or a wish that cannot be
                met.
            OverloadError: if too many requests wait.
        """
        given = self._checked(tokens, self.context - 1)
        answer = Answer(self.tokenizer, wishes, given, self.context - len(given))
        if answer.left < 1:
            raise ArgumentError("an answer has one token at least", got="max_tokens=0")
        request = self._request(given, deliver, answer=answer)
        request.drafts = Drafts(request.tokens) if speculate else None
        return self._queued(request)

    def score(self, tokens: Sequence[int], top: int, deliver: Deliver) -> Ticket:
        """Begins to compute the probability of each token of a text by those before.

        Args:
            tokens: of the text.
            top: likeliest tokens to name with each.
            deliver: called in the engine's thread with Progress, and Scores or Failed at the end.

        Raises:
            ArgumentError: for a text that is longer than the context.
            OverloadError: if too many requests wait.
        """
        given = self._checked(tokens, self.context)
        found: list[Choice | None] = [None]

        def read(first: int, x: Any) -> None:
            del found[first + 1 :]  # it may begin again, after others needed its blocks
            follow = given[first + 1 : first + 1 + x.shape[0]]
            for begin in range(0, len(follow), PARTS[0]):
                part = x[begin : begin + PARTS[0]]
                rows = np.asarray(_logits_of(self.model, jnp.asarray(part)))
                for row, token in zip(rows, follow[begin : begin + PARTS[0]]):
                    logs = log_softmax(row)
                    found.append(Choice(token, float(logs[token]), likeliest(logs, top)))
            if len(found) == len(given):
                deliver(Scores(tuple(found)))

        return self._queued(self._request(given, deliver, read=read))

    def embed(self, tokens: Sequence[int]) -> Float[Data, " width"]:
        """The mean of the numbers of a text's tokens after the last norm, of length 1.

        Args:
            tokens: of the text.

        Raises:
            ArgumentError: for a text that is longer than the context.
            OverloadError: if too many requests wait, or the engine is closed meanwhile.
        """
        given = self._checked(tokens, self.context)
        total = np.zeros(self.model.config.width)
        ended = threading.Event()
        errors: list[BaseException] = []

        def read(first: int, x: Any) -> None:
            total[:] *= first > 0
            total[:] += x[: len(given) - first].astype(np.float64).sum(0)
            if first + x.shape[0] >= len(given):
                ended.set()

        def deliver(event: Event) -> None:
            if isinstance(event, Failed):
                errors.append(event.error)
                ended.set()

        self._queued(self._request(given, deliver, read=read))
        ended.wait()
        if errors:
            raise errors[0]
        return (total / max(float(np.linalg.norm(total)), 1e-30)).astype(np.float32)

    def warm(self, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Compiles all programs that texts need, or loads them from the disk.

        Args:
            progress: called with the number of programs that are ready, and of all.
        """
        x = np.zeros((PARTS[0], self.model.config.width), np.float32)
        tasks = [partial(self.scheduler.call, *given) for given in self.scheduler.programs()]
        tasks.append(partial(_logits_of, self.model, jnp.asarray(x)))
        for done, task in enumerate(tasks):
            progress(done, len(tasks))
            self._in_thread(task)
        progress(len(tasks), len(tasks))

    def stats(self) -> Stats:
        """Counts so far."""
        return self.scheduler.stats()

    def close(self) -> None:
        """Ends all requests and the thread."""
        with self.changed:
            self.is_closing = True
            self.changed.notify_all()
        if self.thread is not threading.current_thread():
            self.thread.join()

    def _checked(self, tokens: Sequence[int], most: int) -> list[int]:
        given = [*map(int, tokens)]
        if not given:
            raise ArgumentError("a prompt has at least one token", got="none")
        check_tokens(given, self.model.config.vocabulary)
        if len(given) > most:
            raise ArgumentError(
                "the prompt is longer than the context of the model",
                got=f"{len(given):,} tokens, and a context of {self.context:,} for prompt and "
                "answer",
                hint="nothing is cut off: shorten the prompt, or take a model with a larger "
                "context, or more memory",
            )
        return given

    def _request(self, tokens: list[int], deliver: Deliver, **other: Any) -> Request:
        return Request(tokens, len(tokens), deliver, Ticket(self._wake), **other)

    def _wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def _queued(self, request: Request) -> Ticket:
        waiting = self.scheduler.waiting
        with self.changed:
            if self.is_closing:
                raise _closed()
            if len(waiting) >= QUEUE * self.scheduler.slots:
                raise OverloadError(
                    "too many requests wait for the model",
                    got=f"{len(waiting)} waiting, {len(self.scheduler.running)} running",
                    hint="try again later",
                )
            self.scheduler.counts["requests"] += 1
            waiting.append(request)
            self.changed.notify_all()
        return request.ticket

    def _in_thread(self, task: Callable[[], object]) -> None:
        """Runs a task in the thread of the engine, and waits for it."""
        ended = threading.Event()
        errors: list[BaseException] = []

        def run() -> None:
            try:
                task()
            except BaseException as error:  # for the one who waits
                errors.append(error)
            ended.set()

        with self.changed:
            if self.is_closing:
                raise _closed()
            self.tasks.append(run)
            self.changed.notify_all()
        ended.wait()
        if errors:
            raise errors[0]

    def _run(self) -> None:
        try:
            self._serve()
        finally:
            with self.changed:
                self.is_closing = True
            for task in self.tasks:
                task()
            self.scheduler.fail(_closed())

    def _serve(self) -> None:
        while True:
            with self.changed:
                while not (self.is_closing or self.tasks or self.scheduler.has_work):
                    self.changed.wait()
                if self.is_closing:
                    return
                tasks, self.tasks = self.tasks, deque()
            begin = time.perf_counter()
            for task in tasks:
                task()
            try:
                self.scheduler.turn()
            except Exception as error:  # others are served after it
                self.scheduler.fail(error)
                self.scheduler.reset(self.scheduler.pool.size)
            self.scheduler.counts["seconds"] += time.perf_counter() - begin


def _closed() -> OverloadError:
    return OverloadError("the engine is closed", hint="make another one")


def free_bytes() -> int:
    """Bytes of memory that are free; of all memory where the system does not say it."""
    told = Path("/proc/meminfo")
    lines = told.read_text().splitlines() if told.exists() else []
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kilobytes[0] * 1024 if kilobytes else memory.physical_bytes()
