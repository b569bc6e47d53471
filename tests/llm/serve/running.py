"""A server in a thread of this process."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from rich.console import Console

from tests.llm import building
from tests.llm.serve import standin
from tfn import llm


@cache
def tiny_model() -> llm.Model:
    return llm.load(building.tiny())


@dataclass
class Running:
    url: str
    engine: Any
    service: Any
    console: io.StringIO


@contextmanager
def serving(engine: Any = None, model: llm.Model | None = None, **rules: Any) -> Iterator[Running]:
    """A server at a free port of this machine."""
    import uvicorn

    from tfn.llm.serve import app, guard, report

    model = model or tiny_model()
    engine = engine or standin.Engine(model)
    console = io.StringIO()
    shown = report.Report(Console(file=console))
    served = app.Served(model, engine, "tiny", 4, shown)
    service = app.Service(served)
    config = uvicorn.Config(
        app.application(service, guard.Rules(**rules)), port=0, log_level="error", ws="none",
        timeout_graceful_shutdown=5,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Running(f"http://127.0.0.1:{port}", engine, service, console)
    finally:
        service.stop()
        server.should_exit = True
        thread.join()
