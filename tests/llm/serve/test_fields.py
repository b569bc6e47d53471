"""Fields of requests: what each may hold, and the names in refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tfn.llm.serve import fields
from tfn.llm.serve.refusal import Refused

WRONG: dict[str, tuple[Any, ...]] = {
    "temperature": (-0.1, 101, "1", True, [], 1e999),
    "top_p": (1.01, "a"),
    "top_k": (-1, 1.5, "3"),
    "min_p": (-1, 2),
    "repetition_penalty": (0, 101),
    "frequency_penalty": (-2.1, 2.1),
    "presence_penalty": (3, {}),
    "model": (1, []),
    "stop": ("", [""], [1], 5, ["a"] * 17, "a" * 501),
    "seed": (1.5, "1", 1 << 64, True),
    "n": (0, 129, 1.0),
    "stream": (1, "true"),
    "stream_options": ([], 1),
    "response_format": ("json", []),
    "logit_bias": ({"1": 1}, 1),
    "max_tokens": (-1, 1.5, "9"),
}
"""For each field of both kinds of request values that it does not take."""

CHAT: dict[str, tuple[Any, ...]] = {
    "messages": ([], "a", {}),
    "max_completion_tokens": (-1,),
    "logprobs": (1, "a"),
    "top_logprobs": (21, -1, True),
    "tools": ({}, "a"),
    "tool_choice": ("required", {"type": "function"}),
    "parallel_tool_calls": (1,),
    "chat_template_kwargs": ([],),
    "modalities": (["audio"], "text"),
}
COMPLETION: dict[str, tuple[Any, ...]] = {
    "prompt": ([], [[]], ["a", 1], [1.5], [True], {}, 1, ["a"] * 2049, [[1], "a"]),
    "logprobs": (True, 21, -1),
    "echo": (1,),
    "best_of": (0,),
    "suffix": ("a", 1),
}
EMBEDDING: dict[str, tuple[Any, ...]] = {
    "input": ([], 1),
    "encoding_format": ("hex", 1),
    "dimensions": (0, "1"),
}
TABLES = [
    (fields.CHAT, WRONG | CHAT, {"messages": [{"role": "user", "content": "a"}]}),
    (fields.COMPLETION, WRONG | COMPLETION, {"prompt": "a"}),
    (fields.EMBEDDING, EMBEDDING | {"model": (1,)}, {"input": "a"}),
]


@pytest.mark.parametrize(("table", "wrong", "least"), TABLES)
def test_every_field_refuses_other_values_by_its_name(
    table: Any, wrong: dict[str, tuple[Any, ...]], least: Any
) -> None:
    assert wrong.keys() == table.keys()
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(Refused) as found:
                fields.read(table, least | {name: value})
            refused = found.value
            assert (refused.status, refused.param) == (400, name), (name, value)
            assert refused.message.startswith(f"{name} must be "), value


@pytest.mark.parametrize(("table", "wrong", "least"), TABLES)
def test_null_and_nothing_are_the_default(table: Any, wrong: Any, least: Any) -> None:
    plain = fields.read(table, least)
    nulls = dict.fromkeys(table.keys() - least.keys())
    assert fields.read(table, least | nulls) == plain and plain.keys() == table.keys()


def test_unknown_and_missing_fields_are_named() -> None:
    with pytest.raises(Refused, match="no parameter temprature"):
        fields.read(fields.COMPLETION, {"prompt": "a", "temprature": 1})
    with pytest.raises(Refused, match="prompt is missing"):
        fields.read(fields.COMPLETION, {"prompt": None})
    with pytest.raises(Refused, match=r"no parameter stream_options\.usage"):
        fields.read(fields.STREAM_OPTIONS, {"usage": True}, "stream_options.")
    assert fields.read(fields.EMBEDDING, {"input": [1, 2], "user": "me"})["input"] == [1, 2]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": "\\ud800"}', "surrogates"),
        (b"[" * 100_000, "too many brackets"),
        (b'{"a":' * 100_000, "too many brackets"),
        (b'{"a": ' + b"1" * 5000 + b"}", "no JSON"),
        (b"[]", "object"),
        (b'"a"', "object"),
    ],
)
def test_bodies_that_are_no_object_of_json_are_refused(raw: bytes, why: str) -> None:
    with pytest.raises(Refused, match=why) as found:
        fields.parsed(raw)
    assert found.value.status == 400 and len(found.value.message) < 300
