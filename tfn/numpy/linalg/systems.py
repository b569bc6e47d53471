"""Systems of equations, inverses, determinants."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from tfn._support.validate import integer, one_of, one_of_two, unfit
from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import finfo
from tfn.eager.operands import array_of, some_axes
from tfn.errors import ShapeError
from tfn.numpy.contraction import matmul
from tfn.numpy.creation import asarray, zeros
from tfn.numpy.linalg import determinants, eigen, triangular
from tfn.numpy.linalg.stacks import adjoint, matrices, reciprocal_or_zero
from tfn.numpy.logic import where
from tfn.numpy.manipulation import moveaxis
from tfn.numpy.matrices import eye
from tfn.numpy.reductions import max as largest
from tfn.numpy.reductions import sum as add_up
from tfn.transforms.custom_jvp import custom_jvp

if TYPE_CHECKING:
    from jaxtyping import Inexact, Num


def solve(
    a: Num[ArrayLike, "*batch n n"], b: Num[ArrayLike, "*columns"]
) -> Inexact[Array, "*columns"]:
    """The solution x of a x = b, for square matrices; `b` holds matrices, or is one vector.

    Raises:
        ShapeError: if they do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> solve(tnp.array([[2.0, 0.0], [0.0, 4.0]]), tnp.array([2.0, 2.0])).tolist()
        [1.0, 0.5]
    """
    right = array_of("solve", b)
    if right.ndim == 1:
        return triangular.solve(a, right[:, None])[..., 0]
    return triangular.solve(a, right)


def inv(a: Num[ArrayLike, "*batch n n"]) -> Inexact[Array, "*batch n n"]:
    """The inverses of square matrices; NaN where there is none.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> inv(tnp.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
        [[0.5, 0.0], [0.0, 0.25]]
    """
    a = matrices("inv", a, square=True)
    return triangular.solve(a, eye(a.shape[-1], dtype=a.dtype))


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of `a` as a linear map from its axes behind the first `ind` to these.

    Raises:
        ShapeError: unless both groups of axes have as many elements.
        ArgumentError: unless `ind` is an integer from 1 on.

    Example:
        >>> import tfn.numpy as tnp
        >>> tensorinv(tnp.eye(6).reshape(2, 3, 6), ind=2).shape
        (6, 2, 3)
    """
    a = array_of("tensorinv", a)
    ind = integer("tensorinv", "ind", ind, 1)
    front, back = a.shape[:ind], a.shape[ind:]
    if math.prod(front) != math.prod(back):
        raise ShapeError(
            "tensorinv needs as many elements on both sides",
            got=f"{front} and {back}, ind={ind}",
            hint="ind says how many axes come first",
        )
    return inv(a.reshape(math.prod(front), -1)).reshape(*back, *front)


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Axes = None) -> Array:
    """The solution x of ``tensordot(a, x, x.ndim) = b``.

    Args:
        a: array with the axes of `b`, then those of the solution, with as many elements on both
            sides.
        b: right side.
        axes: axes of `a` that are moved to its end first; None for none.

    Returns:
        A floating array of the shape of the axes of `a` behind those of `b`.

    Raises:
        ShapeError: if the shapes do not fit.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> tensorsolve(tnp.eye(6).reshape(2, 3, 6), tnp.ones((2, 3))).shape
        (6,)
    """
    a, b = array_of("tensorsolve", a), array_of("tensorsolve", b)
    if axes is not None:
        last = some_axes("tensorsolve", axes, a.ndim)
        a = moveaxis(a, last, tuple(range(a.ndim - len(last), a.ndim)))
    shape = a.shape[b.ndim :]
    if math.prod(shape) != b.size:
        what = "tensorsolve needs a square system"
        raise unfit(what, (a, b), "the axes of a behind those of b multiply to b.size")
    return solve(a.reshape(b.size, b.size), b.reshape(b.size)).reshape(shape)


def det(a: Num[ArrayLike, "*batch n n"]) -> Inexact[Array, "*batch"]:
    """The determinants of square matrices.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> det(tnp.array([[2.0, 1.0], [0.0, 3.0]])).item()
        6.0
    """
    return determinants.det(a)


class SlogdetResult(NamedTuple):
    """The results of `slogdet`."""

    sign: Array
    logabsdet: Array


def slogdet(a: Num[ArrayLike, "*batch n n"], *, method: str | None = None) -> SlogdetResult:
    """The sign, or phase, of determinants, and the logarithm of their size.

    Args:
        a: square matrices, the last two axes.
        method: "lu" or "qr", accepted as in JAX; the factors are those of LU either way.

    Raises:
        ArgumentError: for another method.
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> slogdet(tnp.array([[-1.0, 0.0], [0.0, 1.0]]))
        SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0., dtype=float32))
    """
    one_of("slogdet", "method", method, (None, "lu", "qr"))
    return SlogdetResult(*determinants.slogdet(a))


