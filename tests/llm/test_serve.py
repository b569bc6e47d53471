"""The server as its clients see it: calls of OpenAI's client, and of those who mean no good."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.llm import building
from tests.llm.serve import standin
from tests.llm.serve.running import Running, serving, tiny_model
from tfn import llm
from tfn.llm.engine import Engine

for package in ("starlette", "uvicorn", "tokenizers", "jinja2"):
    pytest.importorskip(package, reason="pip install 'tfn[serve]' to test the server")
httpx = pytest.importorskip("httpx", reason="pip install httpx to test the server")

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "he a"}]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving() as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[Any]:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def openai(server: Running) -> Iterator[Any]:
    package = pytest.importorskip("openai", reason="pip install openai to test with its client")
    with package.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


def events(answer: Any) -> list[dict[str, Any]]:
    """The objects of a stream, which ends as it must."""
    parts = answer.read().decode().split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""]
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2] if part != ":"]


def calm(server: Running) -> None:
    """Waits until the engine has nothing to do."""
    end = time.monotonic() + 10
    while server.engine.running or not server.engine.work.empty():
        assert time.monotonic() < end, "an answer is still being made"
        time.sleep(0.01)


def test_texts_are_tokens_and_back(client: Any) -> None:
    """The routes of vLLM for tokens, which lm-eval counts contexts by."""
    words = tiny_model().tokenizer
    assert words is not None
    given = {"prompt": "he a", "add_special_tokens": False}
    found = client.post("/tokenize", json=given).json()
    assert found["tokens"] == words.encode("he a", special=False)
    assert found["count"] == len(found["tokens"]) and found["max_model_len"] > 0
    back = client.post("/detokenize", json={"tokens": found["tokens"]}).json()
    assert back["prompt"] == "he a"
    info = client.get("/tokenizer_info").json()
    assert info["chat_template"] == words.template and info["eos_token"] == words.name(words.eos)
    assert client.post("/tokenize", json={"prompt": "x" * 10**6}).status_code == 400
    for wrong in ({}, {"tokens": []}, {"tokens": ["a"]}, {"tokens": [10**9]}, {"tokens": [-1]}):
        refused = client.post("/detokenize", json=wrong)
        assert refused.status_code == 400 and refused.json()["error"]["message"]


def test_openai_chats(openai: Any) -> None:
    wanted = {"model": "tiny", "messages": HELLO, "max_tokens": 6, "temperature": 0}
    answer = openai.chat.completions.create(
        **wanted, n=2, logprobs=True, top_logprobs=2, extra_body={"top_k": 5, "min_p": 0.1}
    )
    first, second = answer.choices
    assert first.message.role == "assistant" and first.message.content == second.message.content
    assert first.finish_reason in ("stop", "length") and len(first.logprobs.content) <= 6
    token = first.logprobs.content[0]
    assert token.logprob == token.top_logprobs[0].logprob > token.top_logprobs[1].logprob
    assert token.bytes == token.top_logprobs[0].bytes
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    chunks = [*openai.chat.completions.create(**wanted, stream=True,
                                              stream_options={"include_usage": True})]  # fmt: skip
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == first.message.content and len({chunk.id for chunk in chunks}) == 1
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == first.finish_reason
    assert chunks[-1].usage.prompt_tokens == answer.usage.prompt_tokens
    assert chunks[0].choices[0].delta.role == "assistant"


def test_openai_calls_tools() -> None:
    package = pytest.importorskip("openai", reason="pip install openai to test with its client")
    template = building.TEMPLATE + "{% if tools %}{{ tools[0].function.name }}{% endif %}"
    other = {"tokenizer.chat_template": template, "llama.context_length": 512}
    model = llm.load(building.tiny(**other))
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    text = 'Yes.<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'
    assert model.tokenizer is not None
    engine = standin.Engine(model, script=[*model.tokenizer.encode(text), 259])
    wanted: dict[str, Any] = {"model": "tiny", "messages": HELLO, "tools": [tool]}
    with (
        serving(engine, model) as running,
        package.OpenAI(base_url=running.url + "/v1", api_key="none", max_retries=0) as client,
    ):
        create = client.chat.completions.create
        (choice,) = create(**wanted).choices
        (call,) = choice.message.tool_calls
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Yes.")
        assert (call.function.name, call.function.arguments) == ("add", '{"a": 1}')
        chunks = [chunk.choices[0] for chunk in create(**wanted, stream=True)]
        (streamed,) = [c for chunk in chunks for c in chunk.delta.tool_calls or []]
        assert (streamed.index, streamed.function) == (0, type(streamed.function)(
            name="add", arguments='{"a": 1}'))  # fmt: skip
        assert "".join(chunk.delta.content or "" for chunk in chunks) == "Yes."
        assert chunks[-1].finish_reason == "tool_calls"
        answered = [
            *HELLO,
            choice.message,
            {"role": "tool", "tool_call_id": call.id, "content": "2"},
        ]
        assert create(**wanted | {"messages": answered}).usage.prompt_tokens > 20
        (plain,) = create(**wanted, tool_choice="none").choices
        assert (plain.finish_reason, plain.message.content) == ("stop", text)
        (cut,) = create(**wanted, max_tokens=20).choices
        assert (cut.finish_reason, cut.message.content) == ("length", text[:20])


def test_openai_embeds_lists_and_is_refused(openai: Any) -> None:
    import openai as package

    rows = openai.embeddings.create(model="tiny", input=["he", "a"]).data
    plain = openai.embeddings.create(model="tiny", input=[[9, 9]], encoding_format="float").data
    assert len(rows) == 2 and len(rows[0].embedding) == len(plain[0].embedding) == 32
    assert [model.id for model in openai.models.list()] == ["tiny"]
    assert openai.models.retrieve("tiny").owned_by == "tfn"
    with pytest.raises(package.NotFoundError) as found:
        openai.models.retrieve("gpt-5")
    assert found.value.code == "model_not_found"
    with pytest.raises(package.BadRequestError) as refused:
        openai.completions.create(model="tiny", prompt="a" * 99)
    assert refused.value.code == "context_length_exceeded" and refused.value.param == "prompt"
    assert "64 tokens" in refused.value.message and "99 tokens" in refused.value.message


def test_lm_eval_gets_probabilities_of_its_prompts(client: Any, server: Running) -> None:
    """The form of requests of lm-eval's local-completions."""
    prompts = [[5, 6, 7], [8, 9, 10, 11, 12]]
    for most in (0, 1):
        wanted = {"model": "tiny", "prompt": prompts, "max_tokens": most, "temperature": 0,
                  "logprobs": 1, "echo": True, "seed": 1234}  # fmt: skip
        choices = client.post(COMPLETION, json=wanted).json()["choices"]
        for prompt, choice in zip(prompts, choices, strict=True):
            logs = choice["logprobs"]
            assert len(logs["tokens"]) == len(logs["top_logprobs"]) == len(prompt) + most
            expected = [c.logprob for c in server.engine.scores(prompt, 1).choices[1:]]
            assert logs["token_logprobs"][0] is logs["top_logprobs"][0] is None
            assert np.allclose(logs["token_logprobs"][1 : len(prompt)], expected)
            for token, top in zip(logs["tokens"][1:], logs["top_logprobs"][1:]):
                assert token in top and max(top.values()) >= top[token]
        assert [choice["index"] for choice in choices] == [0, 1]


