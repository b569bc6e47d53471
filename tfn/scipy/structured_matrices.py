"""Matrices of a structure, by the names of `scipy.linalg`: what an element is, from its indices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import DTypeLike
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import integer, one_of, operands, size_limit


def _lines(name: str, a: ArrayLike) -> Array:
    """Vectors, the last axis; a number is one of one element."""
    lines: Array = jnp.atleast_1d(operands.array_of(name, a))
    return lines


def _places(rows: int, columns: int) -> tuple[Array, Array]:
    return jnp.arange(rows)[:, None], jnp.arange(columns)


def circulant(c: ArrayLike) -> Array:
    """Circulant matrices, each column of which is the one before it, turned by one.

    Args:
        c: first columns, the last axis.

    Returns:
        Square matrices of the dtype of `c`.

    Example:
        >>> import tfn.numpy as tnp
        >>> circulant(tnp.array([1, 2, 3])).tolist()
        [[1, 3, 2], [2, 1, 3], [3, 2, 1]]
    """
    line = _lines("circulant", c)
    n = line.shape[-1]
    size_limit("circulant", (n, n), line.itemsize)
    i, j = _places(n, n)
    return line[..., (i - j) % n]


def companion(a: ArrayLike) -> Array:
    """Companion matrices of polynomials, whose eigenvalues are the roots.

    Args:
        a: coefficients from the highest power on, the last axis; the first is not zero.

    Returns:
        Floating square matrices of one row less.

    Raises:
        ShapeError: for less than two coefficients.

    Example:
        >>> import tfn.numpy as tnp
        >>> companion(tnp.array([1.0, -3.0, 2.0])).tolist()
        [[3.0, -2.0], [1.0, 0.0]]
    """
    line = _coefficients("companion", a)
    first = -line[..., 1:] / line[..., :1]
    n = first.shape[-1]
    below = jnp.broadcast_to(jnp.eye(n - 1, n, dtype=first.dtype), (*first.shape[:-1], n - 1, n))
    return jnp.concatenate([first[..., None, :], below], -2)


def _coefficients(name: str, a: ArrayLike) -> Array:
    line = _lines(name, a)
    if line.shape[-1] < 2:
        raise ShapeError(
            f"{name} needs two coefficients at least",
            got=str(line.shape),
            hint="a constant has no roots",
        )
    return line / 1  # floating


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """Toeplitz matrices whose products with vectors of `n` elements are convolutions with `a`.

    Args:
        a: filters, the last axis.
        n: number of columns.
        mode: "full", "same" or "valid", the length of results, as of `numpy.convolve`.

    Returns:
        Matrices of the dtype of `a`.

    Raises:
        ArgumentError: for another mode, or no column.

    Example:
        >>> import tfn.numpy as tnp
        >>> convolution_matrix(tnp.array([1, 2]), 2).tolist()
        [[1, 0], [2, 1], [0, 2]]
    """
    line = _lines("convolution_matrix", a)
    n = integer("convolution_matrix", "n", n, 1)
    one_of("convolution_matrix", "mode", mode, ("full", "same", "valid"))
    m = line.shape[-1]
    total, kept = m + n - 1, {"full": m + n - 1, "same": max(m, n), "valid": abs(m - n) + 1}[mode]
    begin = min(m, n) - 1 if mode == "valid" else (total - kept) // 2
    size_limit("convolution_matrix", (kept, n), line.itemsize)
    i, j = _places(kept, n)
    place: Any = i + begin - j
    inside = (place >= 0) & (place < m)
    return jnp.where(inside, line[..., place.clip(0, m - 1)], 0)


def fiedler(a: ArrayLike) -> Array:
    """Fiedler matrices, of elements ``abs(a[i] - a[j])``.

    Args:
        a: vectors, the last axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> fiedler(tnp.array([1, 3])).tolist()
        [[0, 2], [2, 0]]
    """
    line = _lines("fiedler", a)
    size_limit("fiedler", (line.shape[-1],) * 2, line.itemsize)
    return abs(line[..., :, None] - line[..., None, :])


def fiedler_companion(a: ArrayLike) -> Array:
    """Fiedler's companion matrices: five diagonals, with the roots of polynomials as eigenvalues.

    Args:
        a: coefficients from the highest power on, the last axis; the first is not zero.

    Returns:
        Floating square matrices of one row less.

    Raises:
        ShapeError: for less than two coefficients.

    Source: M. Fiedler, "A note on companion matrices", 2003.

    Example:
        >>> import tfn.numpy as tnp
        >>> fiedler_companion(tnp.array([1.0, -16.0, 86.0, -176.0])).tolist()
        [[16.0, -86.0, 1.0], [1.0, 0.0, 0.0], [0.0, 176.0, 0.0]]
    """
    line = _coefficients("fiedler_companion", a)
    line = line / line[..., :1]
    n = line.shape[-1] - 1
    # A row has two coefficients and a one, the next row a one; both are moved on by two.
    which, ones = np.zeros((n, n), int), np.zeros((n, n))
    for i in range(n):
        if i % 2:
            ones[i, max(i - 2, 0)] = 1
            continue
        which[i, max(i - 1, 0)] = i + 1
        if i + 1 < n:
            which[i, i + 1] = i + 2
        if i + 2 < n:
            ones[i, i + 2] = 1
    coefficients = jnp.where(which > 0, -line[..., which], 0)
    return coefficients + ones.astype(line.dtype)


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """The Hadamard matrix by Sylvester's construction: ones and minus ones, orthogonal columns.

    Raises:
        ArgumentError: unless `n` is a power of two.

    Example:
        >>> hadamard(2).tolist()
        [[1, 1], [1, -1]]
    """
    n = integer("hadamard", "n", n, 1)
    if n & (n - 1):
        raise ArgumentError("hadamard needs a power of two", got=f"n={n}", hint="as 4 or 8")
    operands.a_shape("hadamard", (n, n))
    i, j = _places(n, n)
    common = jnp.bitwise_count(i & j)
    return (1 - 2 * (common % 2).astype(int)).astype(dtype)


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Hankel matrices, whose diagonals from the lower left to the upper right are constant.

    Args:
        c: first columns, the last axis.
        r: last rows, whose first elements are not used; None for zeros.

    Example:
        >>> import tfn.numpy as tnp
        >>> hankel(tnp.array([1, 2]), tnp.array([0, 3, 4])).tolist()
        [[1, 2, 3], [2, 3, 4]]
    """
    column = _lines("hankel", c)
    row = jnp.zeros_like(column) if r is None else _lines("hankel", r)
    rows, columns = column.shape[-1], row.shape[-1]
    size_limit("hankel", (rows, columns), column.itemsize)
    batch = jnp.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    parts = (jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (column, row[..., 1:]))
    i, j = _places(rows, columns)
    return jnp.concatenate(list(parts), -1)[..., i + j]


