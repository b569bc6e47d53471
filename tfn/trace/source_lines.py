"""Which line of the user made a node: kept only while somebody wants to know.

Nodes are shared by all who make equal ones, so they carry no lines.  While `keeping`, and while
`config.debug_nans` is on, the line that recorded a node is noted in a weak table beside it, and
what is made from nodes, by substitution or by a rule, inherits theirs.  Otherwise nothing is
noted, and nothing is paid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from tfn.config import config
from tfn.errors import Line, show_line

_LINES: WeakKeyDictionary[Any, Line] = WeakKeyDictionary()
_WANTED = [0]  # by how many


def kept() -> bool:
    """Whether lines are noted at present."""
    return _WANTED[0] > 0 or config.debug_nans


@contextmanager
def keeping() -> Iterator[None]:
    """Note lines for the block."""
    _WANTED[0] += 1
    try:
        yield
    finally:
        _WANTED[0] -= 1


def follow(new: Mapping[Any, Any]) -> None:
    """Nodes have become others, which inherit their lines."""
    for old, made in new.items():
        if made is not old and old in _LINES:
            _LINES[made] = _LINES[old]


def cover(roots: Iterable[Any], place: Line) -> None:
    """Nodes under the roots that have no line get this one; what lies under those that have one
    has been covered."""
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node not in _LINES:
            _LINES[node] = place
            waiting.extend(node.src)


def inherit(made: Any, like: Any) -> None:
    """What a rule made from a node, in whatever containers, gets its line."""
    if like in _LINES:
        cover(_nodes(made), _LINES[like])


def _nodes(made: Any) -> Iterator[Any]:
    if isinstance(made, (tuple, list)):
        for part in made:
            yield from _nodes(part)
    elif hasattr(made, "src"):
        yield made


def of(node: Any) -> str:
    """The line that made a node, as ``train.py:31  y = x @ w``; empty if it is not known."""
    return show_line(_LINES.get(node))
