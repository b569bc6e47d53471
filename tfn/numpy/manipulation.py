"""Shape manipulation: reshape, transpose, broadcast, flip, diagonals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tfn._support.validate import integer, no_out, one_of, rank, several, shown
from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import DTypeLike
from tfn.eager.operands import (
    a_shape,
    alias,
    apply,
    array_of,
    broadcast_shape,
    listed,
    not_in_place,
    one_axis,
    some_axes,
    two_axes,
)
from tfn.errors import ArgumentError, AxisError, ShapeError
from tfn.numpy.creation import asarray, duplicate, resolved
from tfn.trace import bind, build
from tfn.trace.build import broadcast_to as spread
from tfn.trace.build import cast, permute, shrink
from tfn.trace.build import flip as turn
from tfn.trace.build import pad as padded
from tfn.trace.build import reshape as reshaped
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const

Numbers = tuple[int, ...]


def reshape(
    a: ArrayLike,
    shape: Any,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """The elements in order under another shape, one size of which may be -1.

    Arrays are immutable, so that sharing memory cannot be seen; with ``copy=True`` it is not
    shared.

    Args:
        a: array or number, of any shape.
        shape: tuple of sizes, or one size; -1 for the one that follows from the others.
        order: "C" if the last axis runs fastest in both shapes, "F" if the first one does.
        copy: whether the result has memory of its own; None and False copy where they must.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.

    Returns:
        An array of the dtype of `a`.

    Raises:
        ShapeError: if the number of elements differs.
        ArgumentError: for another order.

    Example:
        >>> import tfn.numpy as tnp
        >>> reshape(tnp.arange(6), (2, -1)).shape
        (2, 3)
    """
    if out_sharding is not None:
        return resolved(out_sharding, lambda: reshape(a, shape, order, copy=copy))
    a = array_of("reshape", a)
    a = duplicate(a) if copy else a
    sizes = _new_shape(a.shape, shape)
    one_of("reshape", "order", order, ("C", "F", "A", "K"))
    if order != "F":  # arrays have no order of their own but that of "C"
        return a if sizes == a.shape else alias(a, sizes, a.weak_type)
    return apply(_reshape_columns, (a,), sizes, weak=a.weak_type)


def _reshape_columns(x: UOp, shape: Shape) -> UOp:
    backwards = permute(x, range(x.ndim)[::-1])
    return permute(reshaped(backwards, shape[::-1]), range(len(shape))[::-1])


def _new_shape(old: Shape, shape: object) -> Shape:
    sizes_or_unknown = list(listed(shape))
    unknown = [
        i
        for i, n in enumerate(sizes_or_unknown)
        if (n.owner is None and n.shape == () and int(n) if isinstance(n, Array) else n) == -1
    ]
    if len(unknown) > 1:
        raise ShapeError(
            "reshape can find only one size",
            got=f"shape={tuple(sizes_or_unknown)}",
            hint="write -1 for one axis, and the sizes of the others",
        )
    if unknown:
        others = math.prod(
            a_shape("reshape", [n for i, n in enumerate(sizes_or_unknown) if i not in unknown])
        )
        sizes_or_unknown[unknown[0]] = math.prod(old) // others if others else 0
    sizes = a_shape("reshape", sizes_or_unknown)
    if math.prod(sizes) != math.prod(old):
        raise ShapeError(
            f"reshape cannot turn {math.prod(old)} elements into shape {shape}",
            got=f"an array of shape {old}",
            hint="the sizes must multiply to the number of elements; -1 finds one of them",
        )
    return sizes


def ravel(a: ArrayLike, order: str = "C") -> Array:
    """The elements of the flat array, as a vector.

    Example:
        >>> import tfn.numpy as tnp
        >>> ravel(tnp.array([[1, 2], [3, 4]]))
        Array([1, 2, 3, 4], dtype=int32)
    """
    return reshape(a, -1 if array_of("ravel", a).size else 0, order)


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The array with its axes in another order, reversed if none is given.

    Raises:
        AxisError: if `axes` is not a permutation of all axes.
        ArgumentError: unless `axes` is a sequence of integers.

    Example:
        >>> import tfn.numpy as tnp
        >>> transpose(tnp.ones((2, 3, 5)), (1, 0, 2)).shape
        (3, 2, 5)
    """
    a = array_of("transpose", a)
    if axes is None:
        order = tuple(range(a.ndim))[::-1]
    else:
        order = some_axes("transpose", several("transpose", "axes", axes), a.ndim)
        if len(order) != a.ndim:
            raise AxisError(
                f"transpose needs all {a.ndim} axes",
                got=f"axes={axes}",
                hint=f"name each axis from 0 to {a.ndim - 1} once; moveaxis moves one",
            )
    return _permuted(a, order)


