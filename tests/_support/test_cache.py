"""Bounded caches: eviction by generations within one limit."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tfn._support import cache, events
from tfn._support.cache import MIN_ENTRIES, Cache
from tfn.config import config


@pytest.fixture(autouse=True)
def turns(monkeypatch: pytest.MonkeyPatch) -> int:
    """Room for 80 numbers of 100 bytes; what other tests have left is dropped."""
    cache.clear()
    monkeypatch.setattr(config, "cache_limit_bytes", 8000)
    return cache.info().turns


def numbers() -> Cache[int]:
    return Cache("numbers", lambda value: 100)


def test_stored_entries_are_found() -> None:
    table = numbers()
    assert table.find("a") is None
    assert table.keep("a", 1) == 1 and table.find("a") == 1 and len(table) == 1
    assert dict(table.items()) == {"a": 1} and table.young["a"] == 1
    table.clear()
    assert table.find("a") is None and len(table) == 0


def test_the_limit_holds_for_any_number_of_entries(turns: int) -> None:
    before = cache.info().dropped
    table, other = numbers(), numbers()
    for i in range(10_000):
        table.keep(i, i)
        if i % 3 == 0:
            other.keep(i, i)
        assert cache.info().size_bytes <= 8000 and len(table) + len(other) <= 80
    assert table.find(9_999) == 9_999 and table.find(9_000) is None
    assert cache.info().turns > turns + 100 and cache.info().dropped > before + 10_000


def test_evictions_are_events() -> None:
    table, begin_ns = numbers(), time.perf_counter_ns()
    for i in range(100):
        table.keep(i, i)
    said = [e.detail for e in events.events()[0] if e.kind == "cache" and e.begin_ns >= begin_ns]
    assert said == ["40 entries, 4,000 bytes"]


def test_used_entries_stay() -> None:
    table = numbers()
    table.keep("often", 1)
    for i in range(10_000):
        table.keep(i, i)
        if i % 25 == 0:
            assert table.find("often") == 1


def test_used_entries_become_young() -> None:
    """Else a program that asks for everything again and again would hold all of it."""
    table = numbers()
    for _ in range(5):
        for i in range(1000):
            if table.find(i) is None:
                table.keep(i, i)
            assert len(table) <= 80


def test_owners_come_by_after_each_turn() -> None:
    table = numbers()
    young = table.young
    table.keep("a", 1)
    table.shortcuts.append("a")
    cache.turn()
    assert table.shortcuts == [] and table.young is young and "a" not in young
    assert table.find("a") == 1 and "a" in young
    cache.turn()
    cache.turn()
    assert table.find("a") is None


def test_an_entry_larger_than_the_limit_stays_for_a_while(turns: int) -> None:
    table: Cache[int] = Cache("large", lambda value: 10**9)
    table.keep("a", 1)
    for _ in range(100):
        assert table.find("a") == 1
    assert cache.info().turns == turns
    for i in range(2 * MIN_ENTRIES):
        table.keep(i, i)
    assert len(table) <= MIN_ENTRIES


def test_without_a_limit_nothing_is_dropped(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_limit_bytes", 0)
    table = numbers()
    for i in range(1000):
        table.keep(i, i)
    assert len(table) == 1000 and cache.info().turns == turns


def test_tables_of_the_same_are_counted_together() -> None:
    table, other = numbers(), numbers()
    table.keep("a", 1)
    other.keep("a", 2)
    info = cache.info()
    assert info.entries["numbers"] == 2 and info.size_bytes == 200 and info.limit_bytes == 8000
    cache.turn()
    other.keep("b", 3)
    assert cache.info().size_bytes == 300
    del other
    assert cache.info().entries["numbers"] == 1 and cache.info().size_bytes == 100
    cache.clear()
    assert cache.info().entries["numbers"] == 0 and cache.info().size_bytes == 0


def test_threads_may_use_a_table_together() -> None:
    table, failed = numbers(), []

    def work(start: int) -> None:
        try:
            mine = [numbers() for _ in range(20)]
            for i in range(2000):
                table.keep((start, i), i)
                mine[i % 20].keep(i, i)
                found = table.find((start, i - 1))
                assert found in (None, i - 1)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(table) <= 80


def test_evicted_objects_may_use_the_cache() -> None:
    table: Cache[Any] = Cache("asking", lambda value: 100)

    class Asking:
        def __del__(self) -> None:
            table.keep("last", None)
            table.find(0)

    for i in range(1000):
        table.keep(i, Asking())
    assert len(table) <= 80
