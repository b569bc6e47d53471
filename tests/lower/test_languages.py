"""Languages: each architecture has its text, and its passes."""

from __future__ import annotations

import pytest

from tfn.lower.languages import LANGUAGES, LLVM, language_of
from tfn.lower.target.target import Target


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_language_renders_kernels(name: str) -> None:
    assert "empty" in language_of(Target(name, "", "")).kernel("empty", [])


def test_an_architecture_without_a_row_has_the_language_of_processors() -> None:
    assert language_of(Target("riscv64-unknown-linux-gnu", "", "")) is LLVM


@pytest.mark.parametrize("name", ["nvptx64", "opencl"])
def test_a_grid_has_no_driver(name: str) -> None:
    assert not language_of(Target(name, "", "")).driver("main", (), 0)
