"""Templates of LLVM IR: their holes, conditions and headers, and that they are shipped."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tfn.hw.cpu import ir, native
from tfn.hw.cpu.ir import read_ir

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "tfn").rglob("*.ll"))


def test_holes_are_filled_and_conditional_lines_kept_or_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "add.ll").write_text("a $SIZE$ $T.x$ @name\n?FAST  b $SIZE$\n?SLOW  c\nd\n")
    monkeypatch.setattr(ir, "_FOLDER", str(tmp_path))
    values = {"SIZE": 8, "T.x": "y"}
    assert read_ir("add", values) == "a 8 y @name\nd\n"
    assert read_ir("add", values, ["FAST"]) == "a 8 y @name\n  b 8\nd\n"
    with pytest.raises(KeyError, match=r"T\.x"):
        read_ir("add", {"SIZE": 8})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_shipped_and_its_header_names_its_functions(path: Path) -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = data["tool"]["setuptools"]["package-data"]["tfn"]
    inner = path.relative_to(ROOT / "tfn").as_posix()
    assert any(fnmatch(inner, pattern) for pattern in patterns)
    lines = path.read_text(encoding="ascii").splitlines()
    header = lines[: next(i for i, line in enumerate(lines) if not line.startswith(";"))]
    assert len(header) > 2 and max(map(len, lines)) <= 100
    functions = re.findall(r"^define .*?@([\w$]+)\(", "\n".join(lines), re.MULTILINE)
    names = {line.split()[1] for line in header if line.startswith(";   ")}
    missing = [f for f in functions if f not in names]
    assert functions and not missing, f"the header does not say what {missing} do"


def test_every_word_of_a_layout_is_used_by_native_code() -> None:
    text = "".join(path.read_text() for path in FILES)
    words = [f"STATE.{name}" for name in native.STATE] + [f"PLAN.{name}" for name in native.PLAN]
    words += [f"BUFFER.{name}" for name in native.BUFFER]
    words += [f"INPUT.{name}" for name in native.INPUT[1:]]  # the first word is at the row itself
    words += [f"OUTPUT.{name}" for name in native.OUTPUT[1:]]
    words += [f"OPERATORS.{name}" for name in native.OPERATORS]
    words += [f"OPERATOR.{name}" for name in native.OPERATOR[1:]]
    assert not [word for word in words if f"${word}$" not in text]
