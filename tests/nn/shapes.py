"""Annotations held against the arrays that really come: what jaxtyping says in signatures.

`checked` wraps a function so that the names in ``Float[Array, "batch features"]`` must mean one
size each in a call, for the fields of a module, its arguments and its result alike.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import jaxtyping
from jaxtyping import jaxtyped

HINTS = {name: getattr(jaxtyping, name) for name in ("Bool", "Float", "Integer", "Real", "Shaped")}


def resolved(function: Callable[..., Any] | type) -> dict[str, Any]:
    """The annotations as objects; NumPy arrays may stand where an Array is asked for."""
    module = inspect.getmodule(function)
    return typing.get_type_hints(function, vars(module), {**HINTS, "Array": Any})


def alternatives(hint: Any) -> list[Any]:
    """The shapes that an annotation allows; none if it speaks of something else."""
    options = typing.get_args(hint) or (hint,)
    actual = [h for h in options if isinstance(h, type) and issubclass(h, jaxtyping.AbstractArray)]
    return [] if typing.get_origin(hint) is tuple else actual


def check(where: str, value: Any, hint: Any) -> None:
    if typing.get_origin(hint) is tuple and ... not in typing.get_args(hint):
        for part, inner in zip(value, typing.get_args(hint), strict=True):
            check(where, part, inner)
    shapes = alternatives(hint)
    if shapes and hasattr(value, "shape"):
        fits = any(isinstance(value, shape) for shape in shapes)
        assert fits, f"{where}: {value.dtype}{value.shape} is not {shapes}"


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    hints, signature = resolved(function), inspect.signature(function)

    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        result = function(*args, **options)  # first of all, so that it can refuse by itself
        with jaxtyped("context"):
            given = signature.bind(*args, **options).arguments
            owner = given.get("self")
            if owner is not None:
                kinds = resolved(type(owner))
                for f in fields(owner):
                    where = f"{type(owner).__name__}.{f.name}"
                    check(where, getattr(owner, f.name), kinds[f.name])
            for name, value in {**given, "return": result}.items():
                check(f"{function.__qualname__}: {name}", value, hints.get(name))
        return result

    return wrapped
