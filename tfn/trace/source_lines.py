"""Source lines of nodes: the line of the user's code that recorded a node, tracked on demand.

Equal nodes are one object, so nodes carry no lines.  During `tracking`, and while
`config.debug_nans` is on, the line that recorded a node is stored in a weak table beside it, and
nodes that are made from others, by substitution or by a rule, inherit theirs.  So is the path of
the scopes in which it was recorded.  Otherwise nothing is stored, at no cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import local
from typing import Any, NamedTuple, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

from tfn.config import config
from tfn.errors import Line, show_line


class Node(Protocol):
    """A node; `UOp`, which is defined above this file."""

    @property
    def src(self) -> tuple[Self, ...]:
        """Its operands."""


class Origin(NamedTuple):
    """The line that recorded a node, and the path of the scopes around it."""

    line: Line
    scope: tuple[str, ...]


N = TypeVar("N", bound=Node)
_ORIGINS: WeakKeyDictionary[Node, Origin] = WeakKeyDictionary()
_SCOPE = local()
_TRACKING_BLOCKS = [0]  # the number of `tracking` blocks that are active


def enabled() -> bool:
    """Whether lines are tracked at present."""
    return _TRACKING_BLOCKS[0] > 0 or config.debug_nans


def tracked() -> bool:
    """Whether this is within a `tracking` block, where what was traced before has no lines."""
    return _TRACKING_BLOCKS[0] > 0


def recorded() -> bool:
    """Whether nodes get the lines of the code that runs at present."""
    return enabled() and not getattr(_SCOPE, "inherits", False)


@contextmanager
def inheriting() -> Iterator[None]:
    """A block whose nodes get no lines: later they inherit that of the node whose rule it is."""
    before = getattr(_SCOPE, "inherits", False)
    _SCOPE.inherits = True
    try:
        yield
    finally:
        _SCOPE.inherits = before


@contextmanager
def tracking() -> Iterator[None]:
    """Track lines during the block; it begins with none, unless lines are tracked already."""
    if not enabled():
        _ORIGINS.clear()  # equal nodes of another function may still have its lines
    _TRACKING_BLOCKS[0] += 1
    try:
        yield
    finally:
        _TRACKING_BLOCKS[0] -= 1


def scope() -> tuple[str, ...]:
    """The names of the scopes of this thread, the outermost first."""
    path: tuple[str, ...] = getattr(_SCOPE, "path", ())
    return path


@contextmanager
def scoped(name: str) -> Iterator[None]:
    """A block whose nodes are recorded in a scope of this name, within those that run."""
    before = scope()
    _SCOPE.path = (*before, name)
    try:
        yield
    finally:
        _SCOPE.path = before


def put(node: Node, place: Line) -> None:
    """Gives a line to a node."""
    _ORIGINS[node] = Origin(place, scope())


def follow(replaced: Mapping[N, Node]) -> None:
    """Copies the lines of nodes to their replacements that have none."""
    for old, new in replaced.items():
        if new is not old and old in _ORIGINS:
            _ORIGINS.setdefault(new, _ORIGINS[old])


def cover(roots: Iterable[Node], place: Line) -> None:
    """Gives a line to all nodes under the roots, down to those that have one already."""
    _cover(roots, Origin(place, scope()))


def _cover(roots: Iterable[Node], origin: Origin) -> None:
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node not in _ORIGINS:
            _ORIGINS[node] = origin
            waiting.extend(node.src)


def inherit(result: object, origin: Any) -> None:
    """Gives the nodes that a rule made, in tuples and lists too, the line of their origin."""
    if origin in _ORIGINS:
        _cover(_nodes(result), _ORIGINS[origin])


def _nodes(result: object) -> Iterator[Node]:
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from _nodes(part)
    elif hasattr(result, "src"):
        yield result


def line_of(node: Node) -> Line:
    """The path and number of the line that made a node; None if it is not known."""
    origin = _ORIGINS.get(node)
    return None if origin is None else origin.line


def scope_of(node: Node) -> tuple[str, ...] | None:
    """The path of the scopes in which a node was recorded; None if it is not known."""
    origin = _ORIGINS.get(node)
    return None if origin is None else origin.scope


def of(node: Node) -> str:
    """The line that made a node, as ``train.py:31  y = x @ w``; empty if it is not known."""
    return show_line(line_of(node))
