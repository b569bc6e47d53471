"""Linear algebra in the manner of `scipy.linalg`: factorisations, solutions, exponentials."""

from __future__ import annotations

import math
from typing import Any

from tfn import jvp, lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import DTypeLike, canonical, part
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import integer, one_of, operands, rank, several, shown, size_limit
from tfn.numpy.linalg import det as det
from tfn.numpy.linalg import inv as inv
from tfn.numpy.linalg.stacks import adjoint, matrices
from tfn.numpy.linalg.triangular import hermitian
from tfn.scipy.matrix_functions import eigh_tridiagonal as eigh_tridiagonal
from tfn.scipy.matrix_functions import funm as funm
from tfn.scipy.matrix_functions import hessenberg as hessenberg
from tfn.scipy.matrix_functions import polar as polar
from tfn.scipy.matrix_functions import qr_multiply as qr_multiply
from tfn.scipy.matrix_functions import rsf2csf as rsf2csf
from tfn.scipy.matrix_functions import schur as schur
from tfn.scipy.matrix_functions import solve_sylvester as solve_sylvester
from tfn.scipy.matrix_functions import sqrtm as sqrtm
from tfn.scipy.structured_matrices import circulant as circulant
from tfn.scipy.structured_matrices import companion as companion
from tfn.scipy.structured_matrices import convolution_matrix as convolution_matrix
from tfn.scipy.structured_matrices import fiedler as fiedler
from tfn.scipy.structured_matrices import fiedler_companion as fiedler_companion
from tfn.scipy.structured_matrices import hadamard as hadamard
from tfn.scipy.structured_matrices import hankel as hankel
from tfn.scipy.structured_matrices import helmert as helmert
from tfn.scipy.structured_matrices import invhilbert as invhilbert
from tfn.scipy.structured_matrices import invpascal as invpascal
from tfn.scipy.structured_matrices import leslie as leslie
from tfn.scipy.structured_matrices import pascal as pascal


def cholesky(a: ArrayLike, lower: bool = False) -> Array:
    """The upper triangle R of R^H R = a, or the lower L of L L^H = a.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> cholesky(tnp.array([[4.0, 2.0], [2.0, 2.0]])).tolist()
        [[2.0, 1.0], [0.0, 1.0]]
    """
    x = matrices("cholesky", a, square=True)
    x = x if lower else adjoint(x)
    return jnp.linalg.cholesky(x, upper=not lower, symmetrize_input=False)


def cho_factor(a: ArrayLike, lower: bool = False) -> tuple[Array, bool]:
    """A factor for `cho_solve`, and whether it is the lower one.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> factor, lower = cho_factor(tnp.array([[4.0, 0.0], [0.0, 9.0]]))
        >>> factor.tolist(), lower
        ([[2.0, 0.0], [0.0, 3.0]], False)
    """
    return cholesky(a, lower), lower


