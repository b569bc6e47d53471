"""Cumulative reductions (prefix sums, products, extremes) along an axis."""

from __future__ import annotations

from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, DType
from tfn.eager.operands import apply, one_axis
from tfn.errors import DTypeError
from tfn.lax.associative import associative_scan
from tfn.lax.operand import array, show
from tfn.numpy.cumulative import running
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def _along(x: UOp, op: Op, axis: int, reverse: bool, dtype: DType) -> UOp:
    line = build.moveaxis(build.cast(x, dtype), axis, 0)
    line = build.flip(line, (0,) if reverse else ())
    out = build.flip(running(line, op), (0,) if reverse else ())
    return build.cast(build.moveaxis(out, 0, axis), x.dtype)


def _cumulative(name: str, op: Op, x: ArrayLike, axis: int, reverse: bool) -> Array:
    value = array(x)
    if value.dtype == BOOL:
        raise DTypeError(
            f"{name} needs numbers",
            got=show(value),
            hint="convert it: x.astype('int32')",
        )
    axis = one_axis(name, axis, len(value.shape))
    dtype = build.accumulator(value.dtype) if op in (Op.ADD, Op.MUL) else value.dtype
    return apply(_along, [value], op, axis, bool(reverse), dtype, weak=value.weak_type)


def cumsum(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Returns the sums of all elements up to each along an axis.

    Args:
        operand: array with at least one axis, of numbers; 16-bit floats are summed in 32 bits,
            integers wrap around.
        axis: integer in [-ndim, ndim); negative axes count from the end.
        reverse: begin with the last element.

    Returns:
        An array of the shape and dtype of `operand`.

    Raises:
        DTypeError: for booleans.
        AxisError: if there is no such axis.

    Example:
        >>> cumsum(tnp.array([1, 2, 3])).tolist(), cumsum(tnp.array([1, 2, 3]), 0, True).tolist()
        ([1, 3, 6], [6, 5, 3])
    """
    return _cumulative("cumsum", Op.ADD, operand, axis, reverse)


def cumprod(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Returns the products of all elements up to each along an axis.

    Args:
        operand: array with at least one axis, of numbers; 16-bit floats are multiplied in 32 bits,
            integers wrap around.
        axis: integer in [-ndim, ndim); negative axes count from the end.
        reverse: begin with the last element.

    Returns:
        An array of the shape and dtype of `operand`.

    Raises:
        DTypeError: for booleans.
        AxisError: if there is no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> cumprod(tnp.array([1, 2, 3]))
        Array([1, 2, 6], dtype=int32)
    """
    return _cumulative("cumprod", Op.MUL, operand, axis, reverse)


def cummax(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Returns the largest of all elements up to each along an axis; NaN from the first NaN on.

    Args:
        operand: array with at least one axis, of numbers; complex ones are ordered by their real
            parts, then by the imaginary ones.
        axis: integer in [-ndim, ndim); negative axes count from the end.
        reverse: begin with the last element.

    Returns:
        An array of the shape and dtype of `operand`.

    Raises:
        DTypeError: for booleans.
        AxisError: if there is no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> cummax(tnp.array([1, 3, 2]))
        Array([1, 3, 3], dtype=int32)
    """
    return _cumulative("cummax", Op.MAX, operand, axis, reverse)


def cummin(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Returns the smallest of all elements up to each along an axis; NaN from the first NaN on.

    Args:
        operand: array with at least one axis, of numbers; complex ones are ordered by their real
            parts, then by the imaginary ones.
        axis: integer in [-ndim, ndim); negative axes count from the end.
        reverse: begin with the last element.

    Returns:
        An array of the shape and dtype of `operand`.

    Raises:
        DTypeError: for booleans.
        AxisError: if there is no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> cummin(tnp.array([3, 1, 2]))
        Array([3, 1, 1], dtype=int32)
    """
    return _cumulative("cummin", Op.MIN, operand, axis, reverse)


def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Returns ``log(cumsum(exp(x)))`` along an axis, without overflow.

    Args:
        operand: floats, with at least one axis.
        axis: integer in [-ndim, ndim); negative axes count from the end.
        reverse: begin with the last element.

    Returns:
        An array of the shape and dtype of `operand`.

    Raises:
        ArgumentError: for integers.
        AxisError: if there is no such axis.

    Example:
        >>> cumlogsumexp(tnp.array([1000.0, 1000.0])).tolist()
        [1000.0, 1000.693...]
    """
    x = array(operand)
    axis = one_axis("cumlogsumexp", axis, len(x.shape))
    out: Array = associative_scan(tnp.logaddexp, x, reverse, axis)
    return out
