"""Reductions: sums, extremes, means, counts, and the indices of extremes.

Sums of narrow integers have 32 bits; 16-bit floats are added up in 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tfn._support.validate import (
    element_type,
    no_out,
    one_of_two,
    real_number,
    result_type,
    shown,
)
from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import (
    BOOL,
    COMPLEXES,
    DEFAULTS,
    INEXACT,
    INT32,
    SIGNED,
    UINT32,
    UINT64,
    UNSIGNED,
    DType,
    DTypeLike,
    canonical,
    part,
)
from tfn.eager.operands import (
    apply,
    array_of,
    broadcast_shape,
    fit,
    inexact,
    number_as,
    one_axis,
    operands_of,
    scalar_kind,
    some_axes,
    together,
)
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy.arithmetic import extreme
from tfn.numpy.logic import truth
from tfn.trace import bind, build
from tfn.trace.build import accumulator, cast, eq, expand, full_like, reshape, unary
from tfn.trace.build import where as choose
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Numbers = tuple[int, ...]


def _reduction(
    name: str,
    op: Op,
    x: ArrayLike,
    axis: Axes,
    dtype: DType,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    x = array_of(name, x)
    axes = some_axes(name, axis, x.ndim)
    operands, has_extras = [x], (initial is not None, where is not None)
    if initial is not None:
        start = _known_kind(name, initial, dtype, x)
        operands.append(start)
    if where is not None:
        mask = array_of(name, where)
        element_type(name, mask, frozenset({BOOL}), "booleans as where")
        broadcast_shape(name, x.shape, mask.shape)
        operands.append(mask)
    return apply(_reduce, operands, op, axes, dtype, bool(keepdims), has_extras)


def _known_kind(name: str, value: ArrayLike, dtype: DType, x: Array) -> Array:
    if scalar_kind(value) is not None:
        return number_as(value, dtype, bind.innermost([x]))
    return array_of(name, value)


def _reduce(x: UOp, *rest: Any) -> UOp:
    *extra, op, axes, dtype, keepdims, (has_initial, has_where) = rest
    x = cast(x, dtype)
    mask = fit(truth(extra[-1]), BOOL, x.shape) if has_where else None
    if mask is not None:
        x = choose(mask, x, full_like(x, build.identity(op, dtype)))
    out = reduced(x, op, axes, keepdims)
    if not has_initial:
        return out
    start = fit(extra[0], dtype, out.shape)
    return extreme(op, out, start) if op in (Op.MAX, Op.MIN) else UOp(op, (out, start))


def reduced(x: UOp, op: Op, axes: Numbers, keepdims: bool) -> UOp:
    """A reduction over axes, by the largest and the smallest of complex numbers too."""
    if x.dtype in COMPLEXES and op in (Op.MAX, Op.MIN):
        return _complex_extreme(x, op, axes, keepdims)
    return build.reduce(x, op, axes, keepdims)


def _complex_extreme(x: UOp, op: Op, axes: Numbers, keepdims: bool) -> UOp:
    """The last or the first complex number by the real parts, then the imaginary ones; or NaN."""
    real, imaginary = build.real(x), build.imag(x)
    nowhere = full_like(real, build.identity(op, real.dtype))
    best = build.reduce(real, op, axes, True)
    has_best = eq(real, expand(best, real.shape))
    end = build.reduce(choose(has_best, imaginary, nowhere), op, axes, True)
    # An element that is not a number makes the result so, and the others do not.
    defects = choose(eq(x, x), full_like(real, 0), full_like(real, math.nan))
    defect = build.add_up(defects, axes, True)
    out = build.complex_(best + defect, end + defect)
    shape = tuple(n for a, n in enumerate(x.shape) if a not in axes)
    return out if keepdims else reshape(out, shape)


def sum_dtype(x: Array, dtype: DTypeLike | None, promotes: bool = True) -> DType:
    """The dtype of a sum: 32 bits at least for integers, if it promotes them."""
    if dtype is not None:
        return canonical(dtype)
    if not promotes and x.dtype != BOOL:
        return x.dtype
    whole = DEFAULTS[int]
    if x.dtype == BOOL or (x.dtype in SIGNED and x.dtype.itemsize < whole.itemsize):
        return whole
    if x.dtype in UNSIGNED and x.dtype.itemsize < whole.itemsize:
        return UINT32 if whole == INT32 else UINT64
    return x.dtype


def sum(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The sum over axes, 0 of no elements.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        dtype: dtype in which elements are combined, and of the result; None takes that of `a`, but
            32 bits at least for integers and int32 for booleans.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether reduced axes stay, with size 1.
        initial: value that is combined with the result of each reduction; None adds none.
        where: mask that broadcasts to `a`: elements where it is false are left out; None takes all.
        promote_integers: whether integers have 32 bits at least, if `dtype` is None.

    Returns:
        An array without the reduced axes, or with size 1 there.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> sum(tnp.ones((2, 3)), axis=-1, keepdims=True).shape
        (2, 1)
    """
    no_out("sum", out)
    a = array_of("sum", a)
    kind = sum_dtype(a, dtype, promote_integers)
    return _reduction("sum", Op.ADD, a, axis, kind, keepdims, initial, where)


