"""Source lines of nodes: the line of the user's code that recorded a node, tracked on demand.

Equal nodes are one object, so nodes carry no lines.  During `tracking`, and while
`config.debug_nans` is on, the line that recorded a node is stored in a weak table beside it, and
nodes that are made from others, by substitution or by a rule, inherit theirs.  Otherwise nothing
is stored, at no cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

from tfn.config import config
from tfn.errors import Line, show_line


class Node(Protocol):
    """A node; `UOp`, which is defined above this file."""

    @property
    def src(self) -> tuple[Self, ...]:
        """Its operands."""


N = TypeVar("N", bound=Node)
_LINES: WeakKeyDictionary[Node, Line] = WeakKeyDictionary()
_TRACKING_BLOCKS = [0]  # the number of `tracking` blocks that are active


def enabled() -> bool:
    """Whether lines are tracked at present."""
    return _TRACKING_BLOCKS[0] > 0 or config.debug_nans


def tracked() -> bool:
    """Whether this is within a `tracking` block, where what was traced before has no lines."""
    return _TRACKING_BLOCKS[0] > 0


@contextmanager
def tracking() -> Iterator[None]:
    """Track lines during the block; it begins with none, unless lines are tracked already."""
    if not enabled():
        _LINES.clear()  # equal nodes of another function may still have its lines
    _TRACKING_BLOCKS[0] += 1
    try:
        yield
    finally:
        _TRACKING_BLOCKS[0] -= 1


def put(node: Node, place: Line) -> None:
    """Gives a line to a node."""
    _LINES[node] = place


def follow(replaced: Mapping[N, Node]) -> None:
    """Copies the lines of nodes to their replacements that have none."""
    for old, new in replaced.items():
        if new is not old and old in _LINES:
            _LINES.setdefault(new, _LINES[old])


def cover(roots: Iterable[Node], place: Line) -> None:
    """Gives a line to all nodes under the roots, down to those that have one already."""
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node not in _LINES:
            _LINES[node] = place
            waiting.extend(node.src)


def inherit(result: object, origin: Any) -> None:
    """Gives the nodes that a rule made, in tuples and lists too, the line of their origin."""
    if origin in _LINES:
        cover(_nodes(result), _LINES[origin])


def _nodes(result: object) -> Iterator[Node]:
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from _nodes(part)
    elif hasattr(result, "src"):
        yield result


def line_of(node: Node) -> Line:
    """The path and number of the line that made a node; None if it is not known."""
    return _LINES.get(node)


def of(node: Node) -> str:
    """The line that made a node, as ``train.py:31  y = x @ w``; empty if it is not known."""
    return show_line(_LINES.get(node))
