"""Concatenation: arrays joined, split, repeated and shifted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tfn._support.validate import integer, integers, no_out, rank, several, shown, size_limit, unfit
from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import DType, DTypeLike, canonical
from tfn.eager.operands import (
    apply,
    array_of,
    indices_of,
    known_values,
    listed,
    one_axis,
    operands_of,
    together,
)
from tfn.errors import ArgumentError, ConcretizationTypeError, ShapeError
from tfn.numpy.creation import stacked
from tfn.numpy.manipulation import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    flat_or_axis,
    ravel,
    reshape,
    squeeze,
)
from tfn.trace import build
from tfn.trace.build import cast, shrink
from tfn.trace.build import concat as joined
from tfn.trace.build import reshape as reshaped
from tfn.trace.uop import UOp

Numbers = tuple[int, ...]


def concatenate(
    arrays: Sequence[ArrayLike] | Array, axis: int | None = 0, dtype: DTypeLike | None = None
) -> Array:
    """The arrays joined along an axis that they have.

    Args:
        arrays: list or tuple of arrays, or one array, whose rows are joined.
        axis: axis along which they are joined, counted from the end if negative; None flattens them
            first.
        dtype: dtype of the result; None takes the one that they promote to.

    Raises:
        ShapeError: if the numbers of axes, or the sizes of other axes, differ.
        ArgumentError: if there is no array.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> concatenate([tnp.zeros(2), tnp.ones(1)])
        Array([0., 0., 1.], dtype=float32)
    """
    operands, kind, weak = _several("concatenate", arrays, dtype)
    if axis is None:
        operands, axis = [ravel(x) for x in operands], 0
    if any(x.ndim != operands[0].ndim for x in operands):
        raise unfit(
            "concatenate needs arrays of one number of axes",
            operands,
            "x[None] adds an axis; stack joins along a new one",
        )
    axis = one_axis("concatenate", axis, operands[0].ndim)
    return apply(_joined, operands, axis, kind, weak=weak)


concat = concatenate


def _several(name: str, arrays: object, dtype: DTypeLike | None) -> tuple[list[Array], DType, bool]:
    listed = arrays_of(name, arrays)
    operands, kind, weak = together(name, *listed)
    return (operands, kind, weak) if dtype is None else (operands, canonical(dtype), False)


def arrays_of(name: str, arrays: object) -> Sequence[Any]:
    """The arrays of a sequence, at least one.

    Raises:
        ArgumentError: if there is none, or `arrays` is no sequence.
    """
    listed = several(name, "arrays", arrays, "arrays")
    if not listed:
        raise ArgumentError(
            f"{name} needs at least one array", got=f"arrays={arrays!r}", hint="begin with zeros(0)"
        )
    return listed


def _joined(*parts_and_static: Any) -> UOp:
    *parts, axis, dtype = parts_and_static
    return joined([cast(u, dtype) for u in parts], axis)


def stack(
    arrays: Sequence[ArrayLike] | Array,
    axis: int = 0,
    out: None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The arrays, of one shape, joined along a new axis.

    Args:
        arrays: list or tuple of arrays, or one array, whose rows are joined.
        axis: position of the new axis in the result, counted from the end if negative.
        out: None, for NumPy's calls of it: an array never changes.
        dtype: dtype of the result; None takes the one that they promote to.

    Raises:
        ShapeError: if the shapes differ.
        ArgumentError: if there is no array.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> stack([tnp.array([1, 2]), tnp.array([3, 4])], axis=1).tolist()
        [[1, 3], [2, 4]]
    """
    no_out("stack", out)
    operands, kind, weak = _several("stack", arrays, dtype)
    if any(x.shape != operands[0].shape for x in operands):
        raise unfit(
            "stack needs arrays of one shape", operands, "concatenate joins along an axis they have"
        )
    axis = one_axis("stack", axis, operands[0].ndim + 1)
    return apply(stacked, operands, axis, kind, weak=weak)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The arrays along an axis, which the results do not have.

    Raises:
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> unstack(tnp.array([[1, 2], [3, 4]]))
        (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    x = array_of("unstack", x)
    axis = one_axis("unstack", axis, x.ndim)
    return (
        tuple(squeeze(part, axis) for part in split(x, x.shape[axis], axis))
        if x.shape[axis]
        else ()
    )


def vstack(tup: Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """The arrays joined along the first axis, in `dtype` or the promoted one; vectors become rows.

    Raises:
        ShapeError: if the sizes of other axes differ.
        ArgumentError: if there is no array.

    Example:
        >>> import tfn.numpy as tnp
        >>> vstack([tnp.array([1, 2]), tnp.array([3, 4])]).tolist()
        [[1, 2], [3, 4]]
    """
    return concatenate(
        [atleast_2d(x) for x in operands_of("vstack", *arrays_of("vstack", tup))], 0, dtype=dtype
    )


def hstack(tup: Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """The arrays joined along the second axis, vectors along their only one; see `vstack`.

    Raises:
        ShapeError: if the sizes of other axes differ.
        ArgumentError: if there is no array.

    Example:
        >>> import tfn.numpy as tnp
        >>> hstack([tnp.array([1, 2]), tnp.array([3])])
        Array([1, 2, 3], dtype=int32)
    """
    rows = [atleast_1d(x) for x in operands_of("hstack", *arrays_of("hstack", tup))]
    return concatenate(rows, 0 if rows[0].ndim == 1 else 1, dtype=dtype)


def dstack(tup: Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """The arrays joined along the third axis, which is added where it is missing; see `vstack`.

    Raises:
        ShapeError: if the sizes of other axes differ.
        ArgumentError: if there is no array.

    Example:
        >>> import tfn.numpy as tnp
        >>> dstack([tnp.ones((2, 3)), tnp.zeros((2, 3))]).shape
        (2, 3, 2)
    """
    return concatenate(
        [atleast_3d(x) for x in operands_of("dstack", *arrays_of("dstack", tup))], 2, dtype=dtype
    )


def column_stack(tup: Sequence[ArrayLike]) -> Array:
    """The matrix whose columns are vectors, or those of matrices.

    Raises:
        ShapeError: for arrays of three and more axes, or if the numbers of rows differ.
        ArgumentError: if there is no array.

    Example:
        >>> import tfn.numpy as tnp
        >>> column_stack([tnp.array([1, 2]), tnp.array([3, 4])]).tolist()
        [[1, 3], [2, 4]]
    """
    columns = operands_of("column_stack", *arrays_of("column_stack", tup))
    for x in columns:
        rank("column_stack", x, 0, 2)
    return concatenate([reshape(x, (-1, 1)) if x.ndim < 2 else x for x in columns], 1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Two arrays joined along an axis, in a new array.

    Args:
        arr: first array.
        values: second array.
        axis: axis along which they are joined, counted from the end if negative; None flattens both
            first.

    Raises:
        ShapeError: if the numbers of axes, or the sizes of other axes, differ.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> append(tnp.array([1, 2]), tnp.array([3]))
        Array([1, 2, 3], dtype=int32)
    """
    return concatenate([arr, values], axis)


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """The parts of an axis: a number of equal ones, or cut at indices.

    Args:
        ary: array or number.
        indices_or_sections: number of parts, or the indices at which a new part begins; negative
            ones count from the end.
        axis: axis that is cut, counted from the end if negative.

    Raises:
        ShapeError: if the axis cannot be cut into equal parts.
        ArgumentError: unless there is one part at least.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> [x.tolist() for x in split(tnp.arange(5), [1, 3])]
        [[0], [1, 2], [3, 4]]
    """
    ary = array_of("split", ary)
    size = ary.shape[one_axis("split", axis, ary.ndim)]
    if _is_number(indices_or_sections):
        parts = integer("split", "indices_or_sections", indices_or_sections, 1)
        if size % parts:
            raise ShapeError(
                f"split cannot cut {size} elements into {parts} equal parts",
                got=f"{shown(ary)}, axis={axis}",
                hint="array_split makes parts of unequal size",
            )
    return array_split(ary, indices_or_sections, axis)


def _is_number(value: object) -> bool:
    return not isinstance(value, (list, tuple)) and getattr(value, "ndim", 0) == 0


def array_split(ary: ArrayLike, indices_or_sections: object, axis: int = 0) -> list[Array]:
    """The parts of an axis: a number of nearly equal ones, the larger first, or cut at indices.

    Args:
        ary: array or number.
        indices_or_sections: number of parts, or the indices at which a new part begins; negative
            ones count from the end.
        axis: axis that is cut, counted from the end if negative.

    Raises:
        ArgumentError: unless there is one part at least.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> [x.tolist() for x in array_split(tnp.arange(5), 2)]
        [[0, 1, 2], [3, 4]]
    """
    ary = array_of("array_split", ary)
    axis = one_axis("array_split", axis, ary.ndim)
    size = ary.shape[axis]
    if _is_number(indices_or_sections):
        parts = integer("array_split", "indices_or_sections", indices_or_sections, 1)
        size_limit("array_split", (parts,))
        small, larger = divmod(size, parts)
        sizes = [small + 1] * larger + [small] * (parts - larger)
        cuts = [0, *np.cumsum(sizes).tolist()]
    else:
        inner = integers("split", "indices_or_sections", indices_or_sections)
        cuts = [0, *[min(max(i + size if i < 0 else i, 0), size) for i in inner], size]
    return [
        apply(section, (ary,), axis, a, max(a, b), weak=ary.weak_type) for a, b in pairwise(cuts)
    ]


def section(x: UOp, axis: int, start: int, stop: int) -> UOp:
    """The elements `start` to `stop` - 1 of one axis of a node.

    Args:
        x: the node.
        axis: the axis, from 0.
        start: index of the first element.
        stop: index after the last element.
    """
    first = tuple(start if a == axis else 0 for a in range(x.ndim))
    last = tuple(stop if a == axis else n for a, n in enumerate(x.shape))
    return shrink(x, first, last)


def vsplit(ary: ArrayLike, indices_or_sections: object) -> list[Array]:
    """The parts of the first axis; see `split`.

    Raises:
        ShapeError: for fewer than two axes, or if the axis cannot be cut into equal parts.

    Example:
        >>> import tfn.numpy as tnp
        >>> [x.shape for x in vsplit(tnp.ones((6, 2)), 3)]
        [(2, 2), (2, 2), (2, 2)]
    """
    rank("vsplit", array_of("vsplit", ary), 2)
    return split(ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: object) -> list[Array]:
    """The parts of the second axis, or of the only one; see `split`.

    Raises:
        ShapeError: for an array without axes, or if the axis cannot be cut into equal parts.

    Example:
        >>> import tfn.numpy as tnp
        >>> [x.shape for x in hsplit(tnp.ones((2, 6)), 3)]
        [(2, 2), (2, 2), (2, 2)]
    """
    ary = array_of("hsplit", ary)
    rank("hsplit", ary, 1)
    return split(ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


def tile(A: ArrayLike, reps: object) -> Array:
    """The array repeated side by side, a number of times along each axis.

    Raises:
        ArgumentError: unless the numbers are integers from 0 on.

    Example:
        >>> import tfn.numpy as tnp
        >>> tile(tnp.array([1, 2]), (2, 2)).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    A = array_of("tile", A)
    counts = integers("tile", "reps", listed(reps), 0)
    counts = (1,) * (A.ndim - len(counts)) + counts
    return apply(_tiled, (A,), counts, weak=A.weak_type)


def _tiled(x: UOp, counts: Numbers) -> UOp:
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    doubled = tuple(n for size in shape for n in (1, size))
    full = tuple(n for count, size in zip(counts, shape) for n in (count, size))
    result = tuple(count * size for count, size in zip(counts, shape))
    return reshaped(build.expand(reshaped(x, doubled), full), result)


def repeat(
    a: ArrayLike,
    repeats: object,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
) -> Array:
    """The array with each element along an axis repeated.

    Args:
        a: array or number.
        repeats: number of repetitions, or a vector of one for each element; not negative.
        axis: axis whose elements are repeated, counted from the end if negative; None takes the
            flat array.
        total_repeat_length: size of the axis in the result: more is cut off, and the last element
            fills up; None takes the sum of `repeats`.

    Returns:
        An array of the dtype of `a`, with ``sum(repeats)`` elements along the axis.

    Raises:
        ConcretizationTypeError: if `repeats` is being traced.
        ShapeError: unless there is one number, or one for each element.
        ArgumentError: for a negative number.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> repeat(tnp.array([1, 2]), 2)
        Array([1, 1, 2, 2], dtype=int32)
    """
    a, axis = flat_or_axis("repeat", a, axis)
    size, total = a.shape[axis], total_repeat_length
    counts = _counts(repeats, size)
    if len(counts) == 1 and total is None:
        return apply(_repeated, (a,), axis, int(counts[0]), weak=a.weak_type)
    size_limit("repeat", (int(counts.sum(dtype=np.float64)) * (size if len(counts) == 1 else 1),))
    places = np.repeat(np.arange(size), counts)
    if total is not None:
        missing = max(integer("repeat", "total_repeat_length", total, 0) - len(places), 0)
        size_limit("repeat", (missing,))
        places = np.pad(places, (0, missing), mode="edge")[:total]
    if not places.size:
        return apply(section, (a,), axis, 0, 0, weak=a.weak_type)
    index = indices_of("repeat", places, a.shape[axis])
    return apply(gather_along, (a, index), axis, weak=a.weak_type)


def _counts(repeats: object, size: int) -> np.ndarray[Any, Any]:
    """The number of repetitions of each element of an axis, or the one of all."""
    values = known_values("repeat", repeats, "mark the argument static_argnums in jit")
    if values.shape not in ((), (1,), (size,)):
        raise ShapeError(
            "repeat needs one number, or one for each element of the axis",
            got=f"repeats={shown(repeats)} for {size} elements",
            hint="pass an int to repeat each element as often",
        )
    if values.ndim == 0:
        return np.array([integer("repeat", "repeats", repeats, 0)])
    if values.dtype.kind not in "iub":
        return np.array(integers("repeat", "repeats", values.tolist(), 0))
    integer("repeat", "repeats", int(values.min()) if values.size else 0, 0)
    return values.astype(np.int64)  # NumPy repeats by no uint64


def _repeated(x: UOp, axis: int, count: int) -> UOp:
    inserted = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    expanded = (*x.shape[: axis + 1], count, *x.shape[axis + 1 :])
    result = (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :])
    return reshaped(build.expand(reshaped(x, inserted), expanded), result)


def gather_along(x: UOp, index: UOp, axis: int) -> UOp:
    """The slices of an axis of a node at the indices of a vector.

    Args:
        x: the node.
        index: vector of indices, none of them negative.
        axis: the axis, from 0.
    """
    front = build.moveaxis(x, axis, 0)
    windows = build.gather(front, reshaped(index, (*index.shape, 1)), (1, *front.shape[1:]))
    return build.moveaxis(reshaped(windows, (*index.shape, *front.shape[1:])), 0, axis)


def roll(a: ArrayLike, shift: int | Sequence[int], axis: Axes = None) -> Array:
    """The array with its elements moved along axes; those moved past the end come in at the front.

    Args:
        a: array or number.
        shift: number of places, negative to move to the front; or one for each axis. It may be
            traced.
        axis: axis or axes, counted from the end if negative; None moves in the flat array.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        ArgumentError: unless there is one shift, or one for each axis.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> roll(tnp.arange(4), 1)
        Array([3, 0, 1, 2], dtype=int32)
    """
    a = array_of("roll", a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    axes = [one_axis("roll", i, a.ndim) for i in listed(axis)]
    shifts = list(listed(shift))
    axes *= len(shifts) if len(axes) == 1 else 1
    shifts *= len(axes) if len(shifts) == 1 else 1
    if len(shifts) != len(axes):
        raise ArgumentError(
            "roll needs one shift for each axis",
            got=f"shift={shift}, axis={axis}",
            hint="pass a single shift to move all axes as far",
        )
    moves: list[tuple[int, int | None]] = []
    unknown = []
    for i, places in zip(axes, shifts):
        try:
            moves.append((i, integer("roll", "shift", places) % max(a.shape[i], 1)))
        except ConcretizationTypeError:
            moves.append((i, None))
            unknown.append(places)
    return apply(_rolled, (a, *unknown), tuple(moves), weak=a.weak_type)


def _rolled(x: UOp, *shifts_and_moves: Any) -> UOp:
    *shifts, moves = shifts_and_moves
    unknown = iter(shifts)
    for axis, shift in moves:
        size = x.shape[axis]
        if shift is None:
            places = next(unknown)
            dtype = build.index_dtype(size, places.dtype)
            start = build.broadcast_to(cast(places, dtype), (size,))
            x = gather_along(x, (build.iota((size,), 0, dtype) - start) % max(size, 1), axis)
        elif shift:
            cut = size - shift
            x = joined([section(x, axis, cut, size), section(x, axis, 0, cut)], axis)
    return x
