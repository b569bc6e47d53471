"""Functions with parameters given: ``jax.extend.linear_util``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfn._support.frozen import frozen


@frozen
class WrappedFun:
    """A function that other functions wrap: called by `call_wrapped`."""

    f: Callable[..., Any]
    params: dict[str, Any]

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """The result."""
        return self.f(*args, **self.params, **kwargs)


def wrap_init(
    f: Callable[..., Any], params: dict[str, Any] | None = None, debug_info: object = None
) -> WrappedFun:
    """A function to be wrapped."""
    return WrappedFun(f, params or {})