def helmert(n: int, full: bool = False) -> Array:
    """The Helmert matrix of `n` columns: orthonormal rows, each an element against earlier ones.

    With `full` the first row is constant; else it is left out.

    Raises:
        ArgumentError: unless `n` is an integer from 1 on.

    Example:
        >>> helmert(2).round(4)
        Array([[ 0.7071, -0.7071]], dtype=float32)
    """
    n = integer("helmert", "n", n, 1)
    operands.a_shape("helmert", (n, n))
    i, j = _places(n, n)
    row: Any = i.astype(float)
    scale = 1 / jnp.sqrt(jnp.where(i == 0, n, row * (row + 1)))
    matrix = jnp.where((j < i) | (i == 0), scale, jnp.where(i == j, -row * scale, 0.0))
    return matrix if full else matrix[1:]


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Leslie matrices of populations by age: births in the first row, survival below the diagonal.

    Args:
        f: rates of birth, the last axis.
        s: rates of survival, one less.

    Raises:
        ShapeError: unless there is one less.

    Example:
        >>> import tfn.numpy as tnp
        >>> leslie(tnp.array([0.1, 2.0]), tnp.array([0.5])).tolist()
        [[0.10000000149011612, 2.0], [0.5, 0.0]]
    """
    births, rest = _lines("leslie", f), _lines("leslie", s)
    n = births.shape[-1]
    if rest.shape[-1] != n - 1:
        raise ShapeError(
            "leslie needs one rate of survival less than rates of birth",
            got=f"{births.shape}, {rest.shape}",
            hint="the oldest do not survive",
        )
    below = rest[..., :, None] * jnp.eye(n - 1, n, dtype=rest.dtype)
    return jnp.concatenate([births[..., None, :], below], -2)


def _exact(name: str, n: int, element: Callable[[int, int], int]) -> Array:
    """A matrix of integers, computed exactly and rounded once to the default floats."""
    n = integer(name, "n", n, 0)
    operands.a_shape(name, (n, n))
    values = [[float(element(i, j)) for j in range(n)] for i in range(n)]
    return jnp.asarray(np.array(values).reshape(n, n), dtype=float)


def pascal(n: int, kind: str = "symmetric") -> Array:
    """The Pascal matrix of binomial coefficients: "symmetric", or its "lower" or "upper" factor.

    Raises:
        ArgumentError: for another kind, or unless `n` is an integer from 0 on.

    Example:
        >>> pascal(3).tolist()
        [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 6.0]]
    """
    one_of("pascal", "kind", kind, ("symmetric", "lower", "upper"))
    elements: dict[str, Callable[[int, int], int]] = {
        "symmetric": lambda i, j: math.comb(i + j, i),
        "lower": math.comb,
        "upper": lambda i, j: math.comb(j, i),
    }
    return _exact("pascal", n, elements[kind])


def invpascal(n: int, kind: str = "symmetric") -> Array:
    """The inverse of `pascal`, of integers too.

    Raises:
        ArgumentError: for another kind, or unless `n` is an integer from 0 on.

    Example:
        >>> invpascal(2).tolist()
        [[2.0, -1.0], [-1.0, 1.0]]
    """
    one_of("invpascal", "kind", kind, ("symmetric", "lower", "upper"))

    def sign(i: int, j: int) -> int:
        return -1 if (i + j) % 2 else 1

    elements: dict[str, Callable[[int, int], int]] = {
        "symmetric": lambda i, j: (
            sign(i, j) * sum(math.comb(k, i) * math.comb(k, j) for k in range(max(i, j), n))
        ),
        "lower": lambda i, j: sign(i, j) * math.comb(i, j),
        "upper": lambda i, j: sign(i, j) * math.comb(j, i),
    }
    return _exact("invpascal", n, elements[kind])


def invhilbert(n: int) -> Array:
    """The inverse of `hilbert`, of integers, rounded once.

    Raises:
        ArgumentError: unless `n` is an integer from 0 on.

    Source: M.-D. Choi, "Tricks or treats with the Hilbert matrix", 1983.

    Example:
        >>> invhilbert(2).tolist()
        [[4.0, -6.0], [-6.0, 12.0]]
    """

    def element(i: int, j: int) -> int:
        size = math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1) * math.comb(i + j, i) ** 2
        return (-1 if (i + j) % 2 else 1) * (i + j + 1) * size

    return _exact("invhilbert", n, element)
