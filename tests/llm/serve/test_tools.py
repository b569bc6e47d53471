"""Calls of tools in answers: the ways of models, whole and letter by letter."""

from __future__ import annotations

import json

import pytest

from tfn.llm.serve.tools import Call, Reader

ADD = '{"name": "add", "arguments": {"a": 1, "b": "</x>"}}'
SAY = '{"name": "say", "parameters": {}}'
CALLS = ("add", {"a": 1, "b": "</x>"}), ("say", {})

ROWS = {
    "no call": ("Hello, {world}.\n", "Hello, {world}.\n", ()),
    "hermes": (f"\n<tool_call>\n{ADD}\n</tool_call>", "", CALLS[:1]),
    "two": (f"<tool_call>{ADD}</tool_call>\n<tool_call>{SAY}</tool_call>\n", "", CALLS),
    "text before": (f"I add.\n<tool_call>{ADD}</tool_call>", "I add.", CALLS[:1]),
    "text after": (f"<tool_call>{SAY}</tool_call>\nDone.", "\nDone.", CALLS[1:]),
    "not closed": (f"<tool_call>{ADD}", "", CALLS[:1]),
    "cut": ('<tool_call>{"name": "ad', '<tool_call>{"name": "ad', ()),
    "no json": ("a<tool_call>x</tool_call>b", "a<tool_call>x</tool_call>b", ()),
    "unknown": (
        '<tool_call>{"name": "rm"}</tool_call>',
        '<tool_call>{"name": "rm"}</tool_call>',
        (),
    ),
    "mark in part": ("1 <tool_ 2 <", "1 <tool_ 2 <", ()),
    "llama": (f" {SAY}", "", CALLS[1:]),
    "llama, two": (f"<|python_tag|>{ADD}; {SAY}", "", CALLS),
    "mistral": (f"[TOOL_CALLS][{ADD}, {SAY}]", "", CALLS),
    "mistral, mark hidden": (f"[{ADD}]", "", CALLS[:1]),
    "json that is no call": ('{"answer": 42}', '{"answer": 42}', ()),
    "json after text": (f"See {SAY}", f"See {SAY}", ()),
    "text in arguments": ('{"name": "say", "arguments": "{}"}', "", CALLS[1:]),
    "deep": ("[" * 9999, "[" * 9999, ()),
    "empty": ("", "", ()),
    "space": (" \n", " \n", ()),
}


@pytest.mark.parametrize("step", [1, 3, 10_000])
@pytest.mark.parametrize("answer, text, calls", ROWS.values(), ids=ROWS)
def test_calls_are_found_and_nothing_else_is_lost(
    answer: str, text: str, calls: object, step: int
) -> None:
    reader, said, found = Reader({"add", "say"}), "", list[Call]()
    for at in [*range(0, len(answer), step), len(answer)]:
        part = answer[at : at + step]
        more, new = reader.take(part, at >= len(answer))
        said += more
        found += new
    assert said == text
    assert tuple((c.name, json.loads(c.arguments)) for c in found) == calls
    assert [c.number for c in found] == [*range(len(found))]
    assert len({c.id for c in found}) == len(found)


def test_text_is_given_as_soon_as_it_is_no_call() -> None:
    reader = Reader({"add"})
    assert reader.take("Hello", False)[0] == "Hello"
    assert reader.take(" <b>", False)[0] == " <b>"
    assert reader.take(" <tool", False)[0] == ""
    assert reader.take("s>", False)[0] == " <tools>"
