"""Systems of small matrices by Gaussian elimination: one loop for the whole stack.

    stack of [A b]  ->  rows, columns, stack  ->  column after column  ->  stack of x

A routine of LAPACK is called for each matrix of a stack, which takes longer than the arithmetic of
a matrix of 3 by 3.  Here the stack is the last axis, along which vectors run, and the columns are
the turns of a scan: no code grows with the matrices.

Source: G. Golub and C. Van Loan, Matrix Computations, section 3.4, partial pivoting.
"""

from __future__ import annotations

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


def _substitute(high: UOp, x: UOp, k: UOp) -> UOp:
    """Row k of the solution is known, and leaves the equations above it."""
    shape, (_, count, stack) = x.shape, x.shape
    column, row, number = _at(high, 1, k), iota(x.shape, 0), broadcast_to(k, x.shape)
    known = _at(x, 0, k) / broadcast_to(_at(column, 0, k), (count, stack))
    change = _columns(column, shape) * broadcast_to(known, shape)
    return where(eq(row, number), broadcast_to(known, shape), where(row < number, x - change, x))


def _columns(x: UOp, shape: Shape) -> UOp:
    """An element of each row, in all columns."""
    return broadcast_to(build.reshape(x, (x.shape[0], 1, x.shape[1])), shape)


def _size(x: UOp) -> UOp:
    """Absolute values, by which pivots are chosen; of complex numbers those of both parts."""
    return build.unary(Op.ABS, build.real(x)) + build.unary(Op.ABS, build.imag(x))
