"""x[index] and x.at[index]: NumPy's indexing as one gather or scatter.

An index is first parsed into a `Plan`, which has for each axis one kind of access:

    whole     ``:``             the axis is part of every window
    window    ``i`` or ``a:b``  a window of known size at a start
    strided   ``a:b:k``         single elements, at start, start + k, ...
    gathered  an index array    single elements, at indices that only the run knows

A single boolean is a mask of no axes: it adds an axis, of size 1 or 0, to the index arrays.  These
are broadcast together; they, and the strided axes, span the grid of gathered windows.
Starts are operands of an eager program, so that ``x[i]`` and ``x[i:i + 8]`` with another ``i``
need no other program; in a trace they are constants.  A static index outside its axis is an error;
a dynamic one is moved to the border by a read, and left out by a write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import index as as_index
from typing import Any

import numpy as np

from tfn._support.frozen import frozen
from tfn._support.validate import element_type, no_out, shown, unfit
from tfn.array import Array, ArrayLike
from tfn.config import config
from tfn.dtypes import BOOL, INEXACT, INTEGERS, highest, lowest
from tfn.eager.operands import alias, apply, array_of, broadcast_shape, number_as, scalar_kind
from tfn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DTypeError,
    NonConcreteBooleanIndexError,
    OutOfBoundsError,
)
from tfn.numpy.manipulation import flat_or_axis
from tfn.numpy.ranges import arange
from tfn.trace import bind, build
from tfn.trace.build import cast, concat, expand, flip, permute, reshape, shrink
from tfn.trace.op import Shape
from tfn.trace.uop import UOp

Numbers = tuple[int, ...]
STATIC_CHECKS: list[bool] = [True]
"""Whether a known index outside its axis is an error; in JAX it is as one that is not known."""

MODES = ("clip", "fill", "drop", "promise_in_bounds", None)


@frozen
class AxisIndex:
    """The access to one axis of the array; the docstring of this file lists the kinds.

    Attributes:
        kind: "whole", "window", "strided" or "gathered".
        size: number of elements: of the window, or of the strided ones; 1 if gathered.
        step: distance of strided elements.
        slot: number of its start, or of its index array.
        kept: whether the axis appears in the result; that of an integer does not.
    """

    kind: str
    size: int
    step: int = 1
    slot: int = -1
    kept: bool = True


@frozen
class Plan:
    """An index in terms of the axes of the array: the static part, by which programs are cached.

    Attributes:
        axes: the access to each axis of the array.
        result: the origin of the axes of the result: an axis of the array, "new", or "grid" for
            all axes of the broadcast index arrays.
        grid: shape of the broadcast index arrays.
    """

    axes: tuple[AxisIndex, ...]
    result: tuple[int | str, ...]
    grid: Shape

    @property
    def entries(self) -> list[int | str]:
        """The origin of each axis of the result, the axes of the grid one by one."""
        each = [f"grid{i}" for i in range(len(self.grid))]
        return [e for entry in self.result for e in (each if entry == "grid" else [entry])]


@dataclass(slots=True)
class ParsedIndex:
    """A plan, and the starts and index arrays that it is applied to."""

    plan: Plan
    starts: Numbers
    points: list[Array]


def parse_index(x: Array, index: object, checked: bool = True) -> ParsedIndex:
    """An index of `x`, parsed into a plan, starts of windows and index arrays.

    Args:
        x: array that is indexed.
        index: the index, or a tuple of its items.
        checked: whether integers outside are an error.

    Raises:
        OutOfBoundsError: if a static index is outside its axis, or there are too many.
        ArgumentError: for an item that is no index.
        NonConcreteBooleanIndexError: for a mask whose values are not known.
    """
    items = _completed(x, [_item(i) for i in _listed(index)])
    is_gathered = [_is_point(item, checked) for item in items]
    if any(is_gathered):  # beside index arrays, an integer is one of them
        is_gathered = [s or isinstance(item, int) for s, item in zip(is_gathered, items)]
    gathered_items = [i for i, s in enumerate(is_gathered) if s]
    joined = not gathered_items or gathered_items[-1] - gathered_items[0] + 1 == len(gathered_items)
    axis_indices: list[AxisIndex] = []
    result: list[int | str] = [] if joined else ["grid"]
    starts: list[int] = []
    points: list[Any] = []
    mask_shapes: list[Shape] = []
    for item, gathered in zip(items, is_gathered):
        axis = len(axis_indices)
        if gathered:
            if "grid" not in result:
                result.append("grid")
            if isinstance(item, np.ndarray) and not item.ndim:  # a new axis, of size 1 or 0
                mask_shapes.append((int(item),))
                continue
            for place in _places(x, item, axis, checked):
                axis_indices.append(AxisIndex("gathered", 1, slot=len(points), kept=False))
                points.append(place)
        elif item is Ellipsis:  # only parts the index arrays before it from those after it
            pass
        elif item is None:
            result.append("new")
        elif isinstance(item, slice):
            axis_indices.append(_slice_index(item, x.shape[axis], starts))
            result.append(axis)
        else:
            axis_indices.append(AxisIndex("window", 1, slot=len(starts), kept=False))
            starts.append(_inside(item, x.shape[axis], axis))
    trace = bind.innermost([x, *[p for p in points if isinstance(p, Array)]])
    arrays = [
        number_as(p, build.index_dtype(abs(p)), trace) if isinstance(p, int) else _indices(p)
        for p in points
    ]
    grid = broadcast_shape("indexing", *[p.shape for p in arrays], *mask_shapes)
    plan = Plan(tuple(axis_indices), tuple(result), grid)
    return ParsedIndex(plan, tuple(starts), arrays)


def parse_with_mode(x: Array, index: object, mode: str | None) -> tuple[ParsedIndex, str | None]:
    """An index parsed, and its mode: "drop" for one that is outside and need not be checked.

    Args:
        x: array that is indexed.
        index: the index, or a tuple of its items.
        mode: the mode that was asked for; None checks known indices, where `STATIC_CHECKS` says so.

    Raises:
        OutOfBoundsError: as `parse_index`.
    """
    try:
        return parse_index(x, index, checked=mode is None), mode
    except OutOfBoundsError:
        if mode is not None or STATIC_CHECKS[0]:
            raise
        return parse_index(x, index, checked=False), "drop"


def _indices(p: object) -> Array:
    return array_of("an index", p)


def _listed(index: object) -> Sequence[Any]:
    return index if isinstance(index, tuple) else (index,)


def _item(item: Any) -> Any:
    """One item of an index: int, slice, None, Ellipsis, an integer array, or a known mask."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, Array):
        if item.dtype in INTEGERS:
            return item
        if item.dtype == BOOL and not item.known:
            raise NonConcreteBooleanIndexError(
                "a traced mask cannot be an index: the result's shape would depend on values",
                got=repr(item),
                hint="tfn.numpy.where(mask, x, y) keeps the shape; so does x.at[mask].set(scalar)",
            )
        item = np.asarray(item) if item.dtype == BOOL else item
    elif isinstance(item, list):
        item = np.asarray(item) if item else np.zeros(0, np.int32)
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    is_known_array = isinstance(item, (np.ndarray, np.generic)) and item.dtype.kind in "iub"
    if is_known_array and (item.ndim or item.dtype == BOOL):
        return item
    try:
        return as_index(item)
    except TypeError:
        kind = DTypeError if isinstance(item, (Array, np.ndarray)) else ArgumentError
        raise kind(
            "an index is made of integers, slices, None, ..., and integer or boolean arrays",
            got=f"{type(item).__name__}: {shown(item)}",
            hint="convert it: index.astype('int32'), or int(index) for one number",
        ) from None


