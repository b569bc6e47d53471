"""Reference pages: for each public module its names, in the order in which it lists them.

A hook of mkdocs, and an extension of griffe, by which mkdocstrings reads the source.  A name is
public if a module imports or defines it without an underscore; the text is that of docstrings.
Headings are public names (`tfn.grad`), so that links to them survive files that move.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import AnchorLink

import tfn

MODULES: dict[str, tuple[str, ...]] = {
    "Transforms and arrays": (
        "tfn",
        "tfn.numpy",
        "tfn.numpy.linalg",
        "tfn.numpy.fft",
        "tfn.lax",
        "tfn.lax.linalg",
        "tfn.random",
        "tfn.custom_derivatives",
        "tfn.custom_batching",
        "tfn.checkpoint_policies",
        "tfn.tree",
        "tfn.tree_util",
        "tfn.flatten_util",
        "tfn.dtypes",
        "tfn.ops",
    ),
    "Neural networks": (
        "tfn.nn",
        "tfn.nn.initializers",
        "tfn.nn.optim",
        "tfn.nn.quantize",
        "tfn.nn.data",
        "tfn.nn.state",
        "tfn.nn.checkpoint",
        "tfn.nn.store",
        "tfn.nn.hosts",
        "tfn.nn.permutation",
        "tfn.nn.progress",
        "tfn.nn.writers",
    ),
    "Science": (
        "tfn.image",
        "tfn.scipy.special",
        "tfn.scipy.stats",
        "tfn.scipy.linalg",
        "tfn.scipy.optimize",
        "tfn.scipy.integrate",
        "tfn.scipy.interpolate",
        "tfn.scipy.fft",
        "tfn.scipy.signal",
        "tfn.scipy.ndimage",
        "tfn.scipy.cluster.vq",
        "tfn.scipy.spatial.transform",
        "tfn.scipy.sparse.linalg",
        "tfn.experimental.sparse",
        "tfn.experimental.sparse.linalg",
        "tfn.experimental.ode",
        "tfn.experimental.jet",
        "tfn.experimental.pallas",
    ),
    "Programs and settings": (
        "tfn.sharding",
        "tfn.distributed",
        "tfn.export",
        "tfn.onnx",
        "tfn.llm",
        "tfn.torch",
        "tfn.config",
        "tfn.run",
        "tfn.errors",
        "tfn.debug",
        "tfn.scopes",
        "tfn.inspect",
        "tfn.profiler",
        "tfn.checkify",
        "tfn.compat",
        "tfn.extend",
    ),
}
"""Sections of the reference, and the modules in each."""

CHOSEN: dict[str, dict[str, str]] = {
    "tfn.config": {"tfn.config": "tfn.config.Config"},
    "tfn.run": {
        "tfn.run.cache_info": "tfn.eager.loading.cache_info",
        "tfn.run.CacheInfo": "tfn._support.cache.CacheInfo",
    },
    "tfn.checkpoint_policies": {
        f"tfn.checkpoint_policies.{name}": f"tfn.transforms.checkpoint_policies.{name}"
        for name in (
            "everything_saveable",
            "nothing_saveable",
            "dots_saveable",
            "dots_with_no_batch_dims_saveable",
            "save_only_these_names",
            "save_any_names_but_these",
            "save_anything_except_these_names",
            "save_from_both_policies",
        )
    },
    "tfn.export": {
        "tfn.export": "tfn.exporting.export.export",
        "tfn.export.serialize": "tfn.exporting.serialize.serialize",
        "tfn.export.deserialize": "tfn.exporting.serialize.deserialize",
        "tfn.export.symbolic_shape": "tfn.exporting.symbolic_dims.symbolic_shape",
        "tfn.export.export": "tfn.exporting.symbolic.anyhow",
        "tfn.export.Exported": "tfn.exporting.export.Exported",
        "tfn.load.Loaded": "tfn.exporting.load.Loaded",
    },
}
"""Pages of public names that are attributes of objects, each with the place of its definition."""

INTRODUCTIONS: dict[str, str] = {
    "tfn": "Transforms of functions, and what can be asked of a compiled program.  "
    "Beside these: [`tfn.export`](tfn.export.md), [`tfn.config`](tfn.config.md).",
    "tfn.numpy": "Arrays by the array API standard 2024.12, under the names of `jax.numpy`.",
    "tfn.nn": "Neural networks: layers, losses, pooling, attention, recurrence.",
    "tfn.nn.quantize": "Networks of int8 values, int32 sums and integer arithmetic only.  [How to "
    "quantize a network](../howto/quantize.md).",
    "tfn.checkpoint_policies": "Policies of `tfn.checkpoint`: which values are saved for the "
    "backward pass, and which are computed again.",
    "tfn.scipy.stats": "Probability distributions: densities, distribution functions and their "
    "logarithms.  Each distribution is a module, as in `jax.scipy.stats`.",
    "tfn.config": "Settings of the process: assign to an attribute of `tfn.config`, or set an "
    "environment variable before the start.  [All settings in a table](../howto/config.md).",
    "tfn.custom_derivatives": "Functions with derivatives of their own, under the names of "
    "`jax.custom_derivatives`.  [How to give a function its own derivative]"
    "(../howto/derivative.md).",
    "tfn.errors": "Exceptions.  Each is a `TfnError` and an instance of the class of Python that "
    "fits; a message says what broke, what was got, at which line, and how to mend it.",
    "tfn.onnx": "Networks that other libraries exported as ONNX, as functions to differentiate, "
    "batch, prove and export.  [How to run an ONNX network](../howto/onnx.md).",
    "tfn.llm": "Language models from GGUF files, as functions to step, differentiate, batch and "
    "export.  [How to run a language model](../howto/llm.md).",
    "tfn.torch": "Networks of PyTorch as functions, and a backend of `torch.compile`.  "
    "[How to run a PyTorch network](../howto/torch.md).",
    "tfn.run": "The caches of a process.  [How caches work](../explanation/caches.md).",
    "tfn.export": "Ahead-of-time export: `tfn.export(f, *specs, path=...)` writes files; "
    "`tfn.export.serialize` and `tfn.export.deserialize` turn functions into bytes and back; "
    "`tfn.load` calls an exported library.  [How to export](../howto/export.md).",
}
"""First paragraphs of pages whose module docstring is about its files."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each module."""
    seen: dict[str, str] = {}
    for name in (name for names in MODULES.values() for name in names):
        files.append(File.generated(config, f"reference/{name}.md", content=page(name, seen)))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the pages in the navigation, which ends with an entry for the reference."""
    sections = [
        {title: [{name: f"reference/{name}.md"} for name in names]}
        for title, names in MODULES.items()
    ]
    nav = config.nav or []
    config.nav = [{"Reference": sections} if "Reference" in entry else entry for entry in nav]
    return config


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rename headings from the places of definitions to public names."""
    public = {place: name for names in CHOSEN.values() for name, place in names.items()}
    links: list[AnchorLink] = list(page.toc)
    for link in links:
        links += link.children
        for place, name in public.items():
            if link.id == place or link.id.startswith(f"{place}."):
                html = html.replace(f'="{link.id}"', f'="{name}{link.id[len(place) :]}"')
                html = html.replace(f'="#{link.id}"', f'="#{name}{link.id[len(place) :]}"')
                link.id = name + link.id[len(place) :]
                link.title = link.id.rpartition(".")[2]
                break
    return html


