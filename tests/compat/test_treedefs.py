"""Structures of trees as JAX takes them apart, against values recorded with JAX 0.10.2."""

from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import pytest

from tfn import tree
from tfn.compat.treedefs import PyTreeDef
from tfn.errors import TreeError
from tfn.tree import Partial


class Pair(NamedTuple):
    a: Any
    b: Any


NODES = [
    (1, None),
    (None, (type(None), None)),
    ((1, [2]), (tuple, None)),
    ([1, {"x": 2}], (list, None)),
    ({"b": 1, "a": (2, 3)}, (dict, ["a", "b"])),
    (Pair(1, None), (Pair, None)),
    (OrderedDict(b=1, a=2), (OrderedDict, ("b", "a"))),
    (defaultdict(int, b=1, a=2), (defaultdict, (int, ("a", "b")))),
]


@pytest.mark.parametrize("node, data", NODES, ids=repr)
def test_structures_are_made_of_what_they_are_taken_apart_into(node: Any, data: Any) -> None:
    treedef = tree.structure(node)
    assert isinstance(treedef, PyTreeDef)
    assert PyTreeDef.node_data(treedef) == data
    made = PyTreeDef.from_node_data_and_children(None, data, treedef.children())
    assert made == treedef and hash(made) == hash(treedef)


def test_classes_of_the_user_are_nodes() -> None:
    treedef = tree.structure(Partial(max, 1, key=2))
    cls, data = PyTreeDef.node_data(treedef)
    assert cls is Partial
    make = PyTreeDef.make_from_node_data_and_children
    assert make(None, (cls, data), treedef.children()) == treedef


def test_a_structure_has_its_methods_as_functions() -> None:
    treedef = tree.structure((1, 2))
    assert PyTreeDef.unflatten(treedef, [3, 4]) == (3, 4)
    assert not isinstance((1, 2), PyTreeDef)


@pytest.mark.parametrize(
    "data, count, words",
    [
        (None, 1, "not those of such a node"),
        ((type(None), None), 1, "not those of such a node"),
        ((dict, ["a"]), 2, "not those of such a node"),
        ((dict, None), 1, "not those of such a node"),
        ((Pair, None), 1, "not those of such a node"),
        ((int, None), 1, "no node of trees"),
    ],
)
def test_children_that_do_not_fit(data: Any, count: int, words: str) -> None:
    with pytest.raises(TreeError, match=words):
        PyTreeDef.from_node_data_and_children(None, data, [tree.structure(0)] * count)