def pinv(
    a: Num[ArrayLike, "*batch m n"],
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> Array:
    """The Moore-Penrose inverses of matrices: the best x of a x = 1.

    Args:
        a: matrices, the last two axes.
        rtol: singular values up to this fraction of the largest count as zero; None takes the
            larger size of the matrix times the machine precision.
        hermitian: accepted as in NumPy, and changes nothing.
        rcond: older name of `rtol`.

    Returns:
        Matrices of shape ``(*batch, n, m)``.

    Raises:
        ShapeError: if there are fewer than two axes.

    Source: G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least
    squares problems whose variables separate", 1973.
        ArgumentError: if both `rtol` and `rcond` are given.

    Example:
        >>> import tfn.numpy as tnp
        >>> pinv(tnp.array([[2.0, 0.0], [0.0, 0.0]])).tolist()
        [[0.5, 0.0], [0.0, 0.0]]
    """
    one_of_two("pinv", "they are two names of one number", rtol=rtol, rcond=rcond)
    a = matrices("pinv", a)
    relative = rtol if rcond is None else rcond
    if relative is None:
        relative = max(a.shape[-2:]) * finfo(a.dtype).eps
    result: Array = _pinv(a, asarray(relative))
    return result


def _pinv_of(a: Array, relative: Array) -> Array:
    u, s, vh = eigen.svd(a, full_matrices=False)
    least = largest(s, -1, keepdims=True, initial=0) * relative[..., None].astype(s.dtype)
    scaled = reciprocal_or_zero(where(s > least, s, 0))
    return matmul(adjoint(vh), scaled[..., None].astype(a.dtype) * adjoint(u))


_pinv = custom_jvp(_pinv_of)


def _pinv_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Any]) -> tuple[Array, Array]:
    a, da = primals[0], tangents[0]
    x = _pinv(*primals)
    change = -matmul(x, matmul(da, x))
    # The parts of da in the left null space of a, and in its null space.
    adjoint_da = adjoint(da)
    left_null = adjoint_da - matmul(matmul(adjoint_da, a), x)
    right_null = adjoint_da - matmul(x, matmul(a, adjoint_da))
    change = change + matmul(matmul(x, adjoint(x)), left_null)
    return x, change + matmul(right_null, matmul(adjoint(x), x))


_pinv.defjvp(_pinv_jvp)


class LstsqResult(NamedTuple):
    """The results of `lstsq`."""

    x: Array
    residuals: Array
    rank: Array
    s: Array


def lstsq(
    a: Num[ArrayLike, "m n"],
    b: Num[ArrayLike, "m ..."],
    rcond: float | None = None,
    *,
    numpy_resid: bool = False,
) -> LstsqResult:
    """The shortest x with the least sum of squares of a x - b.

    Args:
        a: matrix.
        b: vector, or matrix with one right side in each column.
        rcond: singular values up to this fraction of the largest count as zero; None, or a negative
            number, takes the larger size of the matrix times the machine precision.
        numpy_resid: whether the residuals are empty where NumPy leaves them out, for which the rank
            must be known.

    Returns:
        A named tuple of `x`, a vector or matrix; `residuals`, the sum of squares for each column of
        `b`; `rank`, the rank of `a`; and `s`, its singular values.

    Raises:
        ShapeError: unless `a` is a matrix and `b` has as many rows.

    Example:
        >>> import tfn.numpy as tnp
        >>> a = tnp.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
        >>> lstsq(a, tnp.array([1.0, 3.0, 5.0]))[0].round(3).tolist()
        [1.0, 2.0]
    """
    a, right = matrices("lstsq", a), array_of("lstsq", b)
    if a.ndim != 2 or right.ndim not in (1, 2) or right.shape[0] != a.shape[0]:
        what = "lstsq needs a matrix and right sides of as many rows"
        raise unfit(what, (a, right), "tfn.vmap maps over a stack of them")
    columns = right if right.ndim == 2 else right[:, None]
    columns = columns.astype((a[:0, :0].sum() + right[:0].sum()).dtype)
    relative = max(a.shape) * float(finfo(a.dtype).eps) if rcond is None or rcond < 0 else rcond
    x = matmul(pinv(a, relative), columns)
    s = eigen.svdvals(a)
    rank = add_up(s > relative * largest(s, initial=0), dtype=int)
    rest = columns - matmul(a, x)
    residuals = add_up(abs(rest) ** 2, 0)
    if numpy_resid and (a.shape[0] <= a.shape[1] or int(rank) < a.shape[1]):
        residuals = zeros(0, residuals.dtype)
    return LstsqResult(x if right.ndim == 2 else x[:, 0], residuals, rank, s)