permute_dims = transpose


def _permuted(x: Array, order: Numbers) -> Array:
    if order == tuple(range(x.ndim)):
        return x
    result: Array = bind.bind(Op.PERMUTE, x, arg=order, weak=x.weak_type)
    return result


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The array with its last two axes exchanged.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> matrix_transpose(tnp.ones((7, 2, 3))).shape
        (7, 3, 2)
    """
    x = array_of("matrix_transpose", x)
    rank("matrix_transpose", x, 2)
    return swapaxes(x, -2, -1)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """The array with two axes exchanged.

    Args:
        a: array or number, of any shape.
        axis1: an axis, counted from the end if negative.
        axis2: another axis, or the same.

    Raises:
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> swapaxes(tnp.ones((2, 3, 5)), 0, 2).shape
        (5, 3, 2)
    """
    a = array_of("swapaxes", a)
    i, j = one_axis("swapaxes", axis1, a.ndim), one_axis("swapaxes", axis2, a.ndim)
    order = list(range(a.ndim))
    order[i], order[j] = j, i
    return _permuted(a, tuple(order))


def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """The array with axes moved to other positions; the others keep their order.

    Args:
        a: array or number, of any shape.
        source: axis or axes, counted from the end if negative.
        destination: for each of them its position in the result.

    Raises:
        ArgumentError: if there are not as many sources as destinations.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> moveaxis(tnp.ones((2, 3, 5)), 0, -1).shape
        (3, 5, 2)
    """
    a = array_of("moveaxis", a)
    origin = some_axes("moveaxis", source, a.ndim)
    target = some_axes("moveaxis", destination, a.ndim)
    if len(origin) != len(target):
        raise ArgumentError(
            "moveaxis needs as many sources as destinations",
            got=f"source={source}, destination={destination}",
            hint="name a destination for each source",
        )
    order = [axis for axis in range(a.ndim) if axis not in origin]
    for to, axis in sorted(zip(target, origin)):
        order.insert(to, axis)
    return _permuted(a, tuple(order))


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """The array with one axis moved before the position `start`.

    Args:
        a: array or number, of any shape.
        axis: the axis, counted from the end if negative.
        start: position from 0, the front and default, to the number of axes, the end; or counted
            from the end if negative.

    Raises:
        AxisError: if the array has no such axis or position.
        ArgumentError: unless `axis` and `start` are integers.

    Example:
        >>> import tfn.numpy as tnp
        >>> rollaxis(tnp.ones((2, 3, 5)), 2).shape
        (5, 2, 3)
    """
    a = array_of("rollaxis", a)
    axis = one_axis("rollaxis", axis, a.ndim)
    start = integer("rollaxis", "start", start)
    if not -a.ndim <= start <= a.ndim:
        raise AxisError(
            f"rollaxis cannot move an axis before position {start}",
            got=f"start={start}, {shown(a)}",
            hint=f"positions go from {-a.ndim} to {a.ndim}",
        )
    start = start + a.ndim if start < 0 else start
    return moveaxis(a, axis, start - 1 if axis < start else start)


def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """The array with axes of size 1 inserted; `axis` counts in the result.

    Raises:
        AxisError: if the result has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> expand_dims(tnp.ones(3), (0, -1)).shape
        (1, 3, 1)
    """
    a = array_of("expand_dims", a)
    count = len(listed(axis))
    new = some_axes("expand_dims", axis, a.ndim + count)
    sizes = iter(a.shape)
    shape = tuple(1 if i in new else next(sizes) for i in range(a.ndim + count))
    return alias(a, shape, a.weak_type)


def squeeze(a: ArrayLike, axis: Axes = None) -> Array:
    """The array without axes of size 1: all of them, or those named.

    Raises:
        ShapeError: if a named axis has another size.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> squeeze(tnp.ones((1, 3, 1))).shape
        (3,)
    """
    a = array_of("squeeze", a)
    if axis is None:
        return alias(a, tuple(n for n in a.shape if n != 1), a.weak_type)
    axes = some_axes("squeeze", axis, a.ndim)
    if any(a.shape[i] != 1 for i in axes):
        raise ShapeError(
            "squeeze needs axes of size 1",
            got=f"{shown(a)}, axis={axis}",
            hint="leave axis out to drop every axis of size 1; a[0] takes one element",
        )
    return alias(a, tuple(n for i, n in enumerate(a.shape) if i not in axes), a.weak_type)


def broadcast_to(array: ArrayLike, shape: Any) -> Array:
    """The array with axes of size 1 repeated to the sizes of a shape, and new axes in front.

    Raises:
        ShapeError: if the shapes do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> broadcast_to(tnp.array([1, 2]), (2, 2)).tolist()
        [[1, 2], [1, 2]]
    """
    array = array_of("broadcast_to", array)
    sizes = a_shape("broadcast_to", shape)
    if sizes == array.shape:
        return array
    if broadcast_shape("broadcast_to", array.shape, sizes) != sizes:
        raise ShapeError(
            f"broadcast_to cannot make {array.shape} into {sizes}",
            got=f"{shown(array)}, shape={sizes}",
            hint="only axes of size 1 are repeated, and new ones come in front",
        )
    return apply(spread, (array,), sizes, weak=array.weak_type)


def broadcast_shapes(*shapes: object) -> Shape:
    """The shape that NumPy's broadcasting gives.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> broadcast_shapes((3, 1), (2,))
        (3, 2)
    """
    return broadcast_shape("broadcast_shapes", *[a_shape("broadcast_shapes", s) for s in shapes])


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arrays, broadcast to one shape.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> [x.shape for x in broadcast_arrays(tnp.ones((3, 1)), tnp.ones(2))]
        [(3, 2), (3, 2)]
    """
    arrays = [array_of("broadcast_arrays", x) for x in args]
    shape = broadcast_shape("broadcast_arrays", *[x.shape for x in arrays])
    return [broadcast_to(x, shape) for x in arrays]