def _is_point(item: object, checked: bool) -> bool:
    return isinstance(item, (Array, np.ndarray)) or (not checked and isinstance(item, int))


def _axes_of(item: object) -> int:
    """The number of axes of the array that an item uses."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype == BOOL else 1


def _completed(x: Array, items: list[Any]) -> list[Any]:
    """The items, with a slice for each axis that the index leaves out."""
    used = sum(map(_axes_of, items))
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise ArgumentError(
            "an index may have one ellipsis", got=f"{len(dots)} of them", hint="write : for an axis"
        )
    if used > x.ndim:
        raise OutOfBoundsError(
            f"{used} indices for an array of {x.ndim} {'axis' if x.ndim == 1 else 'axes'}",
            got=shown(x),
            hint=f"leave out {used - x.ndim} of them",
        )
    rest = [slice(None)] * (x.ndim - used)
    at = dots[0] + 1 if dots else len(items)
    return [*items[:at], *rest, *items[at:]]


def _places(x: Array, item: Any, axis: int, checked: bool) -> list[Any]:
    """The index arrays of an item, one for each axis that it uses."""
    if isinstance(item, int):
        return [_inside(item, x.shape[axis], axis) if checked else item]
    if isinstance(item, np.ndarray):
        if item.dtype == BOOL:
            if item.shape != x.shape[axis : axis + item.ndim]:
                raise unfit(
                    "a mask needs the shape of the axes that it is for",
                    (item, x),
                    "tfn.numpy.where(mask, x, y) broadcasts",
                    f", axis {axis}",
                )
            return [
                part.astype(build.index_dtype(n)) for part, n in zip(item.nonzero(), item.shape)
            ]
        if checked and item.size:
            _inside(int(item.min()), x.shape[axis], axis)
            _inside(int(item.max()), x.shape[axis], axis)
    if x.shape[axis] == 0 and item.size:
        raise OutOfBoundsError(
            f"an index into axis {axis}, which is empty", got=shown(x), hint="check x.size first"
        )
    return [item]


def _inside(index: int, size: int, axis: int) -> int:
    if not -size <= index < size:
        raise OutOfBoundsError(
            f"index {index} is outside of axis {axis}, which has {size} elements",
            got=f"index {index}",
            hint="x.at[index].get(mode='clip') or mode='fill' allows it",
        )
    return index % size


def _slice_index(item: slice, size: int, starts: list[int]) -> AxisIndex:
    if isinstance(item.step, int) and not item.step:
        raise ArgumentError(
            "a slice needs a step that is not zero",
            got=repr(item),
            hint="x[::2] takes every second element",
        )
    try:
        start, stop, step = item.indices(size)
    except TypeError as error:
        is_argument_error = not isinstance(error, ConcretizationTypeError)
        raise (ArgumentError if is_argument_error else ConcretizationTypeError)(
            "a slice needs integers that are known while tracing",
            got=repr(item),
            hint="tfn.lax.dynamic_slice takes a traced start and a fixed size",
        ) from None
    count = len(range(start, stop, step))
    if count == size and step == 1:
        return AxisIndex("whole", size)
    starts.append(start if count else 0)
    kind = "window" if step == 1 or count < 2 else "strided"
    return AxisIndex(kind, count, step, len(starts) - 1)


def getitem(
    x: ArrayLike, index: object, *, mode: str | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The elements ``x[index]``, or ``x.at[index].get(mode=..., fill_value=...)``.

    Args:
        x: array that is indexed.
        index: integers, slices, None, Ellipsis, index arrays, masks, or a tuple of these.
        mode: indices outside: "clip" moves them to the border, "fill" and "drop" give `fill_value`,
            "promise_in_bounds" says that there are none; None, the default of ``x[index]``, is an
            error for those known.
        fill_value: element for indices outside; None takes NaN, the lowest integer (the highest of
            unsigned ones), or True.

    Returns:
        An array of the dtype of `x`.

    Raises:
        OutOfBoundsError: without a mode, if a static index is outside its axis.
        ArgumentError: for another mode, or something that is no index.

    Example:
        >>> import tfn.numpy as tnp
        >>> getitem(tnp.arange(6).reshape(2, 3), (-1, slice(None, None, -2)))
        Array([5, 3], dtype=int32)
    """
    x = array_of("indexing", x)
    if type(index) is int and mode is None and x.owner is None and _has_row(x, index):
        start = _inside(index, x.shape[0], 0)  # rows in a loop
        return apply(_row, (x, starts_operand((start,), config.device)), weak=x.weak_type)
    check_mode(mode)
    parsed, _ = parse_with_mode(x, index, mode)
    plan, starts, points = parsed.plan, parsed.starts, parsed.points
    if points or plan.grid:
        if points and mode in ("fill", "drop"):
            fill = _fill(x, fill_value)
            return apply(_filled, (x, fill, *points), plan, starts, weak=x.weak_type)
        return apply(_taken, (x, *points), plan, starts, weak=x.weak_type)
    if not starts:
        return alias(x, result_shape(plan), x.weak_type)
    if x.owner is None and not any(axis_index.kind == "strided" for axis_index in plan.axes):
        begin = starts_operand(starts, config.device)
        return apply(_window, (x, begin), plan, weak=x.weak_type)
    return apply(_cut, (x,), plan, starts, weak=x.weak_type)


