"""The table of JAX's names: what it names is there."""

import importlib

import pytest

from tfn.compat.names import MODULES


@pytest.mark.parametrize("name", sorted(MODULES))
def test_parents_come_before_their_modules(name):
    order = list(MODULES)
    parent = name.rpartition(".")[0]
    assert not parent or order.index(parent) < order.index(name)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_row_can_be_imported(name):
    names = MODULES[name]
    if names.source:
        importlib.import_module(names.source)
    for place in names.elsewhere.values():
        module, _, attribute = place.partition(":")
        assert hasattr(importlib.import_module(module), attribute or "__name__"), place
