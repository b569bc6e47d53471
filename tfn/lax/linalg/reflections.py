"""Householder reflections: the packed form of the factor Q, as LAPACK's routines give it."""

from __future__ import annotations

from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.eager.operands import array_of
from tfn.errors import ShapeError
from tfn.numpy.linalg.stacks import adjoint, info_type, routine
from tfn.numpy.linalg.triangular import packed_qr


def geqrf(a: ArrayLike) -> tuple[Array, Array]:
    """R, and the reflections of Q below it, in one matrix; and the scales of the reflections.

    Example:
        >>> packed, scales = geqrf(tnp.eye(2))
        >>> packed.shape, scales.shape
        ((2, 2), (2,))
    """
    packed, scales = packed_qr(a)
    return tnp.matrix_transpose(packed), scales


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The columns of the product of reflections, of the shape of `a`.

    Args:
        a: the reflections, below the diagonals of matrices of m rows and n <= m columns.
        taus: their scales, at most n for each matrix.

    Raises:
        ShapeError: if there are more columns than rows.

    Example:
        >>> a, taus = geqrf(tnp.eye(2))
        >>> abs(householder_product(a, taus)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    packed, scales = array_of("householder_product", a), array_of("householder_product", taus)
    if packed.ndim < 2 or packed.shape[-1] > packed.shape[-2]:
        raise ShapeError(
            "householder_product needs at least as many rows as columns",
            got=str(packed.shape),
            hint="drop the last columns",
        )
    lines = tnp.matrix_transpose(packed)
    q, _ = routine("orgqr", (scales, lines), (lines.shape, lines.dtype), info_type(lines))
    return tnp.matrix_transpose(q)


def ormqr(
    a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False
) -> Array:
    """The product of Q, given by its reflections, with matrices.

    Args:
        a: the reflections, as `geqrf` gives them.
        taus: their scales.
        c: matrices.
        left: whether Q is on the left.
        transpose: whether it is the adjoint of Q.

    Example:
        >>> a, taus = geqrf(tnp.ones((3, 2)))
        >>> abs(ormqr(a, taus, tnp.ones((3, 1)), transpose=True)).round(4)[1:].tolist()
        [[0.0], [0.0]]
    """
    packed, scales = array_of("ormqr", a), array_of("ormqr", taus)
    rows, size = packed.shape[-2], scales.shape[-1]
    square = tnp.zeros((*packed.shape[:-1], rows), packed.dtype)
    q = householder_product(square.at[..., :size].set(packed[..., :size]), scales)
    q = adjoint(q) if transpose else q
    matrices = array_of("ormqr", c)
    return tnp.matmul(q, matrices) if left else tnp.matmul(matrices, q)