def _has_row(x: Array, index: int) -> bool:
    return bool(x.shape) and (STATIC_CHECKS[0] or -x.shape[0] <= index < x.shape[0])


@lru_cache(maxsize=4096)
def starts_operand(starts: Numbers, device: str) -> Array:
    """Starts of windows as an operand, cached since loops repeat them."""
    return array_of("indexing", np.array(starts, build.index_dtype(max(starts))))


def _row(x: UOp, begin: UOp) -> UOp:
    return reshape(build.gather(x, begin, (1, *x.shape[1:])), x.shape[1:])


def check_mode(mode: str | None) -> None:
    """Raise ArgumentError unless there is such a mode."""
    if mode not in MODES:
        raise ArgumentError(
            f"there is no index mode {mode!r}",
            got=f"mode={shown(mode)}",
            hint="modes are clip, fill, drop",
        )


def _fill(x: Array, value: ArrayLike | None) -> Array:
    if value is None:
        if x.dtype in INEXACT:
            value = float("nan")
        else:
            value = True if x.dtype == BOOL else lowest(x.dtype) or highest(x.dtype)
    if scalar_kind(value) is not None:
        return number_as(value, x.dtype, bind.innermost([x]))
    return array_of("fill_value", value)


def result_shape(plan: Plan) -> Shape:
    """The shape of the result."""
    sizes: dict[int | str, int] = {"new": 1, **{a: w.size for a, w in enumerate(plan.axes)}}
    sizes |= {f"grid{i}": n for i, n in enumerate(plan.grid)}
    return tuple(sizes[e] for e in plan.entries)


