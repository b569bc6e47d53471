"""Associative operations on many elements: all prefixes, or one result."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tfn import tree
from tfn._support.validate import a_function
from tfn.array import Array, Axes
from tfn.eager.operands import one_axis, some_axes
from tfn.errors import ArgumentError, ShapeError, TreeError
from tfn.lax.closed_functions import values
from tfn.lax.dynamic_indexing import optimization_barrier
from tfn.lax.elementwise import convert_element_type
from tfn.lax.loops import scan
from tfn.lax.movement import (
    broadcast,
    concatenate,
    expand_dims,
    moveaxis,
    reshape,
    rev,
    slice_in_dim,
    transpose,
)
from tfn.lax.operand import show
from tfn.transforms.vmap import vmap

_ALIKE = "return the containers, shapes and dtypes of one of the two arguments"


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Returns all prefixes ``e0, fn(e0, e1), fn(fn(e0, e1), e2), ...`` of an associative function.

    The function is applied to elements in another grouping than from left to right, so that many of
    them run at once.

    Args:
        fn: an associative function of two trees like `elems`; it is called with many elements at
            once, stacked along `axis`, and must treat each pair of them independently.
        elems: a tree of arrays of one size along `axis`, which may be 0 or 1.
        reverse: begin with the last element: ``..., fn(fn(e9, e8), e7), fn(e9, e8), e9``.
        axis: the axis of every array along which the elements follow each other; negative axes
            count from the end of each.

    Returns:
        A tree like `elems`, of the same shapes and dtypes.

    Raises:
        ArgumentError: if there are no arrays, or `fn` is not a function, or does not return arrays
            of the types that it takes.
        ShapeError: if sizes differ, naming each array.
        TreeError: if `fn` returns another structure.

    Source: Blelloch 1990, "Prefix sums and their applications".

    Example:
        >>> import tfn.numpy as tnp
        >>> associative_scan(tnp.maximum, tnp.array([1, 3, 2, 5])).tolist()
        [1, 3, 3, 5]
    """
    a_function("associative_scan", "fn", fn)
    arrays, names, structure = values("elems", elems)
    if not arrays:
        raise ArgumentError(
            "associative_scan needs an array to go along",
            got=f"elems={elems!r}",
            hint="pass at least one",
        )
    axes = [one_axis("associative_scan", axis, x.ndim) for x in arrays]
    if len({x.shape[a] for x, a in zip(arrays, axes)}) > 1:
        raise ShapeError(
            f"associative_scan needs arrays of one size along axis {axis}",
            got=", ".join(f"{n}: {show(x)}" for n, x in zip(names, arrays)),
            hint="broadcast or pad the shorter ones",
        )

    def combine(left: list[Array], right: list[Array]) -> list[Array]:
        both = [tree.unflatten(structure, part) for part in (left, right)]
        out, _, found = values("the result", fn(*both))
        if found != structure:
            raise TreeError(
                "the function of associative_scan must return what it takes",
                got=f"{tree.show(found)} for {tree.show(structure)}",
                hint=_ALIKE,
            )
        for x, y in zip(left, out):
            if (x.shape, x.dtype) != (y.shape, y.dtype):
                raise ArgumentError(
                    "the function of associative_scan must return what it takes",
                    got=f"{show(y)} for {show(x)}",
                    hint=_ALIKE,
                )
        return out

    start = [rev(x, (a,)) for x, a in zip(arrays, axes)] if reverse else arrays
    found = _prefixes(combine, start, axes)
    back = [rev(x, (a,)) for x, a in zip(found, axes)] if reverse else found
    return tree.unflatten(structure, back)


_Combine = Callable[[list[Array], list[Array]], list[Array]]

FEW = 64
"""Fewer elements than these, beside each other, do not hide latencies."""

SIDE_BY_SIDE = 512
"""There are blocks then, for about so many."""

LENGTH = 32
"""Blocks are at least so long, since what comes before each has to be found first."""


