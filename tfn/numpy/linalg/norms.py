"""Norms of vectors and matrices, condition numbers and ranks."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfn._support.validate import one_of_two, real_number, shown
from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import DType, finfo, highest, part
from tfn.eager.operands import apply, array_of, inexact, some_axes
from tfn.errors import ArgumentError
from tfn.numpy import reductions
from tfn.numpy.creation import asarray
from tfn.numpy.linalg import eigen, triangular
from tfn.numpy.linalg.stacks import need_matrices
from tfn.numpy.manipulation import expand_dims, moveaxis
from tfn.numpy.matrices import eye
from tfn.trace import build
from tfn.trace.build import add_up, cast, full_like, ne, reduce, unary
from tfn.trace.op import Op
from tfn.trace.uop import UOp

if TYPE_CHECKING:
    from jaxtyping import Float, Num

Order = float | str | None


def norm(x: ArrayLike, ord: Order = None, axis: Axes = None, keepdims: bool = False) -> Array:
    """The norm of vectors, over one axis, or of matrices, over two.

    Args:
        x: array or number.
        ord: of vectors any number, `inf`, `-inf`, or 0 for the number of elements that are not
            zero; of matrices "fro", 1, -1, `inf`, `-inf` (the largest or smallest sum of a column
            or row), "nuc", 2, -2 (the sum, the largest, the smallest of the singular values); None
            for the root of the sum of squares over all axes.
        axis: axis of vectors, or two of matrices, negative ones counted from the end; None takes
            all.
        keepdims: whether reduced axes stay, with size 1.

    Returns:
        A real floating array without the reduced axes, or with size 1 there.

    Raises:
        ArgumentError: for an order that is not known.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> norm(tnp.array([3.0, 4.0]))
        Array(5., dtype=float32)
    """
    x = array_of("norm", x)
    axes = some_axes("norm", axis, x.ndim)
    dtype = inexact((x.dtype, False))[0]
    if ord is None or (len(axes) == 2 and ord in ("fro", "f")):
        return apply(_length, (x,), axes, dtype, bool(keepdims))
    if len(axes) == 1:
        return apply(_vector, (x,), _order("norm", ord), axes, dtype, bool(keepdims))
    if len(axes) == 2 and ord in (1, -1, math.inf, -math.inf):
        assert not isinstance(ord, str)
        return apply(_matrix, (x,), float(ord), axes, dtype, bool(keepdims))
    if len(axes) == 2 and ord in ("nuc", 2, -2):
        return _spectral(x, ord, axes, keepdims)
    raise ArgumentError(
        f"norm knows no order {ord!r} over {len(axes)} axes",
        got=f"ord={shown(ord)}, {shown(x)}, axis={axis}",
        hint="of matrices 'fro', 'nuc', 1, -1, 2, -2, inf and -inf",
    )


def _spectral(x: Array, order: Order, axes: Sequence[int], keepdims: bool) -> Array:
    values = eigen.svdvals(moveaxis(x, axes, (-2, -1)))
    if order == "nuc":
        total = reductions.sum(values, -1)
    else:
        total = values[..., 0] if order == 2 else values[..., -1]
    total = total.astype(part(inexact((x.dtype, False))[0]))
    return expand_dims(total, tuple(sorted(axes))) if keepdims else total


def matrix_norm(
    x: Num[ArrayLike, "*batch m n"], /, *, keepdims: bool = False, ord: Order = "fro"
) -> Float[Array, "*batch"]:
    """The norm of matrices, the last two axes.

    Args:
        x: matrices, the last two axes.
        keepdims: whether reduced axes stay, with size 1.
        ord: order, as for `norm`; "fro" by default, and None for the same.

    Raises:
        ShapeError: if there are fewer than two axes.
        ArgumentError: for an order that is not known.

    Example:
        >>> import tfn.numpy as tnp
        >>> matrix_norm(tnp.array([[3.0, 0.0], [0.0, 4.0]])).item()
        5.0
    """
    x = array_of("matrix_norm", x)
    need_matrices("matrix_norm", x)
    return norm(x, ord, (-2, -1), keepdims)


def vector_norm(
    x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2
) -> Array:
    """The norm of vectors over axes, whose elements count as those of one vector.

    Args:
        x: array or number.
        axis: axis or axes of the vectors, negative ones counted from the end; None takes all.
        keepdims: whether reduced axes stay, with size 1.
        ord: any number, `inf`, `-inf`, or 0 for the number of elements that are not zero; 2 by
            default.

    Returns:
        A real floating array without the reduced axes, or with size 1 there.

    Raises:
        ArgumentError: unless `ord` is a number.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> vector_norm(tnp.array([3.0, 4.0])).item()
        5.0
    """
    x = array_of("vector_norm", x)
    axes = some_axes("vector_norm", axis, x.ndim)
    order = _order("vector_norm", ord)
    return apply(_vector, (x,), order, axes, inexact((x.dtype, False))[0], bool(keepdims))


def _order(name: str, ord: object) -> float:
    """The order of a norm of vectors."""
    return float(real_number(name, "ord", ord))


def _length(x: UOp, axes: tuple[int, ...], dtype: DType, keepdims: bool) -> UOp:
    x = cast(x, build.accumulator(dtype))
    return cast(unary(Op.SQRT, add_up(reductions.squared(x), axes, keepdims)), part(dtype))


def _vector(x: UOp, order: float, axes: tuple[int, ...], dtype: DType, keepdims: bool) -> UOp:
    if order == 2:
        return _length(x, axes, dtype, keepdims)
    x = cast(x, build.accumulator(dtype))
    size = unary(Op.ABS, x)
    if math.isinf(order):
        total = reduce(size, Op.MAX if order > 0 else Op.MIN, axes, keepdims)
    elif order == 0:
        total = add_up(cast(ne(x, full_like(x, 0)), size.dtype), axes, keepdims)
    elif order == 1:
        total = add_up(size, axes, keepdims)
    else:
        powers = add_up(UOp(Op.POW, (size, full_like(size, order))), axes, keepdims)
        total = UOp(Op.POW, (powers, full_like(powers, 1 / order)))
    return cast(total, part(dtype))


def _matrix(x: UOp, order: float, axes: tuple[int, ...], dtype: DType, keepdims: bool) -> UOp:
    row, column = axes
    inner, outside = (column, row) if math.isinf(order) else (row, column)
    sums = add_up(unary(Op.ABS, cast(x, build.accumulator(dtype))), (inner,), keepdims=True)
    if order < 0 and not x.shape[outside]:
        return full_like(sums, highest(sums.dtype))
    best = reduce(sums, Op.MAX if order > 0 else Op.MIN, (outside,), keepdims=True)
    shape = tuple(n for a, n in enumerate(best.shape) if keepdims or a not in axes)
    return cast(build.reshape(best, shape), part(dtype))


def cond(x: Num[ArrayLike, "*batch m n"], p: Order = None) -> Float[Array, "*batch"]:
    """The condition number of matrices: their norm times that of the inverse.

    Relative errors can grow by this factor.

    Args:
        x: matrices, the last two axes; square unless `p` is None, 2 or -2.
        p: order of the norm, as for `norm`; 2 for None.

    Raises:
        ShapeError: if there are fewer than two axes, or the matrices are to be square and are not.

    Example:
        >>> import tfn.numpy as tnp
        >>> cond(tnp.array([[4.0, 0.0], [0.0, 2.0]])).tolist()
        2.0
    """
    x = array_of("cond", x)
    if p in (None, 2, -2):
        values = eigen.svdvals(x)
        low, high = (0, -1) if p == -2 else (-1, 0)
        return values[..., high] / values[..., low]
    inverse = triangular.solve(x, eye(x.shape[-1], dtype=x.dtype))
    return norm(x, p, (-2, -1)) * norm(inverse, p, (-2, -1))


def matrix_rank(
    M: Num[ArrayLike, "*batch m n"],
    rtol: ArrayLike | None = None,
    *,
    tol: ArrayLike | None = None,
    hermitian: bool = False,
) -> Array:
    """The number of singular values that are not negligible.

    Args:
        M: matrices, the last two axes; of fewer axes the rank is 1, or 0 if all is zero.
        rtol: singular values up to this fraction of the largest are negligible; None takes the
            larger size of the matrix times the machine precision.
        tol: singular values up to this one are negligible, and `rtol` is None; None follows
            `rtol`.
        hermitian: accepted as in NumPy, and changes nothing.

    Returns:
        An int32 array without the last two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> matrix_rank(tnp.ones((2, 2))).item()
        1
    """
    hint = "tol is a singular value, rtol a fraction of the largest"
    one_of_two("matrix_rank", hint, rtol=rtol, tol=tol)
    M = array_of("matrix_rank", M)
    if M.ndim < 2:
        return reductions.any(M != 0).astype(int)
    values = eigen.svdvals(M)
    if tol is None:
        relative = max(M.shape[-2:]) * finfo(values.dtype).eps if rtol is None else asarray(rtol)
        relative = relative if isinstance(relative, float) else relative[..., None]
        tol = reductions.max(values, -1, keepdims=True, initial=0) * relative
    else:
        tol = asarray(tol)[..., None]
    return reductions.sum(values > tol, -1, dtype=int)
