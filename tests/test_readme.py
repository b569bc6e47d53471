"""The README and the pages of docs: their snippets run, and commands and files are there."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_of_pages_run(page: Path) -> None:
    """Each page in a process of its own: one of them makes JAX of tfn."""
    code = (
        "import doctest, sys\n"
        "flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | "
        "doctest.IGNORE_EXCEPTION_DETAIL\n"
        "blocks = [b.partition('```')[0] for b in open(sys.argv[1]).read().split('```pycon')[1:]]\n"
        "test = doctest.DocTestParser().get_doctest(chr(10).join(blocks), {}, 'page', None, 0)\n"
        "sys.exit(doctest.DocTestRunner(optionflags=flags).run(test).failed)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(page)], capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr


def test_tests_that_pages_name_are_there() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    rows = re.findall(r"^\| (?!---|The sentence).*\| (.*) \|$", page, re.MULTILINE)
    texts = [(path.name, path.read_text()) for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(rows) > 30
    for row in rows:
        file, name = re.fullmatch(r"`(test_\w+\.py)`: `(test_\w+)`", row).groups()  # type: ignore[union-attr]
        assert any(at == file and f"def {name}(" in text for at, text in texts), row


def test_pages_are_linked() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\((\w+\.md)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
    assert "(docs/index.md)" in TEXT and "(docs/jax.md)" in TEXT
