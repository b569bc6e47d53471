"""Collectives along several named axes as exchanges along one axis each, and their arguments.

An exchange works on the first axis of a value (see `trace.sharding`); here axes are split, moved
there and back, and joined again::

    all_to_all(x:f32[6,4], split 1, concat 0, tiled) over 2 devices
      x -> [6,2,2] -> [2,6,2] -> exchange -> [2,6,2] -> [12,2]

A collective over names (i, j) of sizes m and n is one over an axis of m * n devices, of which
(i, j) has number ``i * n + j``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tfn import tree
from tfn._support.validate import integers, several, shown
from tfn.array import Array
from tfn.dtypes import BOOL, INT32
from tfn.eager.operands import apply, array_of
from tfn.errors import ArgumentError, AxisNameError, ShapeError
from tfn.trace.build import broadcast_to, cast, eq, moveaxis, reshape, where, zeros
from tfn.trace.op import Op, Shape
from tfn.trace.sharding import Collective, Exchange, Groups
from tfn.trace.uop import UOp, const
from tfn.transforms.shard import axes as named_axes
from tfn.transforms.shard.axes import NamedAxis

Pairs = tuple[tuple[int, int], ...]
"""Sources and destinations."""
Collectives = tuple[Collective, ...]


# Arguments.


def named(what: str, axis_name: object) -> list[NamedAxis]:
    """The axes of one or several names, the major one first.

    Raises:
        AxisNameError: for a name that no axis has, or the same twice.
    """
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    axes = [named_axes.find(what, name) for name in names]
    if len({id(a) for a in axes}) < len(axes):
        raise AxisNameError(
            f"{what} over the same named axis twice",
            got=f"axis_name={shown(axis_name)}",
            hint="name each axis once",
        )
    return axes


def checked_groups(what: str, axes: Sequence[NamedAxis], groups: object) -> Groups | None:
    """Groups of devices that exchange among themselves alone.

    Raises:
        ArgumentError: unless they divide the indices of one axis into groups of one size.
    """
    if groups is None:
        return None
    if len(axes) != 1:
        raise ArgumentError(
            f"{what} takes axis_index_groups over one axis",
            got=f"{len(axes)} names: {', '.join(repr(a.axis.name) for a in axes)}",
            hint="name one axis, or exchange along the whole of each axis",
        )
    axis = axes[0].axis
    listed = tuple(
        integers(what, f"axis_index_groups[{i}]", group)
        for i, group in enumerate(several(what, "axis_index_groups", groups, "groups"))
    )
    if sorted(n for group in listed for n in group) != list(range(axis.size)):
        raise ArgumentError(
            f"{what} needs axis_index_groups that have each index of {axis.name!r} once",
            got=f"axis_index_groups={shown(groups)}",
            hint=f"the indices go from 0 to {axis.size - 1}",
        )
    if len({len(group) for group in listed}) > 1:
        raise ArgumentError(
            f"{what} needs axis_index_groups of one size",
            got=f"axis_index_groups={shown(groups)}",
            hint="all devices run one program, in which a shape is the same for all of them",
        )
    return listed or None


def count(axes: Sequence[NamedAxis], groups: Groups | None = None) -> int:
    """The number of devices that exchange with each other."""
    return prod([a.axis.size for a in axes]) if groups is None else len(groups[0])


def spelled(axes: Sequence[NamedAxis]) -> str:
    """Names and sizes for messages: ``'i' of size 4``."""
    return " and ".join(f"{a.axis.name!r} of size {a.axis.size}" for a in axes)


def check_index(what: str, index: int, axes: Sequence[NamedAxis], got: str) -> None:
    """Checks an index along the axes.

    Raises:
        ArgumentError: for one that they do not have.
    """
    if not 0 <= index < count(axes):
        raise ArgumentError(
            f"{what} got an index that the named axis does not have",
            got=f"{got}, over {spelled(axes)}",
            hint=f"indices go from 0 to {count(axes) - 1}",
        )


def permutation(what: str, perm: object, axes: Sequence[NamedAxis]) -> Pairs:
    """Pairs of a source and a destination.

    Raises:
        ArgumentError: for indices that the axes do not have, for two pairs with one source or one
            destination, and for what is no list of pairs.
    """
    pairs: list[tuple[int, int]] = []
    for i, pair in enumerate(several(what, "perm", perm, "pairs")):
        if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise ArgumentError(
                f"{what} needs pairs of a source and a destination",
                got=f"perm[{i}]={shown(pair)}",
                hint="write perm=[(0, 1), (1, 0)]; pshuffle takes the source of each index",
            )
        begin, to = integers(what, f"perm[{i}]", pair)
        pairs.append((begin, to))
        for end in (begin, to):
            check_index(what, end, axes, f"perm[{i}]={(begin, to)}")
    for word, ends in zip(("source", "destination"), zip(*pairs)):
        twice = sorted({n for n in ends if ends.count(n) > 1})
        if twice:
            raise ArgumentError(
                f"{what} needs each index at most once as a {word}",
                got=f"{word} {twice[0]} twice in perm={shown(perm)}",
                hint="all_gather and pbroadcast give a value to several devices"
                if word == "source"
                else "add the results of several calls, each with some of the pairs",
            )
    return tuple(pairs)


def splits(what: str, argument: str, axis: int, shape: Shape, n: int, tiled: bool) -> None:
    """Checks that an axis can be divided among n devices.

    Raises:
        ShapeError: naming the axis and the sizes.
    """
    size = shape[axis]
    if tiled and n and size % n:
        raise ShapeError(
            f"{what} cannot divide an axis of size {size} among {n} devices",
            got=f"{argument}={axis} of shape {shape}",
            hint=f"pad the axis to a multiple of {n}",
        )
    if not tiled and size != n:
        raise ShapeError(
            f"{what} needs an axis with one element for each of {n} devices",
            got=f"{argument}={axis} of shape {shape}",
            hint=f"choose an axis of size {n}, or make one by reshape"
            + (", or pass tiled=True to divide this one" if n and size % n == 0 else ""),
        )


# Graphs of one array.


def of_each(
    what: str, x: Any, axes: Sequence[NamedAxis], body: Callable[..., UOp], *static: Any
) -> Any:
    """``body(x, indices, *static)`` of each array of a tree."""
    indices = [a.index for a in axes]

    def one(leaf: object) -> Array:
        value = array_of(what, leaf)
        return apply(_with_indices, [value, *indices], body, *static, weak=value.weak_type)

    return tree.map(one, x)


def _with_indices(*operands_and_static: Any) -> UOp:
    nodes = [x for x in operands_and_static if isinstance(x, UOp)]
    body, *static = operands_and_static[len(nodes) :]
    return body(nodes[0], nodes[1:], *static)  # type: ignore[no-any-return]


def collectives(
    kind: Exchange, axes: Sequence[NamedAxis], groups: Groups | None = None, **options: Any
) -> Collectives:
    """One exchange along each axis."""
    return tuple(Collective(kind, a.axis, groups=groups, **options) for a in axes)


def exchange(x: UOp, index: UOp, arg: Collective) -> UOp:
    """The node of an exchange along one axis."""
    return UOp(Op.COLLECTIVE, (x, index), arg)


def one_by_one(x: UOp, indices: Sequence[UOp], args: Collectives) -> UOp:
    """Exchanges that keep the shape, along one axis after the other."""
    for index, arg in zip(indices, args, strict=True):
        x = exchange(x, index, arg)
    return x


def number(indices: Sequence[UOp], args: Collectives) -> UOp:
    """The number of the device along all axes: i32[]."""
    out = const(0, INT32)
    for index, arg in zip(indices, args, strict=True):
        out = index if arg is args[0] else out * arg.axis.size + index
    return out


def from_source(x: UOp, indices: Sequence[UOp], args: Collectives, source: int) -> UOp:
    """The value of one device for all: the sum of it and of zeros elsewhere."""
    wide = cast(x, INT32) if x.dtype == BOOL else x
    here = broadcast_to(eq(number(indices, args), const(source, INT32)), x.shape)
    total = one_by_one(where(here, wide, zeros(x.shape, wide.dtype)), indices, args)
    return cast(total, x.dtype)


def gathered(x: UOp, indices: Sequence[UOp], args: Collectives, axis: int, tiled: bool) -> UOp:
    """Values of all devices along a new axis, or after each other along one that exists."""
    shape, n = x.shape, prod([arg.count for arg in args])
    for index, arg in reversed(list(zip(indices, args, strict=True))):
        x = exchange(x, index, arg)
    x = moveaxis(reshape(x, (n, *shape)), 0, axis)
    return reshape(x, (*shape[:axis], n * shape[axis], *shape[axis + 1 :])) if tiled else x


def scattered(x: UOp, indices: Sequence[UOp], args: Collectives, axis: int, tiled: bool) -> UOp:
    """The sum of the values of all devices, divided among them along an axis."""
    return one_by_one(_divided(x, [arg.count for arg in args], axis, tiled), indices, args)


def _divided(x: UOp, counts: Sequence[int], axis: int, tiled: bool) -> UOp:
    """An axis split into one part for each device; first the axes of the devices."""
    before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    n = prod(counts)
    part = (size // n,) if tiled else ()
    x = moveaxis(reshape(x, (*before, n, *part, *after)), axis, 0)
    return reshape(x, (*counts, *before, *part, *after))


def transposed(
    x: UOp, indices: Sequence[UOp], args: Collectives, split: int, concat: int, tiled: bool
) -> UOp:
    """Part i of the value of device j becomes part j of that of device i."""
    counts = [arg.count for arg in args]
    x = _divided(x, counts, split, tiled)
    shape = x.shape[len(counts) :]
    for at, (index, arg) in enumerate(zip(indices, args, strict=True)):
        x = moveaxis(exchange(moveaxis(x, at, 0), index, arg), 0, at)
    x = moveaxis(reshape(x, (prod(counts), *shape)), 0, concat)
    if not tiled:
        return x
    return reshape(x, (*shape[:concat], prod(counts) * shape[concat], *shape[concat + 1 :]))


def permuted(x: UOp, indices: Sequence[UOp], args: Collectives, pairs: Pairs) -> UOp:
    """The value of the source of each device, zeros where there is none.

    Along several axes the pairs are divided by the exchange that they need along the first axis:
    a shift of all devices by one, which is a carry along the first axis for the last ones of the
    second, is two exchanges along the second axis.
    """
    (index, *later), (arg, *rest) = indices, args
    if not rest:
        axis = arg.axis
        alone = all(a == b for a, b in pairs) and len(pairs) == axis.size
        arg = Collective(Exchange.PERMUTE, axis, pairs=tuple(sorted(pairs)))
        return x if alone else exchange(x, index, arg)
    n = prod([arg.axis.size for arg in rest])
    first_of: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for begin, to in pairs:
        first_of.setdefault((begin % n, to % n), []).append((begin // n, to // n))
    classes: dict[Pairs, list[tuple[int, int]]] = {}
    for pair, first in first_of.items():
        classes.setdefault(tuple(sorted(first)), []).append(pair)
    out = zeros(x.shape, x.dtype)
    here = number(indices, args)
    for first_pairs, rest_pairs in classes.items():
        y = permuted(x, [index], (arg,), first_pairs)
        y = permuted(y, later, tuple(rest), tuple(rest_pairs))
        if len(classes) == 1:
            return y
        arrives = const(False, BOOL)
        for _, i in first_pairs:
            for _, j in rest_pairs:
                arrives = arrives | eq(here, const(i * n + j, INT32))
        out = where(broadcast_to(arrives, x.shape), y, out)
    return out
