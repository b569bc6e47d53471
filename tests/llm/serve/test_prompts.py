"""Prompts of requests: messages, tools, tokens and wishes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.llm import building
from tests.llm.serve.running import tiny_model
from tfn import llm
from tfn.llm.serve import fields, prompts
from tfn.llm.serve.refusal import Refused

pytest.importorskip("tokenizers", reason="pip install 'tfn[llm]' to test tokenizers")
pytest.importorskip("jinja2", reason="pip install 'tfn[llm]' to test templates of chats")

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
WITH_TOOLS = (
    "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}|{{ mood }}|"
    "{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.arguments.a }}{% endfor %};{% endfor %}"
)


def text_of(template: str, **given: Any) -> str:
    model = llm.load(building.tiny(**{"tokenizer.chat_template": template}))
    (job,) = prompts.of_chat(model, 64, fields.read(fields.CHAT, given))
    assert model.tokenizer is not None
    return model.tokenizer.decode(job.tokens)


def test_templates_get_messages_tools_and_names() -> None:
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": s} for s in ("be", "!")]},
        {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None},
        {"role": "tool", "content": "3", "tool_call_id": "1"},
    ]  # fmt: skip
    text = text_of(WITH_TOOLS, messages=messages, tools=[TOOL],
                   chat_template_kwargs={"mood": "gay"})  # fmt: skip
    assert text == "add|gay|system:be!;assistant:1;tool:3;"
    assert text_of(WITH_TOOLS, messages=messages[:1], tools=[TOOL], tool_choice="none")[0] == "|"


@pytest.mark.parametrize(
    ("param", "given"),
    [
        ("messages[0]", {"messages": ["he"]}),
        ("messages[0].role", {"messages": [{"content": "he"}]}),
        ("messages[0].role", {"messages": [{"role": "poet", "content": "he"}]}),
        ("messages[0].content", {"messages": [{"role": "user", "content": 5}]}),
        ("messages[0].content", {"messages": [{"role": "user"}]}),
        ("messages[0].content[0]", {"messages": [{"role": "user", "content": [{"type": "a"}]}]}),
        ("messages[0].tool_calls", {"messages": [{"role": "assistant", "tool_calls": 1}]}),
        ("messages[0].tool_calls[0]", {"messages": [{"role": "assistant", "tool_calls": [1]}]}),
        ("messages[0].tool_calls[0].function.arguments", {"messages": [{"role": "assistant",
            "tool_calls": [{"function": {"name": "add", "arguments": "{"}}]}]}),
        ("tools", {"tools": [TOOL]}),  # the template has no place for them
        ("top_logprobs", {"top_logprobs": 2}),
        ("chat_template_kwargs", {"chat_template_kwargs": {"messages": []}}),
        ("response_format.type", {"response_format": {"type": "json_schema"}}),
        ("response_format.type", {"response_format": {}}),
        ("messages", {"messages": [{"role": "user", "content": "x" * 60}]}),
        ("messages", {"messages": [{"role": "user", "content": "x" * 100_000}]}),
    ],
)  # fmt: skip
def test_chats_that_cannot_be_are_refused_by_name(param: str, given: dict[str, Any]) -> None:
    given = {"messages": [{"role": "user", "content": "he"}]} | given
    with pytest.raises(Refused) as found:
        prompts.of_chat(tiny_model(), 64, fields.read(fields.CHAT, given))
    assert found.value.status == 400 and found.value.param == param


def test_a_template_that_refuses_or_fails_is_told() -> None:
    with pytest.raises(Refused, match="no poets") as found:
        text_of("{{ raise_exception('no poets') }}", messages=[{"role": "user", "content": "he"}])
    assert found.value.code == "template_error"


def test_a_prompt_may_fill_the_context_if_nothing_follows() -> None:
    def jobs(count: int, most: int) -> list[prompts.Job]:
        given = fields.read(fields.COMPLETION, {"prompt": [5] * count, "max_tokens": most})
        return prompts.of_completion(tiny_model(), 64, given)

    assert len(jobs(64, 0)[0].tokens) == 64 and len(jobs(63, 1)[0].tokens) == 63
    for count, most in ((65, 0), (64, 1)):
        with pytest.raises(Refused, match=f"context is 64 tokens .* has {count} tokens"):
            jobs(count, most)
    with pytest.raises(Refused, match="999"):
        prompts.tokens_of(tiny_model(), [999], 64, "prompt")
    with pytest.raises(Refused, match="no tokens"):
        prompts.tokens_of(tiny_model(), "", 64, "prompt")


def test_answers_to_one_prompt_differ_by_their_seeds() -> None:
    wanted = {"prompt": ["he", "a"], "n": 2, "seed": -1, "stop": "x"}
    jobs = prompts.of_completion(tiny_model(), 64, fields.read(fields.COMPLETION, wanted))
    assert [job.wishes.seed for job in jobs] == [(1 << 64) - 1, 0] * 2
    assert jobs[0].wishes.stop == ("x",) and jobs[0].wishes.max_tokens == 16
    with pytest.raises(Refused, match="at most 4,096 answers"):
        prompts.of_completion(
            tiny_model(),
            64,
            fields.read(fields.COMPLETION, {"prompt": ["he"] * 100, "n": 100}),
        )
