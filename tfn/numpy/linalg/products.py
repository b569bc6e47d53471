"""Products of matrices: powers, chains, cross and outer products, traces."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfn._support.validate import integer, rank, several, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import DTypeLike
from tfn.eager.operands import apply, array_of, one_axis
from tfn.errors import ArgumentError
from tfn.numpy import contraction, manipulation
from tfn.numpy.arithmetic import by_squaring
from tfn.numpy.contraction import matmul
from tfn.numpy.linalg.stacks import need_matrices
from tfn.numpy.linalg.systems import inv
from tfn.numpy.matrices import eye
from tfn.trace import build

if TYPE_CHECKING:
    from jaxtyping import Num, Shaped


def matrix_power(a: Num[ArrayLike, "*batch d d"], n: int) -> Num[Array, "*batch d d"]:
    """A square matrix multiplied with itself, `n` factors in all; the identity for 0.

    A negative power multiplies the inverse.

    Raises:
        ShapeError: unless the last two axes are of one size.
        ArgumentError: unless `n` is an integer.

    Example:
        >>> import tfn.numpy as tnp
        >>> matrix_power(tnp.array([[1, 1], [1, 0]]), 5).tolist()
        [[8, 5], [5, 3]]
    """
    a = array_of("matrix_power", a)
    need_matrices("matrix_power", a, square=True)
    n = integer("matrix_power", "n", n)
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        one = eye(a.shape[-1], dtype=a.dtype)
        return apply(build.broadcast_to, (one,), a.shape)
    return by_squaring(matmul, a, n)


def multi_dot(arrays: Sequence[ArrayLike]) -> Array:
    """The product of a chain of matrices, in the order that takes the fewest multiplications.

    The first and the last may be vectors.

    Raises:
        ArgumentError: for fewer than two arrays.
        ShapeError: if neighbours do not fit.

    Source: Cormen, Leiserson, Rivest, Stein, "Introduction to Algorithms", section 15.2.

    Example:
        >>> import tfn.numpy as tnp
        >>> multi_dot([tnp.ones((2, 3)), tnp.ones((3, 5)), tnp.ones((5, 1))]).tolist()
        [[15.0], [15.0]]
    """
    chain = [array_of("multi_dot", a) for a in several("multi_dot", "arrays", arrays, "arrays")]
    if len(chain) < 2:
        raise ArgumentError(
            "multi_dot needs at least two arrays",
            got=f"{len(chain)} of them",
            hint="pass a list of them: multi_dot([a, b, c])",
        )
    first, last = chain[0].ndim == 1, chain[-1].ndim == 1
    chain[0] = chain[0].reshape(1, -1) if first else chain[0]
    chain[-1] = chain[-1].reshape(-1, 1) if last else chain[-1]
    if any(a.ndim != 2 for a in chain):
        raise unfit("multi_dot needs matrices", chain, "only the first and the last may be vectors")
    out = _product(chain, _splits([a.shape[0] for a in chain] + [chain[-1].shape[1]]))
    axes = tuple(axis for axis, drop in ((0, first), (1, last)) if drop)
    return out.squeeze(axes) if axes else out


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """The best cut of each part of a chain, by dynamic programming."""
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


def cross(
    x1: Num[ArrayLike, "*#batch d"], x2: Num[ArrayLike, "*#batch d"], /, *, axis: int = -1
) -> Num[Array, "*batch d"]:
    """The cross products of vectors of three elements along an axis.

    Args:
        x1: first vectors.
        x2: second vectors, broadcast with the first.
        axis: axis of the vectors, counted from the end if negative; the last by default.

    Raises:
        ShapeError: for other sizes.
        AxisError: if one of them has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> cross(tnp.array([0, 1, 0]), tnp.array([0, 0, 1]))
        Array([1, 0, 0], dtype=int32)
    """
    a, b = array_of("cross", x1), array_of("cross", x2)
    if any(x.ndim == 0 or x.shape[one_axis("linalg.cross", axis, x.ndim)] != 3 for x in (a, b)):
        raise unfit("linalg.cross needs vectors of size 3", (a, b), "axis= says where they lie")
    return contraction.cross(a, b, axis=axis)


def outer(x1: Shaped[ArrayLike, " m"], x2: Shaped[ArrayLike, " n"], /) -> Shaped[Array, "m n"]:
    """All products of the elements of two vectors.

    Raises:
        ShapeError: for other numbers of axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> outer(tnp.array([1, 2]), tnp.array([3, 4])).tolist()
        [[3, 4], [6, 8]]
    """
    a, b = array_of("outer", x1), array_of("outer", x2)
    for x in (a, b):
        rank("linalg.outer", x, 1, 1)
    return contraction.outer(a, b)


def diagonal(
    x: Shaped[ArrayLike, "*batch m n"], /, *, offset: int = 0
) -> Shaped[Array, "*batch k"]:
    """The diagonals of matrices, the last two axes.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> diagonal(tnp.array([[1, 2], [3, 4]]))
        Array([1, 4], dtype=int32)
    """
    return manipulation.diagonal(x, offset, -2, -1)


def trace(
    x: Shaped[ArrayLike, "*batch m n"], /, *, offset: int = 0, dtype: DTypeLike | None = None
) -> Shaped[Array, "*batch"]:
    """The sums of the diagonals of matrices, the last two axes.

    Args:
        x: matrices, the last two axes.
        offset: number of the diagonal: 0 is the main one, positive ones lie above it, negative ones
            below.
        dtype: dtype of the sums; None takes that of `x`, but 32 bits at least.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> trace(tnp.array([[1, 2], [3, 4]])).item()
        5
    """
    return manipulation.trace(x, offset, -2, -1, dtype)
