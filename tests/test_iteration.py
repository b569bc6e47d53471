"""Iteration ends: objects with `__getitem__` have an `__iter__`, or say that they have none."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.experimental.pallas.refs import Block
from tfn.nn.permutation import Permutation

X = tnp.arange(3.0)


def classes() -> Iterator[type]:
    """The classes of tfn that define `__getitem__`."""
    for module in pkgutil.walk_packages(tfn.__path__, "tfn."):
        if module.name.endswith("__main__"):
            continue
        try:
            members = vars(importlib.import_module(module.name)).values()
        except ImportError:  # a package that is not installed
            continue
        for member in members:
            here = inspect.isclass(member) and member.__module__ == module.name
            if here and "__getitem__" in vars(member):
                yield member


NO_INTEGERS = {
    "tfn.experimental.sparse.bcoo.BCOO",
    "tfn.hw.cpu.native.State",
    "tfn.llm.weights.Blocks",
    "tfn.nn.data.Order",
    "tfn.nn.data._InPlace",
    "tfn.nn.store.dataset.Stored",
    "tfn.numpy.index_grids.Grid",
    "tfn.scipy.spatial.transform.Rotation",
}
"""Classes whose `__getitem__` ends an iteration by itself, by an error for 0 or past the end."""


def test_classes_with_items_say_how_they_are_iterated() -> None:
    silent = {f"{c.__module__}.{c.__qualname__}" for c in classes() if not hasattr(c, "__iter__")}
    assert silent <= NO_INTEGERS


@pytest.mark.parametrize(
    "make",
    (
        lambda: tfn.new_ref(X),
        lambda: tfn.new_ref(tnp.arange(5.0)).at[:3],
        lambda: Block(X),
        lambda: Block(tnp.arange(5.0)).at[:3],
    ),
)
def test_references_are_iterated_as_their_arrays(make: Any) -> None:
    assert [float(x) for x in islice(make(), 9)] == [0, 1, 2]
    assert 1 in make() and 7 not in make()


def test_references_become_arrays() -> None:
    ref = tfn.new_ref(X)
    for like in (ref, ref.at[:]):
        got = np.asarray(like, np.float64)
        assert got.tolist() == [0, 1, 2] and got.dtype == np.float64 and len(like) == 3


@pytest.mark.parametrize(
    "endless",
    (X.at, tfn.new_ref(X).at, Block(X).at, tnp.s_, tnp.index_exp, tnp.r_, tnp.c_),
    ids=lambda x: type(x).__name__,
)
def test_indexing_helpers_are_not_iterable(endless: Any) -> None:
    with pytest.raises(TypeError, match="not iterable"):
        iter(endless)
    with pytest.raises(TypeError, match="iterable"):
        _ = 7 in endless


def test_permutations_are_iterated_in_pieces() -> None:
    assert sorted(Permutation(5000, tfn.random.key(0))) == list(range(5000))
