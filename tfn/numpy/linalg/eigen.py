"""Eigenvalues and singular values, with their vectors or alone.

Vectors are determined up to a phase, and those of equal values up to a rotation of their subspace.
Derivatives of quantities that do not depend on these choices are right, equal values or not.

Sources: M. Giles, "An extended collection of matrix derivative results for forward and reverse
mode automatic differentiation", 2008; J. Townsend, "Differentiating the singular value
decomposition", 2016; C. Boeddeker et al., "On the computation of complex-valued gradients with
application to statistically optimum beamforming", 2017 (eig).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfn.array import Array, ArrayLike
from tfn.dtypes import COMPLEXES, DType, complex_of, part
from tfn.errors import GradientError
from tfn.numpy.arithmetic import abs as magnitude
from tfn.numpy.complex import conj, imag, real
from tfn.numpy.contraction import matmul
from tfn.numpy.creation import zeros
from tfn.numpy.indexing import take_along_axis
from tfn.numpy.linalg import host_calls
from tfn.numpy.linalg.stacks import (
    adjoint,
    call_host,
    info_type,
    matrices,
    reciprocal_or_zero,
    routine,
    valid,
)
from tfn.numpy.linalg.triangular import hermitian, solve
from tfn.numpy.logic import isfinite, where
from tfn.numpy.manipulation import broadcast_to, diagonal, matrix_transpose
from tfn.numpy.matrices import eye
from tfn.numpy.reductions import argmax
from tfn.numpy.reductions import sum as add_up
from tfn.trace.op import Shape
from tfn.transforms.custom_jvp import custom_jvp
from tfn.transforms.jit import jit

Pair = tuple[Array, Array]
Triple = tuple[Array, Array, Array]


def _between(values: Array) -> Array:
    """The matrix of ``1 / (value j - value i)``, and 0 where they are equal."""
    return reciprocal_or_zero(values[..., None, :] - values[..., :, None])


# Hermitian matrices.


def eigh(x: ArrayLike, *, lower: bool = True, symmetrize_input: bool = True) -> Pair:
    """The eigenvectors, in columns, and the ascending eigenvalues of hermitian matrices.

    Args:
        x: square matrices, the last two axes.
        lower: whether the lower triangle is read, and not the upper one, unless the mean is taken.
        symmetrize_input: whether the mean of `x` and its adjoint is taken; else one triangle is
            read.

    Returns:
        Matrices of the dtype of `x`, 32 bits wide at least, and real vectors; NaN where LAPACK
        fails.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> eigh(tnp.array([[2.0, 0.0], [0.0, 1.0]]))[1].tolist()
        [1.0, 2.0]
    """
    values, vectors = _eigh(_hermitian("eigh", x, lower, symmetrize_input))
    return vectors, values


def eigvalsh(x: ArrayLike, *, lower: bool = True, symmetrize_input: bool = True) -> Array:
    """The ascending eigenvalues of hermitian matrices; see `eigh`.

    Args:
        x: square matrices, the last two axes.
        lower: whether the lower triangle is read, and not the upper one, unless the mean is taken.
        symmetrize_input: whether the mean of `x` and its adjoint is taken; else one triangle is
            read.

    Returns:
        Real vectors; NaN where LAPACK fails.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> eigvalsh(tnp.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
        [1.0, 2.0]
    """
    values: Array = _eigvalsh(_hermitian("eigvalsh", x, lower, symmetrize_input))
    return values


def _hermitian(name: str, x: ArrayLike, lower: bool, symmetrize: bool) -> Array:
    x = matrices(name, x, square=True)
    return hermitian(x if lower else adjoint(x), symmetrize)


def _eigh_of(a: Array) -> Pair:
    kinds = (a.shape, a.dtype), (a.shape[:-1], part(a.dtype)), info_type(a)
    vectors, values, info = routine("syevd", (matrix_transpose(a),), *kinds)
    return valid(values, info), valid(matrix_transpose(vectors), info)


_eigh = custom_jvp(jit(_eigh_of))


def _eigh_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Pair, Pair]:
    (a,), (da,) = primals, tangents
    values, vectors = _eigh(a)
    inner = matmul(adjoint(vectors), matmul(da, vectors))
    turn = inner * _between(values).astype(a.dtype)
    return (values, vectors), (real(_diagonal(inner)), matmul(vectors, turn))


_eigh.defjvp(_eigh_jvp)


def _eigvalsh_of(a: Array) -> Array:
    kinds = (a.shape[:-1], part(a.dtype)), info_type(a)
    return valid(*routine("syevd", (matrix_transpose(a),), *kinds))


_eigvalsh = custom_jvp(jit(_eigvalsh_of))


def _eigvalsh_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Pair:
    values, vectors = _eigh(primals[0])
    return values, real(add_up(conj(vectors) * matmul(tangents[0], vectors), -2))


_eigvalsh.defjvp(_eigvalsh_jvp)


def _diagonal(x: Array) -> Array:
    return diagonal(x, 0, -2, -1)


# General square matrices.


def eig(x: ArrayLike) -> Pair:
    """The complex eigenvalues and right eigenvectors, in columns, of square matrices.

    Vectors have length 1, and their largest element is real.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> values, *_ = eig(tnp.array([[2.0, 0.0], [0.0, 3.0]]))
        >>> values.tolist()
        [(2+0j), (3+0j)]
    """
    values_and_vectors: Pair = _eig(matrices("eig", x, square=True))
    return values_and_vectors


def eigvals(x: ArrayLike) -> Array:
    """The complex eigenvalues of square matrices.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> eigvals(tnp.array([[0.0, 1.0], [-1.0, 0.0]])).imag.tolist()
        [1.0, -1.0]
    """
    values: Array = _eigvals(matrices("eigvals", x, square=True))
    return values


def _eig_of(a: Array) -> Pair:
    wide = complex_of(a.dtype)
    values_and_vectors: Pair = call_host(
        host_calls.eig, (a,), (a.shape[:-1], wide), (a.shape, wide)
    )
    return values_and_vectors


_eig = custom_jvp(_eig_of)


def _eig_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Pair, Pair]:
    values, vectors = _eig(primals[0])
    inner = solve(vectors, matmul(tangents[0].astype(vectors.dtype), vectors))
    change = matmul(vectors, inner * _between(values))
    change = change - vectors * real(add_up(conj(vectors) * change, -2, keepdims=True))
    largest = argmax(magnitude(vectors), -2, keepdims=True)
    ratio = take_along_axis(change, largest, -2) / take_along_axis(vectors, largest, -2)
    change = change - vectors * (imag(ratio) * 1j)
    return (values, vectors), (_diagonal(inner), change)


_eig.defjvp(_eig_jvp)


def _eigvals_of(a: Array) -> Array:
    values: Array = call_host(host_calls.eigvals, (a,), (a.shape[:-1], complex_of(a.dtype)))
    return values


_eigvals = custom_jvp(_eigvals_of)


def _eigvals_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Pair:
    values, vectors = _eig(primals[0])
    inner = solve(vectors, matmul(tangents[0].astype(vectors.dtype), vectors))
    return values, _diagonal(inner)


_eigvals.defjvp(_eigvals_jvp)


# Singular values.


def svd(x: ArrayLike, *, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """The factors U, S and V^H of x = U S V^H, the singular values descending.

    Args:
        x: matrices, the last two axes.
        full_matrices: whether U and V are square; else they have as many columns as there are
            values.
        compute_uv: whether U and V^H are returned, and not S alone.

    Returns:
        Matrices U, real vectors S, and matrices V^H; NaN where LAPACK fails.

    Raises:
        GradientError: for derivatives of square U or V of a matrix that is not square.
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> u, s, vh = svd(tnp.array([[3.0, 0.0], [0.0, 4.0]]))
        >>> s.tolist()
        [4.0, 3.0]
    """
    x = matrices("svd", x)
    if not compute_uv:
        return svdvals(x)
    complete = full_matrices and x.shape[-2] != x.shape[-1]
    return _svd(x, complete)


def svdvals(x: ArrayLike) -> Array:
    """The descending singular values of matrices.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> svdvals(tnp.array([[3.0, 0.0], [0.0, 4.0]])).tolist()
        [4.0, 3.0]
    """
    values: Array = _svdvals(matrices("svdvals", x))
    return values


def _svd_of(a: Array, complete: bool) -> Triple:
    *batch, rows, columns = a.shape
    size = min(rows, columns)
    u_shape = rows if complete else size, rows  # columns of u, and rows of v^H
    v_shape = columns, columns if complete else size
    if not size:  # LAPACK would not write u and v
        u, v = (eye(*shape[::-1], dtype=a.dtype) for shape in (u_shape, v_shape))
        no_values = zeros((*batch, 0), part(a.dtype))
        return broadcast_to(u, (*batch, *u.shape)), no_values, broadcast_to(v, (*batch, *v.shape))
    flags = "A" if complete else "S"
    kinds = [
        ((*batch, *u_shape), a.dtype),
        ((*batch, size), part(a.dtype)),
        ((*batch, *v_shape), a.dtype),
        info_type(a),
    ]
    u, s, v = _gesdd(a, kinds, flags)
    return matrix_transpose(u), s, matrix_transpose(v)


def _gesdd(a: Array, kinds: Sequence[tuple[Shape, DType]], flags: str) -> list[Array]:
    """The results of gesdd, which does not end on matrices with infinities: NaN for these."""
    good = isfinite(a).all((-2, -1))
    finite = where(good[..., None, None], a, 0)
    *results, info = routine("gesdd", (matrix_transpose(finite),), *kinds, flags=flags)
    return [valid(x, where(good, info, 1)) for x in results]


_svd = custom_jvp(jit(_svd_of, static_argnums=(1,)), nondiff_argnums=(1,))


def _svd_jvp(complete: bool, primals: tuple[Array], tangents: tuple[Array]) -> Any:
    (a,), (da,) = primals, tangents
    if complete:
        raise GradientError(
            "svd with square U and V has no derivative: their last columns are not determined",
            got=str(a.shape),
            hint="full_matrices=False",
        )
    u, s, vh = _svd(a, complete)
    v, uh = adjoint(vh), adjoint(u)
    inner = matmul(uh, matmul(da, v))
    row, column = s[..., None, :].astype(a.dtype), s[..., :, None].astype(a.dtype)
    reciprocal_gaps = reciprocal_or_zero(
        (s[..., None, :] - s[..., :, None]) * (s[..., None, :] + s[..., :, None])
    )
    scaled_rows, scaled_columns = inner * row, inner * column
    du = matmul(u, (scaled_rows + adjoint(scaled_rows)) * reciprocal_gaps.astype(a.dtype))
    dv = matmul(v, (scaled_columns + adjoint(scaled_columns)) * reciprocal_gaps.astype(a.dtype))
    reciprocal = reciprocal_or_zero(row)
    if a.dtype in COMPLEXES:
        du = du + u * ((imag(_diagonal(inner)) * reciprocal_or_zero(s))[..., None, :] * 1j)
    if a.shape[-2] > a.shape[-1]:
        outside = matmul(da, v)
        du = du + (outside - matmul(u, matmul(uh, outside))) * reciprocal
    if a.shape[-1] > a.shape[-2]:
        outside = matmul(adjoint(da), u)
        dv = dv + (outside - matmul(v, matmul(vh, outside))) * reciprocal
    return (u, s, vh), (du, real(_diagonal(inner)), adjoint(dv))


_svd.defjvp(_svd_jvp)


def _svdvals_of(a: Array) -> Array:
    shape = (*a.shape[:-2], min(a.shape[-2:]))
    (values,) = _gesdd(a, [(shape, part(a.dtype)), info_type(a)], "N")
    return values


_svdvals = custom_jvp(jit(_svdvals_of))


def _svdvals_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Pair:
    u, s, vh = _svd(primals[0], False)
    return s, real(add_up(conj(u) * matmul(tangents[0], adjoint(vh)), -2))


_svdvals.defjvp(_svdvals_jvp)
