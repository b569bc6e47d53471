"""The same elements elsewhere: shapes, orders, joins, splits, repetitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index as as_index
from typing import Any

import numpy as np

from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import DType, DTypeLike, canonical
from tfn.errors import ArgumentError, AxisError, ShapeError
from tfn.numpy import creation
from tfn.numpy.operands import (
    a_shape,
    alias,
    apply,
    array_of,
    broadcast_shape,
    number_as,
    one_axis,
    scalar_kind,
    some_axes,
    together,
)
from tfn.trace import bind, build
from tfn.trace.build import broadcast_to as spread
from tfn.trace.build import cast, concat, permute, shrink
from tfn.trace.build import flip as turn
from tfn.trace.build import pad as padded
from tfn.trace.build import reshape as reshaped
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

Numbers = tuple[int, ...]


def reshape(x: ArrayLike, shape: Any, order: str = "C") -> Array:
    """The elements in order under another shape, one size of which may be -1.

    Raises:
        ShapeError: if the number of elements differs.

    Example:
        >>> import tfn.numpy as tnp
        >>> reshape(tnp.arange(6), (2, -1)).shape
        (2, 3)
    """
    x = array_of("reshape", x)
    sizes = _wanted(x.shape, shape)
    if order == "C":
        return x if sizes == x.shape else alias(x, sizes, x.weak_type)
    if order != "F":
        raise ArgumentError("reshape needs order 'C' or 'F'", got=repr(order))
    return apply(_reshape_columns, (x,), sizes, weak=x.weak_type)


def _reshape_columns(x: UOp, shape: Shape) -> UOp:
    backwards = permute(x, range(x.ndim)[::-1])
    return permute(reshaped(backwards, shape[::-1]), range(len(shape))[::-1])


def _wanted(old: Shape, shape: Any) -> Shape:
    listed = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    unknown = [i for i, n in enumerate(listed) if not isinstance(n, Array) and n == -1]
    if len(unknown) > 1:
        raise ShapeError("reshape can find only one size", got=str(tuple(listed)))
    if unknown:
        others = math.prod(
            a_shape("reshape", [n for i, n in enumerate(listed) if i not in unknown])
        )
        listed[unknown[0]] = math.prod(old) // others if others else 0
    sizes = a_shape("reshape", listed)
    if math.prod(sizes) != math.prod(old):
        raise ShapeError(
            f"reshape cannot turn {math.prod(old)} elements into shape {shape}", got=str(old)
        )
    return sizes


def ravel(x: ArrayLike, order: str = "C") -> Array:
    """All elements along one axis."""
    return reshape(x, -1 if array_of("ravel", x).size else 0, order)


def transpose(x: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Axes in another order, reversed if none is given.

    Raises:
        AxisError: if `axes` is not a permutation of all axes.
    """
    x = array_of("transpose", x)
    if axes is None:
        order = tuple(range(x.ndim))[::-1]
    else:
        order = some_axes("transpose", tuple(axes), x.ndim)
        if len(order) != x.ndim:
            raise AxisError(f"transpose needs all {x.ndim} axes", got=str(tuple(axes)))
    return _permuted(x, order)


permute_dims = transpose


def _permuted(x: Array, order: Numbers) -> Array:
    if order == tuple(range(x.ndim)):
        return x
    result: Array = bind.bind(Op.PERMUTE, x, arg=order)
    result.weak_type = x.weak_type
    return result


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes exchanged.

    Raises:
        ShapeError: if there are fewer than two axes.
    """
    x = array_of("matrix_transpose", x)
    if x.ndim < 2:
        raise ShapeError("matrix_transpose needs at least two axes", got=str(x.shape))
    return swapaxes(x, -2, -1)


def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged."""
    x = array_of("swapaxes", x)
    i, j = one_axis("swapaxes", axis1, x.ndim), one_axis("swapaxes", axis2, x.ndim)
    order = list(range(x.ndim))
    order[i], order[j] = j, i
    return _permuted(x, tuple(order))


