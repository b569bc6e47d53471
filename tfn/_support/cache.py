"""Bounded caches: approximate LRU eviction by two generations, one limit for all caches.

A cache has two generations.  A new entry is young, and so is an old one that is used.  When the
young entries of all caches take half of `config.cache_limit_bytes`, a generation ends for all of
them: old entries are dropped, and young ones become old::

    young  c d   ->   young          an entry used in the next generation becomes young again;
    old    a b        old    c d     others are dropped at its end

So all caches together take no more than the limit; and a hit among the young is one lookup in a
dict, without the bookkeeping of an exact LRU.

Source: the second-chance approximation of LRU, with the two spaces of a copying collector; the
recency of an entry is known to within half of the limit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from threading import RLock
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakSet

from tfn._support import events
from tfn.config import config

V = TypeVar("V")
NODE_BYTES = 500
"""Memory of a node of a graph with its table entries, for estimates of `size_bytes`."""
MIN_ENTRIES = 8
"""Entries of any size that the limit holds: each counts for at most this part of it.  A larger one
would end a generation each time it is used."""


class CacheInfo(NamedTuple):
    """Contents of the caches of a process.

    Attributes:
        entries: their number, by kind of cache.
        size_bytes: their memory, estimated.
        limit_bytes: the limit of `size_bytes`, 0 for none; `config.cache_limit_bytes`.
        turns: the number of generations that have ended.
        dropped: the number of entries that were evicted.
    """

    entries: dict[str, int]
    size_bytes: int
    limit_bytes: int
    turns: int
    dropped: int


class _Total:
    """Counts of all caches together."""

    def __init__(self) -> None:
        self.young_bytes = self.old_bytes = self.turns = self.dropped = 0


_TOTAL = _Total()
AT_TURN: list[Callable[[], None]] = []
"""Called at the end of each generation, and when caches are emptied: they drop what bypasses
caches elsewhere, as `Cache.shortcuts` does."""
_CACHES: WeakSet[Cache[Any]] = WeakSet()
_LOCK = RLock()  # reentrant, because a garbage collection inside it may run anything
os.register_at_fork(
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)


class Cache(Generic[V]):
    """A cache of recently used values.

    Attributes:
        of: the kind of its entries; caches of one kind are counted together.
        size_bytes: estimates the memory of an entry.
        young: entries of this generation, always the same dict: hot paths look here first.
        shortcuts, shortcuts_by: references with which the owner bypasses the cache, all together
            and by keys; both are emptied at the end of each generation, so that entries in use
            are looked up, and become young.

    Example:
        >>> squares = Cache("squares", lambda value: 8)
        >>> squares.keep(3, 9)
        9
        >>> squares.find(3), squares.find(4), len(squares)
        (9, None, 1)
    """

    __slots__ = (
        "__weakref__",
        "of",
        "old",
        "old_bytes",
        "shortcuts",
        "shortcuts_by",
        "size_bytes",
        "young",
        "young_bytes",
    )

    def __init__(self, of: str, size_bytes: Callable[[V], int]) -> None:
        self.of, self.size_bytes = of, size_bytes
        self.young: dict[Any, V] = {}
        self.old: dict[Any, V] = {}
        self.young_bytes = self.old_bytes = 0
        self.shortcuts: list[Any] = []
        self.shortcuts_by: dict[Any, list[Any]] = {}
        with _LOCK:
            _CACHES.add(self)

    def find(self, key: object) -> V | None:
        """The entry of a key, which becomes young; None if there is none."""
        value = self.young.get(key)
        if value is None and self.old:
            value = self.old.pop(key, None)
            if value is not None:
                self.keep(key, value)
        return value

    def keep(self, key: object, value: V) -> V:
        """Store a value, and return it."""
        size_bytes, limit = self.size_bytes(value), config.cache_limit_bytes
        if limit:
            size_bytes = min(size_bytes, limit // MIN_ENTRIES)
            if _TOTAL.young_bytes + size_bytes > limit // 2:
                turn()
        _TOTAL.young_bytes += size_bytes
        self.young_bytes += size_bytes
        self.young[key] = value
        return value

    def items(self) -> Iterator[tuple[Any, V]]:
        """All entries with their keys."""
        return iter([*self.young.items(), *self.old.items()])

    def clear(self) -> None:
        """Drop all entries."""
        self._release()
        self.young.clear()
        self.old.clear()
        self.shortcuts.clear()
        self.shortcuts_by.clear()

    def _release(self, total: _Total = _TOTAL) -> None:
        total.young_bytes -= self.young_bytes
        total.old_bytes -= self.old_bytes
        self.young_bytes = self.old_bytes = 0

    def __del__(self) -> None:
        self._release()

    def __len__(self) -> int:
        return len(self.young) + len(self.old)


def _caches() -> list[Cache[Any]]:
    with _LOCK:
        return list(_CACHES)


def turn() -> None:
    """End a generation: drop the entries that were not used in it."""
    begin_ns = time.perf_counter_ns()
    dropped_bytes = _TOTAL.old_bytes
    dropped = []  # alive until the loop ends: the end of an entry may use a cache
    for cache in _caches():
        dropped.append(cache.old)
        cache.old, cache.old_bytes = dict(cache.young), cache.young_bytes
        cache.young.clear()
        cache.young_bytes = 0
    drop_shortcuts()
    _TOTAL.old_bytes, _TOTAL.young_bytes = _TOTAL.young_bytes, 0
    _TOTAL.turns += 1
    entries = sum(map(len, dropped))
    _TOTAL.dropped += entries
    if entries:
        said = f"{entries:,} entries, {dropped_bytes:,} bytes"
        events.add("cache", "memory eviction", begin_ns, said)


def drop_shortcuts() -> None:
    """Drop what bypasses the caches, so that every entry is looked up by its key."""
    for cache in _caches():
        cache.shortcuts.clear()
        cache.shortcuts_by.clear()
    for forget in AT_TURN:
        forget()


def clear() -> None:
    """Drop all entries of all caches."""
    for cache in _caches():
        cache.clear()
    for forget in AT_TURN:
        forget()


def info() -> CacheInfo:
    """Contents of the caches of this process.

    Example:
        >>> info().limit_bytes == config.cache_limit_bytes
        True
    """
    entries: dict[str, int] = {}
    for cache in _caches():
        entries[cache.of] = entries.get(cache.of, 0) + len(cache)
    size_bytes = _TOTAL.young_bytes + _TOTAL.old_bytes
    return CacheInfo(entries, size_bytes, config.cache_limit_bytes, _TOTAL.turns, _TOTAL.dropped)
