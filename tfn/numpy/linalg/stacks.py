"""Stacks of matrices: checks of arguments, and small operations."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any

from tfn._support.validate import shown, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, COMPLEXES, FLOAT32, INT32, DType
from tfn.eager.operands import array_of, broadcast_shape, inexact, together
from tfn.errors import ShapeError
from tfn.numpy.complex import conj
from tfn.numpy.linalg.lapack import Routine
from tfn.numpy.logic import where
from tfn.numpy.manipulation import broadcast_to, matrix_transpose
from tfn.trace.argument import Host, VmapMethod
from tfn.trace.op import Shape
from tfn.transforms.callback import of_host, pure_callback
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.tangents import SymbolicZero


def matrices(name: str, x: ArrayLike, square: bool = False) -> Array:
    """An argument as a stack of matrices, floating or complex, of 32 bits at least.

    Args:
        name: name of the function that was called, for errors.
        x: array or number.
        square: whether the matrices must be square.

    Raises:
        ShapeError: if there are fewer than two axes, or the matrices are to be square and are not.
    """
    x = array_of(name, x)
    need_matrices(name, x, square)
    return x.astype(lapack_dtype(x.dtype))


def need_matrices(name: str, x: Array, square: bool = False) -> None:
    """Raise ShapeError unless the last two axes are matrices, or square ones.

    Args:
        name: name of the function that was called, for errors.
        x: the array.
        square: whether the matrices must be square.

    Raises:
        ShapeError: if they are not.
    """
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        words = "square matrices" if square else "matrices, of two axes at least"
        raise ShapeError(
            f"{name} needs {words}",
            got=shown(x),
            hint="the last two axes are rows and columns: x[:, None] makes a column of a vector"
            if x.ndim < 2
            else "linalg.lstsq and linalg.pinv take other matrices",
        )


def lapack_dtype(dtype: DType) -> DType:
    """The dtype in which LAPACK computes: 32 bits at least."""
    wide = inexact((dtype, False))[0]
    return FLOAT32 if wide.itemsize < 4 else wide


def system(name: str, a: ArrayLike, b: ArrayLike, left: bool = True) -> tuple[Array, Array]:
    """The matrices of a x = b, or of x a = b, in one dtype and with the same batches.

    Args:
        name: name of the function that was called, for errors.
        a: square matrices.
        b: matrices of right sides.
        left: whether the system is a x = b; else it is x a = b.

    Raises:
        ShapeError: if they do not fit.
    """
    (x, y), dtype, _ = together(name, matrices(name, a, square=True), matrices(name, b))
    if y.shape[-2 if left else -1] != x.shape[-1]:
        what = f"{name} needs as many {'rows' if left else 'columns'} as the matrix has"
        raise unfit(what, (x, y), "transpose the right side with .mT")
    batch = broadcast_shape(name, x.shape[:-2], y.shape[:-2])
    x, y = (broadcast_to(z.astype(dtype), (*batch, *z.shape[-2:])) for z in (x, y))
    return x, y


def call_host(
    function: Callable[..., Any], operands: tuple[Array, ...], *results: tuple[Shape, DType]
) -> Any:
    """The result, or the tuple of the results, of a function of `host_calls`, called on the host.

    Args:
        function: function of NumPy arrays.
        operands: its arguments.
        *results: shape and dtype of each of its results.
    """
    kinds = tuple(ShapeDtypeStruct(shape, dtype) for shape, dtype in results)
    declared = kinds if len(kinds) > 1 else kinds[0]
    return pure_callback(function, declared, *operands, vmap_method="broadcast_all")


def routine(
    name: str, operands: tuple[Array, ...], *results: tuple[Shape, DType], flags: str = ""
) -> list[Array]:
    """The results of a routine of LAPACK; see `lapack.CALLS`.

    Args:
        name: name of its row of `CALLS`.
        operands: its operands.
        *results: shape and dtype of each of its results.
        flags: a letter for each of its choices.
    """
    return of_host(Host(Routine(name, flags), results, VmapMethod.BROADCAST), operands)


def transposed_type(x: Array) -> tuple[Shape, DType]:
    """The shape and dtype of the transposes."""
    return (*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype


def info_type(x: Array) -> tuple[Shape, DType]:
    """The shape and dtype of the success codes of LAPACK, one for each matrix."""
    return x.shape[:-2], INT32


def valid(x: Array, info: Array) -> Array:
    """The results of a routine, NaN for those matrices in which it failed."""
    failed = info if info.dtype == BOOL else info != 0
    return where(failed.reshape(*failed.shape, *[1] * (x.ndim - failed.ndim)), nan, x)


def adjoint(x: Array) -> Array:
    """The conjugate transposes of matrices."""
    return matrix_transpose(conj(x)) if x.dtype in COMPLEXES else matrix_transpose(x)


def is_zero(dx: Any) -> bool:
    """Whether a tangent is known to be zero."""
    return dx is None or isinstance(dx, SymbolicZero)


def reciprocal_or_zero(x: Array) -> Array:
    """``1 / x``, and 0 for 0.

    In derivatives x is the difference of two eigenvalues.  Where they are equal, no well-defined
    result depends on the basis of their subspace, so its rotation may count as 0.
    """
    zero = x == 0
    return where(zero, 0, 1 / where(zero, 1, x))
