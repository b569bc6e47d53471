"""The files of a store on another host, by HTTP: any static server of the folder will do to read.

A block is a file, and small, so that no ranges are asked for.  `tfn.nn.store.serve` also takes
files and lists them.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlsplit

from tfn.errors import ArgumentError
from tfn.nn.store.folder import CONFIG, Item

CONNECT_SECONDS, TIMEOUT_SECONDS = 3.0, 20.0
"""To reach a host, and for each part of its answer, which may wait for a disk."""
LOST_SECONDS = 15.0
"""A host that did not answer is not asked again for so long: each block has other copies."""
MOST_IDLE = 4  # connections: as many as blocks are read beside each other
LISTED = 1000
"""Files in an answer to a listing."""


class Remote:
    """The files of a store behind a URL.

    Args:
        url: of the folder: ``http://host:8400``.
        token: that the server asks for.
        id: of the folder, if it is known.
        timeout_s: seconds to wait for an answer.
    """

    def __init__(
        self, url: str, token: str = "", id: str = "", timeout_s: float = TIMEOUT_SECONDS
    ) -> None:
        self._idle: list[http.client.HTTPConnection] = []
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ArgumentError(
                "a place is a folder or a URL", got=repr(url), hint="http://host:8400"
            )
        self.address = url.rstrip("/")
        self._parts, self._token, self._id, self._timeout_s = parts, token, id, timeout_s
        self._lost_until = 0.0

    @property
    def id(self) -> str:
        """A name that stays when the host gets another address."""
        if not self._id:
            self._id = str(json.loads(bytes(self.read(CONFIG)))["id"])
        return self._id

    def read(self, path: str) -> bytearray:
        """The bytes of a file.

        Raises:
            FileNotFoundError: if there is none.
            OSError: if the host does not answer, or does not know the token.
        """
        return self._asked("GET", path)

    def write(self, path: str, data: Any, *, replace: bool = False) -> None:
        """Write a file, if there is none of this length or `replace` says so.

        Raises:
            OSError: if the host does not answer, or takes no files.
        """
        view = memoryview(data).cast("B")
        if not replace:
            with suppress(FileNotFoundError):
                self._asked("HEAD", path, headers={"X-Size": str(len(view))})
                return
        self._asked("PUT", path, view)

    def items(self, kind: str, after: str = "") -> Iterator[Item]:
        """All files of a kind, in the order of their names, after one."""
        while True:
            body = self._asked("GET", f"list/{kind}?after={quote(after)}")
            rows = json.loads(bytes(body))
            yield from [Item(str(path), int(size), float(used)) for path, size, used in rows]
            if len(rows) < LISTED:
                return
            after = rows[-1][0]

    def sync(self) -> None:
        """Nothing: a server answers when a file is on its disk."""

    def _asked(
        self, method: str, path: str, data: Any = None, headers: dict[str, str] | None = None
    ) -> bytearray:
        """The bytes of an answer."""
        if time.monotonic() < self._lost_until:
            raise ConnectionError(f"{self.address} did not answer a moment ago")
        try:
            status, body = self._sent(method, path, data, headers or {})
        except (OSError, http.client.HTTPException) as error:
            self._lost_until = time.monotonic() + LOST_SECONDS
            self.close()
            raise ConnectionError(f"{self.address} does not answer: {error!r}") from error
        if status == 404:
            raise FileNotFoundError(f"{self.address}/{path}")
        if status in (401, 403):
            raise PermissionError(f"{self.address} refuses the token ({status})")
        if status not in (200, 201, 204):
            raise OSError(f"{self.address}/{path}: {status} {bytes(body[:100]).decode('latin1')}")
        return body

    def _sent(
        self, method: str, path: str, data: Any, headers: dict[str, str]
    ) -> tuple[int, bytearray]:
        if self._token:
            headers = headers | {"Authorization": f"Bearer {self._token}"}
        try:
            connection, fresh = self._idle.pop(), False  # of threads, one gets it
        except IndexError:
            connection, fresh = self._opened(), True
        try:
            connection.request(method, f"{self._parts.path.rstrip('/')}/{path}", data, headers)
            answer = connection.getresponse()
            body = bytearray(answer.read())
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if fresh or isinstance(error, TimeoutError):
                raise
            return self._sent(method, path, data, headers)  # the server had closed it meanwhile
        if not answer.will_close and len(self._idle) < MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return answer.status, body

    def _opened(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(host, port, timeout=min(CONNECT_SECONDS, self._timeout_s))
        connection.connect()
        connection.sock.settimeout(self._timeout_s)
        return connection

    def close(self) -> None:
        """Close connections that wait for the next request."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    __del__ = close