def page(name: str, seen: dict[str, str]) -> str:
    """The page of a module: an entry for each name, or a link if an earlier page has it."""
    lines = [f"# {name}", introduction(name)]
    if name in CHOSEN:
        for public, path in CHOSEN[name].items():
            lines.append(f"::: {path}\n    options:\n      heading: {public}")
        return "\n\n".join(lines) + "\n"
    module = module_of(name)
    for path, others in entries(module, seen):
        if path.startswith("["):
            lines.append(path)
            continue
        lines.append(f"::: {path}")
        lines += [f"Also `{'`, `'.join(others)}`."] if others else []
    for distribution, part in distributions(module):
        lines += [
            f"## {distribution} {{: #{name}.{distribution} }}",
            first_paragraph(part),
        ]
        lines += [
            f"::: {path}\n    options:\n      heading_level: 3" for path, _ in entries(part, seen)
        ]
    return "\n\n".join(lines) + "\n"


def distributions(module: ModuleType) -> Iterator[tuple[str, ModuleType]]:
    """Modules of a package that hold the density or the mass function of a distribution."""
    for name, part in inspect.getmembers(module, inspect.ismodule):
        if hasattr(part, "logpdf") or hasattr(part, "logpmf"):
            yield name, part


def module_of(name: str) -> ModuleType:
    """A module by its public name, which may be another than that of its file."""
    module: ModuleType = functools.reduce(getattr, name.split(".")[1:], tfn)
    return module


def introduction(name: str) -> str:
    """The first paragraph of a page."""
    return INTRODUCTIONS.get(name) or first_paragraph(module_of(name))


def first_paragraph(module: ModuleType) -> str:
    """The first paragraph of a docstring, without a sentence that ends in a list of files."""
    text = (inspect.getdoc(module) or "").partition("\n\n")[0].replace("\n", " ")
    sentences = re.split(r"(?<=\.)\s+", text)
    return " ".join(s for s in sentences if not s.endswith(":"))


def entries(module: ModuleType, seen: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Paths of what a module offers, each with its other names; links for what was seen before.

    A path is the public one where the source has the object under its own name, so that griffe
    finds it there, and else the place of its definition.
    """
    names_of: dict[str, list[str]] = {}
    for name, value in members(module):
        names_of.setdefault(f"{value.__module__}.{value.__qualname__}", []).append(name)
    for home, names in names_of.items():
        last = home.rpartition(".")[2]
        path = f"{module.__name__}.{last}" if last in names else home
        if home in seen:
            yield f"[`{names[0]}`][{seen[home]}]", []
            continue
        seen[home] = path
        yield path, [name for name in names if name != last]


def members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions and classes of tfn that a module offers."""
    lists = ("tfn.custom_derivatives", "tfn.extend")
    package = hasattr(module, "__path__") or module.__name__ in lists
    for name in module.__dir__():
        value = getattr(module, name, None)
        home = getattr(value, "__module__", None) or ""
        public = name[0] != "_" and home.startswith("tfn") and hasattr(value, "__qualname__")
        own = package or home == module.__name__
        if public and own and "<" not in value.__qualname__ and inspect.getdoc(value):
            yield name, value


class Words(griffe.Extension):
    """Section titles of docstrings, as griffe names them."""

    def on_object(self, *, obj: griffe.Object, **others: Any) -> None:
        """Rename "Example:" to "Examples:", which griffe shows as code."""
        if obj.docstring:
            value = obj.docstring.value
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", value, flags=re.MULTILINE)

    def on_module(self, *, mod: griffe.Module, **others: Any) -> None:
        """Add the functions of distributions, most of which are made when the module is loaded."""
        if mod.path.startswith("tfn.scipy.stats."):
            loaded = griffe.inspect(mod.path, filepath=Path(str(mod.filepath)))
            for name, function in loaded.functions.items():
                if name in mod.attributes:
                    mod.set_member(name, function)
                    self.on_object(obj=function)
