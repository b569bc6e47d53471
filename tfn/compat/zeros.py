"""Symbolic zeros, cotangents of integers and unknown operands, for rules of primitives.

All are pytrees without leaves, so that they pass through every transform as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tfn import numpy as tnp
from tfn import tree
from tfn.compat.avals import ShapedArray, float0, typeof
from tfn.extend import run


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


@dataclass(frozen=True)
class Float0:
    """The cotangent of integers: an array of `float0`, which has no bits.

    Example:
        >>> Float0((2,)).dtype == float0, np.asarray(Float0((2,))).shape
        (True, (2,))
    """

    shape: tuple[int, ...]

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return float0

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.zeros(self.shape, float0)


tree.register_node(Float0, lambda x: ((), x.shape), lambda shape, _: Float0(shape))
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
