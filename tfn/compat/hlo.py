"""Operations of StableHLO as functions of arrays, for the lowering rules of primitives.

    def lowering(ctx, x, y, z):                              rules that build such operations are
        return [hlo.AddOp(hlo.MulOp(x, y), z).result]        traced: ``jaxlib.mlir.dialects.hlo``

Elementwise operations are here.  A rule with another one is not traced: the implementation of its
primitive is called by the host instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfn import lax
from tfn import numpy as tnp
from tfn.errors import NotAvailableError
from tfn.extend import frozen

# fmt: off
OPERATIONS: dict[str, Callable[..., Any]] = {
    "Add": lax.add, "Subtract": lax.sub, "Mul": lax.mul, "Div": lax.div, "Rem": lax.rem,
    "Max": lax.max, "Min": lax.min, "Pow": lax.pow, "Atan2": lax.atan2,
    "And": lax.bitwise_and, "Or": lax.bitwise_or, "Xor": lax.bitwise_xor, "Not": lax.bitwise_not,
    "ShiftLeft": lax.shift_left, "ShiftRightArithmetic": lax.shift_right_arithmetic,
    "ShiftRightLogical": lax.shift_right_logical,
    "Neg": lax.neg, "Abs": lax.abs, "Sign": lax.sign, "Floor": lax.floor, "Ceil": lax.ceil,
    "Exp": lax.exp, "Expm1": lax.expm1, "Log": lax.log, "Log1p": lax.log1p,
    "Logistic": lax.logistic, "Sine": lax.sin, "Cosine": lax.cos, "Tan": lax.tan,
    "Tanh": lax.tanh, "Sqrt": lax.sqrt, "Rsqrt": lax.rsqrt, "Cbrt": lax.cbrt,
    "Real": lax.real, "Imag": lax.imag, "Complex": lax.complex, "IsFinite": lax.is_finite,
    "PopulationCount": lax.population_count, "Clz": lax.clz, "Select": lax.select,
    "Clamp": lax.clamp,
}
"""Operations by name: `AddOp` and `add`."""

SHORT = {"Subtract": "subtract", "Mul": "multiply", "Div": "divide", "Rem": "remainder",
         "Max": "maximum", "Min": "minimum", "Pow": "power", "Neg": "negate", "Exp": "exponential",
         "Expm1": "exponential_minus_one", "Log1p": "log_plus_one", "Clz": "count_leading_zeros",
         "IsFinite": "is_finite", "PopulationCount": "popcnt", "ShiftLeft": "shift_left",
         "ShiftRightArithmetic": "shift_right_arithmetic",
         "ShiftRightLogical": "shift_right_logical"}
"""Names of functions that are not those of the operations in small letters."""
# fmt: on


@frozen
class Operation:
    """An operation that has been built: a value, or `result`."""

    result: Any

    @property
    def results(self) -> list[Any]:
        """The results: one."""
        return [self.result]


def value_of(x: Any) -> Any:
    """The array of an operation, or of what is one."""
    return x.result if isinstance(x, Operation) else x


def constant(value: Any) -> Any:
    """An array as an operand."""
    return tnp.asarray(value)


def __getattr__(name: str) -> Any:
    for base, function in OPERATIONS.items():
        if name == f"{base}Op":
            return lambda *operands, f=function, **options: Operation(f(*map(value_of, operands)))
        if name == SHORT.get(base, base.lower()):
            return lambda *operands, f=function, **options: f(*map(value_of, operands))

    missing = f"a lowering rule builds {name}, which tfn has not"
    if not name[0].isupper():  # tools ask modules for names of their own
        raise AttributeError(missing)

    def unknown(*operands: Any, **options: Any) -> Any:
        raise NotAvailableError(missing, got=f"hlo.{name}")

    return unknown
