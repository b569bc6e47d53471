"""Factorisations with their vectors: eigenvalues, singular values, Cholesky, QR."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tfn._support.validate import one_of
from tfn.array import Array, ArrayLike
from tfn.numpy.linalg import eigen, triangular
from tfn.numpy.linalg.stacks import adjoint, matrices

if TYPE_CHECKING:
    from jaxtyping import Float, Inexact, Num


def cholesky(
    a: Num[ArrayLike, "*batch n n"],
    *,
    upper: bool = False,
    symmetrize_input: bool = True,
) -> Inexact[Array, "*batch n n"]:
    """The lower triangle L of L L^H = a, or its adjoint; NaN unless a is positive definite.

    Args:
        a: square matrices, the last two axes.
        upper: whether the adjoint L^H, an upper triangle, is returned.
        symmetrize_input: whether the mean of `a` and its adjoint is taken; else one triangle is
            read.

    Raises:
        ShapeError: unless the last two axes are of one size.

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
    """The ascending eigenvalues and the eigenvectors, in columns, of hermitian matrices.

    Derivatives of quantities that do not depend on the choice of vectors are right, equal values
    or not.

    Args:
        a: square matrices, the last two axes.
        UPLO: triangle that is read unless the input is made symmetric: "L", the lower one and
            default, "U", or None for "L".
        symmetrize_input: whether the mean of `a` and its adjoint is taken; else one triangle is
            read.

    Returns:
        A named tuple of `eigenvalues`, real vectors, and `eigenvectors`, matrices; NaN where LAPACK
        fails.

    Raises:
        ArgumentError: for another `UPLO`.
        ShapeError: unless the last two axes are of one size.

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
    """The ascending eigenvalues of hermitian matrices; see `eigh`.

    Args:
        a: square matrices, the last two axes.
        UPLO: triangle that is read unless the input is made symmetric: "L", the lower one and
            default, "U", or None for "L".
        symmetrize_input: whether the mean of `a` and its adjoint is taken; else one triangle is
            read.

    Raises:
        ArgumentError: for another `UPLO`.
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> eigvalsh(tnp.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
        [1.0, 2.0]
    """
    return eigen.eigvalsh(a, lower=_is_lower("eigvalsh", UPLO), symmetrize_input=symmetrize_input)


def eig(a: Num[ArrayLike, "*batch n n"]) -> EigResult:
    """The complex eigenvalues, in no order, and right eigenvectors, in columns, of square matrices.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> values, vectors = eig(tnp.array([[2.0, 0.0], [0.0, 3.0]]))
        >>> values.tolist()
        [(2+0j), (3+0j)]
    """
    return EigResult(*eigen.eig(a))


def eigvals(a: Num[ArrayLike, "*batch n n"]) -> Inexact[Array, "*batch n"]:
    """The complex eigenvalues, in no order, of square matrices.

    Raises:
        ShapeError: unless the last two axes are of one size.

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
    """The factors U, S and Vh of a = U S Vh: orthonormal vectors, and singular values, descending.

    Args:
        a: matrices, the last two axes.
        full_matrices: whether U and V are square, and then have derivatives for square matrices
            only; else they have as many columns as there are values.
        compute_uv: whether U and Vh are returned, and not S alone.
        hermitian: whether the matrices, which must be square, are said to be hermitian, which
            changes nothing else.

    Returns:
        A named tuple of the matrices `U`, the real vectors `S` and the matrices `Vh`, or S alone;
        NaN where LAPACK fails.

    Raises:
        GradientError: for derivatives of square U or V of a matrix that is not square.
        ShapeError: if there are fewer than two axes, or `hermitian` matrices are not square.

    Example:
        >>> import tfn.numpy as tnp
        >>> svd(tnp.array([[0.0, 2.0], [3.0, 0.0]])).S.tolist()
        [3.0, 2.0]
    """
    a = matrices("svd", a, square=hermitian)
    if not compute_uv:
        return eigen.svdvals(a)
    return SVDResult(*eigen.svd(a, full_matrices=full_matrices))


def svdvals(x: Num[ArrayLike, "*batch m n"], /) -> Float[Array, "*batch k"]:
    """The descending singular values of matrices.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> svdvals(tnp.array([[3.0, 0.0], [0.0, 4.0]])).tolist()
        [4.0, 3.0]
    """
    return eigen.svdvals(x)


def qr(a: Num[ArrayLike, "*batch m n"], mode: str = "reduced") -> Any:
    """The factors Q and R of a = Q R: orthonormal columns and an upper triangle.

    In mode "reduced" Q has as many columns as R has rows, in mode "complete" it is square, in mode
    "r" the result is R alone.  In mode "raw" it is LAPACK's: the transposes of matrices with R and
    the reflections of Q, and the scales of the reflections.

    Raises:
        ArgumentError: for another mode.
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> q, r = qr(tnp.ones((3, 2)))
        >>> q.shape, r.shape, tnp.allclose(q @ r, 1).item()
        ((3, 2), (2, 2), True)
    """
    one_of("qr", "mode", mode, ("reduced", "complete", "r", "raw"))
    if mode == "raw":
        return triangular.packed_qr(a)
    factors = triangular.qr(a, full_matrices=mode == "complete")
    return factors[1] if mode == "r" else QRResult(*factors)
