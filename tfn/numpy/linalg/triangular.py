"""Triangular factorisations and systems: triangular_solve, lu, solve, cholesky, qr.

Sources: M. Giles, "An extended collection of matrix derivative results for forward and reverse
mode automatic differentiation", 2008; S. Walter and L. Lehmann, "Algorithmic differentiation of
linear algebra functions with application in optimum experimental design", 2010.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tfn._support.validate import element_type, integer, one_of, rank
from tfn.array import Array, ArrayLike
from tfn.dtypes import COMPLEXES, FLOAT32, FLOAT64, INT32, INTEGERS
from tfn.eager.operands import array_of
from tfn.errors import GradientError
from tfn.numpy.arithmetic import clip
from tfn.numpy.complex import conj, real
from tfn.numpy.concatenation import concatenate
from tfn.numpy.contraction import matmul
from tfn.numpy.indexing import take_along_axis
from tfn.numpy.linalg import elimination
from tfn.numpy.linalg.stacks import (
    adjoint,
    info_type,
    is_zero,
    matrices,
    routine,
    system,
    transposed_type,
    valid,
)
from tfn.numpy.logic import where
from tfn.numpy.manipulation import broadcast_to, diagonal, matrix_transpose
from tfn.numpy.matrices import eye, tril, triu
from tfn.numpy.padding import pad
from tfn.numpy.ranges import arange
from tfn.numpy.sorting import argsort
from tfn.transforms.custom_jvp import custom_jvp
from tfn.transforms.jit import jit

Pair = tuple[Array, Array]
Triple = tuple[Array, Array, Array]


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """The solution x of op(a) x = b, or of x op(a) = b, for triangular matrices.

    Args:
        a: square matrices, the last two axes, of which only one triangle is read.
        b: matrices of right sides; other axes are broadcast.
        left_side: whether the system is op(a) x = b; else it is x op(a) = b.
        lower: whether the lower triangle is read; else the upper one.
        transpose_a: whether op transposes.
        conjugate_a: whether op conjugates.
        unit_diagonal: whether the diagonal is taken to be 1, and not read.

    Returns:
        Matrices of the shape of `b`; NaN where a diagonal has a zero.

    Raises:
        ShapeError: if the matrices do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> a = tnp.array([[2.0, 0.0], [1.0, 1.0]])
        >>> triangular_solve(a, tnp.array([[2.0], [3.0]]), left_side=True, lower=True).tolist()
        [[1.0], [2.0]]
    """
    x, y = system("triangular_solve", a, b, left_side)
    x = conj(x) if conjugate_a else x
    flags = bool(lower), bool(transpose_a) != (not left_side), bool(unit_diagonal)
    return (
        _triangular(x, y, *flags)
        if left_side
        else matrix_transpose(_triangular(x, matrix_transpose(y), *flags))
    )


def _triangular_of(a: Array, b: Array, lower: bool, transposed: bool, unit: bool) -> Array:
    if 1 <= a.shape[-1] <= elimination.LARGEST_MATRIX:
        return _not_singular(elimination.triangular(a, b, lower, transposed, unit), a, unit)
    # By columns BLAS reads the transpose of `a`: the flags say so, which saves a transposition.
    flags = ("U" if lower else "L") + ("N" if transposed else "T") + ("U" if unit else "N")
    (x,) = routine("trsm", (a, matrix_transpose(b)), transposed_type(b), flags=flags)
    return _not_singular(matrix_transpose(x), a, unit)


def _not_singular(x: Array, a: Array, unit: bool) -> Array:
    """The solutions of triangular systems, NaN where the diagonal has a zero."""
    return x if unit else valid(x, (diagonal(a, 0, -2, -1) == 0).any(-1))


_triangular = custom_jvp(jit(_triangular_of, static_argnums=(2, 3, 4)), nondiff_argnums=(2, 3, 4))


def _triangular_jvp(lower: bool, transposed: bool, unit: bool, primals: Pair, tangents: Any) -> Any:
    a, b = primals
    da, db = tangents
    x = _triangular(a, b, lower, transposed, unit)
    change = db
    if not is_zero(da):
        offset = int(unit)
        part = tril(da, -offset) if lower else triu(da, offset)
        product = matmul(matrix_transpose(part) if transposed else part, x)
        change = -product if is_zero(db) else db - product
    return x, None if is_zero(change) else _triangular(a, change, lower, transposed, unit)


def _triangular_transpose(
    lower: bool, transposed: bool, unit: bool, ct: Array, a: Array, b: None
) -> Any:
    return None, _triangular(a, ct, lower, not transposed, unit)


_triangular.defjvp(_triangular_jvp, symbolic_zeros=True)
_triangular.deftranspose(_triangular_transpose)


# LU.


def lu(x: ArrayLike) -> Triple:
    """The factors of P x = L U by partial pivoting: L and U in one matrix, the pivots, and P.

    The diagonal of L is 1, and not stored. Pivot i is the row with which row i was swapped; P is
    the permutation by all swaps.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> packed, pivots, rows = lu(tnp.array([[1.0, 2.0], [2.0, 2.0]]))
        >>> packed.tolist(), pivots.tolist(), rows.tolist()
        ([[2.0, 2.0], [0.5, 1.0]], [1, 1], [1, 0])
    """
    x = matrices("lu", x)
    packed, pivots = _lu(x)
    return packed, pivots, lu_pivots_to_permutation(pivots, x.shape[-2])


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The permutation of the rows by all swaps: row i of the result was row ``permutation[i]``.

    Raises:
        DTypeError: unless the pivots are integers.
        ShapeError: if they have no axis.
        ArgumentError: if there are fewer rows than pivots.

    Example:
        >>> import tfn.numpy as tnp
        >>> lu_pivots_to_permutation(tnp.array([1, 1]), 2)
        Array([1, 0], dtype=int32)
    """
    name = "lu_pivots_to_permutation"
    swaps = array_of(name, pivots)
    rank(name, swaps, 1)
    element_type(name, swaps, INTEGERS, "integer pivots")
    pivot_count = swaps.shape[-1]  # there may be more rows than pivots
    permutation: Array = _order(
        swaps, integer(name, "permutation_size", permutation_size, pivot_count)
    )
    return permutation


