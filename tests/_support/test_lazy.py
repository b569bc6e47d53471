"""Lazy imports: packages look to users as if their files were loaded."""

from __future__ import annotations

import ast
import builtins
import importlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import together
from tfn._support.lazy import on_demand

ROOT = Path(tfn.__file__).parent
FILES = sorted(ROOT.rglob("__init__.py"))
LAZY = [path for path in FILES if "with _on_demand(" in path.read_text()]
HEAVY = {
    "optree",
    "llvmlite",
    "z3",
    "scipy",
    "matplotlib",
    "jaxtyping",
    "hashlib",
    "json",
    "tempfile",
    "tfn.run",
    "tfn.lower",
    "tfn.transforms",
    "tfn.hw.cpu",
}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def dotted(path: Path) -> str:
    return ".".join(["tfn", *path.parent.relative_to(ROOT).parts])


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package of which nothing has been asked yet."""
    folder = tmp_path / "larder"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from tfn._support.lazy import on_demand\n"
        "with on_demand(globals()):\n"
        "    from larder.shelf import jam as jam, _hidden as _hidden\n"
        "    from larder.shelf import jam as jelly\n"
        "    from larder.shelf import missing as missing\n"
        "    from larder import cellar as cellar\n"
        "spoon = 1\n"
    )
    (folder / "shelf.py").write_text("jam, _hidden = object(), object()\n")
    (folder / "cellar.py").write_text("import larder\nwine = larder.jam\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("larder")
    for name in ("larder", "larder.shelf", "larder.cellar"):
        sys.modules.pop(name, None)


def test_a_file_is_loaded_when_a_name_of_it_is_asked_for(package: ModuleType) -> None:
    assert "larder.shelf" not in sys.modules and package.spoon == 1
    jam = package.jam
    assert jam is sys.modules["larder.shelf"].jam and "larder.cellar" not in sys.modules
    assert package.jam is package.jelly is jam
    assert vars(package)["jam"] is jam, "what was asked for once is there as any other name"


def test_a_file_may_be_asked_for_itself_and_may_ask_for_others(package: ModuleType) -> None:
    assert package.cellar.wine is package.jam


def test_it_looks_complete(package: ModuleType) -> None:
    public = ["cellar", "jam", "jelly", "missing", "on_demand", "spoon"]
    assert [name for name in dir(package) if name[0] != "_"] == public == package.__all__
    assert "_hidden" in dir(package)


def test_every_form_of_import_finds_the_names(package: ModuleType) -> None:
    found: dict[str, object] = {}
    exec("from larder import jam, cellar\nimport larder.shelf as shelf", found)
    assert found["jam"] is package.jam and found["shelf"].jam is package.jam  # type: ignore[attr-defined]


def test_names_that_are_not_there(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"module 'larder' has no attribute 'jems'"):
        package.jems  # noqa: B018
    with pytest.raises(AttributeError, match=r"larder.shelf.*missing"):
        package.missing  # noqa: B018
    with pytest.raises(ImportError):
        exec("from larder import jems")


def test_imports_of_others_are_left_alone() -> None:
    before, done = builtins.__import__, threading.Event()

    def elsewhere() -> None:
        exec("import colorsys", {})
        done.set()

    namespace = {"__name__": "nowhere"}
    with on_demand(namespace):
        exec("from colorsys import rgb_to_hsv as convert", namespace)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert done.is_set() and "colorsys" in sys.modules and builtins.__import__ is before
    assert "convert" not in namespace and callable(namespace["__getattr__"])


def test_python_imports_as_before_after_an_error() -> None:
    before = builtins.__import__
    with pytest.raises(ZeroDivisionError), on_demand({"__name__": "nowhere"}):
        1 / 0  # noqa: B018
    assert builtins.__import__ is before


@together("path", LAZY, ids=dotted)
def test_every_name_of_a_package_is_found(path: Path) -> None:
    package = importlib.import_module(dotted(path))
    for name in dir(package):
        assert getattr(package, name) is getattr(package, name)


@together("path", LAZY, ids=dotted)
def test_no_file_has_the_name_of_something_in_a_file(path: Path) -> None:
    """Else loading the file would put it where the other is looked for."""
    (block,) = (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.With))
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        if node.module != dotted(path):
            for alias in node.names:
                name = alias.asname or alias.name
                assert not (path.parent / f"{name}.py").exists(), name
                assert not (path.parent / name).exists(), name


def test_functions_are_pickled_by_where_they_are() -> None:
    for function in (tnp.sum, tnp.linalg.norm, tfn.lax.scan, tfn.random.normal, tfn.grad):
        assert pickle.loads(pickle.dumps(function)) is function


def test_everything_at_once() -> None:
    names: dict[str, object] = {}
    exec("from tfn.numpy import *", names)
    assert names["sum"] is tnp.sum and names["linalg"] is tnp.linalg and names["pi"] == tnp.pi


def test_importing_the_library_loads_little() -> None:
    """Loading names that are not used is most of the time that importing takes."""
    loaded = set(run("import tfn, sys; print(*sys.modules)").split())
    assert not HEAVY & loaded
    assert len([name for name in loaded if name.split(".")[0] == "tfn"]) <= 37


def test_one_function_does_not_load_the_others() -> None:
    loaded = run(
        "import sys, tfn; tfn.jit(lambda x: x + 1)(tfn.numpy.ones(3)); print(*sys.modules)"
    )
    others = {
        "tfn.nn",
        "tfn.lax",
        "tfn.random",
        "tfn.inspect",
        "tfn.numpy.sets",
        "tfn.numpy.linalg",
        "tfn.transforms.jvp",
        "tfn.lower.loops.beam_search",
        "tfn.lower.index.solver",
    }
    assert not others & set(loaded.split())
