"""Servers of stores: who may ask, what is taken, and what does not get out."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tfn.errors import SecurityError
from tfn.nn.store import Store, digest, serve
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