def moveaxis(x: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes moved to other places; the others keep their order.

    Raises:
        ArgumentError: if there are not as many sources as destinations.
    """
    x = array_of("moveaxis", x)
    origin = some_axes("moveaxis", source, x.ndim)
    target = some_axes("moveaxis", destination, x.ndim)
    if len(origin) != len(target):
        raise ArgumentError("moveaxis needs as many sources as destinations",
                            got=f"{source}, {destination}")  # fmt: skip
    order = [axis for axis in range(x.ndim) if axis not in origin]
    for to, axis in sorted(zip(target, origin)):
        order.insert(to, axis)
    return _permuted(x, tuple(order))


def rollaxis(x: ArrayLike, axis: int, start: int = 0) -> Array:
    """One axis moved before the position `start`."""
    x = array_of("rollaxis", x)
    axis = one_axis("rollaxis", axis, x.ndim)
    start = start + x.ndim if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)


def expand_dims(x: ArrayLike, axis: int | Sequence[int]) -> Array:
    """Axes of size 1 inserted; `axis` counts in the result."""
    x = array_of("expand_dims", x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    new = some_axes("expand_dims", axis, x.ndim + count)
    sizes = iter(x.shape)
    shape = tuple(1 if i in new else next(sizes) for i in range(x.ndim + count))
    return alias(x, shape, x.weak_type)


def squeeze(x: ArrayLike, axis: Axes = None) -> Array:
    """Without axes of size 1: all of them, or those named.

    Raises:
        ShapeError: if a named axis has another size.
    """
    x = array_of("squeeze", x)
    if axis is None:
        return alias(x, tuple(n for n in x.shape if n != 1), x.weak_type)
    axes = some_axes("squeeze", axis, x.ndim)
    if any(x.shape[a] != 1 for a in axes):
        raise ShapeError("squeeze needs axes of size 1", got=f"{x.shape}, axis {axis}")
    return alias(x, tuple(n for a, n in enumerate(x.shape) if a not in axes), x.weak_type)


def broadcast_to(x: ArrayLike, shape: Any) -> Array:
    """Axes of size 1 repeated to the sizes of a shape, and new axes in front.

    Raises:
        ShapeError: if the shapes do not fit.
    """
    x = array_of("broadcast_to", x)
    sizes = a_shape("broadcast_to", shape)
    if sizes == x.shape:
        return x
    if broadcast_shape("broadcast_to", x.shape, sizes) != sizes:
        raise ShapeError(f"broadcast_to cannot make {x.shape} into {sizes}")
    return apply(spread, (x,), sizes, weak=x.weak_type)


def broadcast_shapes(*shapes: Any) -> Shape:
    """The shape that NumPy's broadcasting gives."""
    return broadcast_shape("broadcast_shapes", *[a_shape("broadcast_shapes", s) for s in shapes])


def broadcast_arrays(*xs: ArrayLike) -> list[Array]:
    """All arrays in one shape."""
    given = [array_of("broadcast_arrays", x) for x in xs]
    shape = broadcast_shape("broadcast_arrays", *[x.shape for x in given])
    return [broadcast_to(x, shape) for x in given]


def concatenate(arrays: Sequence[ArrayLike] | Array, axis: int | None = 0,
                dtype: DTypeLike | None = None) -> Array:  # fmt: skip
    """Arrays joined along an axis; flattened first if it is None.

    Raises:
        ShapeError: if other axes differ.

    Example:
        >>> import tfn.numpy as tnp
        >>> concatenate([tnp.zeros(2), tnp.ones(1)])
        Array([0., 0., 1.], dtype=float32)
    """
    operands, kind, weak = _several("concatenate", arrays, dtype)
    if axis is None:
        operands, axis = [ravel(x) for x in operands], 0
    if any(x.ndim != operands[0].ndim for x in operands):
        raise ShapeError("concatenate needs arrays of one number of axes",
                         got=", ".join(str(x.shape) for x in operands))  # fmt: skip
    axis = one_axis("concatenate", axis, operands[0].ndim)
    return apply(_joined, operands, axis, kind, weak=weak)


def _several(name: str, arrays: Any, dtype: DTypeLike | None) -> tuple[list[Array], DType, bool]:
    listed = list(arrays)
    if not listed:
        raise ArgumentError(f"{name} needs at least one array")
    operands, kind, weak = together(name, *listed)
    return (operands, kind, weak) if dtype is None else (operands, canonical(dtype), False)


def _joined(*parts_and_static: Any) -> UOp:
    *parts, axis, dtype = parts_and_static
    return concat([cast(u, dtype) for u in parts], axis)


def stack(arrays: Sequence[ArrayLike] | Array, axis: int = 0,
          dtype: DTypeLike | None = None) -> Array:  # fmt: skip
    """Arrays of one shape joined along a new axis.

    Raises:
        ShapeError: if the shapes differ.
    """
    operands, kind, weak = _several("stack", arrays, dtype)
    if any(x.shape != operands[0].shape for x in operands):
        raise ShapeError("stack needs arrays of one shape",
                         got=", ".join(str(x.shape) for x in operands))  # fmt: skip
    axis = one_axis("stack", axis, operands[0].ndim + 1)
    return apply(_stacked, operands, axis, kind, weak=weak)


def _stacked(*parts_and_static: Any) -> UOp:
    *parts, axis, dtype = parts_and_static
    shape = parts[0].shape
    grown = shape[:axis] + (1,) + shape[axis:]
    return concat([reshaped(cast(u, dtype), grown) for u in parts], axis)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The arrays along an axis, which vanishes."""
    x = array_of("unstack", x)
    axis = one_axis("unstack", axis, x.ndim)
    return (
        tuple(squeeze(part, axis) for part in split(x, x.shape[axis], axis))
        if x.shape[axis]
        else ()
    )


def vstack(arrays: Sequence[ArrayLike]) -> Array:
    """Arrays joined along the first axis; vectors become rows."""
    return concatenate([atleast_2d(x) for x in arrays], 0)


def hstack(arrays: Sequence[ArrayLike]) -> Array:
    """Arrays joined along the second axis; vectors along their only one."""
    rows = [atleast_1d(x) for x in arrays]
    return concatenate(rows, 0 if rows and rows[0].ndim == 1 else 1)


def dstack(arrays: Sequence[ArrayLike]) -> Array:
    """Arrays joined along the third axis."""
    return concatenate([atleast_3d(x) for x in arrays], 2)


def column_stack(arrays: Sequence[ArrayLike]) -> Array:
    """Vectors as columns of a matrix."""
    given = [array_of("column_stack", x) for x in arrays]
    return concatenate([reshape(x, (-1, 1)) if x.ndim < 2 else x for x in given], 1)


def append(x: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Two arrays joined; flattened first if the axis is None."""
    return concatenate([x, values], axis)


def split(x: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Parts of an axis: so many equal ones, or cut at indices.

    Raises:
        ShapeError: if the axis cannot be cut into equal parts.
    """
    x = array_of("split", x)
    size = x.shape[one_axis("split", axis, x.ndim)]
    if _is_number(indices_or_sections):
        parts = as_index(indices_or_sections)
        if parts < 1 or size % parts:
            raise ShapeError(f"split cannot cut {size} elements into {parts} equal parts",
                             hint="array_split makes parts of unequal size")  # fmt: skip
    return array_split(x, indices_or_sections, axis)


def _is_number(value: Any) -> bool:
    return not isinstance(value, (list, tuple)) and np.ndim(value) == 0


def array_split(x: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Parts of an axis: so many nearly equal ones, the larger first, or cut at indices."""
    x = array_of("array_split", x)
    axis = one_axis("array_split", axis, x.ndim)
    size = x.shape[axis]
    if _is_number(indices_or_sections):
        parts = as_index(indices_or_sections)
        if parts < 1:
            raise ArgumentError("array_split needs at least one part", got=str(parts))
        small, larger = divmod(size, parts)
        sizes = [small + 1] * larger + [small] * (parts - larger)
        cuts = [0, *np.cumsum(sizes).tolist()]
    else:
        inner = [as_index(i) for i in indices_or_sections]
        cuts = [0, *[min(max(i + size if i < 0 else i, 0), size) for i in inner], size]
    return [apply(_section, (x,), axis, a, max(a, b), weak=x.weak_type)
            for a, b in zip(cuts, cuts[1:])]  # fmt: skip


def _section(x: UOp, axis: int, start: int, stop: int) -> UOp:
    first = tuple(start if a == axis else 0 for a in range(x.ndim))
    last = tuple(stop if a == axis else n for a, n in enumerate(x.shape))
    return shrink(x, first, last)


def vsplit(x: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Parts of the first axis."""
    return split(x, indices_or_sections, 0)


def hsplit(x: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Parts of the second axis, or of the only one."""
    return split(x, indices_or_sections, 0 if array_of("hsplit", x).ndim == 1 else 1)


def tile(x: ArrayLike, reps: Any) -> Array:
    """The array repeated side by side, so many times along each axis."""
    x = array_of("tile", x)
    counts = a_shape("tile", reps)
    counts = (1,) * (x.ndim - len(counts)) + counts
    return apply(_tiled, (x,), counts, weak=x.weak_type)


def _tiled(x: UOp, counts: Numbers) -> UOp:
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    doubled = tuple(n for size in shape for n in (1, size))
    full = tuple(n for count, size in zip(counts, shape) for n in (count, size))
    result = tuple(count * size for count, size in zip(counts, shape))
    return reshaped(build.expand(reshaped(x, doubled), full), result)


def repeat(x: ArrayLike, repeats: Any, axis: int | None = None, *,
           total_repeat_length: int | None = None) -> Array:  # fmt: skip
    """Each element several times: the same number of times, or a known number for each.

    Raises:
        ConcretizationTypeError: if `repeats` is being traced.

    Example:
        >>> import tfn.numpy as tnp
        >>> repeat(tnp.array([1, 2]), 2)
        Array([1, 1, 2, 2], dtype=int32)
    """
    x = array_of("repeat", x)
    if axis is None:
        x, axis = ravel(x), 0
    axis = one_axis("repeat", axis, x.ndim)
    counts = np.asarray(repeats)
    if counts.ndim == 0 and total_repeat_length is None:
        return apply(_repeated, (x,), axis, as_index(counts.item()), weak=x.weak_type)
    places = np.repeat(np.arange(x.shape[axis]), np.broadcast_to(counts, (x.shape[axis],)))
    if total_repeat_length is not None:
        missing = max(total_repeat_length - len(places), 0)
        places = np.pad(places, (0, missing), mode="edge")[:total_repeat_length]
    index = array_of("repeat", places.astype(np.int32))
    return apply(_taken, (x, index), axis, weak=x.weak_type)


def _repeated(x: UOp, axis: int, count: int) -> UOp:
    thin = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    full = (*x.shape[: axis + 1], count, *x.shape[axis + 1 :])
    result = (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :])
    return reshaped(build.expand(reshaped(x, thin), full), result)


def _taken(x: UOp, index: UOp, axis: int) -> UOp:
    front = build.moveaxis(x, axis, 0)
    windows = build.gather(front, reshaped(index, (*index.shape, 1)), (1, *front.shape[1:]))
    return build.moveaxis(reshaped(windows, (*index.shape, *front.shape[1:])), 0, axis)


def flip(x: ArrayLike, axis: Axes = None) -> Array:
    """Axes counted backwards: all of them, or those named."""
    x = array_of("flip", x)
    return apply(turn, (x,), some_axes("flip", axis, x.ndim), weak=x.weak_type)


def fliplr(x: ArrayLike) -> Array:
    """The second axis counted backwards."""
    return flip(x, 1)


def flipud(x: ArrayLike) -> Array:
    """The first axis counted backwards."""
    return flip(x, 0)


def rot90(x: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Turned by k quarter turns in the plane of two axes, from the first to the second."""
    x = array_of("rot90", x)
    i, j = some_axes("rot90", axes, x.ndim)
    if k % 4 == 0:
        return x
    if k % 4 == 2:
        return flip(x, (i, j))
    return swapaxes(flip(x, j), i, j) if k % 4 == 1 else flip(swapaxes(x, i, j), j)


def roll(x: ArrayLike, shift: int | Sequence[int], axis: Axes = None) -> Array:
    """Elements moved along axes; what falls off the end comes in at the front."""
    x = array_of("roll", x)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    listed = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [one_axis("roll", a, x.ndim) for a in listed]
    shifts = shift if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError("roll needs one shift for each axis", got=f"{shift}, axis {axis}")
    moves = tuple((a, as_index(s) % max(x.shape[a], 1)) for a, s in zip(axes, shifts))
    return apply(_rolled, (x,), moves, weak=x.weak_type)


def _rolled(x: UOp, moves: tuple[tuple[int, int], ...]) -> UOp:
    for axis, shift in moves:
        if shift:
            cut = x.shape[axis] - shift
            x = concat([_section(x, axis, cut, x.shape[axis]), _section(x, axis, 0, cut)], axis)
    return x


def pad(x: ArrayLike, pad_width: Any, mode: str = "constant",
        constant_values: ArrayLike = 0) -> Array:  # fmt: skip
    """Elements added at both ends of each axis.

    `pad_width` is a number, a pair (before, after), or a pair for each axis.  Modes: constant,
    edge, reflect, symmetric, wrap.

    Raises:
        ArgumentError: for another mode, or widths that do not fit.
    """
    x = array_of("pad", x)
    try:
        widths = np.broadcast_to(np.asarray(pad_width, np.int64), (x.ndim, 2))
    except ValueError:
        raise ArgumentError("pad needs a number, a pair, or a pair for each axis",
                            got=f"{pad_width} for {x.shape}") from None  # fmt: skip
    if widths.size and widths.min() < 0:
        raise ArgumentError("pad needs widths that are not negative", got=str(pad_width))
    low, high = (tuple(column.tolist()) for column in widths.T) if x.ndim else ((), ())
    if mode == "constant":
        value: Any = constant_values
        if scalar_kind(value) is not None:
            value = number_as(value, x.dtype, bind.innermost([x]))
        value = array_of("pad", value)
        if value.ndim:
            raise ArgumentError("pad needs one constant value", got=str(value.shape))
        return apply(_padded, (x, value), low, high, weak=x.weak_type)
    if mode not in _MIRRORS:
        raise ArgumentError(f"pad knows no mode {mode!r}",
                            hint="modes are constant, " + ", ".join(_MIRRORS))  # fmt: skip
    for axis, (before, after) in enumerate(widths.tolist()):
        if before or after:
            if not x.shape[axis]:
                raise ShapeError(f"pad cannot extend an empty axis by mode {mode!r}",
                                 got=f"{x.shape}, axis {axis}")  # fmt: skip
            places = np.pad(np.arange(x.shape[axis], dtype=np.int32), (before, after), mode)  # type: ignore[call-overload]
            x = apply(_taken, (x, array_of("pad", places)), axis, weak=x.weak_type)
    return x


_MIRRORS = ("edge", "reflect", "symmetric", "wrap")


def _padded(x: UOp, value: UOp, low: Numbers, high: Numbers) -> UOp:
    return padded(x, low, high, value=cast(value, x.dtype))


def atleast_1d(x: ArrayLike) -> Array:
    """At least one axis."""
    x = array_of("atleast_1d", x)
    return x if x.ndim else reshape(x, (1,))


def atleast_2d(x: ArrayLike) -> Array:
    """At least two axes; a vector becomes a row."""
    x = array_of("atleast_2d", x)
    return x if x.ndim > 1 else reshape(x, (1, x.size))


def atleast_3d(x: ArrayLike) -> Array:
    """At least three axes; a matrix becomes one of depth 1."""
    x = atleast_1d(x)
    if x.ndim == 1:
        return reshape(x, (1, x.size, 1))
    return x if x.ndim > 2 else reshape(x, (*x.shape, 1))


def diagonal(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of two axes, as the last axis.

    Raises:
        ShapeError: if there are fewer than two axes.
    """
    x = array_of("diagonal", x)
    if x.ndim < 2:
        raise ShapeError("diagonal needs at least two axes", got=str(x.shape))
    first, second = some_axes("diagonal", (axis1, axis2), x.ndim)
    return apply(_diagonal, (x,), as_index(offset), first, second, weak=x.weak_type)


def _diagonal(x: UOp, offset: int, axis1: int, axis2: int) -> UOp:
    others = [a for a in range(x.ndim) if a not in (axis1, axis2)]
    x = permute(x, [*others, axis1, axis2])
    *batch, rows, columns = x.shape
    row, column = max(-offset, 0), max(offset, 0)
    size = max(min(rows - row, columns - column), 0)
    if not size:
        return build.zeros((*batch, 0), x.dtype)
    # Row after row, the diagonal is every (columns + 1)-th element.
    flat = reshaped(x, (*batch, rows * columns))
    start = row * columns + column
    zeros = (0,) * len(batch)
    ones = (1,) * len(batch)
    stop = start + (size - 1) * (columns + 1) + 1
    return shrink(flat, (*zeros, start), (*batch, stop), (*ones, columns + 1))


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or a matrix with a vector on its k-th diagonal.

    Raises:
        ShapeError: for other numbers of axes.
    """
    v = array_of("diag", v)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ShapeError("diag needs a vector or a matrix", got=str(v.shape))
    return apply(_matrix, (v,), as_index(k), weak=v.weak_type)


def _matrix(v: UOp, k: int) -> UOp:
    # Each element is followed by n zeros: cut into rows of n, they move one to the right.
    n = v.size
    if n:
        v = reshaped(padded(v, (0,), (n,), (n,)), (n + 1, n))
        v = shrink(v, (0, 0), (n, n))
    else:
        v = reshaped(v, (0, 0))
    return padded(v, (max(-k, 0), max(k, 0)), (max(k, 0), max(-k, 0)))


def trace(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1,
          dtype: DTypeLike | None = None) -> Array:  # fmt: skip
    """The sum of the diagonal of two axes."""
    return diagonal(x, offset, axis1, axis2).sum(-1, dtype)


def fill_diagonal(x: ArrayLike, value: ArrayLike) -> Array:
    """A matrix with another diagonal."""
    x = array_of("fill_diagonal", x)
    if x.ndim != 2:
        raise ShapeError("fill_diagonal needs a matrix", got=str(x.shape))
    on = creation.eye(x.shape[0], x.shape[1], dtype="bool")
    return apply(_chosen, (on, x, array_of("fill_diagonal", value)), weak=x.weak_type)


def _chosen(on: UOp, x: UOp, value: UOp) -> UOp:
    return build.where(on, spread(cast(value, x.dtype), x.shape), x)
