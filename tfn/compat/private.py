"""Private parts of JAX that libraries import: frames of tracebacks, the registry of trees.

tfn hides its own frames; those of a library are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import numpy as np
import optree

from tfn import tree
from tfn.compat.avals import typeof
from tfn.errors import TreeError, ours
from tfn.extend import section

BACKENDS: dict[str, object] = {}
"""The backends of JAX that have been started: none."""

TYPES_OF: dict[type[Any], Callable[[Any], Any]] = {np.ndarray: typeof}
CANONICAL: dict[type[Any], Callable[[Any], Any]] = {np.ndarray: np.asarray}
"""Tables to which libraries add classes of arrays of their own.  Whatever has ``__array__`` is an
array for tfn, so that their rows are not needed."""


class Registry:
    """The classes that are nodes of trees."""

    def __contains__(self, cls: type[Any]) -> bool:
        with section():
            return optree.register_pytree_node.get(cls, namespace=tree.NAMESPACE) is not None


REGISTRY = Registry()


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[Callable[[str], TreeError]]:
    """The first error of a prefix that does not fit a tree, as a function of its name; or none."""
    try:
        tree.broadcast_prefix(prefix_tree, full_tree, is_leaf)
    except TreeError as error:
        what = error.what

        def named(name: str) -> TreeError:
            return TreeError(what, got=tree.difference(prefix_tree, full_tree, name, is_leaf))

        return [named]
    return []


F = TypeVar("F", bound=Callable[..., Any])


def register_exclusion(path: str) -> None:
    """Does nothing: the frames of a library are shown."""


def api_boundary(fun: F, **options: object) -> F:
    """The function as it is."""
    return fun


def include_frame(frame: FrameType) -> bool:
    """Whether a frame is the user's, or a library's, and not tfn's own."""
    return not ours(frame)


@contextmanager
def user_context(context: object = None, **options: object) -> Any:
    """A block as it is."""
    yield


def current() -> None:
    """None: a traceback says where code is."""
