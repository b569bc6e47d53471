"""Reductions over axes and over windows, argmax, argmin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import dtypes, tree
from tfn._support.validate import of_each_axis, rank
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, COMPLEXES, INTEGERS, DTypeLike
from tfn.eager.operands import Axes, one_axis, some_axes
from tfn.errors import ArgumentError, DTypeError, ShapeError
from tfn.lax import elementwise
from tfn.lax.associative import (
    Arrays,
    Combination,
    arrays_of_one_shape,
    combination,
    reduce_pairs,
    reduced_rows,
)
from tfn.lax.movement import broadcast, moveaxis, pad, reshape, slice_in_dim
from tfn.lax.operand import array, show
from tfn.lax.window_padding import Pairs, dilated, padtype_to_pads, pairs_of
from tfn.trace.argument import Reduce
from tfn.trace.bind import bind
from tfn.trace.build import accumulator, identity
from tfn.trace.op import Op

Computation = Callable[[Any, Any], Any]

MONOID: dict[Computation, Op] = {
    elementwise.add: Op.ADD,
    elementwise.mul: Op.MUL,
    elementwise.max: Op.MAX,
    elementwise.min: Op.MIN,
    elementwise.bitwise_or: Op.MAX,
    elementwise.bitwise_and: Op.MIN,
}
"""The functions that a reduction may be given; the bitwise ones for bool only."""


def fold(op: Op, x: ArrayLike, axes: Axes) -> Array:
    """Reduces an array over axes by an associative op with an identity; the axes vanish.

    Args:
        op: Op.ADD, Op.MUL, Op.MAX or Op.MIN.
        x: array of any shape.
        axes: one or several axes, or None for all.
    """
    x = array(x)
    over = tuple(sorted(some_axes("a reduction", axes, len(x.shape))))
    return bind(Op.REDUCE, x, arg=Reduce(op, over), weak=x.weak_type) if over else x


def reduce_sum(operand: ArrayLike, axes: Axes = None) -> Array:
    """Returns the sum over axes, all for None; 16-bit floats are summed in 32 bits.

    Raises:
        AxisError: if an axis does not exist or is named twice.

    Example:
        >>> from tfn.lax.movement import iota
        >>> reduce_sum(iota("int32", 4), (0,)).tolist()
        6
    """
    return fold(Op.ADD, operand, axes)


def reduce_prod(operand: ArrayLike, axes: Axes = None) -> Array:
    """Returns the product over axes, all for None; 1 of no elements.

    Raises:
        AxisError: if an axis does not exist or is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> reduce_prod(tnp.array([[1, 5], [7, 2]]), (1,))
        Array([ 5, 14], dtype=int32)
    """
    return fold(Op.MUL, operand, axes)


def reduce_max(operand: ArrayLike, axes: Axes = None) -> Array:
    """Returns the largest element over axes, NaN if there is one; -inf or the smallest integer of
    none.

    Raises:
        AxisError: if an axis does not exist or is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> reduce_max(tnp.array([[1, 5], [7, 2]]), (1,))
        Array([5, 7], dtype=int32)
    """
    return fold(Op.MAX, operand, axes)


def reduce_min(operand: ArrayLike, axes: Axes = None) -> Array:
    """Returns the smallest element over axes, NaN if there is one; inf or the largest integer of
    none.

    Raises:
        AxisError: if an axis does not exist or is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> reduce_min(tnp.array([[1, 5], [7, 2]]), (1,))
        Array([1, 2], dtype=int32)
    """
    return fold(Op.MIN, operand, axes)


def reduce_or(operand: ArrayLike, axes: Axes = None) -> Array:
    """Whether any element over axes is true.

    Raises:
        DTypeError: unless operand is bool.

    Example:
        >>> import tfn.numpy as tnp
        >>> reduce_or(tnp.array([[False, False], [False, True]]), (1,))
        Array([False,  True], dtype=bool)
    """
    return fold(Op.MAX, _boolean(operand), axes)


def reduce_and(operand: ArrayLike, axes: Axes = None) -> Array:
    """Whether all elements over axes are true.

    Raises:
        DTypeError: unless operand is bool.

    Example:
        >>> import tfn.numpy as tnp
        >>> reduce_and(tnp.array([[True, False], [True, True]]), (1,))
        Array([False,  True], dtype=bool)
    """
    return fold(Op.MIN, _boolean(operand), axes)


def _boolean(x: ArrayLike) -> Array:
    x = array(x)
    if x.dtype != BOOL:
        raise DTypeError(
            "reduce_and and reduce_or need booleans", got=show(x), hint="compare with zero first"
        )
    return x


def monoid(computation: Any, operands: Any) -> Op | None:
    """The op of a function such as ``lax.max``; None for another, or for several operands."""
    if isinstance(operands, (tuple, list, dict)):
        return None
    dtype = array(operands).dtype
    bits = computation in (elementwise.bitwise_or, elementwise.bitwise_and)
    ends = computation in (elementwise.max, elementwise.min)
    composed = (bits and dtype != BOOL) or (ends and dtype in COMPLEXES)
    return None if composed else MONOID.get(computation)


_INFINITE = {Op.MAX: -float("inf"), Op.MIN: float("inf")}
"""The initial values that change no maximum and no minimum, of whatever dtype."""


def _begin(out: Array, init_value: ArrayLike, computation: Computation, op: Op) -> Array:
    number = isinstance(init_value, (bool, int, float, complex))
    if isinstance(init_value, np.generic):  # float64 is a Python float, float32 is none
        number = number or init_value.dtype == out.dtype
    if not number:
        rank("a reduction", array(init_value), 0, 0, "as initial value")
    if number and init_value == identity(op, out.dtype):
        return out
    if number and init_value == _INFINITE.get(op) and out.dtype in INTEGERS:
        return out  # less, or greater, than all integers
    combined: Array = computation(out, init_value)
    return combined


def reduce(operands: Any, init_values: Any, computation: Computation, dimensions: Axes) -> Any:
    """Reduces an array, or a tree of arrays of one shape, over axes by an associative function.

    A function that `MONOID` lists is one op.  Any other is called with two elements, or two trees
    of elements, as scalars, and combines them pairwise in a tree, in their order.

    Args:
        operands: an array, or a tree of arrays of one shape.
        init_values: an initial value for each operand, combined with the result, and the result
            where there are no elements.
        computation: ``lax.add``, ``lax.max``, ... or an associative function of two elements.
        dimensions: one or several axes, which vanish; all of them if None.

    Returns:
        An array or a tree like the operands, without the axes.

    Raises:
        TreeError: if the initial values, or what the function returns, have another structure.
        ShapeError: if the operands have several shapes.
        AxisError: if an axis does not exist or is named twice.

    Example:
        >>> from tfn.lax.movement import iota
        >>> reduce(iota("int32", 4), 0, elementwise.max, (0,)).tolist()
        3
        >>> reduce(iota("int32", 4), 1, lambda a, b: a + b - a * b, (0,)).tolist()
        1
    """
    op = monoid(computation, operands)
    if op is not None:
        x = array(operands)
        return _begin(fold(op, x, dimensions), init_values, computation, op)
    return reduce_pairs(computation, operands, init_values, dimensions)


def reduce_xor(operand: ArrayLike, axes: Axes = None) -> Array:
    """Returns the bits that are set in an odd number of the elements over axes.

    Raises:
        AxisError: if an axis does not exist or is named twice.
        DTypeError: unless operand is integer or boolean.

    Example:
        >>> from tfn.lax.movement import iota
        >>> reduce_xor(iota("int32", 4), (0,)).tolist()
        0
    """
    operand = array(operand)
    over = some_axes("reduce_xor", axes, len(operand.shape))
    if operand.dtype == BOOL:
        odd = fold(Op.ADD, elementwise.cast(operand, dtypes.INT32), over)
        return elementwise.eq(elementwise.rem(odd, 2), 1)
    out: Array = reduce_pairs(elementwise.bitwise_xor, operand, 0, over)
    return out


# Indices of extremes.


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike = "int32") -> Array:
    """Returns the first index of the largest element along an axis, or of the first NaN if there is
    one.

    Args:
        operand: array with at least one axis.
        axis: integer in [-ndim, ndim); negative axes count from the end.
        index_dtype: integer dtype of the result, in which all indices of the axis must fit.

    Returns:
        An array without the axis.

    Raises:
        ShapeError: if the axis is empty.
        DTypeError: unless `index_dtype` is integer.
        ArgumentError: if `index_dtype` cannot hold the indices.
        AxisError: if there is no such axis.

    Example:
        >>> from tfn.lax.movement import iota
        >>> argmax(iota("int32", 3), 0).tolist()
        2
    """
    return _where_best(Op.MAX, operand, axis, index_dtype)


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike = "int32") -> Array:
    """Returns the first index of the smallest element along an axis, or of the first NaN if there
    is one.

    Args:
        operand: array with at least one axis.
        axis: integer in [-ndim, ndim); negative axes count from the end.
        index_dtype: integer dtype of the result, in which all indices of the axis must fit.

    Returns:
        An array without the axis.

    Raises:
        ShapeError, DTypeError, ArgumentError, AxisError: as `argmax`.

    Example:
        >>> import tfn.numpy as tnp
        >>> argmin(tnp.array([3, 1, 2]), 0, "int32").tolist()
        1
    """
    return _where_best(Op.MIN, operand, axis, index_dtype)


def _where_best(op: Op, x: ArrayLike, axis: int, index_dtype: Any) -> Array:
    x, dtype = array(x), dtypes.canonical(index_dtype)
    axis = one_axis("argmax" if op is Op.MAX else "argmin", axis, len(x.shape))
    if dtype not in INTEGERS:
        raise DTypeError(
            "an index is an integer",
            got=f"index_dtype={dtype.name}",
            hint="say index_dtype='int32'",
        )
    if x.shape[axis] - 1 > dtypes.iinfo(dtype).max:
        raise ArgumentError(
            "the index of an element does not fit into the dtype of indices",
            got=f"{show(x)}, {dtype.name}",
            hint="index_dtype='int64'",
        )
    if x.shape[axis] == 0:
        raise ShapeError(
            "argmax and argmin need an axis with elements",
            got=f"{show(x)}, {axis}",
            hint="check the size of the axis first",
        )
    place: Array = bind(Op.REDUCE, x, arg=Reduce(op, (axis,), dtype))
    return place


# Windows.

MAX_UNROLLED_WINDOW = 8
"""Windows up to this size, in elements, are combined from one strided slice per element, which
fuse into one kernel; larger ones by doubling, which materialises log2(window) arrays."""


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Computation,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Pairs = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Reduces every window of an array, or of a tree of arrays of one shape.

    The window is a product of intervals, so it is reduced one axis after the other.  A function
    that `MONOID` lists is one op, and padding then adds elements that change nothing.  Any other is
    called with two elements, or two trees of elements, and combines them in their order; padding
    then adds initial values.

    Args:
        operand: array of any shape, or a tree of arrays of one shape.
        init_value: a scalar combined with every result, or a tree with one for each operand.
        computation: ``lax.add``, ``lax.max``, ... or an associative function of two elements.
        window_dimensions: size of the window along every axis, at least 1.
        window_strides: steps of the window along every axis, at least 1; 1 if None.
        padding: 'SAME', 'SAME_LOWER', 'VALID', or (low, high) per axis; negative numbers crop.
        base_dilation: distance of neighbouring elements of operand, per axis; 1 if None.
        window_dilation: distance of neighbouring elements of the window, per axis; 1 if None.

    Returns:
        An array or a tree like operand, with one element for each position of the window.

    Raises:
        ArgumentError, ShapeError: for sizes that do not fit, or operands of several shapes.
        TreeError: if the initial values, or what the function returns, have another structure.
        DTypeError: if the function returns other dtypes than it takes.

    Example:
        >>> from tfn.lax.movement import iota
        >>> image = reshape(iota("float32", 4), (1, 2, 2, 1))
        >>> window = (1, 2, 2, 1)
        >>> reduce_window(image, -float("inf"), elementwise.max, window, window, "VALID").tolist()
        [[[[3.0]]]]
        >>> later = lambda x, y: tuple(elementwise.select(y[0] >= x[0], b, a) for a, b in zip(x, y))
        >>> pairs = iota("int32", 4) % 3, iota("int32", 4)
        >>> reduce_window(pairs, (-1, -1), later, (2,), (2,), "VALID")
        (Array([1, 2], dtype=int32), Array([1, 2], dtype=int32))
    """
    op = monoid(computation, operand)
    if op is not None:
        first: Arrays = []
        arrays, structure = [array(operand)], tree.structure(0)
        ends: list[ArrayLike] = [identity(op, arrays[0].dtype)]
        combine: Combination = lambda x, y: [bind(op, x[0], y[0])]
    else:
        arrays, first, structure = arrays_of_one_shape(
            "reduce_window", computation, operand, init_value
        )
        ends, combine = [*first], combination("reduce_window", computation, structure)
    shape = arrays[0].shape
    ndim = len(shape)
    window, strides, spread, between = (
        of_each_axis("reduce_window", argument, value, ndim)
        for argument, value in (
            ("window_dimensions", window_dimensions),
            ("window_strides", window_strides),
            ("window_dilation", window_dilation),
            ("base_dilation", base_dilation),
        )
    )
    reach = dilated(window, spread)
    if isinstance(padding, str):
        padding = padtype_to_pads(dilated(shape, between), reach, strides, padding)
    pads = pairs_of("reduce_window", padding, ndim)
    config = [(low, high, d - 1) for (low, high), d in zip(pads, between, strict=True)]
    dtypes_of = [x.dtype for x in arrays]
    arrays = [pad(x, end, config) for x, end in zip(arrays, ends, strict=True)]
    if op in (Op.ADD, Op.MUL):
        arrays = [elementwise.cast(arrays[0], accumulator(dtypes_of[0]))]
    for axis in range(ndim) if op is not None else reversed(range(ndim)):  # row by row, in order
        places = max((arrays[0].shape[axis] - reach[axis]) // strides[axis] + 1, 0)
        sizes = window[axis], strides[axis], spread[axis], places
        arrays = _fold_windows(arrays, op, combine, axis, *sizes)
    if op is not None:
        return _begin(elementwise.cast(arrays[0], dtypes_of[0]), init_value, computation, op)
    results = combine([broadcast(v, arrays[0].shape) for v in first], arrays)
    if [x.dtype for x in results] != dtypes_of:
        raise DTypeError(
            "the function of reduce_window must return the dtypes that it takes",
            got=f"{', '.join(map(show, results))} for {', '.join(d.name for d in dtypes_of)}",
            hint="cast what it returns: y.astype(x.dtype)",
        )
    return tree.unflatten(structure, results)


def _fold_windows(
    arrays: Arrays,
    op: Op | None,
    combine: Combination,
    axis: int,
    window: int,
    stride: int,
    spread: int,
    places: int,
) -> Arrays:
    """Reduces windows along an axis: element i is the reduction of elements ``i * stride + j *
    spread``.
    """

    def piece(arrays: Arrays, start: int) -> Arrays:
        stop = start + (places - 1) * stride + 1 if places else start
        return [slice_in_dim(x, start, stop, stride, axis) for x in arrays]

    if places == 0 or window == 1:
        return piece(arrays, 0)
    if window <= MAX_UNROLLED_WINDOW:
        out = piece(arrays, 0)
        for j in range(1, window):
            out = combine(out, piece(arrays, j * spread))
        return out
    if spread == 1 and (stride == window or places == 1):
        rows = [slice_in_dim(x, 0, places * window, axis=axis) for x in arrays]
        split = (*rows[0].shape[:axis], places, window, *rows[0].shape[axis + 1 :])
        rows = [reshape(x, split) for x in rows]
        if op is not None:
            return [fold(op, rows[0], axis + 1)]
        total = reduced_rows(combine, [moveaxis(x, axis + 1, 0) for x in rows])
        return [reshape(x, x.shape[1:]) for x in total]
    return piece(_doubled(arrays, combine, axis, window, spread), 0)


def _doubled(arrays: Arrays, combine: Combination, axis: int, window: int, spread: int) -> Arrays:
    """Reduces windows at every position, each from two of half the size: log2(window) steps."""
    if window == 1:
        return arrays
    half = _doubled(arrays, combine, axis, window // 2, spread)
    half = [bind(Op.GBARRIER, x) for x in half]
    step = window // 2 * spread

    def join(xs: Arrays, shift: int, ys: Arrays) -> Arrays:
        size = min(xs[0].shape[axis], ys[0].shape[axis] - shift)
        first = [slice_in_dim(x, 0, size, axis=axis) for x in xs]
        return combine(first, [slice_in_dim(y, shift, shift + size, axis=axis) for y in ys])

    out = join(half, step, half)
    return join(out, 2 * step, arrays) if window % 2 else out