def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike) -> Array:
    """The solution x of a x = b from the result of `cho_factor` of a.

    Raises:
        ArgumentError: unless `c_and_lower` is such a pair.
        ShapeError: if the shapes do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> factor = cho_factor(tnp.array([[4.0, 0.0], [0.0, 8.0]]))
        >>> cho_solve(factor, tnp.array([4.0, 8.0])).tolist()
        [1.0, 1.0]
    """
    pair = several("cho_solve", "c_and_lower", c_and_lower)
    if len(pair) != 2:
        raise ArgumentError(
            "cho_solve needs a factor and whether it is the lower one",
            got=f"c_and_lower={shown(c_and_lower)}",
            hint="pass what cho_factor returned",
        )
    factor, lower = pair
    x = solve_triangular(factor, b, trans=0 if lower else 2, lower=lower)
    return solve_triangular(factor, x, trans=2 if lower else 0, lower=lower)


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """The solution x of op(a) x = b, for a triangular matrix a.

    Args:
        a: square matrices, the last two axes, of which only one triangle is read.
        b: matrices of right sides, or one vector.
        trans: op: 0 or "N" for a itself, 1 or "T" for its transpose, 2 or "C" for its adjoint.
        lower: whether the lower triangle is read; else the upper one.
        unit_diagonal: whether the diagonal is taken to be 1, and not read.

    Returns:
        An array of the shape of `b`; NaN where a diagonal has a zero.

    Raises:
        ArgumentError: for another `trans`.
        ShapeError: if the shapes do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> a = tnp.array([[2.0, 0.0], [2.0, 4.0]])
        >>> solve_triangular(a, tnp.array([2.0, 6.0]), lower=True).tolist()
        [1.0, 1.0]
    """
    trans = int(trans) if isinstance(trans, bool) else trans
    one_of("solve_triangular", "trans", trans, (0, 1, 2, "N", "T", "C"))
    right = operands.array_of("solve_triangular", b)
    columns = right[:, None] if right.ndim == 1 else right
    x = lax.linalg.triangular_solve(
        a,
        columns,
        left_side=True,
        lower=lower,
        transpose_a=trans not in (0, "N"),
        conjugate_a=trans in (2, "C"),
        unit_diagonal=unit_diagonal,
    )
    return x[:, 0] if right.ndim == 1 else x


def lu(a: ArrayLike, permute_l: bool = False) -> Any:
    """The factors P, L and U of a = P L U; with `permute_l` the product P L, and U.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> p, l, u = lu(tnp.array([[0.0, 2.0], [4.0, 0.0]]))
        >>> p.tolist(), u.tolist()
        ([[0.0, 1.0], [1.0, 0.0]], [[4.0, 0.0], [0.0, 2.0]])
    """
    a = matrices("lu", a)
    packed, _, rows = lax.linalg.lu(a)
    size = min(a.shape[-2:])
    low = jnp.tril(packed[..., :, :size], -1) + jnp.eye(a.shape[-2], size, dtype=a.dtype)
    order = jnp.argsort(rows, -1)
    exchange = jnp.take_along_axis(
        jnp.broadcast_to(jnp.eye(a.shape[-2], dtype=a.dtype), (*a.shape[:-1], a.shape[-2])),
        order[..., None],
        -2,
    )
    high = jnp.triu(packed[..., :size, :])
    return (exchange @ low, high) if permute_l else (exchange, low, high)


def lu_factor(a: ArrayLike) -> tuple[Array, Array]:
    """The factors L and U in one matrix, and the pivots, for `lu_solve`.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> lu_factor(tnp.array([[0.0, 2.0], [4.0, 0.0]]))[1].tolist()
        [1, 1]
    """
    packed, pivots, _ = lax.linalg.lu(a)
    return packed, pivots


