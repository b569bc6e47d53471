"""The routes: OpenAI's interface, health, metrics and the page to chat with."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from tfn.errors import MissingPackageError
from tfn.extend import frozen
from tfn.llm.engine import Engine
from tfn.llm.generation import tokenizer_of
from tfn.llm.model import Model
from tfn.llm.serve import fields, metrics, prompts
from tfn.llm.serve.asgi import Answer, Application, answer, body, refusing
from tfn.llm.serve.fields import parsed, read
from tfn.llm.serve.flow import Flow
from tfn.llm.serve.forms import ChatForm, CompletionForm, Json
from tfn.llm.serve.guard import Guard, Rules
from tfn.llm.serve.prompts import Job
from tfn.llm.serve.refusal import Refused, ending
from tfn.llm.serve.reply import Reply, Wanted
from tfn.llm.serve.report import Report

if TYPE_CHECKING:
    from starlette.requests import Request

THREADS = 16
"""Threads that make tokens of texts and wait for embeddings."""

PAGE = Path(__file__).with_name("page.html")


@frozen
class Served:
    """A model to be served.

    Attributes:
        model: with a tokenizer.
        engine: that makes its answers.
        name: of the model in requests.
        width: the answers to one request that are made at once.
        report: the console.
    """

    model: Model
    engine: Engine
    name: str
    width: int
    report: Report


class Service:
    """The state behind the routes.

    Args:
        served: the model.
    """

    def __init__(self, served: Served) -> None:
        self.served = served
        self.created = int(time.time())
        self.requests = 0
        self.answers = Counter[tuple[str, int]]()
        self.stopping = False
        self.flows = WeakSet[Flow]()

    def stop(self) -> None:
        """Takes no more requests, and ends the answers that are being made."""
        self.stopping = True
        for flow in [*self.flows]:
            flow.end(ending())  # the engine itself may be busy for a while
        self.served.engine.close()

    @property
    def routes(self) -> list[tuple[str, Callable[[Any], Awaitable[Application]], str]]:
        """Paths, the methods of this class that answer there, and those of HTTP."""
        return [
            ("/v1/chat/completions", self.chat, "POST"),
            ("/v1/completions", self.completion, "POST"),
            ("/v1/embeddings", self.embeddings, "POST"),
            ("/tokenize", self.tokenize, "POST"),
            ("/detokenize", self.detokenize, "POST"),
            ("/tokenizer_info", self.tokenizer_info, "GET"),
            ("/v1/models", self.models, "GET"),
            ("/v1/models/{name:path}", self.one_model, "GET"),
            ("/health", self.health, "GET"),
            ("/metrics", self.metrics, "GET"),
            ("/", self.page, "GET"),
        ]

    async def chat(self, request: Request) -> Application:
        """/v1/chat/completions."""
        return await self._answered(request, fields.CHAT, prompts.of_chat, ChatForm)

    async def completion(self, request: Request) -> Application:
        """/v1/completions."""
        table = fields.COMPLETION
        return await self._answered(request, table, prompts.of_completion, CompletionForm)

    async def _answered(
        self,
        request: Request,
        table: Mapping[str, fields.Field],
        jobs_of: Callable[[Model, int, Json], list[Job]],
        form: type[ChatForm] | type[CompletionForm],
    ) -> Application:
        given = await self._given(request, table)
        options = read(fields.STREAM_OPTIONS, given["stream_options"], "stream_options.")
        wanted = Wanted(given["stream"], options["include_usage"], options["include_progress"])
        model, engine = self.served.model, self.served.engine
        jobs = await asyncio.to_thread(jobs_of, model, engine.context, given)
        if self.stopping:
            raise ending()
        self.requests += 1
        flow = Flow(engine, jobs, self.served.width)
        self.flows.add(flow)
        logged = jobs[0].wishes.logprobs is not None
        shape = form(tokenizer_of(model), logged)
        return Reply(flow, shape, self.served.name, wanted, self.served.report, self.requests)

    async def embeddings(self, request: Request) -> Answer:
        """/v1/embeddings."""
        given = await self._given(request, fields.EMBEDDING)
        model, engine = self.served.model, self.served.engine
        width = model.config.width
        if given["dimensions"] not in (None, width):
            raise fields.wrong("dimensions", f"{width:,}, as the model has", given["dimensions"])
        texts = prompts.texts_of(given["input"])
        rows: list[Json] = []
        count = 0
        for index, text in enumerate(texts):
            tokens = await asyncio.to_thread(
                prompts.tokens_of, model, text, engine.context, "input", spare=0
            )
            if self.stopping:
                raise ending()
            vector = await asyncio.to_thread(engine.embed, tokens)
            raw = np.asarray(vector, "<f4")
            as_text = given["encoding_format"] == "base64"
            shown = base64.b64encode(raw.tobytes()).decode() if as_text else raw.tolist()
            rows.append({"object": "embedding", "index": index, "embedding": shown})
            count += len(tokens)
            if await request.is_disconnected():
                break
        used = {"prompt_tokens": count, "total_tokens": count}
        return answer({"object": "list", "data": rows, "model": self.served.name, "usage": used})

    async def tokenize(self, request: Request) -> Answer:
        """/tokenize, as vLLM has it: how many tokens a text has, and which."""
        given = await self._given(request, fields.TOKENIZE)
        model, context = self.served.model, self.served.engine.context
        special = given["add_special_tokens"]
        tokens = await asyncio.to_thread(
            prompts.tokenized, model, given["prompt"], context, special
        )
        return answer({"count": len(tokens), "max_model_len": context, "tokens": tokens})

    async def detokenize(self, request: Request) -> Answer:
        """/detokenize: the text of tokens, control tokens by their names."""
        given = await self._given(request, fields.DETOKENIZE)
        model, context = self.served.model, self.served.engine.context
        tokens = prompts.tokens_of(model, given["tokens"], context, "tokens", spare=0)
        return answer({"prompt": prompts.named(model, tokens)})

    async def tokenizer_info(self, request: Request) -> Answer:
        """/tokenizer_info: control tokens by their names, and the template of chats."""
        tokenizer, context = tokenizer_of(self.served.model), self.served.engine.context
        begin, end = (
            None if token is None else tokenizer.name(token)
            for token in (tokenizer.bos, tokenizer.eos)
        )
        found = {"bos_token": begin, "eos_token": end, "chat_template": tokenizer.template}
        return answer(found | {"model_max_length": context})

    async def models(self, request: Request) -> Answer:
        """/v1/models."""
        return answer({"object": "list", "data": [self._card()]})

    async def one_model(self, request: Request) -> Answer:
        """/v1/models/NAME."""
        self._check_name(request.path_params["name"])
        return answer(self._card())

    async def health(self, request: Request) -> Answer:
        """/health: 503 once the server ends."""
        if self.stopping:
            raise ending()
        return answer({"status": "ok"})

    async def metrics(self, request: Request) -> Answer:
        """/metrics, as Prometheus reads them."""
        text = metrics.text(self.served.engine.stats(), self.answers)
        return Answer(text.encode(), metrics.MEDIA_TYPE)

    async def page(self, request: Request) -> Answer:
        """The page to chat with."""
        text, policy = page()
        headers = {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"}
        return Answer(text.encode(), "text/html; charset=utf-8", headers=headers)

    def _card(self) -> Json:
        return {
            "id": self.served.name,
            "object": "model",
            "created": self.created,
            "owned_by": "tfn",
            "context_length": self.served.engine.context,
        }

    def _check_name(self, name: str | None) -> None:
        if name not in (None, self.served.name):
            raise Refused(
                404,
                f"There is no model {name!r:.100}; this server has {self.served.name!r}.",
                code="model_not_found",
                param="model",
            )

    async def _given(self, request: Request, table: Mapping[str, fields.Field]) -> Json:
        """The fields of a request."""
        if self.stopping:
            raise ending()
        given = read(table, parsed(await body(request.receive)))
        self._check_name(given["model"])
        return given


@cache
def page() -> tuple[str, str]:
    """The page to chat with, and the policy by which it may do no more than it does."""
    text = PAGE.read_text("utf-8")
    digests = {
        kind: base64.b64encode(hashlib.sha256(found.group(1).encode()).digest()).decode()
        for kind in ("script", "style")
        if (found := re.search(f"<{kind}>(.*?)</{kind}>", text, re.DOTALL)) is not None
    }
    allowed = "".join(f"; {kind}-src 'sha256-{digest}'" for kind, digest in digests.items())
    return text, (
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'" + allowed
    )


def application(service: Service, rules: Rules) -> Application:
    """The routes, and the checks around them.

    Args:
        service: behind them.
        rules: who may ask.

    Raises:
        MissingPackageError: without starlette.
    """
    try:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.middleware import Middleware
        from starlette.middleware.cors import CORSMiddleware
        from starlette.routing import Route
    except ImportError:
        raise MissingPackageError(
            "the server needs starlette", hint="pip install 'tfn[serve]'"
        ) from None

    unrouted: Any = _unrouted  # its answer is an application of ASGI, as those of all routes

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        with ThreadPoolExecutor(THREADS) as threads:
            asyncio.get_running_loop().set_default_executor(threads)
            yield
            await asyncio.to_thread(service.stop)

    routes = service.routes
    paths = frozenset(path for path, _, _ in routes)
    told = service.served.report.failed
    layers = [Middleware(Guard, rules=rules, paths=paths, counts=service.answers, told=told)]
    if rules.origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=rules.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
        layers.insert(0, cors)
    return Starlette(
        routes=[Route(path, call, methods=[method]) for path, call, method in routes],
        middleware=layers,
        exception_handlers={HTTPException: unrouted},
        lifespan=life,
    )


async def _unrouted(request: Request, error: Any) -> Answer:
    """The refusal of a route or method that there is not."""
    place = f"{request.method:.10} {request.url.path:.100}"
    if error.status_code == 405:
        allowed = error.headers["Allow"]
        why = f"There is no {place}; there is {allowed}."
        return refusing(Refused(405, why, code="method_not_allowed", headers=error.headers))
    return refusing(Refused(error.status_code, f"There is no {place}.", code="not_found"))
