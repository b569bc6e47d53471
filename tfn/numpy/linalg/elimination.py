"""Systems and factors of small matrices by elimination: one loop for the whole stack.

    stack of [A b]  ->  rows, columns, stack  ->  column after column  ->  stack of x

A routine of LAPACK is called for each matrix of a stack, which takes longer than the arithmetic of
a matrix of 3 by 3.  Here the stack is the last axis, along which vectors run, and the columns are
the turns of a scan: no code grows with the matrices.

Source: G. Golub and C. Van Loan, Matrix Computations, sections 3.1, 3.4 and 4.2:
substitution by columns, partial pivoting, and Cholesky factors by outer products.
"""

from __future__ import annotations

from functools import partial
from math import nan

from tfn.array import Array
from tfn.dtypes import INT32
from tfn.eager.operands import apply
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.build import add_up, broadcast_to, eq, full_like, iota, where
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

LARGEST_MATRIX = 8
"""Rows of a matrix.  Measured on one core with AVX-512, beside the routine of LAPACK, in us: 512
systems of 3 by 3 take 8 and 79, of 8 by 8 120 and 300, one of 3 by 3 0.8 and 4.8; 64 of 16 by 16
take 93 and 112, fewer of them are slower."""


def solve(a: Array, b: Array) -> Array:
    """The solution x of a x = b by partial pivoting; NaN where a matrix is singular.

    Args:
        a: square matrices, of one row at least.
        b: matrices of right sides, with the same batches.
    """
    return apply(_solution, (a, b))


def triangular(a: Array, b: Array, lower: bool, transposed: bool, unit: bool) -> Array:
    """The solution x of op(a) x = b; of a zero on the diagonal come infinities and NaN.

    Args:
        a: square matrices, of one row at least, of which one triangle is read.
        b: matrices of right sides, with the same batches.
        lower: whether the lower triangle is read; else the upper one.
        transposed: whether op transposes.
        unit: whether the diagonal is taken to be 1, and not read.
    """
    solution = partial(_triangular, lower=lower != transposed, transposed=transposed, unit=unit)
    return apply(solution, (a, b))


def cholesky(a: Array) -> Array:
    """The lower factors of real matrices; NaN where one is not positive definite.

    Args:
        a: symmetric matrices, of one row at least, of which the lower triangle is read.
    """
    return apply(_cholesky, (a,))


def _triangular(a: UOp, b: UOp, lower: bool, transposed: bool, unit: bool) -> UOp:
    n, count = b.shape[-2:]
    stack = build.count(b.shape[:-2])
    matrix = build.reshape(a, (stack, n, n))
    matrix = build.permute(matrix, (2, 1, 0) if transposed else (1, 2, 0))
    right = build.permute(build.reshape(b, (stack, n, count)), (1, 2, 0))
    columns = iota((n,), 0)
    order = columns if lower else build.flip(columns, (0,))
    x = _repeated(partial(_substitute, lower=lower, unit=unit), [matrix], right, order)
    return build.reshape(build.permute(x, (2, 0, 1)), b.shape)


def _cholesky(a: UOp) -> UOp:
    n, stack = a.shape[-1], build.count(a.shape[:-2])
    lines = build.permute(build.reshape(a, (stack, n, n)), (1, 2, 0))
    x = _repeated(_take_root, [], lines, iota((n,), 0))
    row, column = iota(x.shape, 0), iota(x.shape, 1)
    no_root = eq(row, column) & ~(x > full_like(x, 0))
    failed = build.reduce(no_root, Op.MAX, (0, 1))
    x = where(row < column, full_like(x, 0), x)
    x = where(broadcast_to(failed, x.shape), full_like(x, nan), x)
    return build.reshape(build.permute(x, (2, 0, 1)), a.shape)


def _take_root(x: UOp, k: UOp) -> UOp:
    """Column k of the factor is known, and its products leave the matrix that remains."""
    shape, (n, _, stack) = x.shape, x.shape
    row, column, number = iota(shape, 0), iota(shape, 1), broadcast_to(k, shape)
    own, is_pivot = _at(x, 1, k), eq(iota((n, stack), 0), broadcast_to(k, (n, stack)))
    root = broadcast_to(build.unary(Op.SQRT, _at(own, 0, k)), (n, stack))
    own = where(is_pivot, root, own / root)
    wide = _columns(own, shape)
    across = broadcast_to(build.reshape(own, (1, n, stack)), shape)
    rest = where((row > number) & (column > number), x - wide * across, x)
    return where(eq(column, number), wide, rest)