def _slabs(x: UOp, plan: Plan, starts: Numbers) -> UOp:
    """Windows and strided elements cut out; gathered axes stay whole, and all axes stay."""
    begin, end, step, flipped_axes = [], [], [], []
    for axis, (axis_index, size) in enumerate(zip(plan.axes, x.shape)):
        first, last, by = 0, size, 1
        if axis_index.kind in ("window", "strided"):
            first = starts[axis_index.slot]
            last, by = first + (axis_index.size - 1) * axis_index.step, axis_index.step
            if axis_index.step < 0 and axis_index.size > 1:
                first, last, by = last, first, -axis_index.step
                flipped_axes.append(axis)
            last = max(first, last) + 1 if axis_index.size else first
        begin.append(first)
        end.append(last)
        step.append(by if axis_index.size > 1 else 1)
    return flip(shrink(x, tuple(begin), tuple(end), tuple(step)), flipped_axes)


def _cut(x: UOp, plan: Plan, starts: Numbers) -> UOp:
    return reshape(_slabs(x, plan, starts), result_shape(plan))


def _window(x: UOp, begin: UOp, plan: Plan) -> UOp:
    """One window at a start that only the run knows."""
    moving = [a for a, axis_index in enumerate(plan.axes) if axis_index.kind == "window"]
    order = moving + [a for a in range(x.ndim) if a not in moving]
    cut = build.gather(permute(x, order), begin, tuple(plan.axes[a].size for a in order))
    return reshape(permute(cut, inverse_permutation(order)), result_shape(plan))


