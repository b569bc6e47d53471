"""Agreements of hosts: all get the decision of host 0, and nobody waits for ever."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tfn.errors import ArgumentError, HostError
from tfn.nn.hosts import Hosts, agree

SOON = 0.3


def together(folder: Path, topics: list[list[str]], decide: Any, timeout_s: float) -> list[Any]:
    """What each host gets for its topics, or the error that it meets."""

    def host(index: int) -> list[Any]:
        hosts, results = Hosts(index, len(topics)), []
        for topic in topics[index]:
            try:
                results.append(agree(folder, hosts, topic, [index, topic], decide, timeout_s))
            except Exception as error:
                results.append(error)
        return results

    with ThreadPoolExecutor(len(topics)) as pool:
        return list(pool.map(host, range(len(topics))))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_all_get_the_decision_of_host_0(count: int, tmp_path: Path) -> None:
    topics = [f"topic {i}" for i in range(5)]
    results = together(tmp_path / "new", [topics] * count, lambda said: said, 30)
    expected = [[[i, topic] for i in range(count)] for topic in topics]
    assert results == [expected] * count


def test_what_others_left_is_no_answer(tmp_path: Path) -> None:
    """The files of a run that was killed at any moment, with the same topic."""
    for name, record in {
        "call.json": {"topic": "a", "call": "old"},
        "answer-1.json": {"call": "old", "nonce": "older", "payload": "wrong"},
        "decision.json": {"nonces": [None, "older"], "decision": "wrong"},
    }.items():
        (tmp_path / name).write_text(json.dumps(record))
    assert together(tmp_path, [["a"]] * 2, len, 30) == [[2], [2]]
    for name in ("call.json", "answer-1.json", "decision.json"):
        (tmp_path / name).write_bytes(b"\x00[3]")
    assert together(tmp_path, [["a"]] * 2, len, 30) == [[2], [2]]


def test_an_error_of_the_decision_comes_to_all(tmp_path: Path) -> None:
    def decide(said: list[Any]) -> Any:
        raise ZeroDivisionError("here")

    (own,), (other,) = together(tmp_path, [["a"]] * 2, decide, 30)
    assert isinstance(own, ZeroDivisionError)
    assert isinstance(other, HostError)
    assert "host 0 gave up" in str(other) and "here" in str(other)


def test_a_host_that_does_not_come_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="no answer from host 1, 2 of 3"):
        agree(tmp_path, Hosts(0, 3), "save step 7", None, len, SOON)
    with pytest.raises(HostError, match=r"host 2 waited in vain[^$]*host 0 is at: save step 7"):
        agree(tmp_path, Hosts(2, 3), "save step 8", None, len, SOON)


def test_hosts_at_different_places_find_out(tmp_path: Path) -> None:
    (one,), (two,) = together(tmp_path, [["a"], ["b"]], len, SOON)
    assert "no answer from host 1" in str(one)
    assert "host 0 is at: a" in str(two)


def test_parts_of_hosts() -> None:
    assert [Hosts(i, 3).part("it", 6) for i in range(3)] == [slice(0, 2), slice(2, 4), slice(4, 6)]
    with pytest.raises(ArgumentError, match="7 rows, 3 hosts"):
        Hosts(0, 3).part("a batch", 7)
    for index, count in ((-1, 2), (2, 2), (0, 0)):
        with pytest.raises(ArgumentError):
            Hosts(index, count)
    assert repr(Hosts.here()) == "Hosts(0 of 1)"
