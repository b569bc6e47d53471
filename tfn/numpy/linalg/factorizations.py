"""Factorisations with their vectors: eigenvalues, singular values, Cholesky, QR."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tfn._support.validate import one_of
from tfn.array import Array, ArrayLike
from tfn.numpy.linalg import eigen, triangular
from tfn.numpy.linalg.stacks import adjoint

if TYPE_CHECKING:
    from jaxtyping import Float, Inexact, Num


def cholesky(
    a: Num[ArrayLike, "*batch n n"], /, *, upper: bool = False, symmetrize_input: bool = True
) -> Inexact[Array, "*batch n n"]:
    """The lower triangle L of L L^H = a, or its adjoint, for positive definite matrices.

    NaN where a matrix is not positive definite.

    Example:
        >>> import tfn.numpy as tnp
        >>> cholesky(tnp.array([[4.0, 2.0], [2.0, 2.0]])).tolist()
        [[2.0, 0.0], [1.0, 1.0]]
    """
    factor = triangular.cholesky(a, symmetrize_input=symmetrize_input)
    return adjoint(factor) if upper else factor


class EighResult(NamedTuple):
    """The results of `eigh`."""

    eigenvalues: Array
    eigenvectors: Array


class EigResult(NamedTuple):
    """The results of `eig`."""

    eigenvalues: Array
    eigenvectors: Array


class SVDResult(NamedTuple):
    """The results of `svd`."""

    U: Array
    S: Array
    Vh: Array


class QRResult(NamedTuple):
    """The results of `qr`."""

    Q: Array
    R: Array


def _is_lower(name: str, UPLO: str | None) -> bool:
    one_of(name, "UPLO", UPLO, ("L", "U", None))
    return UPLO != "U"


def eigh(
    a: Num[ArrayLike, "*batch n n"], UPLO: str | None = None, symmetrize_input: bool = True
) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors, in columns, of hermitian matrices.

    Derivatives of what does not depend on the choice of vectors are right, equal values or not.

    Raises:
        ArgumentError: unless UPLO is "L" or "U", the triangle that is read if the input is not
            made symmetric.

    Example:
        >>> import tfn.numpy as tnp
        >>> eigh(tnp.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
        [1.0, 2.0]
    """
    lower = _is_lower("eigh", UPLO)
    vectors, values = eigen.eigh(a, lower=lower, symmetrize_input=symmetrize_input)
    return EighResult(values, vectors)


def eigvalsh(
    a: Num[ArrayLike, "*batch n n"], UPLO: str | None = "L", *, symmetrize_input: bool = True
) -> Float[Array, "*batch n"]:
    """Eigenvalues, ascending, of hermitian matrices; see `eigh`.

    Example:
        >>> import tfn.numpy as tnp
        >>> eigvalsh(tnp.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
        [1.0, 2.0]
    """
    return eigen.eigvalsh(a, lower=_is_lower("eigvalsh", UPLO), symmetrize_input=symmetrize_input)


def eig(a: Num[ArrayLike, "*batch n n"]) -> EigResult:
    """Complex eigenvalues, in no order, and right eigenvectors, in columns.

    Example:
        >>> import tfn.numpy as tnp
        >>> values, vectors = eig(tnp.array([[2.0, 0.0], [0.0, 3.0]]))
        >>> values.tolist()
        [(2+0j), (3+0j)]
    """
    return EigResult(*eigen.eig(a))


def eigvals(a: Num[ArrayLike, "*batch n n"]) -> Inexact[Array, "*batch n"]:
    """Complex eigenvalues, in no order.

    Example:
        >>> import tfn.numpy as tnp
        >>> eigvals(tnp.array([[0.0, 1.0], [-1.0, 0.0]])).imag.tolist()
        [1.0, -1.0]
    """
    return eigen.eigvals(a)


def svd(
    a: Num[ArrayLike, "*batch m n"],
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
) -> Any:
    """U, S and Vh of a = U S Vh: orthonormal vectors and singular values, descending.

    Without `compute_uv` the values alone.  With `full_matrices` U and V are square, and then have
    derivatives only for square matrices.

    Example:
        >>> import tfn.numpy as tnp
        >>> svd(tnp.array([[0.0, 2.0], [3.0, 0.0]])).S.tolist()
        [3.0, 2.0]
    """
    if not compute_uv:
        return eigen.svdvals(a)
    return SVDResult(*eigen.svd(a, full_matrices=full_matrices))


def svdvals(x: Num[ArrayLike, "*batch m n"], /) -> Float[Array, "*batch k"]:
    """The singular values, descending.

    Example:
        >>> import tfn.numpy as tnp
        >>> svdvals(tnp.array([[3.0, 0.0], [0.0, 4.0]])).tolist()
        [4.0, 3.0]
    """
    return eigen.svdvals(x)


def qr(a: Num[ArrayLike, "*batch m n"], mode: str = "reduced") -> Any:
    """Q and R of a = Q R: orthonormal columns and an upper triangle.

    In mode "reduced" Q has as many columns as R has rows, in mode "complete" it is square, in mode
    "r" the result is R alone.

    Raises:
        ArgumentError: for another mode.

    Example:
        >>> import tfn.numpy as tnp
        >>> q, r = qr(tnp.ones((3, 2)))
        >>> q.shape, r.shape, tnp.allclose(q @ r, 1).item()
        ((3, 2), (2, 2), True)
    """
    one_of("qr", "mode", mode, ("reduced", "complete", "r"))
    found = triangular.qr(a, full_matrices=mode == "complete")
    return found[1] if mode == "r" else QRResult(*found)
