"""Structured matrices: the identity, triangles, powers."""

from __future__ import annotations

from tfn._support.validate import integer, rank, size_limit
from tfn.array import Array, ArrayLike
from tfn.dtypes import DEFAULTS, FLOAT32, DType, DTypeLike, canonical
from tfn.eager.operands import a_shape, apply, array_of
from tfn.numpy.creation import make, on_device
from tfn.trace import build
from tfn.trace.build import cast, iota
from tfn.trace.build import where as choose
from tfn.trace.op import Shape
from tfn.trace.uop import UOp


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
) -> Array:
    """A matrix with ones on the k-th diagonal and zeros elsewhere.

    Args:
        N: number of rows.
        M: number of columns, N for None.
        k: number of the diagonal: 0 is the main one, positive ones lie above it, negative ones
            below.
        dtype: dtype of the result, float32 for None.
        device: a device, its name or a sharding; None for the default device.

    Raises:
        ShapeError: if a size is negative.
        DeviceError: if there is no such device.

    Example:
        >>> eye(2, 3, 1).tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if device is not None:
        return on_device(eye(N, M, k, dtype), device)
    shape = a_shape("eye", (N, N if M is None else M))
    return make(
        _eye,
        shape,
        _inside("eye", k, shape),
        DEFAULTS[float] if dtype is None else canonical(dtype),
    )


def _inside(name: str, k: int, shape: Shape) -> int:
    """The number of a diagonal, clipped to the first one outside of the matrix."""
    return min(max(integer(name, "k", k), -shape[-2] - 1), shape[-1])


def _eye(shape: Shape, k: int, dtype: DType) -> UOp:
    rows, columns = rows_and_columns(shape)
    return cast(build.eq(rows + k, columns), dtype)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The identity matrix of n rows, float32 by default.

    Example:
        >>> identity(2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """A matrix with ones at and below the k-th diagonal and zeros above.

    Args:
        N: number of rows.
        M: number of columns, N for None.
        k: number of the diagonal: 0 is the main one, positive ones lie above it, negative ones
            below.
        dtype: dtype of the result, float32 for None.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> tri(2, 3).tolist()
        [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    shape = a_shape("tri", (N, N if M is None else M))
    return make(
        _tri,
        shape,
        _inside("tri", k, shape),
        FLOAT32 if dtype is None else canonical(dtype),  # whatever the defaults, as in JAX
    )


def _tri(shape: Shape, k: int, dtype: DType) -> UOp:
    return cast(below(shape, k), dtype)


def below(shape: Shape, k: int) -> UOp:
    """Whether an element of the last two axes is at or below the k-th diagonal."""
    rows, columns = rows_and_columns(shape)
    return columns <= rows + k


def rows_and_columns(shape: Shape) -> tuple[UOp, UOp]:
    """The row and the column of each element of the last two axes, in one dtype."""
    dtype, n = build.index_dtype(max(shape[-2:])), len(shape)
    return iota(shape, n - 2, dtype), iota(shape, n - 1, dtype)


def tril(m: ArrayLike, k: int = 0) -> Array:
    """The lower triangles of matrices, the last two axes: zeros above the k-th diagonal.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> tril(tnp.array([[1, 2], [3, 4]])).tolist()
        [[1, 0], [3, 4]]
    """
    return _triangle("tril", m, 0, k)


def triu(m: ArrayLike, k: int = 0) -> Array:
    """The upper triangles of matrices, the last two axes: zeros below the k-th diagonal.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> triu(tnp.array([[1, 2], [3, 4]])).tolist()
        [[1, 2], [0, 4]]
    """
    return _triangle("triu", m, 1, k)


def _triangle(name: str, m: ArrayLike, upper: int, k: int) -> Array:
    m = array_of(name, m)
    rank(name, m, 2)
    return apply(_masked, (m,), _inside(name, integer(name, "k", k) - upper, m.shape), not upper)


def _masked(m: UOp, k: int, lower: bool) -> UOp:
    inside, zero = below(m.shape, k), build.full_like(m, 0)
    return choose(inside, m, zero) if lower else choose(inside, zero, m)


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix of powers of the elements of a vector, one row for each; the highest power first.

    Args:
        x: vector of numbers.
        N: number of columns, the size of `x` for None.
        increasing: whether the lowest power, the ones, comes first.

    Returns:
        A matrix of shape ``(x.size, N)`` and the dtype of `x`.

    Raises:
        ShapeError: unless `x` is a vector.
        ArgumentError: if `N` is negative.

    Example:
        >>> import tfn.numpy as tnp
        >>> vander(tnp.array([1, 2, 3]), 3).tolist()
        [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    """
    x = array_of("vander", x)
    rank("vander", x, 1, 1)
    count = x.size if N is None else integer("vander", "N", N, 0)
    size_limit("vander", (x.size or 1, count))
    return apply(_powers, (x,), count, bool(increasing))


def _powers(x: UOp, count: int, increasing: bool) -> UOp:
    columns = [build.full_like(x, 1)]
    for _ in range(count - 1):
        columns.append(columns[-1] * x)
    columns = columns[:count] if increasing else columns[:count][::-1]
    if not columns:
        return build.zeros((x.size, 0), x.dtype)
    return build.concat([build.reshape(column, (x.size, 1)) for column in columns], 1)