def _solution(a: UOp, b: UOp) -> UOp:
    n, count = b.shape[-2:]
    stack = build.count(b.shape[:-2])
    both = build.reshape(build.concat([a, b], a.ndim - 1), (stack, n, n + count))
    columns = iota((n,), 0)
    reduced = _repeated(_eliminate, [], build.permute(both, (1, 2, 0)), columns)
    high = build.shrink(reduced, (0, 0, 0), (n, n, stack))
    right = build.shrink(reduced, (0, n, 0), (n, n + count, stack))
    x = _repeated(_substitute, [high], right, build.flip(columns, (0,)))
    on_diagonal = eq(iota(high.shape, 0), iota(high.shape, 1))
    zero = on_diagonal & eq(high, full_like(high, 0))
    singular = build.reduce(zero, Op.MAX, (0, 1))
    x = where(broadcast_to(singular, x.shape), full_like(x, nan), x)
    return build.reshape(build.permute(x, (2, 0, 1)), b.shape)


def _repeated(body: object, consts: list[UOp], x: UOp, columns: UOp) -> UOp:
    """The matrices after a step for each of the columns, by its number."""
    kinds = [(u.shape, u.dtype) for u in (*consts, x)]
    params = tuple(Param(i, *kind) for i, kind in enumerate([*kinds, ((), columns.dtype)]))
    turn = function([body(*map(param, params))], params)  # type: ignore[operator]
    return build.scan(turn, consts, [x], [columns], columns.size)[0]


def _at(x: UOp, axis: int, place: UOp) -> UOp:
    """The elements at a place of an axis, which vanishes."""
    here = eq(iota(x.shape, axis), broadcast_to(place, x.shape))
    return add_up(where(here, x, full_like(x, 0)), (axis,))


def _eliminate(x: UOp, k: UOp) -> UOp:
    """Row k is swapped with that of the largest element below, and subtracted from those below."""
    shape, (n, _, stack) = x.shape, x.shape
    row, column = iota(shape, 0), _at(x, 1, k)
    size = _size(column)
    above = iota((n, stack), 0) < broadcast_to(k, (n, stack))
    pivot = build.reduce(where(above, full_like(size, -1), size), Op.MAX, (0,), index=INT32)
    is_pivot = eq(row, broadcast_to(pivot, shape))
    chosen = add_up(where(is_pivot, x, full_like(x, 0)), (0,))
    x = where(is_pivot, broadcast_to(_at(x, 0, k), shape), x)
    factors = _at(x, 1, k) / broadcast_to(_at(chosen, 0, k), (n, stack))
    change = _columns(factors, shape) * broadcast_to(chosen, shape)
    number = broadcast_to(k, shape)
    return where(eq(row, number), broadcast_to(chosen, shape), where(row > number, x - change, x))


def _substitute(a: UOp, x: UOp, k: UOp, lower: bool = False, unit: bool = False) -> UOp:
    """Row k of the solution is known, and leaves the equations that remain."""
    shape, (_, count, stack) = x.shape, x.shape
    column, row, number = _at(a, 1, k), iota(x.shape, 0), broadcast_to(k, x.shape)
    known = _at(x, 0, k)
    known = known if unit else known / broadcast_to(_at(column, 0, k), (count, stack))
    change = _columns(column, shape) * broadcast_to(known, shape)
    remains = row > number if lower else row < number
    return where(eq(row, number), broadcast_to(known, shape), where(remains, x - change, x))


def _columns(x: UOp, shape: Shape) -> UOp:
    """An element of each row, in all columns."""
    return broadcast_to(build.reshape(x, (x.shape[0], 1, x.shape[1])), shape)


def _size(x: UOp) -> UOp:
    """Absolute values, by which pivots are chosen; of complex numbers those of both parts."""
    return build.unary(Op.ABS, build.real(x)) + build.unary(Op.ABS, build.imag(x))
