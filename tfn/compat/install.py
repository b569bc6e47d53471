"""Modules made from the table, which ``import jax`` returns: `install_as_jax`."""

from __future__ import annotations

import importlib.util
import sys
from difflib import get_close_matches
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from tfn import Ref
from tfn.array import Array
from tfn.compat.attributes import ATTRIBUTES
from tfn.compat.avals import typeof
from tfn.compat.names import MODULES, Names
from tfn.compat.omitted import adapted
from tfn.compat.settings import as_in_jax, config, flags_of_xla, from_environment
from tfn.errors import ArgumentError, NotAvailableError
from tfn.extend import frozen
from tfn.random import keys
from tfn.transforms.annotations import HELD
from tfn.transforms.jit import SHARES


def install_as_jax() -> None:
    """Makes ``import jax``, ``jax.numpy``, ``jax.lax`` ... import tfn, from now on in this process.

    A random key may then be used twice, as with JAX, until ``jax_debug_key_reuse`` is set; and each
    `jit` of one function has the programs of the others.

    Raises:
        ArgumentError: if JAX itself is imported already.

    Example:
        >>> install_as_jax()  # doctest: +SKIP
        >>> import jax.numpy as jnp  # doctest: +SKIP
    """
    jax = sys.modules.get("jax")
    if jax is not None:
        if isinstance(jax.__spec__, ModuleSpec) and jax.__spec__.origin == ORIGIN:
            return
        raise ArgumentError(
            "JAX itself has been imported already",
            hint="call install_as_jax() before everything else",
        )
    config.update("jax_debug_key_reuse", False)
    as_in_jax()
    from_environment()
    HELD[:], SHARES[:] = [False], [True]
    # A key is an array in JAX.  Here it is a tree with one, which says that it is one too.
    keys.seen_as(Array)
    for kind, attributes in ATTRIBUTES.items():
        for name, attribute in attributes.items():
            setattr(kind, name, attribute)
    Ref.aval = property(typeof)  # type: ignore[attr-defined]
    for name, names in MODULES.items():
        module = sys.modules[name] = _module(name, names)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)


ORIGIN = "tfn"


def _module(name: str, names: Names) -> ModuleType:
    """A module that looks its names up when they are first used."""

    def find(attribute: str) -> Any:
        flags_of_xla()
        place = names.elsewhere.get(attribute)
        if attribute.startswith("__") and place is None:
            raise _missing(name, attribute, names)
        try:
            value = _imported(place or f"{names.source or __name__}:{attribute}")
        except (ImportError, AttributeError):
            if attribute not in names.absent:
                raise _missing(name, attribute, names) from None
            value = Absent(f"{name}.{attribute}", names.absent[attribute])
        value = adapted(name, attribute, value)
        setattr(module, attribute, value)
        return value

    spec = ModuleSpec(name, None, origin=ORIGIN, is_package=True)
    module: ModuleType = importlib.util.module_from_spec(spec)
    module.__doc__ = f"`{names.source or 'tfn'}`, under the name {name}."
    vars(module)["__getattr__"], vars(module)["__dir__"] = find, lambda: _listed(names)
    return module


@frozen
class Absent:
    """A name that can be imported and not used."""

    name: str
    reason: str

    def __call__(self, *args: object, **kwargs: object) -> Absent:
        """Raises an error with the reason; as a decorator it gives a function that does."""
        if len(args) == 1 and callable(args[0]):
            return self
        raise self._error("a call of it")

    def __getattr__(self, attribute: str) -> NoReturn:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise self._error(f"its {attribute}")

    @property
    def __name__(self) -> str:
        """The name in JAX."""
        return self.name

    def __instancecheck__(self, x: object) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        return other

    __ror__ = __or__

    def _error(self, use: str) -> NotAvailableError:
        return NotAvailableError(f"tfn has no {self.name}: {self.reason}", got=use)


def _imported(place: str) -> Any:
    """Imports the object of a row of the table."""
    module, _, attribute = place.partition(":")
    value = importlib.import_module(module)
    return getattr(value, attribute) if attribute else value


def _listed(names: Names) -> list[str]:
    try:
        source = dir(importlib.import_module(names.source)) if names.source else []
    except ImportError:
        source = []
    return sorted({*source, *names.elsewhere, *names.absent})


def _missing(name: str, attribute: str, names: Names) -> AttributeError:
    near = get_close_matches(attribute, _listed(names), 3)
    hint = f"; there is {', '.join(near)}" if near else ""
    return AttributeError(f"tfn has nothing under the name {name}.{attribute}{hint}")