def lu_solve(lu_and_piv: tuple[ArrayLike, ArrayLike], b: ArrayLike, trans: int = 0) -> Array:
    """The solution x of a x = b from the results of `lu_factor` of a.

    Args:
        lu_and_piv: what `lu_factor` returned.
        b: matrices of right sides, or one vector.
        trans: 0 for a itself, 1 for its transpose, 2 for its adjoint.

    Returns:
        An array of the shape of `b`.

    Raises:
        ArgumentError: for another `trans`.
        ShapeError: if the shapes do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> lu_solve(lu_factor(tnp.array([[0.0, 2.0], [4.0, 0.0]])), tnp.array([2.0, 8.0])).tolist()
        [2.0, 1.0]
    """
    right = operands.array_of("lu_solve", b)
    columns = right[:, None] if right.ndim == 1 else right
    x = lax.linalg.lu_solve(*lu_and_piv, columns, trans)
    return x[:, 0] if right.ndim == 1 else x


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    *,
    assume_a: str = "gen",
) -> Array:
    """The solution x of a x = b, for square matrices.

    Args:
        a: square matrices, the last two axes.
        b: matrices of right sides, or one vector.
        lower: whether the lower triangle is the one that is read; else the upper one.
        assume_a: "gen", which reads all elements, or, of which one triangle is read, "sym" for
            symmetric, "her" for hermitian or "pos" for positive definite matrices; "pos" uses
            `cholesky`, the others `lu`.

    Returns:
        An array of the shape of `b`; NaN where a matrix is singular, or not positive definite.

    Raises:
        ArgumentError: for another assumption.
        ShapeError: if the shapes do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> solve(tnp.array([[2.0, 0.0], [0.0, 4.0]]), tnp.array([2.0, 4.0])).tolist()
        [1.0, 1.0]
    """
    one_of("solve", "assume_a", assume_a, ("gen", "sym", "her", "pos"))
    if assume_a == "pos":
        return cho_solve(cho_factor(a, lower), b)
    if assume_a == "her":
        a = _of_triangle("solve", a, lower)
    elif assume_a == "sym":
        a = matrices("solve", a, square=True)
        half = jnp.tril(a) if lower else jnp.triu(a)
        a = half + jnp.matrix_transpose(jnp.tril(half, -1) + jnp.triu(half, 1))
    return jnp.linalg.solve(a, b)


def _of_triangle(name: str, a: ArrayLike, lower: bool) -> Array:
    x = matrices(name, a, square=True)
    return hermitian(x if lower else adjoint(x), symmetrize=False)


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    *,
    eigvals: tuple[int, int] | None = None,
    type: int = 1,
) -> Any:
    """The ascending eigenvalues of hermitian matrices and their eigenvectors, in columns.

    Args:
        a: hermitian matrices, the last two axes.
        b: positive definite matrices of the problem a v = w b v; None for the identity.
        lower: whether the lower triangle of `a` is read; else the upper one.
        eigvals_only: whether to return the values alone.
        eigvals: the places of the first and the last value that are wanted; None for all.
        type: 1 for the problem a v = w b v, 2 for a b v = w v, 3 for b a v = w v.

    Returns:
        Real vectors of values, and matrices of vectors.

    Raises:
        ShapeError: unless the matrices are square.
        ArgumentError: for another type.

    Example:
        >>> import tfn.numpy as tnp
        >>> values, vectors = eigh(tnp.array([[2.0, 0.0], [0.0, 1.0]]))
        >>> values.tolist()
        [1.0, 2.0]
    """
    one_of("eigh", "type", type, (1, 2, 3))
    a = _of_triangle("eigh", a, lower)
    b = None if b is None else _of_triangle("eigh", b, lower)
    if eigvals is not None:
        first, last = eigvals
        every = eigh(a, b, lower, type=type)
        values, vectors = every[0][..., first : last + 1], every[1][..., first : last + 1]
        return values if eigvals_only else (values, vectors)
    if b is None:
        if eigvals_only:
            return jnp.linalg.eigvalsh(a)
        return tuple(jnp.linalg.eigh(a))
    factor = jnp.linalg.cholesky(b)
    flags: Any = {"left_side": True, "lower": True}
    if type != 1:
        inner = adjoint(factor) @ a @ factor
        values, vectors = jnp.linalg.eigh(inner)
        if eigvals_only:
            return values
        if type == 3:
            return values, factor @ vectors
        back = lax.linalg.triangular_solve(
            factor, vectors, transpose_a=True, conjugate_a=True, **flags
        )
        return values, back
    inner = lax.linalg.triangular_solve(factor, a, **flags)
    inner = lax.linalg.triangular_solve(factor, adjoint(inner), **flags)
    values, vectors = jnp.linalg.eigh(inner)
    if eigvals_only:
        return values
    return values, lax.linalg.triangular_solve(
        factor, vectors, transpose_a=True, conjugate_a=True, **flags
    )


