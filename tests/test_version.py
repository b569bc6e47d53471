"""The version: written once, and read by the build."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import tfn


def test_the_version_is_written_once() -> None:
    text = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert "version" in text["project"]["dynamic"] and "version" not in text["project"]
    module, _, name = text["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")
    assert getattr(import_module(module), name) == tfn.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", tfn.__version__)
