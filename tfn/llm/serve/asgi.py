"""Answers and bodies in ASGI, the interface between servers and applications.

Source: https://asgi.readthedocs.io/en/latest/specs/www.html.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from tfn.extend import frozen
from tfn.llm.serve.refusal import Refused

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_BYTES = 16 << 20
"""The most bytes of a request: more than the text of a context of a million tokens."""

DRAINED_BYTES = 4 * BODY_BYTES
"""The bytes that are read of a longer one, whose sender listens for an answer only behind it."""

BODY_SECONDS = 60.0
"""The time that a request has to arrive."""


class Left(Exception):
    """The client has left."""


@frozen
class Answer:
    """A whole answer, an application of ASGI.

    Attributes:
        raw: its body.
        media: the type of that.
        status: of HTTP.
        headers: more of them.
    """

    raw: bytes
    media: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        headers = {
            "Content-Type": self.media,
            "Content-Length": str(len(self.raw)),
            **(self.headers or {}),
        }
        await send(start(self.status, headers))
        await send({"type": "http.response.body", "body": self.raw})


def start(status: int, headers: Mapping[str, str]) -> Message:
    """The message before a body."""
    pairs = [(name.lower().encode(), text.encode("latin-1")) for name, text in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": pairs}


def in_json(value: Any) -> bytes:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def answer(value: Any) -> Answer:
    """An answer in JSON."""
    return Answer(in_json(value))


def refusing(refused: Refused) -> Answer:
    """The answer of a refusal."""
    return Answer(in_json(refused.body), status=refused.status, headers=refused.headers)


async def body(receive: Receive) -> bytes:
    """The bytes of a request.

    Raises:
        Refused: for too many of them, or if they take too long.
        Left: if the client leaves before the last.
    """
    kept, size, more = bytearray(), 0, True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more and size <= DRAINED_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Left
                part, more = message.get("body", b""), message.get("more_body", False)
                size += len(part)
                if size <= BODY_BYTES:
                    kept += part
    except TimeoutError:
        why = f"The request has not arrived within {BODY_SECONDS:g} s."
        raise Refused(408, why, code="timeout") from None
    if size > BODY_BYTES:
        why = f"The request has more than {BODY_BYTES:,} bytes."
        raise Refused(413, why, code="request_too_large")
    return bytes(kept)
