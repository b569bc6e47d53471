"""Transforms of tfn with the arguments and the special values that JAX's have."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfn import tree
from tfn.compat.avals import ShapedArray, float0, typeof
from tfn.compat.zeros import zeros_like_aval
from tfn.eager.arrays import weaken
from tfn.eager.run import asarray as run_asarray
from tfn.errors import CallbackError
from tfn.transforms import callback as callbacks
from tfn.transforms import tangents
from tfn.transforms.arguments import wraps
from tfn.transforms.jit import jit as tfn_jit

_HINTS = frozenset(
    {
        "inline",
        "keep_unused",
        "backend",
        "compiler_options",
        "abstracted_axes",
    }
)


class PjitFunction:
    """A jitted function: `tfn.jit`, under the name of its class in JAX.

    Libraries look for the name of this class, which is that in JAX.
    """

    def __init__(self, fun: Callable[..., Any], options: dict[str, Any]) -> None:
        wraps(fun)(self)
        self._jitted, self._fun = tfn_jit(fun, **options), fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        return self._jitted(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_jitted":  # not there while it is being copied
            raise AttributeError(name)
        return getattr(self._jitted, name)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of the function; an object with ``__get__`` has none of its own."""
        try:
            return inspect.signature(self._fun)
        except (TypeError, ValueError) as error:
            raise AttributeError("__signature__") from error

    def __repr__(self) -> str:
        return f"<PjitFunction of {self._fun!r}>"

    def __get__(self, instance: object, owner: type) -> Any:
        return self if instance is None else functools.partial(self, instance)


def jit(fun: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`tfn.jit`, without the options that say how to compile for whom.

    Example:
        >>> jit(lambda x: 2 * x, inline=True)(3.0).item()
        6.0
    """
    if fun is None:
        return functools.partial(jit, **options)
    known = {name: o for name, o in options.items() if name not in _HINTS and o is not None}
    return PjitFunction(fun, known)


@dataclass(frozen=True)
class _SymbolicZeroType:
    """The class of symbolic zeros, which is made of a type as JAX's is."""

    def __instancecheck__(self, x: object) -> bool:
        return isinstance(x, tangents.SymbolicZero)

    def __call__(self, aval: ShapedArray) -> tangents.SymbolicZero:
        return tangents.SymbolicZero(aval.shape, aval.dtype)

    @staticmethod
    def from_primal_value(val: Any) -> tangents.SymbolicZero:
        """The zero tangent of a value."""
        kind = typeof(val)
        return tangents.SymbolicZero(kind.shape, kind.dtype)


SymbolicZero: Any = _SymbolicZeroType()


def _reported(callback: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the host as JAX calls it: with Arrays; its errors become `CallbackError`."""

    @wraps(callback)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return callback(*tree.map(run_asarray, args), **tree.map(run_asarray, kwargs))
        except Exception as error:
            raise CallbackError(f"a callback failed: {traceback.format_exc()}") from error

    return run


def pure_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, **kwargs: Any
) -> Any:
    """`tfn.pure_callback`, of a function that takes Arrays; its results are weak where declared."""
    results = callbacks.pure_callback(_reported(callback), result_shape_dtypes, *args, **kwargs)
    return tree.map(
        lambda x, like: weaken(x, getattr(like, "weak_type", False)), results, result_shape_dtypes
    )


def io_callback(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`tfn.io_callback`, of a function that takes Arrays."""
    return callbacks.io_callback(_reported(callback), *args, **kwargs)


def device_get(x: Any) -> Any:
    """`tfn.device_get`, which leaves traced values, and what is no array, as they are.

    Example:
        >>> import tfn.numpy as tnp
        >>> device_get((tnp.ones(2), 1, "text"))
        (array([1., 1.], dtype=float32), 1, 'text')
    """

    def got(leaf: Any) -> Any:
        stays = not hasattr(leaf, "__array__") or getattr(leaf, "owner", None) is not None
        return leaf if stays else np.asarray(leaf)

    return tree.map(got, x)


def zero_from_primal(x: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of a tree of values: arrays, or symbolic zeros."""

    def zero(leaf: Any) -> Any:
        aval = typeof(leaf).to_tangent_aval()
        if symbolic_zeros:
            return SymbolicZero(aval)
        if aval.dtype is float0:
            return np.zeros(aval.shape, float0)
        return zeros_like_aval(aval)

    return tree.map(zero, x)
