"""Associative scans and reductions: all prefixes of a line of elements, or their combination.

The function is of the user, so its tree of applications is chosen here: rows of blocks, scanned in
step (prefixes), or a balanced tree of pairs (a reduction).

Source: Blelloch 1990, "Prefix sums and their applications".
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tfn import tree
from tfn._support.validate import a_function
from tfn.array import Array, Axes
from tfn.config import config
from tfn.eager import platforms
from tfn.eager.operands import one_axis, some_axes
from tfn.errors import ArgumentError, ShapeError, TreeError
from tfn.lax.closed_functions import values
from tfn.lax.dynamic_indexing import optimization_barrier
from tfn.lax.elementwise import convert_element_type
from tfn.lax.loop_blocks import LoopPlan
from tfn.lax.loops import scan_by
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
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import walk
from tfn.transforms.jit import jit
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.vmap import vmap

_SAME_TYPES = "return the containers, shapes and dtypes of one of the two arguments"


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: object, reverse: bool = False, axis: int = 0
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
        out, _, result_structure = values("the result", fn(*both))
        if result_structure != structure:
            raise TreeError(
                "the function of associative_scan must return what it takes",
                got=f"{tree.show(result_structure)} for {tree.show(structure)}",
                hint=_SAME_TYPES,
            )
        for x, y in zip(left, out):
            if (x.shape, x.dtype) != (y.shape, y.dtype):
                raise ArgumentError(
                    "the function of associative_scan must return what it takes",
                    got=f"{show(y)} for {show(x)}",
                    hint=_SAME_TYPES,
                )
        return out

    start = [rev(x, (a,)) for x, a in zip(arrays, axes)] if reverse else arrays
    prefixes = _prefixes(combine, start, axes)
    back = [rev(x, (a,)) for x, a in zip(prefixes, axes)] if reverse else prefixes
    return tree.unflatten(structure, back)


_Combine = Callable[[list[Array], list[Array]], list[Array]]

MIN_PARALLEL_ELEMENTS = 16
"""Fewer elements than these, combined at the same time, do not hide the latency of one
combination: then the line is cut into blocks that advance together.  Blocks combine each element
twice, and move it twice more.  Measured on one core with AVX-512, with blocks and without, in us:
2,000 steps of a linear recurrence of 4 numbers take 7.3 and 8.6, of 16 26 and 15, of 33 79 and 32;
1,000 of `logaddexp` of 16 numbers 72 and 40, 500 products of 4 by 4 matrices 8.9 and 11.

