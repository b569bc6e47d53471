"""`call`: a function that stays one operation in every trace.

Before -> after, for ``f = jit(lambda x: layer(layer(x)))`` with ``layer = call(lambda x: ...)``::

    { lambda ; a:f32[8]. let
        layer = { lambda ; a:f32[8]. ... }
        b = call[layer] a
        c:f32[8] = get[0] b
        d = call[layer] c
        e:f32[8] = get[0] d
      in (e,) }

What is made of the function - its trace, its derivatives, its kernels, its part of the program -
is made once, however often it is called; a stack of a hundred layers takes as long to compile as
one.  What is between calls is not fused with what is in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

from tfn._support.validate import a_function
from tfn.transforms.arguments import Argnums, P, R, name_of
from tfn.transforms.jit import Jitted
from tfn.transforms.static_args import Names


@overload
def call(
    function: Callable[P, R],
    *,
    name: str | None = None,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
) -> Jitted[P, R]: ...


@overload
def call(
    function: None = None,
    *,
    name: str | None = None,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


def call(
    function: Callable[P, R] | None = None,
    *,
    name: str | None = None,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
) -> Jitted[P, R] | Callable[[Callable[P, R]], Jitted[P, R]]:
    """Keep a function as one operation, compiled once for all its calls of one kind.

    Usable as ``@call``, ``@call(name="layer")`` and ``call(f, ...)``.  Called outside of a trace
    it is `jit`.  Derivatives of calls, and calls over mapped axes, are calls again.

    Args:
        name: what it prints as; the function's own name if None.
        static_argnums, static_argnames: arguments that are Python values, as for `jit`.

    Raises:
        ArgumentError, StaticArgumentError: as `jit` does.

    Example:
        >>> import tfn
        >>> layer = call(lambda x: x * x + 1, name="layer")
        >>> print(tfn.make_jaxpr(lambda x: layer(layer(x)))(1.0))
        { lambda ; a:f32[]. let
            layer = { lambda ; a:f32[]. let
                b:f32[] = mul a a
                c:f32[] = add b 1.0:f32
              in (c,) }
            b = call[layer] a
            c:f32[] = get[0] b
            d = call[layer] c
            e:f32[] = get[0] d
          in (e,) }
        >>> float(tfn.grad(layer)(3.0))
        6.0
    """
    if function is None:
        return lambda f: call(
            f, name=name, static_argnums=static_argnums, static_argnames=static_argnames
        )
    a_function("call", "function", function)
    return Jitted(function, static_argnums, static_argnames, called=name or name_of(function))
