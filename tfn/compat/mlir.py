"""Lowering rules of primitives of the user: `register_lowering`, `lower_fun`.

A rule is a function of arrays, which is traced and compiled with the program around it.  MLIR does
not exist here.  A rule that builds it is traced too, if all it builds are the elementwise
operations of `tfn.compat.hlo`; otherwise the implementation is called, by the host, on concrete
arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tfn import numpy as tnp
from tfn.compat.avals import ShapedArray, typeof
from tfn.compat.hlo import value_of
from tfn.compat.primitives import Primitive, lowerings
from tfn.errors import ArgumentError, NotAvailableError
from tfn.extend import frozen


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


@frozen
class LoweringRuleContext:
    """The context of a rule that builds MLIR: primitive, types of operands and results."""

    primitive: Primitive
    avals_in: list[ShapedArray]
    avals_out: list[ShapedArray]


@frozen
class Building:
    """A lowering rule that builds MLIR, as a function of arrays."""

    primitive: Primitive
    rule: Callable[..., Any]

    def __call__(self, *operands: Any, **params: Any) -> Any:
        """The results of the rule; of the implementation on the host, if it builds anything else.

        Raises:
            NotAvailableError: if there is no implementation.
        """
        primitive = self.primitive
        try:
            return self.built(*operands, **params)
        except (NotAvailableError, AttributeError, TypeError):
            if primitive.implementation is None:
                raise
        return primitive.on_host(self._types(operands, params))(*operands, **params)

    def built(self, *operands: Any, **params: Any) -> Any:
        """The results of the rule.

        Raises:
            NotAvailableError: if it builds what tfn has not.
        """
        context = LoweringRuleContext(
            self.primitive, [typeof(x) for x in operands], self._types(operands, params) or []
        )
        values = [*map(value_of, self.rule(context, *operands, **params))]
        if not all(hasattr(y, "owner") for y in values):
            raise NotAvailableError(
                f"the lowering rule of {self.primitive.name} gives what is no array",
                got=repr(values)[:80],
            )
        return values if self.primitive.multiple_results else values[0]

    def _types(self, operands: Sequence[Any], params: dict[str, Any]) -> list[Any] | None:
        """The types of the results; None if the primitive does not say them."""
        primitive = self.primitive
        if primitive.abstract is None:
            return None
        return primitive.results(primitive.abstract(*map(typeof, operands), **params))


def register_lowering(
    prim: Primitive, rule: Any, platform: str | None = None, **options: object
) -> Any:
    """Define how a primitive is compiled; rules for other platforms than the CPU are ignored."""
    if platform in (None, "cpu"):
        own = isinstance(rule, FunctionOfArrays)
        lowerings[prim] = rule.function if own else Building(prim, rule)
    return rule


def ir_constant(val: Any, **options: object) -> Any:
    """An array as an operand of operations that a rule builds.

    Example:
        >>> ir_constant(1.0).item()
        1.0
    """
    return tnp.asarray(val)