def prod(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The product over axes, 1 of no elements.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        dtype: dtype in which elements are combined, and of the result; None takes that of `a`, but
            32 bits at least for integers and int32 for booleans.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether reduced axes stay, with size 1.
        initial: value that is combined with the result of each reduction; None adds none.
        where: mask that broadcasts to `a`: elements where it is false are left out; None takes all.
        promote_integers: whether integers have 32 bits at least, if `dtype` is None.

    Returns:
        An array without the reduced axes, or with size 1 there.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> prod(tnp.array([2, 3, 4])).item()
        24
    """
    no_out("prod", out)
    a = array_of("prod", a)
    kind = sum_dtype(a, dtype, promote_integers)
    return _reduction("prod", Op.MUL, a, axis, kind, keepdims, initial, where)


def max(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The largest element over axes, NaN if one is NaN.

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
        ShapeError: if there are no elements and no `initial`.
        ArgumentError: for `where` without `initial`.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> max(tnp.array([[1, 5], [7, 2]]), axis=1)
        Array([5, 7], dtype=int32)
    """
    no_out("max", out)
    return _extreme("max", Op.MAX, a, axis, keepdims, initial, where)


def min(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The smallest element over axes, NaN if one is NaN.

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
        ShapeError: if there are no elements and no `initial`.
        ArgumentError: for `where` without `initial`.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> min(tnp.array([[1, 5], [7, 2]]), axis=1)
        Array([1, 2], dtype=int32)
    """
    no_out("min", out)
    return _extreme("min", Op.MIN, a, axis, keepdims, initial, where)


def _extreme(
    name: str,
    op: Op,
    x: ArrayLike,
    axis: Axes,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    x = array_of(name, x)
    if initial is None:
        not_empty(name, x, some_axes(name, axis, x.ndim), "say what it is with initial=")
        if where is not None:
            raise ArgumentError(
                f"{name} with where= needs initial=",
                got=f"where={shown(where)}, initial=None",
                hint="it counts where the mask is false everywhere",
            )
    return _reduction(name, op, x, axis, x.dtype, keepdims, initial, where)


def not_empty(name: str, x: Array, axes: Numbers, hint: str) -> None:
    """Raise ShapeError if there is nothing to reduce.

    Args:
        name: name of the function that was called, for errors.
        x: the array.
        axes: axes that are reduced, from 0.
        hint: hint of the error.
    """
    if 0 in [x.shape[a] for a in axes]:
        raise ShapeError(f"{name} of no elements does not exist", got=shown(x), hint=hint)


def any(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether one element over axes is true: not zero; NaN is true, and of no elements it is false.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether reduced axes stay, with size 1.
        where: mask that broadcasts to `a`: elements where it is false are left out; None takes all.

    Returns:
        A boolean array without the reduced axes, or with size 1 there.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> any(tnp.array([[0, 0], [0, 1]]), axis=1)
        Array([False,  True], dtype=bool)
    """
    no_out("any", out)
    return _truths("any", Op.MAX, a, axis, keepdims, where)


def all(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether all elements over axes are true: not zero; NaN is true, and so are no elements.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether reduced axes stay, with size 1.
        where: mask that broadcasts to `a`: elements where it is false are left out; None takes all.

    Returns:
        A boolean array without the reduced axes, or with size 1 there.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> all(tnp.array([[1, 0], [1, 1]]), axis=1)
        Array([False,  True], dtype=bool)
    """
    no_out("all", out)
    return _truths("all", Op.MIN, a, axis, keepdims, where)


def _truths(
    name: str, op: Op, x: ArrayLike, axis: Axes, keepdims: bool, where: ArrayLike | None
) -> Array:
    return _reduction(name, op, x, axis, BOOL, keepdims, None, where)


def count_nonzero(a: ArrayLike, axis: Axes = None, keepdims: bool = False) -> Array:
    """The number of elements over axes that are not zero.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        keepdims: whether reduced axes stay, with size 1.

    Returns:
        An int32 array (int64 for 2**31 elements and more) without the reduced axes, or with size 1
        there.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> count_nonzero(tnp.array([0, 3, 4])).item()
        2
    """
    a = array_of("count_nonzero", a)
    return apply(_count, (a,), some_axes("count_nonzero", axis, a.ndim), bool(keepdims))


def _count(x: UOp, axes: Numbers, keepdims: bool) -> UOp:
    size = build.count(tuple(x.shape[axis] for axis in axes))
    return build.add_up(cast(truth(x), build.result_index_dtype(size)), axes, keepdims)


def mean(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """The mean over axes, always floating; NaN of no elements.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        dtype: dtype of the result; None takes that of `a`, float32 for integers and booleans.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether reduced axes stay, with size 1.
        where: mask that broadcasts to `a`: elements where it is false are left out; None takes all.

    Returns:
        An array of dtype `dtype` without the reduced axes, or with size 1 there.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> mean(tnp.arange(4))
        Array(1.5, dtype=float32)
    """
    no_out("mean", out)
    a = array_of("mean", a)
    kind = mean_dtype(a, dtype)
    axes = some_axes("mean", axis, a.ndim)
    if where is None:
        return apply(_mean, (a,), axes, kind, bool(keepdims))
    mask = array_of("mean", where)
    broadcast_shape("mean", a.shape, mask.shape)
    return apply(_mean_where, (a, mask), axes, kind, bool(keepdims))


def mean_dtype(x: Array, dtype: DTypeLike | None) -> DType:
    """The dtype of a mean: floating."""
    return inexact((x.dtype, False))[0] if dtype is None else canonical(dtype)


def _mean(x: UOp, axes: Numbers, dtype: DType, keepdims: bool) -> UOp:
    wide = accumulator(dtype)
    count = math.prod(x.shape[a] for a in axes)
    total = build.add_up(cast(x, wide), axes, keepdims)
    if dtype not in INEXACT:
        return _truncated(total, build.full_like(total, count)) if count else total
    return cast(total / count, dtype)


def _mean_where(x: UOp, mask: UOp, axes: Numbers, dtype: DType, keepdims: bool) -> UOp:
    wide = accumulator(dtype)
    inside = fit(truth(mask), BOOL, x.shape)
    x = choose(inside, cast(x, wide), build.zeros(x.shape, wide))
    count = build.add_up(cast(inside, part(wide)), axes, keepdims)
    total = build.add_up(x, axes, keepdims)
    mean = _share(total, count) if dtype in INEXACT else _truncated(total, count)
    return cast(mean, dtype)


def _share(total: UOp, count: UOp) -> UOp:
    """A total divided by a count; NaN, with a slope of 0, where nothing is counted."""
    some = count > full_like(count, 0)
    mean = total / cast(choose(some, count, full_like(count, 1)), total.dtype)
    none = complex(math.nan, math.nan) if mean.dtype in COMPLEXES else math.nan
    return choose(some, mean, full_like(mean, none))


def _truncated(total: UOp, count: UOp) -> UOp:
    """The quotient rounded towards zero; a floor division rounds down."""
    zero = full_like(total, 0)
    return choose(total < zero, -(-total // count), total // count)


def average(
    a: ArrayLike,
    axis: Axes = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The weighted mean over axes; with `returned`, also the sum of the weights.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        weights: array of the shape of `a`, or of its sizes along `axis`; None gives all elements
            the weight 1.
        returned: whether the sum of the weights is returned, too.
        keepdims: whether reduced axes stay, with size 1.

    Returns:
        A floating array without the reduced axes, or with size 1 there; with `returned` a pair of
        such arrays.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.
        ShapeError: if the weights have another shape.

    Example:
        >>> import tfn.numpy as tnp
        >>> average(tnp.array([1.0, 4.0]), weights=tnp.array([3.0, 1.0])).item()
        1.75
    """
    a = array_of("average", a)
    axes = some_axes("average", axis, a.ndim)
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        count = math.prod(a.shape[i] for i in axes)
        return (result, apply(full_like, (result,), count)) if returned else result
    w = array_of("average", weights)
    w_shape = w.shape
    if w.shape != a.shape:
        if w.shape != tuple(a.shape[i] for i in axes) or axis is None:
            raise ShapeError(
                "average needs weights of the array's shape, or of its axes",
                got=f"weights={shown(w)} for {shown(a)}, axis={axis}",
                hint="name the axes that the weights have with axis=",
            )
        w_shape = tuple(n if i in axes else 1 for i, n in enumerate(a.shape))
    kind = together("average", a, w, floating=True)[1]
    result = apply(_average, (a, w), w_shape, axes, kind, bool(keepdims))
    return (
        (result, apply(_weight, (a, w), w_shape, axes, kind, bool(keepdims)))
        if returned
        else result
    )


def _weight(x: UOp, w: UOp, shape: Numbers, axes: Numbers, dtype: DType, keepdims: bool) -> UOp:
    weights = expand(reshape(cast(w, accumulator(dtype)), shape), x.shape)
    return cast(build.add_up(weights, axes, keepdims), dtype)


def _average(x: UOp, w: UOp, shape: Numbers, axes: Numbers, dtype: DType, keepdims: bool) -> UOp:
    wide = accumulator(dtype)
    weights = expand(reshape(cast(w, wide), shape), x.shape)
    total = build.add_up(cast(x, wide) * weights, axes, keepdims)
    return cast(total / build.add_up(weights, axes, keepdims), dtype)


def var(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | None = None,
) -> Array:
    """The variance over axes: the mean squared distance from the mean.

    The sum of squares is divided by the number of elements less `ddof`.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        dtype: dtype of the mean and the result; None takes that of `a`, float32 for integers and
            booleans, and of complex numbers its real part for the result.
        out: None, for NumPy's calls of it: an array never changes.
        ddof: number by which the divisor is less than the number of elements; 0 by default, 1 gives
            the unbiased estimate.
        keepdims: whether reduced axes stay, with size 1.
        where: mask that broadcasts to `a`: elements where it is false are left out; None takes all.
        mean: the mean, as `mean` gives it with ``keepdims=True``; None computes it.
        correction: name of `ddof` in the array API; None uses `ddof`.

    Returns:
        A real floating array without the reduced axes, or with size 1 there; NaN where the divisor
        is not positive.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.
        ArgumentError: unless `ddof` or `correction` is a number, or if both are given.
        DTypeError: for the dtype of integers, or a real one for complex numbers.

    Example:
        >>> import tfn.numpy as tnp
        >>> var(tnp.array([1.0, 3.0])).item(), var(tnp.array([1.0, 3.0]), ddof=1).item()
        (1.0, 2.0)
    """
    no_out("var", out)
    return _spread("var", _var, a, axis, dtype, ddof, keepdims, where, mean, correction)


def _spread(
    name: str,
    graph: Callable[..., UOp],
    x: ArrayLike,
    axis: Axes,
    dtype: DTypeLike | None,
    ddof: int,
    keepdims: bool,
    where: ArrayLike | None,
    mean: ArrayLike | None,
    correction: int | None,
) -> Array:
    x = array_of(name, x)
    one_of_two(name, "they are two names of one number", ddof=ddof or None, correction=correction)
    less = real_number(name, "ddof", ddof if correction is None else correction)
    kind, axes = mean_dtype(x, dtype), some_axes(name, axis, x.ndim)
    allowed = COMPLEXES if x.dtype in COMPLEXES else INEXACT
    result_type(name, kind, allowed, "the dtype of its mean to be that of the array, or wider")
    result = part(kind) if dtype is None else kind
    operands, given = [x], (mean is not None, where is not None)
    for extra in (mean, where):
        if extra is not None:
            operands.append(operands_of(name, extra, x)[0])
            broadcast_shape(name, x.shape, operands[-1].shape)
    return apply(graph, operands, axes, (kind, result), less, bool(keepdims), given)


def _var(x: UOp, *rest: Any) -> UOp:
    *extra, axes, (dtype, result_dtype), ddof, keepdims, (has_mean, has_where) = rest
    wide = accumulator(dtype)
    x = cast(x, wide)
    mask = [extra[-1]] if has_where else []
    if has_mean:
        center = fit(extra[0], wide, x.shape)
    else:
        found = _mean_where(x, mask[0], axes, wide, True) if mask else _mean(x, axes, wide, True)
        center = expand(found, x.shape)
    deviation = x - center
    if mask:
        inside = fit(truth(mask[0]), BOOL, x.shape)
        squares = squared(choose(inside, deviation, build.zeros(x.shape, wide)))
        divisor = build.add_up(cast(inside, part(wide)), axes, keepdims) - ddof
        return cast(_share(build.add_up(squares, axes, keepdims), divisor), result_dtype)
    count = math.prod(x.shape[a] for a in axes) - ddof
    total = build.add_up(squared(deviation), axes, keepdims)
    return cast(total / (count if count > 0 else math.nan), result_dtype)


def squared(u: UOp) -> UOp:
    """The squared absolute value, real of complex numbers."""
    if u.dtype not in COMPLEXES:
        return u * u
    return build.real(u) * build.real(u) + build.imag(u) * build.imag(u)


def std(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | None = None,
) -> Array:
    """The standard deviation over axes: the square root of `var`.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        dtype: dtype of the mean and the result; None takes that of `a`, float32 for integers and
            booleans, and of complex numbers its real part for the result.
        out: None, for NumPy's calls of it: an array never changes.
        ddof: number by which the divisor is less than the number of elements; 0 by default, 1 gives
            the unbiased estimate.
        keepdims: whether reduced axes stay, with size 1.
        where: mask that broadcasts to `a`: elements where it is false are left out; None takes all.
        mean: the mean, as `mean` gives it with ``keepdims=True``; None computes it.
        correction: name of `ddof` in the array API; None uses `ddof`.

    Returns:
        A real floating array without the reduced axes, or with size 1 there; NaN where the divisor
        is not positive.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.
        ArgumentError: unless `ddof` or `correction` is a number, or if both are given.
        DTypeError: for the dtype of integers, or a real one for complex numbers.

    Example:
        >>> import tfn.numpy as tnp
        >>> std(tnp.array([1.0, 3.0])).item()
        1.0
    """
    no_out("std", out)
    return _spread("std", _std, a, axis, dtype, ddof, keepdims, where, mean, correction)


def _std(x: UOp, *rest: Any) -> UOp:
    return unary(Op.SQRT, _var(x, *rest))


def ptp(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
) -> Array:
    """The largest element less the smallest over axes, NaN if one is NaN.

    Args:
        a: array or number, of any shape.
        axis: axis or axes to reduce, negative ones counted from the end; None reduces all.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether reduced axes stay, with size 1.

    Returns:
        An array of the dtype of `a` without the reduced axes, or with size 1 there.

    Raises:
        ShapeError: if there are no elements.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> ptp(tnp.array([3, 9, 4])).item()
        6
    """
    no_out("ptp", out)
    return max(a, axis, None, keepdims) - min(a, axis, None, keepdims)


def argmax(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool = False,
) -> Array:
    """The first index of the largest element along an axis; NaN counts as largest.

    Args:
        a: array or number, of any shape.
        axis: axis to reduce, counted from the end if negative; None searches the flat array.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether the axis, or all of them, stay with size 1.

    Returns:
        An int32 array (int64 for 2**31 elements and more) without the axis, or with size 1 there.

    Raises:
        ShapeError: if there are no elements.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> argmax(tnp.array([3, 9, 9]))
        Array(1, dtype=int32)
    """
    no_out("argmax", out)
    return _arg("argmax", Op.MAX, a, axis, keepdims)


def argmin(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool = False,
) -> Array:
    """The first index of the smallest element along an axis; NaN counts as smallest.

    Args:
        a: array or number, of any shape.
        axis: axis to reduce, counted from the end if negative; None searches the flat array.
        out: None, for NumPy's calls of it: an array never changes.
        keepdims: whether the axis, or all of them, stay with size 1.

    Returns:
        An int32 array (int64 for 2**31 elements and more) without the axis, or with size 1 there.

    Raises:
        ShapeError: if there are no elements.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> argmin(tnp.array([3, 1, 2])).item()
        1
    """
    no_out("argmin", out)
    return _arg("argmin", Op.MIN, a, axis, keepdims)


def _arg(name: str, op: Op, x: ArrayLike, axis: int | None, keepdims: bool) -> Array:
    x = array_of(name, x)
    axes = some_axes(name, axis, x.ndim) if axis is None else (one_axis(name, axis, x.ndim),)
    not_empty(name, x, axes, "check the shape first")
    return apply(_place, (x,), op, None if axis is None else axes[0], bool(keepdims))


def _place(x: UOp, op: Op, axis: int | None, keepdims: bool) -> UOp:
    if axis is not None:
        return build.reduce(x, op, (axis,), keepdims, build.result_index_dtype(x.shape[axis]))
    place = build.reduce(reshape(x, (x.size,)), op, (0,), index=build.result_index_dtype(x.size))
    return reshape(place, (1,) * x.ndim) if keepdims else place


amax, amin = max, min