def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """The factors U, S and V^H of a = U S V^H, or the singular values alone.

    Args:
        a: matrices, the last two axes.
        full_matrices: whether U and V are square; else they have as many columns as there are
            values.
        compute_uv: whether U and V^H are returned, and not S alone.

    Returns:
        A tuple of the matrices U, the real descending vectors S and the matrices V^H, or S alone.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> svd(tnp.array([[3.0, 0.0], [0.0, 4.0]]))[1].tolist()
        [4.0, 3.0]
    """
    factors = jnp.linalg.svd(a, full_matrices, compute_uv)
    return tuple(factors) if compute_uv else factors


def qr(
    a: ArrayLike,
    *,
    mode: str = "full",
    pivoting: bool = False,
) -> Any:
    """The factors Q and R of a = Q R, orthonormal columns and an upper triangle, or R alone.

    Args:
        a: matrices, the last two axes.
        mode: "full" for a square Q, "economic" for one of the smaller size of `a`, "r" for R alone.
        pivoting: whether columns are taken in the order of what is left of their lengths: the
            factors are those of ``a[:, P]``.

    Returns:
        A tuple of the factors, and with pivoting the order P.

    Raises:
        ArgumentError: for another mode.
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> q, r = qr(tnp.ones((3, 2)), mode="economic")
        >>> q.shape, r.shape
        ((3, 2), (2, 2))
    """
    modes = {"full": "complete", "economic": "reduced", "r": "r"}
    one_of("qr", "mode", mode, tuple(modes))
    if pivoting:
        q, r, order = lax.linalg.qr(a, pivoting=True, full_matrices=mode == "full")
        return (r, order) if mode == "r" else (q, r, order)
    factors = jnp.linalg.qr(a, modes[mode])
    return (factors,) if mode == "r" else tuple(factors)


LARGEST_NORM_OF_PADE = 5.371920351148152
"""The 1-norm up to which the error of the approximation is below that of float64 (theta 13)."""

# fmt: off
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
    40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)
# fmt: on
"""Coefficients of the numerator of degree 13, from the constant one on."""


def expm(A: ArrayLike, *, max_squarings: int = 16) -> Array:
    """The exponential of square matrices, by scaling and squaring of a rational approximation.

    The result is NaN where more than `max_squarings` would be needed.

    Raises:
        ShapeError: unless the last two axes are of one size.
        ArgumentError: if `max_squarings` is negative.

    Source: N. J. Higham, "The scaling and squaring method for the matrix exponential revisited",
    2005.

    Example:
        >>> import tfn.numpy as tnp
        >>> expm(tnp.zeros((2, 2))).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    a = matrices("expm", A, square=True)
    max_squarings = integer("expm", "max_squarings", max_squarings, 0)
    norm = lax.stop_gradient(jnp.max(jnp.sum(abs(a), -2), -1, initial=0))
    ratio = norm / LARGEST_NORM_OF_PADE
    squarings = jnp.ceil(jnp.log2(jnp.maximum(ratio, 1)))[..., None, None]
    a = a / (2.0**squarings).astype(a.dtype)
    one = jnp.eye(a.shape[-1], dtype=a.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    b = _PADE
    odd = (
        a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one
    )
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2
    even = even + b[0] * one
    odd = a @ odd
    result = jnp.linalg.solve(even - odd, even + odd)
    result = lax.fori_loop(
        0, max_squarings, lambda i, r: jnp.where(i < squarings, r @ r, r), result
    )
    return jnp.where(squarings > max_squarings, jnp.nan, result)


def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Any:
    """The exponential of a matrix, and its derivative in a direction.

    Args:
        A: square matrices, the last two axes.
        E: directions, of the shape of `A`.
        method: accepted as in SciPy: None, "SPS" or "blockEnlarge".
        compute_expm: whether the exponential is returned too.

    Returns:
        A tuple of the exponential and the derivative, or the derivative.

    Raises:
        ArgumentError: for another method.
        ShapeError: if the shapes differ, or are no squares.

    Example:
        >>> import tfn.numpy as tnp
        >>> expm_frechet(tnp.zeros((2, 2)), tnp.eye(2), compute_expm=False).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    one_of("expm_frechet", "method", method, (None, "SPS", "blockEnlarge"))
    a, e = (matrices("expm_frechet", x, square=True) for x in (A, E))
    if a.shape != e.shape:
        raise ShapeError(
            "expm_frechet needs a direction of the shape of the matrix",
            got=f"{a.shape}, {e.shape}",
        )
    both: Any = jvp(expm, (a,), (e.astype(a.dtype),))
    return both if compute_expm else both[1]


