"""Modules made from the table, which ``import jax`` returns: `install_as_jax`."""

from __future__ import annotations

import importlib.util
import sys
from difflib import get_close_matches
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tfn.compat.names import MODULES, Names
from tfn.compat.settings import config
from tfn.errors import ArgumentError


def install_as_jax() -> None:
    """Makes ``import jax``, ``jax.numpy``, ``jax.lax`` ... import tfn, from now on in this process.

    A random key may then be used twice, as with JAX, until ``jax_debug_key_reuse`` is set.

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
    for name, names in MODULES.items():
        module = sys.modules[name] = _module(name, names)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)


ORIGIN = "tfn"


def _module(name: str, names: Names) -> ModuleType:
    """A module that looks its names up when they are first used."""

    def find(attribute: str) -> Any:
        place = names.elsewhere.get(attribute)
        if place is None and (names.source is None or attribute.startswith("__")):
            raise _missing(name, attribute, names)
        try:
            value = _imported(place or f"{names.source}:{attribute}")
        except (ImportError, AttributeError):
            raise _missing(name, attribute, names) from None
        setattr(module, attribute, value)
        return value

    spec = ModuleSpec(name, None, origin=ORIGIN, is_package=True)
    module: ModuleType = importlib.util.module_from_spec(spec)
    module.__doc__ = f"`{names.source or 'tfn'}`, under the name {name}."
    vars(module)["__getattr__"], vars(module)["__dir__"] = find, lambda: _listed(names)
    return module


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
    return sorted({*source, *names.elsewhere})


def _missing(name: str, attribute: str, names: Names) -> AttributeError:
    near = get_close_matches(attribute, _listed(names), 3)
    hint = f"; there is {', '.join(near)}" if near else ""
    return AttributeError(f"tfn has nothing under the name {name}.{attribute}{hint}")
