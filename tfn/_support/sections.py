"""Fork-safe sections: a fork, and the end of the process, wait until no thread is inside one.

Two things go wrong otherwise.  A child has only the thread that forked, so that a lock which
another thread held at that moment is never released there.  And the interpreter ends a daemon
thread when it requests the interpreter's lock; if C++ code is on its stack, as while a tree is
flattened, the whole process aborts.

    with section():
        return optree.tree_flatten(x)

Each thread has a lock of its own, which it holds within sections, so that threads never wait for
each other.  A fork takes the locks of all threads, and releases them afterwards; the end of the
process takes them and keeps them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

FORK_PATIENCE_SECONDS = 1.0
"""A fork waits this long for all threads: a section may call a user's code, which may wait for the
forking thread."""
END_PATIENCE_SECONDS = 2.0
"""The end of the process waits this long for all threads."""

_OWN = threading.local()
_LOCKS: dict[int, threading.RLock] = {}
"""By thread; the identifiers of threads are reused, which bounds the table."""
_TAKING = threading.RLock()
_ACQUIRED: list[list[threading.RLock]] = []


def section() -> threading.RLock:
    """The lock of this thread, to be held within a section; sections may be nested.

    Example:
        >>> with section(), section():
        ...     1 + 1
        2
    """
    try:
        own: threading.RLock = _OWN.lock
    except AttributeError:
        with _TAKING:  # so that a fork sees every lock
            own = _OWN.lock = _LOCKS[threading.get_ident()] = threading.RLock()
    return own


class cached_property(Generic[T]):
    """`functools.cached_property` without a lock.

    Python 3.11 has one for all objects of a class, held while a value is computed: in a child
    that was forked meanwhile, for ever.  Two threads may compute the same value here.

    Example:
        >>> class Square:
        ...     @cached_property
        ...     def area(self) -> int:
        ...         print("computed")
        ...         return 4
        >>> square = Square()
        >>> square.area + square.area
        computed
        8
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, x: object, owner: type | None = None) -> T:
        if x is None:
            return self  # type: ignore[return-value]
        value = x.__dict__[self.name] = self.compute(x)
        return value


def _take_all(patience_seconds: float) -> None:
    """Wait until no other thread is in a section, and keep all out."""
    _TAKING.acquire()
    acquired: list[threading.RLock] = []
    _ACQUIRED.append(acquired)
    deadline = time.monotonic() + patience_seconds
    for lock in list(_LOCKS.values()):
        if lock.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            acquired.append(lock)


def end() -> None:
    """Wait until no other thread is in a section, and keep all out until the process has ended."""
    _take_all(END_PATIENCE_SECONDS)


def _release_all() -> None:
    for lock in _ACQUIRED.pop():
        lock.release()
    _TAKING.release()


def _begin_child() -> None:
    """Drop the locks of the other threads, which the child does not have."""
    _LOCKS.clear()
    own = getattr(_OWN, "lock", None)
    if own is not None:
        _LOCKS[threading.get_ident()] = own
    _release_all()


os.register_at_fork(
    before=lambda: _take_all(FORK_PATIENCE_SECONDS),
    after_in_parent=_release_all,
    after_in_child=_begin_child,
)
