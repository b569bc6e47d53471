"""Factorizations of matrices, what is solved by them, and functions of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfn import lax
from tfn import numpy as jnp
from tfn.scipy import linalg
from tfn.torch.ops.known import Value


def cholesky(x: Value, upper: bool = False) -> Value:
    """The triangular root of a positive definite matrix.

    One triangle is read, and both have a part in the derivative, as in PyTorch.
    """
    other = jnp.matrix_transpose(x).conj()
    read = jnp.tril(other if upper else x)
    read = read + jnp.matrix_transpose(jnp.tril(read, -1)).conj()
    both = (x + other) / 2
    lower = lax.linalg.cholesky(both + lax.stop_gradient(read - both), symmetrize_input=False)
    return jnp.matrix_transpose(lower).conj() if upper else lower


def _none_failed(x: Value) -> Value:
    """Zeros, one a matrix: the number of the step that failed, where one could."""
    return jnp.zeros(x.shape[:-2], "int32")


def cholesky_ex(x: Value, upper: bool = False, check_errors: bool = False) -> tuple[Value, Value]:
    """`cholesky`, with a number above 0 where a matrix is not positive definite."""
    root = cholesky(x, upper)
    return root, jnp.any(jnp.isnan(root), (-2, -1)).astype("int32")


def cholesky_solve(b: Value, root: Value, upper: bool = False) -> Value:
    """The solution of a x = b by the triangular root of a."""
    lower = jnp.matrix_transpose(root).conj() if upper else root
    shape = jnp.broadcast_shapes(b.shape[:-2], root.shape[:-2])
    lower = jnp.broadcast_to(lower, shape + root.shape[-2:])
    b = jnp.broadcast_to(b, shape + b.shape[-2:])
    half = lax.linalg.triangular_solve(lower, b, left_side=True, lower=True)
    return lax.linalg.triangular_solve(
        lower, half, left_side=True, lower=True, transpose_a=True, conjugate_a=True
    )


def cholesky_inverse(root: Value, upper: bool = False) -> Value:
    """The inverse of a matrix by its triangular root."""
    one = jnp.broadcast_to(jnp.eye(root.shape[-1], dtype=root.dtype), root.shape)
    part = jnp.triu(root) if upper else jnp.tril(root)
    return cholesky_solve(one, part, upper)


def triangular_solve(
    b: Value, a: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Value, Value]:
    """The solution of a x = b for a triangular matrix, and the matrix."""
    shape = jnp.broadcast_shapes(b.shape[:-2], a.shape[:-2])
    a, b = (jnp.broadcast_to(m, shape + m.shape[-2:]) for m in (a, b))
    return lax.linalg.triangular_solve(
        a, b, left_side=True, lower=not upper, transpose_a=transpose, unit_diagonal=unitriangular
    ), a


def qr(x: Value, mode: str = "reduced") -> tuple[Value, Value]:
    """An orthonormal and a triangular factor; the first is empty in mode "r"."""
    if mode == "r":
        return jnp.zeros((0,), x.dtype), jnp.linalg.qr(x, "r")
    return tuple(jnp.linalg.qr(x, mode))


def svd(
    x: Value, full_matrices: bool = False, compute_uv: bool = True, driver: Any = None
) -> tuple[Value, Value, Value]:
    """Singular vectors and values; vectors are empty where they are not asked for."""
    if not compute_uv:
        none = jnp.zeros((0,), x.dtype)
        return none, jnp.linalg.svd(x, compute_uv=False), none
    return tuple(jnp.linalg.svd(x, full_matrices))


def eigh(x: Value, uplo: str = "L", compute_v: bool = True) -> tuple[Value, Value]:
    """Eigenvalues of a Hermitian matrix, of which one triangle is read, and vectors."""
    values, vectors = jnp.linalg.eigh(x, UPLO=uplo, symmetrize_input=False)
    return values, vectors if compute_v else jnp.zeros((0,), x.dtype)


def solve(
    a: Value, b: Value, *, left: bool = True, check_errors: bool = False
) -> tuple[Value, Value, Value, Value]:
    """The solution of a x = b, or of x a = b, with the factors of a, and 0 for no failure."""
    factors, pivots, _ = lax.linalg.lu(a)
    row = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    right = b[..., None] if row else b
    x = lu_solve(factors, pivots + 1, right, left=left)
    return x[..., 0] if row else x, factors, pivots + 1, _none_failed(a)


def inv(x: Value, check_errors: bool = False) -> tuple[Value, Value]:
    """Inverses, and 0 for no failure."""
    return jnp.linalg.inv(x), _none_failed(x)


def lu_factor(x: Value, pivot: bool = True, check_errors: bool = False) -> tuple[Value, ...]:
    """Both triangular factors in one matrix, rows exchanged counted from 1, and 0."""
    factors, pivots, _ = lax.linalg.lu(x)
    return factors, pivots + 1, _none_failed(x)


def _permutation(pivots: Value, size: int) -> Value:
    """The matrix of the exchanges that pivots, counted from 1, describe."""
    order = lax.linalg.lu_pivots_to_permutation(pivots - 1, size)
    return jnp.matrix_transpose(order[..., :, None] == jnp.arange(size))


def lu_unpack(
    factors: Value, pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Value, Value, Value]:
    """A permutation and both triangular factors; those not asked for are empty."""
    none = jnp.zeros((0,), factors.dtype)
    rows, columns = factors.shape[-2:]
    least = min(rows, columns)
    matrix = _permutation(pivots, rows).astype(factors.dtype) if unpack_pivots else none
    if not unpack_data:
        return matrix, none, none
    lower = jnp.tril(factors[..., :, :least], -1) + jnp.eye(rows, least, dtype=factors.dtype)
    return matrix, lower, jnp.triu(factors[..., :least, :])


def lu(x: Value, pivot: bool = True) -> tuple[Value, Value, Value]:
    """A permutation and both triangular factors."""
    return lu_unpack(*lu_factor(x, pivot)[:2])


def lu_solve(
    factors: Value, pivots: Value, b: Value, *, left: bool = True, adjoint: bool = False
) -> Value:
    """The solution of a x = b, or of x a = b, by the factors of a; of the adjoint of a if asked."""
    shape = jnp.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    factors = jnp.broadcast_to(factors, shape + factors.shape[-2:])
    pivots = jnp.broadcast_to(pivots, shape + pivots.shape[-1:]) - 1
    b = jnp.broadcast_to(b, shape + b.shape[-2:])
    if left:
        return lax.linalg.lu_solve(factors, pivots, b, 2 if adjoint else 0)
    # The transpose of x a = b; with the adjoint of a, the adjoint of that.
    turned = jnp.matrix_transpose(b.conj() if adjoint else b)
    x = jnp.matrix_transpose(lax.linalg.lu_solve(factors, pivots, turned, 0 if adjoint else 1))
    return x.conj() if adjoint else x


def slogdet(x: Value) -> tuple[Value, ...]:
    """The sign and the logarithm of the size of a determinant, with the factors."""
    sign, size = jnp.linalg.slogdet(x)
    return (sign, size, *lu_factor(x)[:2])


def det(x: Value) -> tuple[Value, ...]:
    """A determinant, with the factors."""
    return (jnp.linalg.det(x), *lu_factor(x)[:2])


def pinv(x: Value, *, atol: Value = None, rtol: Value = None, hermitian: bool = False) -> Value:
    """The inverse of least squares: singular values below a tolerance count as 0."""
    if not x.size or (atol is None and rtol is None):
        return jnp.linalg.pinv(x, hermitian=hermitian)
    largest = jnp.linalg.svdvals(x).max(-1)
    own = max(x.shape[-2:]) * jnp.finfo(x.dtype).eps
    relative = (own if atol is None else 0) if rtol is None else rtol
    least = relative * largest if atol is None else jnp.maximum(atol, relative * largest)
    return jnp.linalg.pinv(x, rtol=least / largest, hermitian=hermitian)


def trilinear(
    a: Value,
    b: Value,
    c: Value,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Value:
    """The sum of products of three arrays, each with axes of its own added."""
    a, b, c = (jnp.expand_dims(x, tuple(e)) for x, e in ((a, expand1), (b, expand2), (c, expand3)))
    rank = a.ndim
    axes = "abcdefghijkl"[:rank]
    rest = "".join(axis for i, axis in enumerate(axes) if i not in {d % rank for d in sumdim})
    sizes = jnp.broadcast_shapes(a.shape, b.shape, c.shape)
    parts = (jnp.broadcast_to(x, sizes) for x in (a, b, c))
    return jnp.einsum(f"{axes},{axes},{axes}->{rest}", *parts)


def _ormqr(a: Value, tau: Value, c: Value, left: bool = True, transpose: bool = False) -> Value:
    """A matrix times the orthonormal factor that reflections describe."""
    return lax.linalg.ormqr(a, tau, c, left=left, transpose=transpose)


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "cholesky": cholesky, "linalg_cholesky_ex": cholesky_ex, "cholesky_solve": cholesky_solve,
    "cholesky_inverse": cholesky_inverse, "triangular_solve": triangular_solve,
    "linalg_qr": qr, "_linalg_svd": svd, "_linalg_eigh": eigh, "_linalg_solve_ex": solve,
    "linalg_inv_ex": inv, "linalg_lu_factor_ex": lu_factor, "linalg_lu": lu,
    "lu_unpack": lu_unpack, "linalg_lu_solve": lu_solve, "_linalg_slogdet": slogdet,
    "_linalg_det": det, "linalg_pinv": pinv, "linalg_matrix_exp": linalg.expm,
    "_linalg_check_errors": lambda *args, **options: None,
    "linalg_householder_product": lax.linalg.householder_product, "geqrf": lax.linalg.geqrf,
    "ormqr": _ormqr, "linalg_eig": jnp.linalg.eig, "linalg_eigvals": jnp.linalg.eigvals,
    "_linalg_eigvals": jnp.linalg.eigvals, "_trilinear": trilinear,
}
# fmt: on
