"""The README: its snippets run, and its commands and files are there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

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
