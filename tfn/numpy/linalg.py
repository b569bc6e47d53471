"""Linear algebra that needs no factorisation: norms, powers and chains of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import DType, highest
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy.contraction import cross as cross
from tfn.numpy.contraction import matmul as matmul
from tfn.numpy.contraction import outer as outer
from tfn.numpy.contraction import tensordot as tensordot
from tfn.numpy.contraction import vecdot as vecdot
from tfn.numpy.manipulation import diagonal as diagonal
from tfn.numpy.manipulation import matrix_transpose as matrix_transpose
from tfn.numpy.manipulation import trace as trace
from tfn.numpy.matrices import eye
from tfn.numpy.operands import apply, array_of, inexact, some_axes
from tfn.trace import build
from tfn.trace.build import add_up, cast, full_like, ne, reduce, unary
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Order = float | str | None


def norm(x: ArrayLike, ord: Order = None, axis: Axes = None, keepdims: bool = False) -> Array:
    """The length of vectors or the size of matrices.

    Of vectors: any number, `inf`, `-inf`, or 0 (how many are not zero); of matrices, over two
    axes: "fro", 1, -1, `inf`, `-inf` (the largest or smallest sum of a column or row).  Without
    `ord` the root of the sum of squares over all axes.

    Raises:
        ArgumentError: for an order that needs singular values, or is not known.

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
        if isinstance(ord, str):
            raise ArgumentError(f"norm knows no order {ord!r} of vectors")
        return apply(_vector, (x,), float(ord), axes, dtype, bool(keepdims))
    if len(axes) == 2 and ord in (1, -1, math.inf, -math.inf):
        assert not isinstance(ord, str)
        return apply(_matrix, (x,), float(ord), axes, dtype, bool(keepdims))
    raise ArgumentError(
        f"norm knows no order {ord!r} over {len(axes)} axes",
        hint="of matrices 'fro', 1, -1, inf and -inf; the others need singular values",
    )


def vector_norm(
    x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2
) -> Array:
    """The length of vectors over axes, taken as one; see `norm`."""
    x = array_of("vector_norm", x)
    axes = some_axes("vector_norm", axis, x.ndim)
    return apply(_vector, (x,), float(ord), axes, inexact((x.dtype, False))[0], bool(keepdims))


def _length(x: UOp, axes: tuple[int, ...], dtype: DType, keepdims: bool) -> UOp:
    x = cast(x, build.accumulator(dtype))
    return cast(unary(Op.SQRT, add_up(x * x, axes, keepdims)), dtype)


def _vector(x: UOp, order: float, axes: tuple[int, ...], dtype: DType, keepdims: bool) -> UOp:
    if order == 2:
        return _length(x, axes, dtype, keepdims)
    x = cast(x, build.accumulator(dtype))
    size = unary(Op.ABS, x)
    if math.isinf(order):
        total = reduce(size, Op.MAX if order > 0 else Op.MIN, axes, keepdims)
    elif order == 0:
        total = add_up(cast(ne(x, full_like(x, 0)), x.dtype), axes, keepdims)
    elif order == 1:
        total = add_up(size, axes, keepdims)
    else:
        powers = add_up(UOp(Op.POW, (size, full_like(size, order))), axes, keepdims)
        total = UOp(Op.POW, (powers, full_like(powers, 1 / order)))
    return cast(total, dtype)


def _matrix(x: UOp, order: float, axes: tuple[int, ...], dtype: DType, keepdims: bool) -> UOp:
    row, column = axes
    inner, outside = (column, row) if math.isinf(order) else (row, column)
    sums = add_up(unary(Op.ABS, cast(x, build.accumulator(dtype))), (inner,), keepdims=True)
    if order < 0 and not x.shape[outside]:
        return full_like(sums, highest(sums.dtype))
    best = reduce(sums, Op.MAX if order > 0 else Op.MIN, (outside,), keepdims=True)
    shape = tuple(n for a, n in enumerate(best.shape) if keepdims or a not in axes)
    return cast(build.reshape(best, shape), dtype)


def matrix_power(a: ArrayLike, n: int) -> Array:
    """A square matrix multiplied with itself, `n` factors in all; the identity for 0.

    Raises:
        ShapeError: unless the last two axes are of one size.
        ArgumentError: for a negative power, which needs an inverse.
    """
    a = array_of("matrix_power", a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError("matrix_power needs square matrices", got=str(a.shape))
    if n < 0:
        raise ArgumentError("matrix_power needs a power that is not negative", got=str(n))
    result: Array | None = None
    while n:
        if n & 1:
            result = a if result is None else matmul(result, a)
        n >>= 1
        a = matmul(a, a) if n else a
    if result is None:
        one = eye(a.shape[-1], dtype=a.dtype)
        return apply(build.broadcast_to, (one,), a.shape)
    return result


def multi_dot(arrays: Sequence[ArrayLike]) -> Array:
    """The product of a chain of matrices, in the order that takes the fewest multiplications.

    The first and the last may be vectors.

    Raises:
        ArgumentError: for fewer than two arrays.
        ShapeError: if neighbours do not fit.

    Source: Cormen, Leiserson, Rivest, Stein, "Introduction to Algorithms", section 15.2.
    """
    chain = [array_of("multi_dot", a) for a in arrays]
    if len(chain) < 2:
        raise ArgumentError("multi_dot needs at least two arrays", got=f"{len(chain)} of them")
    first, last = chain[0].ndim == 1, chain[-1].ndim == 1
    chain[0] = chain[0].reshape(1, -1) if first else chain[0]
    chain[-1] = chain[-1].reshape(-1, 1) if last else chain[-1]
    if any(a.ndim != 2 for a in chain):
        raise ShapeError("multi_dot needs matrices", got=", ".join(str(a.shape) for a in chain))
    out = _product(chain, _splits([a.shape[0] for a in chain] + [chain[-1].shape[1]]))
    axes = tuple(axis for axis, drop in ((0, first), (1, last)) if drop)
    return out.squeeze(axes) if axes else out


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """For each part of a chain, where to cut it."""
    count = len(sizes) - 1
    cost = np.zeros((count, count))
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = [
                cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            ]
            best = int(np.argmin(costs))
            cost[i, j], cut[i, j] = costs[best], i + best
    return cut


def _product(chain: Sequence[Array], cut: dict[tuple[int, int], int]) -> Array:
    def part(i: int, j: int) -> Array:
        if i == j:
            return chain[i]
        k = cut[i, j]
        return matmul(part(i, k), part(k + 1, j))

    return part(0, len(chain) - 1)
