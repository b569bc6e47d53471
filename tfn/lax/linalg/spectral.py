"""Decompositions with JAX's options: eigenvectors of both sides, subsets, pivoting, Schur's form.

Sources: G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th edition, 2013, sections 5.4.2
(column pivoting), 6.5.4 (updates), 7.1.3 (Schur) and 8.3.1 (tridiagonal matrices); Y. Nakatsukasa,
Z. Bai and F. Gygi, "Optimizing Halley's iteration for computing the matrix polar decomposition",
2010 (the polar factor).
"""

from __future__ import annotations

import enum
from typing import Any

from tfn import numpy as tnp
from tfn._support.validate import integer
from tfn.array import Array, ArrayLike
from tfn.dtypes import COMPLEXES, part
from tfn.errors import ArgumentError, ShapeError
from tfn.lax.loops import fori_loop
from tfn.numpy.linalg import eigen, triangular
from tfn.numpy.linalg.stacks import adjoint, info_type, matrices, routine, transposed_type, valid
from tfn.transforms.grad import stop_gradient
from tfn.transforms.vmap import vmap


class EigImplementation(enum.Enum):
    """Names of libraries in JAX; LAPACK computes here."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """Names of algorithms in JAX; LAPACK's divide and conquer computes here."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """Names of algorithms in JAX; LAPACK's divide and conquer computes here."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _subset(name: str, subset: tuple[int, int] | None, count: int) -> slice:
    if subset is None:
        return slice(None)
    start, stop = (integer(name, "subset_by_index", i, 0) for i in subset)
    if not start < stop <= count:
        raise ArgumentError(
            f"{name} needs a subset [start, stop) of the {count} values",
            got=f"subset_by_index={subset}",
            hint=f"(0, {count}) are all of them",
        )
    return slice(start, stop)


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = True,
) -> list[Array]:
    """The complex eigenvalues, the left and the right eigenvectors, in columns.

    Args:
        x: square matrices, the last two axes.
        compute_left_eigenvectors: whether the vectors v of v^H x = w v^H are returned.
        compute_right_eigenvectors: whether the vectors v of x v = w v are returned.
        enable_eigvec_derivs: accepted as in JAX: vectors always have derivatives, those of vectors
            of length 1 whose largest element is real.

    Returns:
        A list of the values, then the left vectors, then the right ones; all of length 1.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> values, left, right = eig(tnp.array([[2.0, 0.0], [0.0, 3.0]]))
        >>> values.tolist()
        [(2+0j), (3+0j)]
    """
    if not compute_left_eigenvectors and not compute_right_eigenvectors:
        return [eigen.eigvals(x)]
    values, right = eigen.eig(x)
    found = [values]
    if compute_left_eigenvectors:
        left = adjoint(tnp.linalg.inv(right))
        found.append(left / tnp.linalg.norm(left, axis=-2, keepdims=True))
    return [*found, right] if compute_right_eigenvectors else found


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
) -> tuple[Array, Array]:
    """The eigenvectors, in columns, and the ascending eigenvalues of hermitian matrices.

    Args:
        x: hermitian matrices, the last two axes.
        lower: which triangle is read, without `symmetrize_input`.
        symmetrize_input: whether the mean of the matrix and its adjoint is taken first.
        sort_eigenvalues: accepted as in JAX: values always ascend.
        subset_by_index: the places [start, stop) of the values that are wanted; None for all.

    Returns:
        A pair of the vectors and the values.

    Raises:
        ShapeError: unless the last two axes are of one size.
        ArgumentError: for a subset that is not there.

    Example:
        >>> vectors, values = eigh(tnp.array([[2.0, 0.0], [0.0, 1.0]]), subset_by_index=(1, 2))
        >>> values.tolist()
        [2.0]
    """
    vectors, values = eigen.eigh(x, lower=lower, symmetrize_input=symmetrize_input)
    kept = _subset("eigh", subset_by_index, values.shape[-1])
    return vectors[..., kept], values[..., kept]


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """The factors U, S and V^H of x = U S V^H, the singular values descending.

    Args:
        x: matrices, the last two axes.
        full_matrices: whether U and V are square; else they have as many columns as there are
            values.  A subset needs the shorter ones.
        compute_uv: whether U and V^H are returned, and not S alone.
        subset_by_index: the places [start, stop) of the values that are wanted; None for all.

    Returns:
        Matrices U, real vectors S, and matrices V^H, or S alone.

    Raises:
        ShapeError: if there are fewer than two axes.
        ArgumentError: for a subset that is not there, or one of square factors.

    Example:
        >>> x = tnp.array([[3.0, 0.0], [0.0, 4.0]])
        >>> svd(x, compute_uv=False, subset_by_index=(0, 1)).tolist()
        [4.0]
    """
    factors = eigen.svd(x, full_matrices=full_matrices, compute_uv=compute_uv)
    if subset_by_index is None:
        return factors
    s = factors[1] if compute_uv else factors
    kept = _subset("svd", subset_by_index, s.shape[-1])
    if not compute_uv:
        return s[..., kept]
    u, _, vh = factors
    if u.shape[-1] != vh.shape[-2]:
        raise ArgumentError(
            "svd gives a subset of as many vectors as there are values",
            got=f"full_matrices={full_matrices}, subset_by_index={subset_by_index}",
            hint="full_matrices=False",
        )
    return u[..., kept], s[..., kept], vh[..., kept, :]