def _prefixes(combine: _Combine, xs: list[Array], axes: list[int]) -> list[Array]:
    """One element after the other; in blocks side by side, once it is known what comes before each.

    Before -> after, on sums::

        1 2 3 4 5 6 7  ->  1 2 3 | 4 5 6 | 7       two blocks, and a rest
                       ->  6, 15  ->  6, 21        their totals, and the prefixes of these
                       ->  1, 6 + 4                how each block begins
                       ->  1 3 6 | 10 15 21 | 28   each goes on from there, and the rest
    """
    n = xs[0].shape[axes[0]]
    if n < 2:
        return xs
    blocks = _blocks(n, max(prod(x.shape) for x in xs) // n)
    whole = n - n % blocks

    def part(values: list[Array], start: int, stop: int) -> list[Array]:
        return [slice_in_dim(x, start, stop, 1, a) for x, a in zip(values, axes)]

    lines = [_lines(x, blocks, a) for x, a in zip(part(xs, 0, whole), axes)]
    begin = [reshape(slice_in_dim(x, 0, 1), x.shape[1:]) for x in lines]
    later = [slice_in_dim(x, 1, len(x)) for x in lines]
    if blocks > 1:
        totals, _ = _go_on(combine, begin, later)
        before = part(_prefixes(combine, totals, axes), 0, blocks - 1)
        others = combine(before, part(begin, 1, blocks))
        begin = [concatenate([x, y], a) for x, y, a in zip(part(begin, 0, 1), others, axes)]
    last, found = _go_on(combine, begin, later)
    found = [concatenate([expand_dims(x, (0,)), y], 0) for x, y in zip(begin, found)]
    out = [_joined(y, a) for y, a in zip(optimization_barrier(found), axes)]
    if whole < n:
        rest = [_lines(x, 1, a) for x, a in zip(part(xs, whole, n), axes)]
        _, found = _go_on(combine, part(last, blocks - 1, blocks), rest)
        out = [concatenate([x, _joined(y, a)], a) for x, y, a in zip(out, found, axes)]
    return out


def _blocks(n: int, width: int) -> int:
    """How many there are of n elements, each `width` numbers: without a rest, if that is close."""
    wanted = min(SIDE_BY_SIDE // max(width, 1), n // LENGTH)
    if width >= FEW or wanted < 2:
        return 1
    return next((b for b in range(wanted, wanted // 2, -1) if n % b == 0), wanted)


def _go_on(
    combine: _Combine, carry: list[Array], lines: list[Array]
) -> tuple[list[Array], list[Array]]:
    """The last prefix, and all of them, which go on from a carry line by line."""

    def step(before: list[Array], x: list[Array]) -> tuple[list[Array], list[Array]]:
        out = combine(before, x)
        return out, out

    last, found = scan(step, carry, lines)
    return last, found


def _lines(x: Array, blocks: int, axis: int) -> Array:
    """What is done one after the other as the first axis: of each block one element."""
    length = x.shape[axis] // blocks
    parts = reshape(x, (*x.shape[:axis], blocks, length, *x.shape[axis + 1 :]))
    return moveaxis(parts, axis + 1, 0)


def _joined(lines: Array, axis: int) -> Array:
    """Elements where they were before they became lines."""
    length, *shape = lines.shape
    parts = moveaxis(lines, 0, axis + 1)
    return reshape(parts, (*shape[:axis], length * shape[axis], *shape[axis + 1 :]))


def reduce_pairs(fn: Callable[[Any, Any], Any], operands: Any, init: Any, axes: Axes) -> Any:
    """An associative function of two elements over axes: neighbours first, then their results.

    Raises:
        ShapeError: if the arrays have several shapes.
        TreeError: if `init`, or what `fn` returns, has another structure than the operands.
    """
    a_function("reduce", "computation", fn)
    arrays, names, structure = values("operands", operands)
    first, _, found = values("init_values", init)
    if found != structure:
        raise TreeError(
            "reduce needs one initial value for each operand",
            got=f"{tree.show(found)} for {tree.show(structure)}",
            hint="write init_values as the operands, with a number for each",
        )
    if len({x.shape for x in arrays}) > 1:
        raise ShapeError(
            "reduce needs operands of one shape",
            got=", ".join(f"{n}: {show(x)}" for n, x in zip(names, arrays)),
            hint="broadcast them first",
        )
    ndim = arrays[0].ndim
    gone = some_axes("reduce", axes, ndim)
    kept = [axis for axis in range(ndim) if axis not in gone]
    shape = tuple(arrays[0].shape[axis] for axis in kept)
    size = prod(arrays[0].shape[axis] for axis in gone)
    lines = [reshape(transpose(x, (*gone, *kept)), (size, *shape)) for x in arrays]

    def combine(left: list[Array], right: list[Array]) -> list[Array]:
        """The function on each pair of elements."""
        flat = [
            tree.unflatten(structure, [reshape(x, (prod(x.shape),)) for x in side])
            for side in (left, right)
        ]
        out, _, given = values("the result", vmap(fn)(*flat))
        if given != structure:
            raise TreeError(
                "the function of reduce must return what it takes",
                got=f"{tree.show(given)} for {tree.show(structure)}",
                hint=_ALIKE,
            )
        return [reshape(y, x.shape) for y, x in zip(out, left)]

    while size > 1:
        half = size // 2
        pairs = [[slice_in_dim(x, start, 2 * half, 2, 0) for x in lines] for start in (0, 1)]
        made = combine(*pairs)
        if size % 2:
            last = [slice_in_dim(x, size - 1, size, 1, 0) for x in lines]
            made = [concatenate([x, y], 0) for x, y in zip(made, last)]
        lines, size = made, size - half
    begin = [broadcast(convert_element_type(v, x.dtype), (1, *shape)) for v, x in zip(first, lines)]
    total = combine(begin, lines) if size else begin
    return tree.unflatten(structure, [reshape(x, shape) for x in total])
