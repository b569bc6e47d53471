"""Reductions that ignore NaN: sums, extremes, means, and the indices of extremes."""

from __future__ import annotations

import math
from typing import Any

from tfn._support.validate import no_out
from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import BOOL, FLOATS, INEXACT, DTypeLike
from tfn.eager.operands import apply, array_of, broadcast_shape, fit, some_axes
from tfn.numpy import reductions
from tfn.numpy.cumulative import cumprod, cumsum
from tfn.numpy.logic import truth
from tfn.trace import build
from tfn.trace.build import eq, full_like
from tfn.trace.build import where as choose
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Numbers = tuple[int, ...]


def nansum(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The sum of the elements over axes that are not NaN, 0 of none.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        dtype: dtype of the result; None takes that of `a`, but 32 bits at least for integers.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether reduced axes stay, with size 1.
        initial: value that is combined with the result of each reduction; None adds none.
        where: mask that broadcasts to `a`: elements where it is false are left out; None takes all.

    Returns:
        An array without the reduced axes, or with size 1 there.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> nansum(tnp.array([1.0, float("nan"), 3.0])).item()
        4.0
    """
    no_out("nansum", out)
    return reductions.sum(
        _instead_of_nan("nansum", a, 0), axis, dtype, None, keepdims, initial=initial, where=where
    )


def nanprod(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The product of the elements over axes that are not NaN, 1 of none.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        dtype: dtype of the result; None takes that of `a`, but 32 bits at least for integers.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether reduced axes stay, with size 1.
        initial: value that is combined with the result of each reduction; None adds none.
        where: mask that broadcasts to `a`: elements where it is false are left out; None takes all.

    Returns:
        An array without the reduced axes, or with size 1 there.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanprod(tnp.array([2.0, float("nan"), 3.0])).item()
        6.0
    """
    no_out("nanprod", out)
    return reductions.prod(
        _instead_of_nan("nanprod", a, 1), axis, dtype, None, keepdims, initial=initial, where=where
    )


def nanmax(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The largest of the elements over axes that are not NaN; NaN if all are.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether reduced axes stay, with size 1.
        initial: value that counts as one more element; needed where there may be none.
        where: mask that broadcasts to `a`: elements where it is false are left out; needs
            `initial`.

    Returns:
        An array of the dtype of `a` without the reduced axes, or with size 1 there.

    Raises:
        ShapeError: if there are no elements.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanmax(tnp.array([1.0, float("nan")])).item()
        1.0
    """
    no_out("nanmax", out)
    return _nan_extreme("nanmax", Op.MAX, a, axis, keepdims, initial, where)


def nanmin(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The smallest of the elements over axes that are not NaN; NaN if all are.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether reduced axes stay, with size 1.
        initial: value that counts as one more element; needed where there may be none.
        where: mask that broadcasts to `a`: elements where it is false are left out; needs
            `initial`.

    Returns:
        An array of the dtype of `a` without the reduced axes, or with size 1 there.

    Raises:
        ShapeError: if there are no elements.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanmin(tnp.array([1.0, float("nan")])).item()
        1.0
    """
    no_out("nanmin", out)
    return _nan_extreme("nanmin", Op.MIN, a, axis, keepdims, initial, where)


def nanmean(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """The mean of the elements over axes that are not NaN; NaN of none.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        dtype: dtype of the result; None takes that of `a`, float32 for integers and booleans.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether reduced axes stay, with size 1.
        where: mask that broadcasts to `a`: elements where it is false are left out; None takes all.

    Returns:
        A floating array without the reduced axes, or with size 1 there.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanmean(tnp.array([1.0, float("nan"), 3.0])).item()
        2.0
    """
    no_out("nanmean", out)
    a = array_of("nanmean", a)
    return reductions.mean(a, axis, dtype, keepdims=keepdims, where=_numbers("nanmean", a, where))


def nanvar(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """The variance of the elements over axes that are not NaN; see `var`.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        dtype: dtype of the result; None takes that of `a`, float32 for integers and booleans.
        out: None, for NumPy's calls of it: an array never changes.
        ddof: number by which the divisor is less than the number of elements; 0 by default.
        keepdims: whether reduced axes stay, with size 1.
        where: mask that broadcasts to `a`: elements where it is false are left out; None takes all.
        mean: the mean, as `nanmean` gives it with ``keepdims=True``; None computes it.

    Returns:
        A real floating array without the reduced axes, or with size 1 there.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.
        ArgumentError: unless `ddof` is a number.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanvar(tnp.array([1.0, float("nan"), 5.0])).item()
        4.0
    """
    no_out("nanvar", out)
    a = array_of("nanvar", a)
    numbers = _numbers("nanvar", a, where)
    return reductions.var(a, axis, dtype, None, ddof, keepdims, where=numbers, mean=mean)


def nanstd(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """The standard deviation of the elements over axes that are not NaN; see `std`.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        dtype: dtype of the result; None takes that of `a`, float32 for integers and booleans.
        out: None, for NumPy's calls of it: an array never changes.
        ddof: number by which the divisor is less than the number of elements; 0 by default.
        keepdims: whether reduced axes stay, with size 1.
        where: mask that broadcasts to `a`: elements where it is false are left out; None takes all.
        mean: the mean, as `nanmean` gives it with ``keepdims=True``; None computes it.

    Returns:
        A real floating array without the reduced axes, or with size 1 there.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.
        ArgumentError: unless `ddof` is a number.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanstd(tnp.array([1.0, float("nan"), 3.0])).item()
        1.0
    """
    no_out("nanstd", out)
    a = array_of("nanstd", a)
    numbers = _numbers("nanstd", a, where)
    return reductions.std(a, axis, dtype, None, ddof, keepdims, where=numbers, mean=mean)


def _numbers(name: str, x: Array, where: ArrayLike | None) -> Array:
    """The mask of the elements that are neither NaN nor left out."""
    if where is None:
        return apply(_is_number, (x,))
    mask = array_of(name, where)
    broadcast_shape(name, x.shape, mask.shape)
    return apply(_number_inside, (x, mask))


def _number_inside(x: UOp, mask: UOp) -> UOp:
    return eq(x, x) & fit(truth(mask), BOOL, x.shape)


def _is_number(x: UOp) -> UOp:
    return eq(x, x)


def _instead_of_nan(name: str, x: ArrayLike, value: Any) -> Array:
    return apply(_replaced, (array_of(name, x),), value)


def _replaced(x: UOp, value: Any) -> UOp:
    return choose(eq(x, x), x, full_like(x, value))


def _nan_extreme(
    name: str,
    op: Op,
    x: ArrayLike,
    axis: Axes,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    x = array_of(name, x)
    if initial is not None or where is not None:
        extreme = reductions.max if op is Op.MAX else reductions.min
        filled = _instead_of_nan(name, x, build.identity(op, x.dtype))
        return extreme(filled, axis, None, keepdims, initial=initial, where=where)
    axes = some_axes(name, axis, x.ndim)
    reductions.not_empty(name, x, axes, "check the shape first")
    return apply(_extreme_number, (x,), op, axes, bool(keepdims), weak=x.weak_type)


def _extreme_number(x: UOp, op: Op, axes: Numbers, keepdims: bool) -> UOp:
    numbers = choose(eq(x, x), x, full_like(x, build.identity(op, x.dtype)))
    out = reductions.reduced(numbers, op, axes, keepdims)
    if x.dtype not in INEXACT:
        return out
    some = build.reduce(eq(x, x), Op.MAX, axes, keepdims)
    return choose(some, out, full_like(out, math.nan))


def nancumsum(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The sum of the elements up to each one, in which NaN counts as 0.

    Args:
        a: array or number, of any shape.
        axis: axis along which elements are added, counted from the end if negative; None takes the
            flat array.
        dtype: dtype of the result; None takes that of `a`, int32 for booleans.
        out: None, for NumPy's calls of it: an array never changes.

    Returns:
        An array of the shape of `a`, or a vector of all elements.

    Raises:
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> nancumsum(tnp.array([2.0, float("nan"), 3.0]))
        Array([2., 2., 5.], dtype=float32)
    """
    no_out("nancumsum", out)
    return cumsum(_instead_of_nan("nancumsum", a, 0), axis, dtype)


def nancumprod(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The product of the elements up to each one, in which NaN counts as 1.

    Args:
        a: array or number, of any shape.
        axis: axis along which elements are multiplied, counted from the end if negative; None takes
            the flat array.
        dtype: dtype of the result; None takes that of `a`, int32 for booleans.
        out: None, for NumPy's calls of it: an array never changes.

    Returns:
        An array of the shape of `a`, or a vector of all elements.

    Raises:
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> nancumprod(tnp.array([2.0, float("nan"), 3.0]))
        Array([2., 2., 6.], dtype=float32)
    """
    no_out("nancumprod", out)
    return cumprod(_instead_of_nan("nancumprod", a, 1), axis, dtype)


def nanargmax(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool = False,
) -> Array:
    """The first index of the largest element along an axis that is not NaN; -1 if all are.

    Args:
        a: array or number, of any shape.
        axis: axis to reduce, counted from the end if negative; None searches the flat array.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether the axis, or all of them, stay with size 1.

    Returns:
        An integer array without the axis, or with size 1 there.

    Raises:
        ShapeError: if there are no elements.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanargmax(tnp.array([1.0, float("nan"), 2.0])).item()
        2
    """
    no_out("nanargmax", out)
    return _nan_place("nanargmax", a, axis, keepdims)


def nanargmin(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool = False,
) -> Array:
    """The first index of the smallest element along an axis that is not NaN; -1 if all are.

    Args:
        a: array or number, of any shape.
        axis: axis to reduce, counted from the end if negative; None searches the flat array.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether the axis, or all of them, stay with size 1.

    Returns:
        An integer array without the axis, or with size 1 there.

    Raises:
        ShapeError: if there are no elements.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> nanargmin(tnp.array([float("nan"), 1.0, 2.0])).item()
        1
    """
    no_out("nanargmin", out)
    return _nan_place("nanargmin", a, axis, keepdims)


def _nan_place(name: str, x: ArrayLike, axis: int | None, keepdims: bool) -> Array:
    x = array_of(name, x)
    if x.dtype not in FLOATS:
        arg_extreme: Any = reductions.argmax if name == "nanargmax" else reductions.argmin
        return arg_extreme(x, axis, None, keepdims)  # type: ignore[no-any-return]
    worst, arg_extreme = (
        (-math.inf, reductions.argmax) if name == "nanargmax" else (math.inf, reductions.argmin)
    )
    place = arg_extreme(_instead_of_nan(name, x, worst), axis, None, keepdims)
    has_number = reductions.any(apply(_is_number, (x,)), axis, keepdims=keepdims)
    return apply(_or_nowhere, (has_number, place))


def _or_nowhere(some: UOp, place: UOp) -> UOp:
    return choose(some, place, full_like(place, -1))
