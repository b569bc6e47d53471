"""Methods of JAX's functions of two arrays: ``jnp.add.reduce``, ``accumulate``, ``outer``, ``at``.

jnp.bitwise_xor.reduce(x, axis=-1)  ->  lax.reduce of the last axis
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tfn import lax
from tfn import numpy as tnp
from tfn.errors import ArgumentError

# fmt: off
BEGINS: dict[str, Any] = {
    "add": 0, "multiply": 1, "bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0,
    "logical_and": True, "logical_or": False, "logical_xor": False, "logaddexp": -tnp.inf,
    "logaddexp2": -tnp.inf, "maximum": None, "minimum": None,
}
"""The associative functions, and the values that change nothing; None for those without one."""

PAIRS = frozenset((*BEGINS, "subtract", "divide", "power", "arctan2", "hypot", "equal", "not_equal",
                   "less", "less_equal", "greater", "greater_equal", "left_shift", "right_shift"))
"""The functions of two arrays that have these methods."""
# fmt: on


def with_methods(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two arrays with the methods of NumPy's.

    Example:
        >>> multiply = with_methods("multiply", tnp.multiply)
        >>> multiply.reduce(tnp.arange(1, 5)).item()
        24
        >>> multiply.outer(tnp.array([1, 2]), tnp.array([3, 4])).tolist()
        [[3, 4], [6, 8]]
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def reduce(
        a: Any,
        axis: int | None = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        _associative(name, out)
        x = _operand(name, a, dtype)
        begin = BEGINS[name]
        if where is not None:
            if initial is None and begin is None:
                raise ArgumentError(
                    f"{name}.reduce of chosen elements needs an initial value",
                    got="where= without initial=",
                    hint="pass initial=",
                )
            x = tnp.where(where, x, begin if begin is not None else initial)
        x = x.reshape(-1) if axis is None else tnp.moveaxis(x, axis, 0)
        if initial is not None or not x.shape[0]:
            first = tnp.full((1, *x.shape[1:]), begin if initial is None else initial, x.dtype)
            x = tnp.concatenate([first, x])
        last = lax.associative_scan(function, x)[-1]
        if keepdims:
            ndim = tnp.ndim(a)
            shape = (1,) * ndim if axis is None else _with_one(tnp.shape(a), axis)
            last = last.reshape(shape)
        return last

    def accumulate(a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        _associative(name, out)
        return lax.associative_scan(function, _operand(name, a, dtype), axis=axis)

    def outer(a: Any, b: Any) -> Any:
        x, y = tnp.asarray(a), tnp.asarray(b)
        return function(x.reshape(x.shape + (1,) * y.ndim), y)

    def at(a: Any, indices: Any, b: Any = None, *, inplace: bool = True) -> Any:
        if inplace:
            raise ArgumentError(
                "arrays do not change", got=f"{name}.at in place", hint="pass inplace=False"
            )
        x = tnp.asarray(a)
        if name == "add":
            return x.at[indices].add(b)
        if name == "multiply":
            return x.at[indices].multiply(b)
        return x.at[indices].set(function(x[indices], b))

    for method in (reduce, accumulate, outer, at):
        setattr(call, method.__name__, method)
    return call


def _operand(name: str, a: Any, dtype: Any) -> Any:
    x = tnp.asarray(a, dtype)
    return x != 0 if name.startswith("logical") else x


def _with_one(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    at = axis % len(shape)
    return (*shape[:at], 1, *shape[at + 1 :])


def _associative(name: str, out: object) -> None:
    if name not in BEGINS or out is not None:
        raise ArgumentError(
            f"{name} cannot be reduced",
            got="out=" if out is not None else "a function that is not associative",
            hint="use lax.scan",
        )
