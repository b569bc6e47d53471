"""Tracing without execution: `make_jaxpr`, `eval_shape`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

from tfn import tree
from tfn._support.validate import a_function
from tfn.trace import runtime, traces
from tfn.trace.build import zeros
from tfn.trace.jaxpr import Jaxpr
from tfn.transforms.arguments import Argnums, Function, wraps
from tfn.transforms.jit import Jitted
from tfn.transforms.shapes import ShapeDtypeStruct


@overload
def make_jaxpr(
    fun: Function,
    static_argnums: Argnums = (),
    *,
    return_shape: Literal[False] = False,
) -> Callable[..., Jaxpr]: ...


@overload
def make_jaxpr(
    fun: Function, static_argnums: Argnums = (), *, return_shape: Literal[True]
) -> Callable[..., tuple[Jaxpr, Any]]: ...


def make_jaxpr(
    fun: Function,
    static_argnums: Argnums = (),
    *,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that returns the closed function which `fun` is for its arguments.

    Args:
        static_argnums: arguments that are Python values.
        return_shape: whether to return (jaxpr, types of the results).

    Example:
        >>> import tfn.numpy as tnp
        >>> print(make_jaxpr(tnp.sin)(1.0))
        { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """
    a_function("make_jaxpr", "fun", fun)
    traced = Jitted(fun, static_argnums).trace

    @wraps(fun)
    def run(*args: object, **kwargs: object) -> Any:
        result = traced(*args, **kwargs)
        return (result.jaxpr, result.out_info) if return_shape else result.jaxpr

    return run


def eval_shape(fun: Function, *args: object, **kwargs: object) -> Any:
    """The types of a function's results, as a tree of `ShapeDtypeStruct`; nothing is computed.

    What the function returns as a type is of that type.

    Example:
        >>> import tfn
        >>> eval_shape(tfn.numpy.sum, tfn.ShapeDtypeStruct((3, 4), "float32")).shape
        ()
    """
    a_function("eval_shape", "fun", fun)

    @wraps(fun)
    def values(*args: object, **kwargs: object) -> Any:
        return tree.map(_value, fun(*args, **kwargs))

    return Jitted(values).eval_shape(*args, **kwargs)


def _value(x: object) -> object:
    """A value of a type; all else as it is."""
    if not isinstance(x, ShapeDtypeStruct):
        return x
    return runtime.installed().wrap(
        zeros(x.shape, x.dtype), traces.running()[-1], False, x.weak_type
    )