def flat_or_axis(name: str, x: ArrayLike, axis: int | None) -> tuple[Array, int]:
    """An array with one of its axes counted from the front; for None the flat array and 0.

    Args:
        name: name of the function that was called, for errors.
        x: array or number.
        axis: the axis, counted from the end if negative, or None.

    Raises:
        AxisError: if the array has no such axis.
    """
    x = array_of(name, x)
    if axis is None:
        return x.reshape(x.size), 0
    return x, one_axis(name, axis, x.ndim)


def flip(m: ArrayLike, axis: Axes = None) -> Array:
    """The array with axes counted backwards: all of them, or those named.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> flip(tnp.array([1, 2, 3]))
        Array([3, 2, 1], dtype=int32)
    """
    m = array_of("flip", m)
    return apply(turn, (m,), some_axes("flip", axis, m.ndim), weak=m.weak_type)


def fliplr(m: ArrayLike) -> Array:
    """The array with its second axis counted backwards.

    Raises:
        AxisError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> fliplr(tnp.array([[1, 2], [3, 4]])).tolist()
        [[2, 1], [4, 3]]
    """
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """The array with its first axis counted backwards.

    Raises:
        AxisError: if there is no axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> flipud(tnp.array([[1, 2], [3, 4]])).tolist()
        [[3, 4], [1, 2]]
    """
    return flip(m, 0)


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """The array turned by k quarter turns in the plane of two axes, from the first to the second.

    Args:
        m: array of two axes at least.
        k: number of quarter turns; negative ones turn the other way.
        axes: the two axes of the plane, the first two by default.

    Raises:
        AxisError: unless `axes` names two axes of the array.
        ArgumentError: unless `k` is an integer.

    Example:
        >>> import tfn.numpy as tnp
        >>> rot90(tnp.array([[1, 2], [3, 4]])).tolist()
        [[2, 4], [1, 3]]
    """
    m = array_of("rot90", m)
    turns = integer("rot90", "k", k) % 4
    i, j = two_axes("rot90", axes, m.ndim)
    if turns == 0:
        return m
    if turns == 2:
        return flip(m, (i, j))
    return swapaxes(flip(m, j), i, j) if turns == 1 else flip(swapaxes(m, i, j), j)