def block_diag(*arrs: ArrayLike) -> Array:
    """The matrix with blocks along its diagonal, and zeros elsewhere.

    Raises:
        ShapeError: for arrays of more than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> block_diag(tnp.array([[1, 2]]), tnp.array([[3]])).tolist()
        [[1, 2, 0], [0, 0, 3]]
    """
    blocks = [jnp.atleast_2d(a) for a in arrs] or [jnp.zeros((1, 0))]
    for x in blocks:
        rank("block_diag", x, 2, 2)
    columns = sum(x.shape[1] for x in blocks)
    rows, at = [], 0
    for x in blocks:
        rows.append(jnp.pad(x, ((0, 0), (at, columns - at - x.shape[1]))))
        at += x.shape[1]
    return jnp.concatenate(rows)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The Toeplitz matrix, of constant diagonals, with first column `c` and first row `r`.

    Without `r` it is hermitian; the first element of `r` is not used.

    Example:
        >>> import tfn.numpy as tnp
        >>> toeplitz(tnp.array([1, 2, 3])).tolist()
        [[1, 2, 3], [2, 1, 2], [3, 2, 1]]
    """
    column = jnp.ravel(operands.array_of("toeplitz", c))
    row = jnp.conj(column) if r is None else jnp.ravel(operands.array_of("toeplitz", r))
    size_limit("toeplitz", (column.size, row.size), column.itemsize)
    line = jnp.concatenate([jnp.flip(row[1:]), column])
    places = jnp.arange(column.size)[:, None] + (row.size - 1 - jnp.arange(row.size))
    return line[places]


def _square(name: str, n: int) -> int:
    """The checked size of a square matrix."""
    return operands.a_shape(name, (n, n))[0]


def hilbert(n: int) -> Array:
    """The Hilbert matrix, of elements ``1 / (i + j + 1)``.

    Raises:
        ShapeError: if `n` is negative.

    Example:
        >>> hilbert(2).tolist()
        [[1.0, 0.5], [0.5, 0.3333333432674408]]
    """
    places = jnp.arange(_square("hilbert", n))
    return 1 / (places[:, None] + places + 1.0)


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike = complex) -> Array:
    """The matrix of the discrete Fourier transform.

    Args:
        n: number of rows and columns.
        scale: divisor of the matrix: "sqrtn" for the root of `n`, which makes it unitary, "n", or
            None for 1.
        dtype: complex64 or complex128.

    Returns:
        A complex matrix of `n` rows and columns.

    Raises:
        ArgumentError: unless `n` is an integer from 1 on, and for another scale.

    Example:
        >>> dft(2).real.round(3).tolist()
        [[1.0, 1.0], [1.0, -1.0]]
    """
    n = _square("dft", integer("dft", "n", n, 1))
    one_of("dft", "scale", scale, ("sqrtn", "n", None))
    places = jnp.arange(n)
    turns: Any = (places[:, None] * places) % n
    angle = -2 * math.pi / n * turns.astype(part(canonical(dtype)))
    divisor = {None: 1.0, "sqrtn": math.sqrt(n), "n": float(n)}[scale]
    return (lax.complex(jnp.cos(angle), jnp.sin(angle)) / divisor).astype(dtype)
