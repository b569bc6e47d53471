"""Transforms of tfn with the arguments and the special values that JAX's have."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tfn
from tfn import jit as tfn_jit
from tfn import tree
from tfn.compat.avals import ShapedArray, float0, typeof
from tfn.compat.zeros import Float0, zeros_like_aval
from tfn.dtypes import INEXACT
from tfn.eager.arrays import weaken
from tfn.eager.run import asarray as run_asarray
from tfn.errors import ArgumentError, CallbackError
from tfn.extend import wraps
from tfn.transforms import callback as callbacks
from tfn.transforms import tangents

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
        try:
            return self._jitted(*args, **kwargs)
        except ArgumentError:
            given = tree.leaves((args, kwargs))
            if not any(getattr(leaf, "dtype", None) == float0 for leaf in given):
                raise
        args, kwargs = tree.map(_without_bits, (args, kwargs))
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


def _without_bits(leaf: Any) -> Any:
    """An array of float0 as the node without leaves that it is here; all else as it is."""
    return Float0(leaf.shape) if getattr(leaf, "dtype", None) == float0 else leaf


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


def _of_integers(args: Any) -> Any:
    """A tree with an array of float0 for each leaf of integers, and None for others."""

    def place(leaf: Any) -> Float0 | None:
        kind = typeof(leaf)
        return None if kind.dtype in INEXACT else Float0(kind.shape)

    return tree.map(place, args)


def _placed(places: Any, slopes: Any) -> Any:
    """Slopes with arrays of float0 where those of integers are None."""
    return tree.map(lambda x, p: p if x is None else x, slopes, places, is_leaf=lambda x: x is None)


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """`tfn.value_and_grad`; gradients to integers are arrays of float0.

    Example:
        >>> value_and_grad(lambda x, n: x * n, (0, 1), allow_int=True)(2.0, 3)[1][1].dtype == float0
        True
    """
    both = tfn.value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)
    if not allow_int:
        return both

    @wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        value, slopes = both(*args, **kwargs)
        chosen = args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums)
        return value, _placed(_of_integers(chosen), slopes)

    return run


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """`tfn.grad`; gradients to integers are arrays of float0.

    Example:
        >>> grad(lambda n: 2.0 * n, allow_int=True)(3).dtype == float0
        True
    """
    if not allow_int:
        return tfn.grad(fun, argnums, has_aux, holomorphic)
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        value, slopes = both(*args, **kwargs)
        return (slopes, value[1]) if has_aux else slopes

    return run


def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """`tfn.jvp`; tangents of integers are arrays of float0.

    Example:
        >>> jvp(lambda n: 2 * n, (3,), (np.zeros((), float0),))[1].dtype == float0
        True
    """
    value, slopes, *aux = tfn.jvp(fun, primals, tangents, has_aux)  # type: ignore[call-overload]
    if any(slope is None for slope in tree.leaves(slopes, is_leaf=lambda x: x is None)):
        slopes = _placed(_of_integers(value), slopes)
    return value, slopes, *aux


def _pulled(places: Any, pull: Callable[..., Any], *cts: Any) -> Any:
    return _placed(places, pull(*cts))


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`tfn.vjp`; cotangents of integers are arrays of float0.

    Example:
        >>> vjp(lambda x, n: x * n, 2.0, 3)[1](1.0)[1].dtype == float0
        True
    """
    value, pull, *aux = tfn.vjp(fun, *primals, has_aux=has_aux)  # type: ignore[call-overload]
    if any(typeof(x).dtype not in INEXACT for x in tree.leaves(primals)):
        pull = tree.Partial(_pulled, _of_integers(primals), pull)
    return value, pull, *aux
