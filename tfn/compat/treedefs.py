"""JAX's ``PyTreeDef``: structures of trees, taken apart into nodes and made of them again.

A structure is `tfn.tree.Structure`, a class of optree's, to which no methods can be added.  Those
of JAX's that it lacks are functions of a structure: ``PyTreeDef.node_data(treedef)``.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from typing import Any

import optree

from tfn import tree
from tfn.compat.avals import predicate_type
from tfn.errors import TreeError
from tfn.extend import shown

NodeData = tuple[type[Any], Any]


def node_data(treedef: tree.Structure) -> NodeData | None:
    """The class of the outermost node and what is static in it; None for a leaf.

    Example:
        >>> node_data(tree.structure({"b": 1, "a": 2})), node_data(tree.structure(1))
        ((<class 'dict'>, ['a', 'b']), None)
    """
    cls = treedef.type
    if cls is None:
        return None
    if optree.is_namedtuple_class(cls):
        return cls, None
    data = _entry(cls).flatten_func(tree.unflatten(treedef, [0] * treedef.num_leaves))[1]
    if cls is OrderedDict:
        data = tuple(data)
    elif cls is defaultdict:
        data = data[0], tuple(data[1])
    return cls, data


def from_node_data_and_children(
    registry: object, node_data: NodeData | None, children: Iterable[tree.Structure]
) -> tree.Structure:
    """The structure of a node with this class, with what is static in it, and children.

    Args:
        registry: ``default_registry``; classes are those that `tfn.tree` knows.
        node_data: as the function of this name gives it; None for a leaf.
        children: the structures of the children, in the order of `Structure.children`.

    Raises:
        TreeError: for a class that is no node, or children that do not fit.

    Example:
        >>> inner = tree.structure([1, 2])
        >>> treedef = from_node_data_and_children(None, (dict, ["a"]), [inner])
        >>> treedef == tree.structure({"a": [1, 2]})
        True
    """
    children = list(children)
    subtrees = [tree.unflatten(child, [0] * child.num_leaves) for child in children]
    cls, data = (None, None) if node_data is None else node_data
    made: Any = 0
    wrong = None
    if cls is not None and optree.is_namedtuple_class(cls):
        made = cls._make(subtrees) if len(subtrees) == len(cls._fields) else None
    elif cls is not None:
        entry = _entry(cls)
        try:
            made = entry.unflatten_func(data, subtrees)
        except (TypeError, ValueError) as error:
            made, wrong = None, error
    treedef = tree.structure(made)
    if treedef.type is not cls or treedef.children() != children:
        raise TreeError(
            "the children are not those of such a node",
            got=f"{len(children)} children of {shown(cls)} with {shown(data)}",
            hint="pass what node_data and children() of a structure give",
        ) from wrong
    return treedef


def _entry(cls: type[Any]) -> Any:
    """The entry of a class in the registry of nodes."""
    entry = optree.register_pytree_node.get(cls, namespace=tree.NAMESPACE)
    if entry is None:
        raise TreeError(
            "the class is no node of trees",
            got=shown(cls),
            hint="register it with tfn.tree.register_node",
        )
    return entry


PyTreeDef: Any = predicate_type("PyTreeDef", lambda x: isinstance(x, tree.Structure))
"""The class of structures, for `isinstance`, and its methods as functions of a structure."""

for _name in [name for name in dir(tree.Structure) if not name.startswith("_")]:
    setattr(PyTreeDef, _name, getattr(tree.Structure, _name))
PyTreeDef.node_data = staticmethod(node_data)
PyTreeDef.from_node_data_and_children = staticmethod(from_node_data_and_children)
PyTreeDef.make_from_node_data_and_children = staticmethod(from_node_data_and_children)
