"""The glossary: its files exist and have its terms, and retired words do not come back."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests import style
from tests.covering import together

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "glossary.md").read_text()
ENTRIES = dict(re.findall(r"^- \*\*(.+?)\*\*((?:.+\n)(?:  .+\n)*)", PAGE, re.MULTILINE))
"""The text of each entry, by its term."""

RETIRED = {
    "strips": "blocks, chunks",
    "landscape": "component graph",
    "clusters": "components",
    "manifold": "read at many indices",
    "walker": "indexer",
    "wing": "package, layer",
    "guest": "package",
    "guests": "packages",
    "floors": "layers",
    "larder": "a noun of the field",
    "byhand": "IR builder",
    "lemma": "assumption",
    "panelled": "in panels",
    "for_unit": "pack_for_matrix_unit",
    "by_lines": "gemv",
    "long_dot": "split_k",
    "two_stages": "two_pass_reduce",
    "in_groups": "concat_tree",
    "one_sum": "collapse_k",
    "envelope": "container",
    "shelf": "free list",
    "shelves": "free lists",
    "door": "entry",
    "doors": "entries",
    "dear": "expensive",
    "handmade": "custom kernel",
    "thinned": "rematerialised",
    "house": "package",
    "somebody": "the caller, another thread",
    "nobody": "nothing, no caller",
    "whoever": "the caller",
    "alike": "equal",
}
"""Words that tfn no longer uses, in names and prose, and the terms that stand in their place."""

ALLOWED: dict[str, frozenset[str]] = {}
"""Files in which a retired word has its other meaning, by word."""


def test_glossary_has_the_terms_of_every_room() -> None:
    assert len(ENTRIES) >= 60
    text = " ".join(ENTRIES.values())
    rooms = [path for path in (ROOT / "tfn" / "lower").iterdir() if (path / "__init__.py").exists()]
    missing = [room.name for room in rooms if f"`tfn/lower/{room.name}/" not in text]
    assert not missing, f"docs/glossary.md has no term of {missing}"


@together("term", ENTRIES)
def test_a_term_is_found_in_the_file_that_owns_it(term: str) -> None:
    files = re.findall(r"`((?:tfn|tests)/[\w/.]+)`", ENTRIES[term])
    assert files, f"docs/glossary.md names no file for {term}"
    for file in files:
        assert (ROOT / file).is_file(), f"docs/glossary.md: {term} is in {file}, which is gone"
    words = r"[\s_-]?".join(re.findall(r"\w+", term.lower()))
    text = files[0] + (ROOT / files[0]).read_text().lower()
    assert re.search(words, text), f"{files[0]} does not have the term {term}"


@pytest.mark.parametrize("page", ["docs/glossary.md", "CONTRIBUTING.md"])
def test_files_that_a_page_names_are_there(page: str) -> None:
    text = (ROOT / page).read_text()
    for file in re.findall(r"[`=](?:((?:tfn|tests|docs|examples|benchmarks)/[\w/.]+))[` ]", text):
        assert (ROOT / file).exists(), f"{page}: {file}"


@pytest.mark.parametrize("word", RETIRED)
def test_retired_words_do_not_come_back(word: str) -> None:
    allowed = ALLOWED.get(word, frozenset())
    found = [
        place
        for source in style.sources(ROOT)
        for place in mentions(source, word)
        if source.path.relative_to(ROOT).as_posix() not in allowed
    ]
    assert not found, f"{word}: say {RETIRED[word]} instead, at {found}"


def mentions(source: style.Source, word: str) -> list[str]:
    """Where names, docstrings and comments of a file have a word."""
    if word not in source.lower:
        return []
    at = source.path.relative_to(ROOT).as_posix()
    whole = re.compile(rf"(?<![^\W_]){word}(?![^\W_])", re.IGNORECASE)
    found = [f"{at}:{t.line}" for t in source.docstrings if whole.search(t.text)]
    found += [f"{at}: {c}" for c in source.comments if whole.search(c)]
    return found + [f"{at}: {name}" for name in sorted(names(source)) if whole.search(name)]


@cache
def names(source: style.Source) -> set[str]:
    """All names that a file defines or uses."""
    found: set[str] = set()
    for node in ast.walk(source.tree):
        for field in ("id", "attr", "arg", "name", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                found.add(value)
    return found
