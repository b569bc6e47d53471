"""Stores of several hosts: reads, writes and lists by HTTP, and hosts that go away."""

from __future__ import annotations

import socket
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.nn.store import hosts
from tests.nn.store.test_repository import ARRAYS, same
from tests.nn.store.test_server import served
from tfn.errors import ArgumentError, StateError
from tfn.nn.store import Store, remote, scrub, verify
from tfn.nn.store.repository import in_order


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LOST_SECONDS", 0.0)


def test_two_hosts_with_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LISTED", 3)
    Store(tmp_path / "b")
    with served(tmp_path / "b", "secret") as url:
        store = Store([tmp_path / "a", url], replicas=2, token="secret", block_bytes=1000)
        for name in "pqrst":
            store.put(name, ARRAYS if name == "p" else {"x": np.ones(1)})
        same(store.get("p"))
        assert store.ls() == [*"pqrst"] and verify(store) == []
        store.delete("t")
        (tmp_path / "a" / "token").write_text("secret\n")
        assert Store(tmp_path / "a").ls() == [*"pqrs"]
    same(Store(tmp_path / "b").get("p"))  # which has all copies
    same(Store(tmp_path / "a").get("p"))  # while the other one is away


def test_a_host_that_is_lost_while_it_is_written_to(tmp_path: Path) -> None:
    Store(tmp_path / "b")
    with served(tmp_path / "b") as url:
        store = Store([tmp_path / "a", url], replicas=2, block_bytes=1000)
    with pytest.warns(UserWarning, match="fewer copies"):
        store.put("a", ARRAYS)
    same(store.get("a"))
    with served(tmp_path / "b", port=int(url.rpartition(":")[2])):
        assert all(damage.mended for damage in scrub(store))
    same(Store(tmp_path / "b").get("a"))


def test_a_host_that_says_nothing_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that are open to it wait beside each other, and are not tried one by one."""
    monkeypatch.setattr(remote, "LOST_SECONDS", 60.0)
    Store(tmp_path / "b")
    with served(tmp_path / "b") as url:
        place = remote.Remote(url, timeout_s=0.2)
        for _ in range(3):
            place._idle.append(place._opened())
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = silent.getsockname()
            for connection in place._idle:
                connection.sock.close()
                connection.sock = socket.create_connection(address, timeout=0.2)
            begin = time.monotonic()
            for _ in range(5):
                with pytest.raises(ConnectionError, match="not answer"):
                    place.read("store.json")
    assert time.monotonic() < begin + 0.6


def test_threads_share_connections(tmp_path: Path) -> None:
    Store(tmp_path / "b", block_bytes=100).put("a", ARRAYS)
    interval = sys.getswitchinterval()
    with served(tmp_path / "b") as url:
        place = remote.Remote(url)
        try:
            sys.setswitchinterval(1e-6)
            jobs = (partial(place.read, "store.json") for _ in range(200))
            assert len({bytes(raw) for raw in in_order(jobs, ahead=8)}) == 1
        finally:
            sys.setswitchinterval(interval)
        assert len(place._idle) <= remote.MOST_IDLE
        place.close()


def test_a_host_whose_link_goes_down_in_the_middle(tmp_path: Path) -> None:
    refused = hosts.namespaces.allowed()
    if refused:
        pytest.skip(f"NOT TESTED, a store over several hosts: {refused}")
    with hosts.namespaces.hosts(3):
        found = hosts.lost(tmp_path, 1, 100_000)
    assert (found["read"], found["write"]) == (1, 1)


def test_wrong_tokens_and_addresses_are_refused(tmp_path: Path) -> None:
    Store(tmp_path / "b")
    with (
        served(tmp_path / "b", "secret") as url,
        pytest.raises(StateError, match="cannot be reach"),
    ):
        Store([tmp_path / "a", url], token="wrong")
    with pytest.raises(ArgumentError, match="a folder or a URL"):
        Store("ftp://host")
