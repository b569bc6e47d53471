"""Answers in the forms of OpenAI's interface: whole ones, and the chunks of streams."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

from tfn import __version__
from tfn.extend import frozen
from tfn.llm.sampling import Choice
from tfn.llm.serve.tools import Call
from tfn.llm.tokenizer import Tokenizer

LEAST_LOGPROB = -9999.0
"""Stands for minus infinity, which JSON does not have."""

Json = dict[str, Any]


@frozen
class Part:
    """A part of an answer, or all of it.

    Attributes:
        text: that became certain.
        choices: tokens with their probabilities, where these were asked for.
        finish: why it is the last part.
        calls: of tools.
    """

    text: str = ""
    choices: tuple[Choice, ...] = ()
    finish: str | None = None
    calls: tuple[Call, ...] = ()


class Form(Protocol):
    """The form of the answers of a route."""

    @property
    def prefix(self) -> str:
        """The beginning of identifiers."""

    @property
    def kinds(self) -> tuple[str, str]:
        """The names of whole answers and of chunks."""

    def opening(self, index: int) -> Json | None:
        """The chunk of a stream before the first part, if there is one."""

    def chunk(self, index: int, part: Part, offset: int) -> Json:
        """A part in a stream, before which there are so many characters."""

    def whole(self, index: int, part: Part) -> Json:
        """A whole answer."""


@frozen
class ChatForm:
    """The form of /v1/chat/completions.

    Attributes:
        words: the tokenizer.
        logged: whether probabilities were asked for.
    """

    words: Tokenizer
    logged: bool
    prefix: str = "chatcmpl"
    kinds: tuple[str, str] = ("chat.completion", "chat.completion.chunk")

    def opening(self, index: int) -> Json | None:
        """The role of who answers."""
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def chunk(self, index: int, part: Part, offset: int) -> Json:
        """A difference to the message so far."""
        delta: Json = {"content": part.text} if part.text else {}
        if part.calls:
            delta["tool_calls"] = [{"index": c.number} | called(c) for c in part.calls]
        return {"index": index, "delta": delta} | self._end(part)

    def whole(self, index: int, part: Part) -> Json:
        """A message."""
        message: Json = {"role": "assistant", "content": part.text, "refusal": None}
        if part.calls:
            calls = [called(c) for c in part.calls]
            message |= {"content": part.text or None, "tool_calls": calls}
        return {"index": index, "message": message} | self._end(part)

    def _end(self, part: Part) -> Json:
        logs = None
        if self.logged and part.choices:
            shown = [c for c in part.choices if c.token not in self.words.ends]
            logs = {"content": [self._token(c) for c in shown], "refusal": None}
        return {"logprobs": logs, "finish_reason": part.finish}

    def _token(self, choice: Choice) -> Json:
        return self._named(choice.token, choice.logprob) | {
            "top_logprobs": [self._named(token, value) for token, value in choice.top]
        }

    def _named(self, token: int, logprob: float | None) -> Json:
        raw = self.words.pieces[token] if token < len(self.words.pieces) else b""
        return {
            "token": raw.decode("utf-8", "replace"),
            "logprob": finite(logprob),
            "bytes": [*raw],
        }


@frozen
class CompletionForm:
    """The form of /v1/completions.

    Attributes:
        words: the tokenizer.
        logged: whether probabilities were asked for.
    """

    words: Tokenizer
    logged: bool
    prefix: str = "cmpl"
    kinds: tuple[str, str] = ("text_completion", "text_completion")

    def opening(self, index: int) -> Json | None:
        """Nothing."""
        return None

    def chunk(self, index: int, part: Part, offset: int) -> Json:
        """A part of a text."""
        logs = self._logs(part.choices, offset) if self.logged else None
        return {
            "index": index,
            "text": part.text,
            "logprobs": logs,
            "finish_reason": part.finish,
        }

    def whole(self, index: int, part: Part) -> Json:
        """A text."""
        return self.chunk(index, part, 0)

    def _logs(self, choices: Sequence[Choice], offset: int) -> Json:
        names = [self._name(choice.token) for choice in choices]
        offsets = []
        for choice in choices:
            offsets.append(offset)
            offset += len(self.words.bytes_of(choice.token).decode("utf-8", "replace"))
        return {
            "tokens": names,
            "token_logprobs": [finite(choice.logprob) for choice in choices],
            "top_logprobs": [self._top(choice) for choice in choices],
            "text_offset": offsets,
        }

    def _top(self, choice: Choice) -> dict[str, float | None] | None:
        """The likeliest tokens, and the one itself, by their names."""
        if choice.logprob is None:
            return None
        rows = [*choice.top, (choice.token, choice.logprob)]
        return {self._name(token): finite(value) for token, value in reversed(rows)}

    def _name(self, token: int) -> str:
        raw = self.words.pieces[token] if token < len(self.words.pieces) else b""
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def called(call: Call) -> Json:
    """A call of a tool."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def finite(logprob: float | None) -> float | None:
    """A logarithm that JSON can hold."""
    return None if logprob is None else max(logprob, LEAST_LOGPROB)


def head(prefix: str, model: str) -> Json:
    """Fields that all parts of an answer share."""
    return {
        "id": f"{prefix}-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": f"tfn-{__version__}",
    }


def usage(prompt: int, answer: int, cached: int) -> Json:
    """The tokens that an answer took, and those of its prompt that were known before."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