@partial(jit, static_argnums=(1,))
def _order(pivots: Array, size: int) -> Array:
    swaps = clip(pivots, 0, size - 1).astype(INT32) + 1
    dtype = FLOAT32 if size <= 1 << 24 else FLOAT64  # numbers as floats, exact
    lines = broadcast_to(arange(size, dtype=dtype), (*swaps.shape[:-1], 1, size))
    (order,) = routine("laswp", (swaps, lines), (lines.shape, lines.dtype))
    return order[..., 0, :].astype(INT32)


def _lu_of(a: Array) -> Pair:
    packed, pivots = factors(a)
    return matrix_transpose(packed), pivots - 1


def factors(a: Array) -> Pair:
    """L and U in one transposed matrix, and pivots that count from 1."""
    kinds = transposed_type(a), ((*a.shape[:-2], min(a.shape[-2:])), INT32), info_type(a)
    packed, pivots, _ = routine("getrf", (matrix_transpose(a),), *kinds)
    return packed, pivots


_lu = custom_jvp(jit(_lu_of))


def _lu_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Pair, tuple[Array, None]]:
    (a,), (da,) = primals, tangents
    packed, pivots = _lu(a)
    rows, columns = a.shape[-2:]
    size = min(rows, columns)
    order = lu_pivots_to_permutation(pivots, rows)
    da = take_along_axis(da, order[..., None], -2)
    # The identity makes L and U square: rows and columns beyond the pivots are not factored.
    batch = [(0, 0)] * (a.ndim - 2)
    low = tril(packed[..., :, :size], -1)
    low = pad(low, [*batch, (0, 0), (0, rows - size)]) + eye(rows, dtype=a.dtype)
    high = pad(triu(packed[..., :size, :]), [*batch, (0, columns - size), (0, 0)])
    high = high + pad(eye(columns - size, dtype=a.dtype), ((size, 0), (size, 0)))
    inner = triangular_solve(low, da, left_side=True, lower=True, unit_diagonal=True)
    inner = triangular_solve(high, inner)
    dx = matmul(low, tril(inner, -1)) + matmul(triu(inner), high)
    return (packed, pivots), (dx, None)


_lu.defjvp(_lu_jvp)


