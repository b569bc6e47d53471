"""Bases of types and primitives that a library defines for itself: ``jax.experimental.hijax``.

Classes can be derived from them, as flax does when it is imported.  Values of such types do not
exist: a primitive of this kind raises an error when it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tfn.compat.avals import AbstractValue as AbstractValue
from tfn.compat.zeros import Zero as Zero
from tfn.compat.zeros import instantiate_zeros as instantiate_zeros
from tfn.compat.zeros import is_undefined_primal as is_undefined_primal
from tfn.errors import NotAvailableError


class Effect:
    """The base of the effects that a library defines."""


class EffectTypes:
    """A set of classes of effects."""

    def __init__(self) -> None:
        self.types: list[type[Effect]] = []

    def add_type(self, effect: type[Effect]) -> None:
        """Add a class."""
        self.types.append(effect)


control_flow_allowed_effects = EffectTypes()


class HiType:
    """The base of types of values."""


class MutableHiType:
    """The base of types of values that change."""


def register_hitype(value: type, typeof: Callable[[Any], Any]) -> None:
    """Does nothing: no value of such a type can be an argument."""


class HiPrimitive:
    """The base of primitives on such types."""

    def __init__(self, name: str) -> None:
        self.name = name

    def bind(self, *operands: object, **params: object) -> NoReturn:
        """Raises an error.

        Raises:
            NotAvailableError: always.
        """
        raise NotAvailableError(
            f"tfn has no values of types that a library defines, which {self.name} is for",
            got="a use of it",
            hint="use the library without them: with flax, flax_hijax_variable is False",
        )


class AvalQDD:
    """A type, and the part of it that depends on the state."""

    def __init__(self, aval: Any, qdd: Any) -> None:
        self.aval, self.qdd = aval, qdd


class AvalMutableQDD:
    """A type, and the part of it that changes with the state."""

    def __init__(self, aval: Any, mutable_qdd: Any) -> None:
        self.aval, self.mutable_qdd = aval, mutable_qdd


class aval_property:
    """A property of a type that its values have too."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        self.fget = fget


class aval_method:
    """A method of a type that its values have too."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun


class Trace:
    """The base of interpreters that a library defines; tfn has none beside its own."""
