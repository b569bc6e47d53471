"""The README and the pages of docs: snippets run, commands and files exist, tables are true."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from tests import size
from tests.lower.test_math import FUNCTIONS
from tfn.config import SETTINGS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()


def test_snippets_run_in_order() -> None:
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "README", "README.md", 0)
    report: list[str] = []
    results = doctest.DocTestRunner(optionflags=flags).run(test, out=report.append)
    assert results.attempted > 20
    assert not results.failed, "".join(report)


def test_pages_leave_no_gap_for_a_reader_to_fill() -> None:
    for page in (ROOT / "README.md", *PAGES):
        assert not re.search(r"<(?:this|the|your) [a-z]+>", page.read_text()), page


def test_a_change_is_a_line_without_timings() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    entries = re.findall(r"^- .*(?:\n  .*)*", text, re.MULTILINE)
    assert len(entries) > 50
    for entry in entries:
        assert "\n" not in entry and not re.search(r"\d (?:[munµ]?s|seconds?)\b", entry), entry


def test_sizes_of_rooms_are_those_that_are_counted() -> None:
    """Within a tenth, so that a change need not touch the page."""
    page = (ROOT / "docs/explanation/codebase.md").read_text()
    stated = re.findall(r"^\| `tfn/([\w/]+)/` \| ([\d,]+) \|", page, re.MULTILINE)
    counted = {
        name: sum(size.count(path.read_text()).lines for path in paths if path.suffix == ".py")
        for name, paths in size.rooms(ROOT).items()
    }
    assert len(stated) > 10
    for name, lines in stated:
        assert abs(counted[name] / int(lines.replace(",", "")) - 1) < 0.1, (name, counted[name])
    of_group = {
        name: sum(counted[room.name] for room in size.ROOMS if room.group in groups)
        for name, groups in size.GROUPS.items()
    }
    for name, lines in zip(("all", "core", "compiler"), re.findall(r"about ([\d,]+)", page)):
        assert abs(of_group[name] / int(lines.replace(",", "")) - 1) < 0.1, name


def test_the_reference_has_each_public_module() -> None:
    source = (ROOT / "docs/reference.py").read_text().partition("\nCHOSEN")[0]
    listed = set(re.findall(r'^        "(tfn[\w.]*)",$', source, re.MULTILINE))
    packages = ("tfn", "tfn.scipy", "tfn.experimental", "tfn.numpy", "tfn.lax", "tfn.nn")
    offered = {
        f"{package}.{name}"
        for package in packages
        for name in import_module(package).__dir__()
        if name[0] != "_" and isinstance(getattr(import_module(package), name), ModuleType)
    }
    parents = {name.rpartition(".")[0] for name in listed}
    files = {name for name in offered if is_a_file_of_names_listed_above(name)}
    assert offered - files - parents <= listed, offered - files - parents - listed


def is_a_file_of_names_listed_above(name: str) -> bool:
    """Whether users know a module by the names that its package takes from it."""
    package, _, last = name.rpartition(".")
    shown = re.findall(
        rf"^    from {package} import {last} as {last}$",
        Path(import_module(package).__file__ or "").read_text(),
        re.MULTILINE,
    )
    return not shown


def test_commands_are_there() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = set(re.findall(r"(?:`|&& |^    )make (\w+)", TEXT, re.MULTILINE))
    assert {"mnist", "test"} <= commands <= targets


def test_files_are_there() -> None:
    named = re.findall(r"`((?:examples|tests|tfn)/[\w/.]+|\w+\.md)`", TEXT)
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", TEXT)
    assert pictures
    for name in named + pictures:
        assert (ROOT / name).exists(), name


PAGES = sorted((ROOT / "docs").rglob("*.md"))
RUN = [page for page in PAGES if "```pycon" in page.read_text()]


SERVER = """
import doctest, os, sys
import tfn.lax, tfn.nn, tfn.numpy
flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
for line in sys.stdin:
    if not (child := os.fork()):
        text = open(line[:-1]).read()
        blocks = [block.partition("```")[0] for block in text.split("```pycon")[1:]]
        test = doctest.DocTestParser().get_doctest("\\n".join(blocks), {}, "page", None, 0)
        sys.exit(doctest.DocTestRunner(optionflags=flags).run(test).failed)
    status = os.waitpid(child, 0)[1]
    print(f"\\nended: {os.waitstatus_to_exitcode(status)}", flush=True)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported tfn, and runs the snippets of pages that it is told."""
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=both, text=True) as it:
        yield it


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.relative_to(ROOT / "docs").as_posix())
def test_snippets_of_pages_run(page: Path, server: subprocess.Popen[str]) -> None:
    """Each page in a process of its own: some of them make JAX of tfn."""
    if "import optax" in page.read_text() and find_spec("optax") is None:
        pytest.skip("optax is not installed: pip install --no-deps optax absl-py")
    if "import torch" in page.read_text() and find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install torch")
    assert server.stdin and server.stdout
    print(page, file=server.stdin, flush=True)
    said: list[str] = []
    while not (said and said[-1].startswith("ended: ")):
        line = server.stdout.readline()
        assert line, "".join(said)
        said.append(line)
    assert said[-1] == "ended: 0\n", "".join(said)


def test_tests_that_pages_name_are_there() -> None:
    rows = re.findall(
        r"^\| (?!---|The sentence).*\| (.*) \|$",
        (ROOT / "docs" / "security.md").read_text(),
        re.MULTILINE,
    )
    named = r"`(test_\w+\.py)`:\s+`(test_\w+)`"
    assert len(rows) > 30 and all(re.fullmatch(named, row) for row in rows)
    texts = [(path.name, path.read_text()) for path in (ROOT / "tests").rglob("test_*.py")]
    for page in PAGES:
        for file, name in re.findall(named, page.read_text()):
            assert any(at == file and f"def {name}(" in text for at, text in texts), name


def test_links_lead_to_files() -> None:
    """Links to pages of the reference, and to the tour, are checked by `make docs`."""
    for page in PAGES:
        for link in re.findall(r"\]\(([\w./]+\.md)(?:#[\w-]+)?\)", page.read_text()):
            there = (page.parent / link).resolve()
            inside = there.relative_to(ROOT / "docs").as_posix()
            assert there.exists() or inside.startswith("reference/") or inside in MADE, link
    for link in re.findall(r"\]\((docs/[\w./]+)\)", TEXT):
        assert (ROOT / link).exists(), link
    assert "(docs/index.md)" in TEXT and "(docs/jax.md)" in TEXT


PAGED = ("graph", "fuse", "indices", "loops", "math", "codegen", "memory", "report", "target")
MADE = {f"explanation/{name}.md" for name in ("tour", *PAGED)}
"""Pages that docs/compiler.py makes."""


def test_pages_are_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    named = set(re.findall(r"[\w/]+\.md", navigation)) - MADE
    assert named == {page.relative_to(ROOT / "docs").as_posix() for page in PAGES}


SEARCHED = (
    *("export", "config", "TFN_DEVICE", "safetensors"),
    *("checkpoint", "donate", "install", "tutorial"),
)


@pytest.mark.parametrize("term", SEARCHED)
def test_the_search_finds(term: str) -> None:
    """The index of the site is made of the words of its pages."""
    found = [page for page in PAGES if re.search(rf"\b{term}\b", page.read_text(), re.IGNORECASE)]
    assert found


def test_settings_are_all_in_the_table() -> None:
    page = (ROOT / "docs/howto/config.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `(TFN_\w+)` \| (.*?) \|", page, re.MULTILINE)
    assert [row[:2] for row in rows] == [(name, s.variable) for name, s in SETTINGS.items()]
    assert all(s.default in default for (*_, default), s in zip(rows, SETTINGS.values()))


def test_errors_of_functions_are_those_that_tests_hold() -> None:
    page = (ROOT / "docs/explanation/numerics.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|", page, re.MULTILINE)
    assert [(name, float(a), float(b)) for name, a, b in rows] == [
        (op.value, *promise.ulp) for op, promise in FUNCTIONS.items()
    ]