def atleast_1d(*arys: ArrayLike) -> Any:
    """The array with one axis at least; of several arrays a list of them.

    Example:
        >>> atleast_1d(3.0).shape
        (1,)
    """
    return _each("atleast_1d", arys, lambda x: x if x.ndim else reshape(x, (1,)))


def atleast_2d(*arys: ArrayLike) -> Any:
    """The array with two axes at least; a vector becomes a row; of several arrays a list of them.

    Example:
        >>> import tfn.numpy as tnp
        >>> atleast_2d(tnp.ones(3)).shape
        (1, 3)
    """
    return _each("atleast_2d", arys, lambda x: x if x.ndim > 1 else reshape(x, (1, x.size)))


def atleast_3d(*arys: ArrayLike) -> Any:
    """The array with three axes at least: a matrix becomes one of depth 1; a list of several.

    Example:
        >>> import tfn.numpy as tnp
        >>> [x.shape for x in atleast_3d(tnp.ones(3), tnp.ones((3, 2)))]
        [(1, 3, 1), (3, 2, 1)]
    """

    def deep(x: Array) -> Array:
        shape = (1, x.size, 1) if x.ndim < 2 else (*x.shape, 1)
        return x if x.ndim > 2 else reshape(x, shape)

    return _each("atleast_3d", arys, deep)


def _each(name: str, arrays: Sequence[ArrayLike], shaped: Callable[[Array], Array]) -> Any:
    results = [shaped(array_of(name, x)) for x in arrays]
    return results[0] if len(results) == 1 else results


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonals of two axes, as the last axis of the result.

    Args:
        a: array of two axes at least.
        offset: number of the diagonal: 0 is the main one, positive ones lie above it, negative ones
            below.
        axis1: axis of the rows, counted from the end if negative; the first by default.
        axis2: axis of the columns, counted from the end if negative; the second by default.

    Returns:
        An array of the dtype of `a`; without the two axes, and with the diagonal, which may be
        empty, last.

    Raises:
        ShapeError: if there are fewer than two axes.
        AxisError: if the array has no such axis, or one is named twice.
        ArgumentError: unless `offset` is an integer.

    Example:
        >>> import tfn.numpy as tnp
        >>> diagonal(tnp.arange(6).reshape(2, 3), 1)
        Array([1, 5], dtype=int32)
    """
    a = array_of("diagonal", a)
    rank("diagonal", a, 2)
    first, second = some_axes("diagonal", (axis1, axis2), a.ndim)
    offset = integer("diagonal", "offset", offset)
    return apply(_diagonal, (a,), offset, first, second, weak=a.weak_type)


def _diagonal(x: UOp, offset: int, axis1: int, axis2: int) -> UOp:
    others = [a for a in range(x.ndim) if a not in (axis1, axis2)]
    x = permute(x, [*others, axis1, axis2])
    *batch, rows, columns = x.shape
    row, column = max(-offset, 0), max(offset, 0)
    size = max(min(rows - row, columns - column), 0)
    if not size:
        return build.zeros((*batch, 0), x.dtype)
    # In row order the diagonal is every (columns + 1)-th element.
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
        ArgumentError: unless `k` is an integer.

    Example:
        >>> import tfn.numpy as tnp
        >>> diag(tnp.array([1, 2])).tolist(), diag(tnp.array([[1, 2], [3, 4]])).tolist()
        ([[1, 0], [0, 2]], [1, 4])
    """
    v = array_of("diag", v)
    rank("diag", v, 1, 2)
    k = integer("diag", "k", k)
    if v.ndim == 2:
        return diagonal(v, k)
    return apply(_matrix, (v,), k, weak=v.weak_type)


