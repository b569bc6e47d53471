"""Every test of this folder runs with the shapes in signatures checked."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import isclass, isfunction

import pytest

from tests.nn.shapes import checked
from tfn import nn

UNCHECKED = {"tfn.nn.module", "tfn.nn.functions"}  # functions of trees, of any shape
METHODS = ("__call__", "step", "attend", "extend", "advance", "project")


@pytest.fixture(autouse=True, scope="package")  # other folders see the functions themselves
def shapes() -> Iterator[None]:
    """Check modules and functions of `nn` as they are called."""
    patch = pytest.MonkeyPatch()
    for name, actual in list(vars(nn).items()):
        home = getattr(actual, "__module__", "")
        if not home.startswith("tfn.nn.") or home in UNCHECKED:
            continue
        if isclass(actual) and hasattr(actual, "__dataclass_fields__"):
            for method in METHODS:
                if method in vars(actual):
                    patch.setattr(actual, method, checked(vars(actual)[method]))
        elif isfunction(actual):
            patch.setattr(nn, name, checked(actual))
    yield
    patch.undo()