def qr(x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True) -> Any:
    """The factors Q and R of x = Q R; with pivoting those of ``x[:, P]``, and P.

    Args:
        x: matrices, the last two axes.
        pivoting: whether columns are taken in the order of what is left of their lengths, so that
            the diagonal of R descends.
        full_matrices: whether Q is square; else it has as many columns as R has rows.

    Returns:
        Q, of orthonormal columns, the upper triangle R, and with pivoting the order of columns.

    Raises:
        GradientError: for derivatives of a square Q of a matrix with more rows than columns.
        ShapeError: if there are fewer than two axes.

    Example:
        >>> q, r, p = qr(tnp.array([[1.0, 0.0], [0.0, 2.0]]), pivoting=True)
        >>> p.tolist(), abs(r).tolist()
        ([1, 0], [[2.0, 0.0], [0.0, 1.0]])
    """
    if not pivoting:
        return triangular.qr(x, full_matrices=full_matrices)
    a = matrices("qr", x)
    order = _column_order(stop_gradient(a))
    chosen = tnp.take_along_axis(a, order[..., None, :], -1)
    return (*triangular.qr(chosen, full_matrices=full_matrices), order)


def _column_order(a: Array) -> Array:
    if a.ndim > 2:
        return vmap(_column_order)(a)
    rows, columns = a.shape

    def step(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, order = carry
        free = tnp.arange(columns) >= k
        lengths = tnp.where(free, (abs(rest) ** 2).sum(0), -1)
        best = tnp.argmax(lengths)
        there = tnp.arange(columns)
        swapped = tnp.where(there == k, best, tnp.where(there == best, k, there))
        rest, order = rest[:, swapped], order[swapped]
        column = rest[:, k] / tnp.where(lengths[best] > 0, tnp.sqrt(lengths[best]), 1)
        done = tnp.where(there > k, tnp.conj(column) @ rest, 0)
        return rest - column[:, None] * done, order

    start = a, tnp.arange(columns)
    order: Array = fori_loop(0, min(rows, columns), step, start)[1]
    return order


def schur(x: ArrayLike, *, compute_schur_vectors: bool = True) -> tuple[Array, ...]:
    """The factors T and Z of x = Z T Z^H: Z is unitary, and T an upper triangle.

    Of a real matrix both are real, and T has 2 x 2 blocks for pairs of complex eigenvalues.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> t, z = schur(tnp.array([[1.0, 2.0], [0.0, 3.0]]))
        >>> t.tolist()
        [[1.0, 2.0], [0.0, 3.0]]
    """
    a = matrices("schur", x, square=True)
    values = (*a.shape[:-1],), a.dtype
    complex_ = a.dtype in COMPLEXES
    kinds = [transposed_type(a), transposed_type(a), *([values] * (1 if complex_ else 2))]
    t, z, *_, info = routine("gees", (tnp.matrix_transpose(a),), *kinds, info_type(a))
    factors = tuple(valid(tnp.matrix_transpose(u), info) for u in (t, z))
    return factors if compute_schur_vectors else factors[:1]


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """The upper Hessenberg form of square matrices, with reflections below it; and their scales.

    The first row of the reflections is the second one of the matrix: `householder_product` of
    ``a[..., 1:, :-1]`` and the scales is Q without its first row and column.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> packed, taus = hessenberg(tnp.eye(3))
        >>> packed.shape, taus.shape
        ((3, 3), (2,))
    """
    x = matrices("hessenberg", a, square=True)
    scales = (*x.shape[:-2], max(x.shape[-1] - 1, 0)), x.dtype
    packed, taus, info = routine(
        "gehrd", (tnp.matrix_transpose(x),), transposed_type(x), scales, info_type(x)
    )
    return valid(tnp.matrix_transpose(packed), info), valid(taus, info)


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """Hermitian matrices as tridiagonal ones: reflections, diagonal, neighbours, and scales.

    Args:
        a: hermitian matrices, the last two axes, of which one triangle is read.
        lower: whether it is the lower one.

    Returns:
        The matrices with the reflections, the real diagonals, the diagonals next to them, and the
        scales of the reflections.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> _, d, e, _ = tridiagonal(tnp.array([[2.0, 1.0], [1.0, 3.0]]))
        >>> d.tolist(), e.tolist()
        ([2.0, 3.0], [1.0])
    """
    x = matrices("tridiagonal", a, square=True)
    batch, n = x.shape[:-2], x.shape[-1]
    shorter = (*batch, max(n - 1, 0))
    real = part(x.dtype)
    packed, d, e, taus, info = routine(
        "sytrd",
        (tnp.matrix_transpose(x),),
        transposed_type(x),
        ((*batch, n), real),
        (shorter, real),
        (shorter, x.dtype),
        info_type(x),
        flags="L" if lower else "U",
    )
    factors = tnp.matrix_transpose(packed), d, e, taus
    return tuple(valid(u, info) for u in factors)  # type: ignore[return-value]


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper Cholesky factor of R^T R + w w^T from R and w, by rotations.

    Raises:
        ShapeError: unless R is a square matrix, and w a vector of as many elements.

    Example:
        >>> cholesky_update(tnp.eye(1) * 3.0, tnp.array([4.0])).tolist()
        [[5.0]]
    """
    r, w = matrices("cholesky_update", r_matrix, square=True), tnp.asarray(w_vector)
    n = r.shape[-1]
    if r.ndim != 2 or w.shape != (n,):
        raise ShapeError(
            "cholesky_update needs a matrix, and a vector of as many elements as it has columns",
            got=f"{r.shape}, {w.shape}",
            hint="vmap it over stacks",
        )
    places = tnp.arange(n)

    def step(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        r, w = carry
        length = tnp.hypot(r[k, k], w[k])
        safe = tnp.where(length == 0, 1, length)
        c, s = tnp.where(length == 0, 1, r[k, k] / safe), w[k] / safe
        row, rest = c * r[k] + s * w, c * w - s * r[k]
        return r.at[k].set(tnp.where(places < k, 0, row)), tnp.where(places <= k, 0, rest)

    updated: Array = fori_loop(0, n, step, (r, w.astype(r.dtype)))[0]
    return updated


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """The product ``alpha a a^T + beta c``, of which a triangle is meant.

    Args:
        a_matrix: matrices, the last two axes.
        c_matrix: symmetric matrices of as many rows.
        alpha: factor of the product.
        beta: factor of `c_matrix`.
        symmetrize_output: accepted as in JAX: both triangles are always computed.

    Example:
        >>> symmetric_product(tnp.ones((2, 3)), tnp.eye(2), beta=1.0).tolist()
        [[4.0, 3.0], [3.0, 4.0]]
    """
    a, c = matrices("symmetric_product", a_matrix), matrices("symmetric_product", c_matrix)
    return alpha * (a @ tnp.matrix_transpose(a)) + beta * c


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int = 10,
    eps: float | None = None,
) -> tuple[Array, Array, Array, Array]:
    """The polar factors U and H of x = U H, with the iterations it took, and whether it converged.

    Args:
        x: matrices with at least as many rows as columns.
        is_hermitian: accepted as in JAX: the iteration is the same.
        max_iterations: at most.
        eps: accepted as in JAX: the factors are those of the singular value decomposition, to the
            accuracy of the dtype.

    Raises:
        ShapeError: if there are more columns than rows.

    Example:
        >>> u, h, *_ = qdwh(tnp.array([[0.0, 2.0], [1.0, 0.0]]))
        >>> h.round(4).tolist()
        [[1.0, 0.0], [0.0, 2.0]]
    """
    a = matrices("qdwh", x)
    if a.shape[-2] < a.shape[-1]:
        raise ShapeError(
            "qdwh needs at least as many rows as columns", got=str(a.shape), hint="transpose it"
        )
    u, s, vh = eigen.svd(a, full_matrices=False)
    h = adjoint(vh) @ (s[..., None] * vh)
    return u @ vh, (h + adjoint(h)) / 2, tnp.array(1), tnp.array(True)
