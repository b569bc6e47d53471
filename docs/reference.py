"""Pages of the reference: for each public module its names, in the order in which it has them.

A hook of mkdocs, and an extension of griffe, by which mkdocstrings reads the source.  What is
public is what a module imports or defines without an underscore; the text is that of docstrings.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

MODULES = (
    "tfn",
    "tfn.numpy",
    "tfn.numpy.linalg",
    "tfn.numpy.fft",
    "tfn.lax",
    "tfn.lax.linalg",
    "tfn.random",
    "tfn.nn",
    "tfn.nn.initializers",
    "tfn.nn.optim",
    "tfn.image",
    "tfn.scipy.special",
    "tfn.scipy.linalg",
    "tfn.scipy.signal",
    "tfn.scipy.ndimage",
    "tfn.scipy.sparse.linalg",
    "tfn.scipy.stats.norm",
    "tfn.tree",
    "tfn.tree_util",
    "tfn.flatten_util",
    "tfn.dtypes",
    "tfn.errors",
    "tfn.debug",
    "tfn.checkify",
    "tfn.ops",
    "tfn.compat",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each module."""
    told: set[str] = set()
    for name in MODULES:
        files.append(File.generated(config, f"reference/{name}.md", content=page(name, told)))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the pages in the navigation."""
    pages = [{name: f"reference/{name}.md"} for name in MODULES]
    config.nav = [*config.nav[:-1], {"Reference": pages}]
    return config


def page(name: str, told: set[str]) -> str:
    """A module's own words, and one entry for each of its names; a link if it was told before."""
    module = importlib.import_module(name)
    text = (inspect.getdoc(module) or "").partition("\n\n")[0]
    lines = [f"# {name}", text]
    for place, names in entries(module).items():
        if place in told:
            lines.append(f"[`{names[0]}`][{place}]")
            continue
        told.add(place)
        others = [other for other in names if other != place.rpartition(".")[2]]
        lines.append(f"::: {place}")
        lines += [f"Also `{'`, `'.join(others)}`."] if others else []
    return "\n\n".join(lines) + "\n"


def entries(module: ModuleType) -> dict[str, list[str]]:
    """Where each public thing is written, and under which names the module has it."""
    found: dict[str, list[str]] = {}
    for name, value in members(module):
        found.setdefault(f"{value.__module__}.{value.__qualname__}", []).append(name)
    return found


def members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions and classes of tfn that a module offers."""
    package = hasattr(module, "__path__")
    for name in module.__dir__():
        value = getattr(module, name, None)
        home = getattr(value, "__module__", None) or ""
        public = name[0] != "_" and home.startswith("tfn") and hasattr(value, "__qualname__")
        own = package or home == module.__name__
        if public and own and "<" not in value.__qualname__ and inspect.getdoc(value):
            yield name, value


class Words(griffe.Extension):
    """What docstrings of the house call by other names than griffe does."""

    def on_object(self, *, obj: griffe.Object, **others: Any) -> None:
        """An example is code."""
        if obj.docstring:
            value = obj.docstring.value
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", value, flags=re.MULTILINE)
