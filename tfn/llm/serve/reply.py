"""Answers to chats and completions, whole or as a stream of events."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from tfn.extend import frozen
from tfn.llm.answer import STOP, Piece
from tfn.llm.engine import Event, Failed, Progress, Scores
from tfn.llm.sampling import Choice
from tfn.llm.serve import forms
from tfn.llm.serve.asgi import Left, Receive, Scope, Send, answer, in_json, start
from tfn.llm.serve.flow import Flow
from tfn.llm.serve.forms import Form, Json, Part
from tfn.llm.serve.refusal import Refused, of_error
from tfn.llm.serve.report import Report
from tfn.llm.serve.tools import Reader

HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
DONE, ALIVE = b"data: [DONE]\n\n", b": \n\n"


@frozen
class Wanted:
    """The way in which a request wants its answer.

    Attributes:
        stream: in parts.
        usage: a part with the number of tokens comes last.
        progress: parts that say how much of the prompt has been read.
    """

    stream: bool
    usage: bool
    progress: bool


class Reply:
    """The answer to a request, an application of ASGI.

    Args:
        flow: the work for it.
        form: of what is sent.
        model: its name.
        wanted: by the request.
        report: the console.
        number: of the request, there.
    """

    def __init__(
        self,
        flow: Flow,
        form: Form,
        model: str,
        wanted: Wanted,
        report: Report,
        number: int,
    ) -> None:
        self.flow, self.form, self.wanted = flow, form, wanted
        self.report, self.number = report, number
        self.head = forms.head(form.prefix, model)
        self.begun = time.perf_counter()
        self.first: float | None = None  # when the first token came
        self.made = 0  # tokens
        self.tools = [Reader(job.tools) if job.tools else None for job in flow.jobs]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the answer; nothing more once the client has left."""
        send_all = self._stream if self.wanted.stream else self._whole
        try:
            async with aclosing(self.flow.events(receive)) as events:
                await send_all(events, scope, receive, send)
        except Left:
            self.report.line(f"request {self.number}: the client has left")
        else:
            self.report.line(f"request {self.number}: {self._told()}")
        finally:
            self.report.ended(self.number)

    async def _whole(self, events: AsyncIterator[Any], scope: Scope, *channels: Any) -> None:
        parts: list[list[Part]] = [[] for _ in self.flow.jobs]
        async for found in events:
            if found is not None:
                index, event = found
                if isinstance(event, Failed):
                    raise self._failed(event.error)
                parts[index] += self._parts(index, event)
        choices = [self.form.whole(n, joined(own)) for n, own in enumerate(parts)]
        whole = self._around(self.form.kinds[0], choices) | {"usage": self._usage()}
        await answer(whole)(scope, *channels)

    async def _stream(
        self, events: AsyncIterator[Any], scope: Scope, receive: Receive, send: Send
    ) -> None:
        kind, offsets = self.form.kinds[1], [0] * len(self.flow.jobs)
        nothing = {"usage": None} if self.wanted.usage else {}

        async def say(raw: bytes) -> None:
            await send({"type": "http.response.body", "body": raw, "more_body": True})

        async def say_chunk(choices: Sequence[Json], other: Json) -> None:
            await say(event_of(self._around(kind, choices) | other))

        begun = False
        async for found in events:
            failed = found[1].error if found and isinstance(found[1], Failed) else None
            if not begun:
                if failed is not None:
                    raise self._failed(failed)
                begun = True
                await send(start(200, HEADERS))
                for index in range(len(self.flow.jobs)):
                    if (opening := self.form.opening(index)) is not None:
                        await say_chunk([opening], nothing)
            if found is None:
                await say(ALIVE)
                continue
            index, event = found
            if failed is not None:
                await say(event_of(self._failed(failed).body))
                break
            if isinstance(event, Progress) and self.wanted.progress:
                state = {"index": index, "done": event.done, "total": event.total}
                await say_chunk([], nothing | {"progress": state | {"cached": event.cached}})
            for part in self._parts(index, event):
                if part.text or part.finish or part.choices or part.calls:
                    chunk = self.form.chunk(index, part, offsets[index])
                    offsets[index] += len(part.text)
                    await say_chunk([chunk], nothing)
        else:
            if self.wanted.usage:
                await say_chunk([], {"usage": self._usage()})
        await say(DONE)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _parts(self, index: int, event: Event) -> list[Part]:
        """The parts that an event adds to an answer."""
        self.report.event(self.number, event)
        job = self.flow.jobs[index]
        parts = []
        if isinstance(event, Scores):
            known = zip(job.tokens, event.choices)
            choices = tuple(Choice(t) if found is None else found for t, found in known)
            finish = None if job.is_answered else "length"
            parts.append(Part(job.echo or "", choices, finish))
        if isinstance(event, Piece):
            self.made += 1
            if self.first is None:
                self.first = time.perf_counter()
            choices = (event.choice,) if job.wishes.logprobs is not None else ()
            parts.append(self._read(index, Part(event.text, choices, event.finish)))
        return parts

    def _read(self, index: int, part: Part) -> Part:
        """A part with the calls of tools in its text."""
        reader = self.tools[index]
        if reader is None:
            return part
        text, calls = reader.take(part.text, part.finish is not None)
        finish = "tool_calls" if part.finish == STOP and reader.count else part.finish
        return replace(part, text=text, calls=calls, finish=finish)

    def _failed(self, error: BaseException) -> Refused:
        """The refusal that an error of the engine becomes."""
        refused = of_error(error)
        if refused.status == 500:
            self.report.failed(error)
        return refused

    def _told(self) -> str:
        used = self._usage()
        known = used["prompt_tokens_details"]["cached_tokens"]
        told = f"prompt of {used['prompt_tokens']:,} tokens"
        told += f" ({known:,} known)" if known else ""
        now = time.perf_counter()
        told += f", answer of {self.made:,} in {now - self.begun:.2f} s"
        if self.first is not None and self.made > 1:
            told += f", {(self.made - 1) / (now - self.first):.1f} tokens/s"
        return told

    def _around(self, kind: str, choices: Sequence[Json]) -> Json:
        return {**self.head, "object": kind, "choices": [*choices]}

    def _usage(self) -> Json:
        jobs = self.flow.jobs
        first = [n for n, job in enumerate(jobs) if not n or job.tokens is not jobs[n - 1].tokens]
        prompt = sum(len(jobs[n].tokens) for n in first)
        return forms.usage(prompt, self.made, sum(self.flow.cached[n] for n in first))


def joined(parts: Sequence[Part]) -> Part:
    """An answer of its parts."""
    return Part(
        "".join(part.text for part in parts),
        tuple(choice for part in parts for choice in part.choices),
        next((part.finish for part in parts if part.finish), None),
        tuple(call for part in parts for call in part.calls),
    )


def event_of(value: Json) -> bytes:
    """An object as an event of a stream."""
    return b"data: " + in_json(value) + b"\n\n"
