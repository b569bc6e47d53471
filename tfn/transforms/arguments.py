"""Arguments of a user's function: their names in messages, and checks of their values.

Names of arguments are those the user wrote, with the path inside a nested container:
``params['w'][0]``.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tfn import tree
from tfn._support.frozen import frozen
from tfn._support.validate import several
from tfn.dtypes import INEXACT, DType
from tfn.errors import ArgumentError, GradientError, NumberError, TfnError
from tfn.trace import refs, runtime
from tfn.trace.concretization import show as show
from tfn.transforms.annotations import checked
from tfn.transforms.shapes import ShapeDtypeStruct

Function = Callable[..., Any]
Argnums = int | Sequence[int]

P = ParamSpec("P")
"""The parameters of the function that a transform wraps, which the result keeps."""

Q = ParamSpec("Q")
"""The parameters of a method without the instance it is bound to."""

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
"""The result of that function."""

Instance = TypeVar("Instance")
"""The object that a method is bound to."""

Aux = TypeVar("Aux")
"""The second part of its result, with ``has_aux=True``."""


def name_of(function: Function) -> str:
    """The name of a function in messages."""
    if isinstance(function, partial):
        return name_of(function.func)
    return getattr(function, "__name__", None) or type(function).__name__


def wraps(function: Callable[P, Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`functools.wraps`, for objects too whose attributes are not a function's."""

    def named(wrapper: Callable[P, R]) -> Callable[P, R]:
        types = {"__name__": str, "__qualname__": str, "__annotations__": dict}
        fitting = [
            name
            for name in functools.WRAPPER_ASSIGNMENTS
            if isinstance(getattr(function, name, None), types.get(name, object))
        ]
        return functools.update_wrapper(wrapper, function, fitting)

    return named


def where(function: Function) -> str:
    """A function and the line it begins on: ``loss (train.py:29)``."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return name_of(function)
    return f"{name_of(function)} ({Path(code.co_filename).name}:{code.co_firstlineno})"


def parameter_names(function: Function, count: int) -> list[str]:
    """The names under which a function takes its first `count` positional arguments."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # builtins without a signature
        parameters = []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    names += [f"argument {i}" for i in range(len(names), count)]
    return names[:count]


def leaf_names(
    function: Function, structure: tree.Structure, positions: Sequence[int]
) -> list[str]:
    """The user's names for the leaves of the tuple of arguments at `positions`."""
    parameters = parameter_names(function, max(positions, default=-1) + 1)
    return [parameters[positions[keys[0]]] + text for keys, text in tree.places(structure, 1)]


def leaf_name(
    function: Function, structure: tree.Structure, positions: Sequence[int], i: int
) -> str:
    """The user's name for leaf `i` of them."""
    return leaf_names(function, structure, positions)[i]


def argument_names(
    function: Function, structure: tree.Structure, positions: Sequence[int] | None = None
) -> list[str]:
    """The user's names for the leaves of ``(args, kwargs)``, whose args are at `positions`."""
    count = structure.child(0).num_children if positions is None else len(positions)
    at = range(count) if positions is None else positions
    parameters = parameter_names(function, max(at, default=-1) + 1)
    names = []
    for (kind, which, *_), text in tree.places(structure, 2):
        names.append((str(which) if kind == 1 else parameters[at[which]]) + text)
    return names


def is_type(leaf: object) -> bool:
    """Whether an object says no more of an array than its shape and dtype."""
    named = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    return named and not hasattr(leaf, "__array__")


PLAIN = "pass an array or a number, or close over what is none"
STATIC = "let jit take it as static (static_argnums, static_argnames), or close over it"


def as_value(leaf: object, name: str | Callable[[], str], hint: str = PLAIN) -> Any:
    """A leaf as a Value; its name may be made when it is needed.

    Raises:
        ArgumentError: naming the leaf, if it is not an array or a number.
    """
    try:
        return runtime.installed().asarray(leaf)
    except (TfnError, TypeError) as error:
        if not isinstance(error, TypeError) or isinstance(error, NumberError):
            raise
        raise ArgumentError(
            f"{name if isinstance(name, str) else name()} is not an array or a number",
            got=f"{type(leaf).__name__} {str(leaf)[:60]!r}",
            hint=hint,
        ) from None


_NUMBERS = {bool, int, float, np.ndarray, *(np.dtype(c).type for c in "?bhilqBHILQefdFD")}
"""The types of what direct entry points do not take, but the arrays that are made of it."""


