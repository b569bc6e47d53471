"""Declarations of buckets: which axes have sizes of their own, and to what they are rounded up.

    Buckets({"tokens": "batch time"}, sizes={"batch": (1, 4, 16), "time": 1.5})

A text names the axes of an array, as jaxtyping does: a name for a size of its own, the same in all
arrays, `_` or a number for an axis that is left as it is, `...` for all that follow.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from tfn import tree
from tfn.errors import ArgumentError, AxisError, ShapeError
from tfn.extend import Shape, ShapeDtypeStruct, frozen, shown

LEAST = 8
"""The smallest bucket where only a growth factor is given: smaller ones save little."""
_HINT = 'name the axes of arrays, as in buckets={"x": "batch _"}'


@frozen
class Buckets:
    """Sizes of axes that are rounded up, so that one program serves many sizes.

    Attributes:
        axes: the names of axes: a dict from names of arguments, or a tuple of positional ones.  A
            text is for all arrays of an argument, or stands in a tree that begins like it, as does
            a type with symbolic sizes; None is for arrays that are left as they are.
        sizes: what sizes are rounded up to: a tuple of sizes, or the factor by which they grow from
            8; a dict by the names of axes for several.
        constraints: what is true of all sizes, as "batch % 8 == 0".

    Example:
        >>> Buckets({"x": "batch _"}, sizes=(16, 64, 256)).rounded("batch", 17)
        64
    """

    axes: Any
    sizes: Any = 2.0
    constraints: str | Sequence[str] = ()

    def of(self, name: str) -> float | tuple[int, ...]:
        """The sizes, or the factor, of one axis.

        Raises:
            ArgumentError: for what is neither.
        """
        chosen = self.sizes
        if isinstance(chosen, Mapping):
            chosen = chosen.get(name, 2.0)
        if isinstance(chosen, (int, float)) and not isinstance(chosen, bool) and chosen > 1:
            return float(chosen)
        listed = tuple(chosen) if isinstance(chosen, (tuple, list, range)) else ()
        if not listed or not all(type(n) is int and n > 0 for n in listed):
            raise ArgumentError(
                "buckets are positive integers, or a factor above 1 by which they grow",
                got=shown(chosen),
                hint="sizes=(16, 64, 256), or sizes=2.0 for powers of two",
            )
        return tuple(sorted(set(listed)))

    def rounded(self, name: str, size: int) -> int:
        """The smallest bucket that holds a size.

        Raises:
            ShapeError: if none does.
        """
        chosen = self.of(name)
        if isinstance(chosen, tuple):
            for bucket in chosen:
                if bucket >= size:
                    return bucket
            raise ShapeError(
                f"the size {name} is above all buckets",
                got=f"{name} = {size}, and the largest bucket is {chosen[-1]}",
                hint="declare a larger bucket, or a factor in place of sizes",
            )
        bucket = LEAST
        while bucket < size:
            bucket = ceil(bucket * chosen)
        return bucket

    def below(self, name: str, bucket: int) -> int:
        """The bucket below another one; 0 below the smallest."""
        chosen = self.of(name)
        if isinstance(chosen, tuple):
            return max((n for n in chosen if n < bucket), default=0)
        before, own = 0, LEAST
        while own < bucket:
            before, own = own, ceil(own * chosen)
        return before


Axis = tuple[int, int, str]
"""The number of a leaf, one of its axes, and the name of its size."""


def parsed(text: str) -> list[str]:
    """The names of axes in a text.

    Raises:
        ArgumentError: for a text that is no list of axes.
    """
    words = text.replace(",", " ").split()
    for i, word in enumerate(words):
        last = word == "..." and i == len(words) - 1
        if not (word.isidentifier() or word.isdigit() or last):
            raise ArgumentError("this does not name an axis", got=repr(word), hint=_HINT)
    return words


def axes_of(buckets: Buckets, function: Any, split: Any, leaves: list[Any]) -> list[Axis]:
    """The axes of the leaves of arguments that have sizes of their own.

    Raises:
        ArgumentError: for a declaration of arguments that the function does not have.
        AxisError: naming an array that has fewer or more axes than are declared.
        TreeError: for a declaration that is no beginning of the tree of an argument.
    """
    listed, (args, kwargs) = buckets.axes, split.dynamic
    places = split.positions or range(len(args))
    if isinstance(listed, Mapping):
        names, any_name = _parameters(function)
        unknown = [n for n in listed if n not in (*names, *kwargs)]
        if unknown and not any_name:
            raise ArgumentError(
                "buckets are declared of an argument that the function does not have",
                got=", ".join(map(repr, unknown)),
                hint=f"it takes {', '.join(map(repr, names)) or 'nothing'}",
            )
        declared = [listed.get(names[i]) if i < len(names) else None for i in places]
        declared += [listed.get(name) for name in sorted(kwargs)]
    else:
        by_place = [*listed] if isinstance(listed, (tuple, list)) else [listed] * len(args)
        if len(by_place) > max(places, default=-1) + 1:
            raise ArgumentError(
                "buckets are declared of more arguments than there are",
                got=f"{len(by_place)} declarations, {len(args)} positional arguments",
                hint='pass them by position, or declare them by name, as {"x": "batch _"}',
            )
        declared = [by_place[i] if i < len(by_place) else None for i in places]
        declared += [None] * len(kwargs)
    is_leaf = lambda x: x is None or isinstance(x, (str, ShapeDtypeStruct))
    texts = []
    values = [*args, *(kwargs[name] for name in sorted(kwargs))]
    for one, value in zip(declared, values, strict=True):
        texts += tree.broadcast_prefix(one, value, is_leaf=is_leaf)
    found: list[Axis] = []
    for i, (text, leaf) in enumerate(zip(texts, leaves, strict=True)):
        if text is None:
            continue
        if isinstance(text, ShapeDtypeStruct):
            text = " ".join(map(str, text.shape))
        if not isinstance(text, str):
            raise ArgumentError("axes are named by a text", got=shown(text), hint=_HINT)
        found += _axes(i, text, getattr(leaf, "shape", ()))
    if not found:
        raise ArgumentError("buckets name no axis of an array", got=shown(listed), hint=_HINT)
    return found


def _axes(leaf: int, text: str, shape: Shape) -> list[Axis]:
    words = parsed(text)
    rest = words[-1:] == ["..."]
    words = words[:-1] if rest else words
    if len(shape) < len(words) or (len(shape) > len(words) and not rest):
        raise AxisError(
            "buckets are declared of another number of axes",
            got=f"{text!r} of an array of shape {shape}",
            hint="name each axis; `_` is one that is left as it is, `...` all that follow",
        )
    return [
        (leaf, axis, word) for axis, word in enumerate(words) if word != "_" and not word.isdigit()
    ]


def _parameters(function: Any) -> tuple[list[str], bool]:
    """The names of the parameters of a function, and whether it takes any others."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [], True
    various = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    named = [p.name for p in parameters if p.kind not in various]
    return named, any(p.kind is various[1] for p in parameters)


def sizes_of(axes: Sequence[Axis], shapes: Sequence[Shape], names: Sequence[str]) -> dict[str, int]:
    """The size of each name.

    Raises:
        ShapeError: if two arrays have different sizes of one name.
    """
    sizes: dict[str, int] = {}
    first: dict[str, Axis] = {}
    for leaf, axis, name in axes:
        size = shapes[leaf][axis]
        if sizes.setdefault(name, size) != size:
            where = first[name]
            raise ShapeError(
                f"the size {name} is declared of two axes that differ",
                got=f"{names[where[0]]} has {sizes[name]} along axis {where[1]}, "
                f"{names[leaf]} has {size} along axis {axis}",
                hint="give axes of different sizes different names",
            )
        first.setdefault(name, (leaf, axis, name))
    return sizes