def lu_solve(packed: ArrayLike, pivots: ArrayLike, b: ArrayLike, trans: int = 0) -> Array:
    """The solution x of a x = b from the results of `lu` of a.

    Args:
        packed: L and U in one matrix.
        pivots: for each row the one that it was swapped with, from 0.
        b: matrices of right sides.
        trans: 0 for a itself, 1 for its transpose, 2 for its adjoint.

    Returns:
        Matrices of the shape of `b`.

    Raises:
        ArgumentError: for another `trans`.
        ShapeError: if the matrices do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> factors, pivots, _ = lu(tnp.array([[2.0, 0.0], [0.0, 4.0]]))
        >>> lu_solve(factors, pivots, tnp.array([[2.0], [4.0]])).tolist()
        [[1.0], [1.0]]
    """
    one_of("lu_solve", "trans", trans, (0, 1, 2))
    x, y = system("lu_solve", packed, b)
    y = conj(y) if trans == 2 else y  # a^H x = b is a^T conj(x) = conj(b)
    size = x.shape[-1]
    order = lu_pivots_to_permutation(pivots, size)
    order = broadcast_to(order, (*y.shape[:-2], size))[..., None]
    flags: Any = {"left_side": True, "transpose_a": trans != 0}
    if trans:
        y = triangular_solve(x, y, **flags)
        y = triangular_solve(x, y, lower=True, unit_diagonal=True, **flags)
        y = take_along_axis(y, argsort(order, -2), -2)
        return conj(y) if trans == 2 else y
    y = take_along_axis(y, order, -2)
    y = triangular_solve(x, y, lower=True, unit_diagonal=True, **flags)
    return triangular_solve(x, y, **flags)


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The solution x of a x = b for square matrices, by `lu`; NaN where a matrix is singular.

    One factorisation serves the solution and its derivatives; small matrices are eliminated for
    each of them, see `elimination`.

    Raises:
        ShapeError: if the matrices do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> solve(tnp.array([[2.0, 0.0], [0.0, 4.0]]), tnp.array([[2.0], [4.0]])).tolist()
        [[1.0], [1.0]]
    """
    x, y = system("solve", a, b)
    solution: Array = _solve(x, y, False)
    return solution


def _solve_of(a: Array, b: Array, transposed: bool) -> Array:
    if 1 <= a.shape[-1] <= elimination.LARGEST_MATRIX:
        return elimination.solve(matrix_transpose(a) if transposed else a, b)
    packed, pivots = factors(a)
    operands, flags = (packed, pivots, matrix_transpose(b)), "T" if transposed else "N"
    x, _ = routine("getrs", operands, transposed_type(b), info_type(b), flags=flags)
    return valid(matrix_transpose(x), (diagonal(packed, 0, -2, -1) == 0).any(-1))


_solve = custom_jvp(jit(_solve_of, static_argnums=(2,)), nondiff_argnums=(2,))


def _solve_jvp(transposed: bool, primals: Pair, tangents: Any) -> Any:
    a, b = primals
    da, db = tangents
    x = _solve(a, b, transposed)
    change = db
    if not is_zero(da):
        product = matmul(matrix_transpose(da) if transposed else da, x)
        change = -product if is_zero(db) else db - product
    return x, None if is_zero(change) else _solve(a, change, transposed)


def _solve_transpose(transposed: bool, ct: Array, a: Array, b: None) -> Any:
    return None, _solve(a, ct, not transposed)


_solve.defjvp(_solve_jvp, symbolic_zeros=True)
_solve.deftranspose(_solve_transpose)


# Cholesky and QR.


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangle L of L L^H = x, for positive definite hermitian x; NaN for others.

    With `symmetrize_input` the mean of x and its adjoint is taken, else the lower triangle.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> cholesky(tnp.array([[4.0, 2.0], [2.0, 2.0]])).tolist()
        [[2.0, 0.0], [1.0, 1.0]]
    """
    x = matrices("cholesky", x, square=True)
    factor: Array = _cholesky(hermitian(x, symmetrize_input))
    return factor


def hermitian(x: Array, symmetrize: bool) -> Array:
    """The mean of matrices and their adjoints, or the one of which x has the lower triangle.

    It is made of the triangle: so gradients are of the elements that are read.
    """
    if symmetrize:
        return (x + adjoint(x)) / 2
    below = tril(x, -1)
    diagonal = where(eye(x.shape[-1], dtype=bool), x, 0)
    diagonal = real(diagonal).astype(x.dtype) if x.dtype in COMPLEXES else diagonal
    return below + adjoint(below) + diagonal


