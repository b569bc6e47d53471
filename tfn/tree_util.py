"""The functions of `tfn.tree` under the names of `jax.tree_util`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import optree

from tfn import tree
from tfn._support.sections import section
from tfn.tree import DictKey as DictKey
from tfn.tree import FlattenedIndexKey as FlattenedIndexKey
from tfn.tree import GetAttrKey as GetAttrKey
from tfn.tree import Partial as Partial
from tfn.tree import SequenceKey as SequenceKey
from tfn.tree import keystr as keystr
from tfn.tree import register_dataclass as register_dataclass
from tfn.tree import register_static as register_static

tree_map, tree_map_with_path = tree.map, tree.map_with_path
tree_flatten, tree_flatten_with_path = tree.flatten, tree.flatten_with_path
tree_leaves, tree_leaves_with_path = tree.leaves, tree.leaves_with_path
tree_unflatten, tree_structure, tree_transpose = tree.unflatten, tree.structure, tree.transpose
tree_reduce, tree_reduce_associative, tree_all = tree.reduce, tree.reduce_associative, tree.all
tree_broadcast = tree.broadcast
register_pytree_node_class = tree.register_node_class
register_pytree_with_keys_class = tree.register_with_keys_class
PyTreeDef, KeyPath, KeyEntry = tree.Structure, tree.Path, Any


def register_pytree_node(
    nodetype: type[Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Makes a class a node of trees: `tree.register_node`, with keys `tree.register_with_keys`.

    Example:
        >>> class Box:
        ...     def __init__(self, x): self.x = x
        >>> register_pytree_node(Box, lambda b: ((b.x,), None), lambda _, xs: Box(*xs))
        >>> tree_leaves(Box(1))
        [1]
    """
    if flatten_with_keys_func is None:
        tree.register_node(nodetype, flatten_func, unflatten_func)
    else:
        tree.register_with_keys(nodetype, flatten_with_keys_func, unflatten_func)


def register_pytree_with_keys(
    nodetype: type[Any],
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Makes a class a node of trees whose children have keys: `tree.register_with_keys`.

    Example:
        >>> class Box:
        ...     def __init__(self, x): self.x = x
        >>> keyed = lambda b: (((GetAttrKey("x"), b.x),), None)
        >>> register_pytree_with_keys(Box, keyed, lambda _, xs: Box(*xs))
        >>> keystr(tree_leaves_with_path(Box(1))[0][0])
        '.x'
    """
    tree.register_with_keys(nodetype, flatten_with_keys, unflatten_func, flatten_func)


def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether nothing in an iterable is a container.

    Args:
        iterable: the objects.
        is_leaf: a function that says of a container whether it is taken for a leaf.

    Example:
        >>> all_leaves([1, 2]), all_leaves([1, [2]])
        (True, False)
    """
    with section():
        return optree.all_leaves(iterable, is_leaf=is_leaf, namespace=tree.NAMESPACE)


def treedef_is_leaf(treedef: tree.Structure) -> bool:
    """Whether a structure is that of a single leaf."""
    return bool(treedef.is_leaf())


def treedef_children(treedef: tree.Structure) -> list[tree.Structure]:
    """The structures one level below."""
    return list(treedef.children())


def treedef_tuple(treedefs: Iterable[tree.Structure]) -> tree.Structure:
    """The structure of a tuple of trees with these structures.

    Example:
        >>> leaf = tree_structure(0)
        >>> treedef_tuple([leaf, leaf]) == tree_structure((1, 2))
        True
    """
    with section():
        return optree.treespec_tuple(treedefs, namespace=tree.NAMESPACE)
