"""Modules: frozen dataclasses that are pytrees, and functions of trees of parameters.

A module's arrays and submodules are its leaves and branches; fields marked `static` belong to the
structure.  So a module goes through `jit`, `grad` and `vmap` as it is, its gradient is a module of
the same structure, and to change one is to make another.  A module is final: what modules have in
common is written as a Protocol, never as a base class.

Source: Kidger, Garcia 2021, "Equinox: neural networks in JAX via callable PyTrees and filtered
transformations", arXiv:2111.00254.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from math import prod
from threading import local
from typing import Any, NoReturn, TypeVar, dataclass_transform

from tfn import numpy as jnp
from tfn import tree
from tfn._support.validate import integer, shown
from tfn.array import Array
from tfn.dtypes import SHORT
from tfn.errors import ArgumentError
from tfn.scopes import named_scope, recorded

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])
Filter = Any
"""A selection of leaves: a predicate of a leaf, or a tree of predicates and booleans, each for
whatever is below it."""


def static(*, compared: bool = True, **options: Any) -> Any:
    """Declares a field of a module that is no parameter: hashable, and part of the structure.

    Args:
        compared: whether a saved tree is refused by a template that has another value; not for
            fields of training, or of the devices, on which predictions do not depend.
        options: as of ``dataclasses.field``.

    Example:
        >>> @module
        ... class Power:
        ...     exponent: int = static(default=2)
        >>> tree.leaves(Power())
        []
    """
    return field(metadata={"static": True, "compared": compared}, **options)


@dataclass_transform(frozen_default=True, field_specifiers=(static, field))
def module(cls: C) -> C:
    """Makes a class with annotated fields a module: a frozen dataclass, and a node of pytrees.

    Raises:
        ArgumentError: for anything but a class; later, if the module is subclassed.

    Example:
        >>> @module
        ... class Scale:
        ...     factor: Array
        ...     power: int = static(default=1)
        >>> Scale(jnp.ones((2, 3)))
        Scale(factor=f32[2,3], power=1)
        >>> tree.map(lambda x: x + 1, Scale(jnp.ones(()), power=2))
        Scale(factor=f32[], power=2)
    """
    if not isinstance(cls, type):
        raise ArgumentError(
            "nn.module needs a class", got=shown(cls), hint="write @nn.module above a class"
        )
    if "__call__" in vars(cls):
        cls.__call__ = _scoped(vars(cls)["__call__"])
    node: Any = tree.register_dataclass(dataclass(frozen=True, eq=False, repr=False)(cls))
    node.__repr__ = _show
    node.__init_subclass__ = classmethod(_refuse)
    final: C = node
    return final


_RUNNING = local()
"""The modules whose calls run in a thread, the innermost last."""


def _scoped(call: Callable[..., Any]) -> Callable[..., Any]:
    """A call of a module as a scope, under the name of its field in the module that calls it."""

    @wraps(call)
    def scoped(self: Any, *args: object, **kwargs: object) -> Any:
        if not recorded():
            return call(self, *args, **kwargs)
        running: list[Any] = _RUNNING.__dict__.setdefault("modules", [])
        names = dict(_children(running[-1])) if running else {}
        running.append(self)
        try:
            with named_scope(names.get(id(self), type(self).__name__)):
                return call(self, *args, **kwargs)
        finally:
            running.pop()

    return scoped


def _children(parent: Any) -> Iterator[tuple[int, str]]:
    """The identity and name of each module in the fields of a module, and in their containers."""
    waiting = [(f.name, getattr(parent, f.name)) for f in fields(parent)]
    for name, value in waiting:
        yield id(value), name
        if isinstance(value, (tuple, list)):
            waiting += [(f"{name}[{i}]", x) for i, x in enumerate(value)]
        elif isinstance(value, dict):
            waiting += [(f"{name}[{key!r}]", x) for key, x in value.items()]


def _refuse(cls: type[Any]) -> NoReturn:
    raise ArgumentError(
        "a module cannot be subclassed",
        got=f"{cls.__name__}({cls.__bases__[0].__name__})",
        hint="give the new module a field that holds the other one",
    )


def _show(self: Any) -> str:
    inside = ", ".join(f"{f.name}={_text(getattr(self, f.name))}" for f in fields(self))
    return f"{type(self).__name__}({inside})"


def _text(value: object) -> str:
    """Arrays as ``f32[2,3]``; a function by its name."""
    if isinstance(value, Array):
        return f"{SHORT[value.dtype]}[{','.join(map(str, value.shape))}]"
    if isinstance(value, (tuple, list)):
        inside = ", ".join(map(_text, value))
        ends = "[]" if isinstance(value, list) else ("(", ",)" if len(value) == 1 else ")")
        return ends[0] + inside + ends[1]
    return getattr(value, "__name__", None) or repr(value)


# Which leaves.


def is_array(x: object) -> bool:
    """Whether x is an Array, concrete or traced.

    Example:
        >>> is_array(jnp.ones(2)), is_array(1.0)
        (True, False)
    """
    return isinstance(x, Array)


def is_inexact_array(x: object) -> bool:
    """Whether x is an Array of floats or complex numbers, which can have gradients.

    Example:
        >>> is_inexact_array(jnp.ones(2)), is_inexact_array(jnp.arange(2))
        (True, False)
    """
    return isinstance(x, Array) and jnp.issubdtype(x.dtype, jnp.inexact)


def filter(pytree: T, keep: Filter, *, inverse: bool = False) -> T:
    """Returns the tree with None in place of the leaves that are not selected.

    Args:
        pytree: any tree.
        keep: a predicate of a leaf, or a tree of predicates and booleans, each for whatever is
            below it.
        inverse: whether to select the other leaves instead.

    Example:
        >>> filter({"a": jnp.ones(()), "b": "text"}, is_array)
        {'a': Array(1., dtype=float32), 'b': None}
    """
    selection = tree.map(
        lambda is_kept, x: x if is_kept != inverse else None, _mask(pytree, keep), pytree
    )
    out: T = selection
    return out


def _mask(pytree: object, keep: Filter) -> Any:
    """A tree of booleans."""
    predicates = tree.broadcast(keep, pytree)
    return tree.map(
        lambda predicate, x: bool(predicate(x)) if callable(predicate) else bool(predicate),
        predicates,
        pytree,
    )


def partition(pytree: T, keep: Filter) -> tuple[T, T]:
    """Splits a tree into the selected leaves and the others, each with None in place of the rest.

    Gradients for some of the parameters only::

        trained, frozen = nn.partition(model, where)
        slopes = tfn.grad(lambda trained: loss(nn.combine(trained, frozen)))(trained)

    Example:
        >>> partition({"a": 1, "b": 2}, {"a": True, "b": False})
        ({'a': 1, 'b': None}, {'a': None, 'b': 2})
    """
    mask = _mask(pytree, keep)
    return filter(pytree, mask), filter(pytree, mask, inverse=True)


def combine(*pytrees: T) -> T:
    """Combines trees of one structure: for each position the first leaf that is not None.

    Example:
        >>> combine({"a": 1, "b": None}, {"a": None, "b": 2})
        {'a': 1, 'b': 2}
    """

    def first(*leaves: Any) -> Any:
        return next((leaf for leaf in leaves if leaf is not None), None)

    out: T = tree.map(first, *pytrees, is_leaf=lambda x: x is None)
    return out


# Another tree.


class _Place:
    """A marker in place of a leaf while `tree_at` calls `where`."""

    __slots__ = ("leaf",)

    def __init__(self, leaf: object) -> None:
        self.leaf = leaf


def tree_at(
    where: Callable[[T], Any],
    pytree: T,
    replace: object = None,
    *,
    replace_fn: Callable[[Any], Any] | None = None,
    is_leaf: Callable[[Any], bool] | None = None,
) -> T:
    """Returns the tree with some of its nodes replaced.

    Args:
        where: gives a node of the tree that it is passed, or a tuple or other tree of nodes.
        pytree: the tree to change; it stays as it is.
        replace: the new node, or a tree of as many as `where` gives.
        replace_fn: makes the new node from the old one; used instead of `replace` if given.
        is_leaf: as of `tree.map`; ``lambda x: x is None`` lets a None be replaced.

    Raises:
        ArgumentError: if `where` gives something that is not in the tree.

    Example:
        >>> tree_at(lambda t: t["a"][1], {"a": [1, 2], "b": 3}, "new")
        {'a': [1, 'new'], 'b': 3}
        >>> tree_at(lambda t: (t["a"], t["b"]), {"a": [1], "b": 2}, replace_fn=str)
        {'a': '[1]', 'b': '2'}
    """
    leaves, structure = tree.flatten(pytree, is_leaf)
    marked = tree.unflatten(structure, map(_Place, leaves))
    nodes: dict[int, Any] = {}

    def note(node: object) -> bool:
        if node is not None and node != ():  # there is only one of each, whatever its position
            nodes[id(node)] = node
        return False

    tree.leaves(marked, note)
    targets, outer = tree.flatten(where(marked), lambda x: id(x) in nodes)
    for node in targets:
        if id(node) not in nodes:
            raise ArgumentError(
                "tree_at changes nodes of the tree that its first argument gets",
                got=f"something else from where: {node!r}",
                hint="return a field or an item, as it is; for a None, give is_leaf",
            )
    if replace_fn is not None:
        values = [replace_fn(_unmarked(node)) for node in targets]
    else:
        values = tree.flatten_up_to(outer, replace)
    new = {id(node): value for node, value in zip(targets, values, strict=True)}

    def put(node: Any) -> Any:
        if id(node) in new:
            return new[id(node)]
        return node.leaf

    changed: T = tree.map(put, marked, is_leaf=lambda x: id(x) in new)
    return changed


def _unmarked(node: object) -> Any:
    return tree.map(lambda place: place.leaf, node)


def cast(pytree: T, dtype: Any) -> T:
    """Returns the tree with its arrays of floats in another dtype; other leaves stay.

    Example:
        >>> cast({"w": jnp.ones(2), "n": jnp.arange(2)}, "bfloat16")["w"].dtype.name
        'bfloat16'
    """
    out: T = tree.map(lambda x: x.astype(dtype) if is_inexact_array(x) else x, pytree)
    return out


def summary(pytree: object, *, depth: int | None = None) -> str:
    """Returns a table of the arrays in a tree: paths, shapes, dtypes, elements and bytes.

    Args:
        pytree: a module, or any tree of arrays; `ShapeDtypeStruct` will do for an array.
        depth: how many parts of a path to tell apart; arrays below are summed.  All if None.

    Raises:
        ArgumentError: for a depth below 1.

    Example:
        >>> from tfn import nn, random
        >>> print(nn.summary(nn.Linear.init(random.key(0), 3, 4)))
        path     shape   dtype    parameters  bytes
        .weight  (3, 4)  float32          12     48
        .bias    (4,)    float32           4     16
        total                             16     64
    """
    if depth is not None:
        integer("summary", "depth", depth, 1)
    groups: dict[str, list[Any]] = {}
    for path, leaf in tree.leaves_with_path(pytree):
        if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
            groups.setdefault(tree.keystr(path[:depth]) or "the array", []).append(leaf)
    rows = [
        (
            path,
            str(tuple(group[0].shape)) if len(group) == 1 else f"{len(group)} arrays",
            ", ".join(dict.fromkeys(jnp.dtype(x.dtype).name for x in group)),
            *_sizes(group),
        )
        for path, group in groups.items()
    ]
    every = [x for group in groups.values() for x in group]
    table = [
        ("path", "shape", "dtype", "parameters", "bytes"),
        *rows,
        ("total", "", "", *_sizes(every)),
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    left = 3  # columns of words
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    )


def _sizes(arrays: Sequence[Any]) -> tuple[str, str]:
    """The elements of arrays, and their bytes."""
    elements = [prod(x.shape) for x in arrays]
    whole = sum(n * jnp.dtype(x.dtype).itemsize for n, x in zip(elements, arrays, strict=True))
    return f"{sum(elements):,}", f"{whole:,}"


def parameter_count(pytree: object) -> int:
    """Returns the number of elements of all arrays in a tree.

    Example:
        >>> parameter_count({"w": jnp.ones((3, 4)), "b": jnp.ones(4)})
        16
    """
    return sum(x.size for x in tree.leaves(pytree) if is_array(x))
