"""Polynomials by their coefficients, the highest power first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfn._support.validate import integer, rank, shown, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import finfo
from tfn.eager.operands import apply, array_of, inexact, operands_of, together
from tfn.errors import ArgumentError
from tfn.numpy.concatenation import concatenate
from tfn.numpy.creation import asarray, zeros
from tfn.numpy.interpolation import polyval as polyval
from tfn.numpy.linalg import eigvals, inv, lstsq
from tfn.numpy.manipulation import atleast_1d, diag, flip
from tfn.numpy.matrices import vander
from tfn.numpy.padding import pad
from tfn.numpy.ranges import arange
from tfn.numpy.reductions import sum as add_up
from tfn.numpy.searching import flatnonzero
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.uop import UOp


def _coefficients(name: str, p: ArrayLike) -> Array:
    line: Array = atleast_1d(array_of(name, p))
    rank(name, line, 1, 1, "of coefficients")
    return line


def _lines(name: str, *polynomials: ArrayLike) -> list[Array]:
    return [_coefficients(name, x) for x in operands_of(name, *polynomials)]


def _of_one_size(name: str, a: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    x, y = _lines(name, a, b)
    size = max(x.size, y.size)
    return pad(x, (size - x.size, 0)), pad(y, (size - y.size, 0))


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    Example:
        >>> import tfn.numpy as tnp
        >>> polyadd(tnp.array([1, 2, 3]), tnp.array([1, 1]))
        Array([1, 3, 4], dtype=int32)
    """
    x, y = _of_one_size("polyadd", a1, a2)
    return x + y


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    Example:
        >>> import tfn.numpy as tnp
        >>> polysub(tnp.array([1, 2, 3]), tnp.array([1, 1]))
        Array([1, 1, 2], dtype=int32)
    """
    x, y = _of_one_size("polysub", a1, a2)
    return x - y


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials, of any lengths.

    Args:
        a1: vector of coefficients, the highest power first.
        a2: vector of coefficients, the highest power first.
        trim_leading_zeros: whether zeros of the highest powers are left out first, which needs
            values that are known.

    Returns:
        A floating vector of ``a1.size + a2.size - 1`` coefficients.

    Raises:
        ShapeError: unless both are vectors.

    Example:
        >>> import tfn.numpy as tnp
        >>> polymul(tnp.array([1, 1]), tnp.array([1, -1]))
        Array([ 1.,  0., -1.], dtype=float32)
    """
    x, y = _lines("polymul", a1, a2)
    if trim_leading_zeros:
        x, y = (z[int(np.argmax(np.asarray(z) != 0)) :] for z in (x, y))
    (x, y), dtype, _ = together("polymul", x, y, floating=True)
    return full_convolution(x.astype(dtype), y.astype(dtype))


def full_convolution(x: Array, y: Array) -> Array:
    """The full convolution of two vectors, by zeros around the longer one.

    A product of such a zero and an infinity in the shorter one is NaN.
    """
    long, short = (x, y) if x.size >= y.size else (y, x)
    return apply(_convolved, (long, flip(short)))


