"""Functions with parameters given: ``jax.extend.linear_util``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfn.extend import frozen


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


def transformation(generator: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """A function that wraps another in a generator, which yields arguments and then the result.

    ``wrap(f, *given)`` gives the wrapped function; ``yield args, kwargs`` receives the result of
    `f`, and what is yielded next is that of the wrapped function.

    Example:
        >>> @transformation
        ... def doubled(*args):
        ...     out = yield args, {}
        ...     yield 2 * out
        >>> doubled(wrap_init(max)).call_wrapped(1, 3)
        6
    """

    def wrap(fun: WrappedFun, *given: Any) -> WrappedFun:
        def call(*args: Any, **kwargs: Any) -> Any:
            steps = generator(*given, *args, **kwargs)
            inner_args, inner_kwargs = next(steps)
            result = steps.send(fun.call_wrapped(*inner_args, **inner_kwargs))
            steps.close()
            return result

        return WrappedFun(call, {})

    return wrap
