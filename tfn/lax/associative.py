"""Associative operations on many elements, in a number of steps that grows like the logarithm."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tfn import tree
from tfn.array import Array, Axes
from tfn.errors import ArgumentError, ShapeError, TreeError
from tfn.lax.closed import values
from tfn.lax.elementwise import convert_element_type
from tfn.lax.movement import (
    broadcast,
    concatenate,
    expand_dims,
    reshape,
    rev,
    slice_in_dim,
    transpose,
)
from tfn.lax.operand import show
from tfn.numpy.operands import one_axis, some_axes
from tfn.transforms.vmap import vmap


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False,
                     axis: int = 0) -> Any:  # fmt: skip
    """``e0, fn(e0, e1), fn(fn(e0, e1), e2), ...`` along an axis, grouped as is fastest.

    Args:
        fn: an associative function of two trees like `elems`; it is given many elements at once,
            along `axis`, and must treat each of them alike.
        elems: a tree of arrays of one size along `axis`.
        reverse: begin with the last element: ``..., fn(fn(e9, e8), e7), fn(e9, e8), e9``.

    Raises:
        ArgumentError: if there are no arrays, or `fn` is not a function.
        ShapeError: if sizes differ, naming each array.
        TreeError: if `fn` returns another structure.

    Source: Blelloch 1990, "Prefix sums and their applications".

    Example:
        >>> import tfn.numpy as tnp
        >>> associative_scan(tnp.maximum, tnp.array([1, 3, 2, 5])).tolist()
        [1, 3, 3, 5]
    """
    if not callable(fn):
        raise ArgumentError("associative_scan needs a function", got=repr(fn)[:60])
    arrays, names, structure = values("elems", elems)
    if not arrays:
        raise ArgumentError("associative_scan needs an array to go along")
    axes = [one_axis("associative_scan", axis, x.ndim) for x in arrays]
    if len({x.shape[a] for x, a in zip(arrays, axes)}) > 1:
        raise ShapeError(f"associative_scan needs arrays of one size along axis {axis}",
                         got=", ".join(f"{n}: {show(x)}" for n, x in zip(names, arrays)),
                         )  # fmt: skip

    def combine(left: list[Array], right: list[Array]) -> list[Array]:
        both = [tree.unflatten(structure, part) for part in (left, right)]
        out, _, found = values("the result", fn(*both))
        if found != structure:
            raise TreeError("the function of associative_scan must return what it takes",
                            got=f"{tree.show(found)} for {tree.show(structure)}")  # fmt: skip
        return out

    start = [rev(x, (a,)) for x, a in zip(arrays, axes)] if reverse else arrays
    found = _prefixes(combine, start, axes)
    back = [rev(x, (a,)) for x, a in zip(found, axes)] if reverse else found
    return tree.unflatten(structure, back)


_Combine = Callable[[list[Array], list[Array]], list[Array]]


def _prefixes(combine: _Combine, xs: list[Array], axes: list[int]) -> list[Array]:
    """Combine neighbours, take the prefixes of those, and fill in the places between.

    Before -> after, on sums::

        1 2 3 4 5  ->  3 7 (neighbours)  ->  3 10 (their prefixes: places 1 and 3)
                   ->  1 3 6 10 15 (each place between: the prefix before it, and itself)
    """
    n = xs[0].shape[axes[0]]
    if n < 2:
        return xs

    def part(values: list[Array], start: int, stop: int, step: int = 1) -> list[Array]:
        return [slice_in_dim(x, start, stop, step, a) for x, a in zip(values, axes)]

    even, odd = part(xs, 0, n - n % 2, 2), part(xs, 1, n, 2)
    at_odd = _prefixes(combine, combine(even, odd), axes)
    half = n // 2
    if n > 2:
        before = part(at_odd, 0, (n - 1) // 2)
        between = combine(before, part(xs, 2, n, 2))
        at_even = [
            concatenate([first, more], a) for first, more, a in zip(part(xs, 0, 1), between, axes)
        ]
    else:
        at_even = part(xs, 0, 1)
    return [_alternate(e, o, a, half) for e, o, a in zip(at_even, at_odd, axes)]


def _alternate(even: Array, odd: Array, axis: int, half: int) -> Array:
    """Elements of two arrays in turns along an axis; the first may have one more."""
    pairs = concatenate(
        [expand_dims(slice_in_dim(even, 0, half, 1, axis), (axis + 1,)),
         expand_dims(odd, (axis + 1,))], axis + 1,
    )  # fmt: skip
    shape = (*odd.shape[:axis], 2 * half, *odd.shape[axis + 1 :])
    both = reshape(pairs, shape)
    n = even.shape[axis]
    return both if n == half else concatenate([both, slice_in_dim(even, half, n, 1, axis)], axis)


def reduce_pairs(fn: Callable[[Any, Any], Any], operands: Any, init: Any, axes: Axes) -> Any:
    """An associative function of two elements over axes: neighbours first, then their results.

    Raises:
        ShapeError: if the arrays have several shapes.
        TreeError: if `init`, or what `fn` returns, has another structure than the operands.
    """
    arrays, names, structure = values("operands", operands)
    first, _, found = values("init_values", init)
    if found != structure:
        raise TreeError("reduce needs one initial value for each operand",
                        got=f"{tree.show(found)} for {tree.show(structure)}")  # fmt: skip
    if len({x.shape for x in arrays}) > 1:
        raise ShapeError("reduce needs operands of one shape",
                         got=", ".join(f"{n}: {show(x)}" for n, x in zip(names, arrays)),
                         )  # fmt: skip
    ndim = arrays[0].ndim
    gone = some_axes("reduce", axes, ndim)
    kept = [axis for axis in range(ndim) if axis not in gone]
    shape = tuple(arrays[0].shape[axis] for axis in kept)
    size = prod(arrays[0].shape[axis] for axis in gone)
    lines = [reshape(transpose(x, (*gone, *kept)), (size, *shape)) for x in arrays]

    def combine(left: list[Array], right: list[Array]) -> list[Array]:
        """The function on each pair of elements."""
        flat = [tree.unflatten(structure, [reshape(x, (prod(x.shape),)) for x in side])
                for side in (left, right)]  # fmt: skip
        out, _, given = values("the result", vmap(fn)(*flat))
        if given != structure:
            raise TreeError("the function of reduce must return what it takes",
                            got=f"{tree.show(given)} for {tree.show(structure)}")  # fmt: skip
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
