"""The command `python -m tfn.llm serve`."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import math
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console

import tfn
from tfn.config import config, launcher_variables
from tfn.errors import ArgumentError, MissingPackageError
from tfn.llm.blocks import FORMATS
from tfn.llm.engine import Engine
from tfn.llm.generation import tokenizer_of
from tfn.llm.model import Model, dense_bytes, load, quantization
from tfn.llm.serve import app, guard
from tfn.llm.serve.report import Report
from tfn.llm.show import amount
from tfn.llm.weights import Adapted, Blocks

TOKEN_VARIABLE = "TFN_LLM_TOKEN"
"""The environment variable of the token, which other users of the machine do not see."""

PORT = 8080

WATCH_SECONDS = 0.1
"""The time between looks at whether the server is to end."""

GRACE_SECONDS = 5
"""The time that answers have to say that they end."""


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to a parser."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; %(default)s")
    parser.add_argument("--port", type=int, default=PORT, help="%(default)s; 0 for a free one")
    parser.add_argument(
        "--token",
        default=launcher_variables([TOKEN_VARIABLE]).get(TOKEN_VARIABLE),
        help=f"that requests must have; better in the environment, as {TOKEN_VARIABLE}",
    )
    parser.add_argument("--name", help="of the model in requests; that of the file")
    parser.add_argument("--slots", type=int, default=8, help="answers at once; %(default)s")
    parser.add_argument(
        "--tokens", type=int, help="room of the cache for all answers; what memory allows"
    )
    parser.add_argument("--warm", action="store_true", help="compile before the first request")
    parser.add_argument("--quiet", action="store_true", help="show nothing but errors")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name of this machine",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a site whose pages may ask, such as https://chat.example",
    )


def run(options: argparse.Namespace, console: Console) -> None:
    """Serves a model until Ctrl-C or SIGTERM.

    Raises:
        ArgumentError: for a host that others reach, without a token.
        MissingPackageError: without starlette and uvicorn.
        OSError: if the address is taken.
    """
    try:
        import uvicorn
    except ImportError:
        raise MissingPackageError(
            "the server needs uvicorn", hint="pip install 'tfn[serve]'"
        ) from None
    if options.token is None and not is_local(options.host):
        raise ArgumentError(
            "other machines can reach this address, so requests must have a token",
            got=f"--host {options.host}",
            hint=f"set {TOKEN_VARIABLE}, or leave out --host",
        )
    report = Report(console, options.quiet)
    with bound(options.host, options.port) as listener, report.live():
        begin = time.perf_counter()
        report.line(f"loading {options.model}")
        model = load(options.model)
        tokenizer_of(model)
        with Engine(model, slots=options.slots, tokens=options.tokens) as engine:
            report.line(f"loaded in {time.perf_counter() - begin:.1f} s")
            name = options.name or Path(options.model).stem
            for kind, text in facts(model, engine, name):
                report.fact(kind, text)
            if options.warm:
                engine.warm(lambda done, total: report.step("compiling", done, total))
            service = app.Service(app.Served(model, engine, name, options.slots, report))
            rules = guard.Rules(
                options.token, tuple(options.allow_host), tuple(options.allow_origin)
            )
            config = uvicorn.Config(
                app.application(service, rules),
                log_level="critical",
                access_log=False,
                ws="none",
                timeout_graceful_shutdown=GRACE_SECONDS,
                server_header=False,
            )
            listener.listen()  # who reads the address may come at once
            place = address_of(listener)
            report.fact("address", f"{place} to chat, {place}/v1 for programs")
            serve(uvicorn.Server(config), service, listener)
    report.line("ended")


def serve(server: Any, service: Any, listener: socket.socket) -> None:
    """Runs a server of uvicorn until a signal ends it, its answers first."""

    async def watch() -> None:
        while not server.should_exit:
            await asyncio.sleep(WATCH_SECONDS)
        await asyncio.to_thread(service.stop)

    async def both() -> None:
        watching = asyncio.create_task(watch())
        try:
            await server.serve(sockets=[listener])
        finally:
            server.should_exit = True
            await watching

    with suppress(KeyboardInterrupt), calm(signal.SIGTERM):
        asyncio.run(both())


@contextmanager
def calm(number: int) -> Iterator[None]:
    """Lets a signal pass that uvicorn has handled, and sends again at its end."""
    before = signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(number, before)


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens at an address.

    Raises:
        OSError: naming the address, if it is taken or not of this machine.
    """
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(place)
        except OSError:
            listener.close()
            raise
        return listener
    except OSError as error:
        raise OSError(f"cannot listen at {host}, port {port}: {error.strerror}") from None


def is_local(host: str) -> bool:
    """Whether an address is one that this machine alone reaches."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def address_of(listener: socket.socket) -> str:
    """The address of a socket, as browsers write it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


PLAIN = {str(form.dtype): form.name for form in FORMATS.values() if form.dtype is not None}
"""Names of formats that are plain numbers, by dtype."""


def formats(model: Model) -> dict[str, tuple[int, int]]:
    """For each format the number of its weights' tensors, and of the weights."""
    tensors, weights = Counter[str](), Counter[str]()
    for weight in model.weights.values():
        assert not isinstance(weight, Adapted)  # of files there is none
        name = weight.format if isinstance(weight, Blocks) else PLAIN[str(weight.dtype)]
        tensors[name] += 1
        weights[name] += math.prod(weight.shape)
    return {name: (tensors[name], weights[name]) for name in tensors}


def facts(model: Model, engine: Engine, name: str) -> Iterator[tuple[str, str]]:
    """Names and values of what a person wants to know of a model that is served."""
    c = model.config
    full = engine.context * c.position_bytes
    whole = f"{engine.context:,} tokens"
    yield "model", f"{name}: {c.architecture}, {c.layers} layers of {c.width:,}"
    yield "quantization", quantization(formats(model))
    yield "memory", f"{amount(dense_bytes(model))} of weights"
    if engine.context == c.context:
        yield "context", f"{whole}, all that the file has; {amount(full)} when it is full"
    else:
        why = f"for which there is memory, of {c.context:,} that the file has"
        yield "context", f"{whole}, {why}; {amount(full)} when it is full"
    threads = config.threads or len(os.sched_getaffinity(0))
    yield "device", f"{tfn.devices()[0]}, {threads} thread{'s' if threads > 1 else ''}"
