"""Fields of requests: which there are, what they may hold, and what they are if left out.

A table for each kind of request; a field that has no row is refused, since a wish that is dropped
without a word is worse than an error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from tfn.extend import frozen
from tfn.llm.sampling import BOUNDS
from tfn.llm.serve.refusal import Refused

MOST_CHOICES = 128
"""The most answers to one prompt."""

MOST_STOPS, STOP_LENGTH = 16, 500
"""The most stop texts, and the most characters of one."""

MOST_MESSAGES, MOST_INPUTS = 10_000, 2_048
"""The most messages of a chat, and the most prompts of a request."""

Check = Callable[[Any], str | None]
"""Gives the values that are allowed, in words, for another one; None for one of them."""


@frozen
class Field:
    """A field of a request.

    Attributes:
        check: of its value.
        default: the value of one that is left out, or null.
        needed: whether it must be there.
    """

    check: Check
    default: Any = None
    needed: bool = False


def _number(least: float, most: float) -> Check:
    whole = isinstance(least, int)

    def check(value: Any) -> str | None:
        fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        if fits and math.isfinite(value) and least <= value <= most:
            return None
        return f"a {'whole ' if whole else ''}number from {least:,g} to {most:,g}"

    return check


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def _text(value: Any) -> str | None:
    return None if is_text(value) else "a text"


def _object(value: Any) -> str | None:
    return None if isinstance(value, dict) else "an object"


def _list(value: Any) -> str | None:
    return None if isinstance(value, list) else "a list"


def _one_of(*names: Any) -> Check:
    words = ", ".join(map(json.dumps, names))
    return lambda value: None if value in names else f"one of {words}"


def _stops(value: Any) -> str | None:
    texts = value if isinstance(value, list) else [value]
    fits = all(is_text(text) and 0 < len(text) <= STOP_LENGTH for text in texts)
    if fits and len(texts) <= MOST_STOPS:
        return None
    return f"a text of 1 to {STOP_LENGTH} characters, or a list of at most {MOST_STOPS} of them"


def _prompts(value: Any) -> str | None:
    """A text, tokens, or a list of texts or of tokens."""
    if is_text(value) or _is_tokens(value):
        return None
    fits = isinstance(value, list) and 0 < len(value) <= MOST_INPUTS
    if fits and (all(map(is_text, value)) or all(map(_is_tokens, value))):
        return None
    return f"a text, a list of tokens, or a list of 1 to {MOST_INPUTS:,} of these"


def _messages(value: Any) -> str | None:
    fits = isinstance(value, list) and 0 < len(value) <= MOST_MESSAGES
    return None if fits else f"a list of 1 to {MOST_MESSAGES:,} messages"


def _seed(value: Any) -> str | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64
    return None if fits else "a whole number of 64 bits"


def is_text(value: Any) -> bool:
    """Whether a value is a text."""
    return isinstance(value, str)


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(token) is int for token in value)


def _no(why: str) -> Check:
    return lambda value: None if value in (False, 0, [], {}) else f"left out: {why}"


_SAMPLED: dict[str, Field] = {
    name: Field(_number(*BOUNDS[name]), default)
    for name, default in {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
    }.items()
}

_COMMON: dict[str, Field] = {
    **_SAMPLED,
    "model": Field(_text),
    "stop": Field(_stops, ()),
    "seed": Field(_seed),
    "n": Field(_number(1, MOST_CHOICES), 1),
    "stream": Field(_flag, False),
    "stream_options": Field(_object, {}),
    "response_format": Field(_object, {"type": "text"}),
    "logit_bias": Field(_no("tfn has no biases of tokens")),
}

CHAT: dict[str, Field] = {
    **_COMMON,
    "messages": Field(_messages, needed=True),
    "max_tokens": Field(_number(*BOUNDS["max_tokens"])),
    "max_completion_tokens": Field(_number(*BOUNDS["max_tokens"])),
    "logprobs": Field(_flag, False),
    "top_logprobs": Field(_number(*BOUNDS["logprobs"]), 0),
    "tools": Field(_list, ()),
    "tool_choice": Field(_one_of("auto", "none"), "auto"),
    "parallel_tool_calls": Field(_flag, True),
    "chat_template_kwargs": Field(_object, {}),
    "modalities": Field(lambda v: None if v == ["text"] else '["text"]'),
}
"""Fields of /v1/chat/completions."""

COMPLETION: dict[str, Field] = {
    **_COMMON,
    "prompt": Field(_prompts, needed=True),
    "max_tokens": Field(_number(*BOUNDS["max_tokens"]), 16),
    "logprobs": Field(_number(*BOUNDS["logprobs"])),
    "echo": Field(_flag, False),
    "best_of": Field(_number(1, MOST_CHOICES)),
    "suffix": Field(lambda value: None if value == "" else "left out: tfn fills no gaps"),
}
"""Fields of /v1/completions."""

EMBEDDING: dict[str, Field] = {
    "model": Field(_text),
    "input": Field(_prompts, needed=True),
    "encoding_format": Field(_one_of("float", "base64"), "float"),
    "dimensions": Field(_number(1, 1 << 20)),
}
"""Fields of /v1/embeddings."""

TOKENIZE: dict[str, Field] = {
    "model": Field(_text),
    "prompt": Field(_text, needed=True),
    "add_special_tokens": Field(_flag, True),
}
"""Fields of /tokenize."""

DETOKENIZE: dict[str, Field] = {
    "model": Field(_text),
    "tokens": Field(lambda value: None if _is_tokens(value) else "a list of tokens", needed=True),
}
"""Fields of /detokenize."""

STREAM_OPTIONS: dict[str, Field] = {
    "include_usage": Field(_flag, False),
    "include_progress": Field(_flag, False),
    "include_obfuscation": Field(_flag, False),
}
RESPONSE_FORMAT: dict[str, Field] = {
    "type": Field(_one_of("text", "json_object"), needed=True),
}

# fmt: off
IGNORED = frozenset({
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention",
})
# fmt: on
"""Fields that change no answer."""


def read(fields: Mapping[str, Field], given: Mapping[str, Any], inside: str = "") -> dict[str, Any]:
    """The value of every field of a request.

    Args:
        fields: that there are.
        given: the request.
        inside: the field that has it, followed by a dot; none for a whole request.

    Raises:
        Refused: naming a field that there is not, that is missing, or that has a wrong value.
    """
    for name in given:
        if name not in fields and (inside or name not in IGNORED):
            near = ", ".join(sorted(fields))
            raise Refused(
                400,
                f"There is no parameter {inside}{name}.  There are {near}.",
                code="unknown_parameter",
                param=inside + name,
            )
    found = {}
    for name, field in fields.items():
        value = given.get(name)
        if value is None:
            if field.needed:
                raise Refused(
                    400,
                    f"The parameter {inside}{name} is missing.",
                    code="missing_required_parameter",
                    param=inside + name,
                )
            value = field.default
        elif (wanted := field.check(value)) is not None:
            raise wrong(inside + name, wanted, value)
        found[name] = value
    return found


def wrong(param: str, wanted: str, value: Any) -> Refused:
    """The refusal of a value.

    Args:
        param: that has it.
        wanted: what it has to be, in words.
        value: what it is.
    """
    told = json.dumps(value)
    told = told if len(told) <= 80 else told[:77] + "..."
    return Refused(
        400, f"{param} must be {wanted}; it is {told}.", code="invalid_value", param=param
    )


def parsed(raw: bytes) -> dict[str, Any]:
    """A request in JSON.

    Raises:
        Refused: for anything else.
    """
    try:
        found = json.loads(raw, parse_constant=_no_constant)
        if b"\\u" in raw:  # an escape may be half of a pair of UTF-16, which is no character
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        why = "too many brackets within each other" if isinstance(error, RecursionError) else error
        raise Refused(400, f"The body is no JSON: {why}.", code="invalid_json") from None
    if not isinstance(found, dict):
        raise Refused(400, "The body must be an object of JSON.", code="invalid_json")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