def _convolved(x: UOp, window: UOp) -> UOp:
    beyond = window.size - 1
    arg = Conv((1,), ((beyond, beyond),), (1,), (1,), 1, 1, x.dtype)
    x, window = build.reshape(x, (1, x.size, 1)), build.reshape(window, (window.size, 1, 1))
    sums = build.conv(x, window, arg)
    return build.reshape(sums, (sums.size,))


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> Any:
    """The quotient and the remainder of two polynomials.

    Args:
        u: vector of coefficients of the dividend, the highest power first.
        v: vector of coefficients of the divisor, the first not zero.
        trim_leading_zeros: whether the remainder loses leading coefficients as small as rounding
            errors, which needs values that are known.

    Returns:
        Two floating vectors; by default the remainder has as many coefficients as `u`.

    Raises:
        ShapeError: unless both are vectors.

    Example:
        >>> import tfn.numpy as tnp
        >>> polydiv(tnp.array([1.0, -3.0, 2.0]), tnp.array([1.0, -1.0]))
        (Array([ 1., -2.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    x, y = _lines("polydiv", u, v)
    x = x.astype(inexact((x.dtype, False))[0])
    steps = max(x.size - y.size + 1, 0)
    quotient = []
    for i in range(steps):
        factor = x[i] / y[0]
        quotient.append(factor)
        x = x.at[i : i + y.size].add(-factor * y)
    whole = concatenate([q[None] for q in quotient]) if quotient else zeros(1, x.dtype)
    if trim_leading_zeros:
        tolerance = float(np.sqrt(finfo(x.dtype).eps))
        rest = np.flatnonzero(np.abs(np.asarray(x)) > tolerance)
        x = x[int(rest[0]) :] if rest.size else x[-1:]
    return whole, x


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The m-th derivative of a polynomial.

    Raises:
        ArgumentError: if `m` is negative.

    Example:
        >>> import tfn.numpy as tnp
        >>> polyder(tnp.array([1, 2, 3]))
        Array([2, 2], dtype=int32)
    """
    line = _coefficients("polyder", p)
    for _ in range(min(integer("polyder", "m", m, 0), line.size)):
        line = line[:-1] * arange(line.size - 1, 0, -1).astype(line.dtype)
    return line


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | Sequence[ArrayLike] | None = None) -> Array:
    """The m-th integral of a polynomial.

    Args:
        p: vector of coefficients, the highest power first.
        m: number of integrations, not negative; 1 by default.
        k: constant of integration, or a vector or a list of m of them; None takes 0.

    Returns:
        A floating vector of ``p.size + m`` coefficients.

    Raises:
        ArgumentError: if `m` is negative, or there is another number of constants.

    Example:
        >>> import tfn.numpy as tnp
        >>> polyint(tnp.array([3.0, 2.0, 1.0]))
        Array([1., 1., 1., 0.], dtype=float32)
    """
    line = _coefficients("polyint", p)
    line = line.astype(inexact((line.dtype, False))[0])
    m = integer("polyint", "m", m, 0)
    k = asarray(k, line.dtype) if isinstance(k, (list, tuple)) else k
    constants = (
        zeros(m, line.dtype)
        if k is None
        else atleast_1d(operands_of("polyint", k, line)[0]).astype(line.dtype)
    )
    if constants.size not in (1, m):
        raise ArgumentError(
            "polyint needs a constant for each integral",
            got=f"k={shown(constants)}, m={m}",
            hint="pass a single constant, or m of them",
        )
    constants = constants if constants.size == m else constants + zeros(m, line.dtype)
    for i in range(m):
        line = line / arange(line.size, 0, -1).astype(line.dtype)
        line = concatenate([line, constants[i : i + 1]])
    return line


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The polynomial with these roots, or the characteristic one of a square matrix.

    Example:
        >>> import tfn.numpy as tnp
        >>> poly(tnp.array([1.0, 2.0]))
        Array([ 1., -3.,  2.], dtype=float32)
    """
    zeroes = array_of("poly", seq_of_zeros)
    zeroes = eigvals(zeroes) if zeroes.ndim == 2 else atleast_1d(zeroes)
    zeroes = zeroes.astype(inexact((zeroes.dtype, False))[0])
    line = asarray([1.0]).astype(zeroes.dtype)
    for i in range(zeroes.size):
        line = concatenate([line, zeros(1, line.dtype)]) - pad(line * zeroes[i], (1, 0))
    return line


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The complex roots of a polynomial: the eigenvalues of its companion matrix.

    Unless `strip_zeros` is False, the value of `p` must be known, since zeros at its ends change
    the number of roots.

    Example:
        >>> import tfn.numpy as tnp
        >>> tnp.sort(roots(tnp.array([1.0, -3.0, 2.0])).real).tolist()
        [1.0, 2.0]
    """
    line = _coefficients("roots", p)
    trailing = 0
    if strip_zeros:
        places = np.asarray(flatnonzero(line))
        if not places.size:
            return zeros(0, "complex64")
        trailing = line.size - 1 - int(places[-1])
        line = line[int(places[0]) : int(places[-1]) + 1]
    line = line.astype(inexact((line.dtype, False))[0])
    size = max(line.size - 1, 0)
    matrix = diag(asarray(np.ones(max(size - 1, 0))).astype(line.dtype), -1)
    if size:
        matrix = matrix.at[0].set(-line[1:] / line[0])
    eigenvalues = eigvals(matrix) if size else zeros(0, eigvals(zeros((1, 1), line.dtype)).dtype)
    return concatenate([eigenvalues, zeros(trailing, eigenvalues.dtype)])


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """The polynomial of degree `deg` with the least sum of squared distances from points.

    Args:
        x: vector of the positions of the points.
        y: vector of their values, or matrix with one set of values in each column.
        deg: degree, not negative.
        rcond: singular values below this fraction of the largest count as zero; None takes the
            number of points times the machine precision.
        full: whether to return the residuals, the rank, the singular values and `rcond`, too.
        w: vector of factors of the distances; None for 1.
        cov: whether to return the covariance matrix of the coefficients, too; "unscaled" does not
            scale it by the residuals.

    Returns:
        A vector of ``deg + 1`` coefficients, the highest power first, or a matrix with one column
        for each of `y`; or a tuple of it and what was asked for.

    Raises:
        ArgumentError: for a negative degree.
        ShapeError: unless there is a value for each position.

    Example:
        >>> import tfn.numpy as tnp
        >>> polyfit(tnp.arange(4.0), 2 * tnp.arange(4.0) + 1, 1).round(3).tolist()
        [2.0, 1.0]
    """
    deg = integer("polyfit", "deg", deg, 0)
    places, values = _coefficients("polyfit", x), array_of("polyfit", y)
    if values.ndim not in (1, 2) or values.shape[0] != places.size:
        raise unfit(
            "polyfit needs a value, or a row of values, for each place",
            (places, values),
            "pass y of as many elements as x",
        )
    places = places.astype(inexact((places.dtype, False))[0])
    design = vander(places, deg + 1)
    targets = values.astype(places.dtype) if values.dtype.kind in "biu" else values
    if w is not None:
        factor = asarray(w).astype(places.dtype)
        design = design * factor[:, None]
        targets = targets * (factor if targets.ndim == 1 else factor[:, None])
    scale = add_up(design * design, 0) ** 0.5
    limit = places.size * finfo(places.dtype).eps if rcond is None else rcond
    solution = lstsq(design / scale, targets, float(limit))
    line = (solution.x.T / scale).T
    if full:
        return line, solution.residuals, solution.rank, solution.s, limit
    if not cov:
        return line
    inner = inv((design / scale).T @ (design / scale)) / (scale[:, None] * scale)
    if cov == "unscaled":
        return line, inner
    factor = solution.residuals / (places.size - (deg + 1))
    return line, inner * factor if targets.ndim == 1 else inner[:, :, None] * factor