def _matrix(v: UOp, k: int) -> UOp:
    rows = padded(v, (max(-k, 0),), (max(k, 0),))
    shape = (rows.size, rows.size)
    distance = build.iota(shape, 1) - build.iota(shape, 0)
    lines = spread(reshaped(rows, (rows.size, 1)), shape)
    on_diagonal = build.eq(distance, const(k, distance.dtype, shape))
    return build.where(on_diagonal, lines, const(0, v.dtype, shape))


def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The sums of the diagonals of two axes.

    Args:
        a: array of two axes at least.
        offset: number of the diagonal: 0 is the main one, positive ones lie above it, negative ones
            below.
        axis1: axis of the rows, counted from the end if negative; the first by default.
        axis2: axis of the columns, counted from the end if negative; the second by default.
        dtype: dtype of the sums, as for `sum`; None takes that of `a`, but 32 bits at least.
        out: None, for NumPy's calls of it: an array never changes.

    Returns:
        An array without the two axes.

    Raises:
        ShapeError: if there are fewer than two axes.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> trace(tnp.array([[1, 2], [3, 4]])).item()
        5
    """
    no_out("trace", out)
    return diagonal(a, offset, axis1, axis2).sum(-1, dtype)


def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = False
) -> Array:
    """A new array with `val` in place of the elements whose indices are all equal.

    Args:
        a: matrix, or array of more axes, all of one size.
        val: number, or array whose elements are taken in turn, again from the first at its end.
        wrap: whether the diagonal of a tall matrix begins anew beneath its end, one row further
            down.
        inplace: must be False: the result is a new array.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        ArgumentError: unless `inplace` is False, since arrays cannot be changed.
        ShapeError: for fewer than two axes, or more that differ in size.

    Example:
        >>> import tfn.numpy as tnp
        >>> fill_diagonal(tnp.zeros((2, 2), "int32"), 7).tolist()
        [[7, 0], [0, 7]]
    """
    not_in_place("fill_diagonal", inplace)
    x = array_of("fill_diagonal", a)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ShapeError(
            "fill_diagonal needs a matrix, or equal sizes",
            got=shown(x),
            hint="set the elements with x.at[tfn.numpy.arange(n), ...].set(value)",
        )
    step = sum(math.prod(x.shape[axis:]) for axis in range(1, x.ndim + 1))
    end = x.size if wrap or x.ndim > 2 else min(x.size, x.shape[1] ** 2)
    value = asarray(val, x.dtype)
    return apply(_fill_diagonal, (x, value), step, end, weak=x.weak_type)


def _fill_diagonal(x: UOp, value: UOp, step: int, end: int) -> UOp:
    place = build.reshape(build.iota((x.size,), 0), x.shape)
    on = build.eq(place % step, build.full_like(place, 0)) & (place < end)
    if not value.size:
        return x
    value = build.reshape(cast(value, x.dtype), (value.size,))
    if value.size == 1:
        return build.where(on, spread(build.reshape(value, ()), x.shape), x)
    which = build.reshape(place // step % value.size, (*x.shape, 1))
    return build.where(on, build.reshape(build.gather(value, which, (1,)), x.shape), x)
