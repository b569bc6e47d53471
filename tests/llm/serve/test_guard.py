"""Who may ask: names of this machine, origins, tokens."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="pip install 'tfn[serve]' to test the server")

from tfn.llm.serve.guard import Rules
from tfn.llm.serve.refusal import Refused


def status(rules: Rules, path: str = "/v1/models", **headers: str) -> int:
    given = {"host": "localhost:8080"} | headers
    try:
        rules.check(path, given)
    except Refused as refused:
        return refused.status
    return 200


@pytest.mark.parametrize(
    ("host", "wanted"),
    [
        ("localhost", 200), ("LOCALHOST:80", 200), ("localhost.", 200), ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200), ("[::1]", 200), ("192.168.1.5:1", 200), ("box.lan:8080", 200),
        ("evil.example", 403), ("evil.example:8080", 403), ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403), ("", 403), ("127.0.0.1@evil.example", 403),
        ("localhost:8080:80", 403), ("evil.example:80@localhost", 403),
    ],
)  # fmt: skip
def test_names_that_are_not_of_this_machine_are_refused(host: str, wanted: int) -> None:
    assert status(Rules(hosts=("box.lan",)), host=host) == wanted


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        ("http://localhost:8080", 200), ("https://chat.example", 200), ("null", 403), ("", 403),
        ("http://localhost:9090", 403), ("https://evil.example", 403), ("//localhost:8080", 403),
        ("https://chat.example.evil.example", 403), ("http://localhost:8080@evil.example", 403),
    ],
)  # fmt: skip
def test_pages_of_other_sites_are_refused(origin: str, wanted: int) -> None:
    assert status(Rules(origins=("https://chat.example",)), origin=origin) == wanted


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("Bearer sécret", 200), ("bearer sécret", 200), ("Bearer  sécret ", 200), ("", 401),
        ("Bearer", 401), ("Bearer secret", 401), ("Bearer sécrets", 401), ("Basic sécret", 401),
        ("sécret", 401), ("Bearer sécret x", 401),
    ],
)  # fmt: skip
def test_a_token_is_needed_where_there_is_one(header: str, wanted: int) -> None:
    rules = Rules(token="sécret")
    header = header.encode().decode("latin-1")  # as servers hand it on
    assert status(rules, authorization=header) == wanted
    assert status(rules, "/metrics", authorization=header) == wanted
    assert status(rules, "/health") == status(rules, "/") == 200
    assert status(Rules(), authorization=header) == 200
