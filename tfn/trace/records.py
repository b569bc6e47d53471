"""Compilation records: the rewrites and decisions of passes with their reasons, on demand.

    with collecting() as records:
        passes.boundaries(function, target)

A record says which rule fired, what was there before and after, why, and what the alternatives
would have cost.  Without a `collecting` block nothing is stored: a pass asks `sink` once, and all
else it does is the same.  Within the block the caches of passes (`cached`) are passed by, so that
each rule that a program needs is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, update_wrapper
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from tfn._support.frozen import frozen
from tfn.trace import source_lines

P = ParamSpec("P")
R = TypeVar("R")


class Cost(NamedTuple):
    """The cost of one alternative of a decision, in the unit that its name says."""

    name: str
    value: float


@frozen
class Record:
    """One step of a pass.

    Attributes:
        rule: the law, fold, policy or decision, by its name in the source.
        before, after: a node, or a loop nest; None where there is none.
        reason: in words, "" where the rule says it all.
        costs: of the alternatives, the chosen one first.
    """

    rule: str
    before: Any = None
    after: Any = None
    reason: str = ""
    costs: tuple[Cost, ...] = ()


_SINK: ContextVar[list[Record] | None] = ContextVar("records", default=None)


def sink() -> list[Record] | None:
    """The list that records are appended to at present; None if nothing collects them."""
    return _SINK.get()


def changed(rule: str, before: Any, after: Any) -> Any:
    """Returns `after`, and records that a rule made it, if it is another object than `before`.

    Its nodes get the line of the user that the node before had.
    """
    to = _SINK.get()
    if to is not None and after is not before:
        to.append(Record(rule, before, after))
        if source_lines.enabled():
            source_lines.inherit(after, before)
    return after


@contextmanager
def collecting() -> Iterator[list[Record]]:
    """Collects the records of passes that this thread runs in the block; the innermost list gets
    them.

    Example:
        >>> from tfn.trace.op import Op
        >>> from tfn.trace.argument import Range
        >>> from tfn.trace.uop import UOp
        >>> from tfn.lower.index.simplify import simplify
        >>> r = UOp(Op.RANGE, (), Range(0, 24))
        >>> with collecting() as records:
        ...     y = simplify(r * 1)
        >>> [record.rule for record in records]
        ['collect-terms']
    """
    records: list[Record] = []
    token = _SINK.set(records)
    try:
        yield records
    finally:
        _SINK.reset(token)


class Cached(Generic[P, R]):
    """A pass with an ``lru_cache`` that is passed by while records or lines are collected."""

    def __init__(self, run: Callable[P, R], maxsize: int) -> None:
        self._run, self._remembered = run, lru_cache(maxsize)(run)
        self.cache_clear = self._remembered.cache_clear
        update_wrapper(self, run)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of the pass."""
        anew = _SINK.get() is not None or source_lines.tracked()  # a known result has no lines
        run: Callable[P, R] = self._run if anew else self._remembered
        return run(*args, **kwargs)


def cached(maxsize: int) -> Callable[[Callable[P, R]], Cached[P, R]]:
    """Decorates a pass: ``lru_cache``, but while records or lines are collected it runs anew.

    Example:
        >>> @cached(maxsize=2)
        ... def square(x):
        ...     print("computed")
        ...     return x * x
        >>> square(3), square(3)
        computed
        (9, 9)
    """
    return lambda run: Cached(run, maxsize)