@pytest.mark.parametrize("stream", [False, True])
def test_completions_echo_repeat_and_stop(client: Any, stream: bool) -> None:
    def texts(**wanted: Any) -> list[str]:
        answer = client.post(COMPLETION, json=wanted | {"stream": stream})
        assert answer.status_code == 200, answer.text
        found = events(answer) if stream else [answer.json()]
        made: dict[int, str] = {}
        for part in found:
            for choice in part["choices"]:
                made[choice["index"]] = made.get(choice["index"], "") + choice["text"]
        return [made[index] for index in sorted(made)]

    plain = texts(prompt=["he a", "he"], temperature=0, max_tokens=4, seed=1)
    assert texts(prompt=["he a", "he"], temperature=0, max_tokens=4, echo=True) == [
        "he a" + plain[0], "he" + plain[1]]  # fmt: skip
    assert texts(prompt="he", max_tokens=0, echo=True) == ["he"]
    assert texts(prompt="he", max_tokens=0) == [""]
    both = texts(prompt="he", n=2, seed=-3, max_tokens=9)
    assert both == texts(prompt="he", n=2, seed=-3, max_tokens=9) and both[0] != both[1]
    whole = texts(prompt="he", temperature=0, max_tokens=9)[0]
    stop = whole[2:4]
    assert texts(prompt="he", temperature=0, max_tokens=9, stop=[stop]) == [
        whole[: whole.find(stop)]
    ]


