"""Symbolic zeros and unknown operands, for the derivative rules of primitives.

Both are pytrees without leaves, so that they pass through every transform as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfn import numpy as tnp
from tfn import tree
from tfn.compat.avals import ShapedArray, float0, typeof
from tfn.eager import run


@dataclass(frozen=True)
class Zero:
    """A tangent or cotangent that is zero, and is not computed."""

    aval: ShapedArray

    @staticmethod
    def from_primal_value(x: object) -> Zero:
        """The zero tangent of a value."""
        return Zero(typeof(x).to_tangent_aval())

    def instantiate(self) -> Any:
        """An array of zeros."""
        return instantiate_zeros(self)


@dataclass(frozen=True)
class UndefinedPrimal:
    """An operand of which a transpose rule is to give the cotangent: it has a type, no value."""

    aval: ShapedArray

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.aval.dtype


tree.register_node(Zero, lambda x: ((), x.aval), lambda aval, _: Zero(aval))
tree.register_node(UndefinedPrimal, lambda x: ((), x.aval), lambda aval, _: UndefinedPrimal(aval))


def is_undefined_primal(x: object) -> bool:
    """Whether a transpose rule is to give the cotangent of this operand."""
    return type(x) is UndefinedPrimal


def instantiate_zeros(x: Any) -> Any:
    """An array of zeros for a `Zero`; all else as it is.

    Example:
        >>> instantiate_zeros(Zero(ShapedArray((2,), "float32"))).tolist()
        [0.0, 0.0]
    """
    if type(x) is not Zero:
        return x
    return tnp.zeros(x.aval.shape, tnp.bool_ if x.aval.dtype is float0 else x.aval.dtype)


def zeros_like_aval(aval: ShapedArray) -> Any:
    """An array of zeros of a type."""
    return instantiate_zeros(Zero(aval))


def add_tangents(a: Any, b: Any) -> Any:
    """The sum of two tangents, of which each may be a `Zero`."""
    if type(a) is Zero:
        return b
    return a if type(b) is Zero else run.asarray(a) + b
