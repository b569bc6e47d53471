"""Servers of stores: who may ask, what is taken, and what does not get out."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tfn.errors import SecurityError
from tfn.nn.store import Store, digest, serve, server
from tfn.nn.store.trees import Ref


@contextmanager
def served(folder: Path, token: str = "", port: int = 0) -> Iterator[str]:
    """The URL of a server of a folder."""
    with serve(folder, port=port, token=token) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def asked(url: str, method: str, path: str, data: Any = None, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    connection.request(method, path, data, headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


NAME = digest(b"x")
PATH = f"/blocks/{NAME[:2]}/{NAME}"


def test_others_may_not_ask_without_a_token(tmp_path: Path) -> None:
    Store(tmp_path / "s")
    with pytest.raises(SecurityError, match="needs a token"):
        serve(tmp_path / "s", "0.0.0.0")
    with pytest.raises(FileNotFoundError):
        serve(tmp_path)
    with served(tmp_path / "s", "secret") as url:
        for given in ("", "Bearer", "Bearer wrong", "secret", "Bearer secretx"):
            assert asked(url, "GET", "/store.json", Authorization=given)[0] == 401
            assert asked(url, "PUT", PATH, b"x", Authorization=given)[0] == 401
        assert asked(url, "GET", "/store.json", Authorization="Bearer secret")[0] == 200
    assert not [*(tmp_path / "s" / "blocks").iterdir()]


def test_only_files_of_the_store_get_out(tmp_path: Path) -> None:
    Store(tmp_path / "s")
    (tmp_path / "s" / "token").write_text("secret")
    (tmp_path / "other").write_text("other")
    with served(tmp_path / "s") as url:
        for path in ("/token", "/../other", "/refs/../../other", "/%2e%2e/other", "/tmp/x", "/"):
            assert asked(url, "GET", path)[0] == 404
            assert asked(url, "HEAD", path, **{"X-Size": "5"})[0] == 404
            assert asked(url, "PUT", path, b"")[0] == 400
        assert asked(url, "GET", "/list/tmp")[0] == 404
        assert asked(url, "DELETE", PATH)[0] == 501


def test_pages_of_other_sites_may_not_ask(tmp_path: Path) -> None:
    """They can give this machine a name of their own; with a token they lack that."""
    Store(tmp_path / "s")
    for token in ("", "secret"):
        with served(tmp_path / "s", token) as url:
            given = {"Authorization": f"Bearer {token}"} if token else {}
            for host in ("localhost:8400", "127.0.0.1", "[::1]:80"):
                assert asked(url, "GET", "/store.json", Host=host, **given)[0] == 200
            status, _ = asked(url, "GET", "/store.json", Host="evil.example:8400", **given)
            assert status == (200 if token else 403)


def test_pages_of_other_sites_are_told_by_their_origin(tmp_path: Path) -> None:
    Store(tmp_path / "s")
    with served(tmp_path / "s") as url:
        rows: list[tuple[int, dict[str, str]]] = [
            (403, {"Origin": "https://evil.example"}),
            (403, {"Origin": "null"}),
            (403, {"Sec-Fetch-Site": "cross-site"}),
            (403, {"Sec-Fetch-Site": "same-site"}),
            (200, {"Sec-Fetch-Site": "none", "Origin": url}),
        ]
        for status, headers in rows:
            assert asked(url, "GET", "/store.json", **headers)[0] == status


def sent(url: str, text: bytes) -> bytes:
    """All that a server answers to bytes, until it closes the connection."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(text)
        found = b""
        while part := connection.recv(1 << 16):
            found += part
    return found


HELD = b"PUT /refs/hidden HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"


@pytest.mark.parametrize(
    ("status", "line", "headers"),
    [
        (400, "GET /store.json", f"Content-Length: {len(HELD)}"),
        (400, "PUT /refs/a", "Transfer-Encoding: chunked"),
        (400, "PUT /refs/a", f"Content-Length: 0\r\nContent-Length: {len(HELD)}"),
        (400, "PUT /refs/a", f"Content-Length: {1 << 20}"),
        (400, "PUT /nothing", f"Content-Length: {len(HELD)}"),
        (400, "GET http://[", "Connection: close"),
        (431, "GET /store.json", "X: y\r\n" * 200),
        (431, "GET /store.json", "X: " + "y" * 70_000),
        (414, "GET /" + "y" * 70_000, ""),
        (501, "POST /refs/a", f"Content-Length: {len(HELD)}"),
    ],
    ids=range(10),
)
def test_nothing_is_hidden_in_a_body(status: int, line: str, headers: str, tmp_path: Path) -> None:
    """Bytes that follow a refused request are not answered, as they would be behind a proxy."""
    Store(tmp_path / "s")
    with served(tmp_path / "s") as url:
        text = f"{line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n".encode()
        found = sent(url, text + (HELD if status != 431 else b""))
    assert found.startswith(b"HTTP/1.1 %d" % status) and found.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("text", [b"", b"GET /store.json HTTP/1.1\r\nHost: loc", HELD[:-1]])
def test_who_says_nothing_is_cut_off(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(server, "SLOWEST_BYTES_PER_SECOND", 1000)
    Store(tmp_path / "s")
    with served(tmp_path / "s") as url:
        begin = time.monotonic()
        assert b" 200 " not in sent(url, text)
        assert time.monotonic() < begin + 5


def test_the_longest_silent_of_too_many_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 4)
    Store(tmp_path / "s")
    with served(tmp_path / "s") as url:
        place = ("127.0.0.1", int(url.rpartition(":")[2]))
        silent = [socket.create_connection(place, timeout=10) for _ in range(6)]
        assert asked(url, "GET", "/store.json")[0] == 200
        assert [silent[i].recv(1) for i in range(3)] == [b""] * 3
        for connection in silent:
            connection.close()


def test_a_client_that_goes_away_is_no_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Store(tmp_path / "s")
    with (
        served(tmp_path / "s") as url,
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection,
    ):
        linger = struct.pack("ii", 1, 0)  # a reset at the end
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.sendall(b"GET /store.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
    assert capfd.readouterr().err == ""


def test_addresses_of_the_sixth_version(tmp_path: Path) -> None:
    Store(tmp_path / "s")
    try:
        opened = serve(tmp_path / "s", "::1", 0)
    except OSError as error:
        pytest.skip(f"NOT TESTED, this machine has no address ::1: {error}")
    opened.server_close()
    assert opened.server_address[0] == "::1"


def test_what_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    with served(tmp_path / "s") as url:
        assert asked(url, "PUT", PATH, b"y")[0] == 422
        assert asked(url, "PUT", "/refs/a", b"y")[0] == 507
        assert asked(url, "PUT", "/store.json", b"{}")[0] == 400
        assert asked(url, "PUT", PATH, b"", **{"Content-Length": str(1 << 40)})[0] == 413
        for length in ("x", "-1", "1_0", "9" * 5000):
            assert asked(url, "PUT", PATH, b"", **{"Content-Length": length})[0] == 400
        assert asked(url, "GET", PATH)[0] == 404
        assert asked(url, "PUT", PATH, b"x")[0] == 201
        assert asked(url, "GET", PATH) == (200, b"x")
        assert asked(url, "PUT", "/refs/a", Ref(None, 3, False).encoded())[0] == 201
    assert [item.path for item in store.folders()[0].items("blocks")] == [PATH[1:]]
