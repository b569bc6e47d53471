"""Prompts of requests: from fields to tokens and wishes, one job for each answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfn.errors import ArgumentError, StateError
from tfn.extend import frozen
from tfn.llm.generation import template_of, tokenizer_of
from tfn.llm.model import Model
from tfn.llm.sampling import BOUNDS, Sampling
from tfn.llm.serve.fields import RESPONSE_FORMAT, is_text, read, wrong
from tfn.llm.serve.refusal import Refused, too_long
from tfn.llm.tokenizer import check_tokens

ROLES = ("system", "developer", "user", "assistant", "tool")

OWN_NAMES = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}
"""Names in templates that a request may not set by itself."""

MOST_ANSWERS = 4_096
"""The most answers to one request, of all its prompts."""

SAMPLED = [name for name in BOUNDS if name not in ("max_tokens", "logprobs", "seed")]
"""Wishes that have the same name in requests."""


@frozen
class Job:
    """Work for one answer.

    Attributes:
        tokens: of the prompt.
        wishes: for the answer.
        echo: the text of the prompt, if it is part of the answer.
        tools: names of those that the answer may call.
    """

    tokens: Sequence[int]
    wishes: Sampling
    echo: str | None = None
    tools: frozenset[str] = frozenset()

    @property
    def is_answered(self) -> bool:
        """Whether any token is to follow the prompt."""
        return self.wishes.max_tokens != 0


def of_chat(model: Model, context: int, given: Mapping[str, Any]) -> list[Job]:
    """The jobs of a chat.

    Raises:
        Refused: for messages or tools that cannot be, or that the context has no room for.
    """
    messages = [_message(f"messages[{n}]", m) for n, m in enumerate(given["messages"])]
    template = template_of(model)
    values = dict(given["chat_template_kwargs"])
    if taken := sorted(values.keys() & OWN_NAMES):
        raise wrong("chat_template_kwargs", f"without {taken[0]}", values)
    if given["tools"] and given["tool_choice"] != "none":
        if "tools" not in template.source:
            why = "The chat template of this model has no place for tools."
            raise Refused(400, why, code="unsupported_parameter", param="tools")
        values["tools"] = [_tool(f"tools[{n}]", tool) for n, tool in enumerate(given["tools"])]
    tools = frozenset(tool["function"]["name"] for tool in values.get("tools", ()))
    size = sum(len(m["content"].encode()) for m in messages if m.get("content"))
    _check_size(model, size, context, "messages")
    try:
        text = template.render(messages, **values)
    except (ArgumentError, StateError) as error:
        raise Refused(400, str(error), code="template_error", param="messages") from None
    tokens = _encoded(model, text, context, "messages")
    both = given["max_completion_tokens"], given["max_tokens"]
    top = given["top_logprobs"] if given["logprobs"] else None
    if given["top_logprobs"] and top is None:
        raise wrong("top_logprobs", "left out where logprobs is not true", given["top_logprobs"])
    limit = next((most for most in both if most is not None), None)
    return _repeated(Job(tokens, _wishes(given, limit, top), tools=tools), given["n"])


def of_completion(model: Model, context: int, given: Mapping[str, Any]) -> list[Job]:
    """The jobs of prompts to be continued: for each of them, `n`.

    Raises:
        Refused: for prompts that cannot be, or that the context has no room for.
    """
    if given["best_of"] not in (None, given["n"]):
        raise wrong("best_of", "n: tfn gives every answer that it makes", given["best_of"])
    wishes = _wishes(given, given["max_tokens"], given["logprobs"])
    prompts = texts_of(given["prompt"])
    if len(prompts) * given["n"] > MOST_ANSWERS:
        raise wrong("n", f"so small that there are at most {MOST_ANSWERS:,} answers", given["n"])
    jobs = []
    for prompt in prompts:
        tokens = tokens_of(model, prompt, context, "prompt", int(wishes.max_tokens != 0))
        shown = prompt if isinstance(prompt, str) else tokenizer_of(model).decode(tokens)
        job = Job(tokens, wishes, shown if given["echo"] else None)
        jobs += _repeated(job, given["n"])
    return jobs


def texts_of(prompts: Any) -> list[str | list[int]]:
    """Texts and tokens of a field that may hold one of them or several."""
    single = is_text(prompts) or type(prompts[0]) is int
    return [prompts] if single else prompts


def tokens_of(
    model: Model, prompt: str | list[int], context: int, param: str, spare: int = 1
) -> list[int]:
    """The tokens of a prompt.

    Args:
        model: with a tokenizer.
        prompt: a text, or tokens.
        context: of the model.
        param: that has the prompt.
        spare: the least room that the prompt has to leave.

    Raises:
        Refused: for no tokens, tokens that there are not, and too many of them.
    """
    if isinstance(prompt, str):
        return _encoded(model, prompt, context, param, spare)
    try:
        check_tokens(prompt, model.config.vocabulary)
    except ArgumentError as error:
        raise Refused(400, str(error), code="invalid_value", param=param) from None
    return _checked(prompt, context, param, spare)


def tokenized(model: Model, text: str, context: int, special: bool) -> list[int]:
    """The tokens of a text, with those that begin and end a prompt or without.

    Raises:
        Refused: for a text that the context has no room for.
    """
    _check_size(model, len(text.encode()), context, "prompt")
    return tokenizer_of(model).encode(text, special=special)


def named(model: Model, tokens: Sequence[int]) -> str:
    """The text of tokens, those of control too, by their names."""
    tokenizer = tokenizer_of(model)
    return b"".join([tokenizer.pieces[t] for t in tokens]).decode("utf-8", "replace")


def _encoded(model: Model, text: str, context: int, param: str, spare: int = 1) -> list[int]:
    _check_size(model, len(text.encode()), context, param)
    return _checked(tokenizer_of(model).encode(text), context, param, spare)


def _checked(tokens: list[int], context: int, param: str, spare: int) -> list[int]:
    if not tokens:
        raise Refused(400, f"{param} has no tokens.", code="invalid_value", param=param)
    if len(tokens) + spare > context:
        raise too_long(f"{len(tokens):,} tokens", context, param)
    return tokens


def _check_size(model: Model, size: int, context: int, param: str) -> None:
    """Refuses a text that is too long whatever its tokens are, in less time than they take."""
    least = size // max(map(len, tokenizer_of(model).pieces))
    if least > context:
        raise too_long(f"at least {least:,} tokens", context, param)


def _repeated(job: Job, count: int) -> list[Job]:
    """Jobs that differ by their seeds."""
    seed = job.wishes.seed
    if seed is None:
        return [job] * count
    seeds = ((seed + n) % (1 << 64) for n in range(count))
    return [replace(job, wishes=replace(job.wishes, seed=s)) for s in seeds]


def _wishes(given: Mapping[str, Any], limit: int | None, top: int | None) -> Sampling:
    kind = read(RESPONSE_FORMAT, given["response_format"], "response_format.")["type"]
    stop = given["stop"]
    return Sampling(
        **{name: given[name] for name in SAMPLED},
        max_tokens=limit,
        seed=None if given["seed"] is None else given["seed"] % (1 << 64),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        logprobs=top,
        json=kind == "json_object",
    ).checked()


def _message(param: str, message: Any) -> dict[str, Any]:
    """A message as templates know it: its content a text, arguments of calls as objects."""
    if not isinstance(message, dict):
        raise wrong(param, "an object", message)
    role = message.get("role")
    if role not in ROLES:
        raise wrong(f"{param}.role", "one of " + ", ".join(ROLES), role)
    made = {name: value for name, value in message.items() if value is not None}
    made["role"] = "system" if role == "developer" else role
    content, calls = message.get("content"), message.get("tool_calls")
    if calls is not None:
        if not isinstance(calls, list):
            raise wrong(f"{param}.tool_calls", "a list", calls)
        made["tool_calls"] = [_call(f"{param}.tool_calls[{n}]", c) for n, c in enumerate(calls)]
    if isinstance(content, list):
        made["content"] = "".join(
            _part(f"{param}.content[{n}]", part) for n, part in enumerate(content)
        )
    elif content is None and role == "assistant":
        made["content"] = ""
    elif not is_text(content):
        raise wrong(f"{param}.content", "a text, or a list of parts", content)
    return made


def _part(param: str, part: Any) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    text = part.get(kind) if kind in ("text", "refusal") else None
    if not isinstance(text, str):
        raise wrong(param, 'a part of type "text": this model reads nothing else', part)
    return text


def _call(param: str, call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not is_text(function.get("name")):
        raise wrong(param, "a call of a function with a name", call)
    arguments = function.get("arguments", "{}")
    if is_text(arguments):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            raise wrong(f"{param}.function.arguments", "JSON in a text", arguments) from None
    return {**call, "function": {**function, "arguments": arguments}}


def _tool(param: str, tool: Any) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or not is_text(function.get("name")):
        raise wrong(param, 'an object with type "function" and a function with a name', tool)
    return tool  # type: ignore[no-any-return]
