"""The way between the engine's thread and the loop of the server.

Events of an answer come in the thread; they are put into a queue of the loop.  A client that leaves
is an event too: then everything that was begun for it is cancelled, and its slots are free.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress

from tfn.errors import OverloadError
from tfn.extend import frozen
from tfn.llm.answer import Piece
from tfn.llm.engine import Engine, Event, Failed, Scores, Ticket
from tfn.llm.serve.asgi import Left, Receive
from tfn.llm.serve.prompts import Job

STILL_THERE_SECONDS = 10.0
"""The time without an event after which a stream says that it is alive."""


@frozen
class Nothing:
    """The ticket of what needs no engine."""

    cached: int = 0

    def cancel(self) -> None:
        """Does nothing."""


class Flow:
    """The work for one request: its jobs, at most `width` of them at once.

    Args:
        engine: that does it.
        jobs: one for each answer.
        width: the most jobs that the engine has at once, so that one request with many prompts
            leaves room for others.
    """

    def __init__(self, engine: Engine, jobs: Sequence[Job], width: int) -> None:
        self.engine, self.jobs, self.width = engine, jobs, width
        self.loop = asyncio.get_running_loop()
        self.queue: asyncio.Queue[tuple[int, Event | None]] = asyncio.Queue()
        self.tickets: dict[int, Ticket | Nothing] = {}
        self.waiting = [*range(len(jobs))][::-1]
        self.cached = [0] * len(jobs)

    async def events(self, receive: Receive) -> AsyncGenerator[tuple[int, Event] | None, None]:
        """Numbers of jobs with their events; None from time to time while there are none.

        Args:
            receive: of the request, whose body has been read.

        Raises:
            Left: once the client has.
            OverloadError: if the engine has no room for the first job.
        """
        gone = asyncio.create_task(self._gone(receive))
        try:
            self._begin()
            while self.tickets:
                try:
                    async with asyncio.timeout(STILL_THERE_SECONDS):
                        index, event = await self.queue.get()
                except TimeoutError:
                    yield None
                    continue
                await asyncio.sleep(0)  # a queue that is never empty would hide that one left
                if event is None or gone.done():
                    raise Left
                self._settle(index, event)
                yield index, event
        finally:
            gone.cancel()
            for ticket in self.tickets.values():
                ticket.cancel()

    def _begin(self) -> None:
        while self.waiting and len(self.tickets) < self.width:
            index = self.waiting[-1]
            job = self.jobs[index]
            try:
                if job.echo is None and job.is_answered:
                    self._answer(index)
                elif job.echo is None or job.wishes.logprobs is None:
                    self.tickets[index] = Nothing()
                    self.queue.put_nowait((index, Scores(())))
                else:
                    top = job.wishes.logprobs
                    self.tickets[index] = self.engine.score(job.tokens, top, self._to(index))
            except OverloadError:
                if not self.tickets:
                    raise
                return  # again when one of these has ended
            self.waiting.pop()

    def _answer(self, index: int) -> None:
        job = self.jobs[index]
        self.tickets[index] = self.engine.submit(job.tokens, job.wishes, self._to(index))

    def _settle(self, index: int, event: Event) -> None:
        """Ends a job with its last event, and begins what follows."""
        if isinstance(event, Scores) and self.jobs[index].is_answered:
            self._answer(index)
        elif isinstance(event, (Scores, Failed)) or (
            isinstance(event, Piece) and event.finish is not None
        ):
            self.cached[index] = self.tickets.pop(index).cached
            self._begin()

    def _to(self, index: int) -> Callable[[Event], None]:
        def deliver(event: Event) -> None:
            with suppress(RuntimeError):  # the loop has been closed
                self.loop.call_soon_threadsafe(self.queue.put_nowait, (index, event))

        return deliver

    def end(self, error: BaseException) -> None:
        """Ends every job that has not ended; may be called from any thread."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._fail, error)

    def _fail(self, error: BaseException) -> None:
        self.waiting.clear()
        for index in self.tickets:
            self.queue.put_nowait((index, Failed(error)))

    async def _gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.queue.put_nowait((-1, None))
