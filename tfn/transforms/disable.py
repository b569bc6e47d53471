"""`disable_jit`: jitted functions, and loops, run as Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

DISABLED = [False]
"""Whether jitted functions run as Python."""


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """A block in which jitted functions, `lax.scan` and `lax.while_loop` run as Python.

    Each value can then be printed, and a debugger stops at each line.  It holds for all threads.

    Args:
        disable: False for a block within it in which functions are jitted again.

    Example:
        >>> import tfn
        >>> @tfn.jit
        ... def f(x):
        ...     y = x * 2
        ...     print(y)
        ...     return y
        >>> with disable_jit():
        ...     _ = f(tfn.numpy.arange(3))
        [0 2 4]
    """
    before, DISABLED[:] = DISABLED[0], [disable]
    try:
        yield
    finally:
        DISABLED[:] = [before]
