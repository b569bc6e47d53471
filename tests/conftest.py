"""What all tests share: how hypothesis searches, keys used twice, and golden files.

A plain run draws the same few examples every time; ``--hypothesis-profile=search`` draws many new
ones.  ``--update-golden`` writes what a golden test got, to be read like code before it is kept;
``--no-proofs`` leaves out the bounds proofs of `tests/proofs.py`; ``--exhaustive`` makes tests of
every combination of parameters that `tests/covering.py` thins out; ``--compiled N`` compiles other
rows of front ends and runs other slow rows of one kind, each once as N goes from 0 to 11.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

from tests import covering
from tests.proofs import Proofs
from tfn.config import config
from tfn.hw.compile import object_cache

BUSY = (HealthCheck.too_slow,)
"""How long examples take is no mistake: a machine may have other work."""

settings.register_profile(
    "same",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=20,
    print_blob=True,
    suppress_health_check=BUSY,
)
settings.register_profile("search", deadline=None, max_examples=300, suppress_health_check=BUSY)
settings.load_profile("same")

config.key_reuse = True  # tests begin with the same key again and again; test_keys.py forbids it

SETTINGS: dict[str, Any] = {}
"""What each file of tests begins with: a device that one leaves is that of thousands after it."""

COMPILED_ROWS, COMPILED_TESTS = 12, 6
"""Of tests whose subject is not the compiler, one row in so many is compiled; of those without
rows, one test in so many.  ``--compiled`` says which."""

TESTS = Path(__file__).parent
FRONT_ENDS = (
    *("experimental", "lax", "nn", "numpy", "options", "random", "scipy", "transforms"),
    *("test_image.py", "test_random.py"),
)
"""Folders, and files, whose tests are `mostly_uncompiled`, but for those that use `compiled`."""

GOLDEN = TESTS / "golden"
Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew")
    parser.addoption("--no-proofs", action="store_true", help="verify no bounds of kernels")
    parser.addoption("--exhaustive", action="store_true", help="every combination of parameters")
    parser.addoption("--compiled", type=int, default=0, help="the turn of rows that take turns")


def pytest_configure(config: pytest.Config) -> None:
    # A job in the background of a shell, and `nohup`, begin with interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    keep_nothing_where_nothing_can_be_kept()
    keep_bytecode()
    note_settings()
    # Graphs have no cycles: collections find next to nothing, for 4 % of the time of all tests.
    gc.set_threshold(50_000, 20, 50)
    covering.exhaustive = config.getoption("--exhaustive")
    covering.turn = config.getoption("--compiled") % covering.TURNS
    if not config.getoption("--no-proofs"):
        config.pluginmanager.register(Proofs())
    if hasattr(config, "workerinput") and not config.option.file_or_dir:
        import_a_share(config.workerinput)


def import_a_share(worker: dict[str, Any]) -> None:
    """Import test files from the share of this worker on.

    pytest rewrites each file that it has not seen before, for half a minute in all: workers that
    begin at one place would do the same work at the same time.
    """
    files = sorted(TESTS.rglob("test_*.py"))
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in files[first:]:
        with suppress(Exception, pytest.skip.Exception):  # collection says why
            import_module(".".join(("tests", *path.relative_to(TESTS).with_suffix("").parts)))


def keep_nothing_where_nothing_can_be_kept() -> None:
    """Let tests and their child processes do without a cache that is another user's, or read-only.

    The warning that says so would be an error of whichever test compiles first.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            object_cache.store("objects", "f" * 64, b"")  # no key for which the cache is pruned
        except RuntimeWarning:
            config.disk_cache = False
            os.environ["TFN_DISK_CACHE"] = "0"


def note_settings() -> None:
    """Note the settings that files of tests begin with."""
    SETTINGS.update(vars(config))


def keep_bytecode() -> None:
    """Let workers and child processes share bytecode, in the cache, if it may not lie beside files.

    Hundreds of children import tfn: without bytecode half of their time.
    """
    if sys.dont_write_bytecode:
        sys.dont_write_bytecode = False
        sys.pycache_prefix = sys.pycache_prefix or str(config.cache_dir / "bytecode")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no examples in docstrings of tests: they have none."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makemodule(
    module_path: Path,
) -> Generator[None, pytest.Module, pytest.Module]:
    module = yield
    if any(module_path.is_relative_to(TESTS / folder) for folder in FRONT_ENDS):
        module.add_marker(pytest.mark.usefixtures("mostly_uncompiled"))
    return module


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Workers must agree on an order, and parameters drawn from a set have none.
    places: dict[tuple[str, str], int] = {}
    for item in items:
        places.setdefault((str(item.path), item.name.split("[")[0]), len(places))
    items.sort(key=lambda item: (places[str(item.path), item.name.split("[")[0]], item.name))
    lacking: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if reason := skipped(item):
            lacking.setdefault((item.path, reason), []).append(item)
    alike = [item for same in lacking.values() for item in same[1:]]
    for (_, reason), (first, *rest) in lacking.items():
        if rest:
            more = pytest.mark.skipif(True, reason=f"{reason} (and {len(rest)} tests more)")
            first.add_marker(more, append=False)
    config.hook.pytest_deselected(items=alike)
    without = set(alike)
    items[:] = [item for item in items if item not in without]


def skipped(item: pytest.Item) -> str:
    """The reason why a test cannot run here; those of a file that have the same are one skip."""
    marks = item.iter_markers("skipif")
    return next((mark.kwargs["reason"] for mark in marks if mark.args[0]), "")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After each file, restore settings that it left changed, and set what is left apart.

    Collections then visit the objects of one file only: with those of all tests before, one takes
    a second or two, 11 % of the time of all tests.
    """
    if nextitem is None or nextitem.path != item.path:
        left = {name: now for name, now in vars(config).items() if now != SETTINGS[name]}
        for name in left:
            setattr(config, name, SETTINGS[name])
        assert not left, f"tests of {item.path.name} leave settings changed: {left}"
        gc.collect()
        gc.freeze()


@pytest.fixture
def eight_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have eight devices."""
    monkeypatch.setattr(config, "devices", 8)


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy evaluates each operation: for tests of what is traced, not of how it is compiled."""
    monkeypatch.setattr(config, "device", "python")


@pytest.fixture
def mostly_uncompiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `uncompiled`, but for the first row of a test and some of the others, and some tests."""
    if covering.exhaustive or "compiled" in request.fixturenames:
        return
    choice = request.config.getoption("--compiled")
    choice += choice // covering.TURNS  # so that rows that take turns meet every choice
    if hasattr(request.node, "callspec"):
        others = (sum(request.node.callspec.indices.values()) + choice) % COMPILED_ROWS
    else:
        others = (crc32(request.node.name.encode()) + choice) % COMPILED_TESTS
    if others:
        monkeypatch.setattr(config, "device", "python")


@pytest.fixture
def compiled() -> None:
    """Every row is compiled: for tests, in the folders of front ends, of compiled values."""


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with a file under tests/golden, or write it."""
    update = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        text = text.rstrip() + "\n"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run pytest --update-golden and read it"
        assert text == path.read_text(), f"{name} changed: if it should, pytest --update-golden"

    return check