def inverse_permutation(order: Sequence[int]) -> list[int]:
    """The permutation that undoes another one."""
    return sorted(range(len(order)), key=order.__getitem__)


def _taken(x: UOp, *rest: Any) -> UOp:
    *points, plan, starts = rest
    gathered = [a for a, axis_index in enumerate(plan.axes) if axis_index.kind == "gathered"]
    others = [a for a in range(x.ndim) if a not in gathered]
    slabs = permute(_slabs(x, plan, starts), gathered + others)
    sizes = slabs.shape[len(gathered) :]
    if not all(plan.grid + slabs.shape[: len(gathered)]):  # no elements
        elements = build.zeros(plan.grid + sizes, x.dtype)
    elif not gathered:  # the grid comes from single booleans
        elements = reshape(slabs, plan.grid + sizes)
    else:
        indices = index_vectors(
            [nonnegative(u, x.shape[a]) for u, a in zip(points, gathered)], plan.grid
        )
        elements = build.gather(slabs, indices, (1,) * len(gathered) + sizes)
        elements = reshape(elements, plan.grid + sizes)
    have = [f"grid{i}" for i in range(len(plan.grid))] + others
    order = [have.index(e) for e in plan.entries if e != "new"]
    return reshape(permute(elements, order), result_shape(plan))


def nonnegative(u: UOp, size: int) -> UOp:
    """An index array as int32 or int64, its negative elements counted from the end."""
    u = cast(u, build.index_dtype(size, u.dtype))
    return build.where(u < 0, u + size, u)


def index_vectors(columns: Sequence[UOp], grid: Shape) -> UOp:
    """Index arrays broadcast to the grid, side by side along a new last axis."""
    dtype = build.index_dtype(0, *[u.dtype for u in columns])
    full = [build.broadcast_to(cast(u, dtype), grid) for u in columns]
    return concat([reshape(u, (*grid, 1)) for u in full], len(grid))