def test_streams_tell_progress_only_where_asked(client: Any) -> None:
    wanted = {"messages": HELLO, "max_tokens": 2, "stream": True}
    plain = events(client.post(CHAT, json=wanted))
    assert all("progress" not in part and "usage" not in part for part in plain)
    options = {"include_progress": True, "include_usage": True}
    told = events(client.post(CHAT, json=wanted | {"stream_options": options}))
    (progress,) = (part["progress"] for part in told if "progress" in part)
    assert progress["done"] == progress["total"] == told[-1]["usage"]["prompt_tokens"]
    assert all(part["usage"] is None for part in told[:-1])


def test_objects_in_json_are_objects(client: Any) -> None:
    wanted = {"messages": HELLO, "seed": 3, "temperature": 0.4, "top_k": 9,
              "response_format": {"type": "json_object"}}  # fmt: skip
    choice = client.post(CHAT, json=wanted).json()["choices"][0]
    assert choice["message"]["content"].lstrip()[:1] == "{"
    assert choice["finish_reason"] == "length" or isinstance(
        json.loads(choice["message"]["content"]), dict
    )


def test_routes_that_there_are_not(client: Any) -> None:
    for method, path, status, code in (
        ("GET", "/v2", 404, "not_found"),
        ("POST", "/v1/chat", 404, "not_found"),
        ("GET", CHAT, 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/v1/models/other", 404, "model_not_found"),
    ):
        answer = client.request(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert status != 405 or answer.headers["allow"]


def test_health_metrics_and_the_page(client: Any) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    text = client.get("/metrics").text
    assert 'tfn_llm_http_requests_total{path="/health",status="200"}' in text
    assert text.count("# HELP") == text.count("# TYPE") == 16
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; connect-src 'self'") and "unsafe" not in policy
    assert policy.count("'sha256-") == 2
    for outside in ("http://", "https://", "innerHTML", "localStorage", " style=", " onclick="):
        assert outside not in page.text.replace("http://www.w3.org/2000/svg", "")


def test_too_much_is_refused_and_the_connection_lives(client: Any) -> None:
    answer = client.post(CHAT, content=b" " * ((16 << 20) + 1))
    assert answer.status_code == 413 and answer.json()["error"]["code"] == "request_too_large"
    assert client.get("/health").status_code == 200


def test_a_client_that_leaves_frees_its_slot() -> None:
    engine = standin.Engine(tiny_model(), pause=0.02)
    with serving(engine) as server:
        for stream in (True, False):
            raw = json.dumps({"messages": HELLO, "stream": stream, "temperature": 2}).encode()
            head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(raw)}\r\n\r\n"
            address = server.url.removeprefix("http://").split(":")
            with socket.create_connection((address[0], int(address[1]))) as leaving:
                leaving.sendall(head.encode() + raw)
                while not engine.running:
                    time.sleep(0.01)
            calm(server)
        assert server.console.getvalue().count("the client has left") == 2


def test_an_engine_that_is_full_says_when_to_come_back() -> None:
    engine = standin.Engine(tiny_model(), most=0)
    with serving(engine) as server:
        answer = httpx.post(server.url + CHAT, json={"messages": HELLO, "stream": True})
        assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
        assert answer.json()["error"]["code"] == "overloaded"


def test_an_error_of_the_engine_ends_an_answer_in_its_form() -> None:
    engine = standin.Engine(tiny_model(), broken=ZeroDivisionError("secret"))
    wanted = {"messages": HELLO, "temperature": 2, "seed": 1}
    with serving(engine) as server:
        answer = httpx.post(server.url + CHAT, json=wanted)
        assert answer.status_code == 500 and answer.json()["error"]["type"] == "server_error"
        streamed = httpx.post(server.url + CHAT, json=wanted | {"stream": True})
        parts = events(streamed)
        assert streamed.status_code == 200 and parts[-1]["error"]["type"] == "server_error"
        assert "secret" not in answer.text + streamed.text
        assert "secret" in server.console.getvalue()


def test_streams_are_ended_when_the_server_is() -> None:
    engine = standin.Engine(tiny_model(), pause=0.05)
    with serving(engine) as server, httpx.Client(base_url=server.url, timeout=30) as client:
        wanted = {"messages": HELLO, "stream": True, "temperature": 2}
        with client.stream("POST", CHAT, json=wanted) as answer:
            parts = answer.iter_raw()
            first = next(parts)
            server.service.stop()
            rest = b"".join(parts)
        assert first.startswith(b"data: ") and rest.endswith(b"data: [DONE]\n\n")
        assert b'"error"' in rest
        refused = client.post(CHAT, json=wanted)
        assert refused.json()["error"]["code"] == "shutting_down"
        assert client.get("/health").status_code == 503


def test_a_token_and_a_site_that_may_ask() -> None:
    with serving(token="abc", origins=("https://a.example",)) as server:
        get = lambda path, **headers: httpx.get(server.url + path, headers=headers)
        assert get("/v1/models").status_code == 401
        known = get("/v1/models", authorization="Bearer abc", origin="https://a.example")
        assert known.status_code == 200
        assert known.headers["access-control-allow-origin"] == "https://a.example"
        assert get("/", origin="https://b.example").status_code == 403
        assert get("/health").status_code == 200


def drawn(random: np.random.Generator) -> tuple[str, bytes, int | None]:
    """A path, a body, and after how many bytes of the answer the client leaves."""
    texts = ["he a", "", "\u00e9\u4e2d\U0001f600" * 3, "x" * 70, "\x00", [5, 6], [999], [], None, 7]
    pick = lambda *values: values[random.integers(len(values))]
    wanted: dict[str, Any] = {"max_tokens": pick(0, 1, 5, 60, None), "stream": pick(True, False)}
    for name, values in {
        "temperature": (0, 1, 3.5, "hot", -1), "n": (1, 2, 3, 0), "top_p": (0.5, 1, 2),
        "stop": (["e"], "", [], "a b"), "seed": (1, -1, 1.5), "top_k": (3, -1),
        "frequency_penalty": (1, -2, 9), "logit_bias": ({}, {"5": 1}), "user": ("me",),
        "stream_options": ({"include_usage": True}, {"include_progress": True}, {"x": 1}, 1),
        "response_format": ({"type": "json_object"}, {"type": "x"}, {}), "unknown": (1,),
    }.items():  # fmt: skip
        if random.random() < 0.05:
            wanted[name] = pick(*values)
    path = pick(CHAT, COMPLETION, COMPLETION, COMPLETION, "/v1/embeddings", "/v1/nothing")
    if path == CHAT:
        message = {"role": pick("user", "system", "poet", 1), "content": pick(*texts)}
        wanted["messages"] = pick(HELLO, HELLO, [message], [*HELLO, message], [], "he", None)
        wanted |= pick(
            {}, {"logprobs": True, "top_logprobs": 3}, {"top_logprobs": 3}, {"tools": [1]}
        )
    elif path == COMPLETION:
        wanted["prompt"] = pick(*texts, ["he", "a"], [[5], [6, 7]])
        wanted |= pick({}, {"echo": True}, {"echo": True, "logprobs": 2}, {"logprobs": 30})
    else:
        wanted = {"input": pick(*texts), "encoding_format": pick("float", "base64", "x")}
    raw = json.dumps(wanted).encode()
    if random.random() < 0.1:
        raw = raw[: random.integers(len(raw))]
    if random.random() < 0.1:
        raw = bytearray(raw)
        raw[random.integers(len(raw))] = random.integers(256) if len(raw) else 0
    return path, bytes(raw), int(random.integers(400)) if random.random() < 0.15 else None


def checked(path: str, status: int, text: str) -> None:
    """An answer is right in its form, whatever was asked."""
    if status != 200:
        assert 400 <= status < 500, text
        error = json.loads(text)["error"]
        assert error["message"] and error["type"] == "invalid_request_error" and error["code"]
    elif text.startswith("data: "):
        parts = text.split("\n\n")
        assert parts[-2:] == ["data: [DONE]", ""]
        ends = {
            c["index"]
            for p in parts[:-2]
            for c in json.loads(p[6:])["choices"]
            if c["finish_reason"]
        }
        assert ends == {*range(len(ends))} and ends
    else:
        found = json.loads(text)
        rows = found["data"] if path == "/v1/embeddings" else found["choices"]
        assert [row["index"] for row in rows] == [*range(len(rows))] and rows


def test_the_engine_answers_through_the_server_and_keeps_nothing(uncompiled: None) -> None:
    model = tiny_model()
    random = np.random.default_rng(11)
    with (
        Engine(model, slots=3, tokens=3 * building.CONTEXT) as engine,
        serving(engine) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        wanted = {"prompt": "he a", "max_tokens": 5, "temperature": 0, "n": 4}
        choices = client.post(COMPLETION, json=wanted).json()["choices"]
        text = "".join(piece.text for piece in model.generate("he a", max_tokens=5))
        assert [choice["text"] for choice in choices] == [text] * 4
        scored = client.post(COMPLETION, json={"prompt": [5, 6], "echo": True, "logprobs": 1})
        assert scored.json()["choices"][0]["logprobs"]["token_logprobs"][1] < 0
        assert len(client.post("/v1/embeddings", json={"input": "he"}).json()["data"]) == 1
        blocks = set()
        for turn in range(8):
            path, raw, leaves = drawn(random)
            with client.stream("POST", path, content=raw) as answer:
                if leaves is None:
                    checked(path, answer.status_code, answer.read().decode())
            if turn >= 4:
                blocks.add(engine.stats().blocks)
        end = time.monotonic() + 30
        while engine.stats().running or engine.stats().waiting:
            assert time.monotonic() < end, "a request has kept its slot"
            time.sleep(0.02)
        assert len(blocks) == 1 and engine.stats().failed == 0


@pytest.mark.parametrize("count", [100])
def test_random_requests_have_answers_or_refusals(
    server: Running, client: Any, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    random = np.random.default_rng(7)
    statuses = []
    for _ in range(count):
        path, raw, leaves = drawn(random)
        with client.stream("POST", path, content=raw) as answer:
            if leaves is not None:
                with contextlib.suppress(StopIteration):
                    next(answer.iter_raw(max(leaves, 1)))
                continue
            checked(path, answer.status_code, answer.read().decode())
            statuses.append(answer.status_code)
    assert {200, 400, 404} <= {*statuses}
    assert not [record for record in caplog.records if record.name == "asyncio"]
    calm(server)
    assert client.get("/health").status_code == 200
