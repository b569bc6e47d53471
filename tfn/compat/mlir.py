"""Lowering rules of primitives of the user: `register_lowering`, `lower_fun`.

A rule is a function of arrays, which is traced and compiled with the program around it.  MLIR does
not exist here: of a primitive whose rule builds it, the implementation is called instead, by the
host, on concrete arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tfn._support.frozen import frozen
from tfn.compat.primitives import CALLED_ON_HOST, Primitive, lowerings
from tfn.errors import ArgumentError


@frozen
class FunctionOfArrays:
    """A lowering rule that is a function of arrays."""

    function: Callable[..., Any]

    def __call__(self, *operands: object, **params: object) -> NoReturn:
        """Raises an error: there is no MLIR that it could build."""
        raise ArgumentError(
            "a lowering rule cannot be called: there is no MLIR here",
            got=f"a call of the rule of {getattr(self.function, '__name__', self.function)}",
            hint="call the function of arrays that it was made of",
        )


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> FunctionOfArrays:
    """The lowering rule of a function of arrays."""
    return FunctionOfArrays(fun)


def register_lowering(
    prim: Primitive, rule: object, platform: str | None = None, **options: object
) -> object:
    """Define how a primitive is compiled; rules for other platforms than the CPU are ignored."""
    if platform in (None, "cpu"):
        own = isinstance(rule, FunctionOfArrays)
        lowerings[prim] = rule.function if own else CALLED_ON_HOST  # type: ignore[attr-defined]
    return rule