def _filled(x: UOp, fill: UOp, *rest: Any) -> UOp:
    *points, plan, _ = rest
    values = _taken(x, *rest)
    inside: UOp | None = None
    gathered = [a for a, axis_index in enumerate(plan.axes) if axis_index.kind == "gathered"]
    for u, axis in zip(points, gathered):
        at = build.broadcast_to(nonnegative(u, x.shape[axis]), plan.grid)
        valid = (at >= 0) & (at < x.shape[axis])
        inside = valid if inside is None else inside & valid
    assert inside is not None
    shape = values.shape
    first = plan.result.index("grid")
    mask_shape = (1,) * first + plan.grid + (1,) * (len(shape) - first - len(plan.grid))
    return build.where(
        expand(reshape(inside, mask_shape), shape),
        values,
        build.broadcast_to(cast(fill, x.dtype), shape),
    )


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The elements at indices along an axis, or of the flat array.

    Args:
        a: array that is indexed.
        indices: array of integers, or one; negative ones count from the end.
        axis: axis that is indexed, counted from the end if negative; None takes the flat array.
        out: None, for NumPy's calls of it: an array never changes.
        mode: indices outside: "fill", the default, gives `fill_value`, "clip" the border, "wrap"
            counts around.
        unique_indices: accepted as in JAX, and changes nothing.
        indices_are_sorted: accepted as in JAX, and changes nothing.
        fill_value: element for indices outside; None takes NaN, the lowest integer (the highest of
            unsigned ones), or True.

    Returns:
        An array of the dtype of `a`, with the axes of `indices` in place of `axis`.

    Raises:
        DTypeError: unless `indices` holds integers.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> take(tnp.array([1.0, 2.0]), tnp.array([1, 5, -1]))
        Array([ 2., nan,  2.], dtype=float32)
    """
    no_out("take", out)
    places = array_of("take", indices)
    element_type("take", places, INTEGERS, "integer indices")
    a, axis = flat_or_axis("take", a, axis)
    if mode == "wrap":
        n = a.shape[axis]
        places, mode = places.astype(build.index_dtype(n, places.dtype)) % n, "clip"
    index = (slice(None),) * axis + (places,)
    return getitem(a, index, mode=mode or "fill", fill_value=fill_value)


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: bool = True,
) -> Array:
    """The elements at indices along an axis, for each position of the other axes.

    Args:
        arr: array that is indexed.
        indices: integers, with as many axes as `arr`; other axes have the size of `arr`, or 1.
        axis: axis that is indexed, counted from the end if negative; None takes the flat array.
        mode: indices outside: "fill", the default, gives `fill_value`, "clip" the border.
        fill_value: element for indices outside; None takes NaN, the lowest integer (the highest of
            unsigned ones), or True.
        wrap_negative_indices: whether negative indices count from the end; else they are outside.

    Returns:
        An array of the dtype of `arr`, of the size of `indices` along the axis, and of that of
        `arr` along others.

    Raises:
        ShapeError: if the other axes do not broadcast.
        DTypeError: unless `indices` holds integers.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> x = tnp.array([[3, 1], [2, 5]])
        >>> take_along_axis(x, tnp.argmax(x, 1, keepdims=True), 1).tolist()
        [[3], [5]]
    """
    arr, places = array_of("take_along_axis", arr), array_of("take_along_axis", indices)
    element_type("take_along_axis", places, INTEGERS, "integer indices")
    arr, axis = flat_or_axis("take_along_axis", arr, axis)
    if places.ndim != arr.ndim:
        what = "take_along_axis needs indices with as many axes as the array"
        raise unfit(what, (arr, places), "argmax and argmin keep them with keepdims=True")
    others = [n for a, n in enumerate(arr.shape) if a != axis]
    broadcast_shape(
        "take_along_axis", tuple(others), tuple(n for a, n in enumerate(places.shape) if a != axis)
    )
    mode = mode or "fill"
    check_mode(mode)
    if not wrap_negative_indices:  # what is below the axis goes beyond it, or to its border
        edge = 0 if mode in ("clip", "promise_in_bounds") else arr.shape[axis]
        places = apply(_not_below, (places,), edge)
    if others == [n for a, n in enumerate(places.shape) if a != axis]:
        if mode not in ("fill", "drop"):
            return apply(_along, (arr, places), axis, weak=arr.weak_type)
        return apply(_along, (arr, places, _fill(arr, fill_value)), axis, weak=arr.weak_type)
    index = tuple(places if a == axis else axis_coordinates(arr, a) for a in range(arr.ndim))
    return getitem(arr, index, mode=mode, fill_value=fill_value)


def _not_below(places: UOp, edge: int) -> UOp:
    return build.where(places < 0, build.full_like(places, edge), places)


def _along(x: UOp, places: UOp, *rest: Any) -> UOp:
    """One row of `x` for each row of the indices: all other axes are batch axes of the gather."""
    *fill, axis = rest
    last, size = x.ndim - 1, x.shape[axis]
    rows, at = build.moveaxis(x, axis, last), build.moveaxis(places, axis, last)
    at = nonnegative(at, size)
    if not rows.size or not at.size:
        elements = build.zeros(at.shape, x.dtype)
    else:
        index = reshape(at, (*at.shape, 1))
        elements = reshape(build.gather(rows, index, (1,), last), at.shape)
    if fill:
        inside = (at >= 0) & (at < size)
        other = build.broadcast_to(cast(fill[0], x.dtype), at.shape)
        elements = build.where(inside, elements, other)
    return build.moveaxis(elements, last, axis)


def axis_coordinates(x: Array, axis: int) -> Array:
    """The coordinates along an axis, in a shape that broadcasts with the array."""
    shape = tuple(x.shape[axis] if a == axis else 1 for a in range(x.ndim))
    return arange(x.shape[axis], dtype=build.index_dtype(x.shape[axis])).reshape(shape)
