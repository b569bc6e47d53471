"""Annexes: what hangs on the core imports public names and `tfn.extend`, not the core's files.

An import is counted where it asks for a name that no public package offers, of a file outside of
the annex.  Counts may only fall: who removes one lowers the number in its row.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import pytest

from tests.test_structure import HOUSE, ROOT, annex, imports, name, nodes, parsed, target, uses

# fmt: off
REMAINING = {
    "buckets": 9,
    "amd": 7,
    "compat": 33,
    "cuda": 13,
    "checkpoints": 13,
    "distributed": 25,
    "dsp": 5,
    "experimental": 14,
    "exporting": 34,
    "llm": 0,
    "onnx": 5,
    "opencl": 1,
    "pack": 1,
    "profiler": 6,
    "quantize": 6,
    "scipy": 17,
    "tools": 46,
    "torch": 0,
    "webgpu": 2,
}
# fmt: on
"""By annex: the imports of inner names that remain."""

INNER = {"trace", "transforms", "lower", "hw", "eager"}
"""Layers that no program imports."""


@cache
def offered(package: Path) -> frozenset[str]:
    """The names that a public module or package defines, or imports ``as`` themselves."""
    found: set[str] = set()
    for node in ast.walk(parsed(package)):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


@cache
def modules(package: Path) -> frozenset[str]:
    """The modules that a public package offers, by their dotted names."""
    own = name(package).removesuffix("/__init__.py").replace("/", ".")
    found = imports(nodes(package))
    return frozenset(d for node, d in found if getattr(node, "module", "") == own)


def is_public(dotted: str) -> bool:
    """Whether `tfn`, or a module that a public package offers as one, offers the name."""
    module, _, last = dotted.rpartition(".")
    hidden = last[0] == "_" and last[-2:] != "__"
    if not module or hidden or {*module.split(".")[1:], last} & {*INNER, "_support"}:
        return dotted == "tfn"  # the package itself
    base = ROOT.joinpath(*module.split("."))
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    parent = module.rpartition(".")[0]
    if parent.count(".") and not (is_public(module) and module in modules(target(parent))):
        return False
    return last in offered(file) or (not parent and target(dotted) is not None)


def inner_imports(path: Path) -> Iterator[str]:
    """The names that a file of an annex asks of other files, and that no public module offers."""
    for _, dotted in imports(nodes(path)):
        found = target(dotted)
        if found is not None and annex(found) != annex(path) and not is_public(dotted):
            yield dotted


def test_which_names_are_public() -> None:
    assert is_public("tfn.numpy.sum") and is_public("tfn.extend.UOp") and is_public("tfn.jit")
    assert is_public("tfn.lax") and is_public("tfn.errors.TfnError")
    for inner in ("tfn.trace.uop.UOp", "tfn._support.frozen.frozen", "tfn.numpy.sets.union1d"):
        assert not is_public(inner)


@pytest.mark.parametrize("own", REMAINING)
def test_an_annex_imports_public_names_and_extend(own: str) -> None:
    found = [(name(p), d) for p in HOUSE if annex(p) == own for d in inner_imports(p)]
    bound = REMAINING[own]
    assert len(found) <= bound, f"{len(found)} imports of inner names, at most {bound}: {found}"
    assert len(found) >= bound, f"the bound of {own} in REMAINING may fall to {len(found)}"


def test_the_core_imports_no_annex() -> None:
    """Packages offer the names of annexes, which load on demand; tables have them as text."""
    wrong = {(name(p), name(o)) for p in HOUSE if not annex(p) for o in uses(p) if annex(o)}
    assert not wrong


def test_functions_that_are_found_by_name_exist() -> None:
    calls = [n for p in HOUSE for n in nodes(p) if isinstance(n, ast.Call)]
    calls = [n for n in calls if getattr(n.func, "id", "") == "by_name"]
    dotted = [ast.literal_eval(n.args[0]) for n in calls]
    assert len(dotted) >= 6 and all(callable(resolve_name(d)) for d in dotted)
