"""Cumulative sums and products, by scans, and differences."""

from __future__ import annotations

from tfn._support.validate import integer, no_out, rank, shown
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, DEFAULTS, DType, DTypeLike, canonical
from tfn.eager.operands import apply, array_of, one_axis, operands_of
from tfn.errors import ArgumentError
from tfn.numpy.arithmetic import extreme
from tfn.numpy.concatenation import concatenate, section
from tfn.numpy.manipulation import flat_or_axis
from tfn.numpy.reductions import sum_dtype
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.build import accumulator, cast, moveaxis, pad
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def cumsum(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The sum of the elements up to each one, along an axis or of the flat array.

    Args:
        a: array or number.
        axis: axis along which elements are combined, counted from the end if negative; None takes
            the flat array.
        dtype: dtype of the result, in which elements are combined; None takes that of `a`, int32
            for booleans.
        out: None, for NumPy's calls of it: an array never changes.

    Returns:
        An array of the shape of `a`, or a vector of all elements.

    Raises:
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> cumsum(tnp.array([1, 2, 3]))
        Array([1, 3, 6], dtype=int32)
    """
    no_out("cumsum", out)
    return _accumulate("cumsum", Op.ADD, a, axis, dtype)


def cumprod(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The product of the elements up to each one, along an axis or of the flat array.

    Args:
        a: array or number.
        axis: axis along which elements are combined, counted from the end if negative; None takes
            the flat array.
        dtype: dtype of the result, in which elements are combined; None takes that of `a`, int32
            for booleans.
        out: None, for NumPy's calls of it: an array never changes.

    Returns:
        An array of the shape of `a`, or a vector of all elements.

    Raises:
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> cumprod(tnp.array([1, 2, 3, 4]))
        Array([ 1,  2,  6, 24], dtype=int32)
    """
    no_out("cumprod", out)
    return _accumulate("cumprod", Op.MUL, a, axis, dtype)


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The sum of the elements up to each one; with `include_initial` a zero comes first.

    Args:
        x: array or number.
        axis: axis along which elements are added, counted from the end if negative; None takes the
            only one.
        dtype: dtype of the result; None takes that of `x`, but 32 bits at least for integers.
        include_initial: whether the result begins with the value of no elements, and is longer by
            one.

    Returns:
        An array of the shape of `x`, or with one element more along the axis.

    Raises:
        ArgumentError: if `axis` is None and the array has not one axis.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> cumulative_sum(tnp.array([2, 3]), include_initial=True)
        Array([0, 2, 5], dtype=int32)
    """
    return _from_initial("cumulative_sum", Op.ADD, x, axis, dtype, include_initial)


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The product of the elements up to each one; with `include_initial` a one comes first.

    Args:
        x: array or number.
        axis: axis along which elements are multiplied, counted from the end if negative; None takes
            the only one.
        dtype: dtype of the result; None takes that of `x`, but 32 bits at least for integers.
        include_initial: whether the result begins with the value of no elements, and is longer by
            one.

    Returns:
        An array of the shape of `x`, or with one element more along the axis.

    Raises:
        ArgumentError: if `axis` is None and the array has not one axis.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> cumulative_prod(tnp.array([2, 3]), include_initial=True)
        Array([1, 2, 6], dtype=int32)
    """
    return _from_initial("cumulative_prod", Op.MUL, x, axis, dtype, include_initial)


def _from_initial(
    name: str,
    op: Op,
    x: ArrayLike,
    axis: int | None,
    dtype: DTypeLike | None,
    include_initial: bool,
) -> Array:
    x = array_of(name, x)
    if axis is None and x.ndim != 1:
        raise ArgumentError(
            f"{name} needs an axis unless the array has one", got=shown(x), hint="write axis=0"
        )
    at = one_axis(name, 0 if axis is None else axis, x.ndim)
    out = _accumulate(name, op, x, at, sum_dtype(x, dtype))
    return apply(_with_initial, (out,), op, at) if include_initial else out


def _with_initial(x: UOp, op: Op, axis: int) -> UOp:
    low = tuple(int(a == axis) for a in range(x.ndim))
    start = build.full_like(build.zeros((), x.dtype), build.identity(op, x.dtype))
    return pad(x, low, (0,) * x.ndim, value=start)


def _accumulate(
    name: str, op: Op, x: ArrayLike, axis: int | None, dtype: DTypeLike | None
) -> Array:
    x = array_of(name, x)
    kind = canonical(dtype) if dtype is not None else DEFAULTS[int] if x.dtype == BOOL else x.dtype
    x, axis = flat_or_axis(name, x, axis)
    return apply(_running, (x,), op, axis, kind)


def _running(x: UOp, op: Op, axis: int, dtype: DType) -> UOp:
    line = moveaxis(cast(x, accumulator(dtype)), axis, 0)
    return cast(moveaxis(running(line, op), 0, axis), dtype)


def running(x: UOp, op: Op) -> UOp:
    """The reduction of all elements up to each, along the first axis: a scan of its monoid."""
    shape, dtype = x.shape[1:], x.dtype
    params = (Param(0, shape, dtype), Param(1, shape, dtype))
    one, other = map(param, params)
    total = extreme(op, one, other) if op in (Op.MAX, Op.MIN) else UOp(op, (one, other))
    start = build.full_like(build.zeros(shape, dtype), build.identity(op, dtype))
    return build.scan(function([total, total], params), [], [start], [x], x.shape[0])[1]


def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The differences of neighbours along an axis, taken `n` times.

    Of booleans, the result is whether two neighbours differ.

    Args:
        a: array of one axis at least.
        n: number of times, not negative; 1 by default.
        axis: axis of the neighbours, counted from the end if negative; the last by default.
        prepend: number, or array that fits beside `a` along the axis, put before it first; None for
            nothing.
        append: number, or array that fits beside `a` along the axis, put after it first; None for
            nothing.

    Returns:
        An array of the dtype of `a`, with `n` elements less along the axis, none at least.

    Raises:
        ShapeError: if the array has no axis.
        ArgumentError: if `n` is negative.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> diff(tnp.array([1, 4, 9]))
        Array([3, 5], dtype=int32)
    """
    a = array_of("diff", a)
    rank("diff", a, 1)
    n = integer("diff", "n", n, 0)
    at = one_axis("diff", axis, a.ndim)
    ends = [None if end is None else _end(a, end, at) for end in (prepend, append)]
    if n and any(end is not None for end in ends):
        a = concatenate([part for part in (ends[0], a, ends[1]) if part is not None], at)
    return apply(_difference, (a,), min(n, a.shape[at]), at, weak=a.weak_type)


def _end(x: Array, value: ArrayLike, axis: int) -> Array:
    end, _ = operands_of("diff", value, x)
    end_shape = tuple(1 if a == axis else size for a, size in enumerate(x.shape))
    return apply(build.broadcast_to, (end,), end_shape, weak=end.weak_type) if not end.ndim else end


def _difference(x: UOp, n: int, axis: int) -> UOp:
    for _ in range(n):
        size = x.shape[axis]
        after, before = section(x, axis, 1, size), section(x, axis, 0, size - 1)
        x = build.ne(after, before) if x.dtype.kind == "b" else after - before
    return x
