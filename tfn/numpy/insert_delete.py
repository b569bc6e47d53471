"""Insertion, deletion, replacement and blocks, at indices that Python knows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn._support.validate import a_function, element_type, integer, integers, no_out, one_of, shown
from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import BOOL, INTEGERS
from tfn.eager.operands import (
    a_shape,
    array_of,
    indices_of,
    known_values,
    not_in_place,
    one_axis,
    operands_of,
    scalar_kind,
    some_axes,
)
from tfn.errors import ArgumentError, OutOfBoundsError, ShapeError
from tfn.numpy.arithmetic import clip
from tfn.numpy.concatenation import arrays_of, concatenate, split, tile
from tfn.numpy.creation import asarray, ones
from tfn.numpy.index_grids import diag_indices, within
from tfn.numpy.indexing import getitem
from tfn.numpy.logic import where
from tfn.numpy.manipulation import broadcast_to, diag, flat_or_axis, moveaxis
from tfn.numpy.sorting import argsort, sort
from tfn.numpy.updates import update
from tfn.trace.build import index_dtype

OUTSIDE = "compute it outside of the traced function, or mark the argument static_argnums in jit"


def _places(name: str, obj: object, size: int) -> np.ndarray[Any, Any]:
    """Known indices along an axis, from an integer, a slice, a list or an array."""
    if isinstance(obj, slice):
        return np.arange(size)[obj]
    places = known_values(name, obj, OUTSIDE)
    if places.dtype == bool:
        if places.ndim and places.shape != (size,):
            raise OutOfBoundsError(
                f"{name} needs a mask of the size of the axis",
                got=f"obj={shown(obj)}, an axis of {size} elements",
                hint="name the axis of the mask with axis=",
            )
        return np.flatnonzero(places)
    if places.size and places.dtype.kind not in "iu":
        integers(name, "obj", np.atleast_1d(places).tolist())
    last = size - (name == "delete")
    if places.size and not (-size <= places.min() and places.max() <= last):
        raise OutOfBoundsError(
            f"{name} got places outside of the axis",
            got=f"obj={shown(obj)}, an axis of {size} elements",
            hint=f"places go from {-size} to {last}",
        )
    return np.where(places < 0, places + size, places).astype(np.int64)


def delete(
    arr: ArrayLike, obj: object, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Array:
    """The array without the elements at indices along an axis, or of the flat array.

    Args:
        arr: array of any shape.
        obj: index, slice, list or array of indices, or mask, along the axis; its value must be
            known.
        axis: the axis, counted from the end if negative; None takes the flat array.
        assume_unique_indices: accepted as in JAX, and changes nothing.

    Returns:
        An array of the dtype of `arr`.

    Raises:
        TracerArrayConversionError: if `obj` is traced.
        OutOfBoundsError: for an index outside of the axis.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> delete(tnp.arange(4), 1)
        Array([0, 2, 3], dtype=int32)
    """
    x, at = flat_or_axis("delete", arr, axis)
    indices = np.delete(np.arange(x.shape[at]), _places("delete", obj, x.shape[at]))
    return getitem(x, (slice(None),) * at + (indices_of("delete", indices, x.shape[at]),))


def insert(arr: ArrayLike, obj: object, values: ArrayLike, axis: int | None = None) -> Array:
    """The array with values inserted before indices along an axis, or of the flat array.

    Args:
        arr: array of any shape.
        obj: index, slice, list or array of indices, or mask, along the axis; its value must be
            known.
        values: array or number, converted to the dtype of `arr`, that broadcasts to the inserted
            part.
        axis: the axis, counted from the end if negative; None takes the flat array.

    Returns:
        An array of the dtype of `arr`.

    Raises:
        TracerArrayConversionError: if `obj` is traced.
        OutOfBoundsError: for an index outside of the axis.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> insert(tnp.arange(3), 1, 9)
        Array([0, 9, 1, 2], dtype=int32)
    """
    x, at = flat_or_axis("insert", arr, axis)
    size = x.shape[at]
    places = _places("insert", obj, size)
    new = asarray(values, x.dtype)
    shape = list(x.shape)
    if places.ndim == 0:
        new = new.reshape((1,) * (x.ndim - new.ndim) + new.shape)
        new = moveaxis(new, 0, at)
        shape[at] = new.shape[at]
        places = np.full(shape[at], int(places))
    else:
        shape[at] = places.size
    new = broadcast_to(new, tuple(shape))
    order = np.argsort(np.concatenate([places - 0.5, np.arange(size)]), kind="stable")
    both = concatenate([new, x], at)
    return getitem(both, (slice(None),) * at + (indices_of("insert", order, order.size),))


def resize(a: ArrayLike, new_shape: object) -> Array:
    """The elements in order in a new shape: repeated if there are too few, cut off if too many.

    Raises:
        ShapeError: if a size is negative, or there are no elements to repeat.

    Example:
        >>> import tfn.numpy as tnp
        >>> resize(tnp.array([1, 2, 3]), (2, 2)).tolist()
        [[1, 2], [3, 1]]
    """
    x, shape = array_of("resize", a), a_shape("resize", new_shape)
    size = int(np.prod(shape, dtype=np.int64))
    if not x.size:
        if size:
            raise ShapeError(
                "resize cannot fill an array with nothing",
                got=f"{shown(x)}, new_shape={shape}",
                hint="zeros(new_shape) is filled",
            )
        return x.reshape(shape)
    flat = tile(x.reshape(x.size), -(-size // x.size)) if size else x.reshape(x.size)
    return getitem(flat, (slice(size),)).reshape(shape)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axes = None) -> Array:
    """The array without the slices of zeros at its ends; its value must be known.

    Args:
        filt: array of any shape.
        trim: ends that are trimmed: "f" for the front, "b" for the back, "fb" for both.
        axis: axis or axes along which they are; None takes all.

    Returns:
        An array of the same dtype and number of axes.

    Raises:
        TracerArrayConversionError: for a traced value.
        AxisError: if the array has no such axis, or one is named twice.
        ArgumentError: unless `trim` is "f", "b" or "fb".

    Example:
        >>> import tfn.numpy as tnp
        >>> trim_zeros(tnp.array([0, 1, 0, 2, 0]))
        Array([1, 0, 2], dtype=int32)
    """
    x = array_of("trim_zeros", filt)
    axes = some_axes("trim_zeros", axis, x.ndim)
    one_of("trim_zeros", "trim", trim.lower() if isinstance(trim, str) else trim, ("fb", "f", "b"))
    places = np.nonzero(known_values("trim_zeros", x, OUTSIDE))
    kept = [slice(None)] * x.ndim
    for a in axes:
        line, size = places[a], x.shape[a]
        first = int(line.min(initial=size)) if "f" in trim.lower() else 0
        last = int(line.max(initial=-1)) + 1 if "b" in trim.lower() else size
        kept[a] = slice(first, max(first, last)) if line.size else slice(0)
    return x[tuple(kept)]


def block(arrays: object) -> Array:
    """The array of nested lists of blocks: the innermost lists are joined along the last axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> block([[tnp.ones((1, 1)), tnp.zeros((1, 2))]]).shape
        (1, 3)
    """
    depth = _depth(arrays)
    blocks: list[Any] = []
    _gather(arrays, blocks)
    leaves = operands_of("block", *blocks)
    ndim = max(depth, *(x.ndim for x in leaves))
    rest = iter(leaves)

    def joined(part: Any, level: int) -> Array:
        if not isinstance(part, list):
            x = next(rest)
            return x.reshape((1,) * (ndim - x.ndim) + x.shape)
        return concatenate([joined(p, level + 1) for p in part], ndim - depth + level)

    return joined(arrays, 0)


def _depth(part: object) -> int:
    if not isinstance(part, list):
        return 0
    depths = {_depth(p) for p in part}
    if len(depths) != 1:
        raise ArgumentError(
            "block needs lists that are nested equally deep, and not empty",
            got=shown(part),
            hint="write each row as a list: block([[a, b], [c, d]])",
        )
    return 1 + depths.pop()


def _gather(part: object, leaves: list[Any]) -> None:
    if isinstance(part, list):
        for p in part:
            _gather(p, leaves)
    else:
        leaves.append(part)


def dsplit(ary: ArrayLike, indices_or_sections: object) -> list[Array]:
    """The parts of the third axis; see `split`.

    Example:
        >>> import tfn.numpy as tnp
        >>> [part.shape for part in dsplit(tnp.ones((2, 3, 4)), 2)]
        [(2, 3, 2), (2, 3, 2)]
    """
    return split(ary, indices_or_sections, 2)


def choose(
    a: ArrayLike,
    choices: Any,
    out: None = None,
    mode: str = "raise",
) -> Array:
    """The elements of several arrays, each from the one whose number `a` holds.

    Args:
        a: integers, or booleans.
        choices: list of arrays, broadcast with `a`.
        out: None, for NumPy's calls of it: an array never changes.
        mode: numbers outside: "wrap" counts around; "clip", and "raise", whose check would need
            values, move to the border.

    Returns:
        An array of the broadcast shape and the promoted dtype.

    Raises:
        DTypeError: unless `a` holds integers or booleans.
        ArgumentError: for another mode, or no choices.
        OutOfBoundsError: for an index without a choice, if it raises and is known.

    Example:
        >>> import tfn.numpy as tnp
        >>> choose(tnp.array([0, 1, 0]), [tnp.array([1, 2, 3]), 9], mode="clip")
        Array([1, 9, 3], dtype=int32)
    """
    no_out("choose", out)
    index = array_of("choose", a)
    one_of("choose", "mode", mode, ("raise", "wrap", "clip"))
    element_type("choose", index, INTEGERS | {BOOL}, "integers, which say which choice")
    arrays = operands_of("choose", *arrays_of("choose", choices))
    index = clip(within("choose", index, len(arrays), mode), 0, len(arrays) - 1)
    result = arrays[0]
    for i, choice in enumerate(arrays[1:], 1):
        result = where(index == i, choice, result)
    return where(index == 0, arrays[0], result)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = False) -> Array:
    """A new array with the elements under a mask replaced by values in order, repeated.

    Args:
        arr: array of any shape.
        mask: array of as many elements, whose values are known.
        vals: number, or array whose elements are put in order.
        inplace: must be False: the result is a new array.

    Returns:
        An array of the shape and dtype of `arr`.

    Raises:
        ArgumentError: unless `inplace` is False, since arrays cannot be changed.
        TracerArrayConversionError: if the mask is traced.

    Example:
        >>> import tfn.numpy as tnp
        >>> place(tnp.arange(4), tnp.array([True, False, True, False]), 9, inplace=False)
        Array([9, 1, 9, 3], dtype=int32)
    """
    not_in_place("place", inplace)
    x = array_of("place", arr)
    places = np.flatnonzero(known_values("place", mask, "where(mask, value, x) takes traced masks"))
    values = _repeated("place", vals, places.size)
    flat = update(x.reshape(x.size), (indices_of("place", places, x.size),), values, "set")
    return flat.reshape(x.shape)


def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = False
) -> Array:
    """A new array with the elements at flat indices replaced by values in order, repeated.

    Args:
        a: array of any shape.
        ind: integers; negative ones count from the end.
        v: number, or array whose elements are put in order.
        mode: indices outside: None leaves them out, "clip" moves them to the border, "wrap" counts
            around.
        inplace: must be False: the result is a new array.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        ArgumentError: unless `inplace` is False, or for another mode.
        DTypeError: unless `ind` holds integers.

    Example:
        >>> import tfn.numpy as tnp
        >>> put(tnp.arange(4), tnp.array([0, -1]), 9, inplace=False)
        Array([9, 1, 2, 9], dtype=int32)
    """
    not_in_place("put", inplace)
    one_of("put", "mode", mode, (None, "clip", "wrap"))
    x, places = array_of("put", a), array_of("put", ind)
    element_type("put", places, INTEGERS, "integer places")
    places = places.reshape(places.size).astype(index_dtype(x.size, places.dtype))
    places = places % max(x.size, 1) if mode == "wrap" else places
    values = _repeated("put", v, places.size)
    how = "clip" if mode == "clip" else "drop"
    return update(x.reshape(x.size), (places,), values, "set", how).reshape(x.shape)


def _repeated(name: str, values: ArrayLike, size: int) -> ArrayLike:
    """Values in order, repeated to a size; a number as it is."""
    if scalar_kind(values) is not None:
        return values
    return resize(array_of(name, values).reshape(-1), size)


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with all elements on its k-th diagonal.

    Example:
        >>> import tfn.numpy as tnp
        >>> diagflat(tnp.array([1, 2])).tolist()
        [[1, 0], [0, 2]]
    """
    x = array_of("diagflat", v)
    return diag(x.reshape(x.size), k)


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The coordinates of the main diagonal of an array with axes of one size.

    Raises:
        ShapeError: if the sizes differ.

    Example:
        >>> import tfn.numpy as tnp
        >>> diag_indices_from(tnp.ones((2, 2)))
        (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    x = array_of("diag_indices_from", arr)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise ShapeError(
            "diag_indices_from needs axes of one size",
            got=shown(x),
            hint="diag_indices(n, ndim) takes the size itself",
        )
    return diag_indices(x.shape[0], x.ndim)


def partition(a: ArrayLike, kth: int, axis: int | None = -1) -> Array:
    """The elements, all sorted, so that the k-th smallest is at index `kth`.

    Args:
        a: array of any shape.
        kth: index along the axis, counted from the end if negative.
        axis: the axis, counted from the end if negative; None takes the flat array.

    Returns:
        An array of the shape and dtype of `a`, or a vector of all elements.

    Raises:
        OutOfBoundsError: if the axis has no such index.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> partition(tnp.array([5, 1, 4]), 1)
        Array([1, 4, 5], dtype=int32)
    """
    return sort(_parted("partition", a, kth, axis), axis)


def _parted(name: str, a: ArrayLike, kth: int, axis: int | None) -> Array:
    """An array, checked to have a k-th element along the axis."""
    x = array_of(name, a)
    size = x.size if axis is None else x.shape[one_axis(name, axis, x.ndim)]
    if not -size <= integer(name, "kth", kth) < size:
        raise OutOfBoundsError(
            f"{name} got kth={kth} of {size} elements",
            got=f"kth={kth}",
            hint=f"elements are counted from {-size} to {size - 1}",
        )
    return x


def argpartition(a: ArrayLike, kth: int, axis: int | None = -1) -> Array:
    """The indices that `partition` an array along an axis: those of `argsort`.

    Args:
        a: array of any shape.
        kth: index along the axis, counted from the end if negative.
        axis: the axis, counted from the end if negative; None takes the flat array.

    Returns:
        An integer array of the shape of `a`, or a vector of as many elements.

    Raises:
        OutOfBoundsError: if the axis has no such index.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> argpartition(tnp.array([5, 1, 4]), 1)
        Array([1, 2, 0], dtype=int32)
    """
    order = argsort(_parted("argpartition", a, kth, axis), axis)
    return order.astype(index_dtype(max(order.shape, default=0)))  # not the default, as in JAX


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """The differences of neighbours in the flat array, with values put at the ends.

    Args:
        ary: array of any shape.
        to_end: number or array put after the differences, converted to the dtype; None for nothing.
        to_begin: number or array put before the differences, likewise.

    Returns:
        A vector of the dtype of `ary`.

    Example:
        >>> import tfn.numpy as tnp
        >>> ediff1d(tnp.array([1, 4, 9]))
        Array([3, 5], dtype=int32)
    """
    x = array_of("ediff1d", ary)
    x = x.reshape(x.size)
    parts = [to_begin, x[1:] - x[:-1] if x.size else x, to_end]
    vectors = [asarray(p, x.dtype).reshape(-1) for p in parts if p is not None]
    return concatenate(vectors)


def mask_indices(
    n: int, mask_func: Any, k: int = 0, *, size: int | None = None
) -> tuple[Array, ...]:
    """The indices of the elements of an n by n matrix that a function such as `triu` leaves.

    Args:
        n: number of rows and columns.
        mask_func: function of a matrix of ones and `k`.
        k: second argument of the function, the number of a diagonal; 0 by default.
        size: number of indices, missing ones 0; None takes as many as there are.

    Returns:
        One integer vector for each axis.

    Raises:
        ArgumentError: unless `mask_func` can be called.
        ShapeError: if `n` is negative.

    Example:
        >>> import tfn.numpy as tnp
        >>> mask_indices(2, tnp.triu)
        (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    a_function("mask_indices", "mask_func", mask_func)
    mask = np.asarray(mask_func(ones(a_shape("mask_indices", (n, n)), "int32"), k))
    lines = np.nonzero(mask)
    if size is not None:
        size = integer("mask_indices", "size", size, 0)
        lines = tuple(np.pad(line[:size], (0, max(size - line.size, 0))) for line in lines)
    return tuple(indices_of("mask_indices", line, n) for line in lines)
