"""A server of a folder of a store: files, new blocks and names, lists; with a token.

What comes in is compared with its name, which is its digest, before it is written.  A connection
that says nothing, or too slowly, is closed; if there are too many, it is the first to go.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import sys
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tfn.errors import ArgumentError, DamagedError, SecurityError
from tfn.extend import PathLike
from tfn.nn.store.folder import CONFIG, SAFE, Folder
from tfn.nn.store.hashing import digest
from tfn.nn.store.remote import LISTED
from tfn.nn.store.trees import Ref

MOST_BYTES, MOST_REF_BYTES = 1 << 30, 1 << 12
"""The longest body of a request: a tree of ten million blocks; a name."""
MOST_CONNECTIONS = 256
IDLE_SECONDS = 60.0
"""A client has so long to send the next request, or to take the next part of an answer."""
SLOWEST_BYTES_PER_SECOND = 1 << 16
"""A body gets time in addition, for its length at this rate."""


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
        ArgumentError: for a port that is none.
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
    if (
        not token
        and host != "localhost"
        and not (_is_address(host) and ip_address(host).is_loopback)
    ):
        raise SecurityError(
            "a server for other machines needs a token", got=host, hint="serve(..., token=...)"
        )
    if not 0 <= port < 1 << 16:
        raise ArgumentError("a port is a number below 65,536", got=str(port), hint="0 for any")
    store, clients = Folder(folder), _Clients()
    store.config()

    def process_request(server: Any, client: Any, address: Any) -> None:
        clients.begin(client)
        ThreadingHTTPServer.process_request(server, client, address)

    def shutdown_request(server: Any, client: Any) -> None:
        clients.end(client)
        ThreadingHTTPServer.shutdown_request(server, client)

    def handle_error(server: Any, client: Any, address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # the client went away
            ThreadingHTTPServer.handle_error(server, client, address)

    own = {
        "process_request": process_request,
        "shutdown_request": shutdown_request,
        "handle_error": handle_error,
        "service_actions": lambda _: clients.close_late(),
        "address_family": socket.AF_INET6 if ":" in host else socket.AF_INET,
        "request_queue_size": MOST_CONNECTIONS,
        "daemon_threads": True,
    }
    kind = type("Server", (ThreadingHTTPServer,), own)  # as `http.server` asks
    server: ThreadingHTTPServer = kind((host, port), partial(_handler, store, token, clients))
    return server


class _Clients:
    """Open connections, and until when each may keep the server waiting."""

    def __init__(self) -> None:
        self._until: dict[Any, float] = {}
        self._lock = threading.Lock()

    def begin(self, client: Any) -> None:
        """Note a connection; if there are too many, close the one that waits since the longest."""
        with self._lock:
            if len(self._until) >= MOST_CONNECTIONS:
                self._close(min(self._until, key=lambda other: self._until[other]))
            self._until[client] = time.monotonic() + IDLE_SECONDS

    def more(self, client: Any, size_bytes: int = 0) -> None:
        """Give a connection time to send or to take so many bytes."""
        with self._lock:
            if client in self._until:
                seconds = IDLE_SECONDS + size_bytes / SLOWEST_BYTES_PER_SECOND
                self._until[client] = time.monotonic() + seconds

    def end(self, client: Any) -> None:
        """Forget a connection."""
        with self._lock:
            self._until.pop(client, None)

    def close_late(self) -> None:
        """Close connections whose time is up."""
        with self._lock:
            now = time.monotonic()
            for client in [client for client, until in self._until.items() if until < now]:
                self._close(client)

    def _close(self, client: Any) -> None:
        """Wake its thread, which closes it."""
        del self._until[client]
        try:
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is closed


def _handler(folder: Folder, token: str, clients: _Clients, *arguments: Any) -> Any:
    """Answer the requests of a connection: methods of a class made here, as `http.server` asks."""
    methods = {
        f"do_{verb}": lambda self, answer=answer: _answered(self, folder, token, clients, answer)
        for verb, answer in (("GET", _get), ("HEAD", _head), ("PUT", _put))
    }
    settings = {
        "log_message": lambda *_: None,
        "version_string": lambda _: "tfn",
        "protocol_version": "HTTP/1.1",
        "timeout": IDLE_SECONDS,
        "disable_nagle_algorithm": True,  # or else a body waits 40 ms for its header
    }
    return type("Handler", (BaseHTTPRequestHandler,), methods | settings)(*arguments)


def _answered(request: Any, folder: Folder, token: str, clients: _Clients, answer: Any) -> None:
    status, length = _refused(request, token)
    body: Any = b""
    if not status:
        clients.more(request.connection, length)
        try:
            status, body = answer(request, folder, length)
        except FileNotFoundError:
            status = 404
        except (OSError, DamagedError) as error:
            status, body = 507, str(error).encode()
    if status >= 400 and (status != 404 or length):
        request.close_connection = True  # what it sends may not have been read
    clients.more(request.connection, len(body))
    request.send_response(status)
    request.send_header("Content-Length", str(len(body)))
    request.send_header("X-Content-Type-Options", "nosniff")
    if request.close_connection:
        request.send_header("Connection", "close")
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)
    clients.more(request.connection)


def _refused(request: Any, token: str) -> tuple[int, int]:
    """The status of a request that is not answered, or 0; and the length of its body."""
    said = request.headers.get_all("Content-Length", ["0"])
    number = said[0] if len(said) == 1 and "Transfer-Encoding" not in request.headers else ""
    length = int(number) if number.isascii() and number.isdigit() and len(number) < 20 else -1
    given = request.headers.get("Authorization", "")
    if token and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        return 401, 0
    if not token and not _is_own(request.headers):
        return 403, 0
    if length < 0 or (length and request.command != "PUT"):
        return 400, 0
    return (413, 0) if length > MOST_BYTES else (0, length)


def _is_own(headers: Any) -> bool:
    """Whether a request is none of a page of another site.

    Its origin tells, or the name that it gave this machine (DNS rebinding).
    """
    host = headers.get("Host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    site = headers.get("Sec-Fetch-Site", "none")
    return (
        (_is_address(name.strip("[]")) or name.lower() == "localhost")
        and headers.get("Origin", f"http://{host}") == f"http://{host}"
        and site in ("none", "same-origin")
    )


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


Answer = tuple[int, Any]


def _get(request: Any, folder: Folder, length: int) -> Answer:
    try:
        parts = urlsplit(request.path)
    except ValueError:
        return 400, b""
    path = parts.path.lstrip("/")
    if path in ("list/blocks", "list/refs"):
        after = parse_qs(parts.query).get("after", [""])[0]
        return 200, json.dumps([*islice(folder.items(path[5:], after), LISTED)]).encode()
    if not SAFE.fullmatch(path):
        return 404, b""
    return 200, folder.read(path)


def _head(request: Any, folder: Folder, length: int) -> Answer:
    path, wanted = request.path.lstrip("/"), request.headers.get("X-Size", "")
    with folder.lock():  # a collection of garbage may be about to delete it
        if not SAFE.fullmatch(path) or wanted != str((folder.root / path).stat().st_size):
            return 404, b""
        os.utime(folder.root / path)  # garbage that was asked for is none
    return 200, b""


def _put(request: Any, folder: Folder, length: int) -> Answer:
    path = request.path.lstrip("/")
    is_ref = path.startswith("refs/")
    if not SAFE.fullmatch(path) or path == CONFIG or (is_ref and length > MOST_REF_BYTES):
        return 400, b""
    data = request.rfile.read(length)
    if len(data) != length:
        return 400, b""
    if is_ref:
        Ref.decoded(data, path)
    elif digest(data) != path[-64:]:
        return 422, b"another digest than its name"
    with folder.lock():
        folder.write(path, data, replace=True)
        folder.sync()
    return 201, b""
