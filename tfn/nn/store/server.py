"""A server of a folder of a store: files, new blocks and names, lists; with a token.

What comes in is compared with its name, which is its digest, before it is written.
"""

from __future__ import annotations

import hmac
import json
import os
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tfn.errors import DamagedError, SecurityError
from tfn.extend import PathLike
from tfn.nn.store.folder import CONFIG, SAFE, Folder
from tfn.nn.store.hashing import digest
from tfn.nn.store.remote import LISTED
from tfn.nn.store.trees import Ref

MOST_BYTES = 1 << 30
"""The longest body of a request: a tree of ten million blocks."""
IDLE_SECONDS = 60  # before a connection is closed
LOCAL = ("127.0.0.1", "::1", "localhost")


def serve(
    folder: PathLike, host: str = "127.0.0.1", port: int = 8400, *, token: str = ""
) -> ThreadingHTTPServer:
    """Opens a server of a folder; ``serve_forever()`` of the result answers.

    Args:
        folder: of a store.
        host: the address to listen at.
        port: to listen at; any that is free if 0.
        token: that clients send; without one only this machine may ask.

    Raises:
        SecurityError: for an address of other machines without a token.
        FileNotFoundError: if the folder is no store.

    Example:
        >>> import tempfile
        >>> from tfn.nn.store import Store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Store(folder)
        ...     with serve(folder, port=0) as server:
        ...         server.server_address[0]
        '127.0.0.1'
    """
    if host not in LOCAL and not token:
        raise SecurityError(
            "a server for other machines needs a token", got=host, hint="serve(..., token=...)"
        )
    store = Folder(folder)
    store.config()
    server = ThreadingHTTPServer((host, port), partial(_handler, store, token))
    server.daemon_threads = True
    return server


def _handler(folder: Folder, token: str, *arguments: Any) -> Any:
    """Answer the requests of a connection: methods of a class made here, as `http.server` asks."""
    methods = {
        f"do_{verb}": lambda self, answer=answer: _answered(self, folder, token, answer)
        for verb, answer in (("GET", _get), ("HEAD", _head), ("PUT", _put))
    }
    settings = {
        "log_message": lambda *_: None,
        "protocol_version": "HTTP/1.1",
        "timeout": IDLE_SECONDS,
        "disable_nagle_algorithm": True,  # or else a body waits 40 ms for its header
    }
    return type("Handler", (BaseHTTPRequestHandler,), methods | settings)(*arguments)


def _answered(request: Any, folder: Folder, token: str, answer: Any) -> None:
    said = request.headers.get("Content-Length") or "0"
    given = request.headers.get("Authorization", "")
    length = int(said) if said.isascii() and said.isdigit() and len(said) < 20 else -1
    if not 0 <= length <= MOST_BYTES:
        request.close_connection = True
        return _send(request, 400 if length < 0 else 413)
    if not token and not _is_address(request.headers.get("Host", "")):
        request.close_connection = True
        return _send(request, 403)
    if token and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        request.close_connection = True  # what it sends is not read
        return _send(request, 401)
    try:
        status, body = answer(request, folder, length)
    except FileNotFoundError:
        status, body = 404, b""
    except (OSError, DamagedError) as error:
        status, body = 507, str(error).encode()
    _send(request, status, body)


def _is_address(host: str) -> bool:
    """Whether a request names this machine as no page of another site can (DNS rebinding)."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return name == "localhost"
    return True


def _send(request: Any, status: int, body: Any = b"") -> None:
    request.send_response(status)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


Answer = tuple[int, Any]


def _get(request: Any, folder: Folder, length: int) -> Answer:
    parts = urlsplit(request.path)
    path = parts.path.lstrip("/")
    if path in ("list/blocks", "list/refs"):
        after = parse_qs(parts.query).get("after", [""])[0]
        return 200, json.dumps([*islice(folder.items(path[5:], after), LISTED)]).encode()
    if not SAFE.fullmatch(path):
        return 404, b""
    return 200, folder.read(path)


def _head(request: Any, folder: Folder, length: int) -> Answer:
    path, wanted = request.path.lstrip("/"), request.headers.get("X-Size", "")
    if not SAFE.fullmatch(path) or wanted != str((folder.root / path).stat().st_size):
        return 404, b""
    os.utime(folder.root / path)  # garbage that was asked for is none
    return 200, b""


def _put(request: Any, folder: Folder, length: int) -> Answer:
    path, data = request.path.lstrip("/"), request.rfile.read(length)
    if not SAFE.fullmatch(path) or path == CONFIG or len(data) != length:
        return 400, b""
    if path.startswith("refs/"):
        Ref.decoded(data, path)
    elif digest(data) != path[-64:]:
        return 422, b"another digest than its name"
    folder.write(path, data, replace=True)
    folder.sync()
    return 201, b""
