"""Gather and scatter of windows at computed starts, in JAX's layouts.

The op takes one layout: batch axes first, then the axes that a start moves, then the others; the
functions here permute to it and back.

Source: "Gather" and "Scatter" in XLA's operation semantics.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from tfn._support.validate import element_type, of_each_axis, shown, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, INEXACT, INTEGERS, SIGNED, DType, highest, lowest
from tfn.errors import ArgumentError, ShapeError
from tfn.lax import elementwise
from tfn.lax.movement import broadcast_in_dim, concatenate, index_in_dim, reshape, transpose
from tfn.lax.number_parts import neg
from tfn.lax.operand import array, literal, scalar
from tfn.trace.argument import Gather, Scatter
from tfn.trace.bind import bind
from tfn.trace.op import Op, Shape


class GatherScatterMode(enum.Enum):
    """The treatment of a window that does not lie inside the array.

    Example:
        >>> GatherScatterMode.from_any("drop").name
        'FILL_OR_DROP'
    """

    CLIP = "clip"  # it is moved until it does
    FILL_OR_DROP = "fill"  # it is filled with a value; an update is dropped
    PROMISE_IN_BOUNDS = "promise_in_bounds"  # it does

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """A mode from its name; "drop", and None in a scatter, mean FILL_OR_DROP.

        Raises:
            ArgumentError: for another name.
        """
        if isinstance(mode, GatherScatterMode):
            return mode
        if mode is None or mode == "drop":
            return GatherScatterMode.FILL_OR_DROP
        try:
            return GatherScatterMode(mode)
        except ValueError:
            raise ArgumentError(
                "a mode is 'clip', 'fill', 'drop' or 'promise_in_bounds'",
                got=f"mode={mode!r}",
                hint="write a name, or a GatherScatterMode",
            ) from None


class GatherDimensionNumbers(NamedTuple):
    """The meaning of each axis in a `gather`.

    Attributes:
        offset_dims: axes of the result that lie in the window.
        collapsed_slice_dims: axes of the operand whose window of size 1 vanishes.
        start_index_map: axes of the operand that the last axis of the indices moves.
        operand_batching_dims, start_indices_batching_dims: axes that go in step.
    """

    offset_dims: Shape
    collapsed_slice_dims: Shape
    start_index_map: Shape
    operand_batching_dims: Shape = ()
    start_indices_batching_dims: Shape = ()


class ScatterDimensionNumbers(NamedTuple):
    """The meaning of each axis in a `scatter`; see `GatherDimensionNumbers`.

    Attributes:
        update_window_dims: axes of the updates that lie in the window.
        inserted_window_dims: axes of the operand whose window of size 1 the updates leave out.
        scatter_dims_to_operand_dims: axes of the operand that the indices move.
        operand_batching_dims, scatter_indices_batching_dims: axes that go in step.
    """

    update_window_dims: Shape
    inserted_window_dims: Shape
    scatter_dims_to_operand_dims: Shape
    operand_batching_dims: Shape = ()
    scatter_indices_batching_dims: Shape = ()


class _Layout(NamedTuple):
    """Permutations of operand and indices to the layout of the op.

    Attributes:
        operand: order of the operand's axes: batch, moved, others.
        indices: order of the axes of the indices: batch, points, the coordinates.
        windows: order of the axes (batch, points, window without dropped axes) of the result.
        dropped: axes of the operand whose window of size 1 is not in the result.
        batch: number of batch axes.
    """

    operand: Shape
    indices: Shape
    windows: Shape
    dropped: Shape
    batch: int


def _layout(
    operand: Array,
    indices: Array,
    window_dims: Shape,
    absent_axes: Shape,
    start_axes: Shape,
    batch_a: Shape,
    batch_b: Shape,
) -> _Layout:
    if not indices.shape or indices.shape[-1] != len(start_axes) or len(batch_a) != len(batch_b):
        raise unfit(
            "the last axis of the indices holds one coordinate per moved axis",
            (operand, indices),
            "indices[..., None] adds an axis for one coordinate",
            f", moved {tuple(start_axes)}",
        )
    others = [a for a in range(len(operand.shape)) if a not in (*batch_a, *start_axes)]
    order = (*batch_a, *start_axes, *others)
    points = [a for a in range(len(indices.shape) - 1) if a not in batch_b]
    front = (*batch_b, *points)
    # Places of the result: the points in their order, the window's axes in that of the operand.
    window_axes = [a for a in order[len(batch_a) :] if a not in absent_axes]
    rank = len(front) + len(window_axes)
    free = iter([a for a in range(rank) if a not in window_dims])
    place_of_point = {point: next(free) for point in sorted(front)}
    place_of_axis = dict(zip(sorted(window_axes), sorted(window_dims), strict=True))
    windows = tuple([place_of_point[p] for p in front] + [place_of_axis[a] for a in window_axes])
    return _Layout(
        order, (*front, len(indices.shape) - 1), windows, tuple(absent_axes), len(batch_a)
    )


def _anchored(
    operand: Array, indices: Array, sizes: Sequence[int], start_axes: Shape, in_step: Shape
) -> tuple[Array, Shape]:
    """Adds starts of 0 for the axes whose window is shorter than the axis but has no start."""
    short = tuple(
        a
        for a, (size, n) in enumerate(zip(sizes, operand.shape, strict=True))
        if size < n and a not in (*start_axes, *in_step)
    )
    if not short:
        return indices, tuple(start_axes)
    shape = (*indices.shape[:-1], len(short))
    zeros = literal(0, indices.dtype, shape, [operand, indices])
    return concatenate([indices, zeros], len(shape) - 1), (*start_axes, *short)


def _inverse(order: Sequence[int]) -> Shape:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _fits(operand: Array, indices: Array, sizes: Shape, batch: int) -> Array:
    """Whether each window lies inside, shape (*batch, *points)."""
    flags = []
    for k in range(indices.shape[-1]):
        start = index_in_dim(indices, k, axis=-1, keepdims=False)
        limit = operand.shape[batch + k] - sizes[k]
        inside = elementwise.le(start, limit)
        if indices.dtype in SIGNED:
            inside = elementwise.bitwise_and(inside, elementwise.ge(start, 0))
        flags.append(inside)
    if not flags:
        return literal(True, BOOL, indices.shape[:-1], [operand, indices])
    out = flags[0]
    for flag in flags[1:]:
        out = elementwise.bitwise_and(out, flag)
    return out


def _clamped(operand: Array, indices: Array, sizes: Shape, batch: int) -> Array:
    """Clamps the starts, so that the windows fit."""
    columns = []
    for k in range(indices.shape[-1]):
        start = index_in_dim(indices, k, axis=-1)
        columns.append(elementwise.clamp(0, start, operand.shape[batch + k] - sizes[k]))
    return concatenate(columns, len(indices.shape) - 1) if columns else indices


def _fill(dtype: DType) -> Any:
    if dtype in INEXACT:
        return float("nan")
    return lowest(dtype) if dtype in SIGNED else highest(dtype)


def _check_numbers(name: str, numbers: object, kind: type) -> None:
    """Raise ArgumentError unless the dimension numbers are of their class."""
    if not isinstance(numbers, kind):
        raise ArgumentError(
            f"{name} needs {kind.__name__} as dimension_numbers",
            got=f"dimension_numbers={shown(numbers)}",
            hint=f"write lax.{kind.__name__}(...), or use x[...] and x.at[...]",
        )


def _check_axes(
    name: str,
    numbers: GatherDimensionNumbers | ScatterDimensionNumbers,
    ndim: int,
    indices_ndim: int,
    windows_ndim: int | None = None,
) -> None:
    """Check that each field of dimension numbers has axes that are there, once each, in order.

    Args:
        name: the function's name.
        numbers: the dimension numbers.
        ndim: axes of the operand.
        indices_ndim: axes of the indices, the last of which holds coordinates.
        windows_ndim: axes of the updates; None for a gather, whose result has what is needed.

    Raises:
        ArgumentError: naming the first field that does not.
        ShapeError: if the fields together do not describe the operands.
    """
    windows, absent, moved, batching, at = numbers
    needed = max(indices_ndim - 1, 0) + len(windows)
    rows = (
        (windows, needed, True),
        (absent, ndim, True),
        (moved, ndim, False),
        (batching, ndim, True),
        (at, max(indices_ndim - 1, 0), False),
    )
    for field, (axes, count, ordered) in zip(numbers._fields, rows, strict=True):
        fits = all(0 <= axis < count for axis in axes) and len(set(axes)) == len(axes)
        if not fits or (ordered and list(axes) != sorted(axes)):
            raise ArgumentError(
                f"{name} needs {field} that are different axes of {count}"
                + ", in ascending order" * ordered,
                got=f"{field}={tuple(axes)}",
                hint="axes count from 0",
            )
    apart = len({*absent, *moved}) + len(batching)
    for found, expected, what in (
        (len(windows) + len(absent) + len(batching), ndim, "each axis of the operand in one field"),
        (len({*absent, *batching, *moved}), apart, "batching axes that are in no other field"),
        (len(at), len(batching), "a batching axis of the indices for each of the operand"),
        (needed if windows_ndim is None else windows_ndim, needed, f"updates of {needed} axes"),
    ):
        if found != expected:
            raise ShapeError(
                f"{name} needs {what}",
                got=", ".join(f"{k}={tuple(v)}" for k, v in zip(numbers._fields, numbers)),
                hint=f"the operand has {ndim} axes, the indices {indices_ndim}",
            )


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: object = None,
) -> Array:
    """Returns windows of an array at computed starts.

    Args:
        operand: array of any shape.
        start_indices: integers; the last axis holds one start for each axis in `start_index_map`.
        dimension_numbers: the meaning of each axis, see `GatherDimensionNumbers`.
        slice_sizes: static size of the window, for each axis of the operand.
        unique_indices, indices_are_sorted: accepted as in JAX and ignored.
        mode: "clip" moves a window that does not fit until it does, "fill" fills it; None means
            CLIP; see `GatherScatterMode`.
        fill_value: scalar for mode "fill"; NaN, the smallest signed or largest unsigned integer if
            None.

    Returns:
        An array of the axes of `start_indices` but its last, with those of the window at
        `offset_dims`, of the dtype of `operand`.

    Raises:
        ShapeError: if the numbers do not describe the operands.
        DTypeError: unless the indices are integers.
        ArgumentError: for another mode, or numbers of another class.

    Example:
        >>> import numpy as np
        >>> numbers = GatherDimensionNumbers((1,), (0,), (0,))
        >>> table = np.arange(6.0).reshape(3, 2)
        >>> gather(table, np.array([[2], [0]]), numbers, (1, 2), mode="clip").tolist()
        [[4.0, 5.0], [0.0, 1.0]]
    """
    x, at, numbers = array(operand), array(start_indices), dimension_numbers
    _check_numbers("gather", numbers, GatherDimensionNumbers)
    slice_sizes = of_each_axis("gather", "slice_sizes", slice_sizes, len(x.shape), 0)
    element_type("gather", at, INTEGERS, "integer indices")
    _check_axes("gather", numbers, len(x.shape), len(at.shape))
    absent_axes = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    in_step = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    if any(slice_sizes[axis] != 1 for axis in numbers.collapsed_slice_dims):
        raise ShapeError(
            "gather needs windows of size 1 along the axes that it collapses",
            got=f"slice_sizes={slice_sizes}, collapsed_slice_dims={numbers.collapsed_slice_dims}",
            hint="keep the axis among the offset_dims",
        )
    at, start_axes = _anchored(x, at, slice_sizes, numbers.start_index_map, in_step[0])
    layout = _layout(x, at, numbers.offset_dims, absent_axes, start_axes, *in_step)
    x, at = transpose(x, layout.operand), transpose(at, layout.indices)
    sizes = tuple(slice_sizes[a] for a in layout.operand[layout.batch :])
    out = bind(Op.GATHER, x, at, arg=Gather(layout.batch, sizes))
    how = GatherScatterMode.CLIP if mode is None else GatherScatterMode.from_any(mode)
    if how is GatherScatterMode.FILL_OR_DROP:
        value = _fill(x.dtype) if fill_value is None else fill_value
        fits = _fits(x, at, sizes, layout.batch)
        fits = broadcast_in_dim(fits, out.shape, range(len(fits.shape)))
        out = elementwise.select(fits, out, scalar(value, out))
    window_shape = [
        slice_sizes[a] for a in layout.operand[layout.batch :] if a not in layout.dropped
    ]
    return transpose(reshape(out, (*at.shape[:-1], *window_shape)), _inverse(layout.windows))


def _scatter(
    op: Op,
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    numbers: ScatterDimensionNumbers,
    mode: str | GatherScatterMode | None,
) -> Array:
    _check_numbers("scatter", numbers, ScatterDimensionNumbers)
    x, at, new = array(operand), array(scatter_indices), array(updates)
    element_type("scatter", at, INTEGERS, "integer indices")
    _check_axes("scatter", numbers, len(x.shape), len(at.shape), len(new.shape))
    absent_axes = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    in_step = numbers.operand_batching_dims, numbers.scatter_indices_batching_dims
    window_sizes = iter([new.shape[a] for a in sorted(numbers.update_window_dims)])
    window = [1 if a in absent_axes else next(window_sizes) for a in range(len(x.shape))]
    at, start_axes = _anchored(x, at, window, numbers.scatter_dims_to_operand_dims, in_step[0])
    layout = _layout(x, at, numbers.update_window_dims, absent_axes, start_axes, *in_step)
    x, at = transpose(x, layout.operand), transpose(at, layout.indices)
    sizes = tuple(window[a] for a in layout.operand[layout.batch :])
    new = transpose(new, layout.windows)
    new = reshape(new, (*new.shape[: len(at.shape) - 1], *sizes))
    if GatherScatterMode.from_any(mode) is GatherScatterMode.CLIP:
        at = _clamped(x, at, sizes, layout.batch)
    out = bind(Op.SCATTER, x, at, new, arg=Scatter(layout.batch, op))
    return transpose(out, _inverse(layout.operand))


def scatter(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns the operand with windows replaced by updates; of several at one place the last wins.

    Args:
        operand: array of any shape.
        scatter_indices: integers; the last axis holds one start for each of
            `scatter_dims_to_operand_dims`.
        updates: the windows, of the dtype of `operand`.
        dimension_numbers: the meaning of each axis, see `ScatterDimensionNumbers`.
        indices_are_sorted, unique_indices: accepted as in JAX and ignored.
        mode: "fill", "drop" or None drop a window that does not fit, "clip" moves it until it does;
            see `GatherScatterMode`.

    Returns:
        An array like `operand`.

    Raises:
        ShapeError, DTypeError: if the operands do not fit together.
        ArgumentError: for another mode, or numbers of another class.

    Example:
        >>> import numpy as np
        >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
        >>> scatter(np.zeros(3), np.array([[1], [5]]), np.ones(2), numbers).tolist()
        [0.0, 1.0, 0.0]
    """
    return _scatter(Op.WHERE, operand, scatter_indices, updates, dimension_numbers, mode)


