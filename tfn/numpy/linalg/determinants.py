"""Determinants and adjugates, whose derivatives exist for singular matrices too."""

from __future__ import annotations

from typing import Any

from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, COMPLEXES, part
from tfn.numpy.arithmetic import abs as magnitude
from tfn.numpy.arithmetic import maximum
from tfn.numpy.arithmetic import sign as phase
from tfn.numpy.complex import imag, real
from tfn.numpy.contraction import matmul
from tfn.numpy.creation import ones, zeros
from tfn.numpy.elementary import log
from tfn.numpy.linalg import eigen
from tfn.numpy.linalg.stacks import adjoint, matrices
from tfn.numpy.linalg.triangular import factors, solve
from tfn.numpy.logic import isfinite, where
from tfn.numpy.manipulation import diagonal, matrix_transpose, trace
from tfn.numpy.matrices import eye
from tfn.numpy.number_parts import frexp, ldexp
from tfn.numpy.padding import pad
from tfn.numpy.ranges import arange
from tfn.numpy.reductions import max as largest
from tfn.numpy.reductions import prod
from tfn.numpy.reductions import sum as add_up
from tfn.transforms.custom_jvp import custom_jvp
from tfn.transforms.jit import jit

Pair = tuple[Array, Array]


def det(x: ArrayLike) -> Array:
    """The determinants of square matrices.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> det(tnp.array([[3.0, 1.0], [1.0, 2.0]])).tolist()
        5.0
    """
    result: Array = _det(matrices("det", x, square=True))
    return result


def _det_of(a: Array) -> Array:
    scales, sign = _scales(a)
    return _product(scales) * sign + 0  # not -0


FACTORS_OF_A_PART = 64
"""Factors from 1/2 to 1 whose product is a normal number of float32, with room for others."""


def _product(x: Array) -> Array:
    """The product along the last axis, whose parts may overflow where the whole does not.

    Powers of two are added apart; products of parts come first where there are many factors.
    """
    powers = zeros(x.shape, "int32")
    parts = x.shape[-1] > FACTORS_OF_A_PART
    for _ in range(3 if parts else 1):  # enough for a matrix of 64**3 rows
        size = maximum(magnitude(real(x)), magnitude(imag(x))) if x.dtype in COMPLEXES else x
        power = frexp(where(isfinite(size), size, 1))[1]
        x, powers = _scaled(x, -power), powers + power
        if parts:
            around = [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % FACTORS_OF_A_PART)]
            shape = (*x.shape[:-1], -1, FACTORS_OF_A_PART)
            x = prod(pad(x, around, constant_values=1).reshape(shape), -1)
            powers = add_up(pad(powers, around).reshape(shape), -1)
    return _scaled(prod(x, -1), add_up(powers, -1))


def _scaled(x: Array, power: Array) -> Array:
    """``x * 2**power``; the power alone may overflow."""
    half, one = power // 2, ones((), part(x.dtype))
    return x * ldexp(one, half) * ldexp(one, power - half)


def _scales(a: Array) -> Pair:
    """The diagonal of U, of which the determinant is the product, and the sign of the swaps."""
    packed, pivots = factors(a)
    swaps = add_up(pivots != arange(1, a.shape[-1] + 1, dtype=pivots.dtype), -1)
    return diagonal(packed, 0, -2, -1), (1 - 2 * (swaps % 2)).astype(a.dtype)


_det = custom_jvp(jit(_det_of))


def _det_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Pair:
    (a,), (da,) = primals, tangents
    return _det(a), add_up(matrix_transpose(_adjugate(a)) * da, (-2, -1))


_det.defjvp(_det_jvp)


def adjugate(x: ArrayLike) -> Array:
    """The transposed cofactors of square matrices: det(x) times the inverse, where there is one.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> adjugate(tnp.array([[1.0, 2.0], [3.0, 4.0]])).round(3).tolist()
        [[4.0, -2.0], [-3.0, 1.0]]
    """
    result: Array = _adjugate(matrices("adjugate", x, square=True))
    return result


def _adjugate_of(a: Array) -> Array:
    # Source: G. W. Stewart, "On the adjugate matrix", Linear Algebra and its Applications, 1998.
    u, s, vh = eigen.svd(a)
    others = _product(where(eye(a.shape[-1], dtype=BOOL), 1, s[..., None, :]))
    product = matmul(adjoint(vh) * others[..., None, :].astype(a.dtype), adjoint(u))
    return (_det_of(u) * _det_of(vh))[..., None, None] * product


_adjugate = custom_jvp(jit(_adjugate_of))


def _adjugate_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Pair:
    # From adj(a) = det(a) inv(a): second derivatives of the determinant need an inverse.
    (a,), (da,) = primals, tangents
    # Of a matrix of size 1: products of three determinants overflow where the result does not.
    size = largest(magnitude(a), (-2, -1), keepdims=True)
    power = frexp(where(isfinite(size) & (size > 0), size, 1))[1]
    b = _scaled(a, -power)
    unit, determinant = _adjugate(b), _det(b)[..., None, None]
    product = matmul(unit, da)
    slope = trace(product, 0, -2, -1)[..., None, None] * unit - matmul(product, unit)
    return _adjugate(a), _scaled(slope / determinant, power * (a.shape[-1] - 2))


_adjugate.defjvp(_adjugate_jvp)


def slogdet(x: ArrayLike) -> Pair:
    """The sign, or phase, of the determinants of square matrices, and the logarithm of their size.

    A singular matrix has sign 0 and logarithm -inf.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> slogdet(tnp.array([[-1.0, 0.0], [0.0, 1.0]]))
        (Array(-1., dtype=float32), Array(0., dtype=float32))
    """
    result: Pair = _slogdet(matrices("slogdet", x, square=True))
    return result


def _slogdet_of(a: Array) -> Pair:
    scales, sign = _scales(a)
    return prod(phase(scales), -1) * sign + 0, add_up(log(magnitude(scales)), -1)


_slogdet = custom_jvp(jit(_slogdet_of))


def _slogdet_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Any:
    (a,), (da,) = primals, tangents
    sign, size = _slogdet(a)
    change = trace(solve(a, da), 0, -2, -1)
    turn = sign * (imag(change) * 1j) if a.dtype in COMPLEXES else None
    return (sign, size), (turn, real(change))


_slogdet.defjvp(_slogdet_jvp)
