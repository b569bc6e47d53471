"""Calls of tools in the text of an answer, in the ways in which models were trained to write them.

::

    <tool_call>{"name": ..., "arguments": {...}}</tool_call>      Hermes, Qwen: any number, anywhere
    [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]          Mistral: all of the answer
    <|python_tag|>{"name": ..., "parameters": {...}}; {...}       Llama 3: all of the answer

Where a mark is a control token, the text has only the JSON after it.  A call is of a tool that was
offered; all else is text, so that nothing that the model wrote is lost.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection
from typing import Any

from tfn.extend import frozen

OPEN, CLOSE = "<tool_call>", "</tool_call>"
MARKS = ("[TOOL_CALLS]", "<|python_tag|>")
BEGINNINGS = (*MARKS, "{", "[{")
"""Texts with which an answer begins that may be calls and nothing else."""


@frozen
class Call:
    """A call of a tool.

    Attributes:
        number: of the call in its answer.
        name: of the tool.
        arguments: an object in JSON.
        id: by which a message of the tool answers it.
    """

    number: int
    name: str
    arguments: str
    id: str


class Reader:
    """The calls in one answer, whose text comes in parts.

    Args:
        names: of the tools that were offered.
    """

    def __init__(self, names: Collection[str]) -> None:
        self.names = names
        self.held = ""
        self.said = False  # whether there was text that is no call
        self.count = 0

    def take(self, text: str, is_last: bool) -> tuple[str, tuple[Call, ...]]:
        """The text that is certain to be no part of a call, and the calls that have ended.

        Args:
            text: the next part.
            is_last: whether the answer has ended.

        Example:
            >>> text, calls = Reader({"add"}).take('<tool_call>{"name": "add"}</tool_call>', True)
            >>> text, calls[0].name, calls[0].arguments
            ('', 'add', '{}')
        """
        self.held += text
        plain, calls = "", list[Call]()
        while (at := self.held.find(OPEN)) >= 0:
            end = self.held.find(CLOSE, at)
            if end < 0 and not is_last:
                return self._told(plain), tuple(calls)
            inside = self.held[at + len(OPEN) : end if end >= 0 else None]
            found = self._calls(inside)
            before, self.held = self.held[:at], self.held[end + len(CLOSE) :] if end >= 0 else ""
            calls += found
            whole = f"{before}{OPEN}{inside}{CLOSE if end >= 0 else ''}"
            plain += before.rstrip() if found else whole
        return self._told(plain + self._rest(calls, is_last)), tuple(calls)

    def _rest(self, calls: list[Call], is_last: bool) -> str:
        """Text after the last call that is certain."""
        text = self.held.lstrip()
        if not self.said and not self.count:
            if is_last and text.startswith(BEGINNINGS):
                calls += self._calls(text)
            elif not is_last and any(_begins(text, mark) for mark in BEGINNINGS):
                return ""
        if is_last:
            return "" if self.count and (calls or not text) else self.held
        kept = next((n for n in range(len(OPEN) - 1, 0, -1) if self.held.endswith(OPEN[:n])), 0)
        sure = self.held[: len(self.held) - kept].rstrip()
        self.held = self.held[len(sure) :]
        return sure

    def _told(self, text: str) -> str:
        self.said |= bool(text)
        return text

    def _calls(self, text: str) -> list[Call]:
        """The calls that a text consists of; none if it is anything else."""
        for mark in MARKS:
            text = text.strip().removeprefix(mark)
        found: list[Any] = []
        try:
            while text := text.strip(" \t\r\n;"):
                value, end = json.JSONDecoder().raw_decode(text)
                found += value if isinstance(value, list) else [value]
                text = text[end:]
        except (ValueError, RecursionError):
            return []
        rows = []
        for value in found:
            name = value.get("name") if isinstance(value, dict) else None
            if not isinstance(name, str) or name not in self.names:
                return []
            arguments = value.get("arguments", value.get("parameters", {}))
            if isinstance(arguments, str):
                rows.append((name, arguments))
            else:
                rows.append((name, json.dumps(arguments, ensure_ascii=False)))
        calls = [
            Call(self.count + n, name, arguments, f"call_{uuid.uuid4().hex[:24]}")
            for n, (name, arguments) in enumerate(rows)
        ]
        self.count += len(calls)
        return calls


def _begins(text: str, mark: str) -> bool:
    """Whether a text begins with a mark, as far as it goes."""
    return text.startswith(mark) or mark.startswith(text)