def scatter_add(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns the operand with updates added to windows; several at one place are all added.

    Args:
        operand: array of any shape.
        scatter_indices: integers; the last axis holds one start for each of
            `scatter_dims_to_operand_dims`.
        updates: the windows, of the dtype of `operand`.
        dimension_numbers: the meaning of each axis, see `ScatterDimensionNumbers`.
        indices_are_sorted, unique_indices: accepted as in JAX and ignored.
        mode: "fill", "drop" or None drop a window that does not fit, "clip" moves it until it does;
            see `GatherScatterMode`.

    Returns:
        An array like `operand`.

    Raises:
        ShapeError, DTypeError, ArgumentError: as `scatter`.

    Example:
        >>> import tfn.numpy as tnp
        >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
        >>> scatter_add(tnp.ones(3), tnp.array([[1], [1]]), tnp.array([2.0, 3.0]), numbers)
        Array([1., 6., 1.], dtype=float32)
    """
    return _scatter(Op.ADD, operand, scatter_indices, updates, dimension_numbers, mode)


def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns the operand with updates subtracted from windows; several at one place are all
    subtracted.

    Args:
        operand: array of any shape.
        scatter_indices: integers; the last axis holds one start for each of
            `scatter_dims_to_operand_dims`.
        updates: the windows, of the dtype of `operand`.
        dimension_numbers: the meaning of each axis, see `ScatterDimensionNumbers`.
        indices_are_sorted, unique_indices: accepted as in JAX and ignored.
        mode: "fill", "drop" or None drop a window that does not fit, "clip" moves it until it does;
            see `GatherScatterMode`.

    Returns:
        An array like `operand`.

    Raises:
        ShapeError, DTypeError, ArgumentError: as `scatter`.

    Example:
        >>> import tfn.numpy as tnp
        >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
        >>> scatter_sub(tnp.ones(3), tnp.array([[1], [1]]), tnp.array([2.0, 3.0]), numbers)
        Array([ 1., -4.,  1.], dtype=float32)
    """
    less = neg(updates)
    return _scatter(Op.ADD, operand, scatter_indices, less, dimension_numbers, mode)


def scatter_mul(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns the operand with windows multiplied by updates; several at one place all multiply it.

    Args:
        operand: array of any shape.
        scatter_indices: integers; the last axis holds one start for each of
            `scatter_dims_to_operand_dims`.
        updates: the windows, of the dtype of `operand`.
        dimension_numbers: the meaning of each axis, see `ScatterDimensionNumbers`.
        indices_are_sorted, unique_indices: accepted as in JAX and ignored.
        mode: "fill", "drop" or None drop a window that does not fit, "clip" moves it until it does;
            see `GatherScatterMode`.

    Returns:
        An array like `operand`.

    Raises:
        ShapeError, DTypeError, ArgumentError: as `scatter`.

    Example:
        >>> import tfn.numpy as tnp
        >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
        >>> scatter_mul(tnp.ones(3), tnp.array([[1], [1]]), tnp.array([2.0, 3.0]), numbers)
        Array([1., 6., 1.], dtype=float32)
    """
    return _scatter(Op.MUL, operand, scatter_indices, updates, dimension_numbers, mode)


def scatter_min(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns the operand with elements of windows replaced by updates that are smaller, or NaN.

    Args:
        operand: array of any shape.
        scatter_indices: integers; the last axis holds one start for each of
            `scatter_dims_to_operand_dims`.
        updates: the windows, of the dtype of `operand`.
        dimension_numbers: the meaning of each axis, see `ScatterDimensionNumbers`.
        indices_are_sorted, unique_indices: accepted as in JAX and ignored.
        mode: "fill", "drop" or None drop a window that does not fit, "clip" moves it until it does;
            see `GatherScatterMode`.

    Returns:
        An array like `operand`.

    Raises:
        ShapeError, DTypeError, ArgumentError: as `scatter`.

    Example:
        >>> import tfn.numpy as tnp
        >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
        >>> scatter_min(tnp.ones(3), tnp.array([[1], [1]]), tnp.array([0.5, 3.0]), numbers)
        Array([1. , 0.5, 1. ], dtype=float32)
    """
    return _scatter(Op.MIN, operand, scatter_indices, updates, dimension_numbers, mode)


def scatter_max(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns the operand with elements of windows replaced by updates that are larger, or NaN.

    Args:
        operand: array of any shape.
        scatter_indices: integers; the last axis holds one start for each of
            `scatter_dims_to_operand_dims`.
        updates: the windows, of the dtype of `operand`.
        dimension_numbers: the meaning of each axis, see `ScatterDimensionNumbers`.
        indices_are_sorted, unique_indices: accepted as in JAX and ignored.
        mode: "fill", "drop" or None drop a window that does not fit, "clip" moves it until it does;
            see `GatherScatterMode`.

    Returns:
        An array like `operand`.

    Raises:
        ShapeError, DTypeError, ArgumentError: as `scatter`.

    Example:
        >>> import tfn.numpy as tnp
        >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
        >>> scatter_max(tnp.ones(3), tnp.array([[1], [1]]), tnp.array([2.0, 3.0]), numbers)
        Array([1., 3., 1.], dtype=float32)
    """
    return _scatter(Op.MAX, operand, scatter_indices, updates, dimension_numbers, mode)
