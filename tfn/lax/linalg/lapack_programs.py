"""Routines of LAPACK as programs of the language, for where there is no LAPACK: exported functions.

    host[getrf] a   ->   scan over columns: the pivot, the swap, the update of the rest

They take and return the same arrays as the routines of `lapack.CALLS`: matrices by columns, their
batches first.  A column is a turn of a scan, over the whole stack, so that no code grows with the
matrices; each turn updates all elements, of which a mask keeps those that are done.

Sources: G. Golub and C. Van Loan, Matrix Computations, 4th edition, 2013, algorithms 3.1.2 (systems
of triangles), 3.4.1 (LU), 4.2.1 (Cholesky), 5.2.1 (QR by reflections); E. Anderson et al., "LAPACK
Users' Guide", 3rd edition, 1999, for arguments and results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from tfn.array import Array
from tfn.dtypes import COMPLEXES, INT32, DType
from tfn.lax.linalg import jacobi
from tfn.lax.loops import fori_loop, scan
from tfn.numpy.arithmetic import abs as magnitude
from tfn.numpy.complex import conj, imag, real
from tfn.numpy.contraction import matmul
from tfn.numpy.creation import ones_like, zeros
from tfn.numpy.elementary import sqrt
from tfn.numpy.indexing import take_along_axis
from tfn.numpy.linalg.lapack import Routine
from tfn.numpy.linalg.stacks import adjoint
from tfn.numpy.logic import isfinite, where
from tfn.numpy.manipulation import broadcast_to, diagonal, matrix_transpose, moveaxis
from tfn.numpy.matrices import eye, tril
from tfn.numpy.padding import pad
from tfn.numpy.ranges import arange
from tfn.numpy.reductions import argmax
from tfn.numpy.reductions import max as largest
from tfn.numpy.reductions import sum as add_up
from tfn.trace.argument import Host
from tfn.trace.build import several
from tfn.trace.inline import unfold
from tfn.trace.jaxpr import Jaxpr, function, inline
from tfn.trace.op import Op
from tfn.trace.uop import UOp
from tfn.transforms.jit import jit
from tfn.transforms.shapes import ShapeDtypeStruct

Arrays = Sequence[Array]


def without_lapack(jaxpr: Jaxpr) -> Jaxpr:
    """A function in which routines of LAPACK are programs, as far as `PROGRAMS` has them."""

    def replaced(u: UOp) -> Sequence[UOp]:
        run = u.arg.run
        if not isinstance(run, Routine) or run.name not in PROGRAMS:
            return several(u)
        return inline(_program(run, tuple((s.shape, s.dtype) for s in u.src), u.arg), u.src)

    return Jaxpr(function(unfold(jaxpr.outputs, {Op.HOST: replaced}), jaxpr.params))


@cache
def _program(run: Routine, kinds: tuple[tuple[Any, DType], ...], host: Host) -> Jaxpr:
    """The program of a routine for operands of these shapes and dtypes."""
    wide = len(host.results)

    def of_operands(*operands: Array) -> list[Array]:
        return [*PROGRAMS[run.name](run.flags, wide, *operands)]

    structs = [ShapeDtypeStruct(shape, dtype) for shape, dtype in kinds]
    jaxpr: Jaxpr = jit(of_operands).trace(*structs).jaxpr
    return jaxpr


# Elements of matrices whose rows are the last axis but one.


def _rows(x: Array) -> Array:
    """The number of the row of each element, as a column."""
    return arange(x.shape[-2], dtype=INT32)[:, None]


def _columns(x: Array) -> Array:
    """The number of the column of each element, as a row."""
    return arange(x.shape[-1], dtype=INT32)


def _row(x: Array, k: Array) -> Array:
    """Row k, as matrices of one row."""
    return add_up(where(_rows(x) == k, x, 0), -2, keepdims=True)


def _column(x: Array, k: Array) -> Array:
    """Column k, as matrices of one column."""
    return add_up(where(_columns(x) == k, x, 0), -1, keepdims=True)


def _size(x: Array) -> Array:
    """The size by which pivots are chosen; of complex numbers the sum of both parts."""
    return magnitude(real(x)) + magnitude(imag(x)) if x.dtype in COMPLEXES else magnitude(x)


def _infos(x: Array) -> Array:
    """The success codes of matrices that are all good."""
    return zeros(x.shape[:-2], INT32)


def _first(info: Array, failed: Array, k: Array) -> Array:
    """The codes after turn k, which failed for some matrices: they count from 1."""
    return where((info == 0) & failed, k + 1, info)


# LU.


def _getrf(flags: str, wide: int, lines: Array) -> Arrays:
    a = matrix_transpose(lines)
    rows, columns = _rows(a), _columns(a)
    if 0 in a.shape[-2:]:
        return lines, zeros((*a.shape[:-2], 0), INT32), _infos(a)

    def turn(carry: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], Array]:
        a, info = carry
        pivot = argmax(where(rows < k, -1, _size(_column(a, k))), -2, keepdims=True).astype(INT32)
        chosen = take_along_axis(a, pivot, -2)
        a = where(rows == pivot, _row(a, k), a)
        a = where(rows == k, chosen, a)
        diagonal = _column(chosen, k)
        is_zero = diagonal == 0
        factors = _column(a, k) / where(is_zero, 1, diagonal)
        rest = where(columns == k, factors, a - factors * where(columns > k, chosen, 0))
        return (where(rows > k, rest, a), _first(info, is_zero[..., 0, 0], k)), pivot[..., 0, 0]

    turns = arange(min(a.shape[-2:]), dtype=INT32)
    (a, info), pivots = scan(turn, (a, _infos(a)), turns)
    return matrix_transpose(a), moveaxis(pivots, 0, -1) + 1, info


def _swapped(x: Array, pivots: Array, backwards: bool = False) -> Array:
    """Matrices after the swaps of their rows with pivots, which count from 1, one after another."""
    rows = _rows(x)
    if pivots.shape[-1] == 0:
        return x

    def turn(i: Array, x: Array) -> Array:
        k = pivots.shape[-1] - 1 - i if backwards else i
        other = take_along_axis(pivots, broadcast_to(k, (*pivots.shape[:-1], 1)), -1)
        other = other[..., None] - 1
        mine, chosen = _row(x, k), take_along_axis(x, other.astype(INT32), -2)
        return where(rows == k, chosen, where(rows == other, mine, x))

    result: Array = fori_loop(0, pivots.shape[-1], turn, x)
    return result


def _laswp(flags: str, wide: int, pivots: Array, lines: Array) -> Arrays:
    return (matrix_transpose(_swapped(matrix_transpose(lines), pivots)),)


def _triangular(a: Array, b: Array, lower: bool, unit: bool) -> Array:
    """The solution of a x = b, row by row."""
    rows = _rows(b)

    def turn(i: Array, x: Array) -> Array:
        k = i if lower else a.shape[-1] - 1 - i
        column = _column(a, k)
        known = _row(x, k) if unit else _row(x, k) / _row(column, k)
        is_left = rows > k if lower else rows < k
        return where(rows == k, known, where(is_left, x - column * known, x))

    result: Array = fori_loop(0, a.shape[-1], turn, b)
    return result


def _trsm(flags: str, wide: int, lines: Array, right: Array) -> Arrays:
    a, b = matrix_transpose(lines), matrix_transpose(right)
    lower, unit = (flags[0] == "L") == (flags[1] == "N"), flags[2] == "U"
    x = _triangular(a if flags[1] == "N" else lines, b, lower, unit)
    return (matrix_transpose(x),)


def _getrs(flags: str, wide: int, packed: Array, pivots: Array, right: Array) -> Arrays:
    a, x = matrix_transpose(packed), matrix_transpose(right)
    if flags == "N":
        x = _triangular(a, _swapped(x, pivots), True, True)
        x = _triangular(a, x, False, False)
    else:
        x = _triangular(packed, x, True, False)
        x = _swapped(_triangular(packed, x, False, True), pivots, backwards=True)
    return matrix_transpose(x), _infos(a)


# Cholesky and QR.


def _potrf(flags: str, wide: int, lines: Array) -> Arrays:
    a = matrix_transpose(lines)
    rows, columns = _rows(a), _columns(a)

    def turn(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        a, info = carry
        column = _column(a, k)
        pivot = real(_row(column, k))
        root = sqrt(pivot).astype(a.dtype)
        column = where(rows > k, column / root, where(rows == k, root, 0))
        rest = a - column * matrix_transpose(conj(column))
        a = where((columns > k) & (rows >= columns), rest, a)
        a = where((columns == k) & (rows >= k), column, a)
        return a, _first(info, ~(pivot > 0)[..., 0, 0], k)  # a NaN fails too

    a, info = fori_loop(0, a.shape[-1], turn, (a, _infos(a)))
    return matrix_transpose(a), info


def _norm(x: Array) -> Array:
    """The lengths of columns, without overflow of the squares."""
    size = largest(_size(x), -2, keepdims=True, initial=0)
    scale = where(size > 0, size, 1)
    scaled = x / scale.astype(x.dtype)
    return scale * sqrt(add_up(real(scaled * conj(scaled)), -2, keepdims=True))


def _geqrf(flags: str, wide: int, lines: Array) -> Arrays:
    a = matrix_transpose(lines)
    rows, columns = _rows(a), _columns(a)

    def turn(a: Array, k: Array) -> tuple[Array, Array]:
        column = _column(a, k)
        first, below = _row(column, k), where(rows > k, column, 0)
        is_done = (largest(_size(below), -2, keepdims=True, initial=0) == 0) & (
            imag(first) == 0 if a.dtype in COMPLEXES else True
        )
        length = _norm(where(rows >= k, column, 0))
        diagonal = where(real(first) > 0, -length, length).astype(a.dtype)
        scale = where(is_done, 0, (diagonal - first) / where(is_done, 1, diagonal))
        shifted = where(is_done, 1, first - diagonal)
        reflection = where(rows == k, 1, below / shifted).astype(a.dtype)
        products = matmul(adjoint(reflection), a)
        rest = a - conj(scale) * reflection * products
        a = where((columns > k) & (rows >= k), rest, a)
        kept = where(rows == k, where(is_done, first, diagonal), reflection)
        return where((columns == k) & (rows >= k), kept, a), scale[..., 0, 0]

    a, scales = scan(turn, a, arange(min(a.shape[-2:]), dtype=INT32))
    return matrix_transpose(a), moveaxis(scales, 0, -1), _infos(a)


def _orgqr(flags: str, wide: int, scales: Array, lines: Array) -> Arrays:
    packed = matrix_transpose(lines)
    rows = _rows(packed)

    def turn(i: Array, q: Array) -> Array:
        k = scales.shape[-1] - 1 - i
        column = _column(packed, k)
        reflection = where(rows > k, column, where(rows == k, ones_like(column), 0))
        scale = _column(scales[..., None, :], k)
        return q - scale * reflection * matmul(adjoint(reflection), q)

    start = broadcast_to(eye(packed.shape[-2], packed.shape[-1], dtype=packed.dtype), packed.shape)
    q = fori_loop(0, scales.shape[-1], turn, start)
    return matrix_transpose(q), _infos(packed)


# Eigenvalues and singular values.


def _syevd(flags: str, wide: int, lines: Array) -> Arrays:
    low = tril(matrix_transpose(lines))
    a = low + adjoint(tril(low, -1))
    info, a = _finite(where(_rows(a) == _columns(a), real(a).astype(a.dtype), a))
    values, vectors = jacobi.eigh(a)
    return (matrix_transpose(vectors), values, info)[3 - wide :]


def _gesdd(flags: str, wide: int, lines: Array) -> Arrays:
    a = matrix_transpose(lines)
    is_wide = a.shape[-2] < a.shape[-1]
    info, a = _finite(adjoint(a) if is_wide else a)
    x, values, v = jacobi.svd(a)
    if flags == "N":
        return values, info
    # Columns of x that vanish are completed to a basis by reflections.
    packed, scales, _ = _geqrf("", 3, matrix_transpose(x))
    signs = where(real(diagonal(packed, 0, -2, -1)) < 0, -1, 1).astype(x.dtype)
    missing, batch = a.shape[-2] - a.shape[-1] if flags == "A" else 0, [(0, 0)] * (a.ndim - 2)
    q, _ = _orgqr("", 2, scales, pad(packed, [*batch, (0, missing), (0, 0)]))
    signs = pad(signs, [*batch, (0, missing)], constant_values=1)
    u = matrix_transpose(q) * signs[..., None, :]
    u, v = (v, u) if is_wide else (u, v)
    return matrix_transpose(u), values, conj(v), info


def _finite(a: Array) -> tuple[Array, Array]:
    """Success codes of matrices, 1 where one is not finite; and the matrices, or 0."""
    good = isfinite(a).all((-2, -1))
    return where(good, 0, 1).astype(INT32), where(good[..., None, None], a, 0)


PROGRAMS: dict[str, Callable[..., Arrays]] = {
    "getrf": _getrf,
    "getrs": _getrs,
    "trsm": _trsm,
    "laswp": _laswp,
    "potrf": _potrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "syevd": _syevd,
    "gesdd": _gesdd,
}
"""The routines by their names; each takes flags, the number of results, and the operands."""
