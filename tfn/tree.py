"""Nested containers, flattened and rebuilt: pytrees with JAX's conventions, on optree.

None is an empty node, dict keys are sorted, tuples, lists, namedtuples, OrderedDict, defaultdict
and deque are nodes; other classes become nodes by registration.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import optree

from tfn.errors import TreeError

C = TypeVar("C", bound=type)
Structure = optree.PyTreeSpec
NAMESPACE = "tfn"
_IsLeaf = Callable[[Any], bool] | None


def flatten(tree: Any, is_leaf: _IsLeaf = None) -> tuple[list[Any], Structure]:
    """The leaves in order, and the structure that rebuilds the tree from them.

    Example:
        >>> flatten({"b": 1, "a": (2, None)})[0]
        [2, 1]
    """
    return optree.tree_flatten(tree, is_leaf=is_leaf, namespace=NAMESPACE)


def unflatten(structure: Structure, values: Iterable[Any]) -> Any:
    """The tree of a structure with these leaves."""
    return optree.tree_unflatten(structure, values)


def leaves(tree: Any, is_leaf: _IsLeaf = None) -> list[Any]:
    """The leaves in order."""
    return optree.tree_leaves(tree, is_leaf=is_leaf, namespace=NAMESPACE)


def structure(tree: Any, is_leaf: _IsLeaf = None) -> Structure:
    """The structure without the leaves."""
    return optree.tree_structure(tree, is_leaf=is_leaf, namespace=NAMESPACE)


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: _IsLeaf = None) -> Any:
    """A tree of ``f(leaf, *leaves at the same place of the others)``.

    Raises:
        TreeError: if a structure of `rest` does not begin like that of `tree`.

    Example:
        >>> map(lambda x, y: x + y, {"a": 1}, {"a": 2})
        {'a': 3}
    """
    try:
        return optree.tree_map(f, tree, *rest, is_leaf=is_leaf, namespace=NAMESPACE)
    except ValueError as error:
        first = structure(tree, is_leaf)
        for other in rest:
            if structure(other, is_leaf) != first:
                raise TreeError("tree.map needs trees of one structure",
                                got=f"{show(first)} and {show(structure(other, is_leaf))}",
                                hint=str(error)) from None  # fmt: skip
        raise


def reduce(f: Callable[[Any, Any], Any], tree: Any, *initial: Any) -> Any:
    """The leaves folded from the left."""
    return functools.reduce(f, leaves(tree), *initial)


def all(tree: Any) -> bool:
    """Whether every leaf is true."""
    import builtins

    return builtins.all(leaves(tree))


def transpose(outer: Structure, inner: Structure, tree: Any) -> Any:
    """A tree of structure `outer` with trees `inner` as leaves, turned inside out."""
    return optree.tree_transpose(outer, inner, tree)


def paths(tree: Any, is_leaf: _IsLeaf = None) -> list[str]:
    """How a user would write each leaf: ``['w'][0]``; empty for a tree that is a leaf."""
    accessors = optree.tree_accessors(tree, is_leaf=is_leaf, namespace=NAMESPACE)
    return [a.codify("") for a in accessors]


def show(spec: Structure) -> str:
    """A structure as messages print it: ``{'a': *, 'b': (*, *)}``."""
    text = str(spec)
    inside = text[text.index("(") + 1 : -1]
    return inside.removesuffix(f", namespace={NAMESPACE!r}")


def broadcast_prefix(prefix: Any, tree: Any, is_leaf: _IsLeaf = None) -> list[Any]:
    """One value of `prefix` per leaf of `tree`.

    Raises:
        TreeError: if `prefix` is not a prefix of the tree.
    """
    try:
        return optree.broadcast_prefix(prefix, tree, is_leaf=is_leaf, namespace=NAMESPACE)
    except ValueError as error:
        raise TreeError(
            "a prefix does not fit the tree it stands for",
            got=f"{prefix!r} for {show(structure(tree))}",
            hint=str(error),
        ) from None


def register_node(cls: C, flatten: Callable[[Any], tuple[Iterable[Any], Any]],
                  unflatten: Callable[[Any, Sequence[Any]], Any]) -> C:  # fmt: skip
    """Make a class a node: `flatten(x)` gives (children, static), `unflatten(static, children)`."""
    optree.register_pytree_node(
        cls, flatten, lambda static, children: unflatten(static, children), namespace=NAMESPACE
    )
    return cls


def register_node_class(cls: C) -> C:
    """Make a class with ``tree_flatten`` and ``tree_unflatten`` (a classmethod) a node."""
    return register_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)  # type: ignore[attr-defined]


def register_dataclass(cls: C, data_fields: Sequence[str] | None = None,
                       meta_fields: Sequence[str] = ()) -> C:  # fmt: skip
    """Make a dataclass a node: data fields are children, meta fields belong to the structure.

    Without `data_fields`, a field is meta if its metadata say ``static=True``, else data.
    """
    if data_fields is None:
        meta_fields = [f.name for f in fields(cls) if f.metadata.get("static", False)]
        data_fields = [f.name for f in fields(cls) if f.name not in meta_fields]
    data, meta = tuple(data_fields), tuple(meta_fields)

    def take(x: Any) -> tuple[tuple[Any, ...], Any]:
        return tuple(getattr(x, n) for n in data), tuple(getattr(x, n) for n in meta)

    def make(static: Any, children: Iterable[Any]) -> Any:
        x = object.__new__(cls)
        for n, v in (*zip(data, children), *zip(meta, static)):
            object.__setattr__(x, n, v)
        return x

    optree.register_pytree_node(
        cls, lambda x: (*take(x), data), make, path_entry_type=optree.GetAttrEntry,
        namespace=NAMESPACE,
    )  # fmt: skip
    return cls
