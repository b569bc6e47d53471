"""Contractions: dot_general, dot, batch_matmul."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from tfn import dtypes
from tfn._support.validate import integers
from tfn.array import Array, ArrayLike
from tfn.dtypes import DTypeLike
from tfn.errors import ArgumentError, AxisError, ShapeError
from tfn.lax.operand import array, show
from tfn.numpy.contraction import is_tf32
from tfn.numpy.creation import resolved
from tfn.trace.argument import Dot
from tfn.trace.bind import bind
from tfn.trace.op import Op, Shape

DotNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


class Precision(enum.Enum):
    """The precision of products; accepted as in JAX, and always the highest here.

    Less is computed for "tensorfloat32" alone: see `dot_general`.

    Example:
        >>> from tfn import lax
        >>> lax.dot(lax.full((2,), 1.0), lax.full((2,), 1.0), precision=Precision.HIGHEST).item()
        2.0
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotNumbers,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Returns the sum of products over contracted axes, separately for each index of the batch
    axes.

    The result has the batch axes, then the free axes of lhs, then those of rhs.  Products are
    summed in at least 32 bits.

    Args:
        lhs: array of any shape; axes are contracted, batch axes, or free.
        rhs: array of the dtype of `lhs`, with contracted and batch axes of the same sizes.
        dimension_numbers: ((contracted of lhs, of rhs), (batch axes of lhs, of rhs)), each a
            sequence of axes counted from 0; negative axes are refused.
        precision: "tensorfloat32" rounds factors of float32 to 10 bits of mantissa, with which GPUs
            multiply them on matrix units; all others of JAX are accepted, and exact.
        preferred_element_type: dtype of the result; that of the operands if None.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.

    Raises:
        ShapeError, DTypeError: if paired axes or the dtypes differ.
        AxisError: if an axis does not exist or is named twice.
        ArgumentError: if the axes are not in pairs.

    Example:
        >>> from tfn import lax
        >>> x = lax.full((5, 2, 3), 1.0)
        >>> lax.dot_general(x, x, (((2,), (2,)), ((0,), (0,)))).shape
        (5, 2, 2)
    """
    if out_sharding is not None:
        return resolved(
            out_sharding,
            lambda: dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type),
        )
    a, b = array(lhs), array(rhs)
    try:
        (contract_a, contract_b), (batch_a, batch_b) = dimension_numbers
        paired = len(contract_a) == len(contract_b) and len(batch_a) == len(batch_b)
    except (TypeError, ValueError):
        paired = False
    if not paired:
        raise ArgumentError(
            "dot_general needs axes in pairs",
            got=f"dimension_numbers={dimension_numbers}",
            hint="write (((1,), (0,)), ((), ())) for a product of matrices",
        )
    axes = (_axes(a, contract_a), _axes(b, contract_b), _axes(a, batch_a), _axes(b, batch_b))
    for x, both in ((a, axes[0] + axes[2]), (b, axes[1] + axes[3])):
        if len(set(both)) != len(both):
            raise AxisError(
                "dot_general needs each axis once",
                got=f"{show(x)}, {both}",
                hint="an axis is contracted, or kept in step, or neither",
            )
    tf32 = is_tf32(precision) and a.dtype == dtypes.FLOAT32
    arg = Dot(*axes, result_dtype(a, preferred_element_type), tf32)
    weak = a.weak_type and b.weak_type and preferred_element_type is None
    out: Array = bind(Op.DOT, a, b, arg=arg, weak=weak)
    return out


def _axes(x: Array, axes: Sequence[int]) -> Shape:
    numbers = integers("dot_general", "dimension_numbers", axes)
    if any(not 0 <= axis < len(x.shape) for axis in numbers):
        raise AxisError(
            "dot_general needs axes that are there",
            got=f"{show(x)}, {numbers}",
            hint=f"axes go from 0 to {len(x.shape) - 1}",
        )
    return numbers


def result_dtype(x: Array, preferred: Any) -> dtypes.DType:
    """The dtype of products: the preferred one, or that of an operand."""
    return x.dtype if preferred is None else dtypes.canonical(preferred)


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    dimension_numbers: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Returns the product of vectors or matrices: the last axis of lhs is contracted with the first
    of rhs.

    Args:
        lhs: shape (k,) or (m, k).
        rhs: shape (k,) or (k, n), of the dtype of `lhs`.
        precision: "tensorfloat32" rounds factors of float32 to 10 bits of mantissa, with which GPUs
            multiply them on matrix units; all others of JAX are accepted, and exact.
        preferred_element_type: dtype of the result; that of the operands if None.
        dimension_numbers: the axes of `dot_general`, which it then is; None for the last and the
            first one.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.

    Returns:
        An array of the axes that are left: (), (m,), (n,) or (m, n).

    Raises:
        ShapeError: for scalars, for more than two axes, or if the sizes of k differ.
        DTypeError: if the dtypes differ.

    Example:
        >>> from tfn import lax
        >>> lax.dot(lax.full((2, 3), 1.0), lax.full((3,), 2.0)).tolist()
        [6.0, 6.0]
    """
    if out_sharding is not None:
        return resolved(
            out_sharding,
            lambda: dot(
                lhs,
                rhs,
                precision=precision,
                preferred_element_type=preferred_element_type,
                dimension_numbers=dimension_numbers,
            ),
        )
    a, b = array(lhs), array(rhs)
    if dimension_numbers is not None:
        return dot_general(a, b, dimension_numbers, precision, preferred_element_type)
    if not 1 <= len(a.shape) <= 2 or not 1 <= len(b.shape) <= 2:
        raise ShapeError(
            "dot needs vectors or matrices", got=f"{show(a)}, {show(b)}", hint="use dot_general"
        )
    numbers = (((len(a.shape) - 1,), (0,)), ((), ()))
    return dot_general(a, b, numbers, precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: object = None) -> Array:
    """Multiplies stacks of matrices, one pair for each index of all axes but the last two.

    Args:
        lhs: shape (*batch, m, k), at least two axes.
        rhs: shape (*batch, k, n), of the dtype of `lhs`; batch axes do not broadcast.
        precision: "tensorfloat32" rounds factors of float32 to 10 bits of mantissa, with which GPUs
            multiply them on matrix units; all others of JAX are accepted, and exact.

    Returns:
        An array (*batch, m, n).

    Raises:
        ShapeError, DTypeError: if sizes or dtypes differ.
        AxisError: for fewer than two axes.

    Example:
        >>> from tfn import lax
        >>> lax.batch_matmul(lax.full((5, 2, 3), 1.0), lax.full((5, 3, 4), 1.0)).shape
        (5, 2, 4)
    """
    a, b = array(lhs), array(rhs)
    n = len(a.shape)
    batch = tuple(range(n - 2))
    return dot_general(a, b, (((n - 1,), (n - 2,)), (batch, batch)), precision)
