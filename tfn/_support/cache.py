"""Tables of what was made and can be made again: what was used lately stays, within one limit.

A table has two generations.  What is made is young, and so is what is found among the old.  When
what has become young in all tables takes half of `config.cache_limit_bytes`, all of them turn: the
old is dropped, and the young becomes the old::

    young  c d   ->   young          what is used in the next generation is young again,
    old    a b        old    c d     and what is not is dropped at its end

So the tables together take no more than the limit, and to find what is young is one look into a
dict, which notes nothing.

Source: the least recently used of two generations, as in the collectors that copy; what is used is
told from what is not to within half of the limit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from threading import RLock
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakSet

from tfn.config import config

V = TypeVar("V")
NODE_BYTES = 500
"""Bytes of a node of a graph with its place in the tables, for those who estimate."""
LARGEST_PART = 8
"""No entry counts for more than this part of the limit: else each use of it would be a turn."""


class CacheInfo(NamedTuple):
    """What the tables of a process hold.

    Attributes:
        entries: how many, by what the tables are of.
        size_bytes: what they take, estimated.
        limit_bytes: the most that it may take, 0 for any; `config.cache_limit_bytes`.
        turns: how often a generation has ended.
        dropped: how many entries were dropped, because they had not been used.
    """

    entries: dict[str, int]
    size_bytes: int
    limit_bytes: int
    turns: int
    dropped: int


class _Total:
    """Of all tables together."""

    def __init__(self) -> None:
        self.young_bytes = self.old_bytes = self.turns = self.dropped = 0


_TOTAL = _Total()
_CACHES: WeakSet[Cache[Any]] = WeakSet()
_LOCK = RLock()  # reentrant, because a garbage collection inside it may run anything
os.register_at_fork(
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)


class Cache(Generic[V]):
    """A table of what was used lately.

    Attributes:
        of: what it is a table of; tables of the same are counted together.
        size_bytes: what an entry takes.
        young: entries of this generation, always in the same dict, to be looked into first.
        shortcuts: ways past the table, for its owner: it is emptied at each turn, so that what is
            in use comes by and becomes young.

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
        with _LOCK:
            _CACHES.add(self)

    def find(self, key: Any) -> V | None:
        """The entry of a key, which is young from now on; None if there is none."""
        found = self.young.get(key)
        if found is None and self.old:
            found = self.old.pop(key, None)
            if found is not None:
                self.keep(key, found)
        return found

    def keep(self, key: Any, value: V) -> V:
        """Hold a value, which is given back."""
        size_bytes, limit = self.size_bytes(value), config.cache_limit_bytes
        if limit:
            size_bytes = min(size_bytes, limit // LARGEST_PART)
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
    """End a generation: drop what was not used in it."""
    dropped = []  # until all tables have turned: what dies may ask them for something
    for cache in _caches():
        dropped.append(cache.old)
        cache.old, cache.old_bytes = dict(cache.young), cache.young_bytes
        cache.young.clear()
        cache.young_bytes = 0
        cache.shortcuts.clear()
    _TOTAL.old_bytes, _TOTAL.young_bytes = _TOTAL.young_bytes, 0
    _TOTAL.turns += 1
    _TOTAL.dropped += sum(map(len, dropped))


def clear() -> None:
    """Drop all entries of all tables."""
    for cache in _caches():
        cache.clear()


def info() -> CacheInfo:
    """What the tables hold.

    Example:
        >>> info().limit_bytes == config.cache_limit_bytes
        True
    """
    entries: dict[str, int] = {}
    for cache in _caches():
        entries[cache.of] = entries.get(cache.of, 0) + len(cache)
    size_bytes = _TOTAL.young_bytes + _TOTAL.old_bytes
    return CacheInfo(entries, size_bytes, config.cache_limit_bytes, _TOTAL.turns, _TOTAL.dropped)