def converted(x: Any) -> Any:
    """An argument with arrays in place of numbers and arrays of NumPy: a batch of data, say."""
    kind = type(x)
    if kind in _NUMBERS:
        return runtime.installed().asarray(x)
    if kind not in (dict, list, tuple):
        return x
    parts = list(x.values() if kind is dict else x)
    made = list(map(converted, parts))
    if all(map(operator.is_, made, parts)):
        return x
    return dict(zip(x, made, strict=True)) if kind is dict else kind(made)


def results(out: object, function: Function) -> tuple[list[runtime.Value], tree.Structure]:
    """The results of a function, as Values, and their structure.

    Raises:
        ArgumentError: naming the path of a result that is not an array or a number.
    """
    flat, structure = refs.flatten_results(out)

    def name(i: int) -> str:
        return f"the result{tree.places(structure)[i][1]} of {name_of(function)}"

    return [as_value(leaf, partial(name, i)) for i, leaf in enumerate(flat)], structure


def choose(argnums: Argnums, count: int, what: str) -> list[int]:
    """Positions among `count` positional arguments; negative ones count from the end.

    Raises:
        ArgumentError: for a position that is not there.
    """
    listed = [argnums] if isinstance(argnums, int) else several(what, "argnums", argnums)
    if not all(isinstance(at, int) and -count <= at < count for at in listed):
        raise ArgumentError(
            f"{what} needs argnums among the {count} positional argument(s)",
            got=f"argnums={argnums!r}",
            hint="an argument given by keyword has no position: pass it by position",
        )
    positions = [at % count for at in listed]
    if len(set(positions)) != len(positions):
        raise ArgumentError(
            f"{what} needs each argument once",
            got=f"argnums={argnums!r}",
            hint="negative numbers count from the last argument",
        )
    return positions


@frozen
class Chosen:
    """The leaves of some positional arguments, and the call with other values in their place.

    Only floating leaves are differentiated; integers and booleans have no derivative.

    Attributes:
        values: the leaves as Values.
        differentiated: the indices of the floating leaves.
        structure: of the tuple of chosen arguments.
    """

    function: Function
    args: Sequence[object]
    kwargs: dict[str, object]
    positions: Sequence[int]
    leaves: list[object]
    values: list[Any]
    differentiated: list[int]
    structure: tree.Structure

    @staticmethod
    def of(
        function: Function,
        args: Sequence[object],
        kwargs: dict[str, object],
        positions: Sequence[int],
        types: bool = False,
    ) -> Chosen:
        """The leaves of the arguments at `positions`; with `types`, some may be mere types."""
        leaves, structure = refs.flatten(tuple([args[at] for at in positions]))

        def name(i: int) -> str:
            return leaf_name(function, structure, positions, i)

        values = [
            leaf
            if types and isinstance(leaf, ShapeDtypeStruct)
            else ShapeDtypeStruct(leaf.shape, leaf.dtype)
            if types and is_type(leaf)
            else as_value(leaf, partial(name, i))
            for i, leaf in enumerate(leaves)
        ]
        differentiated = [i for i, value in enumerate(values) if value.dtype in INEXACT]
        return Chosen(function, args, kwargs, positions, leaves, values, differentiated, structure)

    def name(self, i: int) -> str:
        """The user's name for leaf `i`."""
        return leaf_name(self.function, self.structure, self.positions, i)

    @property
    def inputs(self) -> list[Any]:
        """The floating Values."""
        return [self.values[i] for i in self.differentiated]

    @property
    def names(self) -> list[str]:
        """Names of the inputs, if an error may need them: when their values are unknown."""
        if all(value.owner is None or value.known for value in self.values):
            return []
        names = leaf_names(self.function, self.structure, self.positions)
        return [names[i] for i in self.differentiated]

    def call(self, inputs: Sequence[runtime.Value]) -> Any:
        """The function with its floating leaves replaced."""
        leaves = list(self.leaves)
        for i, value in zip(self.differentiated, inputs, strict=True):
            leaves[i] = value
        args = list(self.args)
        for at, arg in zip(self.positions, tree.unflatten(self.structure, leaves), strict=True):
            args[at] = arg
        return checked(name_of(self.function), self.function, args, self.kwargs)

    def require_floating(self, what: str) -> None:
        """Refuse leaves without derivative.

        Raises:
            GradientError: naming the first of them.
        """
        hint = "write 3.0 for 3, use .astype(float), or leave it out of argnums"
        self.require(what, INEXACT, "floating", hint)

    def require(self, what: str, allowed: Collection[DType], words: str, hint: str) -> None:
        """Refuse leaves of other dtypes.

        Raises:
            GradientError: naming the first of them.
        """
        for i, value in enumerate(self.values):
            if value.dtype not in allowed:
                raise GradientError(
                    f"{what} needs {words} inputs, and {self.name(i)} is not",
                    got=f"{self.name(i)}: {show(value)}",
                    hint=hint,
                )