For a machine of many threads any line is cut again when it is lowered: `lower.graph.block_scan`."""

MIN_BLOCKS = 8
"""Blocks that are worth two passes: 300 steps of one number take as long in 6 blocks as in one."""

MAX_PARALLEL_ELEMENTS = 512
"""Elements that blocks combine at the same time: more would give shorter blocks, whose totals
take a larger part of the work."""

MIN_BLOCK_ROWS = 32
"""Steps of a block, at least: the prefix before each block costs two more passes over blocks."""

GRID_BLOCK_ROWS = 8
"""Steps of a block on a GPU, where all blocks advance at once and a step of a function that is more
than pointwise takes some microseconds, however many blocks there are.  4,096 products of 2 by 2
matrices take 124 launches, and 518 in the blocks of a CPU."""


def _prefixes(combine: _Combine, xs: list[Array], axes: list[int]) -> list[Array]:
    """Prefixes element by element, of several blocks at once after the totals of the blocks.

    Before -> after, on sums::

        1 2 3 4 5 6 7  ->  1 2 3 | 4 5 6 | 7       two blocks, and a rest
                       ->  6, 15  ->  6, 21        their totals, and the prefixes of these
                       ->  1, 6 + 4                how each block begins
                       ->  1 3 6 | 10 15 21 | 28   each goes on from there, and the rest
    """
    n = xs[0].shape[axes[0]]
    if n < 2:
        return xs
    if config.device in platforms.DRIVEN:
        blocks = 1 if _is_pointwise(combine, xs, axes) else max(n // GRID_BLOCK_ROWS, 1)
    else:
        blocks = _block_count(n, max(prod(x.shape) for x in xs) // n)
    whole = n - n % blocks

    def part(values: list[Array], start: int, stop: int) -> list[Array]:
        return [slice_in_dim(x, start, stop, 1, a) for x, a in zip(values, axes)]

    rows = [_to_rows(x, blocks, a) for x, a in zip(part(xs, 0, whole), axes)]
    begin = [reshape(slice_in_dim(x, 0, 1), x.shape[1:]) for x in rows]
    later = [slice_in_dim(x, 1, len(x)) for x in rows]
    if blocks > 1:
        totals, _ = _scan_rows(combine, begin, later)
        before = part(_prefixes(combine, totals, axes), 0, blocks - 1)
        others = combine(before, part(begin, 1, blocks))
        begin = [concatenate([x, y], a) for x, y, a in zip(part(begin, 0, 1), others, axes)]
    last, prefixes = _scan_rows(combine, begin, later)
    prefixes = [concatenate([expand_dims(x, (0,)), y], 0) for x, y in zip(begin, prefixes)]
    out = [_from_rows(y, a) for y, a in zip(optimization_barrier(prefixes), axes)]
    if whole < n:
        rest = [_to_rows(x, 1, a) for x, a in zip(part(xs, whole, n), axes)]
        _, prefixes = _scan_rows(combine, part(last, blocks - 1, blocks), rest)
        out = [concatenate([x, _from_rows(y, a)], a) for x, y, a in zip(out, prefixes, axes)]
    return out


def _is_pointwise(combine: _Combine, xs: list[Array], axes: list[int]) -> bool:
    """Whether a function combines numbers alone: then a GPU cuts the line when it is lowered."""
    if len({x.shape for x in xs}) > 1:
        return False
    parts = [slice_in_dim(x, 0, 1, 1, a) for x, a in zip(xs, axes)]
    structs = [ShapeDtypeStruct(x.shape, x.dtype) for x in parts]

    def of_both(*both: Array) -> list[Array]:
        return combine([*both[: len(xs)]], [*both[len(xs) :]])

    traced = jit(of_both).trace(*structs, *structs)
    shape = structs[0].shape
    return not traced.captured and all(
        u.op in _ANYWHERE or (u.op in ELEMENTWISE and u.shape == shape)
        for u in walk(traced.jaxpr.outputs)
    )


_ANYWHERE = frozenset({Op.PARAM, Op.CONST, Op.EXPAND, Op.RESHAPE})
"""Operations of constants, and arguments."""


def _block_count(n: int, width: int) -> int:
    """Returns the number of blocks for n elements of `width` numbers; a divisor of n, if near."""
    most = min(MAX_PARALLEL_ELEMENTS // max(width, 1), n // MIN_BLOCK_ROWS)
    if width >= MIN_PARALLEL_ELEMENTS or most < MIN_BLOCKS:
        return 1
    return next((b for b in range(most, most // 2, -1) if n % b == 0), most)


def _scan_rows(
    combine: _Combine, carry: list[Array], rows: list[Array]
) -> tuple[list[Array], list[Array]]:
    """Returns the last prefix, and all of them, which continue a carry row by row."""

    def step(before: list[Array], x: list[Array]) -> tuple[list[Array], list[Array]]:
        out = combine(before, x)
        return out, out

    def planned(steps: int) -> LoopPlan:
        return LoopPlan(steps, associative=True)

    last, prefixes = scan_by(planned, step, carry, rows)
    return last, prefixes


def _to_rows(x: Array, blocks: int, axis: int) -> Array:
    """Puts the steps of all blocks first: row i holds element i of every block."""
    length = x.shape[axis] // blocks
    parts = reshape(x, (*x.shape[:axis], blocks, length, *x.shape[axis + 1 :]))
    return moveaxis(parts, axis + 1, 0)


def _from_rows(rows: Array, axis: int) -> Array:
    """The inverse of `_to_rows`: elements in their order along the axis."""
    length, *shape = rows.shape
    parts = moveaxis(rows, 0, axis + 1)
    return reshape(parts, (*shape[:axis], length * shape[axis], *shape[axis + 1 :]))


def reduce_pairs(fn: Callable[[Any, Any], Any], operands: Any, init: Any, axes: Axes) -> Any:
    """Reduces axes by an associative function of two elements: neighbours first, then the results.

    Raises:
        ShapeError: if the arrays have several shapes.
        TreeError: if `init`, or what `fn` returns, has another structure than the operands.
    """
    arrays, first, structure = arrays_of_one_shape("reduce", fn, operands, init)
    ndim = arrays[0].ndim
    reduced_axes = some_axes("reduce", axes, ndim)
    kept_axes = [axis for axis in range(ndim) if axis not in reduced_axes]
    shape = tuple(arrays[0].shape[axis] for axis in kept_axes)
    size = prod(arrays[0].shape[axis] for axis in reduced_axes)
    rows = [reshape(transpose(x, (*reduced_axes, *kept_axes)), (size, *shape)) for x in arrays]
    combine = combination("reduce", fn, structure)
    begin = [broadcast(v, (1, *shape)) for v in first]
    total = combine(begin, reduced_rows(combine, rows)) if size else begin
    return tree.unflatten(structure, [reshape(x, shape) for x in total])


Arrays = list[Array]
Combination = Callable[[Arrays, Arrays], Arrays]


def arrays_of_one_shape(
    function: str, fn: object, operands: Any, init: Any
) -> tuple[Arrays, Arrays, tree.Structure]:
    """The operands of a reduction, an initial value of the dtype of each, and their structure.

    Raises:
        ShapeError, TreeError: as `reduce_pairs`.
    """
    a_function(function, "computation", fn)
    arrays, names, structure = values("operands", operands)
    first, _, init_structure = values("init_values", init)
    if init_structure != structure:
        raise TreeError(
            f"{function} needs one initial value for each operand",
            got=f"{tree.show(init_structure)} for {tree.show(structure)}",
            hint="write init_values as the operands, with a number for each",
        )
    if len({x.shape for x in arrays}) != 1:
        raise ShapeError(
            f"{function} needs operands of one shape",
            got=", ".join(f"{n}: {show(x)}" for n, x in zip(names, arrays)) or "no operand",
            hint="broadcast them first" if arrays else "pass at least one array",
        )
    return arrays, [convert_element_type(v, x.dtype) for v, x in zip(first, arrays)], structure


def combination(function: str, fn: Callable[[Any, Any], Any], structure: Any) -> Combination:
    """A function of two trees of elements on each pair of elements of two lists of arrays.

    Raises:
        TreeError: when it is called, if `fn` returns another structure.
    """

    def combine(left: Arrays, right: Arrays) -> Arrays:
        flat = [
            tree.unflatten(structure, [reshape(x, (prod(x.shape),)) for x in side])
            for side in (left, right)
        ]
        out, _, result_structure = values("the result", vmap(fn)(*flat))
        if result_structure != structure:
            raise TreeError(
                f"the function of {function} must return what it takes",
                got=f"{tree.show(result_structure)} for {tree.show(structure)}",
                hint=_SAME_TYPES,
            )
        return [reshape(y, x.shape) for y, x in zip(out, left)]

    return combine


def reduced_rows(combine: Combination, rows: Arrays) -> Arrays:
    """Reduces the first axis, which has elements, to one: pairs of neighbours, then their results.

    Example:
        >>> from tfn.lax.movement import iota
        >>> reduced_rows(lambda x, y: [x[0] * y[0]], [iota("int32", 5) + 1])
        [Array([120], dtype=int32)]
    """
    size = rows[0].shape[0]
    while size > 1:
        half = size // 2
        pairs = [[slice_in_dim(x, start, 2 * half, 2, 0) for x in rows] for start in (0, 1)]
        combined = combine(*pairs)
        if size % 2:
            last = [slice_in_dim(x, size - 1, size, 1, 0) for x in rows]
            combined = [concatenate([x, y], 0) for x, y in zip(combined, last)]
        rows, size = combined, size - half
    return rows
