"""Names for parts of a program: `named_scope`, which the viewer and the profiler sum costs by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tfn._support.validate import shown
from tfn.errors import ArgumentError
from tfn.trace import source_lines


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """A block, or a function that it decorates, whose operations have a name in tables of costs.

    Scopes within each other make a path, ``encoder/attention``; modules of `tfn.nn` are scopes of
    their own.  `tfn.view` and `tfn.profiler.kernels` show the cost of each.

    Args:
        name: of the block; what is computed, and how it is cached, does not depend on it.

    Raises:
        ArgumentError: for a name that is not a text.

    Example:
        >>> import tfn
        >>> def step(x):
        ...     with named_scope("square"):
        ...         return x * x
        >>> float(tfn.jit(step)(3.0))
        9.0
    """
    if not isinstance(name, str):
        raise ArgumentError("a scope has a text as its name", got=shown(name), hint='"encoder"')
    with source_lines.scoped(name):
        yield


def recorded() -> bool:
    """Whether scopes are recorded at present: `tfn.view` and the profiler trace for it.

    Example:
        >>> recorded()
        False
    """
    return source_lines.tracked()