def _cholesky_of(a: Array) -> Array:
    if 1 <= a.shape[-1] <= elimination.LARGEST_MATRIX and a.dtype not in COMPLEXES:
        return elimination.cholesky(a)
    factor, info = routine("potrf", (matrix_transpose(a),), (a.shape, a.dtype), info_type(a))
    return valid(tril(matrix_transpose(factor)), info)


_cholesky = custom_jvp(jit(_cholesky_of))


def _cholesky_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Pair:
    (a,), (da,) = primals, tangents
    factor = _cholesky(a)
    inner = triangular_solve(factor, da, left_side=True, lower=True)
    inner = adjoint(triangular_solve(factor, adjoint(inner), left_side=True, lower=True))
    half = tril(inner) - inner * (eye(a.shape[-1], dtype=a.dtype) / 2)
    return factor, matmul(factor, half)


_cholesky.defjvp(_cholesky_jvp)


def qr(x: ArrayLike, *, full_matrices: bool = True) -> Pair:
    """The factors Q and R of x = Q R; the columns of Q are orthonormal, R is an upper triangle.

    With `full_matrices` Q is square; else it has as many columns as R has rows, the smaller size.

    Raises:
        GradientError: for derivatives of a square Q of a matrix with more rows than columns.
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> q, r = qr(tnp.ones((3, 2)), full_matrices=False)
        >>> q.shape, r.shape
        ((3, 2), (2, 2))
    """
    x = matrices("qr", x)
    complete = full_matrices and x.shape[-2] > x.shape[-1]
    factors: Pair = _qr(x, complete)
    return factors


def packed_qr(x: ArrayLike) -> Pair:
    """R and the reflections of Q in one matrix, transposed; and the scales of the reflections.

    Example:
        >>> packed, scales = packed_qr(eye(3, 2))
        >>> packed.shape, scales.shape
        ((2, 3), (2,))
    """
    a = matrices("qr", x)
    *batch, rows, columns = a.shape
    kinds = transposed_type(a), ((*batch, min(rows, columns)), a.dtype), info_type(a)
    packed, scales, _ = routine("geqrf", (matrix_transpose(a),), *kinds)
    return packed, scales


def _qr_of(a: Array, complete: bool) -> Pair:
    *batch, rows, columns = a.shape
    size = min(rows, columns)
    packed, scales = packed_qr(a)
    height = rows if complete else size
    lines = packed[..., :size, :]
    lines = pad(lines, [(0, 0)] * len(batch) + [(0, height - size), (0, 0)])
    q, _ = routine("orgqr", (scales, lines), (lines.shape, a.dtype), info_type(a))
    return matrix_transpose(q), triu(matrix_transpose(packed)[..., :height, :])


_qr = custom_jvp(jit(_qr_of, static_argnums=(1,)), nondiff_argnums=(1,))


def _qr_jvp(complete: bool, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Pair, Pair]:
    (a,), (da,) = primals, tangents
    if complete:
        raise GradientError(
            "qr with a square Q has no derivative: its last columns are not determined",
            got=str(a.shape),
            hint="full_matrices=False, or mode='reduced'",
        )
    q, r = _qr(a, complete)
    size = q.shape[-1]
    dq, dr = _reduced(q, r[..., :size], da[..., :size])
    if a.shape[-1] > size:  # the columns beyond the square part follow from Q
        rest = matmul(adjoint(dq), a[..., size:]) + matmul(adjoint(q), da[..., size:])
        dr = concatenate([dr, rest], -1)
    return (q, r), (dq, dr)


def _reduced(q: Array, r: Array, da: Array) -> Pair:
    """The tangents of a Q with as many columns as the matrix, and of a square R."""
    quotient = triangular_solve(r, da)
    inner = matmul(adjoint(q), quotient)
    below = tril(inner, -1)
    turn = below - adjoint(below)
    if q.dtype in COMPLEXES:  # the diagonal of R stays real
        turn = turn + eye(inner.shape[-1], dtype=q.dtype) * (inner - real(inner))
    return matmul(q, turn - inner) + quotient, matmul(inner - turn, r)


_qr.defjvp(_qr_jvp)
