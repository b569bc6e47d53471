"""Dependencies: tests run with the lowest versions that are allowed, so those must be named."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_lowest_versions_are_those_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tools = {"mypy", "ruff"}  # they check the source, and take no part in it
    needed = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    bounds = dict(re.match(r"([\w-]+)>=([\d.]+)", text).groups() for text in needed)  # type: ignore[union-attr]
    lines = (ROOT / "tests" / "lowest.txt").read_text().splitlines()
    lowest = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert set(lowest) == set(bounds) - tools
    for name, version in lowest.items():
        low = bounds[name].split(".")
        rest = version.split(".")[len(low) :]
        assert version.split(".")[: len(low)] == low and set(rest) <= {"0"}, (name, version)
