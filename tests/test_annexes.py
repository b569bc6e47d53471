"""Annexes: what hangs on the core imports public names and `tfn.extend`, not the core's files.

An import is counted where it asks for a name that no public package offers, of a file outside of
the annex.  Counts may only fall: who removes one lowers the number in its row.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.test_structure import HOUSE, ROOT, imports, layer, name, parsed, target

ANNEXES: dict[str, tuple[tuple[str, ...], int]] = {
    "compat": (("compat/",), 111),
    "cuda": (("hw/cuda/",), 106),
    "checkpoints": (("nn/checkpoint/", "nn/data", "nn/hosts", "nn/permutation"), 27),
    "cycles": (("inspect/cycles",), 2),
    "distributed": (("distributed/",), 64),
    "dsp": (("hw/dsp/",), 24),
    "experimental": (("experimental/",), 42),
    "exporting": (("exporting/",), 94),
    "llm": (("llm/",), 0),
    "onnx": (("onnx/",), 30),
    "opencl": (("hw/opencl/",), 36),
    "pack": (("lower/pack/",), 7),
    "profiler": (("profiler/",), 27),
    "quantize": (("nn/quantize/",), 30),
    "scipy": (("scipy/",), 42),
    "torch": (("torch/",), 0),
    "tune": (("inspect/tune", "inspect/search"), 16),
    "verify": (("inspect/verify",), 8),
    "viewer": (("inspect/viewer/",), 44),
}
"""The files of each annex, as beginnings of names below `tfn/`, and the imports that remain."""

CORE_IMPORTS = 10
"""Imports of files of annexes by the core, beside the names that `tfn` loads on demand."""

INNER = {"trace", "transforms", "lower", "hw", "eager"}
"""Layers that no program imports."""


def annex(path: Path) -> str | None:
    """The annex that a file belongs to; None for the core."""
    below = path.relative_to(ROOT / "tfn").as_posix()
    return next((a for a, (starts, _) in ANNEXES.items() if below.startswith(starts)), None)


@cache
def offered(package: Path) -> frozenset[str]:
    """The names without an underscore that a public module or package defines or imports."""
    found: set[str] = set()
    for node in ast.walk(parsed(package)):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


def is_public(dotted: str) -> bool:
    """Whether a module below `tfn`, no deeper than ``tfn.x``, offers the name."""
    module, _, last = dotted.rpartition(".")
    parts = module.split(".")
    if not module or last[0] == "_" or len(parts) > 2 or {*parts[1:], last} & {*INNER, "_support"}:
        return dotted == "tfn"  # the package itself
    base = ROOT.joinpath(*parts)
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return last in offered(file) or (len(parts) == 1 and target(dotted) is not None)


def inner_imports(path: Path) -> Iterator[str]:
    """The names that a file of an annex asks of other files, and that no public module offers."""
    for _, dotted in imports(parsed(path)):
        found = target(dotted)
        if found is not None and annex(found) != annex(path) and not is_public(dotted):
            yield dotted


def test_which_names_are_public() -> None:
    assert is_public("tfn.numpy.sum") and is_public("tfn.extend.UOp") and is_public("tfn.jit")
    assert is_public("tfn.lax") and is_public("tfn.errors.TfnError")
    for inner in ("tfn.trace.uop.UOp", "tfn._support.frozen.frozen", "tfn.numpy.sets.union1d"):
        assert not is_public(inner)


@pytest.mark.parametrize("own", ANNEXES)
def test_an_annex_imports_public_names_and_extend(own: str) -> None:
    found = [(name(p), d) for p in HOUSE if annex(p) == own for d in inner_imports(p)]
    bound = ANNEXES[own][1]
    assert len(found) <= bound, f"{len(found)} imports of inner names, at most {bound}: {found}"
    assert len(found) >= bound, f"the bound of {own} in ANNEXES may fall to {len(found)}"


def test_the_core_imports_no_annex() -> None:
    found = {
        (name(path), d)
        for path in HOUSE
        if annex(path) is None and name(path) not in ("tfn/__init__.py", "tfn/extend.py")
        for _, d in imports(parsed(path))
        if (file := target(d)) is not None and annex(file) is not None
    }
    assert len(found) == CORE_IMPORTS, f"{len(found)}, not {CORE_IMPORTS}: {sorted(found)}"


def test_an_annex_is_no_layer_of_the_compiler() -> None:
    """Those below the public functions cannot import `tfn.extend`, which is one of them."""
    below = {a for path in HOUSE if (a := annex(path)) and layer(path) in ("lower", "hw")}
    assert below == {"cuda", "dsp", "opencl", "pack"}
